"""`RegexRule`, a rule that a user writes, and `UserRule`, the rule after it was checked and compiled."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import regex

from penstock.detection.deferred import deferred
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.patterns.validators import VALIDATORS
from penstock.engine.values.errors import OptionError
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.detection.patterns.open_matches import Scan

_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "x": regex.VERBOSE}
_KEPT_FLAGS = {
    re.IGNORECASE: regex.I,
    re.MULTILINE: regex.M,
    re.DOTALL: regex.S,
    re.VERBOSE: regex.X,
    re.ASCII: regex.A,
}
_GROUP = deferred(r"\$(?:(\$)|(&)|([`'])|(\d{1,2})|<([^>]*)>)")

Pattern: TypeAlias = "str | re.Pattern[str] | regex.Pattern[str]"


@dataclass(frozen=True, slots=True)
class RegexRule:
    """A rule of your own. A mapping with these keys is accepted too.

    Attributes:
        name: the name of the rule's findings, in reasons and counts.
        pattern: a regular expression in the syntax of the ``regex`` library, which includes that of ``re``; a str or a
            compiled pattern.
        flags: letters of ``gimsux``; ``g`` by default. With ``g`` every match counts, without it only the first one in
            each text; ``u`` has no effect.
        replacement: the text that replaces a match when the strategy is to redact; ``[REDACTED]`` by default. ``$1``,
            ``$<name>``, ``$&`` and ``$$`` stand for groups, the match and a dollar sign, if the pattern also matches
            the matched text alone.
        validator: decides from the matched text whether it counts: a function, or a name from
            `penstock.detection.patterns.validators.VALIDATORS`; None (the default) for every match.
        timeout: seconds that it may take on one text, above 0; None (the default) for the processor's.
    """

    name: str
    pattern: Pattern
    flags: str = "g"
    replacement: str = "[REDACTED]"
    validator: str | Callable[[str], bool] | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class UserRule:
    """A `RegexRule` that was checked and compiled."""

    name: str
    replacement: str
    shape: StreamPattern = field(compare=False)
    every: bool
    validator: Callable[[str], bool] | None
    timeout: float

    @property
    def lookback(self) -> int:
        """How many characters before a match it may look at; 0 if that cannot be told."""
        return self.shape.open_patterns.lookback if self.shape.open_patterns else 0

    @property
    def asks_user(self) -> bool:
        """Whether a function of the user's has a say."""
        return self.validator is not None and self.validator not in VALIDATORS.values()

    def scan(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces from ``start`` on, and the place from which on more text may change them.

        Matches of no width give no trace. A rule for the first match only ends with the first match that counts,
        whatever its width.

        Raises:
            TimeoutError: it took longer than it may.
        """
        traces: list[Trace] = []
        hold = len(text)
        if final and not self.may_match(text):
            return traces, hold
        try:
            if not final and (quiet := self.shape.quiet(text, start, self.timeout)) is not None:
                return traces, quiet
            matches: Iterable[regex.Match[str]] = self.shape.compiled.finditer(text, start, timeout=self.timeout)
            if not final:
                matches, hold = self.shape.final_matches(iter(matches), text, start, self.timeout)
            for found in matches:
                checkpoint()
                counts = self.validator is None or self.validator(found.group())
                traces.append(Trace(*found.span(), *found.span(), counts))
                if counts and not self.every:
                    return traces, len(text)
        except TimeoutError:
            raise self._too_slow() from None
        return traces, hold

    def may_match(self, text: str) -> bool:
        """Return whether a text has the literal that each match contains."""
        return self.shape.literal in text

    def matches(self, text: str, start: int) -> bool:
        """Return whether it matches anywhere in a text that ends, from a place on.

        Raises:
            TimeoutError: it took longer than it may.
        """
        found = self.may_match(text) and self.shape.compiled.search(text, start, timeout=self.timeout)
        return bool(found)

    def expand(self, matched: str) -> str:
        """Return the replacement of a match; its groups are filled in if the pattern matches the text by itself."""
        if "$" not in self.replacement:
            return self.replacement
        try:
            found = self.shape.compiled.search(matched, timeout=self.timeout)
        except TimeoutError:
            raise self._too_slow() from None
        if found is None or found.span() != (0, len(matched)):
            return self.replacement
        return _GROUP.sub(lambda reference: _filled(reference, found), self.replacement)

    def _too_slow(self) -> TimeoutError:
        return TimeoutError(f"rule {self.name!r} took longer than {self.timeout} s on one text")


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at a text for one rule of the user's, or for several.

    A piece of a text that goes on is searched with one pattern for all of them. A text that ends is searched rule by
    rule: that takes a quarter of the time, since most rules pass over a text that lacks their first character.
    """

    shape: StreamPattern
    timeout: float
    rules: Sequence[UserRule]

    def quiet(self, text: str, start: int, *, final: bool) -> int | None:
        """Return from which place on more text may change that nothing matches; None if something may match.

        If the text is ``final``, that is its end. It is None, too, if that takes longer than it may: `UserRule.scan`
        says so.
        """
        try:
            if not final:
                return self.shape.quiet(text, start, self.timeout)
            return None if any(rule.matches(text, start) for rule in self.rules) else len(text)
        except TimeoutError:
            return None


def glances(rules: Iterable[UserRule]) -> list[Glance]:
    """Return the patterns to look for before each rule is searched; rules that fit into one pattern share it."""
    made: list[Glance] = []
    together: dict[int, list[UserRule]] = {}
    for rule in rules:
        if rule.shape.open_patterns is None or not _can_be_joined(rule.shape.compiled):
            made.append(Glance(rule.shape, rule.timeout, (rule,)))
        else:
            together.setdefault(rule.shape.compiled.flags, []).append(rule)
    for flags, group in together.items():
        joined = "|".join(f"(?:{rule.shape.compiled.pattern})" for rule in group)
        made.append(Glance(StreamPattern(joined, flags), min(rule.timeout for rule in group), group))
    return made


_ESCAPE = deferred(r"\\(.)", re.DOTALL)
_REFERRING = frozenset("0123456789gGKLkpPN")  # escapes for groups, and for what is not one character
_SPECIAL = deferred(r"\(\?(?![:=!>]|<[=!])|\(\*")


def _can_be_joined(pattern: regex.Pattern[str]) -> bool:
    """Return whether a pattern means the same as one of several alternatives: it has no names, numbers or flags."""
    given = pattern.pattern
    refers = pattern.flags & regex.VERBOSE or not _REFERRING.isdisjoint(_ESCAPE.findall(given))
    return not refers and _SPECIAL.search(_ESCAPE.sub("_", given)) is None


def _filled(reference: re.Match[str], found: regex.Match[str]) -> str:
    """Return the text of a ``$`` reference (ECMA-262, GetSubstitution)."""
    dollar, whole, around, number, name = reference.groups()
    if dollar or whole or around:  # nothing stands before or after a match that is the whole text
        return "$" if dollar else found.group() if whole else ""
    if name is not None:
        return reference.group() if not found.re.groupindex else (found.groupdict().get(name) or "")
    for digits in (number, number[0]):
        if 1 <= int(digits) <= len(found.groups()):
            return (found.group(int(digits)) or "") + number[len(digits) :]
    return reference.group()


def checked(processor: str, index: int, given: Any, timeout: float) -> UserRule:
    """Return a rule, checked and compiled.

    Raises:
        OptionError: something is wrong with it; the error names the rule and the field.
    """
    option = f"rules[{index}]"
    rule = _as_rule(processor, option, given)
    name = _text(processor, f"{option}.name", rule.name)
    if not name:
        raise OptionError(processor, f"{option}.name", name, "a non-empty str")
    option = f"{option} ({name})"
    return UserRule(
        name,
        _text(processor, f"{option}.replacement", rule.replacement),
        StreamPattern(_compiled(processor, option, rule)),
        "g" in rule.flags,
        _validator(processor, option, rule.validator),
        seconds(processor, f"{option}.timeout", timeout if rule.timeout is None else rule.timeout),
    )


def _text(processor: str, option: str, given: object) -> str:
    if not isinstance(given, str):
        raise OptionError(processor, option, given, "a str")
    return given


def seconds(processor: str, option: str, given: object) -> float:
    """Return the option if it is a finite number of seconds above 0.

    Raises:
        OptionError: it is not.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise OptionError(processor, option, given, "a number of seconds above 0")
    return float(given)


def _as_rule(processor: str, option: str, given: Any) -> RegexRule:
    if isinstance(given, RegexRule):
        return given
    names = [item.name for item in fields(RegexRule)]
    if not isinstance(given, Mapping):
        raise OptionError(processor, option, type(given).__name__, f"a RegexRule or a mapping of {', '.join(names)}")
    options = cast("dict[str, Any]", given)
    keys: list[object] = [*options]
    if not set(keys) <= set(names) or not {"name", "pattern"} <= set(keys):
        raise OptionError(
            processor, option, sorted(map(str, keys)), f"keys of {', '.join(names)}, name and pattern among them"
        )
    return RegexRule(**options)


def _compiled(processor: str, option: str, rule: RegexRule) -> regex.Pattern[str]:
    allowed = {*_FLAGS, "g", "u"}
    letters = _text(processor, f"{option}.flags", rule.flags)
    if not set(letters) <= allowed:
        raise OptionError(processor, f"{option}.flags", letters, "letters of 'gimsux'")
    flags = 0
    for letter in letters:
        flags |= _FLAGS.get(letter, 0)
    given: Pattern = rule.pattern
    if isinstance(given, re.Pattern):
        flags |= sum(ours for theirs, ours in _KEPT_FLAGS.items() if given.flags & theirs)
    elif isinstance(given, regex.Pattern):
        flags |= given.flags & sum(_KEPT_FLAGS.values())
    pattern: object = getattr(given, "pattern", given)
    if not isinstance(pattern, str):
        raise OptionError(processor, f"{option}.pattern", type(pattern).__name__, "a str or a compiled pattern of str")
    try:
        return regex.compile(pattern, flags)
    except regex.error as error:
        raise OptionError(processor, f"{option}.pattern", pattern, f"a regular expression: {error}") from error


def _validator(processor: str, option: str, given: Any) -> Callable[[str], bool] | None:
    if given is None or callable(given):
        return given  # type: ignore[no-any-return]
    if given not in VALIDATORS:
        raise OptionError(
            processor, f"{option}.validator", given, f"a function or one of {', '.join(map(repr, VALIDATORS))}"
        )
    return VALIDATORS[given]
