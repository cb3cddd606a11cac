"""A pattern that is searched in a text that may go on: its matches that are settled, and where it is open. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import regex

from penstock.detection.patterns.open_matches import Opening, opening

if TYPE_CHECKING:
    from collections.abc import Iterator


class Trace(NamedTuple):
    """What a rule made of a stretch of text.

    Attributes:
        start: where the stretch begins; a text is never cut within it.
        end: where it ends.
        low: where what was found in it begins.
        high: where that ends.
        counts: whether it is what the rule looks for; a stretch that is not may still hide what begins within.
    """

    start: int
    end: int
    low: int
    high: int
    counts: bool = True


Scan: TypeAlias = "tuple[list[Trace], int]"
"""Traces in a text, and the place from which on they may still change."""


class Shape:
    """A pattern; compiled when it is first needed."""

    def __init__(self, pattern: str | regex.Pattern[str], flags: int = regex.ASCII) -> None:
        self._pattern = pattern
        self._flags = flags

    @cached_property
    def compiled(self) -> regex.Pattern[str]:
        """The pattern itself."""
        return regex.compile(self._pattern, self._flags) if isinstance(self._pattern, str) else self._pattern

    @cached_property
    def opening(self) -> Opening | None:
        """What tells where it is open."""
        return opening(self.compiled.pattern, self.compiled.flags)

    def walk(self, text: str, start: int, *, final: bool, longest: int = 0) -> tuple[list[regex.Match[str]], int]:
        """Return the settled matches from ``start`` on, and the place from which on they are not.

        ``longest`` is how many characters, at most, the pattern reads from one place on; 0 if that has no bound.
        """
        found = self.compiled.finditer(text, start)
        since = len(text) - longest if longest else 0
        return (list(found), len(text)) if final else self.settled(found, text, start, since=since)

    def quiet(self, text: str, start: int, timeout: float | None = None) -> int | None:
        """Return the place from which on the text may yet match, if nothing matches so far; else None.

        Raises:
            TimeoutError: it took longer than it may.
        """
        if self.opening is None:
            return start
        found = self.opening.any.search(text, start, partial=True, timeout=timeout)
        if found is None:
            return len(text)
        return found.start() if found.partial else None

    def settled(
        self, found: Iterator[regex.Match[str]], text: str, start: int, timeout: float | None = None, since: int = 0
    ) -> tuple[list[regex.Match[str]], int]:
        """Return those of the matches, found from ``start`` on, that no continuation changes, and where one may.

        ``since`` is a place from which on alone a match can be open.

        Raises:
            TimeoutError: it took longer than it may.
        """
        if self.opening is None:
            return [], start
        kept: list[regex.Match[str]] = []
        open_at = self.open_at(text, max(start, since), timeout)
        for match in found:
            low, high = match.span()
            if low >= open_at:
                break
            if high > open_at:
                open_at = self.open_at(text, max(high, since), timeout)
            if low == high and self.opening.other.match(text, low, partial=True, timeout=timeout):
                return kept, low
            kept.append(match)
        return kept, open_at

    def open_at(self, text: str, start: int, timeout: float | None = None) -> int:
        """Return the first place from ``start`` on at which a match may begin that the text's end does not settle."""
        if self.opening is None:
            return start
        found = self.opening.first.search(text, start, partial=True, timeout=timeout)
        return found.start() if found else len(text)

    def is_open(self, text: str, at: int) -> bool:
        """Tell whether the text's end does not settle if a match begins there."""
        return self.opening is None or self.opening.first.match(text, at, partial=True) is not None
