"""Results of tools that run at the client's: which calls wait for them, and how they get their answers. Knows no store.

A client sends them as parts of the assistant's message that made the calls, under its id or another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from penstock.engine.values.messages import ToolPart
from penstock.models.conversations.pairs import pair_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.values.messages import Message, Part


def is_update(part: Part) -> TypeGuard[ToolPart]:
    """Tell whether a part holds what came of a call."""
    return isinstance(part, ToolPart) and part.state in ("result", "error")


def waiting(messages: Iterable[Message]) -> set[str]:
    """Return the calls, by `pair_key`, that nothing in the messages answers."""
    called, answered = set[str](), set[str]()
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolPart):
                (answered if is_update(part) else called).add(pair_key(part))
    return called - answered


def answered(message: Message, updates: Mapping[str, ToolPart]) -> Message:
    """Return a message whose calls have their answers; names and arguments stay what they were."""
    parts = [_answered(part, updates) for part in message.parts]
    return message if all(map(lambda one, other: one is other, parts, message.parts)) else message.with_parts(parts)


def _answered(part: Part, updates: Mapping[str, ToolPart]) -> Part:
    if not isinstance(part, ToolPart) or is_update(part):
        return part
    update = updates.get(pair_key(part))
    if update is None:
        return part
    return replace(part, state=update.state, result=update.result, error=update.error)
