"""The laws of workflows, on random trees: what must hold whatever the steps do. interpreter.py is what a tree means."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import random
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, note, settings, strategies as st

from penstock import InputContext, Key, Message, MessageList, Processor, Workflow, processor
from penstock.engine.graph.nodes import Node, Parallel, Sequence, resolve
from penstock.engine.processor.payload import Payload
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import StepFailedError
from tests.engine.judge import assert_agree, check_tree, compiled, interpreted
from tests.engine.strategies import STAGE, Op, SyncScripted, conversations, workflows
from tests.laws import examples

EXAMPLES = settings(max_examples=examples(400), suppress_health_check=list(HealthCheck))
FEW = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def quiet_log() -> Iterator[None]:
    """Thousands of steps fail here on purpose."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


def payload_of(messages: tuple[Message, ...]) -> Payload:
    """A payload that holds these messages."""
    return Payload(MessageList(messages))


async def check_on_a_loop(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Plan and interpreter agree on an event loop."""
    root = resolve(workflow.root)
    note(repr(root))
    payload = payload_of(messages)
    with anyio.fail_after(60):
        one = await compiled(root, payload)
    assert_agree(one, await interpreted(root, payload))


@EXAMPLES
@given(workflows(suspends=False), conversations())
def test_a_plan_of_sync_steps_does_what_the_tree_says(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Compiled = interpreted, driven without an event loop."""
    check_tree(workflow, messages)


def test_a_plan_does_what_the_tree_says_on_asyncio() -> None:
    """Compiled = interpreted, with steps that let others run."""
    with asyncio.Runner() as runner:

        @EXAMPLES
        @given(workflows(), conversations())
        def agree(workflow: Workflow, messages: tuple[Message, ...]) -> None:
            runner.run(check_on_a_loop(workflow, messages))

        agree()


@FEW
@given(workflows(), conversations())
def test_a_plan_does_what_the_tree_says_on_trio(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Compiled = interpreted, with steps that let others run."""
    anyio.run(check_on_a_loop, workflow, messages, backend="trio")


def ending(root: Node, messages: tuple[Message, ...], *, plain: bool = False) -> tuple[str, Any]:
    """How a graph of sync steps ends; ``plain``: without the paths, which a cut may change."""
    kind, what = run_without_loop(compiled(resolve(root), payload_of(messages)), "plan")
    note(f"{root!r} gives {kind} {what!r}")
    return (kind, None) if plain and kind in {"conflict", "failed", "blocked"} else (kind, what)


@FEW
@given(workflows(suspends=False), conversations(), st.data())
def test_cutting_a_sequence_anywhere_changes_nothing(
    workflow: Workflow, messages: tuple[Message, ...], data: st.DataObject
) -> None:
    """(a, b), c = a, (b, c) = a, b, c; named or not."""
    nodes = workflow.root.nodes
    cut = data.draw(st.integers(0, len(nodes)))
    whole = ending(Sequence(nodes), messages)
    assert ending(Sequence((Sequence(nodes[:cut]), Sequence(nodes[cut:]))), messages) == whole


@FEW
@given(workflows(suspends=False, stops=False), conversations(), st.data())
def test_running_the_pieces_of_a_sequence_one_by_one_changes_nothing(
    workflow: Workflow, messages: tuple[Message, ...], data: st.DataObject
) -> None:
    """What a sequence gives is what its second half gives on what its first half gave."""
    nodes = resolve(workflow.root).nodes  # type: ignore[union-attr]
    cut = data.draw(st.integers(0, len(nodes)))
    kind, whole = run_without_loop(compiled(Sequence(nodes), payload_of(messages)), "whole")
    first_kind, first = run_without_loop(compiled(Sequence(nodes[:cut]), payload_of(messages)), "first")
    if first_kind == "passed":
        second_kind, second = run_without_loop(compiled(Sequence(nodes[cut:]), first), "second")
        assert (kind, kind == "passed" and whole) == (second_kind, kind == "passed" and second)
    else:
        assert kind == first_kind


@FEW
@given(workflows(suspends=False), conversations())
def test_a_parallel_of_one_is_that_one(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Nothing to join, nothing to merge."""
    alone = ending(Sequence((workflow.root,)), messages, plain=True)
    assert ending(Parallel((workflow.root,)), messages, plain=True) == alone


class Idle(Processor):
    """Does nothing, and takes part in a join."""

    edits = "nothing"
    role = "transform"

    def process_input_step(self, ctx: Any) -> None:
        """Do nothing."""


@FEW
@given(workflows(suspends=False), conversations(), st.booleans())
def test_a_parallel_with_a_step_that_does_nothing_is_the_other(
    workflow: Workflow, messages: tuple[Message, ...], idle_first: bool
) -> None:
    """Carried through a join, edits, facts, overrides and data come out as they were."""
    nodes = (Sequence(workflow.root.nodes, "w"), Workflow("i").then(Idle()).root)
    alone = ending(Sequence((nodes[0],)), messages, plain=True)
    assert ending(Parallel(nodes[::-1] if idle_first else nodes), messages, plain=True) == alone


@FEW
@given(conversations())
def test_an_empty_workflow_changes_nothing(messages: tuple[Message, ...]) -> None:
    """Alone, nested, and in a parallel."""
    empty = Workflow("empty")
    outcome = empty.check_sync(messages, stage=STAGE)
    assert outcome.message_list.entries == MessageList(messages).entries
    assert ending(Workflow("w").then(empty).parallel(empty, empty).root, messages)[1] == payload_of(messages)


@FEW
@given(workflows(stops=False, suspends=False, depth=1), conversations())
def test_a_dag_that_is_a_chain_is_a_sequence(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Each member after the one before it."""
    items = [Workflow(f"n{index}", Sequence((node,))) for index, node in enumerate(workflow.root.nodes)]
    if not items:
        return
    from penstock import member

    chained = Workflow("w").dag(*[member(item, after=[f"n{i - 1}"] if i else ()) for i, item in enumerate(items)])
    straight = functools.reduce(lambda made, item: made.then(item), items, Workflow("w"))
    assert ending(chained.root, messages, plain=True) == ending(straight.root, messages, plain=True)


# Finishing order


class Gate:
    """Lets waiting steps go one at a time, in a given order."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self.order = order
        self.done = {index: anyio.Event() for index in order}

    async def pass_through(self, index: int) -> None:
        """Wait until all that are to go before have gone."""
        before = self.order[: self.order.index(index)]
        if before:
            await self.done[before[-1]].wait()


class Gated(Processor):
    """A scripted step that acts when it is its turn."""

    edits = "spans"

    def __init__(self, index: int, ops: tuple[Op, ...]) -> None:
        self.id = f"s{index}"
        self.index = index
        self.script = SyncScripted(ops, 0)
        self.provides = (Key("language"), Key("score"))

    async def process_input_step(self, ctx: Any) -> Any:
        """Wait for the turn, act, and give way."""
        gate: Gate = ctx.request_context["gate"]
        await gate.pass_through(self.index)
        try:
            return self.script.act(ctx)
        finally:
            gate.done[self.index].set()


SPAN_OPS = st.lists(
    st.builds(
        Op,
        st.sampled_from(["redact", "redact-word", "replace", "insert", "put", "settings"]),
        st.integers(0, 30),
        st.integers(0, 9),
        st.sampled_from(["", "[X]", "[LONGER]"]),
    ),
    max_size=3,
).map(tuple)


async def _in_order(workflow: Workflow, messages: tuple[Message, ...], order: tuple[int, ...]) -> Any:
    with contextlib.suppress(StepFailedError):
        outcome = await workflow.check(messages, stage=STAGE, request_context={"gate": Gate(order)}, records=False)
        if outcome.tripwire is not None:
            return outcome.tripwire
        return outcome.message_list.entries, outcome.facts, outcome.overrides
    return None


async def check_orders(scripts: list[tuple[Op, ...]], messages: tuple[Message, ...]) -> None:
    """Every finishing order leaves the same."""
    steps = [Gated(index, script) for index, script in enumerate(scripts)]
    for step in steps:
        step.edits = "spans" if not any(op.kind == "settings" for op in step.script.ops) else "anything"
    workflow = Workflow("w").parallel(*steps, merge=None)
    workflow.plans.resolved = resolve(workflow.root)  # what may be unsafe to declare is still independent of order
    ends = [await _in_order(workflow, messages, order) for order in itertools.permutations(range(len(steps)))]
    assert all(end == ends[0] for end in ends)


def test_a_join_is_the_same_whatever_finished_first() -> None:
    """Three branches, all six orders, on asyncio."""
    with asyncio.Runner() as runner:

        @FEW
        @given(st.lists(SPAN_OPS, min_size=2, max_size=3), conversations())
        def same(scripts: list[tuple[Op, ...]], messages: tuple[Message, ...]) -> None:
            runner.run(check_orders(scripts, messages))

        same()


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(st.lists(SPAN_OPS, min_size=2, max_size=3), conversations())
def test_a_join_is_the_same_whatever_finished_first_on_trio(
    scripts: list[tuple[Op, ...]], messages: tuple[Message, ...]
) -> None:
    """Three branches, all six orders, on trio."""
    anyio.run(check_orders, scripts, messages, backend="trio")


# Isolation


class Counter(Processor):
    """Counts its calls in its state."""

    edits = "nothing"

    async def process_input(self, ctx: InputContext) -> None:
        """Count, let others run, and tell."""
        ctx.state["count"] = ctx.state.get("count", 0) + 1
        await anyio.lowlevel.checkpoint()
        ctx.request_context.setdefault(ctx.step_path, []).append((ctx.state["count"], id(ctx.state)))


async def test_the_state_of_concurrent_runs_is_isolated() -> None:
    """A hundred runs of one workflow at once: each counts from one, each step its own."""
    shared = Counter()
    workflow = Workflow("w").then(shared).parallel(shared, shared).then(Counter())
    contexts: list[dict[str, Any]] = [{} for _ in range(100)]

    async def one(context: dict[str, Any]) -> None:
        await workflow.check("hi", request_context=context)

    async with anyio.create_task_group() as group:
        for context in random.sample(contexts, 100):
            group.start_soon(one, context)
    for context in contexts:
        assert {step: [count for count, _ in calls] for step, calls in context.items()} == {
            path: [1] for path in ("counter", "counter#2", "counter#3", "counter#4")
        }
        assert len({calls[0][1] for calls in context.values()}) == 4


@pytest.mark.parametrize("kind", ["parallel", "sequence"])
def test_a_step_cannot_change_what_its_neighbours_see(kind: str) -> None:
    """Frozen values: an attempt is an error, and the neighbour's view stays."""
    seen: list[str] = []

    @processor(edits="nothing", on_error="allow")
    def vandal(ctx: InputContext) -> None:
        with contextlib.suppress(TypeError):
            ctx.messages[0].metadata["a"] = 2  # type: ignore[index]
        ctx.messages[0].parts[0].text = "changed"  # type: ignore[union-attr, misc]

    @processor(edits="nothing")
    def witness(ctx: InputContext) -> None:
        seen.append(f"{ctx.text}{dict(ctx.messages[0].metadata)}")

    workflow = Workflow("w")
    workflow = workflow.parallel(vandal, witness) if kind == "parallel" else workflow.then(vandal).then(witness)
    outcome = workflow.check_sync([Message.user("as it was", metadata={"a": 1})])
    assert seen == ["as it was{'a': 1}"]
    assert outcome.text == "as it was"
