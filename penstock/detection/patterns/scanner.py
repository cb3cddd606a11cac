"""`Scanner`: searches a text with all built-in rules: as it is written, without its disguise, and without escapes.

`PrefixRules` searches for rules whose matches begin with a fixed prefix all at once. A long text is swept in blocks, so
that a part that needs a second reading (without escapes, say) does not make the others be read again.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import regex

from penstock.detection.codes import may_escape, read_escapes
from penstock.detection.deferred import deferred
from penstock.detection.long_texts import matches
from penstock.detection.patterns.built_in import LETTER, LOOKBACK, RUN, WORD_HELD
from penstock.detection.patterns.kinds import (
    DIGIT,
    LETTER as LETTER_KIND,
    OTHER,
    digits_from,
    in_words,
    kinds,
    most_digits,
    runs,
)
from penstock.detection.patterns.open_matches import Trace
from penstock.detection.patterns.triggers import SHORT, Triggers
from penstock.detection.places.evidence import KINDS, evidence_of, is_open
from penstock.detection.unicode.disguises import (
    PlainPlaces,
    PlainReading,
    is_plain,
    read,
    read_by_letter,
    read_with_few_gone,
    reading_of,
)
from penstock.engine.text_guards.views import view_of
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.detection.patterns.built_in import BuiltInRule


_UNREAD = "\\%&" + "".join(map(chr, (*range(9), *range(14, 32), 127)))  # where escapes begin, and what is not seen
_KEY = 2  # letters of a mark by which its rules are looked up; no mark is shorter

LEAST_WORD = 12
"""How many printable ASCII characters in a row a match of a rule with a prefix has at least."""

_LONG = LETTER_KIND * LEAST_WORD


def long_words(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the words from ``start`` on begin and end that are long enough to hold a key."""
    return runs(in_words(kinds(text, start)), LETTER_KIND, OTHER, LEAST_WORD, start)


_CLOSE = 16  # characters between two words that are read with them: to stop and begin anew takes longer


def _near(words: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield where the stretches of words begin and end that stand close to each other, gaps included."""
    begin, end = words[0]
    for low, high in words[1:]:
        if low - end > _CLOSE:
            yield begin, end
            begin = low
        end = high
    yield begin, end


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
        self._places = deferred(self.trigger)

    def search(
        self, text: str, words: Sequence[tuple[int, int]], *, final: bool
    ) -> tuple[Sequence[tuple[int, Trace]], int]:
        """Return the traces in long words, each with the index of its rule, and from where on they may change.

        A rule does not read any text twice.
        """
        found: list[tuple[int, Trace]] = []
        reach: dict[int, int] = {}
        hold = len(text)
        for begin, end in _near(words):
            for place in matches(self._places, text, begin, end):
                at = place.start()
                if at >= words[bisect_right(words, (at, len(text))) - 1][1]:
                    continue  # in a shorter word
                for index, rule in self._rules[text[at : at + _KEY]]:
                    if text.startswith(rule.prefix, at) and reach.get(index, 0) <= at:
                        traces, open_at = rule.search(text, at, final=final)
                        hold = min(hold, open_at)
                        found.extend((index, trace) for trace in traces)
                        reach[index] = traces[0].end if traces else 0
        return found, hold


IndexedTrace: TypeAlias = "tuple[int, Trace]"
"""A trace with the index of its rule among all rules."""


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

CONTEXT = 2 * LOOKBACK
"""How many characters before the undecided text tell how it ends, since some of them may read as nothing."""

BLOCK = 1_000
"""How many characters of a long text are swept at once: much more than a rule looks back, and little to read twice.

The fewer they are, the fewer rules have a trigger in them.
"""

_DENSE_BLOCK = 3 * BLOCK  # behind a block in which most rules have a trigger anyway, and the end of each block costs
_DENSE, _SEEN = 8, 128  # of so many characters, one is a digit, among the last ones of a block
_LARGEST_BLOCK = 4 * BLOCK  # if less than half of such a block is decided, the rest of the text is read at once
_RUN = deferred(RUN)
NO_RULE = -1
"""The index of traces of no rule: stretches that a text is not cut within."""

_SPACES = frozenset(" \n")
_NOT_IN_WORD = regex.compile(f"(?r)[^!-~{LETTER}]")


def _is_dense(block: str) -> bool:
    """Return whether the end of a text has so many digits that most rules for numbers have a trigger behind it, too."""
    last = block[-_SEEN:]
    return kinds(last).count(DIGIT) * _DENSE > len(last)


class Reread(NamedTuple):
    """The second reading of a block.

    Attributes:
        units: the places of its escapes in the text; empty if it is known where the text ends.
        source: the block with its escapes masked; None if it has none.
    """

    units: Sequence[tuple[int, int]] = ()
    source: str | None = None

    def moved(self, by: int) -> Reread:
        """Return the same with places counted from an earlier place on."""
        return self._replace(units=[(low + by, high + by) for low, high in self.units]) if by else self


_AS_WRITTEN = Reread()


class Searched(NamedTuple):
    """The findings in a text that may go on.

    Attributes:
        found: the traces.
        hold: the place from which on they may change.
        since: where the last block begins.
        before: how the text before that block ends.
        last: the second reading of that block.
    """

    found: list[IndexedTrace]
    hold: int
    since: int
    before: Before
    last: Reread

    def lowered(self, found: Iterable[IndexedTrace], hold: int) -> int:
        """Return the last place, up to the given one, that lies within no trace and no escape of the last block."""
        return lowered(found, hold, self.last.units)


class Scanner:
    """The built-in rules with their indexes among all rules, ready to search."""

    def __init__(self, rules: Iterable[tuple[int, BuiltInRule]]) -> None:
        rules = list(rules)
        searches: dict[str, list[tuple[int, BuiltInRule]]] = {}
        for index, rule in rules:
            if not rule.prefix:
                searches.setdefault(rule.trigger, []).append((index, rule))
        self._run_rules = searches.pop(RUN, [])
        prefixed = [(index, rule) for index, rule in rules if rule.prefix]
        self._prefix_rules = PrefixRules(prefixed) if prefixed else None
        self._triggers = Triggers(searches, _UNREAD)
        keys = [*([self._prefix_rules.trigger] if self._prefix_rules else []), *([RUN] if self._run_rules else [])]
        self._key = re.compile("|".join(keys)) if keys else None

    def quiet(self, text: str, start: int, *, final: bool) -> int | None:
        """Return the place from which on more text may matter, if nothing is found in a text so far; else None.

        That is cheaper than `search`, which looks for escapes and remembers the text that it has read; in a text that
        may have escapes, and in a long one, the answer is None. A text is searched as it is written and as it reads.
        How the text before ``start`` ends must be what `before` returns, which is then not None at the returned place
        either.
        """
        if len(text) - start > _LARGEST_BLOCK:
            return None
        last = len(text) if final else last_word(text, start)
        if last == start:
            return start  # one word, which goes on: whatever `search` finds, it holds all of it
        if text.isascii():
            hold = last if self._none_in(text, start) else None
        else:
            hold = self._glanced(text, start, last, final=final)
        if hold is not None:
            return hold
        if final and not start:
            return None if any(trace.counts for _, trace in self.finish(text, 0, BEGUN)) else last
        if may_escape(text, start) or text.find("\x1b", start) >= 0:
            return None  # of a terminal's sequence, more may be masked than `before` looks at
        return self._searched(text, start, final=final)

    def _searched(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `quiet` does if a trigger stands in a text without escapes."""
        found, hold = self._one(text, start, final=final)
        seen = is_plain(text, max(start - LOOKBACK, 0))
        if not seen:
            context = self._context(text, start)
            if context is None:
                return None
            again, behind = self._plain(text, start, context, read(text[start:], final=final), final=final)
            found += again
            hold = min(hold, behind)
        if found:
            hold = lowered(found, hold)
            if any(is_decided(trace, hold) for _, trace in found):
                return None
        hold = max(hold, start)
        return hold if seen or self._context(text, hold) is not None else None

    def _glanced(self, text: str, start: int, last: int, *, final: bool) -> int | None:
        """Return what `quiet` does if no trigger stands in a text of which each character reads as one; else None.

        ``last`` is where its last word begins.
        """
        # A trigger sees no word before a space.
        since = start - 1 if text[start - 1 : start] in _SPACES else max(start - LOOKBACK, 0)
        written = text[since:] if since else text
        plain = written if written.isascii() else read_by_letter(written)
        if plain is None or not self._none_in(text, start):
            return None
        if plain == written:
            return last
        if not self._none_in(plain, start - since):
            return None
        return last if final else min(last, since + last_word(plain, start - since))

    def sees_none(self, text: str) -> bool:
        """Return whether one look shows that nothing is found in a whole text; it takes a short text."""
        if text.isascii():
            return self._none_in(text, 0)
        return len(text) <= SHORT and self._glanced(text, 0, len(text), final=True) is not None

    def _none_in(self, text: str, start: int) -> bool:
        if not self._triggers.none_in(text, start):
            return False
        return len(text) - start < LEAST_WORD or not self._has_key(text, start)

    def _has_key(self, text: str, start: int) -> bool:
        """Return whether there is a long word from a place on that `_in_words` finds anything in."""
        key = self._key
        if key is None or _LONG not in in_words(kinds(text, start)):
            return False
        return any(found for low, high in long_words(text, start) for found in matches(key, text, low, high))

    def _looked(self, text: str, start: int, *, final: bool) -> tuple[list[IndexedTrace], int]:
        """Return what `_one` returns, after one look at whether there is anything to search for."""
        if self._none_in(text, start):
            return [], len(text) if final else last_word(text, start)
        return self._one(text, start, final=final)

    def finish(self, text: str, start: int, before: Before) -> Sequence[IndexedTrace]:
        """Return the findings from ``start`` on in a text that ends here; `quiet` has found them in a whole text."""
        if start or before != BEGUN:
            return self.search(text, start, before, final=True).found
        return view_of(text, self._in_whole)

    def _in_whole(self, text: str) -> Sequence[IndexedTrace]:
        return self.search(text, 0, BEGUN, final=True).found

    def search(self, text: str, start: int, before: Before, *, final: bool) -> Searched:
        """Return the findings from ``start`` on. ``before`` is how the text before ``start`` ends.

        A long text is searched block by block, as if it came in pieces.
        """
        decided: list[IndexedTrace] = []
        size = BLOCK
        while len(text) - start > 2 * BLOCK and size <= _LARGEST_BLOCK:
            checkpoint()
            ahead = max(start - LOOKBACK, 0)
            block = text[ahead : start + size]
            found, hold, reread = self._block(block, start - ahead, before, final=False)
            hold = lowered(found, hold, reread.units)
            if ahead + hold - start < size // 2:  # most of the block is not decided
                size *= 2
                continue
            decided += [(index, moved(trace, ahead)) for index, trace in found if is_decided(trace, hold)]
            before = self._remembered(block, start - ahead, before, hold, reread)
            start, size = ahead + hold, _DENSE_BLOCK if _is_dense(block) else BLOCK
        ahead = max(start - LOOKBACK, 0)
        found, hold, reread = self._block(text[ahead:] if ahead else text, start - ahead, before, final=final)
        if ahead:
            found, hold = [(index, moved(trace, ahead)) for index, trace in found], hold + ahead
        return Searched([*decided, *found] if decided else found, hold, start, before, reread.moved(ahead))

    def _block(self, text: str, start: int, before: Before, *, final: bool) -> tuple[list[IndexedTrace], int, Reread]:
        found, hold = self._one(text, start, final=final)
        reread = _AS_WRITTEN
        if before.plain is not None or not is_plain(text, start):
            plain = read(text[start:], final=final)
            again, behind = self._plain(text, start, before.plain, plain, final=final)
            found += again
            hold = min(hold, behind)
            if plain.units and not final:
                reread = Reread(plain.units).moved(start)
        if before.plain == before.unescaped and not may_escape(text, start):
            return found, hold, reread
        reading = read_escapes(text[start:], final=final)
        unfinished = start + len(reading.source) < len(text)  # what stands before such an escape may go on behind it
        if before.plain == before.unescaped and not reading.units and not unfinished:
            return found, hold, reread
        again, behind = self._read(text, start, before.unescaped, reading, final=final)
        reread = Reread(reading.units, reading.source).moved(start)
        found = _without_escapes(text, found, again, reread.units)
        return found, min(hold, behind), reread._replace(units=()) if final else reread  # it is cut no more

    def _plain(
        self, text: str, start: int, before: str | None, reading: PlainReading, *, final: bool
    ) -> tuple[list[IndexedTrace], int]:
        """Return the findings in the text without its disguise."""
        if before is None and reading.text == text[start:]:
            return [], len(text)
        return self._read(text, start, before, reading, final=final)

    def _read(
        self, text: str, start: int, before: str | None, reading: PlainReading, *, final: bool
    ) -> tuple[list[IndexedTrace], int]:
        """Return the findings in a reading of the text from ``start`` on."""
        found: list[IndexedTrace] = []
        hold = start + len(reading.source)
        context = text[max(start - LOOKBACK, 0) : start] if before is None else before
        shift = len(context)
        again, behind = self._looked(context + reading.text, shift, final=final)
        if again or behind < shift + len(reading.text):
            places = PlainPlaces(reading)
            hold = min(hold, start + places.start(behind - shift))
            found.extend((index, _back(trace, places, shift, start)) for index, trace in again)
        return found, hold

    def search_value(self, text: str, key: str) -> list[IndexedTrace]:
        """Return the findings in a text that is the value of a key; the key may tell the type of the text."""
        if len(text) > 2 * BLOCK:
            return [*self._clipped(self.search(f'{key}: "{text}"', 0, BEGUN, final=True).found, text, key)]
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

    def scan_value(self, text: str, key: str) -> Searched:
        """Return the findings in the beginning of such a text."""
        before = f'{key}: "'
        searched = self.search(before + text, 0, BEGUN, final=False)
        found = [(index, _behind(trace, len(before))) for index, trace in searched.found]
        hold = searched.lowered(searched.found, searched.hold)
        return Searched(found, max(hold - len(before), 0), 0, BEGUN, searched.last.moved(-len(before)))

    def _value(self, text: str, key: str) -> Iterable[IndexedTrace]:
        return self._clipped(self._one(f'{key}: "{text}"', 0, final=True)[0], text, key)

    @staticmethod
    def _clipped(found: Iterable[IndexedTrace], text: str, key: str) -> Iterator[IndexedTrace]:
        """Yield the findings in a value with its key before it and quotes around it, counted from the value on."""
        before = f'{key}: "'
        for index, trace in found:
            low, high = max(trace.low - len(before), 0), min(trace.high - len(before), len(text))
            if low < high:
                yield index, Trace(low, high, low, high, trace.counts)

    @staticmethod
    def before(text: str, start: int) -> Before | None:
        """Return how a text ends before a place, if enough of its last characters are seen, in no escape; else None."""
        read = Scanner._context(text, start)
        if read is None:
            return None
        return BEGUN if read == text[max(start - LOOKBACK, 0) : start] else Before(read, read)

    @staticmethod
    def _context(text: str, start: int) -> str | None:
        """Return how a text ends before a place, as it reads; None if too little of that is seen, or it may escape."""
        read = read_with_few_gone(text[max(start - CONTEXT, 0) : start], CONTEXT - LOOKBACK)
        if read is None:
            return None
        read = read[-LOOKBACK:]
        return None if may_escape(read, 0) else read

    def _one(self, text: str, start: int, *, final: bool) -> tuple[list[IndexedTrace], int]:
        """Return the findings of the rules in a text, as it is written, and the place from which on they may change.

        Only those rules are asked whose triggers stand in it.
        """
        hold = len(text) if final else last_word(text, start)
        found: list[IndexedTrace] = []
        digits, last_digits = -1, hold  # not counted yet
        for index, rule in chain.from_iterable(self._triggers.standing_in(text, start)):
            if rule.digits and digits < 0:
                digits = most_digits(text, start)
                last_digits = hold if final else digits_from(text, start)
            if rule.digits and digits < rule.digits:  # the last ones may be the first of enough
                hold = min(hold, last_digits)
                continue
            traces, open_at = rule.search(text, start, final=final)
            hold = min(hold, open_at)
            if traces:
                found.extend([(index, trace) for trace in traces])
                if rule.name in KINDS:
                    hold = min(hold, _placed(rule.name, text, found, len(found) - len(traces), final=final))
        words = [*long_words(text, start)]
        if words:
            hold = min(hold, self._in_words(text, words, found, final=final))
        return found, hold

    def _in_words(self, text: str, words: Sequence[tuple[int, int]], found: list[IndexedTrace], *, final: bool) -> int:
        """Add the findings of the rules for long words; return the place from which on they may change."""
        hold = len(text)
        if self._prefix_rules is not None:
            prefixed, hold = self._prefix_rules.search(text, words, final=final)
            found.extend(prefixed)
        for begin, end in _near(words) if self._run_rules else ():
            run = _RUN.search(text, begin, end)
            if run is not None:
                since = words[bisect_right(words, (run.start(), len(text))) - 1][0]
                for index, rule in self._run_rules:
                    traces, open_at = rule.search(text, since, final=final)
                    found.extend((index, trace) for trace in traces)
                    hold = min(hold, open_at)
                break
        return hold

    def remembered(self, text: str, start: int, before: Before, searched: Searched, hold: int) -> Before:
        """Return how the text before ``hold`` ends, after it was searched from ``start`` on."""
        if hold < searched.since:
            return self._remembered(text, start, before, hold, _AS_WRITTEN)
        return self._remembered(text, searched.since, searched.before, hold, searched.last)

    @staticmethod
    def _remembered(text: str, start: int, before: Before, hold: int, reread: Reread) -> Before:
        escapes = may_escape(text, start)
        if before == BEGUN and not escapes and is_plain(text, start):
            return BEGUN
        plain = _end_read(text, start, before.plain, hold, read(text[start:hold]).text)
        if before.plain == before.unescaped and not escapes:
            return Before(plain, plain)
        # An escape is known by what stands behind it.
        source = reread.source or read_escapes(text[start:], final=False).source
        unescaped = reading_of(source[: hold - start]).text
        return Before(plain, _end_read(text, start, before.unescaped, hold, unescaped))


def _end_read(text: str, start: int, before: str | None, hold: int, reading: str) -> str | None:
    """Return the end of the text before ``hold``, of which a part reads so; None if it reads as it is written."""
    if before is None and reading == text[start:hold]:
        return None
    context = text[max(start - LOOKBACK, 0) : start] if before is None else before
    after = (context + reading)[-LOOKBACK:]
    return None if after == text[max(hold - LOOKBACK, 0) : hold] else after


_BACKSLASHES = 64  # before the last one: JSON within JSON, six times


def _without_escapes(
    text: str, written: Iterable[IndexedTrace], read: Iterable[IndexedTrace], units: Sequence[tuple[int, int]]
) -> list[IndexedTrace]:
    r"""Return the findings in a text as it is written, and those in it without escapes.

    The former begins behind the escape whose letters it took for its own (``\njoe@…``), if the latter begins there.
    """
    unescaped = [(index, _with_backslashes(text, _widened(trace, units))) for index, trace in read]
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


def _with_backslashes(text: str, trace: Trace) -> Trace:
    r"""Return a trace that begins with an escape with all its backslashes (``\\\\u00e9``); only the last one counts.

    The others would escape what replaces it, and JSON within JSON would not parse.
    """
    if not trace.low or not text.startswith("\\", trace.low):
        return trace
    low = len(text[max(trace.low - _BACKSLASHES, 0) : trace.low].rstrip("\\")) + max(trace.low - _BACKSLASHES, 0)
    return trace._replace(start=min(trace.start, low), low=low)


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


def _placed(type: str, text: str, found: list[IndexedTrace], since: int, *, final: bool) -> int:
    """Let those findings of a list, from an index on, no longer count whose places speak against them.

    Returns:
        The place from which on more text may change that.
    """
    hold = len(text)
    for at, (index, trace) in enumerate(found[since:], since):
        if not trace.counts:
            continue
        if not final and is_open(type, text, trace.low, trace.high):
            hold = min(hold, trace.start)
        evidence = evidence_of(type, text, trace.low, trace.high)
        if evidence is not None and evidence.weight <= 0:
            found[at] = (index, trace._replace(counts=False))
    return hold


def is_decided(trace: Trace, hold: int) -> bool:
    """Return whether a trace counts, and begins before the place from which on the text is undecided."""
    return trace.counts and trace.start < hold


def lowered(found: Iterable[IndexedTrace], hold: int, units: Sequence[tuple[int, int]] = ()) -> int:
    """Return the last place, up to the given one, that lies within no trace and within none of the escapes."""
    stretched = [(trace.start, trace.end) for _, trace in found]
    reached = False
    while not reached:
        cut = _cut_by(units, hold)
        lower = min((low for low, high in stretched if low < hold < high), default=cut[0] if cut else hold)
        reached, hold = lower == hold, lower
    return hold


def moved(trace: Trace, by: int) -> Trace:
    """Return a trace that stands so many characters farther on."""
    return Trace(trace.start + by, trace.end + by, trace.low + by, trace.high + by, trace.counts)


def _behind(trace: Trace, at: int) -> Trace:
    """Return a trace counted from a place on; what lies before the place is cut off."""
    start, end, low, high = (max(place - at, 0) for place in (trace.start, trace.end, trace.low, trace.high))
    return Trace(start, end, low, high, trace.counts)


def last_word(text: str, start: int) -> int:
    """Return where the last word begins, or the part of it that a rule may still reach back to."""
    low = max(len(text) - WORD_HELD, start)
    if text.isascii() or text[low:].isascii():
        return max(text.rfind(" ", low), text.rfind("\n", low), text.rfind("\t", low)) + 1 or low
    found = _NOT_IN_WORD.search(text, low, concurrent=False)
    return found.end() if found else low


def _back(trace: Trace, places: PlainPlaces, shift: int, start: int) -> Trace:
    """Return a trace in a text without disguise as one in the text as it is written."""
    begin, end = places.start(trace.start - shift), places.end(trace.end - shift)
    low, high = places.start(trace.low - shift), places.end(trace.high - shift)
    return Trace(begin + start, end + start, low + start, high + start, trace.counts)
