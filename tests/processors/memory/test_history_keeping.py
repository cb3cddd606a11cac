"""What `MessageHistory` keeps of a conversation, in which form, and what it takes back."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    InputStepContext,
    LLMRequestContext,
    Memory,
    Message,
    MessageHistory,
    MessageList,
    OutputResultContext,
    SQLiteStorage,
    TextPart,
    ToolPart,
    Workflow,
    processor,
)
from penstock.engine import DataPart, ReasoningPart, StepFailedError, StepStartPart
from penstock.processors.memory._storing import storable_message, without_working_memory
from penstock.testing import ScriptedModel
from tests.processors.memory.noted_storage import NotedStorage

pytestmark = pytest.mark.anyio

CONTEXT = {"thread_id": "t", "resource_id": "u"}


def texts(messages: Any) -> list[str]:
    """Return what messages say."""
    return [message.text for message in messages]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("  padded ", "  padded "),
        ("a <working_memory>x</working_memory> b", "a  b"),
        ("<working_memory>\nx\n</working_memory> hi ", "hi"),
        ('<working_memory scope="user">x</working_memory>hi', "hi"),
        ("one <working_memory>oops", "one <working_memory>oops"),
        ("<working_memory>a</working_memory><working_memory>b", "<working_memory>b"),
        ("</working_memory> <working_memory>", "</working_memory> <working_memory>"),
        ("<working_memory_data>x</working_memory_data>", "<working_memory_data>x</working_memory_data>"),
    ],
)
def test_elements_of_the_working_memory_are_taken_out_of_texts(text: str, left: str) -> None:
    """The text is trimmed if there were any; one that is not closed stays."""
    assert without_working_memory(text) == left


def test_a_hundred_thousand_openings_are_read_in_no_time() -> None:
    """Each place is looked at once: nothing is closed, so there is nothing to look for."""
    text = "<working_memory>" * 100_000
    assert without_working_memory(text) == text


def test_what_is_no_message_of_the_thread_is_not_kept() -> None:
    """The system's, what is meant for one run, what is not whole, the working memory's; the rest as it is."""
    assert storable_message(Message.system("obey")) is None
    assert storable_message(Message.user("note", metadata={"transient": True})) is None
    assert storable_message(Message.user("note", metadata={"signal": {"transient": True}})) is None
    assert storable_message(Message.assistant([StepStartPart(), ToolPart("c", "f", state="partial")])) is None
    assert storable_message(Message.assistant([ToolPart("c", "update_working_memory", state="result")])) is None
    assert storable_message(Message.assistant("<working_memory>x</working_memory>")) is None
    whole = Message.assistant([ReasoningPart("hm"), TextPart("yes"), ToolPart("c", "f"), DataPart("x", 1)])
    assert storable_message(whole) is whole
    shown = Message.assistant([TextPart("yes"), DataPart("x", 1, {"transient": True})])
    assert storable_message(shown) == shown.with_parts([TextPart("yes")])


async def saved(history: MessageHistory, listed: MessageList, **context: Any) -> None:
    """Run the last stage on a conversation."""
    async with Workflow("w").then(history).start(request_context={**CONTEXT, **context}) as run:
        await run.process_output_result(listed)


async def test_input_and_answers_are_kept_as_ones_of_the_thread() -> None:
    """In their order; what was remembered, or given as context, is not kept again."""
    storage = NotedStorage()
    listed = MessageList().add("old", source="memory").add("background", source="context").add("hi", source="input")
    listed = listed.add([Message.assistant("one"), Message.assistant("two")], source="response").add(
        Message.system("s")
    )
    await saved(MessageHistory(storage), listed)
    assert storage.of() == ["user:hi", "assistant:one", "assistant:two"]
    assert {(row.message.thread_id, row.message.resource_id) for row in storage.rows.values()} == {("t", "u")}
    assert storage.calls == ["save_messages"]


async def test_without_a_resource_a_thread_is_its_own() -> None:
    """Or whose it was before."""
    storage = NotedStorage()
    await saved(MessageHistory(storage), MessageList("hi"), resource_id=None)
    assert (await storage.held()).resource_id == "t"
    storage = NotedStorage()
    await storage.save_messages([Message.user("m0", id="h0", thread_id="t", resource_id="u")])
    await saved(MessageHistory(storage), MessageList("hi"), resource_id=None)
    assert storage.of() == ["user:m0", "user:hi"]
    assert {row.message.resource_id for row in storage.rows.values()} == {"u"}


async def test_the_input_is_kept_as_the_steps_left_it_not_as_the_prompt_was_shaped() -> None:
    """What shapes a prompt holds for its call; what changes the conversation stays, and is kept anew."""
    storage = NotedStorage()

    @processor(edits="spans")
    def redacts(ctx: InputStepContext) -> Any:
        return ctx.message_list.map_text(lambda text: text.replace(str(ctx.step_number), "#"))

    @processor
    def shapes(ctx: LLMRequestContext) -> Any:
        return [*ctx.messages[1:], Message.user("be brief")]

    workflow = Workflow("w").then(redacts).then(shapes).then(MessageHistory(storage))
    given = [Message.user("0 and 1", id="a"), Message.user("1 and 0", id="b")]
    async with workflow.start(request_context=CONTEXT) as run:
        await run.process_input(given)
        for kept in (["user:# and 1", "user:1 and #"], ["user:# and #", "user:# and #"]):
            await run.process_input_step()
            await run.process_llm_request(run.message_list)
            assert storage.of() == kept
            await run.process_llm_response([Message.assistant("x", id="r")])
    assert storage.calls.count("save_messages") == 2


async def test_what_a_later_step_takes_out_wholly_is_taken_out_of_the_store() -> None:
    """A message that says nothing any more is not left there as it was."""
    storage = NotedStorage()

    @processor(edits="anything")
    def empties(ctx: InputStepContext) -> Any:
        return None if ctx.step_number == 0 else ctx.message_list.replace(ctx.messages[0].with_parts(()))

    async with Workflow("w").then(empties).then(MessageHistory(storage)).start(request_context=CONTEXT) as run:
        await run.process_input([Message.user("secret", id="a")])
        for kept in (["user:secret"], []):
            await run.process_input_step()
            await run.process_llm_request(run.message_list)
            assert storage.of() == kept
            await run.process_llm_response([Message.assistant("x", id="r")])


async def test_in_the_wrong_place_it_takes_back_what_is_rejected_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    """A history belongs behind all others; where it does not stand there, the store is put right at the end."""
    storage = NotedStorage()

    @processor(edits="nothing")
    def guard(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    async with Workflow("w").then(MessageHistory(storage)).then(guard).start(request_context=CONTEXT) as run:
        await run.process_output_result(MessageList("hi").add(Message.assistant("bad")))
        assert storage.of() == ["user:hi", "assistant:bad"]
    assert storage.of() == ["user:hi"]
    assert "after all others" in caplog.text

    @processor(edits="nothing")
    def asks(ctx: LLMRequestContext) -> None:
        ctx.abort("no")

    storage = NotedStorage()
    async with Workflow("w").then(MessageHistory(storage)).then(asks).start(request_context=CONTEXT) as run:
        await run.process_input("hi")
        await run.process_input_step()
        await run.process_llm_request(run.message_list)
    assert storage.of() == []


async def test_in_the_wrong_place_it_keeps_what_is_left_in_the_end() -> None:
    """What is edited behind it is stored as it is then."""
    storage = NotedStorage()

    @processor(edits="spans")
    def redacts(ctx: OutputResultContext) -> Any:
        return ctx.message_list.map_text(lambda _: "#", ctx.messages)

    async with Workflow("w").then(MessageHistory(storage)).then(redacts).start(request_context=CONTEXT) as run:
        await run.process_output_result(MessageList("hi").add(Message.assistant("secret")))
    assert storage.of() == ["user:hi", "assistant:#"]


# Titles


async def test_a_new_thread_gets_a_title_once() -> None:
    """From its first messages; one that it has stays."""
    storage, asked = NotedStorage(), list[list[str]]()

    async def title(messages: Any) -> str:
        asked.append(texts(messages))
        return str(messages[0].text).title()

    history = MessageHistory(storage, title=title)
    await saved(history, MessageList("about rain").add(Message.assistant("it rains")))
    await saved(history, MessageList("and snow"))
    assert (await storage.held()).title == "About Rain"
    assert asked == [["about rain", "it rains"]]


@pytest.mark.parametrize("title", [lambda _: 1 / 0, lambda _: 3])
async def test_a_title_is_not_worth_a_request(title: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A function that fails is logged, without what it was given."""
    storage = NotedStorage()
    with caplog.at_level(logging.WARNING):
        await saved(MessageHistory(storage, title=title), MessageList("secret"))
    assert storage.of() == ["user:secret"]
    assert "has no title" in caplog.text
    assert "secret" not in caplog.text


async def test_a_title_of_odd_characters_is_one_that_stores_take() -> None:
    """What a user has sent may be half of a character; that is no reason to fail."""
    storage = SQLiteStorage(":memory:")
    history = MessageHistory(storage, title=lambda messages: messages[0].text)
    await saved(history, MessageList("a\x00b \ud800"))
    thread = await storage.thread("t")
    assert thread is not None
    assert thread.title == "ab ?"
    await storage.close()


@pytest.mark.parametrize("ends", ["removed", "failed", "cancelled"])
async def test_in_the_wrong_place_it_takes_back_what_nothing_behind_it_has_judged(ends: str) -> None:
    """A later processor removes the answer, breaks, or is cancelled before it has read it."""
    storage = NotedStorage()

    @processor(edits="anything")
    async def late(ctx: OutputResultContext) -> MessageList:
        if ends == "cancelled":
            scope.cancel()
            await anyio.sleep_forever()
        if ends == "failed":
            raise ZeroDivisionError
        return ctx.message_list.remove(ctx.messages[-1].id)

    with contextlib.suppress(StepFailedError), anyio.CancelScope() as scope:
        async with Workflow("w").then(MessageHistory(storage)).then(late).start(request_context=CONTEXT) as run:
            await run.process_output_result(MessageList("hi").add(Message.assistant("secret")))
    assert storage.of() == ["user:hi"]


@pytest.mark.parametrize(("last", "stored"), [("text-delta", []), ("finish", ["assistant:one two"])])
async def test_an_answer_that_was_not_sent_whole_is_not_stored(last: str, stored: list[str]) -> None:
    """Though it was held until it was judged, and the reader left only then."""
    storage = NotedStorage()
    agent = Agent(ScriptedModel([{"deltas": ["one ", "two"]}]), memory=Memory(storage), release="result")
    async with agent.stream("hi", **CONTEXT) as stream:
        async for chunk in stream:
            if chunk.type == last:
                break
    assert sorted(storage.of()) == [*stored, "user:hi"]
