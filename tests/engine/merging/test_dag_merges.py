"""What dags add up to where steps come after several others, each after its own: every change is kept, once."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Edit, Message, MessageList, Processor, Workflow, member
from penstock.engine import MergeConflictError, TextEdits
from penstock.engine.values.texts import KeyText

if TYPE_CHECKING:
    from penstock import InputContext, ToolCallContext

WORDS = {"a": "one", "b": "two", "c": "three", "ab": "four", "bc": "five", "ca": "six"}


class Hides(Processor):
    """Hides its word in texts, and signs each message."""

    edits = "spans"
    role = "transform"

    def __init__(self, id: str) -> None:
        self.id = id

    def process_input(self, ctx: InputContext) -> MessageList:
        """Hide and sign."""
        word = WORDS[self.id]
        hidden = ctx.message_list.edit_text(
            {
                place: [Edit(at, at + len(word), "*", "redact")]
                for place, text in ctx.message_list.texts(ctx.messages)
                if (at := text.find(word)) >= 0
            }
        )
        return hidden.replace(*(replace(one, metadata={**one.metadata, self.id: True}) for one in hidden.conversation))


class Renames(Processor):
    """Hides its word in a tool's arguments: in what is said, or in the key."""

    edits = "spans"
    role = "transform"

    def __init__(self, id: str) -> None:
        self.id = id

    def process_tool_call(self, ctx: ToolCallContext) -> TextEdits | None:
        """Hide it."""
        word = WORDS[self.id]
        (key, said), *_ = ctx.arguments.items()
        found = {(key,): said.find(word), (KeyText(key),): key.find(word)}
        return TextEdits(
            {("arguments", *path): [Edit(at, at + len(word), "*", "redact")] for path, at in found.items() if at >= 0}
        )


def ring(make: Any, order: tuple[str, ...]) -> Workflow:
    """A dag of three steps, and three that each come after two of them."""
    first = [member(make(id)) for id in "abc"]
    return Workflow("w").dag(*first, *(member(make(id), after=list(id)) for id in order))


@pytest.mark.parametrize("order", [*permutations(["ab", "bc", "ca"])], ids=" ".join)
def test_all_that_is_hidden_and_noted_in_a_ring_is_kept(order: tuple[str, ...]) -> None:
    """Each step sees what those before it did, and nobody else's; behind them, all of it is there."""
    texts = ("one two three four five six", "one and three", "two and six")
    outcome = ring(Hides, order).check_sync([Message.user(text) for text in texts])
    assert [message.text for message in outcome.messages] == ["* * * * * *", "* and *", "* and *"]
    assert all(dict(message.metadata) == dict.fromkeys(WORDS, True) for message in outcome.messages)


@pytest.mark.parametrize("order", [*permutations(["ab", "bc", "ca"])], ids=" ".join)
@pytest.mark.parametrize("key", ["a key", "one key", "four key", "one, two and six keys"])
def test_nothing_is_shown_again_where_keys_are_renamed_in_a_ring(key: str, order: tuple[str, ...]) -> None:
    """What stands under a key that has moved may be hidden by all, or be a conflict; it is never let go."""
    given = {key: "one two three four five six"}
    try:
        outcome = ring(Renames, order).check_sync(given, stage="process_tool_call")
    except MergeConflictError:
        assert key != "a key"
        return
    hidden = key
    for word in WORDS.values():
        hidden = hidden.replace(word, "*")
    assert dict(outcome.arguments) == {hidden: "* * * * * *"}
