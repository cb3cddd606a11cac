r"""Patterns in a text that may go on: which matches are final, and from where on a match may still begin or change.

A search with ``partial=True`` reports a place as soon as a path from there reads past the text's end, unless the whole
pattern matches first. So two things are added. The pattern becomes an atomic group that nothing can follow: it never
matches, and no path behind its first match is tried, so a match that ends before the text's end is final. And tokens
that look at the next character without reading it (``\b``, ``$``) are made to read it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import regex

from penstock.detection.deferred import deferred
from penstock.detection.long_texts import is_long
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_NEVER = "(?!)"
_READ_NEXT = {
    **{f"\\{letter}": rf"(?:(?=[\s\S])\{letter})" for letter in "bBmMZz"},
    "$": r"(?:(?=\n[\s\S]|[\s\S])$)",  # it may stand before a newline that ends the text
}
_TOKEN = deferred(
    r"""(?sx)
      (?P<escape> \\(?:[pPN]\{[^}]*\}|[gk]<[^>]*>|.) )
    | (?P<set> \[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\] )
    | (?P<note> \(\?\#[^)]*\) )
    | (?P<behind> \(\?<[=!] )
    | (?P<odd> \(\* | \(\?(?:\(\?|R|&|[+-]?[0-9]|P>) | \(\?[A-Za-z-]*x[A-Za-z-]*: | \{[0-9idse+,<=\s]*[idse][^}]*\} )
    | (?P<backreference> \(\?P= )
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<many> [*+] | \{\d*,\} )
    | (?P<times> \{\d*,?(?P<most>\d+)\} )
    | (?P<dollar> \$ )
    """
)
_COMMENT = deferred(r"\#[^\n]*")
# Matches that are found from right to left, that are the best rather than the first, or longer than what they match.
_ODD_FLAGS = regex.REVERSE | regex.BESTMATCH | regex.ENHANCEMATCH | regex.POSIX | regex.WORD | regex.FULLCASE | regex.V1
_ODD_ESCAPES = frozenset(("\\K", "\\G", "\\X", "\\R", "\\L"))
_FARTHEST = 1024  # a longer look-behind is treated as one without bounds


class OpenMatchPatterns(NamedTuple):
    """Patterns that tell where another pattern is open: where a match may still begin, or end elsewhere.

    Attributes:
        any: the pattern itself, changed so that it reads the text that it looks at.
        first: the pattern as a search tries it: the first way that matches.
        other: all ways that match, for a second match at the place of an empty one.
        lookback: how many characters before a match the pattern may look at.
        spaced: whether it may read a space or a line feed; if not, it is open in the last word only.
    """

    any: regex.Pattern[str]
    first: regex.Pattern[str]
    other: regex.Pattern[str]
    lookback: int
    spaced: bool


@dataclass(slots=True)
class _PatternGroup:
    start: int
    behind: bool
    times: int = 1
    bounded: bool = True


@lru_cache(maxsize=512)
def open_match_patterns(pattern: str, flags: int) -> OpenMatchPatterns | None:
    """Return the patterns that tell where a pattern is open; None if that cannot be told: then it may be open anywhere.

    Args:
        pattern: a pattern that compiles.
        flags: the flags of the compiled pattern, inline flags included.
    """
    if flags & _ODD_FLAGS:
        return None
    try:
        rewritten, lookback = _rewritten(pattern, verbose=bool(flags & regex.VERBOSE))
    except _OddError:
        return None
    line = "\n" if flags & regex.VERBOSE else ""  # a comment may stand at the end
    try:
        itself = regex.compile(rewritten, flags)
        first = regex.compile(f"(?>{rewritten}{line}){_NEVER}", flags)
        other = regex.compile(f"(?:{rewritten}{line}){_NEVER}", flags)
    except regex.error:
        return None
    return OpenMatchPatterns(itself, first, other, lookback + 1, _may_read_space(pattern, flags))


_READS_NO_SPACE = frozenset((*(f"\\{letter}" for letter in "wdSbBAZz"), *(f"\\{sign}" for sign in "./+*?()[]{}|^$~-:")))


def _may_read_space(pattern: str, flags: int) -> bool:
    """Return whether a pattern may read a space or a line feed; True where that cannot be told at a glance."""
    if flags & regex.VERBOSE:
        return True
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            if pattern[at] in " \n.":
                return True
            at += 1
            continue
        token, kind = found.group(), found.lastgroup
        if (
            kind == "dollar"
            or (kind == "set" and regex.search(token, " \n", flags))
            or (kind == "escape" and token not in _READS_NO_SPACE)
        ):
            return True
        at = found.end()
    return False


_NO_LITERAL = regex.IGNORECASE | regex.VERBOSE | _ODD_FLAGS
_KNOWN_ESCAPES = frozenset("wWdDsSbBAZzmM")  # all that stands for is in the escape itself


def required_literal(pattern: str, flags: int) -> str:
    """Return the longest text that each match of a pattern contains, as far as that is seen at a glance; or nothing.

    Args:
        pattern: a pattern that compiles.
        flags: the flags of the compiled pattern, inline flags included.
    """
    if flags & _NO_LITERAL:
        return ""
    runs, depth, at = [""], 0, 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        read, kind = (found.group(), found.lastgroup) if found is not None else (pattern[at], None)
        at += len(read)
        if kind == "odd" or (kind == "escape" and read[1].isalnum() and read[1] not in _KNOWN_ESCAPES):
            return ""
        depth += {"open": 1, "behind": 1, "backreference": 1, "close": -1}.get(kind or "", 0)
        if depth or kind == "close":
            runs.append("")
        elif read == "|":
            return ""
        elif read in ("?", "*") or read.startswith("{"):
            runs[-1] = runs[-1][:-1]  # what stands before it may be missing
            runs.append("")
        elif (kind is None and read not in ".^+") or (kind == "escape" and not read[1].isalnum()):
            runs[-1] += read[-1]
        else:
            runs.append("")
    return max(runs, key=len)


class _OddError(Exception):
    """The pattern has something for which it cannot be told where it is open."""


def _rewritten(pattern: str, *, verbose: bool) -> tuple[str, int]:
    """Return the pattern, changed so that it reads the text that it looks ahead at, and how far it looks back.

    Raises:
        _OddError: that cannot be told.
    """
    made: list[str] = []
    at, farthest = 0, 0
    groups: list[_PatternGroup] = []
    while at < len(pattern):
        found = (_COMMENT.match(pattern, at) if verbose else None) or _TOKEN.match(pattern, at)
        if found is None:
            made.append(pattern[at])
            at += 1
            continue
        token, kind = found.group(), found.lastgroup or "note"
        farthest = max(farthest, _noted(groups, found, kind))
        made.append(_READ_NEXT.get(token, token) if kind in ("escape", "dollar") else token)
        at = found.end()
    return "".join(made), farthest


def _noted(groups: list[_PatternGroup], found: re.Match[str], kind: str) -> int:
    """Note the facts of a token for the groups that contain it; return how far back a group looks that it closes."""
    token = found.group()
    if kind == "odd" or token in _ODD_ESCAPES:
        raise _OddError
    if kind in ("open", "behind", "backreference"):
        groups.append(_PatternGroup(found.end(), kind == "behind", bounded=kind != "backreference"))
    if kind == "close" and groups:
        return _closed(groups, found.start())
    if kind in ("many", "times") or (kind == "escape" and (token[1].isdigit() or token[1] in "gk")):
        for group in groups:
            group.times *= int(found.group("most") or 1) if kind == "times" else 1
            group.bounded &= kind == "times"
    return 0


def _closed(groups: list[_PatternGroup], end: int) -> int:
    """Return how far back the group that ends looks. No item of a pattern is shorter than the text that it reads."""
    group = groups.pop()
    if groups and not group.bounded:
        groups[-1].bounded = False
    if not group.behind:
        return 0
    width = (end - group.start) * max(group.times, 1)
    if not group.bounded or width > _FARTHEST:
        raise _OddError
    return width


class Trace(NamedTuple):
    """The text that a rule read, and its findings there.

    Attributes:
        start: where the stretch begins; a text is never cut within it.
        end: where it ends.
        low: where the finding in it begins.
        high: where the finding ends.
        counts: whether it is a finding of the rule. A stretch that is none may still hide one that begins within it.
    """

    start: int
    end: int
    low: int
    high: int
    counts: bool = True


Scan: TypeAlias = "tuple[list[Trace], int]"
"""Traces in a text, and the place from which on they may still change."""


_ONE_CALL = 2_000  # characters that a single call reads before others should run meanwhile


def _is_slow(text: str, start: int, timeout: float | None = None) -> bool:
    """Return whether one of several calls may take so long that other threads should run meanwhile."""
    return timeout is not None or is_long(text, start)


def _is_slow_alone(text: str, start: int, timeout: float | None) -> bool:
    """Return that of a call that is made once for a text."""
    return timeout is not None or len(text) - start > _ONE_CALL


def collected(found: Iterable[regex.Match[str]]) -> list[regex.Match[str]]:
    """Return all matches; many are found step by step, so that other threads have their turn."""
    kept: list[regex.Match[str]] = []
    for match in found:
        checkpoint()
        kept.append(match)
    return kept


class StreamPattern:
    """A pattern that is searched in a text that may go on; it is compiled when it is first needed.

    Searches with a time limit and searches in long texts let other threads run meanwhile. The others are short and do
    not: a thread that waits for its turn would be woken each time, and find the interpreter taken again.
    """

    def __init__(
        self,
        pattern: str | regex.Pattern[str],
        flags: int = regex.ASCII,
        *,
        by_re: bool = False,
        begins: str = "",
        unread: str = "",
    ) -> None:
        """Store the pattern.

        Args:
            pattern: the pattern.
            flags: its flags; those of the compiled pattern if it is one.
            by_re: whether `re` searches for its matches, since it is quicker where a pattern begins with a class of
                characters. It must mean the same to both, in ASCII at least: it is a text. With other flags than the
                usual ones, texts beyond ASCII are left to `regex`.
            begins: a pattern of the first character of each match, for `re`: then only places with such a character
                are asked whether a match is open there. Empty if it may be any.
            unread: characters, as the inside of a character class, that no match has: a match is open only behind the
                last of them. Empty if they are not known.
        """
        self._pattern = pattern
        self._flags = flags
        self._by_re = by_re
        self._begins = deferred(begins) if begins else None
        self._unread = unread

    @cached_property
    def _last_unread(self) -> regex.Pattern[str]:
        return regex.compile(f"(?r)[{self._unread}]")

    @cached_property
    def compiled(self) -> regex.Pattern[str]:
        """The pattern itself."""
        return regex.compile(self._pattern, self._flags) if isinstance(self._pattern, str) else self._pattern

    @cached_property
    def _quick(self) -> re.Pattern[str]:
        return re.compile(self.compiled.pattern, re.ASCII)

    @cached_property
    def literal(self) -> str:
        """A text that each match contains; empty if none is known."""
        return required_literal(self.compiled.pattern, self.compiled.flags)

    def matches(self, text: str, start: int, end: int = sys.maxsize) -> Iterator[regex.Match[str]]:
        """Return the matches between two places; `re` would stop other threads in a long text."""
        if self._by_re and (self._flags == regex.ASCII or text.isascii()) and not is_long(text, start):
            return cast("Iterator[regex.Match[str]]", self._quick.finditer(text, start, end))  # they have equal methods
        return self.compiled.finditer(text, start, end, concurrent=_is_slow(text, start))

    @cached_property
    def open_patterns(self) -> OpenMatchPatterns | None:
        """The patterns that tell where it is open; None if that cannot be told."""
        return open_match_patterns(self.compiled.pattern, self.compiled.flags)

    def walk(self, text: str, start: int, *, final: bool, longest: int = 0) -> tuple[list[regex.Match[str]], int]:
        """Return the final matches from ``start`` on, and the place from which on matches are not final.

        ``longest`` is how many characters the pattern reads at most from one place on; 0 if there is no bound.
        """
        found = self.matches(text, start)
        since = len(text) - longest if longest else 0
        return (collected(found), len(text)) if final else self.final_matches(found, text, start, since=since)

    def quiet(self, text: str, start: int, timeout: float | None = None) -> int | None:
        """Return the place from which on the text may still match, if nothing matches so far; else None.

        Raises:
            TimeoutError: it took longer than it may.
        """
        if self.open_patterns is None:
            return start
        slow = _is_slow_alone(text, start, timeout)
        found = self.open_patterns.any.search(text, start, partial=True, timeout=timeout, concurrent=slow)
        if found is None:
            return len(text)
        return found.start() if found.partial else None

    def final_matches(
        self, found: Iterator[regex.Match[str]], text: str, start: int, timeout: float | None = None, since: int = 0
    ) -> tuple[list[regex.Match[str]], int]:
        """Return those matches from ``start`` on that no continuation changes, and the place from which on one may.

        ``since`` is the first place at which a match can be open.

        Raises:
            TimeoutError: it took longer than it may.
        """
        if self.open_patterns is None:
            return [], start
        kept: list[regex.Match[str]] = []
        open_at = self.open_at(text, max(start, since), timeout)
        for match in found:
            checkpoint()
            low, high = match.span()
            if low >= open_at:
                break
            if high > open_at:
                open_at = self.open_at(text, max(high, since), timeout)
            if low == high and self._may_grow(text, low, timeout):
                return kept, low
            kept.append(match)
        return kept, open_at

    def _may_grow(self, text: str, at: int, timeout: float | None) -> bool:
        """Return whether a match of no width may become one with a width."""
        if self.open_patterns is None:
            return True
        slow = _is_slow(text, at, timeout)
        return bool(self.open_patterns.other.match(text, at, partial=True, timeout=timeout, concurrent=slow))

    def open_at(self, text: str, start: int, timeout: float | None = None) -> int:
        """Return the first place from ``start`` on at which a match may begin, depending on how the text goes on."""
        if self.open_patterns is None or start >= len(text):
            return start
        if not self.open_patterns.spaced:
            start = max(start, text.rfind(" ", start) + 1, text.rfind("\n", start) + 1)
        if self._unread:
            last = self._last_unread.search(text, start, concurrent=False)
            start = start if last is None else last.end()
        slow = _is_slow_alone(text, start, timeout)
        first = self.open_patterns.first
        if self._begins is not None and not slow:
            places = (one.start() for one in self._begins.finditer(text, start))
            return next((at for at in places if first.match(text, at, partial=True, concurrent=False)), len(text))
        found = first.search(text, start, partial=True, timeout=timeout, concurrent=slow)
        return found.start() if found else len(text)

    def is_open(self, text: str, at: int) -> bool:
        """Return whether it depends on how the text goes on if a match begins at a place."""
        if self.open_patterns is None:
            return True
        return self.open_patterns.first.match(text, at, partial=True, concurrent=_is_slow(text, at)) is not None
