"""`KnownMessages`: which of a framework's messages the run holds already, and under which ids.

A framework gives the whole conversation with each model call, as it stores it. Most of it the run holds already, often
changed by guards. Messages are recognised by their content: frameworks keep no ids of ours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.messages import (
    DataPart,
    Message,
    Part,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

_NOT_SAID = (ReasoningPart, SourcePart, DataPart, StepStartPart)
"""The parts of an answer that some frameworks drop or change when they store it."""

_NO_OTHERS = (TextPart, *_NOT_SAID)


def is_finished(part: Part) -> bool:
    """Return whether a part is a tool call with its result or error."""
    return isinstance(part, ToolPart) and part.state in ("result", "error")


def brings_results(message: Message) -> bool:
    """Return whether a message holds results of tools and nothing else."""
    return bool(message.parts) and all(map(is_finished, message.parts))


def as_asked(answer: Message) -> Message:
    """Return an answer with its calls, without their results: as frameworks store it."""
    parts = [
        replace(part, state="call", result=None, error=None) if isinstance(part, ToolPart) else part
        for part in answer.parts
    ]
    return answer.with_parts(parts)


def late_results(messages: Sequence[Message]) -> list[ToolPart]:
    """Return the calls of the last answer that have results behind it, with their arguments."""
    last = next((index for index in reversed(range(len(messages))) if _calls_tools(messages[index])), None)
    if last is None:
        return []
    asked = {part.call_id: part for part in _calls(messages[last])}
    behind = [part.call_id for message in messages[last + 1 :] for part in _calls(message) if is_finished(part)]
    return [asked[id] for id in behind if id in asked]


def _calls_tools(message: Message) -> bool:
    return message.role == "assistant" and not brings_results(message) and bool(_calls(message))


def _calls(message: Message) -> list[ToolPart]:
    return [part for part in message.parts if isinstance(part, ToolPart)]


class KnownMessages:
    """The messages of a framework that a run holds, by their content. Lives as long as the request."""

    def __init__(self) -> None:
        self._ids: dict[Hashable, list[str]] = {}

    def add(self, message: Message, id: str) -> None:
        """Note that the run holds a message, in this form, under an id."""
        ids = self._ids.setdefault(_said(message), [])
        if id not in ids:
            ids.append(id)

    def ids(self) -> set[str]:
        """Return the ids of all known messages."""
        return {id for ids in self._ids.values() for id in ids}

    def match(self, messages: Iterable[Message]) -> Sequence[str | None]:
        """Return the id of each message, None for those that are new. Each id is given once."""
        taken: set[str] = set()
        return [self._take(_said(message), taken) for message in messages]

    def _take(self, said: Hashable, taken: set[str]) -> str | None:
        for id in self._ids.get(said, ()):
            if id not in taken:
                taken.add(id)
                return id
        return None


def _said(message: Message) -> Hashable:
    """Return the key by which a message is recognised, though a framework may have added to it or left parts out."""
    texts = "".join([part.text for part in message.parts if isinstance(part, TextPart)])
    others = tuple([_other(part) for part in message.parts if not isinstance(part, _NO_OTHERS)])
    return ("tool" if brings_results(message) else message.role, texts, others)


def _other(part: Part) -> Hashable:
    if not isinstance(part, ToolPart):
        return tuple([(name, getattr(part, name)) for name in part.__slots__ if name != "metadata"])
    if is_finished(part):
        return ("result", part.call_id, part.error if part.state == "error" else part.result)
    return ("call", part.call_id, part.name)
