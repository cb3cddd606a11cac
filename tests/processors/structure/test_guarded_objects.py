"""Objects and guards: whatever an object says, the guards around it have seen, wherever each of them stands."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from penstock import (
    Message,
    MessageList,
    OutputResultContext,
    OutputStepContext,
    PIIDetector,
    RegexFilterProcessor,
    StructuredOutputProcessor,
    Workflow,
    processor,
)
from penstock.engine.processor.context import AnyContext
from penstock.engine.processor.stages import StageName
from penstock.engine.values.frozen import thaw
from penstock.processors.structure import OBJECT
from penstock.testing import ScriptedModel


class Contact(BaseModel):
    """Somebody."""

    name: str
    mail: str


HIDDEN = r'{"name": "Joe", "mail": "joe\u0040example.com"}'
MADE = [{"object": {"name": "Joe", "mail": "joe@example.com"}}]
PROSE = "Joe's address is joe at example dot com."
CLEAN = Contact(name="Joe", mail="[EMAIL]")


def redactor() -> RegexFilterProcessor:
    """Return a guard that redacts addresses, in whole answers."""
    return RegexFilterProcessor(presets=["pii"], strategy="redact", phase="output")


async def ended(workflow: Workflow, text: str) -> Any:
    """Run a request that is answered so; return the last outcome."""
    async with workflow.start() as run:
        await run.process_input("Who?")
        await run.process_input_step()
        async with run.process_output_stream([text]) as chunks:
            async for _ in chunks:
                pass
        outcome = chunks.judged
        if outcome is None:
            outcome = await run.process_output_step(chunks.message, finish_reason="stop")
        if outcome.blocked or outcome.stage == "process_output_result":
            return outcome
        return await run.process_output_result()


@pytest.mark.parametrize("guard_first", [True, False])
@pytest.mark.parametrize("text", [HIDDEN, PROSE])
async def test_what_the_text_does_not_show_is_shown_to_guards(text: str, *, guard_first: bool) -> None:
    """What an escape would hide, and what a second model made of a harmless text: in both orders."""
    makes = StructuredOutputProcessor(Contact, ScriptedModel(MADE))
    items = [redactor(), makes] if guard_first else [makes, redactor()]
    workflow = Workflow("w")
    for item in items:
        workflow = workflow.then(item)
    outcome = await ended(workflow, text)
    assert outcome.fact(OBJECT) == CLEAN
    assert "joe@example.com" not in str([thaw(chunk.payload) for chunk in outcome.data])
    assert [message.text for message in outcome.messages] == [text.replace(r"joe\u0040example.com", "[EMAIL]")]


async def test_what_was_redacted_in_the_stream_is_not_in_the_object() -> None:
    """It is made of what left."""
    workflow = Workflow("w").then(StructuredOutputProcessor(Contact)).then(redactor())
    outcome = await ended(workflow, '{"name": "Joe", "mail": "joe@example.com"}')
    assert outcome.fact(OBJECT) == CLEAN


async def test_a_guard_blocks_what_only_the_object_says() -> None:
    """And there is no object then."""
    for guard_first in (True, False):
        makes = StructuredOutputProcessor(Contact, ScriptedModel(MADE))
        guard = PIIDetector(strategy="block", phase="output")
        first, second = (guard, makes) if guard_first else (makes, guard)
        outcome = await ended(Workflow("w").then(first).then(second), PROSE)
        assert outcome.tripwire.processor_id == "pii-detector"
        assert (outcome.fact(OBJECT), outcome.data) == (None, ())


@processor("process_output_step", edits="spans")
def in_the_step(ctx: OutputStepContext) -> MessageList:
    """Redact at the end of a step only."""
    return ctx.message_list.map_text(lambda text: text.replace("joe@example.com", "[EMAIL]"))


@processor("process_output_result", edits="spans")
def at_the_end(ctx: OutputResultContext) -> MessageList:
    """Redact at the end of the run only."""
    return ctx.message_list.map_text(lambda text: text.replace("joe@example.com", "[EMAIL]"))


@pytest.mark.parametrize("guard", [in_the_step, at_the_end])
async def test_around_guards_every_one_of_them_sees_the_object(guard: Any) -> None:
    """Whichever stage it judges in."""
    workflow = Workflow("w")
    for item in StructuredOutputProcessor(Contact, ScriptedModel(MADE)).around(guard):
        workflow = workflow.then(item)
    outcome = await ended(workflow, PROSE)
    assert outcome.fact(OBJECT) == CLEAN
    assert [message.text for message in outcome.messages] == [PROSE]


class Short(BaseModel):
    """What a redaction makes too long."""

    mail: str = Field(max_length=5)


@processor("process_output_result")
def lengthens(ctx: OutputResultContext) -> MessageList:
    """Make every `a@b.c` longer than the schema allows."""
    return ctx.message_list.map_text(lambda text: text.replace("a@b.c", "[REDACTED]"))


@processor("process_output_result")
def breaks(ctx: OutputResultContext) -> list[Message]:
    """Put a notice in the place of all that was said."""
    return [message.with_parts(Message.assistant("[removed]").parts) for message in ctx.messages]


@processor("process_output_result")
def takes_away(ctx: OutputResultContext) -> MessageList:
    """Leave nothing but the answer."""
    return ctx.message_list.remove(*(message.id for message in ctx.messages[:-1]))


@pytest.mark.parametrize("guard", [lengthens, breaks, takes_away])
async def test_an_object_that_guards_left_unfit_is_not_given(guard: Any) -> None:
    """The strategy decides; never the object as it was."""
    for options, told in (
        ({}, (True, None)),
        ({"error_strategy": "warn"}, (False, None)),
        ({"error_strategy": "fallback", "fallback_value": {"mail": "none"}}, (False, Short(mail="none"))),
    ):
        makes = StructuredOutputProcessor(Short, ScriptedModel([{"object": {"mail": "a@b.c"}}]), **options)
        outcome = await ended(Workflow("w").then(guard).then(makes), "Write to a at b dot c.")
        assert (outcome.blocked, outcome.fact(OBJECT)) == told
        assert "a@b.c" not in str(outcome.tripwire)


async def test_an_edit_that_hides_again_is_not_believed() -> None:
    """An answer whose text does not show what it says at the end has no object."""

    @processor("process_output_result")
    def hides(ctx: OutputResultContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("joe@", r"joe\u0040"))

    workflow = Workflow("w").then(hides).then(StructuredOutputProcessor(Contact))
    outcome = await ended(workflow, '{"name": "Joe", "mail": "joe@example.com"}')
    assert thaw(outcome.tripwire.metadata)["errors"][0]["kind"] == "hidden"


async def test_what_json_escapes_is_shown_as_it_is() -> None:
    """A line end within a number hides it from nobody."""
    made = [{"object": {"name": 'a "b"', "mail": "line one\njoe@example.com"}}]
    workflow = Workflow("w").then(StructuredOutputProcessor(Contact, ScriptedModel(made))).then(redactor())
    assert (await ended(workflow, PROSE)).fact(OBJECT) == Contact(name='a "b"', mail="line one\n[EMAIL]")


async def test_an_object_of_an_answer_that_was_not_the_last_is_gone() -> None:
    """The model is not shown it, and it is not given."""
    model = ScriptedModel([*MADE, {"object": {"name": "Ann", "mail": "none"}}])
    workflow = Workflow("w").then(StructuredOutputProcessor(Contact, model))
    async with workflow.start() as run:
        await run.process_input("Who?")
        await run.process_input_step()
        first = await run.process_output_step(PROSE, finish_reason="stop")
        assert len(first.message_list.response) == 2
        assert len((await run.process_input_step()).message_list.response) == 1
        await run.process_output_step("Ann has none.", finish_reason="stop")
        outcome = await run.process_output_result()
    assert outcome.fact(OBJECT) == Contact(name="Ann", mail="none")
    assert [message.text for message in outcome.messages] == [PROSE, "Ann has none."]


async def test_without_input_stages_an_object_that_was_not_the_last_is_gone_too() -> None:
    """Where only the output array has the processor."""
    model = ScriptedModel([*MADE, *MADE])
    async with Workflow("w").then(StructuredOutputProcessor(Contact, model)).start() as run:
        await run.process_output_step(PROSE, finish_reason="stop")
        second = await run.process_output_step(PROSE, finish_reason="stop")
        assert len(second.message_list.response) == 3
        third = await run.process_output_step("I look again.", finish_reason="tool-calls")
        assert [message.text for message in third.message_list.response] == [PROSE, PROSE, "I look again."]


async def test_the_answer_stays_the_last_that_was_said() -> None:
    """Steps behind, and the agent, read it as before."""
    seen: list[str] = []

    @processor("process_output_step", role="observer")
    def reads(ctx: OutputStepContext) -> None:
        seen.append(ctx.text)

    await ended(Workflow("w").then(StructuredOutputProcessor(Contact, ScriptedModel(MADE))).then(reads), PROSE)
    assert seen == [PROSE]


def takes_out(stage: StageName) -> Any:
    """Return a guard that takes a word out, in one stage."""

    def guard(ctx: AnyContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("secret", "***"))

    return processor(stage, edits="spans", id=f"guard-{stage.replace('_', '-')}")(guard)


def quoted(text: str, random: Random) -> str:
    """Write a text as JSON does, but some characters as escapes that it does not need."""
    plain = [json.dumps(char, ensure_ascii=False)[1:-1] for char in text]
    escaped = [f"\\u{ord(char):04x}" for char in text]
    return '"' + "".join(random.choices(pair, (4, 1))[0] for pair in zip(plain, escaped, strict=True)) + '"'


WORDS = st.lists(st.sampled_from(["sec", "ret", "secret", "\n", '"', "\\", "x"])).map("".join)


@given(
    st.dictionaries(st.text("abc\n{}", max_size=4), WORDS),
    st.randoms(use_true_random=False),
    st.sampled_from(["process_output_step", "process_output_result"]),
)
def test_no_object_says_what_a_guard_takes_out(data: dict[str, str], random: Random, stage: StageName) -> None:
    """However the answer writes it, and in whichever stage the guard judges."""
    answer = ", ".join(f"{quoted(key, random)}: {quoted(value, random)}" for key, value in data.items())
    workflow = Workflow("w")
    for item in StructuredOutputProcessor(dict[str, str]).around(takes_out(stage)):
        workflow = workflow.then(item)
    run = workflow.start_sync()
    run.process_output_step(f"{{{answer}}}", finish_reason="stop")
    found = run.process_output_result().fact(OBJECT)
    assert found == {key: value.replace("secret", "***") for key, value in data.items()}
