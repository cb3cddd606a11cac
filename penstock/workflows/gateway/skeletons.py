"""`Skeleton`: the form of an event that differs from the one before it in a piece of text, and in ids.

Almost all events of a stream are such. Once one was read with the table, its neighbours need not be parsed: whatever is
not the piece, or a counter or an id, must be the same byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from penstock.workflows.gateway.tables import is_sealed, is_term

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.formats.wire import Value
    from penstock.workflows.gateway.blocks import TextBlock
    from penstock.workflows.gateway.tables import Path

VARIES: Mapping[str, Callable[[Value], bool]] = {
    **dict.fromkeys(("id", "event_id", "created", "sequence_number"), is_term),
    **dict.fromkeys(("obfuscation", "p"), is_sealed),
}
"""The keys whose values may change from event to event (ids, times, counters, padding), and the form they must have."""

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER = rb"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?"
_TOKEN = re.compile(
    rb'\s*+(?:(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<number>-?\d[\d.eE+-]*+)|(?P<mark>[\[\]{},:])|[a-z]++)'
)


class Skeleton:
    """The form of one event. Lives as long as the answer.

    Attributes:
        block: the block that the piece belongs to.
        path: where the piece stands.
    """

    __slots__ = ("_checks", "_last", "_match", "_place", "block", "path")

    def __init__(
        self, pattern: bytes, place: int, checks: Sequence[Callable[[Value], bool]], block: TextBlock, path: Path
    ) -> None:
        self._match = re.compile(pattern).fullmatch
        self._place = place
        self._checks = checks
        self._last: tuple[bytes, ...] = ()
        self.block = block
        self.path = path

    def text(self, data: bytes) -> str | None:
        """Return the piece of text of an event of this form; None for one of another form."""
        found = self._match(data)
        if found is None:
            return None
        groups = found.groups()
        piece = groups[self._place]
        rest = groups[: self._place] + groups[self._place + 1 :]
        if rest != self._last:
            if not all(_fits(one, check) for one, check in zip(rest, self._checks, strict=True)):
                return None
            self._last = rest
        try:
            text: str = json.loads(piece) if b"\\" in piece else piece[1:-1].decode()
        except ValueError:
            return None
        return text


def _fits(raw: bytes, check: Callable[[Value], bool]) -> bool:
    if raw.isdigit() and (raw[:1] != b"0" or len(raw) == 1):
        return check(int(raw[:1]))  # any number will do
    try:
        return check(json.loads(raw) if b"\\" in raw or raw[:1] != b'"' else raw[1:-1].decode())
    except ValueError:
        return False


def skeleton_of(data: bytes, path: Path, block: TextBlock) -> Skeleton | None:
    """Return the form of an event whose only text stands at a path; None if it has none that can be told.

    Args:
        data: the event, which is JSON without ambiguities, and was read with the table.
        path: where the text stands.
        block: the block that it belongs to.
    """
    pattern: list[bytes] = []
    checks: list[Callable[[Value], bool]] = []
    place = None
    for start, end, where, is_text in _leaves(data):
        check = VARIES.get(str(where[-1])) if where else None
        if where == path and is_text:
            place = len(checks)
        elif check is not None:
            checks.append(check)
        else:
            pattern.append(re.escape(data[start:end]))
            continue
        pattern.append(b"(" + (_STRING if is_text else _NUMBER) + b")")
    return None if place is None else Skeleton(b"".join(pattern), place, checks, block, path)


def _leaves(data: bytes) -> list[tuple[int, int, Path | None, bool]]:
    """Return the spans of a JSON text in order; strings and numbers that are values come with their paths."""
    found: list[tuple[int, int, Path | None, bool]] = []
    path: list[str | int] = []
    is_list: list[bool] = []
    at, key_next = 0, False
    for token in _TOKEN.finditer(data):
        mark, string = token["mark"], token["string"]
        start = token.start("string") if string else token.start("number") if token["number"] else token.start()
        if start > at:
            found.append((at, start, None, False))
        is_key = string is not None and key_next
        if string is not None and key_next:
            path[-1] = json.loads(string)
        is_leaf = not is_key and (string is not None or token["number"] is not None)
        found.append((start, token.end(), tuple(path) if is_leaf else None, string is not None))
        at = token.end()
        key_next = False
        if mark in (b"{", b"["):
            is_list.append(mark == b"[")
            path.append(0 if mark == b"[" else "")
            key_next = mark == b"{"
        elif mark in (b"}", b"]"):
            is_list.pop()
            path.pop()
        elif mark == b"," and is_list:
            if is_list[-1]:
                path[-1] = int(path[-1]) + 1
            else:
                key_next = True
    if at < len(data):
        found.append((at, len(data), None, False))
    return found
