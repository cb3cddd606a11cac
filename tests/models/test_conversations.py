"""Lists laid out anew: order, sources and owners, inside a hook and outside."""

from penstock import InputContext, Message, MessageList, Processor, Workflow
from penstock.engine.values.message_list import Entry
from penstock.models.conversations import list_with_entries, replace_messages, replace_source


def listed() -> MessageList:
    """Return a list of all sources."""
    made = MessageList([Message.user("1", id="1"), Message.user("2", id="2")], source="memory")
    return made.add([Message.system("s", id="s")], tag="t").add(Message.user("x", id="x"))


def told(messages: MessageList) -> list[str]:
    """Return texts, sources and owners."""
    return [f"{entry.message.text}:{entry.source}:{entry.tag or ''}" for entry in messages.entries]


def test_one_message_can_become_several() -> None:
    """They stand where it stood, with its source; new ones are given ids."""
    made = replace_messages(listed(), {"1": (Message.user("a"), Message.user("b")), "x": ()})
    assert told(made) == ["a:memory:", "b:memory:", "2:memory:", "s:system:t"]
    assert all(message.id for message in made)


def test_messages_of_a_source_are_filled_in() -> None:
    """Fewer leave places empty, more follow the last; without any place they stand first."""
    fresh = [Message.user("a"), Message.user("b"), Message.user("c")]
    assert told(replace_source(listed(), "memory", fresh[:1])) == ["a:memory:", "s:system:t", "x:input:"]
    assert told(replace_source(listed(), "memory", fresh))[:3] == ["a:memory:", "b:memory:", "c:memory:"]
    assert told(replace_source(listed(), "context", fresh[:1]))[:2] == ["a:context:", "1:memory:"]


class Adding(Processor):
    """Says something more."""

    edits = "anything"

    def process_input(self, ctx: InputContext) -> MessageList:
        """Lay the list out anew."""
        messages = ctx.message_list
        return list_with_entries(messages, [*messages.entries, Entry(Message.user("again"), "input")])


class Shouting(Processor):
    """Says everything louder."""

    edits = "spans"

    def process_input(self, ctx: InputContext) -> MessageList:
        """Edit texts only."""
        return ctx.message_list.map_text(str.upper)


def test_a_hook_may_return_it() -> None:
    """It is of the hook's own lineage, and known to have changed more than texts: what is added survives a join."""
    outcome = Workflow("w").parallel(Adding(), Shouting(), merge="first").check_sync("a")
    assert [message.text for message in outcome.message_list] == ["A", "again"]
