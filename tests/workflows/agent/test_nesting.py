"""Agents as tools of agents: a bound of depth, and a cancellation that arrives."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import Agent
from penstock.engine import NestingError
from penstock.engine.tasks import AsyncioTaskGroup
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CALLS: Any = {"tool_calls": [{"name": "deeper", "args": {}}]}


def calling_itself(**options: Any) -> tuple[Agent, list[int]]:
    """Return an agent that is its own tool, with a model that always calls it; and a list with an item a call."""
    made: list[Agent] = []
    called: list[int] = []

    async def deeper() -> str:
        called.append(1)
        return (await made[0].generate("Go on.")).text

    made.append(Agent(ScriptedModel([CALLS], repeat_last=True), tools=[deeper], **options))
    return made[0], called


@pytest.mark.parametrize("depth", [1, 2, 32])
async def test_an_agent_that_is_its_own_tool_ends(depth: int) -> None:
    """The error ends the requests of all levels, since each model would call the tool again."""
    agent, called = calling_itself(max_depth=depth)
    with anyio.fail_after(60), pytest.raises(NestingError, match=f"{depth} agents.*max_depth"):
        await agent.generate("Hi")
    assert len(called) == depth


async def test_agents_may_follow_one_another() -> None:
    """Only those that run within each other count."""
    inner = Agent(ScriptedModel(["yes"], repeat_last=True), max_depth=2)

    async def ask() -> str:
        return (await inner.generate("Well?")).text

    turns: list[Any] = [*[{"tool_calls": [{"name": "ask", "args": {}}]}] * 4, "Done."]
    outer = Agent(ScriptedModel(turns), tools=[ask])
    assert (await outer.generate("Hi")).text == "Done."


DEPTH = 30


async def cancel_a_nest() -> list[str]:
    """Cancel agents that are tools of one another when the innermost waits; return how the tools have ended."""
    reached, ended = anyio.Event(), list[str]()

    async def wait() -> str:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("innermost")
        return ""

    def around(inner: Any) -> Any:
        agent = Agent(ScriptedModel([CALLS, "Done."]), tools={"deeper": inner})

        async def deeper() -> str:
            try:
                return (await agent.generate("Go on.")).text
            finally:
                ended.append("agent")

        return deeper

    work: Any = wait
    for _ in range(DEPTH):
        work = around(work)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await reached.wait()
            group.cancel_scope.cancel()
    assert group.cancel_scope.cancelled_caught
    return ended


async def test_a_cancellation_reaches_the_deepest_agent() -> None:
    """However deep the agents run within each other; they end from the inside out."""
    assert await cancel_a_nest() == ["innermost", *["agent"] * DEPTH]


async def test_each_agent_of_a_nest_cancels_its_tools_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each turn of the event loop: a nest would cost the square of its depth."""
    counted: list[int] = []
    cancel = AsyncioTaskGroup.cancel
    monkeypatch.setattr(AsyncioTaskGroup, "cancel", lambda group: (counted.append(1), cancel(group))[1])
    await cancel_a_nest()
    assert len(counted) <= 2 * DEPTH
