"""How detectors are asked: batches of concurrent tasks, cancelled tasks, broken detectors, invalid answers."""

from __future__ import annotations

import gc
import math
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

import anyio
import pytest

from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import DetectorError, OptionError
from penstock.models.detectors.calls import MOST_HUNG, score_calls, span_calls
from penstock.testing import ScriptedScores


class Lengths(ScriptedScores):
    """Scores how long a text is, of ten characters at most; keeps the threads that it was called in."""

    def __init__(self) -> None:
        super().__init__(lambda text: {"long": min(len(text), 10) / 10}, categories=["long"])
        self.threads: set[int] = set()
        self.busy = False

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        assert not self.busy, "it is called twice at a time"
        self.busy = True
        self.threads.add(threading.get_ident())
        found = super().scores(texts)
        self.busy = False
        return found


class AsyncLengths(Lengths):
    """The same, but it waits; tests can hold it back."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self.may_end: anyio.Event | None = None

    async def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:  # type: ignore[override]
        found = super().scores(texts)
        self.begun.set()
        if self.may_end is not None:
            await self.may_end.wait()
        return found


class Held(Lengths):
    """A sync detector that computes until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        self.begun.set()
        assert self.may_end.wait(60)
        return super().scores(texts)


async def asked(detector: Any, *requests: Sequence[str]) -> list[list[float]]:
    """Return the scores that concurrent tasks get."""
    calls = score_calls(detector)
    found: list[list[float]] = [[] for _ in requests]

    async def ask(at: int) -> None:
        found[at] = [scores["long"] for scores in await calls.ask(requests[at])]

    async with anyio.create_task_group() as group:
        for at in range(len(requests)):
            group.start_soon(ask, at)
    return found


@pytest.mark.parametrize("kind", [Lengths, AsyncLengths])
async def test_texts_of_concurrent_tasks_make_one_call(kind: Callable[[], Lengths]) -> None:
    """Each gets its own answers, in order; equal texts are asked about once."""
    detector = kind()
    assert await asked(detector, ["a", "bbb"], ["cc", "a"], ["bbb"]) == [[0.1, 0.3], [0.2, 0.1], [0.3]]
    assert [sorted(batch) for batch in detector.batches] == [["a", "bbb", "cc"]]


async def test_a_sync_detector_is_called_in_a_worker_thread() -> None:
    """The event loop goes on meanwhile."""
    detector = Lengths()
    await asked(detector, ["a"])
    assert threading.get_ident() not in detector.threads


async def test_a_batch_has_its_largest_size() -> None:
    """What is more makes up the next ones, also of one task."""
    detector = Lengths()
    detector.batch_size = 2
    found = await asked(detector, ["a", "bb", "ccc"], ["dddd", "eeeee"])
    assert found == [[0.1, 0.2, 0.3], [0.4, 0.5]]
    assert [len(batch) for batch in detector.batches] == [2, 2, 1]


async def test_a_full_batch_does_not_wait_for_its_time() -> None:
    """A text that comes later fills it; the time is longer than the test may take."""
    detector = Lengths()
    detector.batch_size, detector.batch_seconds = 2, 50.0
    calls = score_calls(detector)
    async with anyio.create_task_group() as group:
        group.start_soon(calls.ask, ["a"])
        await anyio.wait_all_tasks_blocked()
        assert detector.batches == []
        group.start_soon(calls.ask, ["bb"])
    assert detector.batches == [["a", "bb"]]


async def test_texts_that_come_while_a_sync_detector_computes_make_one_call() -> None:
    """Then they wait for no others."""
    detector = Held()
    calls = score_calls(detector)
    async with anyio.create_task_group() as group:
        group.start_soon(calls.ask, ["a"])
        await anyio.to_thread.run_sync(detector.begun.wait)
        for text in ("bb", "ccc", "dddd"):
            group.start_soon(calls.ask, [text])
        await anyio.lowlevel.checkpoint()
        detector.may_end.set()
    assert [sorted(batch) for batch in detector.batches] == [["a"], ["bb", "ccc", "dddd"]]


async def test_an_async_detector_may_be_asked_again_before_it_has_answered() -> None:
    """It is a client of something that serves many."""
    detector = AsyncLengths()
    detector.may_end = anyio.Event()
    calls = score_calls(detector)
    async with anyio.create_task_group() as group:
        group.start_soon(calls.ask, ["a"])
        await detector.begun.wait()
        detector.begun = anyio.Event()
        group.start_soon(calls.ask, ["bb"])
        await detector.begun.wait()
        assert detector.batches == [["a"], ["bb"]]
        detector.may_end.set()


async def test_a_task_that_is_cancelled_harms_no_other_in_its_batch() -> None:
    """Not even if it made the call for all: another task makes it again."""
    detector = AsyncLengths()
    detector.batch_size, detector.batch_seconds = 2, 50.0
    detector.may_end = anyio.Event()
    calls = score_calls(detector)
    found: list[Any] = []
    first = anyio.CancelScope()

    async def ask(text: str, scope: anyio.CancelScope) -> None:
        with scope:
            found.append(await calls.ask([text]))

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "a", first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask, "bb", anyio.CancelScope())
        await detector.begun.wait()
        first.cancel()
        detector.may_end.set()
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask, "ccc", anyio.CancelScope())
    assert found == [[{"long": 0.2}], [{"long": 0.3}]]
    assert [sorted(batch) for batch in detector.batches] == [["a", "bb"], ["bb", "ccc"]]


async def test_a_task_that_is_cancelled_while_it_waits_takes_its_texts_back() -> None:
    """Nobody needs them any more."""
    detector = Held()
    calls = score_calls(detector)
    async with anyio.create_task_group() as group:
        group.start_soon(calls.ask, ["a"])
        await anyio.to_thread.run_sync(detector.begun.wait)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(calls.ask, ["bb"])
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        group.start_soon(calls.ask, ["ccc"])
        await anyio.lowlevel.checkpoint()
        detector.may_end.set()
    assert detector.batches == [["a"], ["ccc"]]


async def test_a_detector_that_hung_is_not_asked_for_requests_that_have_left() -> None:
    """Their threads end while it hangs."""
    detector = Held()
    calls = score_calls(detector)
    async with anyio.create_task_group() as group:
        group.start_soon(calls.ask, ["a"])
        await anyio.to_thread.run_sync(detector.begun.wait)
        group.cancel_scope.cancel()
    for at in range(20):
        with anyio.move_on_after(0.002):
            await calls.ask([f"late {at}"])
    detector.may_end.set()
    assert await calls.ask(["b"]) == [{"long": 0.1}]
    assert detector.batches == [["a"], ["b"]]


async def test_a_text_that_breaks_a_detector_fails_for_its_own_task_alone() -> None:
    """The others of its batch are asked about by themselves."""

    class Fragile(Lengths):
        def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
            if "bomb" in texts:
                raise ValueError("a secret")
            return super().scores(texts)

    calls = score_calls(Fragile())
    ends: dict[str, object] = {}

    async def ask(text: str) -> None:
        try:
            ends[text] = await calls.ask([text])
        except DetectorError as error:
            ends[text] = error

    async with anyio.create_task_group() as group:
        for text in ("a", "bomb", "ccc"):
            group.start_soon(ask, text)
    assert ends["a"] == [{"long": 0.1}]
    assert ends["ccc"] == [{"long": 0.3}]
    assert str(ends["bomb"]) == "detector 'scripted': it raised ValueError"
    assert isinstance(ends["bomb"], DetectorError)
    assert isinstance(ends["bomb"].__cause__, ValueError)


def answering(answer: Any, *, spans: bool = False) -> Any:
    """Return a detector that gives one answer, whatever it is asked."""

    class Answering:
        name = "mine"
        categories = types = ("a", "b")
        thresholds: Mapping[str, float] = {}

        def scores(self, texts: Sequence[str]) -> Any:
            return answer

        find = scores

    return span_calls(Answering()) if spans else score_calls(Answering())


SCORES: list[tuple[Any, str]] = [
    ([], "it was asked about 1 texts, but returned 0 answers"),
    ([{}, {}], "it was asked about 1 texts, but returned 2 answers"),
    (None, "it was asked about 1 texts, but returned NoneType"),
    ({"a": 0.5}, "it was asked about 1 texts, but returned dict"),
    ([[0.5]], "it must return a mapping for each text, not list"),
    ([{"c": 0.5}], "it returned a score of a category that is none of 'a', 'b'"),
    ([{1: 0.5}], "it returned a score of a category that is none of 'a', 'b'"),
    ([{"a": 1.5}], "its score of 'a' must be a number from 0 to 1, not 1.5"),
    ([{"a": -0.1}], "its score of 'a' must be a number from 0 to 1, not -0.1"),
    ([{"a": math.nan}], "its score of 'a' must be a number from 0 to 1, not nan"),
    ([{"a": "1"}], "its score of 'a' must be a number from 0 to 1, not a str"),
    ([{"a": None}], "its score of 'a' must be a number from 0 to 1, not a NoneType"),
    ([{"a": True}], "its score of 'a' must be a number from 0 to 1, not True"),
]
SPANS: list[tuple[Any, str]] = [
    ([None], "it must return a list of spans for each text, not NoneType"),
    ([[(0, 1, "a")]], "a span must be (start, end, type, score)"),
    ([["0..1"]], "a span must be (start, end, type, score)"),
    (
        [[(0, 1, "AKIAIOSFODNN7EXAMPLE", 1.0)]],
        "it returned a span of a type that is none of 'a', 'b'",
    ),
    ([[(0, 1, "a", 2)]], "its score of 'a' must be a number from 0 to 1, not 2"),
    ([[(0, 6, "a", 1.0)]], "it returned a span from 0 to 6, in a text of 5 characters"),
    ([[(-1, 2, "a", 1.0)]], "it returned a span from -1 to 2, in a text of 5 characters"),
    ([[(2, 2, "a", 1.0)]], "it returned a span from 2 to 2, in a text of 5 characters"),
    ([[(0.0, 2, "a", 1.0)]], "it returned a span from 0.0 to 2, in a text of 5 characters"),
]


@pytest.mark.parametrize(
    ("spans", "answer", "problem"), [(False, *one) for one in SCORES] + [(True, *one) for one in SPANS]
)
def test_an_answer_that_is_not_valid_is_a_failure(spans: bool, answer: Any, problem: str) -> None:
    """It names the detector and says what is wrong, and quotes no text."""
    with pytest.raises(DetectorError) as caught:
        run_without_loop(answering(answer, spans=spans).ask(["hello"]), "asking")
    assert str(caught.value) == f"detector 'mine': {problem}"


def test_numbers_of_any_library_are_scores_and_positions() -> None:
    """Models return the numbers of NumPy; a sum of 32-bit numbers may be a little above 1."""
    numpy = pytest.importorskip("numpy")
    found = run_without_loop(answering([{"a": numpy.float32(1.000001)}]).ask(["hello"]), "asking")
    spans = run_without_loop(
        answering([[(numpy.int64(1), numpy.int64(3), "a", numpy.float32(0.5))]], spans=True).ask(["hello"]), "asking"
    )
    assert (found, spans) == ([{"a": 1.0}], [[(1, 3, "a", 0.5)]])


def test_without_an_event_loop_a_sync_detector_is_called_on_the_spot() -> None:
    """In the caller's thread."""
    detector = Lengths()
    assert run_without_loop(score_calls(detector).ask(["a", "bb"]), "asking") == [{"long": 0.1}, {"long": 0.2}]
    assert detector.threads == {threading.get_ident()}


@pytest.mark.parametrize("kind", [Lengths, AsyncLengths])
async def test_no_detector_gets_half_a_surrogate_pair(kind: Callable[[], Lengths]) -> None:
    """No tokenizer takes one, so any text with one would block. A character stands in its place: positions stay."""
    detector = kind()
    assert await asked(detector, ["a\ud83d", "\ude00b"]) == [[0.2, 0.2]]
    if kind is Lengths:
        run_without_loop(score_calls(detector).ask(["c\udfff"]), "asking")
    assert detector.batches == [["a\ufffd", "\ufffdb"], ["c\ufffd"]][: len(detector.batches)]


def test_without_an_event_loop_calls_have_the_largest_size_and_errors_name_the_detector() -> None:
    """As in a loop."""
    detector = Lengths()
    detector.batch_size = 2
    assert len(run_without_loop(score_calls(detector).ask(["a", "b", "c"]), "asking")) == 3
    assert detector.batches == [["a", "b"], ["c"]]
    broken = ScriptedScores(lambda text: {"a": 1 / len(text)}, categories=["a"])
    with pytest.raises(DetectorError, match="detector 'scripted': it raised ZeroDivisionError") as caught:
        run_without_loop(score_calls(broken).ask(["a", ""]), "asking")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_function_that_hides_that_it_is_async_needs_a_loop() -> None:
    """The error says what to do."""

    class Hidden(AsyncLengths):
        def scores(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
            return super().scores(texts)

    with pytest.raises(DetectorError, match="define the method with async def"):
        run_without_loop(score_calls(Hidden()).ask(["a"]), "asking")


async def test_a_function_that_hides_that_it_is_async_is_awaited_in_a_loop() -> None:
    """A decorator may hide it."""

    class Hidden(AsyncLengths):
        def scores(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
            return super().scores(texts)

    assert await score_calls(Hidden()).ask(["a"]) == [{"long": 0.1}]


def test_guards_that_share_a_detector_share_its_calls() -> None:
    """They live as long as one of them; another detector at the same place in memory has calls of its own."""
    detector = Lengths()
    calls = score_calls(detector)
    assert score_calls(detector) is calls
    assert score_calls(Lengths()) is not calls
    gone = ref(calls)
    del calls
    gc.collect()
    assert gone() is None


def test_calls_can_be_pickled() -> None:
    """Guards are sent to other processes."""
    copy = pickle.loads(pickle.dumps(score_calls(_Picklable())))  # noqa: S301 - made here
    assert run_without_loop(copy.ask(["a"]), "asking") == [{"long": 1.0}]


class _Picklable:
    categories = ("long",)
    thresholds: Mapping[str, float] = {}

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        return [{"long": 1.0} for _ in texts]


@pytest.mark.parametrize(("option", "value"), [("batch_size", 0), ("batch_size", 1.5), ("batch_seconds", -1)])
def test_how_texts_are_collected_is_checked(option: str, value: Any) -> None:
    """When a guard is made."""
    detector = Lengths()
    setattr(detector, option, value)
    with pytest.raises(OptionError, match=option):
        score_calls(detector)


class Hanging(Lengths):
    """A sync detector of which the first calls hang until they are let go."""

    def __init__(self, hangs: int = 1) -> None:
        super().__init__()
        self.hangs = hangs
        self.begun, self.may_end = threading.Event(), threading.Event()

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        self.busy = False  # it is called beside a call that hangs
        found = super().scores(texts)
        self.begun.set()
        if len(self.batches) <= self.hangs:
            self.may_end.wait(60)
        return found


async def test_a_call_that_hangs_fails_and_the_next_one_is_made_beside_it(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread is given up, which the log says; requests that waited for it are answered."""
    detector = Hanging()
    detector.call_seconds = 0.05  # type: ignore[attr-defined]
    calls = score_calls(detector)
    try:
        with anyio.fail_after(60):
            with pytest.raises(DetectorError, match=r"it gave no answer within 0\.05 s"):
                await calls.ask(["a"])
            assert await calls.ask(["bb"]) == [{"long": 0.2}]
    finally:
        detector.may_end.set()
    assert "detector 'scripted' hangs: the thread of a call is given up (1 of at most 8)" in caplog.messages


@pytest.mark.rest
async def test_a_call_that_hangs_loses_its_place_soon_after_its_caller_has_left() -> None:
    """Though its own time is not up."""
    detector = Hanging()
    calls = score_calls(detector)
    try:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(calls.ask, ["a"])
                await anyio.to_thread.run_sync(detector.begun.wait)
                group.cancel_scope.cancel()
            assert await calls.ask(["bb"]) == [{"long": 0.2}]
    finally:
        detector.may_end.set()


async def test_no_more_than_some_threads_are_lost_to_a_detector_that_hangs() -> None:
    """Then it fails at once, until a call returns."""
    detector = Hanging(hangs=MOST_HUNG)
    detector.call_seconds = 0.02  # type: ignore[attr-defined]
    calls = score_calls(detector)
    try:
        with anyio.fail_after(60):
            for at in range(MOST_HUNG):
                with pytest.raises(DetectorError, match="no answer"):
                    await calls.ask([f"{at}"])
            with pytest.raises(DetectorError, match="8 calls of it hang, so it is not called until one returns"):
                await calls.ask(["a"])
            detector.may_end.set()
            found: list[Mapping[str, float]] = []
            while not found:
                with suppress(DetectorError):
                    found = await calls.ask(["bb"])
    finally:
        detector.may_end.set()
    assert found == [{"long": 0.2}]


async def test_an_async_call_has_the_same_limit() -> None:
    """It harms its own request alone in any case."""
    detector = AsyncLengths()
    detector.call_seconds, detector.may_end = 0.05, anyio.Event()  # type: ignore[attr-defined]
    with anyio.fail_after(60), pytest.raises(DetectorError, match="no answer within"):
        await score_calls(detector).ask(["a"])


def test_a_call_on_the_spot_that_hangs_does_not_stall_other_threads() -> None:
    """It keeps its own thread, and loses its place."""
    detector = Hanging()
    detector.call_seconds = 0.05  # type: ignore[attr-defined]
    calls = score_calls(detector)
    first = threading.Thread(target=run_without_loop, args=(calls.ask(["a"]), "asking"), daemon=True)
    first.start()
    detector.begun.wait(20)
    assert run_without_loop(calls.ask(["bb"]), "asking") == [{"long": 0.2}]
    detector.may_end.set()
    first.join(20)


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "1"])
def test_a_limit_is_a_number_of_seconds(seconds: Any) -> None:
    """None is no limit."""
    detector = Lengths()
    detector.call_seconds = seconds  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="more than 0; None for no limit"):
        score_calls(detector)
    detector.call_seconds = None  # type: ignore[attr-defined]
    assert run_without_loop(score_calls(detector).ask(["a"]), "asking") == [{"long": 0.1}]
