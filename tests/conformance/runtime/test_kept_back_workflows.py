"""The stated rules of scenarios that are kept back: lifecycle, workflows and lists (A, E, G, M)."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import anyio
import pytest

from penstock import Edit, InMemoryStorage, Memory, Message, TextPart, ToolPart, Workflow, WorkflowError
from penstock.engine import Overrides, StepFailedError
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, chain, conversation
from tests.conformance.runtime.parallels import Order, passing, suffix
from tests.conformance.runtime.shapes import lines
from tests.conformance.runtime.storing import remembering

SPANS = {"edits": "spans"}


async def test_a_later_processor_sees_the_overrides_of_an_earlier_one() -> None:
    """A06: field by field; settings and options key by key; the caller's values come first."""
    seen: list[Any] = []
    first = Overrides(model="m2", model_settings={"temperature": 0.1}, active_tools=["lookup"])
    a = Hooks("A", process_input_step=lambda _ctx: first)

    def b(ctx: Any) -> Any:
        seen.append((ctx.model, dict(ctx.model_settings), ctx.active_tools, ctx.tool_choice))
        return Overrides(model_settings={"top_p": 0.5}, tool_choice="none", active_tools=[])

    run = chain(a, Hooks("B", process_input_step=b)).start()
    outcome = await run.process_input_step(model="m1", tool_choice="auto", model_settings={"seed": 1})
    assert seen == [("m2", {"seed": 1, "temperature": 0.1}, ("lookup",), "auto")]
    assert dict(outcome.overrides["model_settings"]) == {"seed": 1, "temperature": 0.1, "top_p": 0.5}
    assert (outcome.overrides["model"], outcome.overrides["tool_choice"]) == ("m2", "none")
    assert outcome.overrides["active_tools"] == ()
    again = await run.process_input_step(model="m1")
    assert again.overrides["model_settings"]["temperature"] == 0.1  # made anew by A, not carried over
    assert "seed" not in again.overrides["model_settings"]


async def test_messages_of_a_step_persist_and_are_current() -> None:
    """A08: what one processor adds the next one sees, in this step and the ones after."""
    seen: list[Any] = []

    def add(ctx: Any) -> Any:
        return [*ctx.messages, Message.user("added")] if ctx.step_number == 0 else None

    b = Hooks("B", process_input_step=lambda ctx: seen.append((ctx.step_number, lines(ctx.messages))))
    run = chain(Hooks("A", process_input_step=add), b).start()
    await run.process_input("Hi")
    await run.process_input_step()
    await run.process_input_step()
    assert seen == [(0, ["user:Hi", "user:added"]), (1, ["user:Hi", "user:added"])]


def test_equal_ids_that_somebody_set_are_refused() -> None:
    """A10, E17: they would share state and results."""
    for workflow in (chain(passing("A"), passing("A")), Workflow("w").parallel(passing("A"), passing("A"))):
        with pytest.raises(WorkflowError, match="'A'"):
            workflow.validate()


@pytest.mark.parametrize("nested", [False, True])
async def test_a_workflow_alone_keeps_its_state(nested: bool) -> None:
    """E10, E18, E20: one state in all stages, alone or nested, and nesting changes nothing about the workflow."""
    seen: list[int] = []

    def count(ctx: Any) -> None:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        seen.append(ctx.state["n"])

    hooks = dict.fromkeys(
        ("process_input", "process_input_step", "process_output_step", "process_output_result"), count
    )
    inner = Workflow("inner").then(Hooks("A", **hooks))
    before = inner.named("inner")
    outer = Workflow("outer").then(inner).then(passing("P"))
    for workflow in (outer, inner) if nested else (inner,):
        seen.clear()
        await Talk(HONEST.start(workflow)).play(conversation("Hi"))
        assert seen == [1, 2, 3, 4]
    assert inner == before


async def test_concurrent_requests_have_states_of_their_own() -> None:
    """G05: two requests on one workflow, interleaved at every hook."""
    baton = [anyio.Event() for _ in range(7)]

    async def count(ctx: Any) -> None:
        turn = ctx.request_context["turns"].pop(0)
        await baton[turn].wait()
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.request_context["n"] = ctx.state["n"]
        baton[turn + 1].set()

    workflow = chain(Hooks("A", process_output_step=count))
    found: dict[str, int] = {}

    async def request(name: str, turns: list[int]) -> None:
        run = workflow.start(request_context={"turns": turns})
        for _ in range(len(turns)):
            await run.process_output_step("x")
        found[name] = run.request_context["n"]

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(request, "first", [0, 2, 4])
            group.start_soon(request, "second", [1, 3])
            baton[0].set()
    assert found == {"first": 3, "second": 2}


async def test_an_aborting_hook_runs_once() -> None:
    """E14: nothing re-runs a verdict."""
    called: list[str] = []

    def guard(ctx: Any) -> None:
        called.append("A")
        ctx.abort("no")

    await chain(Hooks("A", process_input=guard)).check("Hi")
    assert called == ["A"]


async def test_a_failed_tool_in_the_history_harms_no_workflow() -> None:
    """E21: a part in state error passes through a nested workflow."""
    failed = Message.assistant([ToolPart("c1", "lookup", {}, "error", error="it broke")])
    run = chain(Workflow("inner").then(Hooks("A", process_input_step=lambda ctx: ctx.messages))).start()
    run.message_list = conversation("Hi").add(failed)
    assert not (await run.process_input_step()).blocked
    assert run.message_list.conversation[-1].parts == failed.parts


async def test_every_argument_reaches_a_nested_processor() -> None:
    """E22: arguments, result, call id and steps are the same inside a workflow as outside."""
    seen: list[Any] = []
    a = Hooks("A")
    a.process_tool_result = lambda ctx: seen.append((ctx.tool_name, ctx.call_id, dict(ctx.arguments), dict(ctx.result)))
    a.process_output_step = lambda ctx: seen.append((ctx.finish_reason, len(ctx.steps)))
    run = Workflow("outer").then(Workflow("inner").then(a)).start()
    await run.process_output_step("x", finish_reason="stop", steps=("one",))
    await run.process_tool_result("lookup", {"answer": 42}, arguments={"q": "x"}, call_id="c1")
    assert seen == [("stop", 1), ("lookup", "c1", {"q": "x"}, {"answer": 42})]


async def test_state_lives_across_steps_and_retries() -> None:
    """E23, C15: one object from the first hook to the last."""
    objects: list[int] = []

    def note(ctx: Any) -> None:
        ctx.state.setdefault("kept", object())
        objects.append(id(ctx.state["kept"]))
        if len(objects) == 2:
            ctx.abort("again", retry=True)

    a = Hooks("A", process_input_step=note, process_output_step=note)
    await Talk(HONEST.start(a, max_processor_retries=1), [{"text": "x"}]).play(conversation("Hi"))
    assert len(objects) == 4
    assert len(set(objects)) == 1


async def test_in_place_edits_are_refused_not_lost() -> None:
    """E28: a message cannot be changed in place, in an array or a nested workflow."""

    def mutate(ctx: Any) -> None:
        ctx.messages[0].parts[0].text = "changed"

    for workflow in (
        chain(Hooks("A", process_input=mutate)),
        chain(Workflow("inner").then(Hooks("A", process_input=mutate))),
    ):
        with pytest.raises(StepFailedError) as caught:
            await workflow.check("Hi")
        assert isinstance(caught.value.__cause__, FrozenInstanceError)


async def test_records_and_reprs_hold_no_text_that_was_redacted() -> None:
    """E30: nothing that is written down has the text as it was."""
    private = "my ssn is 123-45-6789"
    redact = Hooks("A", claims=SPANS)
    redact.process_input = lambda ctx: ctx.message_list.map_text(
        lambda text: text.replace("123-45-6789", "[SSN]"), ctx.messages
    )
    outcome = await chain(Workflow("inner").then(redact)).check(private)
    assert outcome.text == "my ssn is [SSN]"
    assert "45-6789" not in repr((outcome, outcome.records, outcome.message_list))


# Parallel redactors (E03–E05): every order of finishing, every pair of places


def redacting(*words: str) -> Any:
    """Return a hook that redacts words."""

    def redact(ctx: Any) -> Any:
        places = {
            place: [Edit(text.index(w), text.index(w) + len(w), f"[{w.upper()}]", "redact") for w in words if w in text]
            for place, text in ctx.message_list.texts(ctx.messages)
        }
        return ctx.message_list.edit_text(places)

    return redact


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("ABC")])
async def test_parallel_redactors_lose_nothing_in_any_order(order: str) -> None:
    """E03: three redactors of one message, each ending first, second and last."""
    words = {"A": "mail", "B": "iban", "C": "name"}
    turns = Order(order)
    hooks = [Hooks(id, claims=SPANS, process_input=turns.hook(id, redacting(word))) for id, word in words.items()]
    with anyio.fail_after(60):
        outcome = await Workflow("w").parallel(*hooks).check("name, iban; mail?")
    assert outcome.text == "[NAME], [IBAN]; [MAIL]?"


@pytest.mark.parametrize("order", ["AB", "BA"])
@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 0), (0, 0), (1, 1)])
async def test_a_stale_copy_undoes_no_edit(order: str, a: int, b: int) -> None:
    """E04: branches return all messages, whichever they edited."""

    def append(index: int, text: str) -> Any:
        def change(ctx: Any) -> Any:
            shown = list(ctx.messages)
            shown[index] = shown[index].with_parts([TextPart(shown[index].text + text)])
            return shown

        return change

    turns = Order(order)
    hooks = [
        Hooks(id, claims=SPANS, process_input=turns.hook(id, append(index, f" [{id}]")))
        for id, index in (("A", a), ("B", b))
    ]
    with anyio.fail_after(60):
        outcome = await Workflow("w").parallel(*hooks).check([Message.user("one"), Message.user("two")])
    expected = [text + (" [A]" if a == i else "") + (" [B]" if b == i else "") for i, text in enumerate(("one", "two"))]
    assert [message.text for message in outcome.messages] == expected


@pytest.mark.parametrize("order", ["AB", "BA"])
async def test_a_deletion_wins_over_an_edit(order: str) -> None:
    """E05: a message that one branch removed stays removed, though the other edited it."""
    turns = Order(order)
    delete = Hooks("A", claims=SPANS, process_input=turns.hook("A", lambda ctx: ctx.messages[1:]))
    edit = Hooks("B", claims=SPANS, process_input=turns.hook("B", redacting("one", "two")))
    with anyio.fail_after(60):
        outcome = await Workflow("w").parallel(delete, edit).check([Message.user("one"), Message.user("two")])
    assert [message.text for message in outcome.messages] == ["[TWO]"]


@pytest.mark.parametrize("order", ["AB", "BA"])
async def test_a_verdict_beats_an_error_in_any_order(order: str) -> None:
    """E06: the error of a sibling masks no verdict; with two verdicts the first in time counts."""
    turns = Order(order)

    def broken(_ctx: Any) -> None:
        raise ValueError("bug")

    a = Hooks("A", claims=SPANS, process_input=turns.hook("A", broken))
    b = Hooks("B", claims=SPANS, process_input=turns.hook("B", lambda ctx: ctx.abort("B says no")))
    with anyio.fail_after(60):
        outcome = await Workflow("w").parallel(a, b).check("Hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.processor_id == "B"


async def test_no_arm_taken_passes_the_payload_through_unless_otherwise() -> None:
    """E07: nothing holds, nothing happens; `otherwise` is what then runs."""
    bare = Workflow("w").branch((lambda _ctx: False, suffix("A")))
    assert (await bare.check("Hi")).text == "Hi"
    rest = Workflow("w").branch((lambda _ctx: False, suffix("A")), otherwise=suffix("B"))
    assert (await rest.check("Hi")).text == "Hi [B]"


async def test_a_condition_that_breaks_can_block() -> None:
    """E07: with on_error="block" a broken condition is a verdict; never false."""

    def bug(_ctx: Any) -> bool:
        raise ValueError("cond bug")

    workflow = Workflow("w").branch((bug, suffix("A")), on_error="block")
    assert (await workflow.check("Hi")).blocked


# Lists


@pytest.mark.parametrize("stage", ["process_input", "process_input_step"])
async def test_the_scope_of_messages_is_the_stages(stage: str) -> None:
    """M02, E19: the caller's messages at first, the whole conversation before each step; system messages in neither."""
    seen: list[Any] = []
    note = Hooks("A", **{stage: lambda ctx: seen.append(lines(ctx.messages))})
    twice = chain(
        note, Hooks("B", **{stage: lambda ctx: ctx.message_list.add(Message.user("more"))}), note_again(seen, stage)
    )
    store = InMemoryStorage()
    await store.save_messages([Message.assistant("remembered", id="a", thread_id="t", resource_id="r")])
    await Talk(remembering(HONEST, Memory(store), twice)).play(conversation("Hi", context=["older"]))
    shown = ["user:Hi"] if stage == "process_input" else ["user:older", "assistant:remembered", "user:Hi"]
    assert seen == [shown, [*shown, "user:more"]]


def note_again(seen: list[Any], stage: str) -> Hooks:
    """Return a processor that notes what it sees."""
    return Hooks("C", **{stage: lambda ctx: seen.append(lines(ctx.messages))})


async def test_hidden_messages_stay_where_they_are() -> None:
    """M01: a returned list fills the slots of the shown messages; others keep theirs."""
    messages = conversation("one", "two").add(Message.assistant("memory"), source="memory").add(Message.user("three"))
    run = chain(Hooks("A", process_input=lambda ctx: ctx.messages[::-1])).start()
    await run.process_input(messages)
    assert lines(run.message_list.conversation) == ["user:three", "user:two", "assistant:memory", "user:one"]


async def test_times_decide_no_order() -> None:
    """M01: a message stamped 1970 stays where it was put."""
    old = Message.user("old", created_at=datetime(1970, 1, 1, tzinfo=UTC))
    run = chain(Hooks("A", process_input=lambda ctx: [*ctx.messages, old])).start()
    await run.process_input("Hi")
    assert lines(run.message_list.conversation) == ["user:Hi", "user:old"]


async def test_a_message_added_at_the_end_is_kept_as_it_is() -> None:
    """M04: neither merged into the answer nor taken for it."""
    a = Hooks("A", process_output_result=lambda ctx: [*ctx.messages, Message.assistant("extra")])
    run = chain(a).start()
    await run.process_input("Hi")
    await run.process_output_step("answer")
    await run.process_output_result()
    assert lines(run.message_list.conversation) == ["user:Hi", "assistant:answer", "assistant:extra"]


async def test_a_renamed_message_takes_its_own_place() -> None:
    """M04: the same text under a new id replaces the message."""
    a = Hooks("A", process_output_result=lambda ctx: [replace(message, id="new") for message in ctx.messages])
    run = chain(a).start()
    await run.process_output_step("answer")
    await run.process_output_result()
    assert [message.id for message in run.message_list.conversation] == ["new"]


async def test_system_messages_returned_once_are_not_taken_for_anothers() -> None:
    """M07: a processor that returns the system messages it was shown with one more doubles none of the tagged ones."""

    def more(ctx: Any) -> Any:
        return ctx.message_list.replace_system([*ctx.message_list.tagged(None), Message.system("more")])

    run = chain(Hooks("A", process_input=more)).start()
    await run.process_input(conversation("Hi", tagged={"owner": "tagged"}))
    assert [message.text for message in run.message_list.system] == ["Sys", "more", "tagged"]
