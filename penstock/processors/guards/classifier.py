"""`ClassifierProcessor`: asks questions about texts, and lets its user's code decide. It knows no model."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar, Unpack, cast

from pydantic import BaseModel

from penstock.detection.windows import Windows
from penstock.engine.processor.processor import is_async
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.tasks import gather
from penstock.engine.text_guards.guard import in_places, window_of
from penstock.engine.text_guards.window import Hit
from penstock.engine.values import ports
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.processors.guards.classifications import Classification
from penstock.processors.guards.detections import Detection
from penstock.processors.guards.guard import Guard
from penstock.processors.guards.questions import Question, form, plain
from penstock.processors.guards.readings import whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.ports import Model
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.classifications import ClassifiedPhase
    from penstock.processors.guards.options import GuardOptions

A = TypeVar("A")

Classifier: TypeAlias = "Callable[[str], A | Awaitable[A]] | type[A] | Mapping[str, Question | str] | ports.Judge[A]"
"""What answers: a function, async or not; or the form of a model's answers, or questions to it, or a judge."""

_PHASES: Mapping[str, ClassifiedPhase] = {
    "process_input": "input",
    "process_input_step": "input",
    "process_tool_result": "input",
    "process_output_stream": "stream",
}
_QUESTION = (
    "Answer questions about the content. Each field of the answer is a question; its description says which, and its"
    " type what answers there are. Judge by the content alone; of what it does not say, assume nothing."
)
_UNUSED = ("embedded", "judge_failure")  # options of guards that have a detector of their own


class _Asked(NamedTuple):
    """Answers about a window, and whether it was filtered out."""

    start: int
    end: int
    answers: Value
    filtered: bool = False


class ClassifierProcessor(Guard[A], Generic[A]):
    """Asks questions about texts, and calls ``on_result`` with the answers, which may abort or filter.

    On the way in a message's text is one text, however long; what a model says is read window by window, cut at the
    ends of sentences, in streams as in whole answers.

    Attributes:
        answers: the fact with the answers about the text that was read last.
    """

    id = "classifier"
    strategies = ("decide",)
    read_parts_separately = False
    input_windows = Windows(least=200_000, most=200_000)
    output_windows: Windows = Windows(least=40, most=600)

    def __init__(
        self,
        classifier: Classifier[A],
        on_result: Callable[[A, Classification[A]], object],
        *,
        model: Model | None = None,
        chunk_window: int = 0,
        max_input_length: int | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        """Check the options.

        Args:
            classifier: a function of a text, async or not, that returns its answers; or a type that pydantic knows, or
                questions by name, which ``model`` answers; or a `Judge`.
            on_result: called with the answers and a `Classification`, text by text, in order; awaited if it is async.
            model: who answers.
            chunk_window: how many windows' length of an answer is shown before each window.
            max_input_length: how many characters of a text are shown, from its beginning; None for all. Nobody reads
                the rest.
            options: see `GuardOptions`.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        self.classifier = classifier
        self.on_result = on_result
        self.chunk_window = _count(name, "chunk_window", chunk_window)
        self.max_input_length = None if max_input_length is None else _count(name, "max_input_length", max_input_length)
        if not callable(cast("object", on_result)):
            raise OptionError(name, "on_result", on_result, "a function of the answers and a Classification")
        for option, unused in options.items():
            if option in _UNUSED:
                raise OptionError(name, option, unused, "left out: a classifier has no detector of its own")
        self._set_up(name, model, options)
        self.model = model
        if chunk_window:
            overlap = chunk_window * self.output_windows.most
            self.output_windows = Windows(self.output_windows.least, self.output_windows.most, overlap)
        self.lookback = self.output_windows.overlap
        self.awaits = self.judge is not None or is_async(classifier) or is_async(on_result)
        self.answers: Key[A] = Key(self.fact_name("answers"))
        self.provides = (self.answers,)

    def _set_up(self, name: str, model: Model | None, options: GuardOptions) -> None:
        given: Value = self.classifier
        asks = isinstance(given, (type, Mapping))
        if _is_judge(given):
            self.set_up(given, "decide", cast("type[A]", object), _QUESTION, options)
        elif asks:
            if model is None:
                raise OptionError(name, "model", model, "a Model: questions need somebody to answer them")
            verdict = form(name, cast("Mapping[str, Question | str]", given)) if isinstance(given, Mapping) else given
            self.set_up(model, "decide", cast("type[A]", verdict), _QUESTION, options)
        elif not callable(given):
            raise OptionError(name, "classifier", given, "a function of a text, a type, questions by name, or a Judge")
        elif model is not None:
            raise OptionError(name, "model", model, "left out: the classifier answers by itself")
        else:
            self.set_up(None, "decide", cast("type[A]", object), _QUESTION, options)

    # Asking

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return texts in the runs in which they are read: on the way in, all text parts of a message are one text."""
        if _phase(ctx) == "output":
            return super().runs(texts, ctx)
        said: dict[str, list[Text]] = {}
        others: list[Text] = []
        for text in texts:
            if text.kind == "text":
                said.setdefault(text.place.message_id, []).append(text)
            else:
                others.append(text)
        return [*said.values(), *super().runs(others, ctx)]

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[_Asked], int] | Awaitable[tuple[Sequence[_Asked], int]]:
        """Return the answers about each window that has ended, and where the next one begins."""
        windows = self.input_windows if _phase(ctx) == "input" else self.output_windows
        cuts = windows.cuts(window.text, window.start, final=window.final)
        places = [
            (low, high) for low, high in itertools.pairwise([window.start, *cuts]) if window.text[low:high].strip()
        ]
        hold = cuts[-1] if cuts else window.start
        views = [_view(window, max(low - windows.overlap, 0), high)[: self.max_input_length] for low, high in places]
        if self.awaits:
            return self._waited(window, places, views, hold, ctx)
        asked = [_Asked(*place, self._own(view, ctx)) for place, view in zip(places, views, strict=True)]
        if ctx.stage == "process_output_stream":
            asked = [self._decided(window, one, ctx) for one in asked]
        return asked, hold

    async def _waited(
        self, window: TextWindow, places: Sequence[tuple[int, int]], views: Sequence[str], hold: int, ctx: AnyContext
    ) -> tuple[Sequence[_Asked], int]:
        answers = await gather([partial(self._answers, view, ctx) for view in views])
        asked = [_Asked(*place, answer) for place, answer in zip(places, answers, strict=True)]
        if ctx.stage == "process_output_stream":
            asked = [await self._awaited(window, one, ctx) for one in asked]
        return asked, hold

    async def _answers(self, text: str, ctx: AnyContext) -> Value:
        """Return the answers about a text.

        Raises:
            JudgeError: the model gave none, or not all.
        """
        known = _left(ctx)
        return known[text] if text in known else _kept(ctx, text, await self._asked(text, ctx))

    async def _asked(self, text: str, ctx: AnyContext) -> Value:
        if self.judge is None:
            answers: Value = cast("Callable[[str], Value]", self.classifier)(text)
            return await answers if inspect.isawaitable(answers) else answers
        judged = await self.judge.ask(text, ctx=ctx)
        whole(judged, False, judged.model)  # noqa: FBT003 - nothing is flagged yet
        verdict: Value = judged.verdict
        return plain(verdict) if isinstance(self.classifier, Mapping) and isinstance(verdict, BaseModel) else verdict

    def _own(self, text: str, ctx: AnyContext) -> Value:
        known = _left(ctx)
        if text in known:
            return known[text]
        return _kept(ctx, text, _at_once("classifier", cast("Callable[[str], Value]", self.classifier)(text)))

    # Deciding

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits that whole texts need, decided in their order; what waits is asked beside each other."""
        runs = self.runs(texts, ctx)
        if self.awaits:
            found = await gather([partial(self._in_run, ctx, run) for run in runs])
            hits = [await self._hit(run, items, ctx) for run, items in zip(runs, found, strict=True)]
        else:
            hits = [await self._hit(run, await self._in_run(ctx, run), ctx) for run in runs]
        return in_places(hits, self.act(hits, ctx))

    async def _hit(self, run: Sequence[Text], found: Sequence[Found], ctx: AnyContext) -> Hit:
        window = window_of(run)
        return Hit(window, [await self._awaited(window, one, ctx) for one in cast("Sequence[_Asked]", found)])

    async def _awaited(self, window: TextWindow, asked: _Asked, ctx: AnyContext) -> _Asked:
        """Return what was asked, decided; wait for the decision if need be."""
        if not self.awaits:
            return self._decided(window, asked, ctx)
        told = self._classification(window, asked, ctx)
        answer: Value = self.on_result(asked.answers, told)
        if inspect.isawaitable(answer):
            await answer
        return asked._replace(filtered=told.filtered)

    def _decided(self, window: TextWindow, asked: _Asked, ctx: AnyContext) -> _Asked:
        told = self._classification(window, asked, ctx)
        _at_once("on_result", self.on_result(asked.answers, told))
        return asked._replace(filtered=told.filtered)

    def _classification(self, window: TextWindow, asked: _Asked, ctx: AnyContext) -> Classification[A]:
        ctx.put(self.answers, asked.answers)
        place, _ = window.locate(asked.start)
        return Classification(_phase(ctx), asked.answers, _view(window, asked.start, asked.end), place.message_id, ctx)

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits that take away what was filtered; stop the run where it cannot be."""
        made: list[list[Edit]] = []
        for hit in hits:
            asked = cast("Sequence[_Asked]", hit.found)
            for one in asked:
                self.tell(ctx, self._detection(ctx, hit.window, one))
            filtered = [one for one in asked if one.filtered]
            if filtered and hit.window.fixed:
                ctx.abort("what is no text cannot be filtered out", metadata={"strategy": self.strategy})
            made.append([Edit(one.start, one.end, "", "redact") for one in filtered])
        return made

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation without what was filtered out: on the way in whole messages."""
        return self.without_flagged(ctx, edits)

    def _detection(self, ctx: AnyContext, window: TextWindow, asked: _Asked) -> Detection:
        place, _ = window.locate(asked.start)
        field = str(place.path[0]) if place.path else ""
        done = "filter" if asked.filtered else "none"
        judge = str(getattr(self.model, "name", ""))
        text = window.text[asked.start : asked.end] if self.include_text else None
        return Detection(
            self.id, ctx.stage, place.message_id, place.part, field, asked.filtered, done, judge=judge, text=text
        )


_LEFT = "penstock.answers"


def _left(ctx: AnyContext) -> Mapping[str, Value]:
    """Return the answers about what left this request's streams: as a whole, it is not asked about again."""
    state: Value = ctx.state
    streams = ctx.stage == "process_output_stream"
    return EMPTY if streams or not is_mapping(state) else state.get(_LEFT, EMPTY)


def _kept(ctx: AnyContext, text: str, answers: Value) -> Value:
    """Return answers; keep those about a stream."""
    state: Value = ctx.state
    if ctx.stage == "process_output_stream" and is_mapping(state):
        state.setdefault(_LEFT, {})[text] = answers
    return answers


def _is_judge(given: object) -> bool:
    return isinstance(given, ports.Judge) and not isinstance(given, type)


def _phase(ctx: AnyContext) -> ClassifiedPhase:
    return _PHASES.get(ctx.stage, "output")


def _view(window: TextWindow, start: int, end: int) -> str:
    """Return a stretch as it is read: its parts parted by spaces, without white space around it."""
    borders = [part.start - window.base for part in window.parts[1:] if start < part.start - window.base < end]
    pieces = (window.text[low:high] for low, high in itertools.pairwise([start, *borders, end]))
    return " ".join(filter(None, pieces)).strip()


def _at_once(option: str, answer: Value) -> Value:
    """Return what a function gave that was not expected to be waited for.

    Raises:
        WrongReturnError: it is to be awaited.
    """
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    raise WrongReturnError(f"{option} returned something to await; write it as an async function")


def _count(name: str, option: str, given: object) -> int:
    if type(given) is not int or given < 0:
        raise OptionError(name, option, given, "an int, 0 or more")
    return given
