"""A step's changes are found once, and those of consecutive steps add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Edit, InputContext, Key, Message, MessageList, Processor, Workflow
from penstock.engine import TextPlace
from penstock.engine.execution import boundary
from penstock.engine.merging import diff as diff_module
from penstock.engine.merging.changes import followed_by, rebuild
from penstock.engine.merging.diff import diff
from penstock.engine.processor.payload import NO_CHANGES, Changes, Gone, Payload, Put
from penstock.engine.values.edits import difference
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.texts import KeyText, KnownEdits
from penstock.testing import run_stage
from tests.laws import examples


class Hides(Processor):
    """Redacts a word."""

    edits = "spans"
    role = "transform"

    def __init__(self, word: str) -> None:
        self.word = word

    def process_input(self, ctx: InputContext) -> MessageList:
        """Redact it in every text."""
        found = {place: text.find(self.word) for place, text in ctx.message_list.texts(ctx.messages)}
        return ctx.message_list.edit_text(
            {place: [Edit(at, at + len(self.word), "#", "redact")] for place, at in found.items() if at >= 0}
        )


class Adds(Processor):
    """Adds a message."""

    edits = "anything"
    role = "transform"

    def __init__(self, text: str) -> None:
        self.text = text

    def process_input(self, ctx: InputContext) -> MessageList:
        """Add it."""
        return ctx.message_list.add(Message.user(self.text))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each call of `diff`, the step that it was made for."""
    calls: list[str] = []

    def counting(base: Payload, new: Payload, step: str = "", *rest: Any, **options: Any) -> Changes:
        calls.append(step)
        return diff(base, new, step, *rest, **options)

    for module in (boundary, diff_module):
        monkeypatch.setattr(module, "diff", counting)
    return calls


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("steps", [(Hides("a"), Hides("b")), (Adds("x"), Adds("y")), (Hides("a"), Adds("x"))], ids=str)
def test_a_step_in_a_parallel_is_compared_once_and_its_join_compares_nothing(
    compared: list[str], records: bool, steps: tuple[Processor, ...]
) -> None:
    """Check, record and join read the same changes."""
    outcome = Workflow("w").parallel(*steps, merge="last").check_sync("a b", records=records)
    assert not outcome.blocked
    assert len(compared) == len(set(compared)) == len(steps)


def test_nothing_is_compared_where_nobody_listens_and_nothing_is_merged(compared: list[str]) -> None:
    """A step that only edits texts has not changed more than it declares."""
    assert Workflow("w").then(Hides("a")).then(Adds("x")).check_sync("a b", records=False).text == "# b\nx"
    assert compared == []


# What two steps changed, one after the other

LANGUAGE = Key[str]("language")


def hide(payload: Payload) -> Payload:
    """Return the payload with the last character of its first message hidden, as an edit that is known."""
    message = payload.message_list.entries[0].message
    messages = payload.message_list.edit_text(
        {TextPlace(message.id, 0): [Edit(len(message.text) - 1, len(message.text), "#", "redact")]}
    )
    return Payload(messages, payload.facts, payload.fields)


def add(payload: Payload) -> Payload:
    """Return the payload with one message more."""
    return Payload(payload.message_list.add(Message.user("more")), payload.facts, payload.fields)


def drop(payload: Payload) -> Payload:
    """Return the payload without its last message."""
    entries = payload.message_list.entries
    messages = payload.message_list.with_entries(entries[:-1] if len(entries) > 1 else entries)
    return Payload(messages, payload.facts, payload.fields)


def swap(payload: Payload) -> Payload:
    """Return the payload with its messages the other way round."""
    messages = payload.message_list.with_entries(payload.message_list.entries[::-1])
    return Payload(messages, payload.facts, payload.fields)


def put(payload: Payload) -> Payload:
    """Return the payload with a fact more."""
    return Payload(payload.message_list, FrozenDict({**payload.facts, LANGUAGE: "en"}), payload.fields)


def spell(payload: Payload) -> Payload:
    """Return the payload with a text of the arguments changed."""
    arguments = {**payload.fields["arguments"], "to": payload.fields["arguments"]["to"] + "!"}
    return Payload(payload.message_list, payload.facts, FrozenDict({**payload.fields, "arguments": arguments}))


def widen(payload: Payload) -> Payload:
    """Return the payload with an argument more."""
    arguments = {**payload.fields["arguments"], "cc": "all"}
    return Payload(payload.message_list, payload.facts, FrozenDict({**payload.fields, "arguments": arguments}))


MOVES = (hide, add, drop, swap, put, spell, widen)
TEXT_ONLY = (hide, put, spell)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(MOVES), max_size=5))
def test_changes_of_consecutive_steps_lead_from_the_first_payload_to_the_last(moves: list[Any]) -> None:
    """Where they are not complete, the edits that are known help to find the rest."""
    messages = MessageList([Message.user("one"), Message.user("two")])
    base = Payload(messages, fields=FrozenDict({"arguments": FrozenDict({"to": "you"})}))
    now, total = base, NO_CHANGES
    for number, move in enumerate(moves):
        after = move(now)
        total, now = followed_by(total, diff(now, after, str(number))), after
    if not total.complete:
        total = diff(base, now, "", KnownEdits(total.texts, complete=False))
    rebuilt = rebuild(base, total)
    assert (rebuilt.message_list, rebuilt.facts, rebuilt.fields) == (now.message_list, now.facts, now.fields)


@given(st.lists(st.sampled_from(TEXT_ONLY), max_size=5))
def test_steps_that_touch_different_things_or_edit_texts_need_no_second_comparison(moves: list[Any]) -> None:
    """A fact that is put twice does: it may be what it was."""
    base = Payload(MessageList("one"), fields=FrozenDict({"arguments": FrozenDict({"to": "you"})}))
    now, total = base, NO_CHANGES
    for move in moves:
        after = move(now)
        total, now = followed_by(total, diff(now, after)), after
    assert total.complete


def test_two_changes_of_one_thing_have_to_be_compared() -> None:
    """A value may have come back, and a message that was added may be gone."""
    first = Changes({}, {("facts", LANGUAGE): Put("en")})
    assert not followed_by(first, Changes({}, {("facts", LANGUAGE): Put("de")})).complete
    text = {TextPlace("m", 0): difference("a", "b")}
    assert not followed_by(Changes({}, {("messages", "n"): Gone()}), Changes(text, {})).complete
    assert followed_by(Changes({}, {("messages", "n"): Gone()}), first).complete
    renamed = {TextPlace("", 0, ("arguments", KeyText("k"))): difference("k", "l")}
    assert not followed_by(Changes(renamed, {}), Changes(text, {})).complete


class Spells(Processor):
    """Returns new arguments: one text is another, and one is more."""

    edits = "anything"

    def process_tool_call(self, ctx: Any) -> Any:
        """Return them."""
        return {"to": ctx.arguments["to"].upper(), "cc": "all"}


def test_a_record_has_the_edits_of_texts_within_a_value_that_was_set_anew() -> None:
    """Though the arguments have another shape, so that a merge takes them whole."""
    outcome = run_stage(Spells(), "process_tool_call", {"to": "me"}, tool_name="send")
    (record,) = outcome.records
    assert [(place.path, edit.start, edit.end) for place, edit in record.edits] == [(("arguments", "*"), 0, 2)]
