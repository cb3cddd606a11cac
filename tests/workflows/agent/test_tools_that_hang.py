"""Tools that hang, and models of pydantic-ai that break or hang: nothing of a request outlives it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.from_thread
import pytest

from penstock import Agent, APIErrorContext, ModelError, Processor, Retry
from penstock.testing import ScriptedModel
from tests.workflows.agent.waiting import GIVING_UP, given_up

pydantic_ai = pytest.importorskip("pydantic_ai.models.function")

pytestmark = pytest.mark.anyio

CALL = {"text": "let me see", "tool_calls": [{"id": "c1", "name": "use", "args": {}}]}


@pytest.mark.parametrize("way", GIVING_UP)
async def test_a_tool_that_hangs_is_cancelled(way: str) -> None:
    """However the request is given up."""
    reached = anyio.Event()
    ended: list[str] = []

    async def use() -> None:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("use")

    model = ScriptedModel([CALL, "never"])
    with anyio.fail_after(60):
        result = await given_up(Agent(model, tools=[use]), reached, way)
    assert (ended, model.streaming, len(model.requests)) == (["use"], 0, 1)
    assert result is None or (result.status, result.text) == ("cancelled", "let me see")


@pytest.mark.parametrize("way", GIVING_UP)
async def test_a_tool_that_hangs_in_a_thread_is_left_behind(way: str) -> None:
    """Nothing can stop it, but nobody waits for it either, and what it gives is seen by nobody."""
    reached, free, ended = anyio.Event(), threading.Event(), threading.Event()

    def use() -> str:
        anyio.from_thread.run_sync(reached.set)
        free.wait(10)
        ended.set()
        return "late"

    model = ScriptedModel([CALL, "never"])
    try:
        with anyio.fail_after(60):
            result = await given_up(Agent(model, tools=[use]), reached, way)
        assert not ended.is_set()
    finally:
        free.set()
    assert ended.wait(60)
    assert result is None or "late" not in repr(result.messages)
    assert len(model.requests) == 1


class Speaks:
    """What a function of pydantic-ai's says: a secret, and then it breaks, hangs, or ends."""

    def __init__(self, *then: str) -> None:
        self.then = list(then)
        self.reached = anyio.Event()
        self.open = 0

    async def __call__(self, messages: Any, info: Any) -> AsyncIterator[str]:
        self.open += 1
        try:
            what = self.then.pop(0)
            yield "well then" if what == "ends" else "a secret "
            if what == "breaks":
                raise RuntimeError(what)
            if what == "hangs":
                self.reached.set()
                await anyio.sleep_forever()
        finally:
            self.open -= 1


class Insists(Processor[dict[str, Any]]):
    """Has every call made again."""

    def process_api_error(self, ctx: APIErrorContext) -> Retry:
        """Ask for another try."""
        return Retry()


@pytest.mark.parametrize("release", ["live", "result"])
async def test_a_model_of_pydantic_ai_that_breaks_is_asked_again(release: Any) -> None:
    """What it had said by then stays nowhere."""
    speaks = Speaks("breaks", "ends")
    agent = Agent(pydantic_ai.FunctionModel(stream_function=speaks), processors=[Insists()], release=release)
    async with agent.stream("Hi") as stream:
        kinds = [chunk.type async for chunk in stream]
        result = await stream.result
    assert (result.text, result.status, speaks.open) == ("well then", "success", 0)
    assert "secret" not in repr(result)
    assert kinds.count("retract") == (release == "live")


async def test_a_model_of_pydantic_ai_that_breaks_for_good_is_an_error() -> None:
    """Of the model, without what it said."""
    speaks = Speaks("breaks")
    with pytest.raises(ModelError) as raised:
        await Agent(pydantic_ai.FunctionModel(stream_function=speaks)).generate("Hi")
    assert ("secret" in str(raised.value), speaks.open) == (False, 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio pydantic-ai leaves generators over, with or without us
@pytest.mark.parametrize("way", GIVING_UP)
async def test_a_model_of_pydantic_ai_that_hangs_is_closed(way: str) -> None:
    """However the request is given up; what it had said by then is not kept."""
    speaks = Speaks("hangs")
    with anyio.fail_after(60):
        result = await given_up(Agent(pydantic_ai.FunctionModel(stream_function=speaks)), speaks.reached, way)
    assert speaks.open == 0
    assert result is None or (result.status, len(result.messages)) == ("cancelled", 1)
