"""The engine's merge before its judge: random edits and random trees, compared with what the naive merge makes of them.

Run it at length with ``python -m tests.engine.judge 20000``; the test run takes a few hundred examples of each law.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, note, settings, strategies as st

from penstock import Edit, Message, MessageList, TextPart, ToolPart, Workflow, member
from penstock.engine import MergeConflictError, StepFailedError, pick
from penstock.engine.execution.executor import execute
from penstock.engine.graph.nodes import Node, resolve
from penstock.engine.graph.plan import compile_plan
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunState, StageCall
from penstock.engine.tasks import run_without_loop
from penstock.engine.values import edits as engine
from penstock.engine.values.frozen import EMPTY
from tests.engine import naive_merge as naive
from tests.engine.interpreter import Verdicts, interpret
from tests.engine.strategies import KEYS, NOON, STAGE, Op, SyncScripted, conversations, ops, settle, workflows

TEXT = "abcdefgh"

# Edits of one text


@st.composite
def edits_of(draw: Any, length: int, step: str) -> tuple[Edit, ...]:
    """A few edits of a text of that length, close to each other; they may touch, but not overlap."""
    made: list[Edit] = []
    at = 0
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(at, min(at + 3, length)))
        kind = draw(st.sampled_from(["redact", "replace", "insert"]))
        end = start if kind == "insert" else draw(st.integers(start, min(start + 4, length)))
        words = draw(st.sampled_from(["", "1", "22", "333", "[X]"]))
        if words or start < end:
            made.append(Edit(start, end, words, kind, step))
        at = end
    return tuple(made)


def said(edits: tuple[Edit, ...]) -> list[tuple[Any, ...]]:
    """What is compared of edits: span, words, whether it redacts or hides, and who made it."""
    return [(e.start, e.end, e.text, e.kind == "redact", e.hidden, e.step) for e in edits if e.text or e.start < e.end]


def check_composition(data: st.DataObject) -> None:
    """Three rounds of edits, one after the other, are the same edits."""
    text = TEXT[: data.draw(st.integers(0, 8))]
    ours: tuple[Edit, ...] = ()
    theirs: tuple[Edit, ...] = ()
    now = text
    for step in "abc":
        more = data.draw(edits_of(len(now), step))
        after = naive.edited(now, more)
        assert engine.apply(now, more) == after
        ours, theirs, now = naive.then(text, ours, more), engine.compose(theirs, more), after
        assert naive.edited(text, ours) == now
        assert said(theirs) == said(ours), (text, theirs, ours)


def check_merge(data: st.DataObject) -> None:
    """Up to four branches, some of which did one thing after another, or the same as another."""
    text = TEXT[: data.draw(st.integers(0, 8))]
    branches: list[tuple[Edit, ...]] = []
    for step in "abcd"[: data.draw(st.integers(1, 4))]:
        edits = data.draw(edits_of(len(text), step))
        if data.draw(st.booleans()):
            edits = naive.then(text, edits, data.draw(edits_of(len(naive.edited(text, edits)), step)))
        if branches and data.draw(st.integers(0, 5)) == 0:
            edits = engine.stamp(tuple(Edit(e.start, e.end, e.text, e.kind) for e in branches[-1]), step)
        branches.append(edits)
    theirs, disputed = engine.merge(branches)
    ours, conflicts = naive.merged(branches, lambda makers: None)
    note(f"{branches}\n{theirs} {disputed}\n{ours} {conflicts}")
    assert said(theirs) == said(ours)
    assert len(disputed) == len(conflicts)
    assert all({edit.step for edit in one} <= set(steps) for steps, one in zip(conflicts, disputed, strict=True))


# Workflows


@st.composite
def steps(draw: Any) -> Any:
    """A step that does a thing or two to short texts, and breaks nothing."""
    edits = draw(st.sampled_from(["spans", "spans", "anything"]))
    kinds = st.sampled_from(["redact", "replace", "replace", "insert"])
    words = st.builds(Op, kinds, st.integers(0, 3), st.integers(1, 4), st.sampled_from(["", "1", "[X]"]))
    some = st.one_of(words, words, ops(stops=False, shapes=edits == "anything"))
    found = draw(st.lists(some, min_size=1, max_size=2))
    script = tuple(replace(op, at=op.at % 12, width=op.width % 5) for op in found)
    if edits == "spans":
        script = tuple(op for op in script if op.kind not in {"append", "settings"})
    if len(script) > 1:  # a step that edits a key and then something else tells places that were not there before
        script = tuple(replace(op, flag=False) for op in script)
    role = draw(st.sampled_from(["guard", "transform", "transform"]))
    return SyncScripted(script, 0, edits=edits, role=role, on_error="raise", provides=KEYS)


POLICIES = st.sampled_from([None, None, "first", "last", pick("a"), pick("b"), settle])


@st.composite
def meetings(draw: Any, depth: int = 2) -> Workflow:
    """Steps whose changes meet: in parallels, in every arm that holds, in dags; nested."""
    made = Workflow("m")
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(st.sampled_from(["then", "parallel", "parallel", "branch", "dag", "dag"]))
        names = "abcde"[: draw(st.integers(2, 3 if shape != "dag" else 5))]
        items = []
        for name in names:
            item = draw(meetings(depth=depth - 1)) if depth and draw(st.integers(0, 3)) == 0 else draw(steps())
            if isinstance(item, Workflow):
                item = Workflow(name, item.root)
            else:
                item.id = name
            items.append(item)
        if shape == "then":
            made = made.then(items[0]).then(items[1])
        elif shape == "parallel":
            made = made.parallel(*items, merge=draw(POLICIES))
        elif shape == "branch":
            made = made.branch(*((lambda ctx: True, item) for item in items), match="all", merge=draw(POLICIES))
        else:
            members = []
            for number, (name, item) in enumerate(zip(names, items, strict=True)):
                after = draw(st.sets(st.sampled_from(names[:number]), max_size=2)) if number else set()
                members.append(member(item, id=name, after=sorted(after)))
            made = made.dag(*members, merge=draw(POLICIES))
    return made


@st.composite
def short_conversations(draw: Any) -> tuple[Message, ...]:
    """One to three messages with short texts, so that edits meet."""
    words = st.sampled_from(["abcdef", "alpha SECRET", "x", ""])
    messages = []
    for number in range(draw(st.integers(1, 3))):
        parts: list[Any] = [TextPart(draw(words))]
        if draw(st.integers(0, 2)) == 0:
            parts.append(ToolPart(f"c{number}", "find", {"q": draw(words)}, "result", {"a": [draw(words), 1]}))
        role = draw(st.sampled_from(["user", "assistant", "system"]))
        metadata = draw(st.sampled_from([{}, {"k0": 1}]))
        messages.append(Message(role, parts, id=f"m{number}", created_at=NOON, metadata=metadata))
    return tuple(messages)


def call_of() -> StageCall:
    """A call of the stage, in a run of its own."""
    return StageCall(RunState("run", {}), STAGES[STAGE], EMPTY, frozenset())


async def compiled(root: Node, payload: Payload) -> tuple[str, Any]:
    """How the plan ends."""
    block = compile_plan(root, STAGE)
    if block is None:
        return "passed", payload
    try:
        end = await execute(block, call_of(), payload)
    except MergeConflictError as error:
        return "conflict", (error.step, frozenset(error.culprits))
    except StepFailedError as error:
        return "failed", error.step
    if end.tripwire is not None:
        return "blocked", (end.tripwire.processor_id, end.tripwire.reason)
    return "passed", end


async def interpreted(root: Node, payload: Payload) -> tuple[str, Any]:
    """How the interpreter ends; of a blocked one, every verdict that it may have."""
    try:
        return "passed", await interpret(root, call_of(), payload)
    except MergeConflictError as error:
        return "conflict", (error.step, frozenset(error.culprits))
    except StepFailedError as error:
        return "failed", error.step
    except Verdicts as verdicts:
        return "blocked", verdicts.found


def assert_agree(one: tuple[str, Any], other: tuple[str, Any]) -> None:
    """The plan ends as the interpreter does."""
    assert one[0] == other[0], (one, other)
    if one[0] == "blocked":
        assert one[1] in other[1]
    elif one[0] == "passed":
        assert one[1].message_list.entries == other[1].message_list.entries
        assert one[1].data == other[1].data
        assert one[1] == other[1]
    else:
        assert one[1] == other[1]


def check_tree(workflow: Workflow, messages: tuple[Message, ...], seen: Counter[str] | None = None) -> None:
    """Plan and interpreter agree on a workflow of sync steps."""
    root = resolve(workflow.root)
    note(repr(root))  # a workflow's own repr is but its name and steps
    check_plan(root, messages, seen)


def check_plan(root: Node, messages: tuple[Message, ...], seen: Counter[str] | None = None) -> None:
    """Plan and interpreter agree on a tree of sync steps."""
    payload = Payload(MessageList(messages))
    one = run_without_loop(compiled(root, payload), "plan")
    other = run_without_loop(interpreted(root, payload), "interpreter")
    if seen is not None:
        seen[one[0]] += 1
    assert_agree(one, other)


def judged(examples: int) -> None:
    """Run each law on that many examples."""
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    seen: Counter[str] = Counter()
    many = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to shrink a workflow takes minutes
        suppress_health_check=list(HealthCheck),
    )

    @many
    @given(st.data())
    def compositions(data: st.DataObject) -> None:
        check_composition(data)

    @many
    @given(st.data())
    def merges(data: st.DataObject) -> None:
        check_merge(data)

    @many
    @given(workflows(suspends=False, stops=False), conversations())
    def trees(workflow: Workflow, messages: tuple[Message, ...]) -> None:
        check_tree(workflow, messages, seen)

    @many
    @given(meetings(), short_conversations())
    def joins(workflow: Workflow, messages: tuple[Message, ...]) -> None:
        check_tree(workflow, messages, seen)

    for law in (compositions, merges, joins, trees):
        started = time.perf_counter()
        law()
        print(f"{law.__name__}: {examples} examples agree, {time.perf_counter() - started:.0f} s")  # noqa: T201
    print(dict(seen))  # noqa: T201


if __name__ == "__main__":
    judged(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
