"""`MemoryInputFilter`: of a conversation that the caller sends whole, only what is new. It knows no store."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.messages import DataPart, StepStartPart
from penstock.models.conversations.pairs import pair_key
from penstock.models.conversations.relaying import refilled
from penstock.processors.memory._loading import own, thread_of
from penstock.processors.memory._options import checked_policy, checked_storage
from penstock.processors.memory._updates import is_update, waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.engine.processor.context import InputContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, Part, ToolPart
    from penstock.engine.values.ports import Storage

_RECENT = 50
"""How many of the last stored messages are looked through for calls that wait: only the last answers can have any."""

_NOTES = frozenset({"stored", "ai-sdk-ui", "ai-sdk-model", "openai-chat"})
"""The keys of metadata under which formats note how a part was written: they are no provider's."""


class MemoryInputFilter(Processor):
    """Takes out of the input what the thread's history has already: clients send whole conversations again.

    What follows the assistant's last message is new, and so are results of the client's tools for calls that wait. In a
    thread of which nothing is stored, all of it is.

    Args:
        storage: where threads are kept.
        retain_full_input: change nothing.
        on_error: what it means that the store fails: ``raise``, ``block``, or ``allow`` (the input stays as it is).
        id: its name in the graph.
    """

    id = "memory-input-filter"
    role: ProcessorRole = "transform"
    edits = "anything"

    def __init__(
        self,
        storage: Storage,
        *,
        retain_full_input: bool = False,
        on_error: ErrorPolicy = "raise",
        id: str | None = None,
    ) -> None:
        """Check the options.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self.retain_full_input = flag(name, "retain_full_input", retain_full_input)
        self.on_error = checked_policy(name, on_error)

    async def process_input(self, ctx: InputContext) -> MessageList | None:
        """Leave what is new.

        Raises:
            OwnershipError: the thread is another resource's.
            StorageError: the store failed.
        """
        sent, thread_id = ctx.messages, thread_of(ctx)
        if self.retain_full_input or thread_id is None or all(message.role == "user" for message in sent):
            return None
        recent = await self._recent(thread_id, ctx.resource_id)
        new = await self._new(sent, recent) if recent else [_without_provider(message) for message in sent]
        ctx.note(sent=len(sent), new=len(new))
        if len(new) == len(sent) and all(map(_same, new, sent)):
            return None
        listed = ctx.message_list
        return refilled(listed, "input", new)

    async def _recent(self, thread_id: str, resource_id: str | None) -> Sequence[Message]:
        """Return the last messages that are stored."""
        page = await self.storage.messages(thread_id, resource_id=resource_id, limit=_RECENT)
        if not page.items:  # it is new, or another's: what is found, is the resource's own
            own(self.storage, await self.storage.thread(thread_id), resource_id)
        return [row.message for row in page.items]

    async def _new(self, sent: Sequence[Message], recent: Sequence[Message]) -> Sequence[Message]:
        """Return what is new of a conversation; ``recent``: what is stored."""
        last = max((index for index, message in enumerate(sent) if message.role == "assistant"), default=-1)
        tail = sent[-1].role
        if last < 0:
            return sent
        calls = waiting(recent)
        if tail == "assistant":
            return await self._answered(sent[last], recent)
        behind = sent[last + 1 :]
        if tail == "tool" and not _answers(behind, calls):
            return sent
        updates = _answers(sent[last : last + 1], calls)
        return [*([sent[last].with_parts(updates)] if updates else ()), *_fresh(behind, calls)]

    async def _answered(self, last: Message, recent: Sequence[Message]) -> Sequence[Message]:
        """Return what is new of an assistant's message that ends the conversation."""
        updates = _trailing(last.parts)
        if updates:
            return [last.with_parts(updates)]
        stored = any(message.id == last.id for message in recent) or await self.storage.messages_by_id([last.id])
        return () if stored else [last]


def _trailing(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the results that stand at the end; an application's data and marks between them are passed over."""
    telling = [part for part in reversed(parts) if not isinstance(part, (DataPart, StepStartPart))]
    return list(itertools.takewhile(is_update, telling))[::-1]


def _answers(messages: Sequence[Message], calls: Collection[str]) -> list[ToolPart]:
    """Return the results in messages of calls that wait."""
    parts = [part for message in messages for part in message.parts]
    return [part for part in parts if is_update(part) and pair_key(part) in calls]


def _fresh(messages: Sequence[Message], calls: Collection[str]) -> list[Message]:
    """Return messages without those of tools that answer no call which waits: what they say is stored."""
    fresh: list[Message] = []
    for message in messages:
        if message.role != "tool":
            fresh.append(message)
        elif parts := _answers([message], calls):
            fresh.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
    return fresh


def _without_provider(message: Message) -> Message:
    """Return an assistant's message without what a provider is said to have noted: ids of another conversation's."""
    if message.role != "assistant" or not any(part.metadata for part in message.parts):
        return message
    return message.with_parts(part if is_update(part) else _bare(part) for part in message.parts)


def _bare(part: Part) -> Part:
    noted = {key: value for key, value in part.metadata.items() if key in _NOTES}
    return part if len(noted) == len(part.metadata) else replace(part, metadata=noted)


def _same(one: Message, other: Message) -> bool:
    return one is other
