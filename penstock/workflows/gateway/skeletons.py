"""`Skeleton`: the form of an event that differs from the one before it in a piece of text, and in ids.

Almost all events of a stream are such. Once one was read with the table, its neighbours need not be parsed: whatever is
not the piece, or a counter or an id, must be the same byte for byte.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.workflows.gateway.tables import is_sealed, is_term

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.formats.wire import Value
    from penstock.workflows.gateway.blocks import TextBlock
    from penstock.workflows.gateway.frames import EventFrame
    from penstock.workflows.gateway.tables import Path

VARIES: Mapping[str, Callable[[Value], bool]] = {
    **dict.fromkeys(("id", "event_id", "created", "sequence_number"), is_term),
    **dict.fromkeys(("obfuscation", "p"), is_sealed),
}
"""The keys whose values may change from event to event (ids, times, counters, padding), and the form they must have."""

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]++').fullmatch
_NUMBER = rb"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?"
_TOKEN = re.compile(
    rb'\s*+(?:(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<number>-?\d[\d.eE+-]*+)|(?P<mark>[\[\]{},:])|[a-z]++)'
)


class Skeleton:
    """The form of one event. Lives as long as the answer.

    Attributes:
        block: the block that the piece belongs to.
        path: where the piece stands.
        chunk: a chunk of the block, without a text.
        kind: the type of the event that `next_text` compares others with.
        begin: where the data of that event begins in its bytes; they end two bytes behind it.
        left: the data of the last event of this form that has left.
        left_kind: the type of that event.
    """

    __slots__ = (
        "_around", "_checks", "_last", "_match", "_place", "begin", "block", "chunk", "kind", "left", "left_kind",
        "path",
    )  # fmt: skip

    def __init__(
        self, pattern: bytes, place: int, checks: Sequence[Callable[[Value], bool]], block: TextBlock, path: Path
    ) -> None:
        self._match = re.compile(pattern).fullmatch
        self._place = place
        self._checks = checks
        self._last: tuple[bytes, ...] | None = None
        self._around: tuple[bytes, bytes] | None = None
        self.block = block
        self.path = path
        self.chunk = Chunk(block.delta, id=block.name)
        self.kind = self.left_kind = ""
        self.left = b"{}"
        self.begin = 0

    def text(self, data: bytes, frame: EventFrame | None = None) -> str | None:
        """Return the piece of text of an event of this form; None for one of another form.

        Args:
            data: the data of the event.
            frame: the event, for `next_text`.
        """
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
            self._around = None
            if frame is not None:
                self._note(frame, data, *found.span(self._place + 1))
        try:
            text: str = json.loads(piece) if b"\\" in piece else piece[1:-1].decode()
        except ValueError:
            return None
        return text

    def _note(self, frame: EventFrame, data: bytes, start: int, end: int) -> None:
        """Note the bytes around the piece of text, which stands with its quotes at ``start`` to ``end`` of the data."""
        raw, begin = frame.raw, frame.raw.find(data)
        if begin + len(data) + 2 == len(raw) and raw.endswith(b"\n\n") and b"\r" not in raw:
            self._around = raw[: begin + start + 1], raw[begin + end - 1 :]
            self.kind, self.begin = frame.event, begin

    def next_text(self, raw: bytes) -> str | None:
        """Return the piece of text of an event that differs in nothing else from the last one that `text` has read.

        None for any other one, and for a text with escapes.
        """
        if self._around is None:
            return None
        before, behind = self._around
        if not raw.startswith(before) or not raw.endswith(behind):
            return None
        text = raw[len(before) : -len(behind)]
        if _PLAIN(text) is None:
            return None
        try:
            return text.decode()
        except ValueError:
            return None


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
