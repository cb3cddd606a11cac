r"""The pattern that tells where another one is still open: a match may yet begin there, end elsewhere, or vanish. Pure.

A search with ``partial=True`` reports a place as soon as a path from there reads past the text's end, unless the whole
pattern fits first. Two things must be added. The pattern becomes an atomic group that nothing can follow, so it never
fits, and the paths behind the first that does are not tried: a match found before the end was read is settled. And
what looks at the next character without reading it (``\b``, ``$``) is made to read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import regex

_NEVER = "(?!)"
_READ_NEXT = {
    **{f"\\{letter}": rf"(?:(?=[\s\S])\{letter})" for letter in "bBmMZz"},
    "$": r"(?:(?=\n[\s\S]|[\s\S])$)",  # it may stand before a newline that ends the text
}
_TOKEN = re.compile(
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
_COMMENT = re.compile(r"\#[^\n]*")
# Matches that are found from right to left, that are the best rather than the first, or longer than what they match.
_ODD_FLAGS = regex.REVERSE | regex.BESTMATCH | regex.ENHANCEMATCH | regex.POSIX | regex.WORD | regex.FULLCASE | regex.V1
_ODD_ESCAPES = frozenset(("\\K", "\\G", "\\X", "\\R", "\\L"))
_FARTHEST = 1024  # a longer look-behind is treated as one without bounds


class Opening(NamedTuple):
    """What tells where a pattern is open.

    Attributes:
        any: the pattern itself, made to read what it looks at.
        first: the pattern as a search tries it: the first way that fits.
        other: all ways that fit, for a second match at the place where an empty one was found.
        lookback: how many characters before a match it may look at.
    """

    any: regex.Pattern[str]
    first: regex.Pattern[str]
    other: regex.Pattern[str]
    lookback: int


@dataclass(slots=True)
class _Group:
    start: int
    behind: bool
    times: int = 1
    bounded: bool = True


@lru_cache(maxsize=512)
def opening(pattern: str, flags: int) -> Opening | None:
    """Return what tells where the pattern is open; None if nothing can: then it may be open anywhere.

    Args:
        pattern: a pattern that compiles.
        flags: those of the compiled one, inline flags among them.
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
    return Opening(itself, first, other, lookback + 1)


class _OddError(Exception):
    """The pattern has something that cannot be told in advance."""


def _rewritten(pattern: str, *, verbose: bool) -> tuple[str, int]:
    """Return the pattern with what looks ahead made to read, and how far it looks back.

    Raises:
        _OddError: that cannot be told.
    """
    made: list[str] = []
    at, farthest = 0, 0
    groups: list[_Group] = []
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


def _noted(groups: list[_Group], found: re.Match[str], kind: str) -> int:
    """Note what a token says about the groups it stands in; return how far back it ends to look."""
    token = found.group()
    if kind == "odd" or token in _ODD_ESCAPES:
        raise _OddError
    if kind in ("open", "behind", "backreference"):
        groups.append(_Group(found.end(), kind == "behind", bounded=kind != "backreference"))
    if kind == "close" and groups:
        return _closed(groups, found.start())
    if kind in ("many", "times") or (kind == "escape" and (token[1].isdigit() or token[1] in "gk")):
        for group in groups:
            group.times *= int(found.group("most") or 1) if kind == "times" else 1
            group.bounded &= kind == "times"
    return 0


def _closed(groups: list[_Group], end: int) -> int:
    """Return how far back the group that ends looks; no item of a pattern is shorter than what it reads."""
    group = groups.pop()
    if groups and not group.bounded:
        groups[-1].bounded = False
    if not group.behind:
        return 0
    width = (end - group.start) * max(group.times, 1)
    if not group.bounded or width > _FARTHEST:
        raise _OddError
    return width
