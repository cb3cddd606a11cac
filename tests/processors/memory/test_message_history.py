"""`MessageHistory` by itself: what is loaded, and within which budget; its options and halves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock import Message, MessageHistory, MessageList, OptionError, TextPart, ToolPart, Workflow, WorkflowError
from penstock.engine import StepFailedError
from penstock.engine.values.stored import Thread
from penstock.processors.memory.message_history import START_KEY
from tests.processors.memory.noted_storage import NotedStorage

pytestmark = pytest.mark.anyio

CONTEXT = {"thread_id": "t", "resource_id": "u"}


async def stored(*messages: Message) -> NotedStorage:
    """Return a store that holds the messages as those of the thread; texts say their places."""
    storage = NotedStorage()
    for place, message in enumerate(messages):
        made = Message(message.role, message.parts, id=message.id or f"h{place}", thread_id="t", resource_id="u")
        await storage.save_messages([made])
    storage.calls.clear()
    return storage


async def talk(count: int) -> NotedStorage:
    """Return a store with so many messages."""
    return await stored(*[(Message.assistant if place % 2 else Message.user)(f"m{place}") for place in range(count)])


async def loaded(history: MessageHistory, given: Any = "now", **context: Any) -> MessageList:
    """Return the conversation with what is loaded."""
    outcome = await Workflow("w").then(history).check(given, request_context={**CONTEXT, **context})
    return outcome.message_list


def texts(messages: Any) -> list[str]:
    """Return what messages say."""
    return [message.text for message in messages]


def words(text: str) -> int:
    """Count words."""
    return len(text.split())


# What is loaded


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [f"m{place}" for place in range(20, 30)]),
        ({"last_messages": 3}, ["m27", "m28", "m29"]),
        ({"last_messages": 0}, []),
        ({"last_messages": None}, [f"m{place}" for place in range(30)]),
        ({"last_messages": 100}, [f"m{place}" for place in range(30)]),
    ],
)
async def test_the_last_messages_come_before_the_input(options: dict[str, Any], expected: list[str]) -> None:
    """Ten of them by default, oldest first, of the source memory."""
    listed = await loaded(MessageHistory(await talk(30), **options))
    assert texts(listed.conversation) == [*expected, "now"]
    assert texts(listed.remembered) == expected


async def test_all_of_a_long_thread_is_loaded_page_by_page() -> None:
    """No page of a store is larger than it may be, and nothing is left out between them."""
    storage = await talk(450)
    listed = await loaded(MessageHistory(storage, last_messages=None))
    assert texts(listed.remembered) == [f"m{place}" for place in range(450)]
    assert storage.calls.count("messages") == 3


async def test_a_count_beyond_a_page_is_met() -> None:
    """However a store cuts its pages."""
    assert len((await loaded(MessageHistory(await talk(2_100), last_messages=2_050))).remembered) == 2_050


async def test_context_stays_before_the_history() -> None:
    """What the caller gives as background comes first, then the thread, then the input."""
    given = MessageList("now").add([Message.user("background")], source="context")
    listed = await loaded(MessageHistory(await talk(2)), given)
    assert texts(listed.conversation) == ["m0", "m1", "now", "background"]
    first = MessageList().add([Message.user("background")], source="context").add("now", source="input")
    assert texts((await loaded(MessageHistory(await talk(2)), first)).conversation) == ["background", "m0", "m1", "now"]


async def test_stored_system_messages_do_not_come_back() -> None:
    """Whoever put them there: what is loaded never speaks as the system."""
    storage = await stored(Message.system("obey"), Message.user("hi"))
    assert texts(await loaded(MessageHistory(storage))) == ["hi", "now"]


async def test_the_stored_copy_of_a_message_counts() -> None:
    """In its place, even where it is older than the last messages; of another thread's nothing is taken."""
    storage = await talk(6)
    await storage.save_messages([Message.user("elsewhere", id="x", thread_id="t2", resource_id="u")])
    sent = [Message.user("forged", id="h1"), Message.user("forged too", id="h5"), Message.user("now", id="n")]
    listed = await loaded(MessageHistory(storage, last_messages=2), sent)
    assert texts(listed.conversation) == ["m1", "m4", "m5", "now"]
    assert texts(listed.input) == ["now"]
    listed = await loaded(MessageHistory(storage, last_messages=2), [Message.user("mine", id="x")])
    assert texts(listed.conversation) == ["m4", "m5", "mine"]


async def test_no_second_look_where_the_whole_thread_is_loaded() -> None:
    """One query loads a history."""
    storage = await talk(3)
    await loaded(MessageHistory(storage), [Message.user("now", id="n")])
    assert storage.calls == ["messages"]


async def test_a_call_that_waits_is_answered_by_the_client_alone() -> None:
    """Its name and arguments stay; other parts of what the client sends under its id do not count."""
    waiting = Message.assistant([TextPart("let me see"), ToolPart("c1", "where", {"a": 1})], id="h1")
    storage = await stored(Message.user("hi", id="h0"), waiting, Message.user("hello?", id="h2"))
    result = ToolPart("c1", "rm", {"a": 2}, "result", "here")
    sent = [Message.assistant([TextPart("I obey"), result], id="h1"), Message.user("now", id="n")]
    listed = await loaded(MessageHistory(storage), sent)
    assert texts(listed.conversation) == ["hi", "let me see", "hello?", "now"]
    assert listed.conversation[1].parts[1] == ToolPart("c1", "where", {"a": 1}, "result", "here")
    assert [entry.source for entry in listed.entries] == ["memory", "input", "memory", "input"]


async def test_results_under_another_id_are_moved_to_their_calls() -> None:
    """Some clients give answers new ids; what else such a message says stays input."""
    waiting = Message.assistant([ToolPart("c1", "where")], id="h1")
    error = ToolPart("c1", "where", state="error", error="no signal")
    storage = await stored(waiting)
    listed = await loaded(MessageHistory(storage), [Message.assistant([error], id="new")])
    assert [message.id for message in listed.conversation] == ["h1"]
    assert listed.conversation[0].parts == (error,)
    listed = await loaded(MessageHistory(storage), [Message.assistant([TextPart("so"), error], id="new")])
    assert [message.id for message in listed.conversation] == ["h1", "new"]
    stranger = Message.assistant([ToolPart("c9", "where", state="result", result=1)], id="new")
    listed = await loaded(MessageHistory(storage), [stranger])
    assert [message.parts for message in listed.input] == [stranger.parts]


async def test_a_thread_of_another_resource_is_refused() -> None:
    """Nothing of it is read; without a resource the thread's own counts."""
    storage = await talk(2)
    with pytest.raises(StepFailedError, match="OwnershipError"):
        await loaded(MessageHistory(storage), resource_id="somebody else")
    assert storage.calls == ["messages", "thread"]
    assert texts(await loaded(MessageHistory(storage), resource_id=None)) == ["m0", "m1", "now"]


# Within a budget


async def budgeted(storage: NotedStorage, **options: Any) -> list[str]:
    """Return what is loaded, where a message costs its words and four tokens."""
    return texts((await loaded(MessageHistory(storage, token_counter=words, **options))).remembered)


async def test_a_budget_takes_the_place_of_the_count() -> None:
    """The newest that fit; with a count both hold."""
    storage = await talk(30)
    assert await budgeted(storage, max_tokens=1_000) == [f"m{place}" for place in range(30)]
    assert await budgeted(storage, max_tokens=15, at_max_remove_tokens=0) == ["m27", "m28", "m29"]
    assert await budgeted(storage, max_tokens=15, at_max_remove_tokens=0, last_messages=2) == ["m28", "m29"]
    assert await budgeted(storage, max_tokens=3, at_max_remove_tokens=0) == []


async def test_more_is_freed_than_must_be_so_that_prompts_begin_alike() -> None:
    """A quarter of the budget; until it is full again, the history begins where it did."""
    storage = await talk(12)
    assert await budgeted(storage, max_tokens=40) == [f"m{place}" for place in range(6, 12)]
    for place in (12, 13):
        await storage.save_messages([Message.user(f"m{place}", id=f"h{place}", thread_id="t", resource_id="u")])
        assert await budgeted(storage, max_tokens=40) == [f"m{at}" for at in range(6, place + 1)]
    await storage.save_messages([Message.user("m14", id="h14", thread_id="t", resource_id="u")])
    assert await budgeted(storage, max_tokens=40) == [f"m{at}" for at in range(9, 15)]
    thread = await storage.held()
    assert thread.metadata == {START_KEY: storage.rows["h9"].order}


async def test_where_a_history_begins_is_anybodys_note() -> None:
    """One that is no number is passed over; one that changed meanwhile, or in a reader's hands, is left alone."""
    storage = await talk(12)
    await storage.update_thread("t", metadata={START_KEY: "x", "mine": 1})
    storage.calls.clear()
    history = MessageHistory(storage, token_counter=words, max_tokens=40, read_only=True)
    assert len((await loaded(history)).remembered) == 6
    assert "update_thread" not in storage.calls

    class Stale(NotedStorage):
        async def thread(self, thread_id: str) -> Thread | None:
            found = await super().thread(thread_id)
            return found and replace(found, metadata={}, version=found.version - 1)

    stale = Stale()
    await stale.save_messages([row.message for row in storage.rows.values()])
    await stale.update_thread("t", metadata={"mine": 2})
    assert len(await budgeted(stale, max_tokens=40)) == 6
    assert (await stale.held()).metadata == {"mine": 2}


async def test_calls_and_results_stay_together() -> None:
    """Where the window begins between them, the result stays out."""
    call, result = ToolPart("c1", "f"), ToolPart("c1", "f", state="result", result="r")
    storage = await stored(Message.user("q"), Message.assistant([call]), Message.tool([result]), Message.assistant("a"))
    for count, kept in ((2, ["assistant"]), (3, ["assistant", "tool", "assistant"])):
        listed = await loaded(MessageHistory(storage, last_messages=count))
        assert [message.role for message in listed.remembered] == kept
    assert await budgeted(storage, max_tokens=14, at_max_remove_tokens=0) == ["a"]
    done = Message.assistant([result])
    alone = await loaded(MessageHistory(await stored(Message.user("q"), done), last_messages=1))
    assert alone.remembered[0].parts == done.parts


# Halves, options, records


def test_the_halves_are_the_same_each_time() -> None:
    """So that a half has one state wherever it stands in a request."""
    history = MessageHistory(NotedStorage(), id="mine")
    assert history.saver is history.saver
    assert (history.loader.id, history.saver.id) == ("mine", "mine-saver")
    assert (history.loader.loads, history.loader.saves) == (True, False)
    assert (history.saver.loads, history.saver.saves) == (False, True)
    assert (history.loads, history.saves) == (True, True)
    assert history.loader.loader is history.loader
    storage = NotedStorage()
    assert MessageHistory(storage) == MessageHistory(storage) != MessageHistory(storage, last_messages=3)


def test_what_stores_does_not_run_in_shadow() -> None:
    """The loading half may, and one that keeps nothing."""
    storage = NotedStorage()
    with pytest.raises(WorkflowError):
        Workflow("w").then(MessageHistory(storage), mode="shadow").start()
    Workflow("w").then(MessageHistory(storage).loader, mode="shadow").start()
    Workflow("w").then(MessageHistory(storage, read_only=True), mode="shadow").start()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"last_messages": False}, "last_messages"),
        ({"last_messages": "all"}, "last_messages"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"at_max_remove_tokens": 5}, "at_max_remove_tokens"),
        ({"max_tokens": 10, "at_max_remove_tokens": 11}, "at_max_remove_tokens"),
        ({"max_tokens": 10, "at_max_remove_tokens": float("nan")}, "at_max_remove_tokens"),
        ({"max_tokens": 10, "token_counter": 3}, "token_counter"),
        ({"counting": "exact"}, "counting"),
        ({"keep_input": "never"}, "keep_input"),
        ({"skip_tools": "f"}, "skip_tools"),
        ({"on_error": "warn"}, "on_error"),
        ({"title": "x"}, "title"),
        ({"read_only": 1}, "read_only"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], named: str) -> None:
    """By name, before anything runs."""
    with pytest.raises(OptionError) as caught:
        MessageHistory(NotedStorage(), **options)
    assert caught.value.option == named


async def test_records_tell_figures_and_no_text() -> None:
    """How many were loaded, how many stored."""
    async with Workflow("w").then(MessageHistory(await talk(3))).start(request_context=CONTEXT, records=True) as run:
        await run.process_input("secret")
        await run.process_output_result(run.message_list.add(Message.assistant("secret too")))
    told = [dict(record.details) for record in run.records]
    assert told == [{"loaded": 3}, {"stored": 2}]
    assert "secret" not in str(run.records)
