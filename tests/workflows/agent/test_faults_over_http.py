"""An agent and a provider that fails, over real HTTP: what is left of a failed answer, and that nothing stays open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock import Agent, APIErrorContext, Chunk, ModelError, OpenAICompatibleModel, Processor, Retry
from penstock.models import TimeLimits
from penstock.testing.provider import FakeProvider, Gate, Reply, Sent, Wire, failing, rate_limited
from penstock.workflows import AgentResult
from tests.workflows.agent.waiting import GIVING_UP, STAGES, Waits, given_up

pytestmark = pytest.mark.anyio

SAID = "a secret that breaks off in its midst, far behind where it began"
LATE_ERROR = {"error": {"message": "overloaded", "type": "server_error"}}
FAULTS: Mapping[str, Any] = {
    "429": rate_limited(0),
    "500": failing(500),
    "400": failing(400),
    "no JSON": Reply("<html>", 200, content_type="text/html"),
    "broken event": Sent(SAID, Wire(break_event=3)),
    "error event": Sent(SAID, Wire(error_event=LATE_ERROR)),
    "cut head": Sent(SAID, Wire(cut_at=20)),
    "reset": Sent(SAID, Wire(cut_body_at=500)),
    "closed": Sent(SAID, Wire(cut_body_at=500, ending="close")),
    "hangs": Sent(SAID, Wire(endless="silence", done=False)),
}
CALL = {"text": "let me see", "tool_calls": [{"id": "c1", "name": "use", "args": {}}]}


class Insists(Processor[dict[str, Any]]):
    """Has every call made again."""

    def process_api_error(self, ctx: APIErrorContext) -> Retry:
        """Ask for another try."""
        return Retry()


class Seen:
    """What came of a request."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.error: Exception | None = None
        self.result: AgentResult[Any] | None = None

    @property
    def text(self) -> str:
        """What a client shows: what is taken back is gone."""
        texts: dict[str, str] = {}
        for chunk in self.chunks:
            if chunk.type == "text-delta":
                texts[chunk.id] = texts.get(chunk.id, "") + chunk.text
            elif chunk.type == "retract":
                texts = {id: text for id, text in texts.items() if id not in chunk.payload["blocks"]}
        return "".join(texts.values())


def speaking_to(server: FakeProvider, fault: str = "") -> OpenAICompatibleModel:
    """Return a model that asks the server; only where it hangs does it wait for bytes no longer than a moment."""
    limits = TimeLimits(between=0.2) if fault == "hangs" else None
    return OpenAICompatibleModel("fake-1", base_url=server.url, api_key="key", timeout=limits)


async def streamed(agent: Agent, **options: Any) -> Seen:
    """Read a stream to its end."""
    seen = Seen()
    async with agent.stream("Hi", **options) as stream:
        try:
            async for chunk in stream:
                seen.chunks.append(chunk)
        except ModelError as error:
            seen.error = error
        seen.result = await stream.result
    return seen


@pytest.mark.parametrize("release", ["auto", "live", "step", "result"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_call_that_is_made_again_leaves_nothing_of_the_failed_one(fault: str, release: Any) -> None:
    """Neither in the result, nor with the client, nor in what the model is asked next."""
    with FakeProvider([FAULTS[fault], "Hello!"]) as server, anyio.fail_after(60):
        async with speaking_to(server, fault) as model:
            seen = await streamed(Agent(model, error_processors=[Insists()], release=release))
        assert await anyio.to_thread.run_sync(server.wait_until_idle)
    assert seen.result is not None
    assert (seen.text, seen.result.text, seen.result.status) == ("Hello!", "Hello!", "success")
    assert [step.finish_reason for step in seen.result.steps] == ["retry", "stop"]
    assert "secret" not in repr(seen.result.message_list.entries) + repr(server.requests[1].body)
    assert [chunk.type for chunk in seen.chunks][-1] == "finish"


@pytest.mark.parametrize("release", ["live", "result"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_call_that_fails_for_good_is_an_error_and_nothing_else(fault: str, release: Any) -> None:
    """The same whether it is read in pieces or as a whole; nothing of the answer is kept."""
    with FakeProvider([FAULTS[fault]] * 2) as server, anyio.fail_after(60):
        async with speaking_to(server, fault) as model:
            agent = Agent(model, release=release)
            seen = await streamed(agent)
            with pytest.raises(ModelError) as raised:
                await agent.generate("Hi")
        assert await anyio.to_thread.run_sync(server.wait_until_idle)
    assert seen.result is not None
    assert str(raised.value) == str(seen.error)
    assert (seen.result.status, seen.result.text, len(seen.result.messages)) == ("failed", "", 1)
    assert "secret" not in repr(seen.result.steps) + repr(seen.error)
    assert [chunk.type for chunk in seen.chunks][-3:] == ["error", "step-finish", "finish"]


@pytest.mark.parametrize("way", GIVING_UP)
@pytest.mark.parametrize("stage", STAGES)
async def test_a_request_may_be_given_up_at_every_stage(stage: str, way: str) -> None:
    """While a hook waits: the connection is closed, no tool runs any more, nobody takes it for complete."""
    ran: list[str] = []
    waits = Waits(stage)
    script = [failing(500), CALL, "done"] if stage == "process_api_error" else [CALL, "done"]
    with FakeProvider(script) as server, anyio.fail_after(60):
        async with speaking_to(server) as model:
            agent = Agent(model, tools={"use": lambda: ran.append("use")}, processors=[waits])
            result = await given_up(agent, waits.reached, way)
        assert await anyio.to_thread.run_sync(server.wait_until_idle)
    assert waits.cancelled
    assert [end.completed for end in waits.told] == [False]
    assert len(ran) == (stage in ("process_tool_result", "process_output_result"))
    assert result is None or result.status == "cancelled"


@pytest.mark.parametrize("way", GIVING_UP)
async def test_a_request_may_be_given_up_while_the_server_is_silent(way: str) -> None:
    """In the midst of an answer: the connection is closed, and what was said by then is not kept."""
    gate = Gate()
    gate.let(4)
    reached = anyio.Event()
    with FakeProvider([Sent(SAID, Wire(gate=gate))]) as server, anyio.fail_after(60):
        async with OpenAICompatibleModel("fake-1", base_url=server.url, api_key="key") as model:
            agent = Agent(model)
            result = await given_up(agent, reached, way, on_chunk=lambda chunk: text_came(chunk, reached))
        gate.open()
        assert await anyio.to_thread.run_sync(server.wait_until_idle)
    assert result is None or (result.status, len(result.messages)) == ("cancelled", 1)


def text_came(chunk: Chunk, reached: anyio.Event) -> None:
    """Note the first piece of text."""
    if chunk.type == "text-delta":
        reached.set()
