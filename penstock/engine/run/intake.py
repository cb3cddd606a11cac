"""What a caller brings to a stage, made into values: messages in any known form, settings by name. It knows no run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, is_mapping
from penstock.engine.values.message_list import MessageList, as_items, as_messages
from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from penstock.engine.processor.stages import Stage
    from penstock.engine.values.frozen import Values

NONE_FRESH: frozenset[str] = frozenset()
"""The ids of a call that brings no messages."""


def taken_in(stage: Stage, messages: object, before: MessageList) -> tuple[MessageList, frozenset[str]]:
    """Return the conversation with what the caller brings, and the ids that are new in it.

    A list takes the place of the one before; anything else is added to it, as the stage's own source. A prompt stands
    for itself.
    """
    if isinstance(messages, MessageList):
        if messages is before:
            return before, NONE_FRESH
        brought = frozenset([entry[0].id for entry in messages.entries])
        return messages, brought.difference([entry[0].id for entry in before.entries])
    base = before if stage.keeps else before.with_entries(())
    role: Literal["user", "assistant"] = "assistant" if stage.source == "response" else "user"
    completed = [base.completed(message) for message in parsed(messages, role)]
    return base.add(completed, source=stage.source), frozenset(message.id for message in completed)


def parsed(messages: object, role: Literal["user", "assistant"]) -> tuple[Message, ...]:
    """Return messages from a str (of that role), messages, or dicts in a known format.

    Raises:
        MessageError: something else, or a malformed dict; the error names the place.
    """
    if isinstance(messages, (str, Message)):
        return as_messages(messages, role)
    items = messages if is_mapping(messages) else as_items(messages)
    if is_mapping(items) or any(isinstance(item, dict) for item in items):
        from penstock.engine.formats import parse_messages  # loaded where a caller brings dicts

        return parse_messages(items)
    return as_messages(items, role)


def settings_of(stage: Stage, settings: Values) -> Values:
    """Return the settings of a stage, frozen.

    Raises:
        UsageError: one that the stage does not have.
    """
    unknown = sorted(set(settings) - set(stage.fields))
    if unknown:
        raise UsageError(f"{stage.name} has no setting {', '.join(unknown)}; it has {', '.join(stage.fields)}")
    made: Values = freeze(dict(settings))
    return made
