"""Requests of many steps: a round of tools is as much work late in the request as early."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Agent, Chunk, Message, MessageList, ToolPart
from penstock.engine.values.list_views import ListViews
from penstock.workflows.agent.results import StepResult
from penstock.workflows.agent.step_log import StepLog
from tests.laws import examples
from tests.lines import counted_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.engine import ModelRequest

ROUNDS = 96


class Looks:
    """A model that calls a tool in each step, and reads nothing."""

    name = "looks"

    def __init__(self) -> None:
        self._steps = iter(range(ROUNDS))

    async def stream(self, _request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield a call, or the end."""
        step = next(self._steps, None)
        if step is None:
            yield Chunk("finish", payload={"reason": "stop"})
            return
        yield Chunk("tool-call", id=f"c{step}", payload={"call_id": f"c{step}", "name": "look", "arguments": {}})
        yield Chunk("finish", payload={"reason": "tool-calls"})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_late_round_of_tools_runs_as_many_lines_as_an_early_one() -> None:
    """Steps and messages of earlier rounds are neither made nor searched again."""
    after = list[int]()

    async def look() -> str:
        after.append(lines.count)
        return "seen"

    agent = Agent(Looks(), tools=[look], max_steps=ROUNDS + 1, instructions="Look.")
    with counted_lines() as lines:
        result = await agent.generate("Hi")
    assert len(result.steps) == ROUNDS + 1
    early, late = after[12] - after[8], after[ROUNDS - 4] - after[ROUNDS - 8]
    assert early > 1_000
    assert late == pytest.approx(early, rel=0.02)


ids = st.sampled_from(["a", "b", "c", ""])
states = st.lists(st.tuples(ids, st.sampled_from(["x", "y"]), st.sampled_from(["call", "result"])), max_size=4)
moves = st.lists(st.one_of(ids.map(lambda id: ("add", id)), st.just(("pop", "")), states.map(lambda of: ("see", of))))


def conversation(of: Sequence[tuple[str, str, Any]]) -> MessageList:
    """Return a conversation with these answers; the last of an id counts."""
    answers = {
        id: Message.assistant([*Message.user(text).parts, ToolPart("c", "f", state=state)], id=id)
        for id, text, state in of
        if id
    }
    return MessageList([*answers.values()], source="response")


@settings(max_examples=examples(200), deadline=None)
@given(moves)
def test_steps_are_those_of_the_answers_as_they_are_now(moves: list[Any]) -> None:
    """Whatever was asked before: a log that is asked for the first time says the same."""
    log, kept, messages = StepLog(), list[StepResult](), MessageList()
    for move, what in moves:
        if move == "add":
            step = StepResult(len(kept), text="x", message_id=what, metadata={"note": "x"})
            kept.append(step)
            log.append(step)
        elif move == "pop" and kept:
            kept.pop()
            log.pop()
        elif move == "see":
            messages = conversation(what)
        fresh = StepLog()
        for step in kept:
            fresh.append(step)
        assert log.current(messages) == fresh.current(messages)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_long_request_keeps_no_views_of_earlier_steps() -> None:
    """A run can go back to each accepted answer; of the conversation there, it keeps the messages alone."""

    async def look() -> str:
        return "seen"

    agent = Agent(Looks(), tools=[look], max_steps=ROUNDS + 1)
    async with agent.stream("Hi") as stream:
        async for _ in stream:
            pass
        gc.collect()
        views = [one for one in gc.get_objects() if type(one) is ListViews]  # isinstance would wake lazy objects
    made = [one for one in views if one._chosen and len(one.entries) > 8]
    assert len(made) < ROUNDS // 8
