"""Rules whose matches begin with a mark of letters, searched together: one search for all marks. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.detection.patterns.built_in import BuiltIn
    from penstock.detection.patterns.shapes import Trace

_KEY = 2  # letters of a mark by which its rules are looked up; no mark is shorter


class Marks:
    """Marked rules, with their places among all rules.

    Attributes:
        trigger: the pattern, of no width, of a place where one of the marks stands.
    """

    def __init__(self, rules: Iterable[tuple[int, BuiltIn]]) -> None:
        self._rules: dict[str, list[tuple[int, BuiltIn]]] = {}
        rests: dict[str, list[str]] = {}
        for index, rule in rules:
            self._rules.setdefault(rule.mark[:_KEY], []).append((index, rule))
            rests.setdefault(rule.mark[0], []).append(re.escape(rule.mark[1:]))
        firsts = "".join(map(re.escape, rests))
        branches = "|".join(f"{re.escape(first)}(?:{'|'.join(after)})" for first, after in rests.items())
        self.trigger = rf"(?<![A-Za-z0-9_-])(?=[{firsts}])(?={branches})"
        self._places = re.compile(self.trigger)

    def search(self, text: str, start: int, *, final: bool) -> tuple[Sequence[tuple[int, Trace]], int]:
        """Return the rules' traces from ``start`` on, each with its rule, and the place from which on they may change.

        What a rule has read, it does not read again.
        """
        found: list[tuple[int, Trace]] = []
        reach: dict[int, int] = {}
        hold = len(text)
        for place in self._places.finditer(text, start):
            at = place.start()
            for index, rule in self._rules[text[at : at + _KEY]]:
                if text.startswith(rule.mark, at) and reach.get(index, 0) <= at:
                    traces, open_at = rule.search(text, at, final=final)
                    hold = min(hold, open_at)
                    found.extend((index, trace) for trace in traces)
                    reach[index] = traces[0].end if traces else 0
        return found, hold
