"""`ScoreAction`: removes or rewrites windows that were flagged, logs them, or stops the run; and reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from penstock.engine.text_guards.reporting import MOST_LISTED, cannot_edit, listed_place
from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.processors.guards.judged_action import JudgedAction
from penstock.processors.guards.score_search import report_scores, view

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.processors.guards.detection import Detection
    from penstock.processors.guards.score_search import ScoreSearch, WindowVerdict

V = TypeVar("V")


class ScoreAction(JudgedAction):
    """Acts on windows that were scored.

    Attributes:
        actions: the strategies of single categories, and under ``*`` that of the others; empty if there is one for all.
        says: the beginning of the reason of a tripwire.
        include_scores: whether the reason has the scores.
    """

    def __init__(
        self,
        search: ScoreSearch[V],
        *,
        actions: Mapping[str, str] = EMPTY,
        says: str = "the text was flagged",
        include_scores: bool = False,
    ) -> None:
        super().__init__(search.setup)
        self.actions = actions
        self.says = says
        self.include_scores = include_scores
        self._search = search

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Report what was found; then return the edits of the strategy, or stop the run."""
        found = [(hit.window, cast("list[WindowVerdict]", hit.found)) for hit in hits]
        flagged = [(window, verdict) for window, verdicts in found for verdict in verdicts if verdict.scored.flagged]
        report_scores(ctx, self._search.scores, [verdict.scored for _, verdicts in found for verdict in verdicts])
        for window, verdicts in found if self.reporter.is_heard() else ():
            for verdict in verdicts:
                if window.text[verdict.start : verdict.end].strip():
                    self.reporter.report(ctx, self._detection(ctx, window, verdict))
        if flagged:
            self._act_on(ctx, flagged)
        return [[edit for verdict in verdicts for edit in self.edits_for(verdict)] for _, verdicts in found]

    def edits_for(self, verdict: WindowVerdict) -> Iterable[Edit]:
        """Return the edits for a window: one that is flagged is removed, unless the strategy edits nothing."""
        if not self.edits or self.action(verdict) in ("none", "warn"):
            return ()
        if verdict.start == verdict.end:
            return ()
        text = verdict.scored.text or ""
        # A rewriting is no redaction: it repeats most of the text, which a later guard may hide, and records show it.
        return (Edit(verdict.start, verdict.end, text, "replace" if text else "redact"),)

    def action(self, verdict: WindowVerdict) -> str:
        """Return what is done about a window: the strictest strategy of its flagged categories; ``none`` for none."""
        chosen = {self.actions.get(name, self.actions.get("*", self.strategy)) for name in verdict.scored.flagged}
        return next((one for one in ("block", "rewrite", "filter", "warn") if one in chosen), "none")

    def _act_on(self, ctx: AnyContext, flagged: Sequence[tuple[TextWindow, WindowVerdict]]) -> None:
        done = [(self.action(verdict), window, verdict) for window, verdict in flagged]
        warned = [name for action, _, verdict in done if action == "warn" for name in verdict.scored.flagged]
        if warned:
            self.warn(ctx, warned)
        blocked = [(window, verdict) for action, window, verdict in done if action == "block"]
        stuck = [(window, verdict) for action, window, verdict in done if window.stuck and action != "warn"]
        if not self.edits or self.removes(ctx):
            stuck = []
        found = blocked or stuck
        if found:
            why = "" if blocked else cannot_edit([window for window, _ in stuck])
            names = [name for _, verdict in found for name in verdict.scored.flagged]
            self.block(ctx, names, self._metadata(found), why)

    def block(self, ctx: AnyContext, categories: Sequence[str], metadata: Mapping[str, Value], why: str) -> NoReturn:
        """Stop the run. The reason has the categories, the judge's reason and, if asked for, all scores."""
        reason = f"{why}{self.says}: {', '.join(dict.fromkeys(categories))}"
        if metadata.get("reason"):
            reason += f" ({metadata['reason']})"
        if self.include_scores:
            scores: Mapping[str, float] = metadata.get("scores", {})
            reason += f"; scores: {', '.join(f'{name} {score:.4g}' for name, score in scores.items())}"
        self.reporter.stop(ctx, reason, metadata)

    # Reporting

    def _metadata(self, flagged: Sequence[tuple[TextWindow, WindowVerdict]]) -> dict[str, Value]:
        """Return the metadata of a tripwire; the verdict about the first window stands at the top."""
        first = flagged[0][1].scored
        judged = bool(first.judge)
        return {
            "categories": {name: first.scores.get(name) for name in first.flagged},
            "scores": dict(first.scores),
            "threshold": {
                name: first.limits.get(name, self._search.limit(name, judged=judged)) for name in first.flagged
            },
            "reason": first.reason,
            "judge": first.judge or None,
            **({"detector": first.detector} if first.detector else {}),
            "spans": [_listed_window(window, verdict) for window, verdict in flagged[:MOST_LISTED]],
            **first.details,
        }

    def _detection(self, ctx: AnyContext, window: TextWindow, verdict: WindowVerdict) -> Detection:
        place, _ = window.locate(verdict.start)
        scored = verdict.scored
        text = view(window, 0, verdict.start, verdict.end)
        done = (bool(scored.flagged), self.action(verdict), scored.flagged, freeze(dict(scored.scores)))
        return self.detection(ctx, place, text)(*done, reason=scored.reason, judge=scored.judge)


def _listed_window(window: TextWindow, verdict: WindowVerdict) -> dict[str, Value]:
    return {
        **listed_place(window, verdict.start),
        "length": verdict.end - verdict.start,
        "categories": list(verdict.scored.flagged),
    }
