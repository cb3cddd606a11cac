"""`ClassifierProcessor`: asks a model questions about texts, and calls your function with the answers.

A `Question` is one question for the model. A `Classification` tells your function which text the answers are about.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Generic,
    Literal,
    NamedTuple,
    NoReturn,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
)

from penstock.detection.windows import Windows, unfinished
from penstock.engine.processor.option_checks import check_count, check_optional_count
from penstock.engine.processor.processor import is_async
from penstock.engine.processor.stages import STAGES, WrongReturnError
from penstock.engine.tasks import gather, run_without_loop
from penstock.engine.text_guards.calls import in_places, window_of
from penstock.engine.text_guards.components import Search, adjoins, by_message
from penstock.engine.text_guards.reporting import cannot_edit
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.text_guards.window import Hit
from penstock.engine.values import protocols as ports
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping
from penstock.processors.guards.detector_options import use_score_detector
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.judged_action import JudgedAction
from penstock.processors.guards.judging import require_complete, split_fixed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import JudgeSource, Model, ScoreDetector
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.detection import Detection
    from penstock.processors.guards.guard_options import GuardOptions, GuardSetup
    from penstock.processors.guards.question import Question


A = TypeVar("A")

ClassifiedPhase = Literal["input", "output", "stream"]


class Classification(Generic[A]):
    """The second argument of ``on_result``: the text that the answers are about, and ways to act on it.

    Attributes:
        phase: ``input`` (text that goes to the model), ``output`` (text of the model) or ``stream`` (text of the model
            in a stream).
        result: the answers.
        text: the text that the answers are about: a message's, or a window of an answer's, without the overlap before
            the window.
        message_id: the id of the message; empty in a stream, and for a tool's arguments or result.
        stage: the stage in which the processor runs.
        filtered: whether `filter` was called.
    """

    __slots__ = ("_ctx", "filtered", "message_id", "phase", "result", "stage", "text")

    def __init__(self, phase: ClassifiedPhase, result: A, text: str, message_id: str, ctx: AnyContext) -> None:
        self.phase = phase
        self.result = result
        self.text = text
        self.message_id = message_id
        self.stage = ctx.stage
        self.filtered = False
        self._ctx = ctx

    def abort(self, reason: str | None = None, *, retry: bool = False, metadata: Values | None = None) -> NoReturn:
        """Stop the run with a verdict; see `penstock.Context.abort`.

        The reason must not quote text that must stay hidden.
        """
        self._ctx.abort(reason, retry=retry, metadata=metadata)

    def filter(self) -> None:
        """Remove the text. In input, the whole message is removed; elsewhere, only the text."""
        self.filtered = True

    def __repr__(self) -> str:
        """Show the phase and the message, but no text and no answer."""
        return f"Classification({self.phase!r}, {self.message_id!r})"


Classifier: TypeAlias = "Callable[[str], A | Awaitable[A]] | type[A] | Mapping[str, Question | str] | ports.Judge[A]"
"""What answers: a function (async or not), a type of a model's answers, questions for a model, or a judge."""

_QUESTION = (
    "Answer questions about the content. Each field of the answer is a question; its description says which, and its"
    " type what answers there are. Judge by the content alone; of what it does not say, assume nothing."
)
INPUT_WINDOWS = Windows(least=200_000, most=200_000)
"""How texts that go to the model are cut: hardly ever."""
OUTPUT_WINDOWS = Windows(least=40, most=600)
"""How texts of the model are cut."""
_UNUSED = ("embedded", "judge_failure")  # options of guards that have a detector of their own


class WindowAnswers(NamedTuple):
    """The answers about a window, and whether the window was filtered out."""

    start: int
    end: int
    answers: Value
    filtered: bool = False


class AnswerSearch(Search, Generic[A]):
    """Asks about each window of a text.

    Attributes:
        setup: the options of the guard.
        output_windows: how to cut texts of the model.
        answers: the fact with the answers about the last text.
    """

    def __init__(
        self,
        setup: GuardSetup[A, Mapping[str, float]],
        classifier: Classifier[A] | None,
        on_result: Callable[[A, Classification[A]], object],
        output_windows: Windows,
        most_shown: int | None,
        *,
        awaits: bool,
    ) -> None:
        self.setup = setup
        self.output_windows = output_windows
        self.answers: Key[A] = Key(setup.fact)
        self._classifier, self._on_result = classifier, on_result
        self._most_shown = most_shown
        self._awaits = awaits
        self._calls, self._judge = setup.detector.calls, setup.judge

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return the texts that are read as one: all text parts of a message."""
        del ctx
        listed = [*texts]
        free, fixed = split_fixed(listed)
        fixed += [[text] for text in listed if text.fixed and text.text.isdigit()]
        return [*by_message(free, adjoins), *fixed]

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return where the window begins that waits for its end; None if there is a window to read."""
        del notes
        return unfinished(text, start, (self.output_windows, INPUT_WINDOWS), final=final)

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[WindowAnswers], int] | Awaitable[tuple[Sequence[WindowAnswers], int]]:
        """Return the answers about each window that has ended, and where the next one begins."""
        windows = INPUT_WINDOWS if _phase(ctx) == "input" else self.output_windows
        cuts = windows.cuts(window.text, window.start, final=window.final)
        places = [
            (low, high) for low, high in itertools.pairwise([window.start, *cuts]) if window.text[low:high].strip()
        ]
        hold = cuts[-1] if cuts else window.start
        views = [_view(window, max(low - windows.overlap, 0), high)[: self._most_shown] for low, high in places]
        found = self._found(window, places, views, hold, ctx)
        return found if self._awaits else run_without_loop(found, "classifier")

    async def _found(
        self, window: TextWindow, places: Sequence[tuple[int, int]], views: Sequence[str], hold: int, ctx: AnyContext
    ) -> tuple[Sequence[WindowAnswers], int]:
        answers = await gather([partial(self._answers, view, ctx) for view in views])
        asked = [
            WindowAnswers(*place, answer) for place, answer in zip(places, answers, strict=True) if answer is not _NONE
        ]
        if STAGES[ctx.stage].streams:
            asked = [await self.decide(window, one, ctx) for one in asked]
        return asked, hold

    async def _answers(self, text: str, ctx: AnyContext) -> Value:
        """Return the answers about a text; `_NONE` if there are none and the text may pass."""
        known = _left(ctx)
        if text in known:
            return known[text]
        try:
            return _kept(ctx, text, await ctx.in_time(self._asked(text, ctx)))
        except Exception as error:  # noqa: BLE001 - the policy decides about this text, and about no other
            ctx.let_pass(error)
            return _NONE

    async def _asked(self, text: str, ctx: AnyContext) -> Value:
        """Return the answers about a text.

        Raises:
            DetectorError: the detector failed.
            JudgeError: the model gave none, or not all.
        """
        if self._calls is not None:
            scores: Value = freeze((await self._calls.ask([text]))[0])
            return scores
        if self._judge is None:
            return await self._returned("classifier", cast("Callable[[str], Value]", self._classifier)(text))
        judged = await self._judge.ask(text, ctx=ctx)
        require_complete(judged, flagged=False, model=judged.model)
        verdict: Value = judged.verdict
        if not isinstance(self._classifier, Mapping):
            return verdict
        from penstock.processors.guards.answers import plain_answers

        return plain_answers(verdict)

    async def _returned(self, option: str, answer: Value) -> Value:
        """Return the result of a function of the user.

        Raises:
            WrongReturnError: it is an awaitable, and no function of the guard is async.
        """
        if not inspect.isawaitable(answer) or self._awaits:
            return await answer if inspect.isawaitable(answer) else answer
        if inspect.iscoroutine(answer):
            answer.close()
        raise WrongReturnError(f"{option} returned an awaitable; define it with async def")

    async def decide(self, window: TextWindow, asked: WindowAnswers, ctx: AnyContext) -> WindowAnswers:
        """Return the answers with the decision of ``on_result``, which is awaited if it is async."""
        ctx.put(self.answers, asked.answers)
        place, _ = window.locate(asked.start)
        text = _view(window, asked.start, asked.end)
        classification = Classification(_phase(ctx), asked.answers, text, place.message_id, ctx)
        try:
            await self._returned("on_result", self._on_result(asked.answers, classification))
        except Exception as error:  # noqa: BLE001 - as above
            ctx.let_pass(error)
        return asked._replace(filtered=classification.filtered)


class AnswerAction(JudgedAction):
    """Removes what ``on_result`` has filtered out."""

    def __init__(self, setup: GuardSetup[A, Mapping[str, float]], model: object) -> None:
        super().__init__(setup)
        self._model = str(getattr(model, "name", ""))

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits that remove what was filtered; stop the run where a text cannot be edited."""
        made: list[list[Edit]] = []
        for hit in hits:
            asked = cast("Sequence[WindowAnswers]", hit.found)
            for one in asked:
                self.reporter.report(ctx, self._detection(ctx, hit.window, one))
            filtered = [one for one in asked if one.filtered]
            if filtered and hit.window.stuck and not self.removes(ctx):
                self.reporter.stop(ctx, f"{cannot_edit([hit.window])}it was to be filtered out", {})
            made.append([Edit(one.start, one.end, "", "redact") for one in filtered])
        return made

    def _detection(self, ctx: AnyContext, window: TextWindow, asked: WindowAnswers) -> Detection:
        place, _ = window.locate(asked.start)
        done = "filter" if asked.filtered else "none"
        text = window.text[asked.start : asked.end]
        return self.detection(ctx, place, text)(asked.filtered, done, judge=self._model)


class ClassifierProcessor(TextGuard, Generic[A]):
    """Asks questions about texts, and calls ``on_result`` with the answers, which may abort the run or remove the text.

    In input, each message is one text, however long. Text of the model is read in windows that end with a sentence, in
    streams and in whole answers alike.

    Attributes:
        answers: the fact with the answers about the last text.

    Args:
        classifier: a function of a text, async or not, that returns its answers; or a type that pydantic can validate,
            or questions by name, which ``model`` answers; or a `Judge`.
        on_result: a function, async or not, of the answers and a `Classification`; it is called text by text, in order.
        model: the `Model` that answers; required for a type and for questions, None (the default) otherwise.
        chunk_window: how much of an answer before each window is shown with it, in lengths of a window (600
            characters), 0 or more; 0 by default.
        max_input_length: how many characters of a text are shown, from its beginning; None (the default) for all. The
            rest is not read.
        detector: a `ScoreDetector` in the classifier's place: the answers are its scores by category; None by default.
        options: see `GuardOptions`; ``embedded`` and ``judge_failure`` are refused.

    Raises:
        OptionError: an option is not allowed.
    """

    id = "classifier"
    read_parts_separately = False

    def __init__(
        self,
        classifier: Classifier[A] | None = None,
        on_result: Callable[[A, Classification[A]], object] | None = None,
        *,
        model: Model | str | JudgeSource | None = None,
        chunk_window: int = 0,
        max_input_length: int | None = None,
        detector: ScoreDetector | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        name = type(self).__name__
        self.classifier = classifier
        chosen = use_score_detector(self, detector, "max", embedded=False)
        self.chunk_window = check_count(name, "chunk_window", chunk_window, "an int, 0 or more")
        self.max_input_length = check_optional_count(name, "max_input_length", max_input_length, "an int, 0 or more")
        if on_result is None or not callable(cast("object", on_result)):
            raise OptionError(name, "on_result", on_result, "a function of the answers and a Classification")
        self.on_result: Callable[[A, Classification[A]], object] = on_result
        for option, unused in options.items():
            if option in _UNUSED:
                raise OptionError(name, option, unused, "omitted: a classifier has no embedded detector")
        judge, verdict = _asked(name, classifier, model, detector=chosen.calls is not None)
        setup: GuardSetup[A, Mapping[str, float]] = set_up(
            self,
            judge,
            "decide",
            ("decide",),
            lambda: cast("type[A]", verdict),
            _QUESTION,
            options,
            detector=chosen,
            fact=("answers",),
        )
        self.model = model
        waits = setup.judge is not None or is_async(classifier) or is_async(on_result)
        self.awaits, self.needs_loop = self.awaits or waits, self.needs_loop or waits
        windows = replace(OUTPUT_WINDOWS, overlap=chunk_window * OUTPUT_WINDOWS.most)
        self.lookback = windows.overlap
        search = AnswerSearch(setup, classifier, on_result, windows, self.max_input_length, awaits=self.awaits)
        self.search, self.action, self.answers = search, AnswerAction(setup, model), search.answers
        self.provides = (self.answers,)

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return where the window begins that waits for its end; None if there is a window to read."""
        return self.search.quiet(text, start, notes, final=final)

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits of whole texts. Questions are asked concurrently, and answers are handled in order."""
        runs = self.search.runs(texts, ctx)
        if self.awaits:
            found = await gather([partial(self._in_run, ctx, run) for run in runs])
            hits = [await self._hit(run, items, ctx) for run, items in zip(runs, found, strict=True)]
        else:
            hits = [await self._hit(run, await self._in_run(ctx, run), ctx) for run in runs]
        return in_places(hits, self.act(hits, ctx))

    async def _hit(self, run: Sequence[Text], found: Sequence[Found], ctx: AnyContext) -> Hit:
        window, search = window_of(run), cast("AnswerSearch[A]", self.search)
        return Hit(window, [await search.decide(window, one, ctx) for one in cast("Sequence[WindowAnswers]", found)])


def _asked(name: str, classifier: Value, model: object, *, detector: bool) -> tuple[object, object]:
    """Return what is asked (a model or a judge; None for a function or a detector), and the type of its answers.

    Raises:
        OptionError: the options do not fit together.
    """
    if detector:
        if classifier is not None or model is not None:
            option, spare = ("classifier", classifier) if classifier is not None else ("model", model)
            raise OptionError(name, option, spare, "omitted: the detector= gives the answers")
        return None, object
    if _is_judge(classifier):
        return classifier, object
    if isinstance(classifier, (type, Mapping)):
        if model is None:
            raise OptionError(name, "model", model, "a Model: it answers the questions")
        if isinstance(classifier, type):
            return model, classifier
        from penstock.processors.guards.answers import answer_model  # loaded if a model answers questions

        return model, answer_model(name, cast("Mapping[str, Question | str]", classifier))
    if not callable(classifier):
        allowed = "a function of a text, a type, questions by name, or a Judge; or a detector= must be given"
        raise OptionError(name, "classifier", classifier, allowed)
    if model is not None:
        raise OptionError(name, "model", model, "omitted: this classifier needs no model")
    return None, object


_LEFT = "penstock.answers"
_NONE = object()  # instead of the answers about a text that passes unjudged


def _left(ctx: AnyContext) -> Mapping[str, Value]:
    """Return the answers about texts of this request's streams, so that a whole text is not asked about again."""
    state: Value = ctx.state
    streams = STAGES[ctx.stage].streams
    return EMPTY if streams or not is_mapping(state) else state.get(_LEFT, EMPTY)


def _kept(ctx: AnyContext, text: str, answers: Value) -> Value:
    """Return answers; in a stream, keep them."""
    state: Value = ctx.state
    if STAGES[ctx.stage].streams and is_mapping(state):
        state.setdefault(_LEFT, {})[text] = answers
    return answers


def _is_judge(given: object) -> bool:
    return isinstance(given, ports.Judge) and not isinstance(given, type)


def _phase(ctx: AnyContext) -> ClassifiedPhase:
    stage = STAGES[ctx.stage]
    return "stream" if stage.streams else stage.phase


def _view(window: TextWindow, start: int, end: int) -> str:
    """Return a stretch as it is read: with spaces between its parts, and without white space around it."""
    borders = window.borders(start, end)
    pieces = (window.text[low:high] for low, high in itertools.pairwise([start, *borders, end]))
    return " ".join(filter(None, pieces)).strip()
