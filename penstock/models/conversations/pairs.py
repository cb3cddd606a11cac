"""Calls and results that belong together, by the call's id; it knows no list.

Whoever takes one half away takes the other too: a model's provider refuses a result without its call.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.engine.values.messages import StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock.engine.values.messages import Message, Part


def pair_key(part: ToolPart) -> str:
    """Return what a call and its result have in common: the id, or the tool's name in formats that have no ids."""
    return part.call_id or f"\0{part.name}"


def tool_parts(messages: Iterable[Message]) -> Counter[str]:
    """Return how many calls and results there are of each pair."""
    return Counter(pair_key(part) for message in messages for part in message.parts if isinstance(part, ToolPart))


def without_pairs(messages: Iterable[Message], keys: Collection[str]) -> list[Message]:
    """Return the messages without the calls and results of those pairs; one that is left with nothing goes."""
    made: list[Message] = []
    for message in messages:
        parts = [part for part in message.parts if not (isinstance(part, ToolPart) and pair_key(part) in keys)]
        if len(parts) == len(message.parts):
            made.append(message)
        elif says_something(parts):
            made.append(message.with_parts(parts))
    return made


def says_something(parts: Iterable[Part]) -> bool:
    """Whether there is more than marks of where a step begins."""
    return any(not isinstance(part, StepStartPart) for part in parts)
