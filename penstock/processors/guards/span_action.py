"""`SpanAction`: redacts or removes spans that were found, logs them, or stops the run; and reports them."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from penstock.detection.spans import Span
from penstock.engine.text_guards.reporting import MOST_LISTED, by_place, cannot_edit, listed_place
from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.processors.guards.judged_action import JudgedAction
from penstock.processors.guards.span_findings import NOTHING, FindingGroup, SpanFinding, group_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.detection import Detection
    from penstock.processors.guards.span_search import SpanSearch

V = TypeVar("V")

_START = itemgetter(0)


class SpanAction(JudgedAction):
    """Acts on spans. A subclass writes `replacements`.

    Attributes:
        actions: the strategies of single types, and under ``*`` that of the others; empty if there is one for all.
    """

    def __init__(self, search: SpanSearch[V], actions: Mapping[str, str] = EMPTY) -> None:
        super().__init__(search.setup)
        self.actions = actions
        self._found = search.found
        self._windows, self._threshold = search.windows, search.threshold

    def replacements(self, found: Sequence[tuple[str, SpanFinding]], ctx: AnyContext) -> Sequence[str]:
        """Return what replaces each text that was found; called once, with all that one call redacts."""
        raise NotImplementedError

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Report what was found; then return the edits of the strategy, or stop the run."""
        found = [(hit.window, self._groups(hit)) for hit in hits]
        listed = [(window, group) for window, groups in found for group in groups]
        for window, groups in found:
            self._report_places(ctx, window, groups)
        if not listed:
            return [()] * len(hits)
        types = [group.owner.type for _, group in listed]
        self.reporter.count(ctx, self._found, Counter(types))
        warned = [group.owner.type for _, group in listed if group.action == "warn"]
        if warned:
            self.warn(ctx, warned)
        edited = [(window, group) for window, group in listed if group.action not in ("block", "warn")]
        stuck = self._why_not_edited(edited, ctx)
        stops = [(window, group) for window, group in listed if group.action == "block"] or (edited if stuck else [])
        if stops:
            self.block(ctx, [group.owner.type for _, group in stops], self._metadata(stops), stuck)
        if not self.edits:
            return [()] * len(hits)
        if self.strategy == "filter":
            return [self._without_sentences(window, groups) for window, groups in found]
        return self._redactions(found, ctx)

    def _groups(self, hit: Hit) -> list[FindingGroup]:
        """Return findings, which are in order, as stretches; those of different strategies may overlap."""
        found = [item for item in cast("Sequence[SpanFinding]", hit.found) if item.type != NOTHING]
        usual = self.actions.get("*", self.strategy)
        actions = {item.type: self.actions.get(item.type, usual) for item in found}
        groups = [
            group
            for action in dict.fromkeys(actions.values())
            for group in group_findings([item for item in found if actions[item.type] == action], action)
        ]
        return sorted(groups, key=_START)

    def _why_not_edited(self, found: Sequence[tuple[TextWindow, FindingGroup]], ctx: AnyContext) -> str:
        """Return why the findings cannot be edited; an empty text if they can."""
        if not self.edits:
            return ""
        fixed = [window for window, _ in found if window.stuck]
        if fixed and not self.removes(ctx):
            return cannot_edit(fixed)
        if self.strategy != "filter" and any(not group.owner.located for _, group in found):
            return "what the judge found does not stand in the text as it says, so it cannot be hidden; "
        return ""

    def _redactions(
        self, found: Sequence[tuple[TextWindow, Sequence[FindingGroup]]], ctx: AnyContext
    ) -> list[list[Edit]]:
        """Return the edits that put replacements in place of what was found."""
        places = [(at, window, group) for at, (window, groups) in enumerate(found) for group in groups]
        places = [place for place in places if place[2].action == "redact"]
        texts = self.replacements([_value(window, group) for _, window, group in places], ctx)
        edits: list[list[Edit]] = [[] for _ in found]
        for (at, _, item), text in zip(places, texts, strict=True):
            edits[at].append(Edit(item.start, item.end, text, "redact"))
        return edits

    def _without_sentences(self, window: TextWindow, groups: Sequence[FindingGroup]) -> list[Edit]:
        """Return edits that remove the sentences in which something was found."""
        cuts = [0]
        for low, high in itertools.pairwise([0, *window.divided_thoughts(), len(window.text)]):
            cuts += self._windows.cuts(window.text[:high], low)
        removed = {
            at
            for group in groups
            for at in range(bisect_right(cuts, group.start) - 1, bisect_left(cuts, max(group.end, group.start + 1)))
        }
        return [Edit(cuts[at], cuts[at + 1], "", "redact") for at in sorted(removed) if at + 1 < len(cuts)]

    def block(self, ctx: AnyContext, types: Sequence[str], metadata: Mapping[str, Value], why: str) -> NoReturn:
        """Stop the run. ``why`` is the beginning of the reason, if the strategy alone does not explain it."""
        self.reporter.block(ctx, types, metadata, why)

    # Reporting

    def _metadata(self, found: Sequence[tuple[TextWindow, FindingGroup]]) -> dict[str, Value]:
        """Return the metadata of a tripwire."""
        owners = [group.owner for _, group in found]
        theirs = next((owner.detector for owner in owners if owner.detector), "")
        return {
            "categories": {
                type: max(owner.score for owner in owners if owner.type == type)
                for type in dict.fromkeys(owner.type for owner in owners)
            },
            "counts": dict(Counter(owner.type for owner in owners)),
            "threshold": self._threshold,
            "judge": next((owner.judge for owner in owners if owner.judge), None),
            **({"detector": theirs} if theirs else {}),
            "spans": [_listed_span(window, group) for window, group in found[:MOST_LISTED]],
        }

    def _report_places(self, ctx: AnyContext, window: TextWindow, groups: Sequence[FindingGroup]) -> None:
        if not self.reporter.is_heard():
            return
        places: dict[TextPlace, list[FindingGroup]] = by_place(window, groups) or {window.locate(0)[0]: []}
        for place, here in places.items():
            self.reporter.report(ctx, self._detection(ctx, window, place, here))

    def _detection(
        self, ctx: AnyContext, window: TextWindow, place: TextPlace, here: Sequence[FindingGroup]
    ) -> Detection:
        scores: dict[str, float] = {}
        for group in here:
            scores[group.owner.type] = max(group.owner.score, scores.get(group.owner.type, 0.0))
        at = [(window.locate(group.start)[1], group) for group in here]
        spans = tuple(Span(low, low + item.end - item.start, item.owner.type, item.owner.score) for low, item in at)
        judge = next((group.owner.judge for group in here if group.owner.judge), "")
        done = (bool(here), self.strategy if here else "none", tuple(scores), freeze(scores), spans)
        return self.detection(ctx, place, window.text)(*done, judge=judge)


def _value(window: TextWindow, group: FindingGroup) -> tuple[str, SpanFinding]:
    """Return a value that was found. If its beginning has left, it is masked like encoded text: nothing of it stays."""
    owner = group.owner._replace(encoded=True) if group.start < window.start else group.owner
    return window.text[group.start : group.end], owner


def _listed_span(window: TextWindow, group: FindingGroup) -> dict[str, Value]:
    return {
        **listed_place(window, group.start),
        "length": group.end - group.start,
        "type": group.owner.type,
        "score": group.owner.score,
    }
