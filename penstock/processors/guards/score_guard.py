"""`ScoreGuard`: base class of guards that score texts window by window, and act if a score reaches its threshold.

The embedded detector scores a window first, and the user's own detector, if there is one. If they are not certain, the
judge is asked, if there is one. The strategy decides what happens to flagged windows.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, NoReturn, TypeVar, cast

from penstock.detection.encoded import spoken
from penstock.detection.unicode.invisibles import visible_text
from penstock.detection.windows import Windows, unfinished
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import gather, runs_without_loop
from penstock.engine.text_guards.reporting import MOST_LISTED, cannot_edit, field_of, listed_place
from penstock.engine.values.edits import Edit
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze
from penstock.engine.values.model import JudgeError
from penstock.engine.workers import run_in_worker
from penstock.processors.guards.judged_guard import (
    REMOVES_MESSAGES,
    Detection,
    Guard,
    require_complete,
    split_fixed,
    unquoted,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from penstock.detection.embedded import EmbeddedScores
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.protocols import Judged, ScoreDetector
    from penstock.engine.values.texts import TextPlace
    from penstock.models.detectors.calls import DetectorCalls
    from penstock.processors.guards.judged_guard import GuardOptions

V = TypeVar("V")

DETECTOR_THRESHOLD = 0.5
"""The score from which a category of a `ScoreDetector` counts that has no threshold of its own."""

_SHORT = 200  # characters of a window that are scored within 1 ms


class WindowScores(NamedTuple):
    """What was found out about a window.

    Attributes:
        scores: how sure that is, by category, from 0 to 1.
        flagged: the categories that reached their limit, in the order of the scores.
        reason: the reason that the judge gave.
        judge: the name of the model that judged; empty for detectors.
        detector: the name of the user's own detector, if its scores are among them.
        limits: the score from which each category counts.
        text: what replaces the window, if the strategy of the guard asks for that.
        details: further metadata for a tripwire.
    """

    scores: Mapping[str, float] = EMPTY
    flagged: tuple[str, ...] = ()
    reason: str | None = None
    judge: str = ""
    detector: str = ""
    limits: Mapping[str, float] = EMPTY
    text: str | None = None
    details: Values = EMPTY


class WindowVerdict(NamedTuple):
    """The scores of a window, and where in the text it begins and ends."""

    start: int
    end: int
    scored: WindowScores


class ScoreGuard(Guard[V]):
    """Scores texts window by window. A subclass sets the detectors, and tells how to read a judge's verdict.

    Set `own` or write `detect`; with a judge, write `judge_scores`; and call `set_up` in the constructor. Before that,
    set `calls` if there is a ``detector``. A
    ``max_hold`` that a subclass declares must allow two of the `output_windows` (1,200 characters by default).

    Attributes:
        input_windows: how to cut texts that go to the model.
        output_windows: how to cut texts of the model; in a stream, a window is held until it is judged.
        own: the embedded detector; None if there is none.
        calls: the calls of the user's own detector; None if there is none.
        certain: the detectors' score from which no judge is asked.
        categories: the categories that count.
        threshold: the score from which a category counts, for all or by category; None for the defaults.
        include_scores: whether the reason of a tripwire has the scores.
        says: the beginning of the reason of a tripwire.
        judged_threshold: the threshold for a judge's scores if ``threshold`` does not give one.
        actions: the strategies of single categories; empty if ``strategy`` is that of all.
        scores: the fact with the highest score of each category in the run.
    """

    searching = (*Guard.searching, "verdicts")
    input_windows: ClassVar[Windows] = Windows(least=1_000, most=2_000, overlap=200)
    output_windows: Windows = Windows(least=40, most=600, overlap=200)
    read_parts_separately = False
    own: EmbeddedScores | None = None
    calls: DetectorCalls[Mapping[str, float]] | None = None
    certain: float = 0.99
    judged_threshold: ClassVar[float] = 0.5
    categories: tuple[str, ...] = ()
    threshold: float | Mapping[str, float] | None = None
    include_scores: bool = False
    actions: Mapping[str, str] = EMPTY
    says: ClassVar[str] = "the text was flagged"
    scores: Key[Mapping[str, float]]

    def judge_scores(self, judged: Judged[V], text: str) -> WindowScores:
        """Return what a judge's verdict about a window says; ``flagged`` and ``judge`` are filled in later."""
        raise NotImplementedError

    def detect(self, text: str) -> WindowScores | None:
        """Return what the embedded detector finds in a window and in encoded text in it; None without a detector."""
        if self.own is None:
            return None
        return self.apply_limits(WindowScores(self._highest(self.own.scores([text, *spoken(text)]))))

    async def ask_detector(self, text: str) -> WindowScores | None:
        """Return what the user's own detector finds in a window, as it stands and uncovered; None if there is none.

        It reads encoded text in the window, too, and the window without invisible characters.

        Raises:
            DetectorError: it failed.
        """
        if self.calls is None:
            return None
        seen = visible_text(text)
        uncovered = spoken(text) if seen is None else (seen.text, *spoken(text))
        scores = self._highest(await self.calls.ask([text, *uncovered]))
        limits = {name: self.detector_limit(name) for name in scores}
        flagged = tuple(name for name, score in scores.items() if score >= limits[name])
        return WindowScores(scores, flagged, detector=self.calls.name, limits=limits)

    def combined(self, own: WindowScores, theirs: WindowScores) -> WindowScores:
        """Return what both detectors find: what one of them does, or with ``combine="confirm"`` what both do."""
        confirm = self.combine == "confirm"
        names = list(dict.fromkeys((*own.scores, *theirs.scores)))
        if confirm:
            names = [name for name in names if name in own.scores and name in theirs.scores]
        which, count = (min, all) if confirm else (max, any)
        scores = {name: which(each.scores[name] for each in (own, theirs) if name in each.scores) for name in names}
        flagged = tuple(name for name in names if count(name in each.flagged for each in (own, theirs)))
        limits = {name: _limit_of(name, own, theirs) for name in names}
        return own._replace(scores=scores, flagged=flagged, detector=theirs.detector, limits=limits)

    def _highest(self, read: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return the highest score of each category that counts, of a window and of what is encoded in it."""
        found: dict[str, float] = {}
        for scores in read:
            for name, score in scores.items():
                if name in self.categories:
                    found[name] = max(score, found.get(name, 0.0))
        return found

    def set_up(
        self,
        model: object,
        strategy: str,
        verdict: type[V],
        question: str,
        options: GuardOptions,
        *,
        named: Iterable[object] = (),
    ) -> None:
        """Check and store the options that all guards have, and declare the fact `scores`.

        Set the windows before. ``named`` tells the fact of this guard from those of others; the other arguments and the
        errors are those of `Guard.set_up`.
        """
        super().set_up(model, strategy, verdict, question, options)
        self.lookback = max(self.input_windows.overlap, self.output_windows.overlap)
        self.limit_hold(2 * self.output_windows.most)
        self.scores = Key(self.fact_name("scores", *named))
        self.provides = (self.scores,)

    def limit(self, category: str, *, judged: bool) -> float:
        """Return the score from which on a category counts; ``judged``: of a judge's scores."""
        return self.limits((category,), judged=judged)[category]

    def limits(self, categories: Iterable[str], *, judged: bool) -> dict[str, float]:
        """Return the score from which on each category counts; ``judged``: of a judge's scores."""
        if isinstance(self.threshold, (int, float)):
            return dict.fromkeys(categories, self.threshold)
        usual = EMPTY if judged or self.own is None else self.own.thresholds
        limits = {name: usual.get(name, self.judged_threshold) for name in categories}
        if self.threshold is not None:
            limits.update({name: self.threshold[name] for name in limits if name in self.threshold})
        return limits

    def detector_limit(self, category: str) -> float:
        """Return the score of the user's own detector from which a category counts: its own, unless one is set."""
        if isinstance(self.threshold, (int, float)):
            return self.threshold
        own = cast("ScoreDetector", self.detector).thresholds.get(category, DETECTOR_THRESHOLD)
        return own if self.threshold is None else self.threshold.get(category, own)

    def apply_limits(self, scored: WindowScores) -> WindowScores:
        """Return scores with the categories flagged that reach their limit."""
        limits = self.limits(scored.scores, judged=bool(scored.judge))
        flagged = tuple(name for name, score in scored.scores.items() if score >= limits[name])
        return scored._replace(flagged=flagged, limits=limits)

    # Finding

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return the texts that are read as one: text parts, and all texts of one value of a tool.

        The arguments of a tool call are one value, and its result is another, as they are in a stream. What can only
        be read, such as ids, is read as one text of its message, without what has no words.
        """
        free, fixed = split_fixed(texts)
        runs: list[list[Text]] = []
        for run in super().runs(free, ctx):
            if runs and _of_one_value(runs[-1][-1], run[0]):
                runs[-1] += run
            else:
                runs.append(run)
        return [*runs, *fixed]

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return where the window begins that waits for its end; None if there is a window to read."""
        del notes
        return unfinished(text, start, (self.output_windows, self.input_windows), final=final)

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[WindowVerdict], int] | Awaitable[tuple[Sequence[WindowVerdict], int]]:
        """Return the verdicts that something is to be done about, and where the next window begins.

        Scores of windows that are not flagged are reported at once, unless a callback wants them: most texts are
        ordinary, and a finding costs a stream more than it took to score the window.
        """
        judged = self.verdicts(window, ctx)
        if not isinstance(judged, tuple) or self._reporter.is_heard():
            return judged
        verdicts, hold = judged
        if any(verdict.scored.flagged for verdict in verdicts):
            return judged
        self._report_scores(ctx, [verdict.scored for verdict in verdicts])
        return (), hold

    def verdicts(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[WindowVerdict], int] | Awaitable[tuple[Sequence[WindowVerdict], int]]:
        """Return a verdict about each window that has ended, and where the next one begins."""
        windows = self.input_windows if STAGES[ctx.stage].phase == "input" else self.output_windows
        cuts = windows.cuts(window.text, window.start, final=window.final)
        places = list(itertools.pairwise([window.start, *cuts]))
        hold = cuts[-1] if cuts else window.start
        views = [_view(window, windows.overlap, start, end) for start, end in places]
        if self.judge is not None or self.calls is not None:
            return self._scan_waiting(places, views, hold, ctx)
        scored = [(view and self.detect(view)) or WindowScores() for view in views]
        return [WindowVerdict(*place, each) for place, each in zip(places, scored, strict=True)], hold

    async def _scan_waiting(
        self, places: Sequence[tuple[int, int]], views: Sequence[str], hold: int, ctx: AnyContext
    ) -> tuple[Sequence[WindowVerdict], int]:
        scored = await gather([partial(self.score_window, view, ctx) for view in views])
        return [WindowVerdict(*place, each) for place, each in zip(places, scored, strict=True)], hold

    async def detected(self, text: str) -> WindowScores | None:
        """Return what the detectors find in a window; None if there are none.

        With ``combine="confirm"`` the user's own is asked only about what the embedded one has flagged.

        Raises:
            DetectorError: the user's own failed.
        """
        own = await self._detected_beside(text)
        if self.combine == "confirm" and (own is None or not self.confirmable(own)):
            return own
        theirs = await self.ask_detector(text)
        return self.combined(own, theirs) if own is not None and theirs is not None else own or theirs

    def confirmable(self, own: WindowScores) -> bool:
        """Return whether there is something that another detector could confirm."""
        return bool(own.flagged)

    async def _detected_beside(self, text: str) -> WindowScores | None:
        """Return what `detect` does; from a worker thread where a text is not short: many windows may be in line."""
        if len(text) <= _SHORT or not self.offloadable or runs_without_loop():
            return self.detect(text)
        return await run_in_worker(partial(self.detect, text))

    async def score_window(self, text: str, ctx: AnyContext) -> WindowScores:
        """Return what the detectors and the judge find out about a window.

        Raises:
            DetectorError: the user's own detector failed.
            JudgeError: the judge gave no verdict, and nothing else counts in its place.
        """
        detects = self.judge is None or self.embedded or self.calls is not None
        return await self.judge_window(await self.detected(text) if text and detects else None, text, ctx)

    async def judge_window(self, own: WindowScores | None, text: str, ctx: AnyContext) -> WindowScores:
        """Return what the judge finds out about a window, unless the detectors are certain: ``own`` is what they say.

        Raises:
            JudgeError: the judge gave no verdict, and nothing else counts in its place.
        """
        if self.judge is None or not text:
            return own or WindowScores()
        if own is not None and any(own.scores[name] >= self.certain for name in own.flagged):
            return own
        try:
            return self.read_judged(await self.judge.ask(text, ctx=ctx), text)
        except JudgeError:
            if self.judge_failure == "fail" or own is None:
                raise
            ctx.note(judge_failed=True)
            return own

    def read_judged(self, judged: Judged[V], text: str) -> WindowScores:
        """Return what a judge's verdict says, with limits applied, and without a reason that quotes the text.

        Raises:
            JudgeError: entries of the verdict could not be read, and nothing is flagged without them.
        """
        scored = self.apply_limits(self.judge_scores(judged, text)._replace(judge=judged.model))
        require_complete(judged, flagged=bool(scored.flagged), model=judged.model)
        return scored._replace(reason=unquoted(scored.reason, text))

    # Acting

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Report what was found; then return the edits of the strategy, or stop the run."""
        found = [(hit.window, cast("list[WindowVerdict]", hit.found)) for hit in hits]
        flagged = [(window, verdict) for window, verdicts in found for verdict in verdicts if verdict.scored.flagged]
        self._report_scores(ctx, [verdict.scored for _, verdicts in found for verdict in verdicts])
        for window, verdicts in found if self._reporter.is_heard() else ():
            for verdict in verdicts:
                if window.text[verdict.start : verdict.end].strip():
                    self.report(ctx, self._detection(ctx, window, verdict))
        if flagged:
            self._act_on(ctx, flagged)
        return [[edit for verdict in verdicts for edit in self.edits_for(verdict)] for _, verdicts in found]

    def edits_for(self, verdict: WindowVerdict) -> Iterable[Edit]:
        """Return the edits for a window: one that is flagged is removed, unless the strategy edits nothing."""
        if self.edits == "nothing" or self.action(verdict) in ("none", "warn"):
            return ()
        if verdict.start == verdict.end:
            return ()
        text = verdict.scored.text or ""
        # A rewriting is no redaction: it repeats most of the text, which a later guard may hide, and records show it.
        return (Edit(verdict.start, verdict.end, text, "replace" if text else "redact"),)

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits; with ``strategy="filter"`` without the messages that have some."""
        return self.without_flagged(ctx, edits) if self.strategy == "filter" else super().changed(ctx, edits)

    def option(self, name: str) -> object:
        """Return an option as it was given."""
        return self.actions if name == "strategy" and self.actions else super().option(name)

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
        stuck = [(window, verdict) for action, window, verdict in done if window.fixed and action != "warn"]
        if self.edits == "nothing" or (self.removes_messages and ctx.stage in REMOVES_MESSAGES):
            stuck = []
        found = blocked or stuck
        if found:
            why = "" if blocked else cannot_edit([window for window, _ in stuck])
            names = [name for _, verdict in found for name in verdict.scored.flagged]
            self.block(ctx, names, self._metadata(found), why)

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run. The reason has the categories, the judge's reason and, if asked for, all scores."""
        reason = f"{why}{self.says}: {', '.join(dict.fromkeys(categories))}"
        if metadata.get("reason"):
            reason += f" ({metadata['reason']})"
        if self.include_scores:
            scores: Mapping[str, float] = metadata.get("scores", {})
            reason += f"; scores: {', '.join(f'{name} {score:.4g}' for name, score in scores.items())}"
        self._reporter.stop(ctx, reason, metadata)

    # Reporting

    def _metadata(self, flagged: Sequence[tuple[TextWindow, WindowVerdict]]) -> dict[str, Value]:
        """Return the metadata of a tripwire; the verdict about the first window stands at the top."""
        first = flagged[0][1].scored
        judged = bool(first.judge)
        return {
            "categories": {name: first.scores.get(name) for name in first.flagged},
            "scores": dict(first.scores),
            "threshold": {name: first.limits.get(name, self.limit(name, judged=judged)) for name in first.flagged},
            "reason": first.reason,
            "judge": first.judge or None,
            **({"detector": first.detector} if first.detector else {}),
            "spans": [_listed_window(window, verdict) for window, verdict in flagged[:MOST_LISTED]],
            **first.details,
        }

    def _report_scores(self, ctx: AnyContext, scored: Sequence[WindowScores]) -> None:
        known = ctx.get(self.scores) or EMPTY
        highest = dict(known)
        for each in scored:
            for name, score in each.scores.items():
                if score > highest.get(name, -1.0):
                    highest[name] = score
        if highest != known:
            known = FrozenDict(highest)
            ctx.put(self.scores, known)
        if known:
            ctx.note(scores=known)

    def _detection(self, ctx: AnyContext, window: TextWindow, verdict: WindowVerdict) -> Detection:
        place, _ = window.locate(verdict.start)
        scored = verdict.scored
        return Detection(
            self.id,
            ctx.stage,
            place.message_id,
            place.part,
            field_of(place),
            bool(scored.flagged),
            self.action(verdict),
            scored.flagged,
            freeze(dict(scored.scores)),
            (),
            scored.reason,
            scored.judge,
            _view(window, 0, verdict.start, verdict.end) if self.include_text else None,
        )


def _limit_of(name: str, own: WindowScores, theirs: WindowScores) -> float:
    """Return the limit of a category: that of a detector that has flagged it, if one has."""
    flagging = [each for each in (own, theirs) if name in each.flagged]
    return min(each.limits[name] for each in flagging or (own, theirs) if name in each.limits)


def _of_one_value(one: Text, other: Text) -> bool:
    """Return whether both texts stand in the same value of a tool, its arguments or its result, and can be edited."""
    same = one.kind == other.kind == "tool" and one.place[:2] == other.place[:2]
    return same and one.place.path[:1] == other.place.path[:1]


def _view(window: TextWindow, before: int, start: int, end: int) -> str:
    """Return a window as it is read, with so many characters before it; an empty text if the window is blank.

    Spaces stand between parts. Empty parts are left out, since a stream shows no sign of them.
    """
    if not window.text[start:end].strip():
        return ""
    low = max(start - before, 0)
    borders = window.borders(low, end)
    parts = [window.text[a:b] for a, b in itertools.pairwise([low, *borders, end])]
    return " ".join(filter(None, parts)) if borders else parts[0]


def _listed_window(window: TextWindow, verdict: WindowVerdict) -> dict[str, Value]:
    return {
        **listed_place(window, verdict.start),
        "length": verdict.end - verdict.start,
        "categories": list(verdict.scored.flagged),
    }
