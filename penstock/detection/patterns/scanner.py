"""`Scanner`: searches a text with all built-in rules: as it is written, without its disguise, and without escapes.

`PrefixRules` searches for rules whose matches begin with a fixed prefix all at once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import regex

from penstock.detection.codes import may_escape, read_escapes
from penstock.detection.long_texts import characters, matches, matches_somewhere
from penstock.detection.patterns.built_in import LETTER, LOOKBACK, WORD_HELD
from penstock.detection.patterns.open_matches import Trace
from penstock.detection.unicode.disguises import PlainPlaces, PlainReading, is_plain, read, reading_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.detection.patterns.built_in import BuiltInRule, RuleSearch


_KEY = 2  # letters of a mark by which its rules are looked up; no mark is shorter


class PrefixRules:
    """Rules whose matches begin with a fixed prefix, with their indexes among all rules.

    Attributes:
        trigger: a pattern of no width that matches where one of the prefixes stands.
    """

    def __init__(self, rules: Iterable[tuple[int, BuiltInRule]]) -> None:
        self._rules: dict[str, list[tuple[int, BuiltInRule]]] = {}
        rests: dict[str, list[str]] = {}
        for index, rule in rules:
            self._rules.setdefault(rule.prefix[:_KEY], []).append((index, rule))
            rests.setdefault(rule.prefix[0], []).append(re.escape(rule.prefix[1:]))
        firsts = "".join(map(re.escape, rests))
        branches = "|".join(f"{re.escape(first)}(?:{'|'.join(after)})" for first, after in rests.items())
        self.trigger = rf"(?<![A-Za-z0-9_-])(?=[{firsts}])(?={branches})"
        self._places = re.compile(self.trigger)

    def search(self, text: str, start: int, *, final: bool) -> tuple[Sequence[tuple[int, Trace]], int]:
        """Return the traces from ``start`` on, each with the index of its rule, and from where on they may change.

        A rule does not read again what it has read.
        """
        found: list[tuple[int, Trace]] = []
        reach: dict[int, int] = {}
        hold = len(text)
        for place in matches(self._places, text, start):
            at = place.start()
            for index, rule in self._rules[text[at : at + _KEY]]:
                if text.startswith(rule.prefix, at) and reach.get(index, 0) <= at:
                    traces, open_at = rule.search(text, at, final=final)
                    hold = min(hold, open_at)
                    found.extend((index, trace) for trace in traces)
                    reach[index] = traces[0].end if traces else 0
        return found, hold


IndexedTrace: TypeAlias = "tuple[int, Trace]"
"""A trace with the index of its rule among all rules."""

_Source: TypeAlias = "tuple[re.Pattern[str], Sequence[tuple[int, RuleSearch]]]"
"""A trigger, and the searches of the rules that have it, with their indexes."""


class Before(NamedTuple):
    """The end of the decided text as it reads; None where it reads as it is written.

    Attributes:
        plain: without its disguise.
        unescaped: without its disguise and without escapes.
    """

    plain: str | None = None
    unescaped: str | None = None


BEGUN = Before()
"""What stands before a text: nothing."""

_NO_RULE = -1
_NOT_IN_WORD = regex.compile(f"(?r)[^!-~{LETTER}]")


class Scanner:
    """The built-in rules with their indexes among all rules, ready to search."""

    def __init__(self, rules: Iterable[tuple[int, BuiltInRule]]) -> None:
        rules = list(rules)
        searches: dict[str, list[tuple[int, RuleSearch]]] = {}
        for index, rule in rules:
            if not rule.prefix:
                searches.setdefault(rule.trigger, []).append((index, rule.search))
        groups: dict[frozenset[str], list[_Source]] = {}
        for trigger, found in searches.items():
            groups.setdefault(_needed(trigger), []).append((re.compile(trigger), found))
        self._groups = [*groups.items()]
        prefixed = [(index, rule) for index, rule in rules if rule.prefix]
        self._prefix_rules = PrefixRules(prefixed) if prefixed else None

    def search(self, text: str, start: int, before: Before, *, final: bool) -> tuple[list[IndexedTrace], int]:
        """Return what is found from ``start`` on, and the place from which on that may change.

        ``before`` is how the text before ``start`` ends.
        """
        found, hold = self._one(text, start, final=final)
        if before.plain is not None or not is_plain(text, start):
            again, behind = self._plain(text, start, before.plain, final=final)
            found += again
            hold = min(hold, behind)
        if before.plain == before.unescaped and not may_escape(text, start):
            return found, hold
        reading = read_escapes(text[start:], final=final)
        if before.plain == before.unescaped and not reading.units:
            return found, min(hold, start + len(reading.source))
        again, behind = self._read(text, start, before.unescaped, reading, final=final)
        units = [(low + start, high + start) for low, high in reading.units]
        return _without_escapes(text, found, again, units), min(hold, behind)

    def _plain(self, text: str, start: int, before: str | None, *, final: bool) -> tuple[list[IndexedTrace], int]:
        """Return what is found in the text without its disguise."""
        rest = text[start:]
        reading = read(rest, final=final)
        if before is None and reading.text == rest:
            return [], len(text)
        return self._read(text, start, before, reading, final=final)

    def _read(
        self, text: str, start: int, before: str | None, reading: PlainReading, *, final: bool
    ) -> tuple[list[IndexedTrace], int]:
        """Return what is found in a reading of the text from ``start`` on."""
        found: list[IndexedTrace] = []
        hold = start + len(reading.source)
        context = text[max(start - LOOKBACK, 0) : start] if before is None else before
        shift = len(context)
        again, behind = self._one(context + reading.text, shift, final=final)
        if again or behind < shift + len(reading.text):
            places = PlainPlaces(reading)
            hold = min(hold, start + places.start(behind - shift))
            found.extend((index, _back(trace, places, shift, start)) for index, trace in again)
        if not final:  # a text that goes on is not cut within an escape
            found.extend(
                (_NO_RULE, Trace(low + start, high + start, 0, 0, counts=False)) for low, high in reading.units
            )
        return found, hold

    def search_value(self, text: str, key: str) -> list[IndexedTrace]:
        """Return what is found in a text that is the value of a key; the key may tell what the text is."""
        found = list(self._value(text, key))
        reading = read(text)
        if reading.text != text:
            places = PlainPlaces(reading)
            found.extend((index, _back(trace, places, 0, 0)) for index, trace in self._value(reading.text, key))
        if not may_escape(text, 0):
            return found
        reading = read_escapes(text, final=True)
        places = PlainPlaces(reading)
        again = [(index, _back(trace, places, 0, 0)) for index, trace in self._value(reading.text, key)]
        return _without_escapes(text, found, again, reading.units)

    def scan_value(self, text: str, key: str) -> tuple[list[IndexedTrace], int]:
        """Return what is found in the beginning of such a text, and the place from which on that may change."""
        before = f'{key}: "'
        found, hold = self.search(before + text, 0, BEGUN, final=False)
        return [(index, _behind(trace, len(before))) for index, trace in found], max(hold - len(before), 0)

    def _value(self, text: str, key: str) -> Iterable[IndexedTrace]:
        before = f'{key}: "'
        for index, trace in self._one(f'{before}{text}"', 0, final=True)[0]:
            low, high = max(trace.low - len(before), 0), min(trace.high - len(before), len(text))
            if low < high:
                yield index, Trace(low, high, low, high, trace.counts)

    def _one(self, text: str, start: int, *, final: bool) -> tuple[list[IndexedTrace], int]:
        hold = len(text) if final else _last_word(text, start)
        found: list[IndexedTrace] = []
        letters = characters(text, start)
        for needed, sources in self._groups:
            if needed and needed.isdisjoint(letters):
                continue
            for trigger, searches in sources:
                if matches_somewhere(trigger, text, start):
                    for index, search in searches:
                        traces, open_at = search(text, start, final=final)
                        hold = min(hold, open_at)
                        if traces:
                            found.extend([(index, trace) for trace in traces])
        if self._prefix_rules is not None:
            prefixed, open_at = self._prefix_rules.search(text, start, final=final)
            found.extend(prefixed)
            hold = min(hold, open_at)
        return found, hold

    @staticmethod
    def remembered(text: str, start: int, before: Before, hold: int) -> Before:
        """Return how the text before ``hold`` ends."""
        escapes = may_escape(text, start)
        if before == BEGUN and not escapes and is_plain(text, start):
            return BEGUN
        plain = _end_read(text, start, before.plain, hold, read(text[start:hold]).text)
        if before.plain == before.unescaped and not escapes:
            return Before(plain, plain)
        source = read_escapes(text[start:], final=False).source  # an escape is known by what stands behind it
        unescaped = reading_of(source[: hold - start]).text
        return Before(plain, _end_read(text, start, before.unescaped, hold, unescaped))


def _end_read(text: str, start: int, before: str | None, hold: int, reading: str) -> str | None:
    """Return the end of the text before ``hold``, of which a part reads so; None if it reads as it is written."""
    if before is None and reading == text[start:hold]:
        return None
    context = text[max(start - LOOKBACK, 0) : start] if before is None else before
    after = (context + reading)[-LOOKBACK:]
    return None if after == text[max(hold - LOOKBACK, 0) : hold] else after


def _without_escapes(
    text: str, written: Iterable[IndexedTrace], read: Iterable[IndexedTrace], units: Sequence[tuple[int, int]]
) -> list[IndexedTrace]:
    r"""Return what is found in a text as it is written, and what is found in it without escapes.

    The former begins behind the escape whose letters it took for its own (``\njoe@…``), if the latter begins there.
    """
    unescaped = [(index, _widened(trace, units)) for index, trace in read]
    reach: dict[int, int] = {}
    for _, trace in unescaped:
        if trace.counts:
            reach[trace.low] = max(reach.get(trace.low, 0), trace.high)
    return [*((index, _trimmed(text, trace, units, reach)) for index, trace in written), *unescaped]


def _trimmed(text: str, trace: Trace, units: Sequence[tuple[int, int]], reach: Mapping[int, int]) -> Trace:
    cut = _cut_by(units, trace.low) if trace.counts else None
    if cut is None or trace.low > cut[0] + 1 or not text[trace.low].isalpha() or reach.get(cut[1], 0) < trace.high:
        return trace
    return trace._replace(low=cut[1])


def _widened(trace: Trace, units: Sequence[tuple[int, int]]) -> Trace:
    """Return a trace in a text without escapes, with the whole of those escapes that it begins or ends with."""
    start, end, low, high = (_cut_by(units, place) for place in (trace.start, trace.end, trace.low, trace.high))
    return Trace(
        start[0] if start else trace.start,
        end[1] if end else trace.end,
        low[0] if low else trace.low,
        high[1] if high else trace.high,
        trace.counts,
    )


def _cut_by(units: Sequence[tuple[int, int]], at: int) -> tuple[int, int] | None:
    """Return the escape that a place lies within."""
    before = bisect_left(units, (at,)) - 1
    return units[before] if before >= 0 and at < units[before][1] else None


_CLASSES = {"[:=]": ":=", "[:-]": ":-", "[0-9]": "0123456789", "\\.": ".", "\\$": "$"}
_LETTERS = re.compile(r"[^\\\[\](){}|.^$?*+]+(?![?*{])")
_GROUP = re.compile(r"\([^()]*\)")


def _needed(trigger: str) -> frozenset[str]:
    """Return characters of which a text must have one to match a pattern; an empty set if any text may match.

    A pattern with alternatives gives an empty set. Of the characters that a pattern begins with, the first sign is
    taken, since signs are rarer than letters.
    """
    if "|" in _GROUP.sub("", trigger):
        return frozenset()
    for item, letters in _CLASSES.items():
        if trigger.startswith(item) and trigger[len(item) :][:1] not in ("?", "*"):
            return frozenset(letters)
    first = _LETTERS.match(trigger)
    return frozenset(next((char for char in first.group() if not char.isalnum()), first.group()[0]) if first else "")


def _behind(trace: Trace, at: int) -> Trace:
    """Return a trace counted from a place on; what lies before the place is cut off."""
    start, end, low, high = (max(place - at, 0) for place in (trace.start, trace.end, trace.low, trace.high))
    return Trace(start, end, low, high, trace.counts)


def _last_word(text: str, start: int) -> int:
    """Return where the last word begins, or the part of it that a rule may still reach back to."""
    low = max(len(text) - WORD_HELD, start)
    if text.isascii():
        return max(text.rfind(" ", low) + 1, text.rfind("\n", low) + 1, low)
    found = _NOT_IN_WORD.search(text, low, concurrent=False)
    return found.end() if found else low


def _back(trace: Trace, places: PlainPlaces, shift: int, start: int) -> Trace:
    """Return a trace in a text without disguise as one in the text as it is written."""
    begin, end = places.start(trace.start - shift), places.end(trace.end - shift)
    low, high = places.start(trace.low - shift), places.end(trace.high - shift)
    return Trace(begin + start, end + start, low + start, high + start, trace.counts)
