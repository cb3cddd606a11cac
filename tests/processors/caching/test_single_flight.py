"""Requests that come together: one asks, the others wait for what it is told, and for no longer than is good."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from penstock import Agent, APIErrorContext, ModelError, OutputStepContext, ResponseCache, Retry, Workflow, processor
from penstock.engine import ModelRequest, ToolSpec
from penstock.engine.values.frozen import Value
from penstock.testing import ScriptedModel
from tests.processors.caching.calls import Gate, Shared, hit


async def together(count: int, ask: Callable[[], Awaitable[Any]], gate: Gate | None = None) -> list[Any]:
    """Ask so many times at once, let the model answer when all wait, and return what came of each; errors by class."""
    found: list[Any] = []

    async def one() -> None:
        try:
            found.append(await ask())
        except ModelError as error:
            found.append(type(error).__name__)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            if gate is not None:
                gate.opened.set()
    return found


def hearing(agent: Agent) -> tuple[list[str], Callable[[], Awaitable[None]]]:
    """Return a list, and a function that asks the agent and puts into it what it says."""
    texts: list[str] = []

    async def ask() -> None:
        texts.append((await agent.generate("hello")).text)

    return texts, ask


async def test_of_a_hundred_equal_requests_one_asks_the_model() -> None:
    """All have the same answer; each went through the guards for itself."""
    seen: list[str] = []

    @processor("process_output_step", id="watch", role="observer")
    def watch(ctx: OutputStepContext) -> None:
        seen.append(ctx.text)

    model = Gate()
    agent = Agent(model, processors=[ResponseCache(), watch])
    results = await together(100, lambda: agent.generate("hello"), model)
    assert {result.text for result in results} == {"answer 1"}
    assert (len(model.requests), len(seen)) == (1, 100)
    assert sum(result.usage.requests for result in results) == 1


async def test_different_requests_do_not_wait_for_each_other() -> None:
    """Nor do equal ones of different users."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache()])
    texts = iter("abcabc")
    await together(6, lambda: agent.generate(text := next(texts), request_context={"resource_id": text}), model)
    assert len(model.requests) == 3
    users = iter(["ann", "bob"])
    await together(2, lambda: agent.generate("hello", request_context={"resource_id": next(users)}))
    assert len(model.requests) == 5


async def test_a_broken_cache_still_lets_one_ask_for_all() -> None:
    """What cannot be kept can be shared."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache(Shared(get="raise", set="raise"))])
    results = await together(10, lambda: agent.generate("hello"), model)
    assert ({result.text for result in results}, len(model.requests)) == ({"answer 1"}, 1)


async def test_when_the_first_is_blocked_all_others_ask_for_themselves() -> None:
    """Nobody is given what was blocked, and nobody waits again."""

    @processor("process_output_step", id="judge")
    def judge(ctx: OutputStepContext) -> None:
        if ctx.text == "answer 1":
            ctx.abort("no")

    model = Gate()
    agent = Agent(model, processors=[ResponseCache(), judge])
    results = await together(5, lambda: agent.generate("hello"), model)
    assert sorted(result.text for result in results) == ["", "answer 2", "answer 3", "answer 4", "answer 5"]


async def test_when_the_first_fails_the_next_one_asks_for_the_others() -> None:
    """One error, one further call."""
    model = Gate(lambda number: {"error": {"status": 400}} if number == 1 else f"answer {number}")
    agent = Agent(model, processors=[ResponseCache()])
    found = await together(5, lambda: agent.generate("hello"), model)
    assert sorted(one if isinstance(one, str) else one.text for one in found) == ["ModelError", *["answer 2"] * 4]
    assert len(model.requests) == 2


async def test_when_the_first_is_cancelled_the_next_one_asks_for_the_others() -> None:
    """Nobody is cancelled for another."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache()])
    texts, ask = hearing(agent)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            async with anyio.create_task_group() as first:
                first.start_soon(agent.generate, "hello")
                await model.asked.wait()
                for _ in range(3):
                    group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                first.cancel_scope.cancel()
            model.opened.set()
    assert (texts, len(model.requests)) == (["answer 2"] * 3, 2)


async def test_one_who_gives_up_waiting_disturbs_nobody() -> None:
    """The first goes on, and so do the others that wait."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache()])
    texts, ask = hearing(agent)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await model.asked.wait()
            async with anyio.create_task_group() as second:
                second.start_soon(agent.generate, "hello")
                group.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                second.cancel_scope.cancel()
            model.opened.set()
    assert (texts, len(model.requests)) == (["answer 1"] * 2, 1)


async def test_nobody_waits_for_longer_than_is_said() -> None:
    """The first hangs; another asks for itself, and has its answer."""
    model = ScriptedModel([_never, "mine"])
    agent = Agent(model, processors=[ResponseCache(max_wait=0.01)])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.generate, "hello")
            await anyio.wait_all_tasks_blocked()
            assert (await agent.generate("hello")).text == "mine"
            group.cancel_scope.cancel()


async def _never(_request: ModelRequest) -> str:
    await anyio.sleep_forever()
    return ""


async def test_waiting_can_be_turned_off() -> None:
    """Each asks for itself; answers are kept all the same."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache(max_wait=0)])
    await together(3, lambda: agent.generate("hello"), model)
    assert len(model.requests) == 3
    await agent.generate("hello")
    assert len(model.requests) == 3


async def test_who_wants_a_fresh_answer_waits_for_nobody() -> None:
    """An answer that is being made already is not fresh enough."""
    model = Gate()
    agent = Agent(model, processors=[ResponseCache()])
    await together(3, lambda: agent.generate("hello", request_context={"response_cache": {"bust": True}}), model)
    assert len(model.requests) == 3


async def test_who_waits_is_let_go_as_soon_as_an_answer_is_not_to_be_kept() -> None:
    """A call to a tool; the first run still goes on when the others ask."""
    model = Gate(lambda _: {"tool_calls": [{"name": "wait", "args": {}}]})
    used = anyio.Event()
    count = 0

    async def wait() -> str:
        nonlocal count
        count += 1
        if count == 3:
            used.set()
        await used.wait()  # the first waits for the others' tools
        return "done"

    agent = Agent(model, tools=[wait], max_steps=1, processors=[ResponseCache()])
    await together(3, lambda: agent.generate("hello"), model)
    assert (count, len(model.requests)) == (3, 3)


async def test_no_two_can_wait_for_each_other() -> None:
    """Who leads waits for nobody: two runs that ask the same two things in opposite order both end."""
    cache = ResponseCache(key=lambda about: about.request_context["order"][about.step_number], tool_calls="store")
    meet = anyio.Event()
    arrived = 0

    async def look() -> str:
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            meet.set()
        await meet.wait()
        return "seen"

    def say(request: ModelRequest) -> Value:
        return "Done." if len(request.messages) > 1 else {"tool_calls": [{"name": "look", "args": {}}]}

    agent = Agent(ScriptedModel(say), tools=[look], processors=[cache])
    orders = iter(["ab", "ba"])
    results = await together(2, lambda: agent.generate("hello", request_context={"order": next(orders)}))
    assert [result.text for result in results] == ["Done.", "Done."]


async def test_a_call_that_is_made_again_goes_on_leading() -> None:
    """An error processor has the model asked again, in the same run: the others wait for that."""

    @processor("process_api_error", id="again")
    def again(_ctx: APIErrorContext) -> Retry:
        return Retry()

    model = Gate(lambda number: {"error": {"status": 500}} if number == 1 else f"answer {number}")
    agent = Agent(model, processors=[ResponseCache()], error_processors=[again])
    results = await together(4, lambda: agent.generate("hello"), model)
    assert ({result.text for result in results}, len(model.requests)) == ({"answer 2"}, 2)


async def test_answers_under_way_are_not_given_once_they_are_invalidated() -> None:
    """Neither to those who come now, nor later from the cache."""
    model = Gate()
    cache = ResponseCache(tags=["prices"])
    agent = Agent(model, processors=[cache])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.generate, "hello")
            await model.asked.wait()
            await cache.invalidate("prices")
            group.start_soon(agent.generate, "hello")
            await anyio.wait_all_tasks_blocked()
            assert len(model.requests) == 2
            model.opened.set()
        assert (await agent.generate("hello")).text == "answer 2"


async def test_nothing_is_left_when_all_are_gone() -> None:
    """No flight stays behind, however the runs ended."""
    cache = ResponseCache()
    model = Gate(lambda number: {"error": {"status": 400}} if number == 2 else "Hi")
    agent = Agent(model, processors=[cache])
    texts = iter(["a", "b", "c"])
    await together(3, lambda: agent.generate(next(texts)), model)
    assert cache._pending is not None
    assert len(cache._pending) == 0


def test_event_loops_do_not_know_each_other() -> None:
    """One cache may serve several, one after the other: the answer is kept, and nobody waits for a loop that ended."""
    cache = ResponseCache()
    model = Gate()
    model.opened.set()

    async def abandon() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(Agent(ScriptedModel([_never]), processors=[cache]).generate, "hello")
                await checkpoint()
                scope.cancel()

    anyio.run(abandon)
    assert not anyio.run(hit, cache)
    assert anyio.run(hit, cache, backend="trio")


async def test_a_run_without_an_end_holds_nobody_up_for_long() -> None:
    """Who starts a run and never closes it is waited for no longer than for others."""
    cache = ResponseCache(max_wait=0.01)
    request = ModelRequest("hello", tools=(ToolSpec("f"),))
    forgotten = Workflow("w").then(cache).start()
    await forgotten.process_input_step()
    await forgotten.process_llm_request(request.messages, request=request, model="test/model")
    with anyio.fail_after(60):
        assert not await hit(cache, request)
        assert await hit(cache, request)
