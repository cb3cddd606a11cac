"""Whether failed calls are made again over real HTTP: by hand, by an agent, of other clients' errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import openai
import pytest

from penstock import (
    Agent,
    Message,
    MessageList,
    ModelError,
    OpenAICompatibleModel,
    PrefillErrorHandler,
    Run,
    StreamErrorRetryProcessor,
    Workflow,
)
from penstock.engine import ModelAnswer, ModelRequest
from penstock.models import PydanticAIModel
from penstock.processors.recovery import CircuitBreaker, FailedCall, RetryMatcher, is_bad_request_error
from penstock.testing import ScriptedModel, VirtualClock
from penstock.testing.provider import FakeProvider, Reply, Sent, Wire, failing, rate_limited
from tests.ids import without_address
from tests.models.clients.conftest import KEY, Making

LATE_ERROR = {"error": {"message": "The server is overloaded", "type": "server_error", "code": "overloaded"}}
REFUSED = failing(400, "This model does not support assistant message prefill.")

FAULTS: list[tuple[Any, str, float]] = [
    (rate_limited(7), "rate-limit", 7.0),
    (rate_limited(0.5), "rate-limit", 1.0),
    (rate_limited(message="Slow down. Please try again in 2.5s."), "rate-limit", 2.5),
    (failing(500), "server", 1.0),
    (failing(503), "overloaded", 1.0),
    (Reply("<html>", 502, content_type="text/html"), "server", 1.0),
    (Reply({"error": {"message": "busy", "code": 503}}), "overloaded", 1.0),
    (Sent("Hello there", Wire(break_event=2)), "connection", 1.0),
    (Sent("Hello there", Wire(cut_body_at=300)), "connection", 1.0),
    (Sent("Hello there", Wire(cut_body_at=300, ending="close")), "connection", 1.0),
    (Sent("Hello there", Wire(error_event=LATE_ERROR)), "overloaded", 1.0),
    (Sent("Hello there", Wire(cut_at=10)), "connection", 1.0),
]
LASTING = [failing(400, "no"), failing(401, "no"), failing(404, "no"), failing(429, "no", code="insufficient_quota")]


class Clockless:
    """Takes the waits of a run, and waits for none of them."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.calls: list[FailedCall] = []

    def processor(self, **options: Any) -> StreamErrorRetryProcessor:
        return StreamErrorRetryProcessor(on_retry=self.calls.append, **{"delay": 1.0, **options})

    async def asked(self, run: Run, model: OpenAICompatibleModel) -> ModelAnswer:
        """Ask until there is an answer, or an error that is not to be tried again."""
        while True:
            await run.process_input_step()
            request = await run.process_llm_request(model=model)
            try:
                answer = await model.ask(ModelRequest(request.messages))
            except ModelError as error:
                outcome = await run.process_api_error(error, model=model)
                if not outcome.retry_granted:
                    raise
                assert outcome.retry is not None
                self.waits.append(outcome.retry.after)
            else:
                await run.process_llm_response([answer.message], model=model)
                return answer


@pytest.mark.parametrize(("fault", "kind", "wait"), FAULTS, ids=lambda value: without_address(value)[:60])
async def test_a_loop_written_by_hand_gets_its_answer(fault: Any, kind: str, wait: float, asking: Making) -> None:
    """Whatever the fault is, as long as it passes."""
    loop = Clockless()
    with FakeProvider([fault, "Hello!"]) as server:
        async with asking(server) as model, Workflow("w").then(loop.processor(deadline=60)).start() as run:
            await run.process_input("Hi")
            answer = await loop.asked(run, model)
    assert answer.text == "Hello!"
    assert loop.waits == [wait]
    assert [call.kind for call in loop.calls] == [kind]
    assert KEY not in repr(loop.calls)


@pytest.mark.parametrize("fault", LASTING, ids=without_address)
async def test_what_lasts_is_asked_once(fault: Reply, asking: Making) -> None:
    """A request that is wrong, a key that is refused, an account that is used up."""
    loop = Clockless()
    with FakeProvider([fault, "Hello!"]) as server:
        async with asking(server) as model, Workflow("w").then(loop.processor()).start() as run:
            await run.process_input("Hi")
            with pytest.raises(ModelError, match=f"HTTP {fault.status}"):
                await loop.asked(run, model)
        assert len(server.requests) == 1


async def test_a_bad_request_may_be_worth_another_try(asking: Making) -> None:
    """Where a provider refuses by mistake."""
    loop = Clockless()
    processor = loop.processor(matchers=[RetryMatcher(is_bad_request_error, delay=0.2)])
    with FakeProvider([failing(400), "Hello!"]) as server:
        async with asking(server) as model, Workflow("w").then(processor).start() as run:
            await run.process_input("Hi")
            assert (await loop.asked(run, model)).text == "Hello!"
    assert loop.waits == [0.2]


@pytest.mark.parametrize("fault", [fault for fault, _, _ in FAULTS], ids=lambda value: without_address(value)[:60])
@pytest.mark.parametrize("place", ["processors", "error_processors"])
async def test_an_agent_gets_its_answer(fault: Any, place: str, asking: Making) -> None:
    """Nothing of the failed attempt is in answer, history or the next prompt; a client takes back what it had seen."""
    loop = Clockless()
    processor = loop.processor(delay=0, max_retry_after=0)
    with FakeProvider([fault, "Good morning!"]) as server:
        async with asking(server) as model:
            agent = Agent(model, **{place: [processor]})  # type: ignore[arg-type]
            async with agent.stream("Hi") as stream:
                chunks = [chunk async for chunk in stream.full_stream]
                result = await stream.result
        bodies = [json.loads(request.body) for request in server.requests]
    assert result.text == "Good morning!"
    assert [message.text for message in result.messages if message.role == "assistant"] == ["Good morning!"]
    assert [step.finish_reason for step in result.steps] == ["retry", "stop"]
    assert bodies[0]["messages"] == bodies[1]["messages"]
    shown = [chunk.type for chunk in chunks]
    said = "text-delta" in shown[: shown.index("step-finish")]
    assert ("retract" in shown) is said


async def test_an_agent_gives_up_when_the_budget_is_used(asking: Making) -> None:
    """The error is the last one; a budget of the agent's own bounds what the processor would allow."""
    loop = Clockless()
    with FakeProvider([failing(500)], repeat_last=True) as server:
        async with asking(server) as model:
            patient = Agent(model, processors=[loop.processor(delay=0, max_retries=9)], max_error_retries=3)
            with pytest.raises(ModelError, match="HTTP 500"):
                await patient.generate("Hi")
            assert len(server.requests) == 4
            wanted = Agent(model, processors=[loop.processor(delay=0, max_retries=5)])  # says nothing of its own
            with pytest.raises(ModelError, match="HTTP 500"):
                await wanted.generate("Hi")
            assert len(server.requests) == 10


async def test_an_agent_tells_when_calls_begin_and_are_answered() -> None:
    """So a deadline counts from there, and a breaker closes."""
    clock = VirtualClock()
    breaker = CircuitBreaker(failures=2, pause=30, clock=clock)
    processor = StreamErrorRetryProcessor(
        max_retries=9, delay=0, deadline=10, clock=clock, on_retry=lambda call: clock.advance(4)
    )
    down = ScriptedModel([{"error": {"status": 503}}], repeat_last=True)
    with pytest.raises(ModelError):
        await Agent(down, processors=[processor], max_error_retries=9).generate("Hi")
    assert len(down.requests) == 4
    flaky = ScriptedModel([{"error": {"status": 503}}, "Hello!", {"error": {"status": 503}}, "Hello again!"])
    agent = Agent(flaky, processors=[StreamErrorRetryProcessor(delay=0, breaker=breaker, clock=clock)])
    assert [(await agent.generate("Hi")).text for _ in range(2)] == ["Hello!", "Hello again!"]
    assert not breaker.is_open(flaky.name)


async def test_a_caller_who_gives_up_ends_the_wait_and_the_request(asking: Making) -> None:
    """Nobody is asked again for someone who has gone."""
    scope = anyio.CancelScope()

    def give_up(call: FailedCall) -> None:
        assert call.after == 3600
        scope.cancel()

    processor = StreamErrorRetryProcessor(max_retry_after=9999, on_retry=give_up)
    processor.delay = 0.0
    with FakeProvider([rate_limited(3600), "Hello!"]) as server:
        async with asking(server) as model:
            with scope:
                await Agent(model, processors=[processor]).generate("Hi")
        assert scope.cancelled_caught
        assert len(server.requests) == 1


async def test_an_agent_goes_on_from_a_refused_prefill(asking: Making) -> None:
    """After a rate limit, too; what was added says so."""
    chat = [Message.user("Count to three."), Message.assistant("One,")]
    loop = Clockless()
    with FakeProvider([rate_limited(), REFUSED, "two, three."]) as server:
        async with asking(server) as model:
            processors = [PrefillErrorHandler(), loop.processor(delay=0)]
            result = await Agent(model, error_processors=processors).generate(MessageList(chat).all)
        bodies = [json.loads(request.body) for request in server.requests]
    assert result.text == "two, three."
    assert [message["content"] for message in bodies[-1]["messages"]] == ["Count to three.", "One,", "Continue."]
    [added] = [message for message in result.messages if message.text == "Continue."]
    assert added.metadata == {"penstock": {"added_by": "prefill-error-handler"}}


async def official(server: FakeProvider) -> Exception:
    """Return what OpenAI's own client raises."""
    client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)
    async with client:
        try:
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
            )
            async for _ in stream:
                pass
        except Exception as error:  # noqa: BLE001 - it is what is looked at
            return error
    raise AssertionError("it did not fail")


async def plain(server: FakeProvider) -> Exception:
    """Return what httpx raises."""
    async with httpx.AsyncClient() as client:
        try:
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            (await client.post(f"{server.url}/chat/completions", json=body)).raise_for_status()
        except httpx.HTTPError as error:
            return error
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("ask", "fault", "expected"),
    [
        (official, rate_limited(7), ("rate-limit", 7.0)),
        (official, failing(500), ("server", 1.0)),
        (official, Sent("Hello", Wire(error_event=LATE_ERROR)), ("overloaded", 1.0)),
        (official, Sent("Hello", Wire(cut_at=10)), ("connection", 1.0)),
        (official, failing(400), None),
        (official, failing(401), None),
        (official, failing(429, code="insufficient_quota"), None),
        (plain, rate_limited(7), ("rate-limit", 7.0)),
        (plain, failing(400, code="rate_limit_exceeded"), ("rate-limit", 1.0)),
        (plain, failing(503), ("overloaded", 1.0)),
        (plain, Sent("Hello", Wire(cut_at=10)), ("connection", 1.0)),
        (plain, failing(403), None),
    ],
    ids=lambda value: without_address(value)[:60],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_errors_of_other_clients_are_read_too(
    ask: Callable[[FakeProvider], Any], fault: Any, expected: tuple[str, float] | None
) -> None:
    """By statuses, codes and headers; a loop of one's own may raise what it likes."""
    loop = Clockless()
    with FakeProvider([fault]) as server:
        error = await ask(server)
    outcome = await Workflow("w").then(loop.processor()).start().process_api_error(error)
    found = None if outcome.retry is None else (loop.calls[0].kind, outcome.retry.after)
    assert found == expected


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(rate_limited(7), ("rate-limit", 7.0)), (failing(500), ("server", 1.0)), (failing(400), None)],
    ids=without_address,
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_errors_of_pydantic_ai_are_read_too(fault: Any, expected: tuple[str, float] | None) -> None:
    """As the errors of ours that they become."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    loop = Clockless()
    with FakeProvider([fault]) as server:
        client = openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0)
        async with client:
            model = PydanticAIModel(OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client)))
            with pytest.raises(ModelError) as raised:
                async for _ in model.stream(ModelRequest((Message.user("Hi"),))):
                    pass
    outcome = await Workflow("w").then(loop.processor()).start().process_api_error(raised.value)
    found = None if outcome.retry is None else (loop.calls[0].kind, outcome.retry.after)
    assert found == expected
