"""`MemoryInputFilter`: keeps only the new messages of a conversation that a client sends as a whole."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.messages import DataPart, StepStartPart
from penstock.models.conversations import call_key, has_result, replace_source, unanswered_calls
from penstock.processors.memory._options import check_owner, checked_policy, checked_storage, thread_id_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.engine.processor.context import InputContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, Part, ToolPart
    from penstock.engine.values.protocols import Storage

_RECENT_MESSAGES = 50
"""How many of the last stored messages are searched for unanswered calls. Only the last answers can have any."""

_FORMAT_KEYS = frozenset({"stored", "ai-sdk-ui", "ai-sdk-model", "openai-chat"})
"""Metadata keys under which formats note how a part was written. They do not come from a provider."""


class MemoryInputFilter(Processor):
    """Removes messages from the input that the thread has stored already: many clients send whole conversations again.

    New is what follows the last assistant message, and results of the client's tools for calls without a result. If
    nothing is stored of the thread, everything is new.

    Args:
        storage: holds the threads.
        retain_full_input: whether to change nothing. Default False.
        on_error: what happens if the store fails: ``raise`` (default), ``block``, or ``allow`` (the input stays as it
            is).
        id: the name in graphs and records. Default ``memory-input-filter``.

    Raises:
        OptionError: an option is of the wrong type, or unknown.
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
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.storage = checked_storage(name, storage)
        self.retain_full_input = flag(name, "retain_full_input", retain_full_input)
        self.on_error = checked_policy(name, on_error)

    async def process_input(self, ctx: InputContext) -> MessageList | None:
        """Remove what is stored.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        sent, thread_id = ctx.messages, thread_id_of(ctx)
        if self.retain_full_input or thread_id is None or all(message.role == "user" for message in sent):
            return None
        recent = await self._recent(thread_id, ctx.resource_id)
        new = (
            await self._new_messages(sent, recent)
            if recent
            else [_without_provider_metadata(message) for message in sent]
        )
        ctx.note(sent=len(sent), new=len(new))
        if len(new) == len(sent) and all(map(_is_same, new, sent)):
            return None
        listed = ctx.message_list
        return replace_source(listed, "input", new)

    async def _recent(self, thread_id: str, resource_id: str | None) -> Sequence[Message]:
        """Return the last stored messages."""
        page = await self.storage.messages(thread_id, resource_id=resource_id, limit=_RECENT_MESSAGES)
        if not page.items:  # the thread is new, or belongs to another resource
            check_owner(self.storage, await self.storage.thread(thread_id), resource_id)
        return [row.message for row in page.items]

    async def _new_messages(self, sent: Sequence[Message], recent: Sequence[Message]) -> Sequence[Message]:
        """Return what is new in a conversation. ``recent``: what is stored."""
        last = max((index for index, message in enumerate(sent) if message.role == "assistant"), default=-1)
        tail = sent[-1].role
        if last < 0:
            return sent
        calls = unanswered_calls(recent)
        if tail == "assistant":
            return await self._new_in_last(sent[last], recent)
        behind = sent[last + 1 :]
        if tail == "tool" and not _answers(behind, calls):
            return sent
        updates = _answers(sent[last : last + 1], calls)
        return [*([sent[last].with_parts(updates)] if updates else ()), *_without_stored_results(behind, calls)]

    async def _new_in_last(self, last: Message, recent: Sequence[Message]) -> Sequence[Message]:
        """Return what is new in an assistant message that ends the conversation."""
        updates = _trailing_results(last.parts)
        if updates:
            return [last.with_parts(updates)]
        stored = any(message.id == last.id for message in recent) or await self.storage.messages_by_id([last.id])
        return () if stored else [last]


def _trailing_results(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the results at the end. The application's data and step marks between them are ignored."""
    parts_last = [part for part in reversed(parts) if not isinstance(part, (DataPart, StepStartPart))]
    return list(itertools.takewhile(has_result, parts_last))[::-1]


def _answers(messages: Sequence[Message], calls: Collection[str]) -> list[ToolPart]:
    """Return the results of those calls in messages."""
    parts = [part for message in messages for part in message.parts]
    return [part for part in parts if has_result(part) and call_key(part) in calls]


def _without_stored_results(messages: Sequence[Message], calls: Collection[str]) -> list[Message]:
    """Return messages without tool messages that answer none of those calls: they are stored already."""
    fresh: list[Message] = []
    for message in messages:
        if message.role != "tool":
            fresh.append(message)
        elif parts := _answers([message], calls):
            fresh.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
    return fresh


def _without_provider_metadata(message: Message) -> Message:
    """Return an assistant message without metadata of providers: its ids belong to another conversation."""
    if message.role != "assistant" or not any(part.metadata for part in message.parts):
        return message
    return message.with_parts(part if has_result(part) else _without_provider_keys(part) for part in message.parts)


def _without_provider_keys(part: Part) -> Part:
    metadata = {key: value for key, value in part.metadata.items() if key in _FORMAT_KEYS}
    return part if len(metadata) == len(part.metadata) else replace(part, metadata=metadata)


def _is_same(one: Message, other: Message) -> bool:
    return one is other
