"""What observers are told: whose a record is, and the starts and ends of requests, steps, model calls and tools."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from penstock import Agent, InputContext, ModelError, Processor, Workflow, processor
from penstock.engine import Record, RunEvent
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio

TURN = {"text": "let me see", "tool_calls": [{"id": "c", "name": "use", "args": {}}]}


def use() -> str:
    """Use it."""
    return "used"


class Listens:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.events: list[RunEvent] = []

    def on_record(self, record: Record) -> None:
        """Keep it."""
        self.records.append(record)

    def on_event(self, event: RunEvent) -> None:
        """Keep it."""
        self.events.append(event)


@processor(edits="nothing")
def look(ctx: InputContext) -> None:
    """Look at the input."""


async def test_records_of_concurrent_requests_can_be_told_apart() -> None:
    """By run, thread, time and parent."""
    told = Listens()
    agent = Agent(ScriptedModel(["ok"], repeat_last=True), processors=[Workflow("w").then(look)], observers=[told])
    async with anyio.create_task_group() as group:
        for number in range(3):
            ids = {"run_id": f"run-{number}", "thread_id": f"t{number}"}
            group.start_soon(lambda ids=ids: agent.generate("Hi", **ids))
    mine = [record for record in told.records if record.step == "w/look"]
    assert sorted((record.run_id, record.thread_id) for record in mine) == [(f"run-{n}", f"t{n}") for n in range(3)]
    assert all(record.parent == "w" and record.started > 1e9 for record in mine)


async def test_every_part_of_a_request_has_a_start_and_an_end() -> None:
    """Nested as they were, with what is known of them, and no text."""
    told = Listens()
    await Agent(ScriptedModel([TURN, "done"]), tools=[use], observers=[told]).generate("Hi", thread_id="t", run_id="r")
    assert [(event.phase, event.path) for event in told.events] == [
        ("start", ""),
        ("start", "step-0"),
        ("start", "step-0/process_input_step"),
        ("end", "step-0/process_input_step"),
        ("start", "step-0/model"),
        ("end", "step-0/model"),
        ("start", "step-0/tool-c"),
        ("end", "step-0/tool-c"),
        ("end", "step-0"),
        ("start", "step-1"),
        ("start", "step-1/process_input_step"),
        ("end", "step-1/process_input_step"),
        ("start", "step-1/model"),
        ("end", "step-1/model"),
        ("end", "step-1"),
        ("end", ""),
    ]
    assert {(event.run_id, event.thread_id) for event in told.events} == {("r", "t")}
    ends = {event.path: event for event in told.events if event.phase == "end"}
    assert (ends["step-0/model"].name, ends["step-0/tool-c"].name) == ("scripted", "use")
    assert ends["step-0/model"].details["usage"]["input_tokens"]
    assert (ends[""].details["status"], ends["step-0"].details["finish_reason"]) == ("success", "tool-calls")
    assert (ends["step-0/tool-c"].parent, ends["step-0"].parent, ends[""].parent) == ("step-0", "", None)
    assert "let me see" not in repr(told.events)


async def test_failures_and_verdicts_are_ends_too() -> None:
    """Whatever ends a part, its end is told, once."""

    def breaks() -> None:
        raise ValueError("secret")

    @processor(edits="nothing")
    def refuses(ctx: InputContext) -> None:
        ctx.abort("no")

    async def ends(agent: Agent, *, leaves: bool = False) -> dict[str, Any]:
        told.events.clear()
        try:
            async with agent.stream("Hi") as stream:
                async for chunk in stream:
                    if leaves and chunk.type == "text-delta":
                        break
        except ModelError:
            pass
        starts = [event.path for event in told.events if event.phase == "start"]
        found = [event for event in told.events if event.phase == "end"]
        assert sorted(starts) == sorted(event.path for event in found)
        return {event.path: event.details for event in found}

    told = Listens()
    failing = [{"error": {"status": 500, "message": "secret"}}]
    found = await ends(Agent(ScriptedModel(failing), observers=[told]))
    assert (found["step-0/model"]["error"], found[""]["status"]) == ("ModelError", "failed")
    found = await ends(Agent(ScriptedModel(["x"]), processors=[refuses], observers=[told]))
    assert found[""]["status"] == "blocked"
    found = await ends(Agent(ScriptedModel([TURN, "x"]), tools={"use": breaks}, observers=[told]))
    assert found["step-0/tool-c"]["error"] == "failed"
    found = await ends(Agent(ScriptedModel(["hello"]), observers=[told]), leaves=True)
    assert found[""]["status"] == "cancelled"
    assert "secret" not in repr(told.events)


async def test_an_observer_of_events_that_fails_changes_nothing() -> None:
    """It is logged."""

    class Breaks(Listens):
        def on_event(self, event: RunEvent) -> None:
            raise ValueError

    assert (await Agent(ScriptedModel(["ok"]), observers=[Breaks()]).generate("Hi")).text == "ok"


async def test_a_retry_that_nobody_allowed_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    """And an agent allows one by default."""

    class Rejects(Processor[Any]):
        def process_output_step(self, ctx: Any) -> None:
            if ctx.text == "bad":
                ctx.abort("bad", retry=True)

    assert (await Agent(ScriptedModel(["bad", "good"]), processors=[Rejects()]).generate("Hi")).text == "good"
    caplog.set_level(logging.INFO, "penstock")
    agent = Agent(ScriptedModel(["bad", "good"]), processors=[Rejects()], max_processor_retries=0)
    assert (await agent.generate("Hi")).blocked
    assert "max_processor_retries=0" in caplog.text


async def test_a_result_has_no_truth_value() -> None:
    """A blocked one would be true."""
    result = await Agent(ScriptedModel(["ok"])).generate("Hi")
    with pytest.raises(Exception, match="truth value"):
        bool(result)
