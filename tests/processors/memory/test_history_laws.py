"""What holds of every thread, window and client: nothing is doubled, invented, or torn apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
from hypothesis import given, settings, strategies as st

from penstock import Message, MessageHistory, MessageList, TextPart, ToolPart, Workflow
from tests.laws import examples
from tests.processors.memory.noted_storage import NotedStorage

CONTEXT: dict[str, Any] = {"thread_id": "t", "resource_id": "u"}
IDS = [f"h{place}" for place in range(12)]


def tool(state: str) -> st.SearchStrategy[ToolPart]:
    """Return parts of tools' traffic, few enough ids for pairs."""
    made = st.builds(ToolPart, st.sampled_from("abc"), st.just("f"), state=st.just(state))
    return made if state == "call" else made.map(lambda part: replace(part, result="r"))


says = st.builds(TextPart, st.sampled_from(["x", "x y z", ""]))
messages = st.one_of(
    st.builds(Message.user, st.lists(says, min_size=1, max_size=1)),
    st.builds(Message.assistant, st.lists(st.one_of(says, tool("call"), tool("result")), min_size=1, max_size=3)),
    st.builds(Message.tool, st.lists(tool("result"), min_size=1, max_size=2)),
    st.builds(Message.system, st.lists(says, min_size=1, max_size=1)),
)
threads = st.lists(messages, max_size=10)
options = st.fixed_dictionaries(
    {},
    optional={
        "last_messages": st.sampled_from([None, 0, 1, 2, 5]),
        "max_tokens": st.sampled_from([0, 5, 20, 60]),
        "read_only": st.booleans(),
    },
)


def words(text: str) -> int:
    """Count words."""
    return len(text.split())


async def begun(thread: list[Message], sent: list[Message], chosen: dict[str, Any]) -> tuple[NotedStorage, MessageList]:
    """Return a store that holds the thread, and the conversation that begins with it."""
    storage = NotedStorage()
    for place, message in enumerate(thread):
        await storage.save_messages([replace(message, id=IDS[place], **CONTEXT)])
    history = MessageHistory(storage, token_counter=words, **chosen)
    outcome = await Workflow("w").then(history).check(MessageList(sent), request_context=dict(CONTEXT))
    return storage, outcome.message_list


@settings(max_examples=examples(150))
@given(
    threads, st.lists(st.tuples(messages, st.sampled_from([*IDS, ""])), max_size=4, unique_by=lambda it: it[1]), options
)
def test_a_history_is_the_end_of_its_thread_and_the_clients_words_are_input(
    thread: list[Message], sent: list[tuple[Message, str]], chosen: dict[str, Any]
) -> None:
    """Ids once, stored order kept, stored words unchanged, nothing of the system's, no result before its call."""
    given_ids = {id for _, id in sent}
    sending = [replace(message, id=id) for message, id in sent if message.role != "system"]
    storage, listed = anyio.run(begun, thread, sending, chosen)
    ids = [message.id for message in listed.conversation]
    assert len(ids) == len(set(ids))
    stored = [entry for entry in listed.entries if entry.message.id in storage.rows]
    orders = [storage.rows[entry.message.id].order for entry in stored]
    assert orders == sorted(orders)
    for entry in stored:
        before = storage.rows[entry.message.id].message
        assert entry.message.role == before.role != "system"
        assert entry.message.text == before.text
        assert entry.source == "memory" or entry.message != before
    loaded = [entry for entry in stored if entry.message.id not in given_ids]
    if chosen.get("last_messages") is not None:
        assert len(loaded) <= chosen["last_messages"]
    assert {entry.source for entry in listed.entries if entry.message.id not in storage.rows} <= {"input"}


@settings(max_examples=examples(100))
@given(threads, options)
def test_what_is_loaded_fits_its_budget(thread: list[Message], chosen: dict[str, Any]) -> None:
    """And is the end of the thread, where nothing must stay out for a call that is older."""
    storage, listed = anyio.run(begun, thread, [], chosen)
    history = MessageHistory(storage, token_counter=words, **{"max_tokens": 60, **chosen})
    prices = history._window._prices
    assert prices is not None
    if "max_tokens" in chosen:
        assert sum(map(prices.kept, listed.remembered)) <= chosen["max_tokens"]
    told = [id for id in IDS[: len(thread)] if storage.rows[id].message.role not in ("system", "tool")]
    loaded = [message.id for message in listed.remembered if message.role != "tool"]
    assert loaded == told[len(told) - len(loaded) :]
