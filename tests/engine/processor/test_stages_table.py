"""Every shape of graph × every stage but the stream × both event loops × sync and async hooks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import (
    BlockedError,
    Edit,
    Key,
    Message,
    MessageList,
    Outcome,
    Processor,
    Workflow,
    WorkflowError,
    member,
)
from penstock.engine import StepFailedError, TextEdits, UsageError
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.texts import leaves

SEEN = Key[int]("seen")
ALL_STAGES = [name for name, stage in STAGES.items() if not stage.streams]
EDITED = [name for name in ALL_STAGES if name != "process_llm_response"]
TEXT = "SECRET one, SECRET two"


class Everywhere(Processor):
    """Does one thing in every stage: notes that it was there, puts a fact, and what a subclass adds."""

    edits = "spans"
    provides = SEEN

    def __init__(self, act: Callable[[Any], Any], *, waits: bool, stages: list[str]) -> None:
        self.stages = stages
        hook = self._later if waits else self._now
        for stage in ALL_STAGES:
            setattr(self, stage, hook)
        self.act = act

    def _now(self, ctx: Any) -> Any:
        ctx.request_context.setdefault("visits", []).append(ctx.step_path)
        ctx.put(SEEN, 1)
        return self.act(ctx)

    async def _later(self, ctx: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return self._now(ctx)


class A(Everywhere):
    """The first; its id is its class's, so it may stand in a graph more than once."""


class B(Everywhere):
    """The second."""


def redact(ctx: Any, nth: int) -> Any:
    """Hide the nth of the two secrets, wherever the stage's text stands."""
    field = {"process_tool_call": "arguments", "process_tool_result": "result"}.get(ctx.stage)
    if field is not None:
        texts = dict(leaves(getattr(ctx, field), (field,)))
        return TextEdits({path: edits for path, text in texts.items() if (edits := _edits(text, nth))})
    messages: MessageList = ctx.message_list
    found = {place: edits for place, text in messages.texts(ctx.messages) if (edits := _edits(text, nth))}
    if ctx.stage == "process_llm_response":
        return None  # it only looks
    return messages.edit_text(found)


def _edits(text: str, nth: int) -> list[Edit]:
    start = text.find("SECRET one" if nth == 1 else "SECRET two")
    return [Edit(start, start + 6, f"[{nth}]", "redact")] if start >= 0 else []


def _yes(_: Any) -> bool:
    return True


def _no(_: Any) -> bool:
    return False


async def _yes_later(_: Any) -> bool:
    await anyio.lowlevel.checkpoint()
    return True


SHAPES: dict[str, tuple[Callable[[Any, Any], Workflow], list[str]]] = {
    "sequence": (lambda a, b: Workflow("w").then(a).then(b), ["a", "b"]),
    "parallel": (lambda a, b: Workflow("w").parallel(a, b), ["a", "b"]),
    "parallel in sequence": (lambda a, b: Workflow("w").parallel(a, b, merge="sequence"), ["a", "b"]),
    "parallels of one": (lambda a, b: Workflow("w").parallel(a).parallel(b), ["a", "b"]),
    "first arm": (lambda a, b: Workflow("w").branch((_no, b), (_yes, a)).then(b), ["a", "b#2"]),
    "otherwise": (lambda a, b: Workflow("w").branch((_no, a), otherwise=a).then(b), ["a#2", "b"]),
    "no arm": (lambda a, b: Workflow("w").branch((_no, a)).then(a).then(b), ["a#2", "b"]),
    "every arm": (lambda a, b: Workflow("w").branch((_yes, a), (_yes_later, b), (_no, b), match="all"), ["a", "b"]),
    "chain": (lambda a, b: Workflow("w").dag(member(a), member(b, after="a")), ["a", "b"]),
    "beside": (lambda a, b: Workflow("w").dag(member(a), member(b)), ["a", "b"]),
    "conditional dag": (
        lambda a, b: Workflow("w").dag(
            member(a), member(b, after={"a": _yes}), member(b, id="c", after={"a": _no}), member(b, id="d", after="c")
        ),
        ["a", "b"],
    ),
    "diamond": (
        lambda a, b: Workflow("w").dag(
            member(a), member(b, after="a"), member(a, id="c", after="a"), member(b, id="d", after=["b", "c"])
        ),
        ["a", "b", "c", "d"],
    ),
    "nested": (
        lambda a, b: Workflow("w").then(Workflow("x").then(a)).parallel(Workflow("y").then(b), Workflow("z").then(a)),
        ["x/a", "y/b", "z/a"],
    ),
    "fallback": (lambda a, b: Workflow("w").then(a, on_error=b).then(b), ["a", "b"]),
}
each_shape = pytest.mark.parametrize("shape", SHAPES)
each_stage = pytest.mark.parametrize("stage", ALL_STAGES)
each_kind = pytest.mark.parametrize(
    "kinds", [(False, False), (True, True), (False, True)], ids=["sync", "async", "both"]
)


def graph_of(shape: str, stage: str, kinds: tuple[bool, bool], acts: tuple[Any, Any]) -> Workflow:
    """The shape, of two steps of that stage that may wait."""
    build, _ = SHAPES[shape]
    a = A(acts[0], waits=kinds[0], stages=[stage])
    b = B(acts[1], waits=kinds[1], stages=[stage])
    return build(a, b)


REDACTORS = (functools.partial(redact, nth=1), functools.partial(redact, nth=2))


async def run_stage(workflow: Workflow, stage: str, context: dict[str, Any]) -> tuple[Outcome, str]:
    """Run one stage on the text; return its outcome, and all that came out of it."""
    details: dict[str, Any] = {}
    content: Any = TEXT
    if stage in ("process_tool_call", "process_tool_result"):
        content, details = {"q": TEXT}, {"tool_name": "search"}
    async with workflow.start(request_context=context, records=True) as run:
        if stage == "process_api_error":
            await run.process_input(TEXT)
            content = ValueError("the call failed")
        with anyio.fail_after(60):
            outcome = await run.stage(stage, content, **details)
    shown = f"{outcome.text} {outcome.messages} {dict(outcome.overrides)} {outcome.message_list.conversation}"
    return outcome, shown


@each_shape
@each_stage
@each_kind
async def test_every_step_runs_and_its_edits_count(shape: str, stage: str, kinds: tuple[bool, bool]) -> None:
    """Both secrets are hidden, whatever the shape; each step runs once; the fact is there."""
    context: dict[str, Any] = {}
    outcome, shown = await run_stage(graph_of(shape, stage, kinds, REDACTORS), stage, context)
    assert sorted(context["visits"]) == sorted(SHAPES[shape][1])
    assert not outcome.blocked
    assert outcome.fact(SEEN) == 1
    if stage in EDITED:
        assert "SECRET" not in shown
        assert "[1] one, [2] two" in shown
    ran = {record.step for record in outcome.records if record.stage == stage and record.status in ("passed", "edited")}
    assert ran == set(SHAPES[shape][1])


def _abort(ctx: Any) -> None:
    ctx.abort("no", metadata={"by": ctx.step_path})


def _nothing(_: Any) -> None:
    return None


@each_shape
@each_stage
@each_kind
async def test_a_tripwire_ends_every_stage_alike(shape: str, stage: str, kinds: tuple[bool, bool]) -> None:
    """No text comes out, and the outcome says who stopped it, where."""
    outcome, _ = await run_stage(graph_of(shape, stage, kinds, (redact_first, _abort)), stage, {})
    assert outcome.tripwire is not None
    assert (outcome.tripwire.reason, outcome.tripwire.stage) == ("no", stage)
    assert (outcome.text, outcome.messages, dict(outcome.overrides), outcome.data) == ("", (), {}, ())
    assert outcome.answer is outcome.arguments is outcome.result is outcome.retry is None
    with pytest.raises(BlockedError):
        outcome.unwrap()


redact_first = REDACTORS[0]


def _break(ctx: Any) -> None:
    raise ValueError(ctx.stage)


@each_shape
@each_stage
@each_kind
async def test_a_failure_ends_every_stage_alike(shape: str, stage: str, kinds: tuple[bool, bool]) -> None:
    """It is raised, and names the step; where another failure is handled, it is logged, and nothing changes."""
    graph = graph_of(shape, stage, kinds, (_nothing, _break))
    if STAGES[stage].outlives_failures:
        outcome, _ = await run_stage(graph, stage, {})
        assert (outcome.tripwire, outcome.retry) == (None, None)
        return
    with pytest.raises(StepFailedError) as caught:
        await run_stage(graph, stage, {})
    assert caught.value.step.rsplit("/", 1)[-1].startswith(("b", "d"))
    assert caught.value.stage == stage


@each_shape
@each_stage
def test_a_graph_of_sync_hooks_needs_no_event_loop(shape: str, stage: str) -> None:
    """Also where one runs."""
    if shape == "every arm" or stage == "process_api_error":
        return  # an async condition; a stage that needs a run
    content: Any = {"q": TEXT} if "tool" in stage else TEXT
    outcome = graph_of(shape, stage, (False, False), REDACTORS).check_sync(content, stage=stage)
    assert stage not in EDITED or "SECRET" not in outcome.text + repr(dict(outcome.overrides))


@each_stage
async def test_async_hooks_are_refused_in_sync_form_within_a_loop_before_anything_runs(stage: str) -> None:
    """Half a workflow would be worse than none."""
    context: dict[str, Any] = {}
    with pytest.raises(UsageError, match="await"):
        graph_of("sequence", stage, (False, True), REDACTORS).check_sync(TEXT, stage=stage, request_context=context)
    assert context == {}


@each_shape
@each_kind
async def test_steps_without_the_stage_are_not_there(shape: str, kinds: tuple[bool, bool]) -> None:
    """In a run, what has other stages passes everything through, and nobody is asked; a check alone is refused."""
    workflow = graph_of(shape, "process_output_result", kinds, (_break, _break))
    async with workflow.start(records=True) as run:
        outcome = await run.process_input([Message.user("hi", id="1")])
    assert (outcome.text, outcome.records) == ("hi", ())
    with pytest.raises(WorkflowError, match="no step has process_input"):
        await workflow.check("hi")
