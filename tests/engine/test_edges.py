"""Values and runs at their edges: what is equal and not the same, what is refused, what is cancelled from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from penstock import (
    Edit,
    InputContext,
    Message,
    OutputStreamContext,
    Processor,
    TextPart,
    ToolCallContext,
    Workflow,
    member,
    processor,
)
from penstock.engine import ReasoningPart, StepFailedError, TextEdits
from penstock.engine.tasks import new_task_group
from penstock.engine.values import edits as edit_ops
from penstock.testing import run_stage, run_stream
from tests.engine.streams.toys import Rule, Toy


class Makes(Processor):
    """Returns what a function makes of the list."""

    edits = "anything"

    def __init__(self, make: Any, id: str = "makes") -> None:
        self.id = id
        self.make = make

    def process_input(self, ctx: InputContext) -> Any:
        """Return it."""
        return self.make(ctx.message_list)


def changed(**fields: Any) -> Any:
    """Return what changes fields of every message."""
    return lambda messages: messages.replace(*(dataclasses.replace(one, **fields) for one in messages.conversation))


def added(*messages: Message) -> Any:
    """Return what adds messages."""
    return lambda known: known.add(messages, source="context")


def beside(one: Any, other: Any, **policy: Any) -> Any:
    """Return the outcome of two beside each other."""
    workflow = Workflow("w").parallel(Makes(one, "one"), Makes(other, "other"), **policy)
    return workflow.check_sync([Message.user("a text", id="m")])


def settled_by_nobody(conflict: Any) -> Any:
    """Refuse to."""
    raise AssertionError(conflict)


def same(messages: Any) -> Any:
    """Return the list as it is."""
    return messages


def test_a_part_that_becomes_another_kind_is_one_change() -> None:
    """Beside a step that changes nothing."""
    outcome = beside(changed(parts=(ReasoningPart("a text"),)), same, merge="last")
    assert [part.type for part in outcome.messages[0].parts] == ["reasoning"]


def test_what_is_equal_and_not_the_same_is_no_change() -> None:
    """Another step may change it."""
    equal = changed(parts=(TextPart(str(b"a text", "ascii")),))
    outcome = beside(changed(parts=(TextPart("another"),)), equal, merge="last")
    assert outcome.text == "another"


def test_a_message_that_comes_from_elsewhere_now_is_a_change() -> None:
    """Its source is known behind the join."""

    def moved(messages: Any) -> Any:
        known = messages.get("m")
        return messages.remove("m").add([known], source="context")

    outcome = beside(moved, in_capitals, merge="last")
    assert [(entry.message.id, entry.source) for entry in outcome.message_list.entries] == [("m", "context")]


class Calls(Processor):
    """Makes something of a tool's arguments."""

    edits = "anything"

    def __init__(self, make: Any, id: str = "calls") -> None:
        self.id = id
        self.make = make

    def process_tool_call(self, ctx: ToolCallContext) -> Any:
        """Make it."""
        return self.make(ctx.arguments)


def called(*ways: Any, given: Any) -> Any:
    """Return a tool's arguments behind two ways beside each other."""
    return Workflow("w").parallel(*ways, merge="last").check_sync(given, stage="process_tool_call").arguments


def test_numbers_that_are_equal_and_not_the_same_are_no_change() -> None:
    """Nor are lists of them; another step may change them."""
    given = {"n": 10.5, "all": [float("1.25")]}
    anew = Calls(lambda _: {"n": float("10.5"), "all": [float("1.25")]}, "anew")
    other = Calls(lambda arguments: {**arguments, "n": 11}, "other")
    assert called(other, anew, given=given) == {"n": 11, "all": (1.25,)}


def test_an_edit_of_a_text_that_was_not_there_before_is_part_of_its_coming() -> None:
    """A step adds it, and the next edits it; a step beside them sees neither."""
    adds = Calls(lambda arguments: {**arguments, "q": "a secret"}, "adds")
    hides = Calls(lambda _: TextEdits({("arguments", "q"): (Edit(2, 8, "***", "redact"),)}), "hides")
    branch = Workflow("branch").then(adds).then(hides)
    assert called(Calls(lambda _: None, "same"), branch, given={"a": 1}) == {"a": 1, "q": "a ***"}


def test_two_that_add_the_same_message_agree() -> None:
    """It is there once."""
    then = datetime(2026, 1, 1, tzinfo=UTC)
    twice = [added(Message.user("more", id="x", created_at=then)) for _ in range(2)]
    outcome = beside(*twice, merge=settled_by_nobody)
    assert [one.id for one in outcome.message_list.conversation] == ["m", "x"]


def test_who_settles_conflicts_sees_what_each_branch_made() -> None:
    """A value, or a message that was added; and what stood there before, if anything did."""
    seen: list[Any] = []

    def settle(conflict: Any) -> Any:
        seen.append((conflict.place, conflict.base, dict(conflict.values)))
        return next(iter(conflict.values.values()))

    outcome = beside(changed(metadata={"k": 1}), changed(metadata={"k": 2}), merge=settle)
    assert outcome.messages[0].metadata["k"] == 1
    assert [(place[-1], before) for place, before, _ in seen] == [("k", None)]

    seen.clear()
    beside(added(Message.user("one", id="x")), added(Message.user("two", id="x")), merge=settle)
    assert [value.text for value in seen[0][2].values()] == ["one", "two"]


def in_capitals(messages: Any) -> Any:
    """Return the list with its texts in capitals."""
    return messages.map_text(str.upper, messages.conversation)


@pytest.mark.parametrize("chosen", ["one", "other"])
def test_who_settles_conflicts_sees_the_whole_also_where_a_branch_changed_what_lies_in_it(chosen: str) -> None:
    """And may choose either; of a part that one replaces, and another edits the text of."""
    thought = changed(parts=(ReasoningPart("a thought"),))
    outcome = beside(thought, in_capitals, merge=lambda conflict: conflict.values[chosen])
    assert outcome.messages[0].parts == ((ReasoningPart("a thought") if chosen == "one" else TextPart("A TEXT")),)


def test_a_claim_that_is_not_made_is_left_as_it_is() -> None:
    """None says nothing."""

    @processor(edits="nothing", on_error=None)
    def quiet(ctx: InputContext) -> None:
        """Say nothing."""

    assert run_stage(quiet, "process_input", "a").text == "a"


def test_a_text_of_a_kind_of_its_own_is_a_text() -> None:
    """A subclass of str."""

    class Marked(str):
        """A text."""

        __slots__ = ()

    assert TextPart(Marked("a")).text == "a"


def test_no_edits_merge_into_none() -> None:
    """Without a conflict."""
    assert edit_ops.merge([(), ()]) == ((), [])


def test_ids_that_repeat_get_a_number_that_is_free() -> None:
    """Also where somebody chose one that looks so."""
    toys = [Toy(Rule("a", "redact")), Toy(Rule("b", "redact"))]
    workflow = Workflow("w").dag(member(Toy(Rule("c", "redact")), id="toy#2"), *map(member, toys))
    assert [node.id for node in workflow.root.nodes[0].members] == ["toy#2", "toy", "toy#3"]  # type: ignore[union-attr]


def test_a_run_in_sync_form_shows_what_the_run_knows() -> None:
    """The conversation and the facts."""
    run = Workflow("w").then(Toy(Rule("a", "redact"))).start_sync()
    run.process_input("text")
    assert run.message_list.conversation[0].text == "text"
    assert len(run.facts) == 0


class Reads(Processor):
    """Reads the answer's text while it streams."""

    edits = "nothing"

    def process_output_stream(self, chunk: Any, ctx: OutputStreamContext) -> Any:
        """Read it."""
        return chunk if ctx.text else None


def test_the_text_of_an_answer_is_not_there_while_it_streams() -> None:
    """The error says what to do."""
    with pytest.raises(StepFailedError, match="not available while it streams"):
        run_stream(Reads(), ["a"])


class Later:
    """Can be awaited, and not closed."""

    def __await__(self) -> Generator[None, None, None]:
        """Give nothing."""
        yield


def test_a_hook_that_gives_what_is_to_be_awaited_has_failed() -> None:
    """Whatever it is."""
    with pytest.raises(StepFailedError, match="awaitable"):
        run_stage(Makes(lambda _: Later()), "process_input", "a")


class Hangs(Processor):
    """Never comes back."""

    edits = "nothing"

    async def process_input(self, ctx: InputContext) -> None:
        """Hang."""
        await anyio.Event().wait()


async def test_a_nested_workflow_that_takes_too_long_and_says_no_more_raises() -> None:
    """No policy says that it may be left out."""
    with pytest.raises(StepFailedError, match="inner"):
        await Workflow("w").then(Workflow("inner").then(Hangs()), timeout=0.001).check("a")


async def test_a_run_that_is_cancelled_ends_its_shadows() -> None:
    """None of them goes on."""
    with anyio.fail_after(60), anyio.CancelScope() as scope:
        async with Workflow("w").then(Hangs(), mode="shadow").start() as run:
            await run.process_input("a")
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_a_condition_of_a_dag_that_is_cancelled_from_outside_is_no_failure() -> None:
    """The run is not stopped."""
    asked = anyio.Event()

    async def never(view: Any) -> bool:
        asked.set()
        await anyio.Event().wait()
        return True

    one, two = Makes(same, "one"), Makes(same, "two")
    run = Workflow("w").dag(member(one), member(two, after={"one": never})).start(records=True)

    async def check() -> None:
        await run.process_input("a")

    with anyio.fail_after(60):
        async with run, anyio.create_task_group() as group:
            group.start_soon(check)
            await asked.wait()
            group.cancel_scope.cancel()
    assert run.tripwire is None
    assert [record.status for record in run.records] == ["passed"]


async def test_a_task_group_that_was_cancelled_starts_nothing_more() -> None:
    """On either loop."""
    started: list[int] = []

    async def work() -> None:
        started.append(1)

    async with new_task_group() as group:
        group.cancel()
        group.start(work)
    assert started == []
