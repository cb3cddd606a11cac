"""Takes chosen exchanges out of messages, and leaves the text that stays of them; it does not know who chose them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import Message, TextPart
from penstock.models.conversations.pairs import says_something

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.messages import Part, ToolPart
    from penstock.processors.prompt._traffic import Exchange, Traffic


def without(
    messages: Sequence[Message], traffic: Traffic, chosen: Mapping[str, str | None]
) -> dict[str, tuple[Message, ...]]:
    """Return what takes the place of the messages that change, by their ids.

    Args:
        messages: the conversation.
        traffic: its tool traffic.
        chosen: the exchanges that go, by their keys, with the text that stays of each. It stands where the call stood;
            of a result without its call it becomes an assistant's message behind the tool messages around it.
    """
    changes: dict[str, tuple[Message, ...]] = {}
    told: set[str] = set()
    waiting: list[Part] = []
    for index, message in enumerate(messages):
        mine = [traffic.owners.get((index, place)) for place in range(len(message.parts))]
        if any(owner is not None and owner.key in chosen for owner in mine):
            parts, orphans = _rest(message, mine, chosen, told)
            changes[message.id] = (message.with_parts(parts),) if says_something(parts) else ()
            waiting += orphans
        is_last = index + 1 == len(messages) or messages[index + 1].role != "tool"
        if waiting and is_last:
            changes[message.id] = (*changes.get(message.id, (message,)), Message("assistant", tuple(waiting)))
            waiting = []
    return changes


def _rest(
    message: Message, owners: Sequence[Exchange | None], chosen: Mapping[str, str | None], told: set[str]
) -> tuple[list[Part], list[Part]]:
    """Return the parts that stay, and the texts of results without calls, which cannot stand in a tool message."""
    parts: list[Part] = []
    orphans: list[Part] = []
    for part, owner in zip(message.parts, owners, strict=True):
        if owner is None or owner.key not in chosen:
            parts.append(part)
            continue
        text = chosen[owner.key]
        is_orphan = message.role == "tool"
        if text is None or owner.key in told or (is_orphan and owner.step >= 0):
            continue
        told.add(owner.key)
        (orphans if is_orphan else parts).append(TextPart(text))
    return parts, orphans


def replaced(
    messages: Sequence[Message], traffic: Traffic, results: Mapping[str, ToolPart]
) -> dict[str, tuple[Message, ...]]:
    """Return the messages in which results change, by their ids; ``results`` has the parts by their exchanges' keys."""
    changes: dict[str, tuple[Message, ...]] = {}
    for index, message in enumerate(messages):
        parts = [
            results[owner.key]
            if (owner := traffic.owners.get((index, place))) is not None
            and owner.key in results
            and part is owner.result
            else part
            for place, part in enumerate(message.parts)
        ]
        if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
            changes[message.id] = (message.with_parts(parts),)
    return changes
