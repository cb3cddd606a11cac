"""Whether a list of messages is a value: views, changes, lineage, texts, and what a hook may make of it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock import Edit, InputContext, Message, MessageList, TextPart, ToolPart, Workflow, processor
from penstock.engine import (
    DataPart,
    EditError,
    FilePart,
    MessageError,
    ReasoningPart,
    StepFailedError,
    TextPlace,
    UsageError,
)
from penstock.engine.values.texts import KeyText, UniqueKeys
from penstock.testing import CountingIds, VirtualClock


def listed(*texts: str) -> MessageList:
    """User messages under ids that count."""
    return MessageList([Message.user(text, id=str(number)) for number, text in enumerate(texts)])


def test_a_list_gives_ids_and_times_to_those_without() -> None:
    """From its ports; those that have one keep it."""
    clock = VirtualClock()
    messages = MessageList(
        ["a", "b"] and [Message.user("a"), Message.user("b", id="own")], ids=CountingIds(), clock=clock
    )
    assert [message.id for message in messages] == ["id-1", "own"]
    assert {message.created_at for message in messages} == {clock.now()}
    assert MessageList("hi").all[0].role == "user"
    assert MessageList(Message.assistant("hi")).all[0].role == "assistant"


@pytest.mark.parametrize("before", [(), (Message.user("other", id="x"),)])
def test_a_text_is_added_as_a_message_of_that_text_is(before: tuple[Message, ...]) -> None:
    """With an id and a time of the list."""
    made = [MessageList(before, ids=CountingIds("m-"), clock=VirtualClock()) for _ in range(2)]
    listed, message = made[0].with_text("user", "hello", "input")
    assert listed == made[1].add("hello")
    assert listed.get(message.id) == message
    assert [each.text for each in listed].count("hello") == 1


def test_views_pick_by_source() -> None:
    """In order; system messages are in none but their own."""
    messages = (
        MessageList("asked")
        .add("remembered", source="memory")
        .add(Message.assistant("answered"))
        .add("given", source="context")
        .add(Message.system("rules"))
        .add(Message.system("tagged"), tag="owner")
    )

    def texts(found: Any) -> list[str]:
        return [message.text for message in found]

    assert texts(messages.conversation) == ["asked", "remembered", "answered", "given"]
    assert (texts(messages.input), texts(messages.response)) == (["asked"], ["answered"])
    assert (texts(messages.remembered), texts(messages.of("context"))) == (["remembered"], ["given"])
    assert (texts(messages.system), texts(messages.tagged("owner"))) == (["rules", "tagged"], ["tagged"])
    assert (len(messages), texts(messages)[-1]) == (6, "tagged")
    assert messages.get("nobody") is None
    assert messages.conversation[0].id in messages
    assert "nobody" not in messages


def test_system_messages_of_others_come_first_and_are_not_doubled() -> None:
    """Untagged ones first; the same text of one owner is said once."""
    messages = (
        MessageList().add(Message.system("a"), tag="x").add(Message.system("b")).add(Message.system("a"), tag="x")
    )
    assert [message.text for message in messages.system] == ["b", "a"]
    replaced = messages.replace_system("c", tag="x")
    assert [message.text for message in replaced.system] == ["b", "c"]
    assert messages.replace_system((), tag="x").replace_system(()).system == ()
    (made,) = messages.replace_system([Message.user("as system")], tag="y").tagged("y")
    assert made.role == "system"


def test_a_change_gives_a_new_list_and_leaves_the_old() -> None:
    """add, replace, remove, clear: by id."""
    old = listed("a", "b")
    new = old.add(Message.user("A", id="0")).add("c").remove("1")
    assert [message.text for message in new] == ["A", "c"]
    assert [message.text for message in old.replace(Message.user("B", id="1"))] == ["a", "B"]
    assert [message.text for message in old] == ["a", "b"]
    mixed = old.add(Message.assistant("x"))
    assert len(mixed.clear("response")) == 2
    assert len(mixed.clear()) == 0


@pytest.mark.parametrize("change", [lambda m: m.remove("9"), lambda m: m.replace(Message.user("x", id="9"))])
def test_an_id_that_is_not_there_is_refused(change: Any) -> None:
    """With the cure."""
    with pytest.raises(UsageError, match=r"no message with that id.*add\(\) for a new"):
        change(listed("a"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "expected a str or messages, not int"),
        ([3], r"messages\[0\]: expected a Message, not int"),
        ([Message.user("a"), {"role": "user"}], r"messages\[1\]: use penstock.parse_messages"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(given: Any, words: str) -> None:
    """Where it is, and what is expected."""
    with pytest.raises(MessageError, match=words):
        MessageList(given)


def test_lists_compare_by_what_they_hold_and_print_no_text() -> None:
    """The lineage does not count."""
    messages = [Message.user("secret", id="1", created_at=VirtualClock().now())]
    assert MessageList(messages) == MessageList(messages)
    assert hash(MessageList(messages)) == hash(MessageList(messages))
    assert MessageList(messages) != MessageList(messages, source="memory")
    assert MessageList(messages) != "secret"
    assert repr(MessageList(messages)) == "MessageList(input:1)"


PARTS = [
    TextPart("t"),
    ReasoningPart("r"),
    ToolPart("c", "tool", {"q": ["a", {"k": "v"}]}, "result", {"n": 1, "s": "x"}, error="e"),
    FilePart(name="f"),
    DataPart("d", {"x": "y"}),
]


def test_texts_are_found_wherever_they_stand() -> None:
    """Keys of mappings included, and an application's own data."""
    messages = MessageList([Message.user(PARTS, id="1")])
    found = dict(messages.texts())
    assert found[TextPlace("1", 0)] == "t"
    assert found[TextPlace("1", 2, ("arguments", "q", 1, "k"))] == "v"
    assert found[TextPlace("1", 2, ("result", KeyText("s")))] == "s"
    assert sorted(found.values()) == sorted(["t", "r", "q", "a", "k", "v", "n", "s", "x", "e", "f", "x", "y"])
    assert [text for _, text in messages.texts(kinds=["data"])] == ["x", "y"]
    assert list(messages.texts([])) == []


def test_edits_are_made_where_they_say_and_remembered() -> None:
    """In positions of the text as it was handed out."""
    messages = MessageList([Message.user(PARTS, id="1")])
    place = TextPlace("1", 2, ("result", "s"))
    once = messages.edit_text({place: [Edit(0, 1, "[X]", "redact")], TextPlace("1", 0): [Edit(0, 0, "a ", "insert")]})
    twice = once.edit_text({TextPlace("1", 0): [Edit(0, 0, "b ", "insert")]})
    (message,) = twice.all
    assert message.parts[0] == TextPart("b a t")
    assert message.parts[2].result == {"n": 1, "s": "[X]"}
    assert [edit.text for edit in twice.known_edits.texts[TextPlace("1", 0)]] == ["b ", "a "]
    assert twice.replace(message).known_edits == (twice.known_edits.texts, False)


def test_a_key_is_edited_and_its_value_stays() -> None:
    """Two that become one are numbered."""
    messages = MessageList([Message.user([ToolPart("c", "t", {"ann": 1, "bob": 2})], id="1")])
    places = [TextPlace("1", 0, ("arguments", KeyText(name))) for name in ("ann", "bob")]
    edited = messages.edit_text({place: [Edit(0, 3, "[N]", "redact")] for place in places})
    assert edited.all[0].parts[0].arguments == {"[N]": 1, "[N] (2)": 2}


def test_a_number_that_a_key_has_already_is_left_out() -> None:
    """Keys that become equal are numbered around it, so that no value is lost."""
    keys = UniqueKeys()
    assert [keys.unique(key) for key in ("a", "a (2)", "a", "a")] == ["a", "a (2)", "a (3)", "a (4)"]


@pytest.mark.parametrize("place", [TextPlace("9", 0), TextPlace("1", 9), TextPlace("1", -1), TextPlace("1", 0, ("x",))])
def test_a_place_that_is_not_there_is_refused(place: TextPlace) -> None:
    """Message, part, or path."""
    with pytest.raises(UsageError):
        MessageList([Message.user("hi", id="1")]).edit_text({place: [Edit(0, 1)]})


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("call_id",),
        ("arguments",),
        ("arguments", "missing"),
        ("arguments", KeyText("missing")),
        ("arguments", "q", "k"),
        ("arguments", "q", 2),
        ("arguments", "q", -1),
        ("arguments", "q", 0, 0),
        ("result", "ok"),
    ],
)
def test_a_path_to_what_is_no_text_is_refused(path: Any) -> None:
    """A field that holds no text, a key or an index that is not there, a value that is no string, or beyond a text."""
    messages = MessageList([Message.user(PARTS, id="1")])
    with pytest.raises(UsageError, match="no text there"):
        messages.edit_text({TextPlace("1", 2, path): [Edit(0, 0, "x", "insert")]})


def test_every_text_is_edited_at_its_place() -> None:
    """Each alone, whatever part it stands in, keys included; all others stay."""
    messages = MessageList([Message.user(PARTS, id="1")])
    texts = dict(messages.texts())
    for place, text in texts.items():
        edited = dict(messages.edit_text({place: [Edit(0, 0, "+", "insert")]}).texts())
        assert sorted(edited.values()) == sorted([f"+{text}", *(other for at, other in texts.items() if at != place)])


def test_a_list_is_pickled_with_the_texts_after_edits_only() -> None:
    """What a hook hid is not in a copy that leaves the process, whether the messages were read before or not."""
    kept: list[bytes] = []

    @processor(edits="spans")
    def hides(ctx: InputContext) -> MessageList:
        hidden = ctx.message_list.map_text(lambda text: text.replace("secret", "***"))
        kept.append(pickle.dumps(hidden))
        return hidden

    outcome = Workflow("w").then(hides).check_sync("a secret")

    assert b"secret" not in kept[0]
    assert pickle.loads(kept[0]) == outcome.message_list  # noqa: S301 - it was pickled here


def test_edits_that_do_not_fit_are_refused() -> None:
    """And the text is not quoted."""
    with pytest.raises(EditError) as caught:
        MessageList([Message.user("secret", id="1")]).edit_text({TextPlace("1", 0): [Edit(0, 99)]})
    assert "secret" not in str(caught.value)


def test_texts_are_mapped_in_place() -> None:
    """Ids and order stay; only some messages, or kinds, where asked for."""
    messages = MessageList([Message.user("a", id="1"), Message.user(PARTS, id="2")])
    assert [message.text for message in messages.map_text(str.upper)] == ["A", "T"]
    assert [message.text for message in messages.map_text(str.upper, messages.conversation[:1])] == ["A", "t"]
    assert messages.map_text(str.upper, kinds=["reasoning"]).all[1].parts[1] == ReasoningPart("R")
    assert messages.map_text(str) == messages


# What a hook may return


def returned(result: Any, messages: Any = "hi") -> Any:
    """The messages after a hook that returns this."""

    @processor("process_input", id="step")
    def step(ctx: InputContext) -> Any:
        return result(ctx)

    return Workflow("w").then(step).check_sync(messages)


def test_messages_returned_fill_the_shown_slots_in_their_order() -> None:
    """New ones follow their predecessor; hidden ones stay where they are."""
    messages = (
        MessageList([Message.user("one", id="1")])
        .add(Message.assistant("hidden", id="h"))
        .add(Message.user("two", id="2"), source="input")
    )
    reverse = returned(lambda ctx: list(reversed(ctx.messages)), messages)
    assert [message.text for message in reverse.message_list] == ["two", "hidden", "one"]
    added = returned(lambda ctx: [ctx.messages[0], Message.user("new"), ctx.messages[1]], messages)
    assert [message.text for message in added.message_list] == ["one", "new", "hidden", "two"]
    assert [entry.source for entry in added.message_list.entries] == ["input", "input", "response", "input"]
    fewer = returned(lambda ctx: [ctx.messages[1]], messages)
    assert [message.text for message in fewer.message_list] == ["two", "hidden"]
    more = returned(lambda ctx: [Message.system("rules"), Message.user("head"), *ctx.messages], messages)
    assert [message.text for message in more.message_list] == ["head", "one", "hidden", "two", "rules"]
    known = returned(lambda ctx: [*ctx.messages, ctx.message_list.get("h")], messages)
    assert [message.text for message in known.message_list] == ["one", "hidden", "two"]
    fresh = returned(lambda ctx: [Message.user("a"), Message.user("b")], MessageList())
    assert [message.text for message in fresh.message_list] == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda ctx: [], "returned an empty list; return None for unchanged"),
        (lambda ctx: [*ctx.messages, *ctx.messages], "another message with the id of the one at"),
        (lambda ctx: ["hi"], r"returned a str at \[0\]"),
        (lambda ctx: 3, "returned an int; process_input takes None"),
        (lambda ctx: MessageList("hi"), "not derived from this call"),
        (lambda ctx: [Message.user("changed", id="h")], "changed message that process_input does not show"),
    ],
)
def test_what_a_hook_may_not_return_is_told_with_the_cure(result: Any, words: str) -> None:
    """A failure of the step."""
    messages = MessageList([Message.user("one", id="1")]).add(Message.assistant("hidden", id="h"))
    with pytest.raises(StepFailedError, match=words):
        returned(result, messages)


def test_a_list_is_cleared_on_purpose() -> None:
    """By the method that says so."""
    assert returned(lambda ctx: ctx.message_list.clear("input")).messages == ()


def test_places_can_be_kept() -> None:
    """In order, whatever order they are given in; what was edited is still on record."""
    messages = MessageList([Message.user("a", id="1"), Message.user("b", id="2"), Message.user("c", id="3")])
    place = TextPlace("3", 0, ("text",))
    edited = messages.edit_text({place: [Edit(0, 1, "C")], TextPlace("1", 0, ("text",)): [Edit(0, 1, "A")]})
    kept = edited.keep([2, 1, 2])
    assert [message.text for message in kept] == ["b", "C"]
    assert place in kept.known_edits.texts
    assert not kept.known_edits.complete
    with pytest.raises(IndexError):
        messages.keep([3])


def test_a_step_that_edits_spans_may_take_messages_out_anywhere_but_not_put_others_in() -> None:
    """At the beginning, at the end and in the middle; another order is more than that."""

    def kept(*places: int) -> list[str]:
        @processor("process_input", edits="spans")
        def takes_out(ctx: InputContext) -> MessageList:
            return ctx.message_list.keep(places)

        given = [Message.user(text, id=text) for text in "abcd"]
        return [message.text for message in Workflow("w").then(takes_out).check_sync(given).messages]

    assert [kept(0, 1), kept(2, 3), kept(0, 3), kept(1, 2), kept(0, 2)] == [
        ["a", "b"],
        ["c", "d"],
        ["a", "d"],
        ["b", "c"],
        ["a", "c"],
    ]

    @processor("process_input", edits="spans")
    def turns_round(ctx: InputContext) -> list[Message]:
        return list(reversed(ctx.messages))

    @processor("process_input", edits="spans")
    def doubles(ctx: InputContext) -> MessageList:
        return ctx.message_list.add("more")

    for hook in (turns_round, doubles):
        with pytest.raises(StepFailedError, match="changed more"):
            Workflow("w").then(hook).check_sync([Message.user("a"), Message.user("b")])


def test_system_messages_that_say_the_same_are_one_and_others_stay() -> None:
    """What they say is their text, or their parts if these are no texts."""
    notes = [Message.system([DataPart("n", number)]) for number in (1, 2)]
    messages = MessageList([Message.system("a"), Message.system("a"), *notes])
    assert [message.parts for message in messages.system] == [(TextPart("a"),), notes[0].parts, notes[1].parts]
    assert len(MessageList([Message.system("a", from_client=True, name=name) for name in "ab"]).system) == 2


def test_all_is_the_conversation_without_system_messages_and_entries_have_them() -> None:
    """In the order in which they were added, as docs/messages.md says."""
    messages = MessageList("hi").add(Message.system("Be brief."), tag="mine").add(Message.assistant("hello"))
    assert [entry.message.role for entry in messages.entries] == ["user", "system", "assistant"]
    assert [message.role for message in messages.all] == ["user", "assistant"]
    assert [message.role for message in messages.conversation] == ["user", "assistant"]


class Stuck:
    """A generator of ids that returns the same one each time."""

    def next(self) -> str:
        """Return it."""
        return "same"


def test_an_id_that_is_made_twice_is_an_error_and_replaces_no_message() -> None:
    """Whether the other message came before or with it; a message that has an id replaces the one with that id."""
    with pytest.raises(MessageError, match=r"'same'.*new id each time"):
        MessageList(ids=Stuck()).add([Message.user("one"), Message.user("two")])
    listed = MessageList(ids=Stuck()).add("one")
    with pytest.raises(MessageError, match=r"'same'.*new id each time"):
        listed.add("two")
    with pytest.raises(MessageError, match=r"'same'.*new id each time"):
        listed.with_text("user", "two", "input")
    assert [message.text for message in listed.add(Message.user("two", id="same"))] == ["two"]
    assert [message.text for message in listed] == ["one"]
