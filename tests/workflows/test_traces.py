"""Traces of real runs: each fits the schema, reads back, prints, and is compared with a second run of its input."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import jsonschema
import pytest

from penstock import (
    Agent,
    Edit,
    InputContext,
    Message,
    OutputStepContext,
    PIIDetector,
    Processor,
    RegexFilterProcessor,
    Trace,
    UnicodeNormalizer,
    Workflow,
    processor,
    tool,
)
from penstock.engine import CallSite, Record, View
from penstock.engine.tracing.display import columns
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio

TEXT = "Write to ann@example.com, please."


@processor(edits="nothing")
async def judge(ctx: InputContext) -> None:
    """Block bombs."""
    await anyio.lowlevel.checkpoint()
    if "bomb" in ctx.text:
        ctx.abort("no bombs", metadata={"count": 1})
    ctx.note(score=0.5)


@processor(edits="nothing")
def broken(ctx: InputContext) -> None:
    """Fail."""
    raise ValueError(ctx.text)


@processor(edits="nothing")
def impatient(ctx: OutputStepContext) -> None:
    """Ask for another answer."""
    if ctx.text == "it depends":
        ctx.abort("say more", retry=True)


def is_internal(ctx: View) -> bool:
    """Whether one of us asks."""
    return "internal" in ctx.request_context


def guard() -> Workflow:
    """A workflow with some of everything."""
    return (
        Workflow("guard")
        .then(UnicodeNormalizer())
        .parallel(PIIDetector(redaction_method="placeholder"), judge)
        .branch((is_internal, broken), otherwise=RegexFilterProcessor(presets=["urls"], strategy="warn"))
        .then(broken, mode="shadow")
    )


def look_up(name: str) -> str:
    """Return an address."""
    return f"{name}@example.com"


def agent() -> Agent:
    """An agent that calls a tool and answers again."""
    turn = {"text": "let me see", "tool_calls": [{"id": "c1", "name": "look_up", "args": {"name": "ann"}}]}
    model = ScriptedModel(["it depends", turn, "it is ann@example.com"])
    return Agent(model, processors=[guard(), impatient], tools=[look_up], max_processor_retries=2)


def usual(trace: Trace) -> list[str]:
    """Check what holds for every trace; return the lines of its timeline."""
    data = json.loads(json.dumps(trace.to_json()))
    jsonschema.validate(data, Trace.json_schema())
    assert Trace.from_json(data).to_json() == data
    assert trace.compare(Trace.from_json(data)).same
    lines = str(trace).splitlines()
    assert max(map(columns, lines)) <= 100
    return lines


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize(("text", "status"), [(TEXT, "edited"), ("a bomb", "blocked"), ("fine", "passed")])
async def test_a_run_of_a_workflow_has_a_trace(text: str, status: str, *, texts: bool) -> None:
    """With texts and without."""
    outcome = await guard().check(text, texts=texts)
    lines = usual(outcome.trace)
    assert outcome.trace.status == status
    assert lines[0].startswith(f"guard: {status} in ")
    assert ("ann@example.com" in str(outcome.trace.to_json())) is (texts and text == TEXT)


@pytest.mark.parametrize("texts", [False, True])
async def test_a_request_of_an_agent_has_a_trace(*, texts: bool) -> None:
    """With its tools, model steps and retries."""
    result = await agent().generate("Where is ann?", records=True, texts=texts)
    lines = usual(result.trace)
    assert sum(bool(re.search(r"model step \d", line)) for line in lines) >= 2
    assert any("tool look_up" in line for line in lines)
    assert result.trace.texts is texts


async def test_a_stream_has_a_trace_with_its_chunks() -> None:
    """What came in, was held and left."""
    async with agent().stream("Where is ann?", records=True, texts=True) as stream:
        async for _ in stream.text_stream:
            pass
        trace = (await stream.result).trace
    usual(trace)
    chunks = [chunk for span in trace.spans for chunk in span.chunks]
    assert "ann@example.com" in "".join(chunk.came_in for chunk in chunks)
    assert "ann@example.com" not in "".join(chunk.went_out for chunk in chunks)


def places(diff: Any) -> dict[str, list[str]]:
    """What changed, by the path of the step."""
    return {one.after.path or one.after.name: [change.name for change in one.changes] for one in diff.changed}


async def test_two_runs_of_one_input_are_the_same() -> None:
    """Though each has ids and times of its own."""
    one, two = [await guard().check(TEXT, texts=True) for _ in range(2)]
    assert one.trace.run_id != two.trace.run_id
    assert one.trace.compare(two.trace).same, str(one.trace.compare(two.trace))
    first, second = [await agent().generate("Where is ann?", records=True, texts=True) for _ in range(2)]
    assert first.trace.compare(second.trace).same, str(first.trace.compare(second.trace))


async def test_two_runs_that_a_guard_blocks_are_the_same() -> None:
    """Guards tell the ids of messages, which each run makes anew; ids that both runs have are compared."""

    def blocked(*messages: Any) -> Trace:
        return Workflow("w").then(PIIDetector(strategy="block")).check_sync(list(messages)).trace

    trace = blocked(Message.user(TEXT))
    assert trace.tripwire is not None
    assert trace.tripwire.metadata["spans"][0]["message_id"]
    assert trace.compare(blocked(Message.user(TEXT))).same
    one, two = Message.user("a", id="one"), Message.user(TEXT, id="two")
    assert blocked(one, two).compare(blocked(one, two)).same
    both = [Message.user(TEXT, id="one"), two]
    assert not blocked(*both).compare(blocked(*reversed(both))).same
    assert not trace.compare(blocked(Message.user(f" {TEXT}"))).same


class Shorter(Processor):
    """Hides only the name."""

    id = "pii-detector"
    edits = "spans"

    def process_input(self, ctx: InputContext) -> Any:
        """Hide it."""
        found = {place: [Edit(9, 12, "[NAME]", "redact")] for place, _ in ctx.message_list.texts(ctx.messages)}
        return ctx.message_list.edit_text(found)


async def test_two_versions_of_a_workflow_are_compared_step_by_step() -> None:
    """Which step came, which went, which did something else."""
    old = Workflow("guard").then(PIIDetector(redaction_method="placeholder")).then(UnicodeNormalizer())
    new = Workflow("guard").then(Shorter()).then(judge)
    before, after = [(await workflow.check(TEXT, texts=True)).trace for workflow in (old, new)]
    diff = before.compare(after)
    assert [span.path for _, span in diff.removed] == ["unicode-normalizer"]
    assert [span.path for _, span in diff.added] == ["judge"]
    assert set(places(diff)["pii-detector"]) == {"edits", "texts", "details"}
    assert "- 9–24: redact [EMAIL]" in str(diff)
    assert "+ 9–12: redact [NAME]" in str(diff)


async def test_inputs_that_go_another_way_differ_in_their_arms() -> None:
    """And in what the steps there did."""
    workflow = guard()
    before = (await workflow.check("fine")).trace
    after = (await workflow.check("a bomb")).trace
    assert {"judge"} <= set(places(before.compare(after)))
    assert "status" in [change.name for change in before.compare(after).changes]


class Sites:
    """An observer that notes the calls that it may enclose."""

    def __init__(self) -> None:
        self.seen: list[CallSite] = []

    def on_record(self, record: Record) -> None:
        """Look at the record."""

    def enclose(self, site: CallSite) -> None:
        self.seen.append(site)


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


async def test_observers_may_enclose_stages_hooks_models_and_tools_and_no_other_part() -> None:
    """A run, a model step, a branch and an attempt are no calls; the log keeps no request to a model."""
    sites = Sites()
    call = {"tool_calls": [{"id": "c", "name": "weather", "args": {"city": "Rome"}}]}
    guard = Workflow("guard").branch(
        (is_internal, judge), otherwise=Workflow("rest").then(judge, id="other", retries=1)
    )
    agent = Agent(ScriptedModel([call, "It is sunny."]), tools=[weather], processors=[guard], observers=[sites])
    result = await agent.generate("Hi", records=True)
    assert {site.what for site in sites.seen} == {"stage", "hook", "model", "tool"}
    assert [site.request is None for site in sites.seen if site.what == "model"] == [False, False]
    assert [(site.call_id, site.arguments) for site in sites.seen if site.what == "tool"] == [("c", {"city": "Rome"})]
    log = result._trace._log
    assert log is not None
    assert [span.called for span in log.spans] == [None] * len(log.spans)
