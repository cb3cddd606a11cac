"""Finds the matches of rules in one text, sees through disguises, unites what overlaps. Pure; no message, no stage."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from penstock.processors.text.normalizing import HYGIENE, normalise
from penstock.processors.text.patterns import BuiltIn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.edits import Edits
    from penstock.processors.text.patterns import Span
    from penstock.processors.text.rules import UserRule


class Match(NamedTuple):
    """What a rule found: where, and the rule's place among the rules.

    ``tail`` marks the rest of a match that began in an earlier text: its replacement stands there.
    """

    start: int
    end: int
    rule: int
    tail: bool = False


class Region(NamedTuple):
    """Matches that overlap, as one: where, who owns it, what stands in its place, all rules that had a part in it."""

    start: int
    end: int
    rule: int
    replacement: str
    rules: tuple[int, ...]
    tail: bool = False


class FinderState:
    """What a finder remembers of one text that it is shown piece by piece."""

    __slots__ = ()


class Finder:
    """Rules, ready to search texts with. Equal if the rules are.

    Attributes:
        lookback: how many characters before what is undecided `scan` and `finish` want to see.
    """

    lookback: int = 128

    def __init__(self, rules: Sequence[BuiltIn | UserRule]) -> None:
        self.rules = tuple(rules)
        self._built_in = [(index, rule) for index, rule in enumerate(self.rules) if isinstance(rule, BuiltIn)]
        self._own = [(index, rule) for index, rule in enumerate(self.rules) if not isinstance(rule, BuiltIn)]

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal rules."""
        return isinstance(other, Finder) and self.rules == other.rules

    def __hash__(self) -> int:
        """Hash by the number of rules: equal finders have equally many."""
        return hash(len(self.rules))

    def __repr__(self) -> str:
        """Show the rules' names."""
        return f"Finder({', '.join(dict.fromkeys(rule.name for rule in self.rules))})"

    def find(self, text: str, key: str = "") -> list[Match]:
        """Return all matches, rule by rule; ``key`` is the name that the text is the value of, which may explain it.

        Raises:
            TimeoutError: a user's rule took longer than it may.
        """
        found = [Match(start, end, index) for index, rule in self._own for start, end in rule.find(text)]
        if self._built_in:
            found.extend(_outermost([*self._known(text, key), *self._disguised(text, key)]))
        return sorted(found, key=lambda match: (match.rule, match.start))

    def scan(self, text: str, start: int, state: FinderState, *, begins: bool) -> tuple[list[Match], int]:
        """Return what is found for certain in a text that goes on, and from which place on it is uncertain.

        The matches begin at ``start`` or later and end at the place or before it: they are those that `find` would
        report there of the whole text, however it goes on. The next call begins where this one's place is.

        Args:
            text: up to `lookback` characters that are decided, and all that is not.
            start: where in the text what is not decided begins.
            state: one for each text; a new one at the text's beginning.
            begins: whether nothing stands before ``text``.

        Raises:
            TimeoutError: a user's rule took longer than it may.
        """
        del text, state, begins
        return [], start

    def finish(self, text: str, start: int, state: FinderState, *, begins: bool) -> list[Match]:
        """Return what is found from ``start`` on in a text that ends here; see `scan`."""
        del state, begins
        return [match for match in self.find(text) if match.start >= start]

    def unite(self, text: str, matches: Iterable[Match]) -> list[Region]:
        """Return the matches as disjoint regions, in order.

        The longest match of a region owns it; of equally long ones the first by place, then by rule. Groups in a
        replacement are filled in only where the region is one match.
        """
        regions: list[Region] = []
        ordered = sorted(matches, key=lambda match: (match.start, match.start - match.end, match.rule))
        for cluster in _clusters(ordered):
            owner = max(cluster, key=lambda match: match.end - match.start)  # max keeps the first of equals
            start, end = cluster[0].start, max(match.end for match in cluster)
            rules = tuple(dict.fromkeys(match.rule for match in cluster))
            single = text[start:end] if len(cluster) == 1 else ""
            regions.append(Region(start, end, owner.rule, self._replacement(owner, single), rules, owner.tail))
        return regions

    def _replacement(self, owner: Match, single: str) -> str:
        rule = self.rules[owner.rule]
        if owner.tail:
            return ""
        return rule.expand(single) if single and not isinstance(rule, BuiltIn) else rule.replacement

    def _disguised(self, text: str, key: str) -> Iterator[Match]:
        """Yield what the built-in rules find with styled letters read as plain ones, and without what is invisible."""
        plain = normalise(text, HYGIENE)
        if plain.edits:
            back = _Back(plain.edits)
            for match in self._known(plain.text, key):
                yield Match(*back.span(match.start, match.end), match.rule)

    def _known(self, text: str, key: str) -> Iterator[Match]:
        """Yield what the built-in rules find, with the key before the text where there is one."""
        before = f'{key}: "' if key else ""
        whole = f'{before}{text}"' if key else text
        for index, rule in self._built_in:
            for start, end in rule.find(whole):
                low, high = max(start - len(before), 0), min(end - len(before), len(text))
                if low < high:
                    yield Match(low, high, index)


def _outermost(matches: Iterable[Match]) -> Iterator[Match]:
    """Yield the matches that lie in no other; of equal ones the first rule's."""
    reach = 0
    for match in sorted(matches, key=lambda match: (match.start, -match.end, match.rule)):
        if match.end > reach:
            reach = match.end
            yield match


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


class _Back:
    """Leads from positions after edits to positions before them."""

    def __init__(self, edits: Edits) -> None:
        self._edits = edits
        self._starts: list[int] = []  # where each edit's text begins, afterwards
        shift = 0
        for edit in edits:
            self._starts.append(edit.start + shift)
            shift += len(edit.text) - (edit.end - edit.start)

    def span(self, start: int, end: int) -> Span:
        """Return the stretch before the edits that became this one."""
        return self._place(start, last=False), self._place(end - 1, last=True)

    def _place(self, at: int, *, last: bool) -> int:
        """Return where the character at that place begins, or (``last``) ends."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at + last
        edit, begin = self._edits[index], self._starts[index]
        if at < begin + len(edit.text):
            return edit.end if last else edit.start
        return edit.end + at - begin - len(edit.text) + last
