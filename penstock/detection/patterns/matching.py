"""`Finder`: finds the matches of rules in a text, also behind disguises, and unites matches that overlap."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.open_matches import Trace
from penstock.detection.patterns.scanner import BEGUN, CONTEXT, NO_RULE, Scanner, is_decided, lowered, moved
from penstock.detection.places.evidence import header_words
from penstock.detection.places.tables import SEEN_BEHIND, TableReader, has_none, headers_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.detection.patterns.rules import Glance, UserRule
    from penstock.detection.patterns.scanner import IndexedTrace
    from penstock.detection.places.tables import Headers, TableCell


class Match(NamedTuple):
    """A match of a rule: its place, and the index of the rule.

    ``tail`` marks the rest of a match that began in an earlier text; the replacement stands there.
    """

    start: int
    end: int
    rule: int
    tail: bool = False


class UnitedMatches(NamedTuple):
    """Matches that overlap, as one stretch.

    ``rule`` is the index of the rule that owns it, ``replacement`` what replaces it, ``rules`` the indexes of all rules
    that matched in it, ``tail`` as for `Match`.
    """

    start: int
    end: int
    rule: int
    replacement: str
    rules: tuple[int, ...]
    tail: bool = False


class Precedence(NamedTuple):
    """Which rule names a match that contains others: that of the wider match, with the exceptions given here.

    Attributes:
        wide: indexes of built-in rules whose matches take the name of a match within them,
        narrow: if that is a match of one of these rules.
    """

    wide: frozenset[int] = frozenset()
    narrow: frozenset[int] = frozenset()


class FinderState:
    """The memory of a finder for a text that it is given in chunks.

    Attributes:
        done: indexes of rules that find one match only, and have found it.
        before: how the decided text ends, as it reads.
        tables: reads the tables of the text, and stands where the decided text ends; None at its beginning.
    """

    __slots__ = ("before", "done", "tables")

    def __init__(self) -> None:
        self.done: set[int] = set()
        self.before = BEGUN
        self.tables: TableReader | None = None


class Finder:
    """Searches texts with rules. Finders with equal rules are equal.

    Attributes:
        lookback: how many characters before the undecided text `scan` and `finish` need to see.
    """

    def __init__(self, rules: Sequence[BuiltInRule | UserRule], precedence: Precedence | None = None) -> None:
        self.rules = tuple(rules)
        self._precedence = precedence or Precedence()
        self._own = [(index, rule) for index, rule in enumerate(self.rules) if not isinstance(rule, BuiltInRule)]
        built_in = [(index, rule) for index, rule in enumerate(self.rules) if isinstance(rule, BuiltInRule)]
        self._scanner = Scanner(built_in) if built_in else None
        self.lookback = max([CONTEXT if built_in else 1, *(rule.lookback for _, rule in self._own)])

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal rules."""
        return isinstance(other, Finder) and self.rules == other.rules

    def __hash__(self) -> int:
        """Hash by the number of rules, which is the same for equal finders."""
        return hash(len(self.rules))

    def __repr__(self) -> str:
        """Show the names of the rules."""
        return f"Finder({', '.join(dict.fromkeys(rule.name for rule in self.rules))})"

    def begun(self, text: str = "", start: int = 0) -> FinderState:
        """Return the state for a text that was `quiet` up to a place, or for the beginning of one."""
        state = FinderState()
        if start and self._scanner is not None:
            state.before = self._scanner.before(text, start) or BEGUN
            state.tables = TableReader.begun(self._headers, text, start)
        return state

    def is_begun(self, text: str, since: int, at: int, state: FinderState) -> bool:
        """Return whether the state at a place is what `begun` returns there, and from ``since`` on."""
        if state.done or self._scanner is None:
            return not state.done
        if state.before != self._scanner.before(text, at) or self._scanner.before(text, since) is None:
            return False
        return self._tables(state).is_begun(text, since, at)

    def quiet(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `scan` would hold back from, or a place before that, if it plainly finds nothing; else None.

        If the text is ``final``, that is its end.
        """
        hold = len(text)
        if self._scanner is not None:
            quiet = self._scanner.quiet(text, start, final=final)
            if quiet is None or quiet == start:
                return quiet
            if not has_none(text, start, self._headers, final=final):
                return None
            if not self._own:
                return quiet
            hold = quiet
        for glance in self._glances:
            open_at = glance.quiet(text, start, final=final)
            if open_at is None:
                return None
            hold = min(hold, open_at)
        return hold

    @cached_property
    def _headers(self) -> Headers:
        """The knowledge of the built-in rules about headers of columns."""
        rules = [rule for rule in self.rules if isinstance(rule, BuiltInRule)]
        known = header_words(rule.name for rule in rules)
        return headers_for([known, *dict.fromkeys(rule.headers for rule in rules if rule.headers is not None)])

    def _tables(self, state: FinderState) -> TableReader:
        if state.tables is None:
            state.tables = TableReader(self._headers)
        return state.tables

    @cached_property
    def _glances(self) -> Sequence[Glance]:
        from penstock.detection.patterns.rules import glances  # loaded where there are rules of the user's

        return glances([rule for _, rule in self._own])

    def sees_none(self, text: str) -> bool:
        """Return whether one look shows that nothing is found in a whole text; it takes a short text."""
        if self._own or self._scanner is None or not self._scanner.sees_none(text):
            return False
        return has_none(text, 0, self._headers, final=True)

    def find(self, text: str, key: str = "") -> list[Match]:
        """Return all matches in a whole text, rule by rule.

        Args:
            text: the text.
            key: the name that the text is the value of, if any; it may tell the type of the text, such as ``password``.

        Raises:
            TimeoutError: a user's rule took longer than it may.
        """
        own, _ = self._by_own(text, 0, FinderState(), final=True) if self._own else ((), 0)
        known: Sequence[IndexedTrace] = ()
        if self._scanner is not None:
            known = self._scanner.search_value(text, key) if key else self._scanner.finish(text, 0, BEGUN)
            known, _ = self._in_tables(text, 0, known, TableReader(self._headers), final=True)
        return self._matches(own, known, len(text) + 1)

    def scan(self, text: str, start: int, state: FinderState) -> tuple[list[Match], int]:
        """Return the matches in a text that goes on, and the place from which on more text could change them.

        The matches begin at ``start`` or later and end at that place or before it. They are those that `find` returns
        of the whole text, however it goes on. The ``start`` of the next call must be this place.

        Args:
            text: the last `lookback` characters of the decided text (all of it if it is shorter), and all that is
                undecided.
            start: where in the text the undecided part begins.
            state: the state of this text; a new one at its beginning.

        Raises:
            TimeoutError: a user's rule took longer than it may.
        """
        own, hold = self._by_own(text, start, state, final=False)
        known: Sequence[IndexedTrace] = ()
        searched = None
        if self._scanner is not None:
            searched = self._scanner.search(text, start, state.before, final=False)
            known, behind = self._in_tables(text, start, searched.found, self._tables(state).copy(), final=False)
            hold = searched.lowered([*own, *known], min(hold, searched.hold, behind))
        elif own:
            hold = lowered(own, hold)
        if hold <= start:
            return [], start
        if self._scanner is not None and searched is not None:
            state.before = self._scanner.remembered(text, start, state.before, searched, hold)
            self._tables(state).read(text, start, hold, final=False)
        for index, rule in self._own:
            if not rule.every and any(place == index and is_decided(trace, hold) for place, trace in own):
                state.done.add(index)
        return (self._matches(own, known, hold) if own or known else []), hold

    def scan_value(self, text: str, key: str, state: FinderState) -> tuple[list[Match], int]:
        """Return what `scan` returns of the beginning of a text that is the value of a key.

        If the place is not the beginning again, `scan` goes on there with the same state.
        """
        own, hold = self._by_own(text, 0, state, final=False)
        if self._scanner is None:
            hold = lowered(own, hold)
            return self._matches(own, (), hold), hold
        searched = self._scanner.scan_value(text, key)
        known, behind = self._in_tables(text, 0, searched.found, self._tables(state).copy(), final=False)
        hold = searched.lowered([*own, *known], min(hold, searched.hold, behind))
        state.before = self._scanner.before(text, hold) or BEGUN
        self._tables(state).read(text, 0, hold, final=False)
        return self._matches(own, known, hold), hold

    def finish(self, text: str, start: int, state: FinderState) -> list[Match]:
        """Return the matches from ``start`` on in a text that ends here; see `scan`."""
        own, _ = self._by_own(text, start, state, final=True)
        known: Sequence[IndexedTrace] = ()
        if self._scanner is not None:
            known = self._scanner.finish(text, start, state.before)
            known, _ = self._in_tables(text, start, known, self._tables(state), final=True)
        return self._matches(own, known, len(text) + 1)

    def _in_tables(
        self, text: str, start: int, known: Sequence[IndexedTrace], reader: TableReader, *, final: bool
    ) -> tuple[Sequence[IndexedTrace], int]:
        """Return the findings of built-in rules with the headers of columns, and where a cell is not complete."""
        if reader.passes(text, start):
            return known, len(text)
        cells, hold = reader.read(text, start, len(text), final=final)
        if not cells:
            return known, hold
        lows = [cell.low for cell in cells]
        judged: list[IndexedTrace] = []
        inside: dict[int, list[IndexedTrace]] = {}
        for found in known:
            at = bisect_right(lows, found[1].low) - 1
            if at >= 0 and found[1].high <= cells[at].high:
                inside.setdefault(at, []).append(found)
            else:
                judged.append(found)
        for at, cell in enumerate(cells):
            judged += self._explained(text, cell, inside.get(at, ()))
            judged.append((NO_RULE, Trace(cell.low, cell.high, 0, 0, counts=False)))  # a text is not cut within it
        return judged, hold

    def _explained(self, text: str, cell: TableCell, found: Sequence[IndexedTrace]) -> Iterable[IndexedTrace]:
        """Return the findings in a cell, of which some are known, after the header of its column was read."""
        counts = any(trace.counts for _, trace in found)
        scanner, column, content = self._scanner, cell.column, text[cell.low : cell.high]
        if scanner is None:
            return found
        if counts and cell.since is not None:  # is it found without the headers close by, too?
            rows = text[cell.since : cell.high + SEEN_BEHIND]
            again = scanner.search(rows, 0, BEGUN, final=True).found
            placed = [(index, moved(trace, cell.since)) for index, trace in again]
            found = [one for one in placed if cell.low <= one[1].low and one[1].high <= cell.high]
        if column is None:
            return found
        whole = any(trace.counts and trace.high - trace.low == len(content) for _, trace in found)
        if not ((counts and cell.against) or (column.explains(content) and not whole)):
            return found
        named = [(index, moved(trace, cell.low)) for index, trace in scanner.search_value(content, column.label)]
        return named if cell.against else [*found, *named]

    def _matches(self, own: Sequence[IndexedTrace], known: Sequence[IndexedTrace], hold: int) -> list[Match]:
        """Return the matches that begin before a place, rule by rule."""
        if not own and not known:
            return []
        found = [Match(trace.low, trace.high, index) for index, trace in own if is_decided(trace, hold)]
        inner = (Match(trace.low, trace.high, index) for index, trace in known if is_decided(trace, hold))
        wide = (match for match in found if match.start < match.end)
        return sorted([*wide, *_outermost(inner, self._precedence)], key=lambda match: (match.rule, match.start))

    def _by_own(self, text: str, start: int, state: FinderState, *, final: bool) -> tuple[list[IndexedTrace], int]:
        """Return the findings of the user's rules, and the place from which on they may change."""
        found: list[IndexedTrace] = []
        hold = len(text)
        for index, rule in self._own:
            if index not in state.done:
                traces, open_at = rule.scan(text, start, final=final)
                if traces:
                    found += [(index, trace) for trace in traces]
                hold = min(hold, open_at)
        return found, hold

    def unite(self, text: str, matches: Iterable[Match]) -> list[UnitedMatches]:
        """Return matches as stretches that do not overlap, in order.

        The longest match of a stretch owns it; of equally long ones the first by place, then by rule. Groups in a
        replacement are filled in only if the stretch is one match.
        """
        regions: list[UnitedMatches] = []
        ordered = sorted(matches, key=lambda match: (match.start, match.start - match.end, match.rule))
        for cluster in _clusters(ordered):
            if len(cluster) == 1:  # most are
                owner = cluster[0]
                replacement = self._replacement(owner, text[owner.start : owner.end])
                regions.append(UnitedMatches(*owner[:3], replacement, (owner.rule,), owner.tail))
                continue
            owner = max(cluster, key=lambda match: match.end - match.start)  # max keeps the first of equals
            start, end = cluster[0].start, max(match.end for match in cluster)
            rules = tuple(dict.fromkeys(match.rule for match in cluster))
            regions.append(UnitedMatches(start, end, owner.rule, self._replacement(owner, ""), rules, owner.tail))
        return regions

    def _replacement(self, owner: Match, single: str) -> str:
        rule = self.rules[owner.rule]
        if owner.tail:
            return ""
        return rule.expand(single) if single and not isinstance(rule, BuiltInRule) else rule.replacement


def _outermost(matches: Iterable[Match], precedence: Precedence) -> list[Match]:
    """Return the matches that lie in no other; of equal ones the one of the first rule."""
    kept: list[Match] = []
    reach = 0
    for match in sorted(matches, key=lambda match: (match.start, -match.end, match.rule)):
        if match.end > reach:
            reach = match.end
            kept.append(match)
        elif match.rule in precedence.narrow and kept[-1].rule in precedence.wide:
            kept[-1] = kept[-1]._replace(rule=match.rule)
    return kept


def _clusters(ordered: Iterable[Match]) -> Iterator[list[Match]]:
    cluster: list[Match] = []
    reach = 0
    for match in ordered:
        if cluster and match.start >= reach:
            yield cluster
            cluster = []
        reach = max(reach, match.end) if cluster else match.end
        cluster.append(match)
    if cluster:
        yield cluster
