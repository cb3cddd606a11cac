"""`ScoreSearch`: scores texts window by window, with an embedded detector, the user's own detector, and a judge.

The embedded detector scores a window first, and the user's own detector, if there is one. If they are not certain, the
judge is asked, if there is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, cast

from penstock.detection.encoded import spoken
from penstock.detection.unicode.invisibles import visible_text
from penstock.detection.windows import Windows, unfinished
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import gather, runs_without_loop
from penstock.engine.text_guards.components import Action, Search
from penstock.engine.text_guards.known import goes_to_model, in_stage
from penstock.engine.text_guards.reporting import field_of
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.engine.values.model import JudgeError
from penstock.engine.workers import run_in_worker
from penstock.processors.guards.guard_options import limit_hold
from penstock.processors.guards.judging import (
    answers_in_time,
    require_complete,
    says_something,
    split_fixed,
    unquoted,
    without_failures,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from penstock.detection.embedded import EmbeddedScores
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.text_guard import TextGuard
    from penstock.engine.text_guards.window import TextWindow
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Judged, ScoreDetector
    from penstock.processors.guards.guard_options import GuardSetup

V = TypeVar("V")
Verdicts: TypeAlias = "tuple[Sequence[WindowVerdict], int]"

INPUT_WINDOWS = Windows(least=1_000, most=2_000, overlap=200)
"""How texts that go to the model are cut, unless a guard says otherwise."""
OUTPUT_WINDOWS = Windows(least=40, most=600, overlap=200)
"""How texts of the model are cut, unless a guard says otherwise; in a stream, a window is held until it is judged."""

DETECTOR_THRESHOLD = 0.5
"""The score from which a category of a `ScoreDetector` counts that has no threshold of its own."""

_SHORT = 200  # characters of a window that are scored within 1 ms


_Scores: TypeAlias = "tuple[tuple[str, ...], tuple[float, ...]]"  # names, and the score of each

_SCORES = "scores"  # a note in a window: the highest scores of a text in which nothing was found


class WindowScores(NamedTuple):
    """The scores of a window.

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


UNJUDGED = WindowScores()
"""The scores of a window on which everything failed that was asked; the step's policy lets it pass, unreported."""


class WindowVerdict(NamedTuple):
    """The scores of a window, and where in the text it begins and ends."""

    start: int
    end: int
    scored: WindowScores


class ScoreSearch(Search, Generic[V]):
    """Scores texts window by window. With a judge, a subclass writes `judge_scores`.

    Attributes:
        setup: the options of the guard.
        categories: the categories that count.
        own: the embedded detector; None if there is none.
        threshold: the score from which a category counts, for all or by category; None for the defaults.
        judged_threshold: the threshold for a judge's scores if ``threshold`` does not give one.
        input_windows: how to cut texts that go to the model; the results of tools do, wherever they are read.
        output_windows: how to cut texts of the model.
        scores: the fact with the highest score of each category in the run.
        certain: the detectors' score from which no judge is asked.
        between_values: the text between two values of a tool, as they are read.
    """

    certain: ClassVar[float] = 0.99
    between_values: ClassVar[str] = " "

    def __init__(
        self,
        setup: GuardSetup[V, Mapping[str, float]],
        categories: Iterable[str] = (),
        own: EmbeddedScores | None = None,
        *,
        threshold: float | Mapping[str, float] | None = None,
        judged_threshold: float = 0.5,
        input_windows: Windows = INPUT_WINDOWS,
        output_windows: Windows = OUTPUT_WINDOWS,
    ) -> None:
        self.setup = setup
        self.categories = tuple(categories)
        known = own is not None and any(name in own.categories for name in self.categories)
        self.own = own if setup.embedded and known else None
        self.threshold = threshold
        self.judged_threshold = judged_threshold
        self.input_windows, self.output_windows = input_windows, output_windows
        self.scores = Key[Mapping[str, float]](setup.fact)
        self._calls, self._judge = setup.detector.calls, setup.judge

    def install(self, guard: TextGuard, action: Action) -> None:
        """Make a guard of this search and an action; call it in the guard's constructor.

        It sets ``search``, ``action``, ``provides``, and the limits in streams that follow from this search.
        """
        guard.search, guard.action, guard.provides = self, action, (self.scores,)
        guard.lookback = max(self.input_windows.overlap, self.output_windows.overlap)
        limit_hold(guard, 2 * self.output_windows.most)
        guard.read_parts_separately = self.reads_thoughts_on = False

    def judge_scores(self, judged: Judged[V], text: str) -> WindowScores:
        """Return the scores in a judge's verdict about a window; ``flagged`` and ``judge`` are filled in later."""
        raise NotImplementedError

    def detect(self, text: str) -> WindowScores | None:
        """Return the embedded detector's findings in a window and in encoded text in it; None without a detector."""
        if self.own is None:
            return None
        return self.apply_limits(WindowScores(self._highest(self.own.scores([text, *spoken(text)]))))

    async def ask_detector(self, text: str, ctx: AnyContext) -> WindowScores | None:
        """Return the findings of the user's own detector in a window, as it stands and uncovered.

        None if there is none, or if it failed, the step's policy lets the text pass, and nothing is found without it.

        It reads encoded text in the window, too, and the window without invisible characters.

        Raises:
            DetectorError: it failed.
        """
        if self._calls is None:
            return None
        seen = visible_text(text)
        uncovered = spoken(text) if seen is None else (seen.text, *spoken(text))
        asked = [text, *uncovered]
        given = await answers_in_time(self._calls, asked, ctx)
        answers = without_failures(given, ctx)
        if not answers or (len(answers) < len(asked) and self.setup.combine == "confirm"):
            return None
        scores = self._highest(answers)
        limits = {name: self.detector_limit(name) for name in scores}
        flagged = tuple(name for name, score in scores.items() if score >= limits[name])
        return WindowScores(scores, flagged, detector=self._calls.name, limits=limits)

    def combined(self, own: WindowScores, theirs: WindowScores) -> WindowScores:
        """Return what both detectors find: what one of them does, or with ``combine="confirm"`` what both do."""
        confirm = self.setup.combine == "confirm"
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
        if len(read) == 1:
            counts = self.categories
            return {name: max(score, 0.0) for name, score in read[0].items() if name in counts}
        found: dict[str, float] = {}
        for scores in read:
            for name, score in scores.items():
                if name in self.categories:
                    found[name] = max(score, found.get(name, 0.0))
        return found

    def limit(self, category: str, *, judged: bool) -> float:
        """Return the score from which a category counts; ``judged``: of a judge's scores."""
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

    @property
    def limits_in_force(self) -> dict[str, float]:
        """The score from which each category counts: of a judge's scores if one is asked, else of the detector's."""
        if self._calls is not None and self._judge is None:
            return {name: self.detector_limit(name) for name in self.categories}
        return self.limits(self.categories, judged=self._judge is not None)

    def detector_limit(self, category: str) -> float:
        """Return the score of the user's own detector from which a category counts: its own, unless one is set."""
        if isinstance(self.threshold, (int, float)):
            return self.threshold
        calls = self._calls
        known = EMPTY if calls is None else cast("ScoreDetector", calls.detector).thresholds
        own = known.get(category, DETECTOR_THRESHOLD)
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

    def scan(self, window: TextWindow, ctx: AnyContext) -> Verdicts | Awaitable[Verdicts]:
        """Return the verdicts that something is to be done about, and where the next window begins.

        Scores of windows that are not flagged are reported at once, unless a callback wants them: most texts are
        ordinary, and a finding costs a stream more than it took to score the window.
        """
        judged = self.verdicts(window, ctx)
        if not isinstance(judged, tuple) or self.setup.reporter.is_heard():
            return judged
        verdicts, hold = judged
        if any(verdict.scored.flagged for verdict in verdicts):
            return judged
        scored = [verdict.scored for verdict in verdicts]
        report_scores(ctx, self.scores, scored)
        window.notes[_SCORES] = highest(window.notes.get(_SCORES, EMPTY), scored)
        return (), hold

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return nothing, unless somebody is asked or told about each text."""
        del ctx
        asks = self._judge is not None or self._calls is not None
        return None if asks or self.setup.reporter.is_heard() else b""

    def joins_beyond(self, text: Text) -> bool:
        """Return whether a text is read as one with others of its message: it can only be read, and says something."""
        return text.fixed and says_something(text.text)

    def left(self, notes: Mapping[str, Value], *, told: bool) -> tuple[object, ...] | None:
        """Return the scores of a text that is clean."""
        del told
        scores: Mapping[str, float] | None = notes.get(_SCORES)
        return None if scores is None else ((tuple(scores), tuple(scores.values())),)

    def recall(self, ctx: AnyContext, left: Iterable[object]) -> None:
        """Report the scores of texts that are not read again."""
        by_names: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
        for names, scores in cast("Iterable[_Scores]", left):
            by_names.setdefault(names, []).append(scores)
        tops = [
            dict(zip(names, map(max, zip(*listed, strict=True)), strict=True)) for names, listed in by_names.items()
        ]
        report_scores(ctx, self.scores, [*map(WindowScores, tops)])

    def verdicts(self, window: TextWindow, ctx: AnyContext) -> Verdicts | Awaitable[Verdicts]:
        """Return a verdict about each window that has ended, and where the next one begins."""
        goes_in = STAGES[ctx.stage].phase == "input" or goes_to_model(window.parts[0].place)
        windows = self.input_windows if goes_in else self.output_windows
        cuts = windows.cuts(window.text, window.start, final=window.final)
        places = list(itertools.pairwise([window.start, *cuts]))
        hold = cuts[-1] if cuts else window.start
        apart = self.between_values
        views = [view(window, start - windows.begin(start, end), start, end, apart) for start, end in places]
        if self._judge is not None or self._calls is not None:
            return self._scan_waiting(places, views, hold, ctx)
        scored = [(text and self.detect(text)) or WindowScores() for text in views]
        return [WindowVerdict(*place, each) for place, each in zip(places, scored, strict=True)], hold

    async def _scan_waiting(
        self, places: Sequence[tuple[int, int]], views: Sequence[str], hold: int, ctx: AnyContext
    ) -> Verdicts:
        scored = await gather([partial(self.score_window, text, ctx) for text in views])
        judged = [(place, each) for place, each in zip(places, scored, strict=True) if each is not UNJUDGED]
        return [WindowVerdict(*place, each) for place, each in judged], hold

    async def detected(self, text: str, ctx: AnyContext) -> WindowScores | None:
        """Return the detectors' findings in a window; None if there are none.

        With ``combine="confirm"`` the user's own is asked only about what the embedded one has flagged. If the user's
        own fails and the step's policy lets the text pass, the findings of the embedded one count.

        Raises:
            DetectorError: the user's own failed.
        """
        own = await self._detected_beside(text)
        if self.setup.combine == "confirm" and (own is None or not self.confirmable(own)):
            return own
        theirs = await self.ask_detector(text, ctx)
        return self.combined(own, theirs) if own is not None and theirs is not None else own or theirs

    def confirmable(self, own: WindowScores) -> bool:
        """Return whether there is something that another detector could confirm."""
        return bool(own.flagged)

    async def _detected_beside(self, text: str) -> WindowScores | None:
        """Return what `detect` does; from a worker thread where a text is not short: many windows may be in line."""
        if len(text) <= _SHORT or not self.setup.offloadable or runs_without_loop():
            return self.detect(text)
        return await run_in_worker(partial(self.detect, text))

    async def score_window(self, text: str, ctx: AnyContext) -> WindowScores:
        """Return the scores of a window by the detectors and the judge.

        Raises:
            DetectorError: the user's own detector failed.
            JudgeError: the judge gave no verdict, and nothing else counts in its place.
        """
        detects = self._judge is None or self.setup.embedded or self._calls is not None
        return await self.judge_window(await self.detected(text, ctx) if text and detects else None, text, ctx)

    async def judge_window(self, own: WindowScores | None, text: str, ctx: AnyContext) -> WindowScores:
        """Return the judge's scores of a window, unless the detectors are certain: ``own`` are theirs.

        That counts, too, if the judge fails and the step's policy lets the text pass.

        Raises:
            JudgeError: the judge gave no verdict, and nothing else counts in its place.
        """
        if self._judge is None or not text:
            return own or (UNJUDGED if text else WindowScores())
        if own is not None and any(own.scores[name] >= self.certain for name in own.flagged):
            return own
        try:
            return self.read_judged(await ctx.in_time(self._judge.ask(text, ctx=ctx)), text)
        except Exception as error:  # noqa: BLE001 - the policy decides about this text, and about no other
            if not isinstance(error, JudgeError) or self.setup.judge_failure == "fail" or own is None:
                ctx.let_pass(error)
            ctx.note(judge_failed=True)
            return own or UNJUDGED

    def read_judged(self, judged: Judged[V], text: str) -> WindowScores:
        """Return what a judge's verdict says, with limits applied, and without a reason that quotes the text.

        Raises:
            JudgeError: entries of the verdict could not be read, and nothing is flagged without them.
        """
        scored = self.apply_limits(self.judge_scores(judged, text)._replace(judge=judged.model))
        require_complete(judged, flagged=bool(scored.flagged), model=judged.model)
        return scored._replace(reason=unquoted(scored.reason, text))


def report_scores(ctx: AnyContext, fact: Key[Mapping[str, float]], scored: Sequence[WindowScores]) -> None:
    """Put the highest score of each category in the run so far into the fact and into the step's record."""
    known = ctx.get(fact) or EMPTY
    scores = highest(known, scored)
    if scores != known:
        ctx.put(fact, scores)
    if scores:
        ctx.note(scores=scores)


def highest(known: Mapping[str, float], scored: Sequence[WindowScores]) -> Mapping[str, float]:
    """Return the highest score of each category, of those that are known and of windows."""
    if not known and len(scored) == 1:  # most texts are one window
        return FrozenDict(scored[0].scores)
    scores = dict(known)
    for each in scored:
        for name, score in each.scores.items():
            if score > scores.get(name, -1.0):
                scores[name] = score
    return FrozenDict(scores)


def _limit_of(name: str, own: WindowScores, theirs: WindowScores) -> float:
    """Return the limit of a category: that of a detector that has flagged it, if one has."""
    flagging = [each for each in (own, theirs) if name in each.flagged]
    return min(each.limits[name] for each in flagging or (own, theirs) if name in each.limits)


def _of_one_value(one: Text, other: Text) -> bool:
    """Return whether both texts stand in the same value of a tool, its arguments or its result, and can be edited."""
    if not (one.kind == other.kind == "tool" and one.place[:2] == other.place[:2]):
        return False
    begun = one.place.path[:2] == other.place.path[:2]  # as most texts of one value
    return begun or field_of(in_stage(one.place)) == field_of(in_stage(other.place))


def view(window: TextWindow, before: int, start: int, end: int, between_values: str = " ") -> str:
    """Return a window as it is read, with so many characters before it; an empty text if the window is blank.

    Spaces stand between parts, and between the values of a tool if no other text does. Empty parts are left out, since
    a stream shows no sign of them.
    """
    if not window.text[start:end].strip():
        return ""
    low = max(start - before, 0)
    borders = window.borders(low, end)
    parts = [window.text[a:b] for a, b in itertools.pairwise([low, *borders, end])]
    between = between_values if window.kind == "tool" else " "
    return between.join(filter(None, parts)) if borders else parts[0]
