"""`DetectorCalls`: how guards ask a detector. Texts of concurrent requests are collected into batches; answers checked.

The first request that waits leads a batch: it waits for others until the batch is full or its time is up, then makes
the call in its own task. Nothing goes on in the background. A leader that is cancelled gives its texts back, and the
next request leads. A sync detector is called in a worker thread, once at a time; without an event loop, on the spot.

A call has a time limit. The thread of a sync detector that hangs is given up and replaced, up to a bound. A call on the
spot cannot be given up by its own caller, but others go on beside it when its time is up.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from operator import index
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

import anyio

from penstock.detection.spans import Span
from penstock.engine.processor.processor import is_async
from penstock.engine.tasks import gather, let_others_run, runs_without_loop
from penstock.engine.values.errors import DetectorError, OptionError
from penstock.engine.workers import call_back, checkpoint, run_in_worker
from penstock.models.single_flight import PerEventLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.values.protocols import ScoreDetector, SpanDetector

R = TypeVar("R")

log = logging.getLogger("penstock")

BATCH_SIZE = 32
"""The most texts of a call, unless the detector says otherwise."""

BATCH_SECONDS = 0.002
"""How long a text waits for others, unless the detector says otherwise."""

CALL_SECONDS = 30.0
"""How long a call may take, unless the detector says otherwise; a model has the same."""

MOST_HUNG = 8
"""How many threads of a sync detector that hang are given up. With so many, it is not called until one returns."""

_GRACE = 1.0  # seconds that a call of a sync detector keeps its place when nobody waits for its answer any more
_LONE = re.compile("[\ud800-\udfff]")  # half a surrogate pair; no library that encodes a text takes one
_PATIENCE = 0.05  # seconds until a thread that waits for a detector looks whether its caller has left
_SLACK = 1e-5  # sums of 32-bit numbers may be that much above 1

Ask: TypeAlias = "Callable[[Sequence[str]], Awaitable[Sequence[R | Exception]]]"
"""Asks a detector about texts; an answer that is not valid is an exception in its place."""


class DetectorCalls(Generic[R]):
    """The calls of one detector, for all guards that share it. Use `score_calls` or `span_calls`.

    Attributes:
        detector: the detector.
        name: its name, for errors.
        needs_loop: whether it is async, so that it can only be asked in an event loop.
    """

    __slots__ = (
        *("__weakref__", "_check", "_limit", "_method", "_queues", "_scores", "_size", "_turns"),
        *("detector", "name", "needs_loop"),
    )

    def __init__(
        self, detector: ScoreDetector | SpanDetector, method: Callable[[list[str]], object], check: Check[R]
    ) -> None:
        self.detector = detector
        self.name = name_of(detector)
        self.needs_loop = is_async(method)
        self._scores = method == getattr(detector, "scores", None)
        self._method = method
        self._check = check
        self._turns = _CallTurns(self.name)
        self._size, seconds, self._limit = _limits(detector, self.name)
        make: partial[BatchQueue[R]] = partial(BatchQueue, self._size, seconds, one_at_a_time=not self.needs_loop)
        self._queues = PerEventLoop(make)

    async def ask(self, texts: Sequence[str]) -> list[R]:
        """Return the detector's answer about each text, in order.

        Raises:
            DetectorError: it failed, or its answer about one of these texts is not valid.
        """
        answers = await self.answers(texts)
        for answer in answers:
            if isinstance(answer, DetectorError):
                raise answer
        return cast("list[R]", answers)

    async def answers(self, texts: Sequence[str]) -> list[R | DetectorError]:
        """Return the detector's answer about each text, in order; where it failed, the error in its place."""
        if not texts:
            return []
        shown = [_LONE.sub("\ufffd", text) for text in texts]
        if runs_without_loop():
            answers = self._ask_on_the_spot(shown)
        else:
            answers = await self._queues.get().ask(shown, self._ask)
        return [self._own_error(answer) if isinstance(answer, Exception) else answer for answer in answers]

    def _own_error(self, error: Exception) -> DetectorError:
        """Return an error of a call for one caller, made anew: each has a traceback of its own."""
        made = DetectorError(self.name, f"it raised {type(error).__name__}")
        made.__cause__ = error
        if isinstance(error, DetectorError):
            made = DetectorError(error.detector, error.problem)
            made.__cause__ = error.__cause__
        return made

    def _ask_on_the_spot(self, texts: Sequence[str]) -> list[R | Exception]:
        answers: list[R | Exception] = []
        for low in range(0, len(texts), self._size):
            answers += self._answers_on_the_spot(texts[low : low + self._size])
        return answers

    def _answers_on_the_spot(self, batch: Sequence[str]) -> list[R | Exception]:
        call = _SyncCall()

        def begun() -> None:
            if self._limit is not None:
                call.keeps_until = monotonic() + self._limit

        try:
            return self._checked(batch, self._called(call, batch, begun))
        except Exception as error:  # noqa: BLE001 - returned in the place of each answer
            if len(batch) == 1:
                return [error]
            return [answer for text in batch for answer in self._answers_on_the_spot([text])]

    async def _ask(self, texts: Sequence[str]) -> Sequence[R | Exception]:
        with anyio.CancelScope() as scope:
            if self.needs_loop:
                self._limit_from_now(scope)
                answer = self._method([*texts])
            else:
                answer = await self._in_worker(texts, scope)
            if inspect.isawaitable(answer):
                answer = await answer
            return self._checked(texts, answer)
        return [self._late()] * len(texts)

    async def _in_worker(self, texts: Sequence[str], scope: anyio.CancelScope) -> object:
        call = _SyncCall()
        begun = partial(self._limit_from_now, scope)
        try:
            return await run_in_worker(partial(self._called, call, texts, begun), in_turn=False)
        finally:
            call.keeps_until = monotonic() + (0.0 if scope.cancel_called else _GRACE)

    def _limit_from_now(self, scope: anyio.CancelScope) -> None:
        if self._limit is not None:
            scope.deadline = anyio.current_time() + self._limit

    def _late(self) -> DetectorError:
        return DetectorError(self.name, f"it gave no answer within {self._limit:g} s")

    def _called(self, call: _SyncCall, texts: Sequence[str], begun: Callable[[], None]) -> object:
        """Call a sync detector when no other thread does; not at all if nobody waits for the answer any more.

        Raises:
            DetectorError: too many of its calls hang.
        """
        self._turns.take(call)
        try:
            checkpoint()
            call_back(begun)
            return self._method([*texts])
        finally:
            self._turns.give(call)

    def _checked(self, texts: Sequence[str], answer: object) -> list[R | Exception]:
        """Return the checked answer about each text; where it is not valid, an error in its place.

        Raises:
            DetectorError: there is not one answer for each text.
        """
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise DetectorError(self.name, "it returned an awaitable; define the method with async def")
        listed = _items(answer)
        if listed is None or len(listed) != len(texts):
            got = type(answer).__name__ if listed is None else f"{len(listed)} answers"
            raise DetectorError(self.name, f"it was asked about {len(texts)} texts, but returned {got}")
        return [self._check(self.name, text, each) for text, each in zip(texts, listed, strict=True)]

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object]]:
        """Return its constructor's arguments: a copy of the detector has calls of its own."""
        return (score_calls if self._scores else span_calls), (self.detector,)

    def __repr__(self) -> str:
        """Show the detector's name."""
        return f"DetectorCalls({self.name!r})"


class _SyncCall:
    """A call of a sync detector. It keeps its place until a time, by the monotonic clock, if it does not end before."""

    __slots__ = ("keeps_until",)

    def __init__(self) -> None:
        self.keeps_until = math.inf  # somebody waits for its answer


class _CallTurns:
    """Lets one call of a sync detector run at a time. One that hangs loses its place, and its thread is given up."""

    __slots__ = ("_changed", "_hung", "_name", "_running")

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._running: _SyncCall | None = None
        self._hung: set[_SyncCall] = set()

    def take(self, call: _SyncCall) -> None:
        """Wait until no other call runs, or the one that does has lost its place.

        Raises:
            DetectorError: so many calls hang that no thread is to be lost to another one.
        """
        with self._changed:
            while self._running is not None and monotonic() < self._running.keeps_until:
                self._changed.wait(_PATIENCE)
                checkpoint()
            if self._running is not None:
                self._hung.add(self._running)
                self._running = None
                log.error(
                    "detector %r hangs: the thread of a call is given up (%d of at most %d)",
                    *(self._name, len(self._hung), MOST_HUNG),
                )
            if len(self._hung) >= MOST_HUNG:
                raise DetectorError(self._name, f"{MOST_HUNG} calls of it hang, so it is not called until one returns")
            self._running = call

    def give(self, call: _SyncCall) -> None:
        """End a call."""
        with self._changed:
            self._hung.discard(call)
            if self._running is call:
                self._running = None
            self._changed.notify()


Check: TypeAlias = "Callable[[str, str, object], R | Exception]"
"""Returns an answer about a text in its final form, or an error; called with the detector's name, the text, and it."""


# Batches


class _Entry(Generic[R]):
    """A text that waits for its answer, and the callers that wait for it."""

    __slots__ = ("answer", "callers", "since", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.since = anyio.current_time()
        self.callers: list[_Caller] = []
        self.answer: list[R | Exception] = []  # one, as soon as it is there


class _Caller:
    """A task that waits for answers: how many are missing, and what wakes it."""

    __slots__ = ("left", "wake")

    def __init__(self, left: int) -> None:
        self.left = left
        self.wake = anyio.Event()


class BatchQueue(Generic[R]):
    """Collects the texts of concurrent tasks of one event loop into batches. Equal texts are asked about once.

    Args:
        size: the most texts of a batch, 1 or more.
        seconds: how long a text waits for others before its batch is asked; 0: only until the tasks that are ready now
            have had their turn.
        one_at_a_time: whether a batch waits until the one before it is answered. The texts that arrive meanwhile make
            up the next one.
    """

    __slots__ = ("_asked", "_full", "_leads", "_one_at_a_time", "_open", "_seconds", "_size")

    def __init__(self, size: int, seconds: float, *, one_at_a_time: bool) -> None:
        self._size = size
        self._seconds = seconds
        self._one_at_a_time = one_at_a_time
        self._open: dict[str, _Entry[R]] = {}  # not asked about yet, in order
        self._asked: dict[str, _Entry[R]] = {}  # being asked about
        self._leads: _Caller | None = None
        self._full = anyio.Event()

    async def ask(self, texts: Sequence[str], ask: Ask[R]) -> list[R | Exception]:
        """Return the answer about each text, in order, or the exception in its place.

        Args:
            texts: the texts.
            ask: makes the call if this task leads a batch. It is the same for all callers.
        """
        entries = {text: self._entry(text) for text in dict.fromkeys(texts)}
        caller = _Caller(len(entries))
        for entry in entries.values():
            entry.callers.append(caller)
        if len(self._open) >= self._size:
            self._full.set()
        try:
            while caller.left:
                if self._leads is None and any(text in self._open for text in entries):
                    await self._lead(caller, ask)
                else:
                    await caller.wake.wait()
                    caller.wake = anyio.Event()
        finally:
            self._leave(caller, entries.values())
        return [entries[text].answer[0] for text in texts]

    def _entry(self, text: str) -> _Entry[R]:
        entry = self._open.get(text) or self._asked.get(text)
        if entry is None:
            entry = self._open[text] = _Entry(text)
        return entry

    def _leave(self, caller: _Caller, entries: Iterable[_Entry[R]]) -> None:
        """Forget a caller, and the texts that nobody else waits for; let another one lead."""
        for entry in entries:
            if not entry.answer:
                entry.callers.remove(caller)
                if not entry.callers and self._open.get(entry.text) is entry:
                    del self._open[entry.text]
        self._wake_next()

    def _wake_next(self) -> None:
        if self._leads is None and self._open:
            next(iter(self._open.values())).callers[0].wake.set()

    async def _lead(self, caller: _Caller, ask: Ask[R]) -> None:
        """Ask about a batch."""
        self._leads = caller
        batch: list[_Entry[R]] = []
        try:
            await self._fill()
            batch = [self._open.pop(text) for text in [*self._open][: self._size]]
            self._asked |= {entry.text: entry for entry in batch}
            if not self._one_at_a_time:
                self._leads = None
                self._wake_next()
            await self._answer(batch, ask)
        finally:
            if self._leads is caller:
                self._leads = None
            self._give_back(batch)

    async def _fill(self) -> None:
        """Wait until a batch is full, or its first text has waited for long enough."""
        await let_others_run()
        if not self._open or len(self._open) >= self._size:
            return
        until = next(iter(self._open.values())).since + self._seconds
        if until <= anyio.current_time():
            return
        self._full = anyio.Event()
        with anyio.CancelScope(deadline=until):
            await self._full.wait()

    async def _answer(self, batch: Sequence[_Entry[R]], ask: Ask[R]) -> None:
        """Put the answers into the entries of a batch. If the call fails, ask about each text by itself.

        One text that breaks a detector must not block the requests of others.
        """
        try:
            answers = await ask([entry.text for entry in batch])
        except Exception as error:  # noqa: BLE001 - raised for each caller
            if len(batch) == 1:
                _deliver(batch[0], error)
                return
            alone = [partial(self._answer, [entry], ask) for entry in batch]
            if self._one_at_a_time:
                for work in alone:
                    await work()
            else:
                await gather(alone)
            return
        for entry, answer in zip(batch, answers, strict=True):
            _deliver(entry, answer)

    def _give_back(self, batch: Sequence[_Entry[R]]) -> None:
        """End a batch. Texts of it that were not answered, since its leader was cancelled, wait again."""
        for entry in batch:
            del self._asked[entry.text]
        back = {entry.text: entry for entry in batch if not entry.answer and entry.callers}
        self._open = back | self._open
        self._wake_next()


def _deliver(entry: _Entry[R], answer: R | Exception) -> None:
    entry.answer.append(answer)
    for caller in entry.callers:
        caller.left -= 1
        if not caller.left:
            caller.wake.set()


# Answers


def score_calls(detector: ScoreDetector) -> DetectorCalls[Mapping[str, float]]:
    """Return the calls of a detector of scores; guards that share a detector share its calls.

    Raises:
        OptionError: its ``batch_size``, ``batch_seconds`` or ``call_seconds`` is not allowed.
    """
    check = partial(_checked_scores, frozenset(detector.categories))
    return _shared(detector, "scores", lambda: DetectorCalls(detector, detector.scores, check))


def span_calls(detector: SpanDetector) -> DetectorCalls[Sequence[Span]]:
    """Return the calls of a detector of spans; guards that share a detector share its calls.

    Raises:
        OptionError: its ``batch_size``, ``batch_seconds`` or ``call_seconds`` is not allowed.
    """
    check = partial(_checked_spans, frozenset(detector.types))
    return _shared(detector, "spans", lambda: DetectorCalls(detector, detector.find, check))


def name_of(detector: object) -> str:
    """Return the name of a detector: its ``name``, or its class."""
    given: object = getattr(detector, "name", None)
    return given if isinstance(given, str) and given else type(detector).__name__


_KNOWN: WeakValueDictionary[tuple[int, str], DetectorCalls[object]] = WeakValueDictionary()
_LOCK = threading.Lock()


def _shared(detector: object, kind: str, make: Callable[[], DetectorCalls[R]]) -> DetectorCalls[R]:
    """Return the calls of a detector, made once. They hold the detector, so its id belongs to no other meanwhile."""
    key = (id(detector), kind)
    with _LOCK:
        calls = cast("DetectorCalls[R] | None", _KNOWN.get(key))
        if calls is None:
            calls = make()
            _KNOWN[key] = cast("DetectorCalls[object]", calls)
        return calls


def _limits(detector: object, name: str) -> tuple[int, float, float | None]:
    """Return the most texts of a call, how long a text waits for others, and how long a call may take.

    Raises:
        OptionError: one of them is not allowed.
    """
    size: object = getattr(detector, "batch_size", BATCH_SIZE)
    seconds: object = getattr(detector, "batch_seconds", BATCH_SECONDS)
    limit: object = getattr(detector, "call_seconds", CALL_SECONDS)
    if type(size) is not int or size < 1:
        raise OptionError(name, "batch_size", size, "a number of texts, 1 or more")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < MOST_SECONDS:
        raise OptionError(name, "batch_seconds", seconds, f"a number of seconds, 0 or more, below {MOST_SECONDS}")
    if limit is None:
        return size, float(seconds), None
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < math.inf:
        raise OptionError(name, "call_seconds", limit, "a number of seconds, more than 0; None for no limit")
    return size, float(seconds), float(limit)


MOST_SECONDS = 60
"""Seconds that a text may wait for others: fewer than these."""


def _checked_scores(
    categories: frozenset[str], name: str, text: str, answer: object
) -> Mapping[str, float] | DetectorError:
    del text
    if not isinstance(answer, Mapping):
        return DetectorError(name, f"it must return a mapping for each text, not {type(answer).__name__}")
    scores: dict[str, float] = {}
    for category, given in cast("Mapping[object, object]", answer).items():
        if not isinstance(category, str) or category not in categories:
            return DetectorError(name, f"it returned a score of a category that is none of {_listed(categories)}")
        score = _score(given)
        if score is None:
            return DetectorError(name, f"its score of {category!r} must be a number from 0 to 1, not {_shown(given)}")
        scores[category] = score
    return scores


_FIELDS = 4


def _checked_spans(types: frozenset[str], name: str, text: str, answer: object) -> Sequence[Span] | DetectorError:
    found = _items(answer)
    if found is None:
        return DetectorError(name, f"it must return a list of spans for each text, not {type(answer).__name__}")
    spans: list[Span] = []
    for item in found:
        fields = cast("tuple[object, ...]", item) if isinstance(item, (tuple, list)) else ()
        if len(fields) != _FIELDS:
            return DetectorError(name, "a span must be (start, end, type, score)")
        start, end, type_, given = fields
        score = _score(given)
        if not isinstance(type_, str) or type_ not in types:
            return DetectorError(name, f"it returned a span of a type that is none of {_listed(types)}")
        if score is None:
            return DetectorError(name, f"its score of {type_!r} must be a number from 0 to 1, not {_shown(given)}")
        low, high = _position(start), _position(end)
        if low is None or high is None or not 0 <= low < high <= len(text):
            where = f"{_shown(start)} to {_shown(end)}"
            return DetectorError(name, f"it returned a span from {where}, in a text of {len(text)} characters")
        spans.append(Span(low, high, type_, score))
    return spans


def _items(answer: object) -> list[object] | None:
    """Return the items of a list, or of anything like one; None if it is none."""
    if not isinstance(answer, Iterable) or isinstance(cast("object", answer), (str, bytes, Mapping)):
        return None
    return list(cast("Iterable[object]", answer))


def _score(given: object) -> float | None:
    """Return a number from 0 to 1, of any library; None if it is none."""
    if isinstance(given, (bool, str, bytes)):
        return None
    try:
        score = float(cast("float", given))
    except (TypeError, ValueError):
        return None
    return min(score, 1.0) if 0.0 <= score <= 1.0 + _SLACK else None


def _position(given: object) -> int | None:
    try:
        return None if isinstance(given, bool) else index(cast("int", given))
    except TypeError:
        return None


def _listed(known: Iterable[str]) -> str:
    """Return the names that a detector has announced. Another result is not shown: it may be a text."""
    return ", ".join(map(repr, sorted(known)))


def _shown(given: object) -> str:
    """Return a number as text; of anything else only its type, since it may quote a text."""
    return repr(given) if isinstance(given, (int, float)) else f"a {type(given).__name__}"
