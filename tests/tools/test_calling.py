"""Calling tools: where they run, what becomes of their results and failures, and how a call is ended."""

from __future__ import annotations

import re
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
from anyio import from_thread, to_thread
from pydantic import BaseModel, SecretStr, field_serializer

from penstock import Tool
from penstock.engine.values.chunks import Chunk
from penstock.tools import ToolContext, ToolError, ToolFailed, calling
from tests.ids import without_address

if TYPE_CHECKING:
    from collections.abc import Iterator

USER: ContextVar[str] = ContextVar("USER")


async def failure(made: Tool, arguments: Any = None) -> ToolError:
    """Return the error that a call ends with."""
    with pytest.raises(ToolError) as caught:
        await made.call(arguments)
    return caught.value


def giving(result: Any, **options: Any) -> Tool:
    """Return a tool that gives a result."""
    return Tool(lambda: result, name="f", **options)


def raising(error: BaseException, **options: Any) -> Tool:
    """Return a tool that raises an error."""

    def f() -> None:
        raise error

    return Tool(f, **options)


# where tools run


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    """So that neither blocks the other; `offload=False` is for what is quick."""

    async def on_loop() -> int:
        return threading.get_ident()

    def anywhere() -> int:
        return threading.get_ident()

    here = threading.get_ident()
    assert await Tool(on_loop).call({}) == here
    assert await Tool(anywhere, offload=False).call({}) == here
    assert await Tool(anywhere).call({}) != here


async def test_context_variables_are_the_caller_s() -> None:
    """In a thread too."""

    def who() -> str:
        return USER.get()

    USER.set("ada")
    for options in ({}, {"offload": False}):
        assert await Tool(who, **options).call({}) == "ada"


async def test_an_awaitable_that_a_sync_function_gives_is_awaited() -> None:
    """On the loop, wherever the function ran."""

    async def later(fails: bool) -> int:
        await anyio.lowlevel.checkpoint()
        if fails:
            raise LookupError
        return threading.get_ident()

    for options in ({}, {"offload": False}):
        made = Tool(lambda fails: later(fails=fails), name="f", **options)
        assert await made.call({"fails": False}) == threading.get_ident()
        assert (await failure(made, {"fails": True})).for_model == "LookupError"


async def test_tools_have_threads_of_their_own() -> None:
    """Tools that hang take no thread from guards that run in one."""

    def busy() -> float:
        return from_thread.run_sync(to_thread.current_default_thread_limiter).borrowed_tokens

    assert await Tool(busy).call({}) == 0
    assert await to_thread.run_sync(busy) == 1


# results


class Shade(Enum):
    """A shade."""

    DARK = "dark"


class Person(BaseModel):
    """Somebody."""

    name: str
    key: SecretStr = SecretStr("x")


@dataclass
class Pair:
    """Two."""

    left: object
    right: object


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (None, None),
        ("text", "text"),
        ([1, (2.5, True)], (1, (2.5, True))),
        ({"a": {1}}, {"a": (1,)}),
        ({1: "one"}, {"1": "one"}),
        (Person(name="Ada"), {"name": "Ada", "key": "**********"}),
        ([Pair(Shade.DARK, None)], ({"left": "dark", "right": None},)),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (timedelta(minutes=5), "PT5M"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a"), "a"),
        ("ä".encode(), "ä"),
        (map(str, [1, 2]), ("1", "2")),
    ],
    ids=without_address,
)
async def test_a_result_is_made_json_as_pydantic_makes_it(given: Any, result: Any) -> None:
    """And frozen: guards read it, and it enters the history."""
    if not isinstance(given, map):
        assert await giving(given).call({}) == result
    assert await Tool(lambda: map(str, [1, 2]) if isinstance(given, map) else given, name="f").call({}) == result


async def test_a_result_cannot_be_changed() -> None:
    """Not even by the tool that keeps it."""
    kept = {"list": [1]}
    result = await giving(kept).call({})
    kept["list"].append(2)
    assert result == {"list": (1,)}
    with pytest.raises(TypeError):
        result["more"] = 1


def around() -> object:
    """Return a list that holds itself."""
    made: list[object] = []
    made.append(made)
    return made


def deep() -> object:
    """Return lists in lists."""
    made: object = 1
    for _ in range(201):
        made = [made]
    return made


class Odd(BaseModel):
    """A model whose serialiser breaks."""

    a: int = 1

    @field_serializer("a")
    def no(self, _: int) -> int:
        """Break."""
        raise LookupError("secret")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (object(), "something in its result"),
        ({"a": [3j, len]}, "something in its result"),
        (around(), "something in its result"),
        (deep(), "something in its result"),
        (Odd(), "something in its result"),
        (b"\xff", "bytes that are not UTF-8"),
        ({"a": float("nan")}, "a number in its result"),
        (float("-inf"), "a number in its result"),
        (["\udc80"], "half a surrogate pair"),
    ],
    ids=without_address,
)
async def test_a_result_that_is_no_json_is_an_error_that_says_why(given: Any, told: str) -> None:
    """And quotes nothing of it."""
    error = await failure(giving(given))
    assert (error.kind, told in error.for_model) == ("not-json", True)
    assert "secret" not in f"{error}{error.for_model}"
    assert error.__cause__ is not None


async def test_an_iterator_that_breaks_is_no_json() -> None:
    """It is read as the result is written."""
    assert (await failure(giving(map(int, ["x"])))).kind == "not-json"


async def test_a_result_that_is_too_long_is_refused_and_not_cut() -> None:
    """Half a secret would be none that a guard knows. Text counts as it is, all else as JSON."""
    for fits, too_long in (("x" * 9, "x" * 10), ([1, 2, 3], [1, 2, 3, 4])):
        await giving(fits, max_result_characters=9).call({})
        error = await failure(giving(too_long, max_result_characters=9))
        assert error.kind == "failed"
        assert re.search(r"has 1\d characters, and at most 9 are allowed", error.for_model)


# failures


async def test_an_exception_is_told_to_the_model_and_kept_as_the_cause() -> None:
    """Its message is for the model, behind the guards; the error itself, which may be logged, holds none of it."""
    raised = LookupError("no user ada@example.com")
    error = await failure(raising(raised))
    assert (error.kind, error.for_model) == ("failed", "LookupError: no user ada@example.com")
    assert str(error) == "tool 'f': it raised LookupError (failed)"
    assert error.__cause__ is raised


async def test_a_tool_may_keep_its_exceptions_to_itself() -> None:
    """`errors="type"`: the model learns the kind alone."""
    assert (await failure(raising(ValueError("secret"), errors="type"))).for_model == "ValueError"
    assert (await failure(raising(ValueError("x" * 10), max_result_characters=9))).for_model == (
        "ValueError: (its message has 10 characters)"
    )


async def test_a_tool_may_choose_what_the_model_is_told() -> None:
    """By `ToolFailed`, in a group of one too; whatever `errors` says."""
    for raised in (ToolFailed("Try a city."), ExceptionGroup("g", [ExceptionGroup("h", [ToolFailed("Try a city.")])])):
        error = await failure(raising(raised, errors="type"))
        assert (error.kind, error.for_model) == ("failed", "Try a city.")
        assert "city" not in str(error)


async def test_an_error_of_a_tool_within_a_tool_is_a_failure_of_the_outer_one() -> None:
    """The model called that."""

    async def f() -> None:
        await raising(KeyError("x")).named("inner").call({})

    error = await failure(Tool(f, name="outer"))
    assert (error.tool, error.kind) == ("outer", "failed")


async def test_what_a_model_is_told_can_be_sent() -> None:
    """Names of files may hold half surrogate pairs."""
    assert (await failure(raising(OSError("no file a\udcff")))).for_model == "OSError: no file a?"


async def test_the_end_of_an_iterator_is_an_error_like_others() -> None:
    """An event loop could not carry it."""
    assert (await failure(Tool(lambda: next(iter(())), name="f"))).for_model == "StopIteration"


@pytest.mark.parametrize("offload", [True, False])
async def test_what_ends_a_program_is_no_failure_of_a_tool(offload: bool) -> None:
    """It passes through."""

    class End(BaseException):
        pass

    with pytest.raises(End):
        await raising(End(), offload=offload).call({})


def test_an_error_about_an_unknown_tool_does_not_name_it() -> None:
    """The model made that name up; it may be anything."""
    error = ToolError("secret", "unknown", "there is no such tool")
    assert (error.tool, error.for_model) == ("secret", "there is no such tool")
    assert str(error) == "a tool: there is no such tool (unknown)"


# the end of a call


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """The event that lets threads go, at the end at the latest."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_call_that_is_cancelled_leaves_its_thread_behind(go: threading.Event) -> None:
    """Nobody waits for it, and what it writes then goes nowhere."""
    begun, ended = threading.Event(), threading.Event()
    sent: list[Chunk] = []

    def f(ctx: ToolContext) -> None:
        begun.set()
        go.wait()
        ctx.write(Chunk("data-late", payload={"data": 1}))
        ended.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(Tool(f).call, {}, ToolContext(send=sent.append))
            await to_thread.run_sync(begun.wait)
            scope.cancel()
    go.set()
    await to_thread.run_sync(ended.wait)
    assert (scope.cancelled_caught, sent) == (True, [])


@pytest.mark.parametrize("offload", [None, False])
async def test_a_call_that_takes_too_long_is_ended(offload: bool | None, go: threading.Event) -> None:
    """Async or in a thread; the limit is short here, so nothing waits for long."""

    async def hang() -> None:
        await anyio.sleep_forever()

    def wait() -> None:
        go.wait()

    made = Tool(hang if offload is False else wait, timeout=0.01)
    error = await failure(made)
    assert (error.kind, error.for_model) == ("timed-out", "it did not finish within 0.01 seconds")


async def none_left() -> None:
    """Wait until the threads that calls left behind have ended."""
    with anyio.fail_after(60):
        while calling.left():
            await anyio.lowlevel.checkpoint()


async def test_calls_that_never_end_do_not_take_threads_without_end(
    go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once so many are left, a call is refused; when one ends, the next may begin."""
    await none_left()
    monkeypatch.setattr(calling, "MOST_LEFT", 1)
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(Tool(wait).call, {})
        await to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    assert (await failure(giving(1))).problem == "too many tool calls have never ended, so no further one is started"
    go.set()
    await none_left()
    assert await giving(1).call({}) == 1


async def test_a_tool_that_hangs_uses_up_no_thread_of_another(
    go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while its calls run, nor when they were left."""
    await none_left()
    monkeypatch.setattr(calling, "MOST_LEFT_OF_A_TOOL", 1)
    threads = int(to_thread.current_default_thread_limiter().total_tokens)
    begun = threading.Semaphore(0)

    def wait() -> None:
        begun.release()
        go.wait()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(threads + 1):
                group.start_soon(Tool(wait).call, {})
            for _ in range(threads):
                await to_thread.run_sync(begun.acquire)
            assert await giving(1).call({}) == 1
            group.cancel_scope.cancel()
        assert await giving(1).call({}) == 1
        assert (await failure(Tool(wait))).problem.startswith("too many of its calls have never ended")
        go.set()
        await none_left()


async def test_a_tool_without_a_limit_of_its_own_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that says nothing is ended; the error says what to do."""
    monkeypatch.setattr(calling, "DEFAULT_SECONDS", 0.01)
    error = await failure(Tool(anyio.sleep_forever, name="hang"))
    assert (error.kind, "timeout=" in error.problem) == ("timed-out", True)


async def test_chunks_renew_the_default_limit_and_no_other() -> None:
    """A long job that reports its progress goes on."""

    async def reports(ctx: ToolContext) -> list[float]:
        limits = [anyio.current_effective_deadline()]
        await anyio.sleep(0.001)
        ctx.write(Chunk("data-progress"))
        return [*limits, anyio.current_effective_deadline()]

    limits: dict[Any, list[float]] = {}
    ctx = ToolContext(send=lambda chunk: None)
    for timeout in ("default", 60, 9e9):
        limits[timeout] = list(await Tool(reports, timeout=timeout).call({}, ctx))
    assert limits["default"][0] < limits["default"][1] <= anyio.current_time() + 300
    assert limits[60][0] == limits[60][1]
    assert limits[9e9][0] == limits[9e9][1]


async def test_a_timeout_of_the_tool_s_own_is_a_failure() -> None:
    """Only our limit is `timed-out`."""
    error = await failure(raising(TimeoutError("the database"), timeout=9))
    assert (error.kind, error.for_model) == ("failed", "TimeoutError: the database")


async def test_cancellation_passes_through_a_tool() -> None:
    """It is no error of the tool's."""
    begun = anyio.Event()

    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(Tool(hang, timeout=99).call, {})
            await begun.wait()
            scope.cancel()
    assert scope.cancelled_caught


# chunks


@pytest.mark.parametrize("offload", [True, False])
async def test_a_tool_s_chunks_are_sent_from_the_loop(offload: bool) -> None:
    """In order, wherever the tool runs: who sends them need not care for threads."""
    sent: list[tuple[Any, int]] = []

    def f(ctx: ToolContext) -> None:
        for number in range(3):
            ctx.write(Chunk("data-n", payload={"data": number}))

    def send(chunk: Chunk) -> None:
        sent.append((chunk.payload["data"], threading.get_ident()))

    await Tool(f, offload=offload).call({}, ToolContext(send=send))
    assert sent == [(number, threading.get_ident()) for number in range(3)]


async def test_a_chunk_that_is_refused_fails_the_tool() -> None:
    """A tool writes data chunks, no text of the model's."""

    def f(ctx: ToolContext) -> None:
        ctx.write(Chunk("text-delta", text="x"))

    assert (await failure(Tool(f))).problem == "it raised UsageError"


async def test_nothing_is_sent_after_the_call() -> None:
    """A tool may have given its context to somebody else."""
    kept: list[ToolContext] = []
    sent: list[Chunk] = []

    def keep(ctx: ToolContext) -> None:
        kept.append(ctx)

    await Tool(keep).call({}, ToolContext(send=sent.append))
    kept[-1].write(Chunk("data-late", payload={"data": 1}))
    await to_thread.run_sync(kept[-1].write, Chunk("data-late", payload={"data": 1}))
    assert sent == []


async def test_a_tool_in_a_thread_can_ask_the_loop() -> None:
    """As any worker thread of anyio's."""

    async def later() -> int:
        return 3

    assert await Tool(lambda: from_thread.run(later), name="f").call({}) == 3
