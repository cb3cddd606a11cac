"""Whether the views that a list takes over from the list before it are those that it would make itself."""

from __future__ import annotations

import pickle
from typing import Any, get_args

from hypothesis import given, settings, strategies as st

from penstock import Message, MessageList, ToolPart
from penstock.engine.values.message_list import Source
from tests.laws import examples

IDS = [f"m{number}" for number in range(8)]
ROLES: Any = {"user": Message.user, "assistant": Message.assistant, "system": Message.system}


def message(id: str, role: str, text: str, call: str) -> Message:
    """Return a message, an answer with a call."""
    if role == "assistant" and call:
        return Message.assistant([ToolPart(call, "look")], id=id)
    made: Message = ROLES[role](text, id=id)
    return made


messages = st.builds(
    message, st.sampled_from(IDS), st.sampled_from([*ROLES]), st.sampled_from("xyz"), st.sampled_from(["", "a", "b"])
)
changes = st.tuples(
    st.sampled_from(["add", "replace", "remove", "edit", "read"]),
    messages,
    st.sampled_from(["input", "memory", "response", "context"]),
    st.sampled_from([None, "owner"]),
)


def changed(before: MessageList, change: str, given: Message, source: Any, tag: str | None) -> MessageList:
    """Return the list with one change; unchanged where it has no such message."""
    if change == "add":
        return before.add(given, source=source, tag=tag)
    if change == "edit":
        return before.map_text(lambda text: text + "!", kinds=("text",))
    if given.id in before:
        return before.replace(given) if change == "replace" else before.remove(given.id)
    return before


def views(of: MessageList) -> list[object]:
    """Return all that a list can be asked for."""
    found = [of.get(id) for id in [*IDS, "none"]]
    sources = [of.of(source) for source in get_args(Source)]
    return [found, sources, of.conversation, of.system, of.tagged("owner"), of.call_ids, [id in of for id in IDS]]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), changes), max_size=12))
def test_a_list_has_the_views_of_its_messages(steps: list[tuple[int, Any]]) -> None:
    """Each list may grow into several others: none of them changes what another one finds."""
    lists = [MessageList()]
    for start, (change, *rest) in steps:
        before = lists[start % len(lists)]
        if change == "read":
            views(before)
        else:
            lists.append(changed(before, change, *rest))
    for each in lists:
        assert views(each) == views(MessageList().with_entries(list(each.entries)))
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301


def test_messages_of_one_id_are_all_replaced() -> None:
    """A list of the engine's own making may hold an id twice: no copy of a text stays."""
    twice = MessageList("secret").entries * 2
    listed = MessageList().with_entries(twice)
    id = twice[0].message.id
    assert [one.text for one in listed.replace(Message.user("hidden", id=id))] == ["hidden", "hidden"]
    assert [one.text for one in listed.map_text(lambda _: "hidden")] == ["hidden", "hidden"]
