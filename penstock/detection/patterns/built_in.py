"""`BuiltInRule`, and the functions that make one of a pattern or of a prefix.

Every rule takes time in proportion to the text, and says of a text that goes on which findings are final. A pattern
begins with letters that a plain search finds, and looks back no farther than `LOOKBACK`. The place where the trigger of
a rule begins is never cut from the word before it, so a rule is not asked before its trigger is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.detection.patterns.open_matches import StreamPattern, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.detection.patterns.open_matches import Scan
    from penstock.detection.places.labels import HeaderWords

    Span: TypeAlias = tuple[int, int]

LOOKBACK = 128
"""How many characters before a match a built-in rule may look at."""

WORD_HELD = 96
"""How many characters of the last word are held, since a trigger may follow it.

The trigger of a rule, together with what it lets grow to the left, is shorter. The longest is the local part of an
e-mail address: 64 characters (RFC 5321, 4.5.3.1.1).
"""

LETTER = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u0400-\u04ff"
"""Letters of the words in e-mail addresses, as the inside of a character class: ASCII, Latin, Greek and Cyrillic.

Other scripts are written without spaces, so a word would not end. No trigger has one of these letters.
"""

RUN = "[A-Za-z0-9_-]{20}"
"""The trigger of rules for long words."""

_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_GROWTH = 64  # how far a find may grow to the left
_MOST_GLUED = 8  # keys that may follow the first one without a space


class RuleSearch(Protocol):
    """Searches a text from a place on; ``final``: the text ends here."""

    def __call__(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces, and the place from which on they may change."""
        ...


@dataclass(frozen=True, slots=True)
class BuiltInRule:
    """A built-in rule.

    Attributes:
        name: the name of its findings.
        replacement: what replaces it.
        trigger: a regular expression that matches, without white space in the match, where a match of the rule begins
            or soon after. It does not look back over white space.
        search: searches a text.
        prefix: the fixed letters that a match begins with, if they are its whole ``trigger``; then ``search`` looks at
            one place only. Empty for other rules.
        digits: how many digits a match has at least, none farther from the next than `digits_from` allows; 0 for rules
            that need not have any.
        headers: how the rule knows headers of columns that name its findings; None if no header helps.
    """

    name: str
    replacement: str
    trigger: str
    search: RuleSearch
    prefix: str = ""
    digits: int = 0
    headers: HeaderWords | None = None


def pattern_rule(
    name: str,
    replacement: str,
    pattern: str,
    *,
    trigger: str,
    near: str = "",
    check: Callable[[str], bool] | None = None,
    grow: bool = False,
    longest: int = 0,
    by_re: bool = False,
    begins: str = "",
) -> BuiltInRule:
    """Return a rule that is one regular expression (ASCII classes).

    Args:
        name: the name of its findings.
        replacement: what replaces it.
        pattern: the expression; if it has a group named ``secret``, only the group is the finding.
        trigger: see `BuiltInRule`.
        near: a word that must stand at most 80 characters before the match, in any case; empty for none.
        check: decides from the finding whether it counts; None for every one.
        grow: whether the finding begins where the word begins that it stands in.
        longest: how many characters the expression reads at most from one place on; 0 if there is no bound.
        by_re: see `StreamPattern`, also for ``begins``.
        begins: a pattern of the first character of each match; empty if it may be any.
    """
    shape = StreamPattern(pattern, by_re=by_re, begins=begins)
    group = "secret" if "(?P<secret>" in pattern else 0

    def search(text: str, start: int, *, final: bool) -> Scan:
        matches, hold = shape.walk(text, start, final=final, longest=longest)
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


def prefix_rule(
    name: str, replacement: str, prefix: str, rest: str, check: Callable[[str], bool] | None
) -> BuiltInRule:
    """Return the rule for a word that begins with a provider's prefix; ``rest`` is the pattern behind it.

    Keys of one provider that stand side by side without a space are one finding.
    """
    one = f"{re.escape(prefix)}(?:{rest})"
    shape = StreamPattern(rf"{one}(?:{one}){{0,{_MOST_GLUED}}}(?![A-Za-z0-9])")

    def search(text: str, start: int, *, final: bool) -> Scan:
        if not final and shape.is_open(text, start):
            return [], start
        found = shape.compiled.match(text, start, concurrent=False)
        if found is None:
            return [], len(text)
        return [Trace(*found.span(), *found.span(), check is None or check(found.group()))], len(text)

    return BuiltInRule(name, replacement, re.escape(prefix), search, prefix)


def judged(rule: BuiltInRule, judge: Callable[[str, Trace], Trace]) -> BuiltInRule:
    """Return a rule whose traces are judged once more, with the text that they stand in."""

    def search(text: str, start: int, *, final: bool) -> Scan:
        traces, hold = rule.search(text, start, final=final)
        return [judge(text, trace) for trace in traces], hold

    return replace(rule, search=search)


def _grown(text: str, start: int) -> int:
    """Return where the word begins in which a place lies."""
    low = max(start - _GROWTH, 0)
    while start > low and text[start - 1] in _WORD:
        start -= 1
    return start
