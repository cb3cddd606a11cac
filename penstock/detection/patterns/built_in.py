"""What a built-in rule is, and how one is made of a pattern. It knows how to find, not what to do about it.

Every rule takes time in proportion to the text, and says of a text that goes on what is settled. A pattern begins with
letters that a plain search jumps to, and looks back no farther than `LOOKBACK`. The place where a rule's trigger
begins is never parted from the word before it, so a rule is asked nothing before its trigger is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.detection.patterns.open_matches import StreamPattern, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.detection.patterns.open_matches import Scan

    Span: TypeAlias = tuple[int, int]

LOOKBACK = 128
"""How many characters before a match a built-in rule may look at."""

WORD_HELD = 96
"""How many characters of the last word are held, since a trigger may come behind it: a rule's trigger and what it lets
grow to the left of it are shorter together. The longest is an e-mail address's local part: 64 (RFC 5321, 4.5.3.1.1)."""

LETTER = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff"
"""Letters of words that e-mail addresses are made of, as the inside of a character class: ASCII, Latin, Greek and
Cyrillic. Other scripts are written without spaces, so a word would not end. No trigger has a letter of them."""

RUN = "[A-Za-z0-9_-]{20}"
"""The trigger of rules for long words."""

_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_GROWTH = 64  # how far a find may grow to the left


class RuleSearch(Protocol):
    """Looks through a text from a place on; ``final`` tells that the text ends there."""

    def __call__(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces, and where they may change."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltInRule:
    """A built-in rule.

    Attributes:
        name: what it is called.
        replacement: what it puts in place.
        trigger: a regular expression that a text must match where a match of the rule begins or soon after, without
            white space in what it matches.
        search: looks through a text.
        mark: the letters that a match begins with, all others being its ``trigger``; then ``search`` looks at one place
            alone.
    """

    name: str
    replacement: str
    trigger: str
    search: RuleSearch
    mark: str = ""


def pattern_rule(
    name: str,
    replacement: str,
    pattern: str,
    *,
    trigger: str,
    near: str = "",
    check: Callable[[str], bool] | None = None,
    grow: bool = False,
) -> BuiltInRule:
    """Return a rule that is one regular expression (ASCII classes).

    Args:
        name: what it finds.
        replacement: what stands in its place.
        pattern: where it has a group called ``secret``, only that was found.
        trigger: see `BuiltInRule`.
        near: a word that must stand before it, in any case, no farther than `_NEAR`.
        check: has the last word on what was found.
        grow: what was found begins where the word begins that it stands in.
    """
    shape = StreamPattern(pattern)
    group = "secret" if "(?P<secret>" in pattern else 0

    def search(text: str, start: int, *, final: bool) -> Scan:
        matches, hold = shape.walk(text, start, final=final)
        traces: list[Trace] = []
        for found in matches:
            low, high = found.span(group)
            begin = _grown(text, found.start()) if grow else found.start()
            counts = (check is None or check(found.group(group))) and _is_near(near, text, found.start())
            traces.append(Trace(begin, found.end(), begin if grow else low, high, counts))
        return traces, _grown(text, hold) if grow and hold < len(text) else hold

    return BuiltInRule(name, replacement, trigger, search)


_NEAR = 80  # characters between a provider's name and its key; longer than a line of a form


def _is_near(word: str, text: str, at: int) -> bool:
    return not word or word in text[max(at - _NEAR, 0) : at].lower()


def prefix_rule(name: str, replacement: str, mark: str, rest: str, check: Callable[[str], bool] | None) -> BuiltInRule:
    """Return the rule for a word that begins with a provider's mark: ``rest`` is what must follow."""
    shape = StreamPattern(rf"{re.escape(mark)}(?:{rest})(?![A-Za-z0-9])")

    def search(text: str, start: int, *, final: bool) -> Scan:
        if not final and shape.is_open(text, start):
            return [], start
        found = shape.compiled.match(text, start)
        if found is None:
            return [], len(text)
        return [Trace(*found.span(), *found.span(), check is None or check(found.group()))], len(text)

    return BuiltInRule(name, replacement, re.escape(mark), search, mark)


def _grown(text: str, start: int) -> int:
    """Return where the word begins that the place stands in."""
    low = max(start - _GROWTH, 0)
    while start > low and text[start - 1] in _WORD:
        start -= 1
    return start
