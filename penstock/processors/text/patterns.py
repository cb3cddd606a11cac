"""What a built-in pattern is, and how one is made. It knows how to find, not what to do about it.

Every finder is linear in the text. A pattern begins with letters that a plain search jumps to, looks back only so far
as it must to refuse a start inside a word, and repeats only what the next item cannot also match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Span: TypeAlias = tuple[int, int]

_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_GROWTH = 64  # how far a find may grow to the left


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in rule: what it is called, what it puts in place, and how it finds."""

    name: str
    replacement: str
    find: Callable[[str], Iterable[Span]]


def shaped(
    name: str,
    replacement: str,
    pattern: str,
    *,
    hint: str = "",
    check: Callable[[str], bool] | None = None,
    grow: bool = False,
) -> BuiltIn:
    """Return a rule that is one regular expression (ASCII classes).

    Args:
        name: what it finds.
        replacement: what stands in its place.
        pattern: where it has a group called ``secret``, only that was found.
        hint: a text without this (in any case) is not searched.
        check: has the last word on what was found.
        grow: what was found begins where the word begins that it stands in.
    """
    compiled = re.compile(pattern, re.ASCII)
    group = "secret" if "secret" in compiled.groupindex else 0

    def find(text: str) -> Iterator[Span]:
        if hint in text or hint in text.lower():
            for found in compiled.finditer(text):
                if check is None or check(found.group(group)):
                    start, end = found.span(group)
                    yield (_grown(text, start) if grow else start), end

    return BuiltIn(name, replacement, find)


def prefixed(name: str, replacement: str, prefix: str, rest: str, check: Callable[[str], bool] | None) -> BuiltIn:
    """Return the rule for a word that begins with a provider's mark: ``rest`` is what must follow."""
    mark = re.escape(prefix)
    compiled = re.compile(rf"{mark}(?<![A-Za-z0-9_-]{mark})(?:{rest})(?![A-Za-z0-9])", re.ASCII)

    def find(text: str) -> Iterator[Span]:
        if prefix in text:
            for found in compiled.finditer(text):
                if check is None or check(found.group()):
                    yield found.span()

    return BuiltIn(name, replacement, find)


_SEPARATOR = re.compile(r"[:=]+>?|!==?")
_QUOTE = re.compile(r"""\s{0,12}(["'`]?)""")
_WINDOW = 72  # how far before its separator a label may begin


@dataclass(frozen=True, slots=True)
class Value:
    """How a value must look behind a label.

    Attributes:
        bare: the characters of a value without quotes, as the inside of a class.
        quoted: those of a value in quotes.
        least: how many there must be.
        check: has the last word; it is told whether the value stood in quotes.
    """

    bare: str
    quoted: str
    least: int
    check: Callable[[str, bool], bool]


def labelled(name: str, replacement: str, label: str, value: Value, *, whole: bool = False) -> BuiltIn:
    """Return the rule for what stands behind a label and a separator: the value, or the ``whole`` assignment."""
    ends_in_label = re.compile(rf"""(?i)(?:{label})["'\])]{{0,2}}\s{{0,12}}$""", re.ASCII)
    bare = re.compile(f"[{value.bare}]{{{value.least},128}}+")
    quoted = re.compile(f"[{value.quoted}]{{{value.least},128}}+")
    rest = re.compile(f"[{value.bare}]*")

    def find(text: str) -> Iterator[Span]:
        reach = 0
        for separator in _SEPARATOR.finditer(text):
            if separator.start() < reach:
                continue
            opening = _QUOTE.match(text, separator.end())
            mark = opening.group(1) if opening else ""
            begin = opening.end() if opening else separator.end()
            found = (quoted if mark else bare).match(text, begin)
            if found is None or (mark and text[found.end() : found.end() + 1] not in (mark, "")):
                found = bare.match(text, begin) if mark and whole else None
            if (
                found is None
                or not value.check(found.group(), bool(mark))
                or text[found.end() : found.end() + 1] in ("(", "[")
            ):
                continue
            words = ends_in_label.search(text, max(separator.start() - _WINDOW, 0), separator.start())
            if words is not None:
                tail = rest.match(text, found.end())
                reach = tail.end() if tail and not mark else found.end()
                yield (words.start() if whole else begin), reach

    return BuiltIn(name, replacement, find)


def _grown(text: str, start: int) -> int:
    """Return where the word begins that the place stands in."""
    low = max(start - _GROWTH, 0)
    while start > low and text[start - 1] in _WORD:
        start -= 1
    return start
