"""`MemoryInputFilter`: keeps only the new messages of a conversation that a client sends as a whole."""

from __future__ import annotations

import itertools
import operator
import unicodedata
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.messages import DataPart, Part, ReasoningPart, StepStartPart, TextPart, ToolPart
from penstock.models.conversations import call_key, has_result, is_decided, replace_source, unanswered_calls
from penstock.processors.memory._options import check_owner, checked_policy, checked_storage, thread_id_of
from penstock.stores.checks import MOST_OF_A_PAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.engine.processor.context import InputContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Storage

_RECENT_MESSAGES = 50
"""How many of the last stored messages are read at least."""

_NO_CONTENT = (DataPart, StepStartPart)
"""Parts that have no content for a model."""

_FORMAT_KEYS = frozenset({"stored", "ai-sdk-ui", "ai-sdk-model", "openai-chat"})
"""Metadata keys under which formats note how a part was written. They do not come from a provider."""


class MemoryInputFilter(Processor):
    """Removes messages from the input that the thread has stored already: many clients send whole conversations again.

    New are messages that the thread does not hold or that follow the last answer, and results of the client's tools for
    calls without a result. If nothing is stored of the thread, everything is new.

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
        """Remove stored messages.

        Raises:
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        sent, thread_id = ctx.messages, thread_id_of(ctx)
        if self.retain_full_input or thread_id is None or all(message.role == "user" for message in sent):
            return None
        recent = await self._recent(thread_id, ctx.resource_id, len(sent))
        new = (
            await self._new_messages(sent, recent)
            if recent
            else [_without_provider_metadata(message) for message in sent]
        )
        ctx.note(sent=len(sent), new=len(new))
        if len(new) == len(sent) and all(map(operator.is_, new, sent)):
            return None
        listed = ctx.message_list
        return replace_source(listed, "input", new)

    async def _recent(self, thread_id: str, resource_id: str | None, count: int) -> Sequence[Message]:
        """Return the last stored messages, oldest first: twice as many as are sent, and at least 50."""
        limit = min(max(_RECENT_MESSAGES, 2 * count), MOST_OF_A_PAGE)
        page = await self.storage.messages(thread_id, resource_id=resource_id, limit=limit)
        if not page.items:  # the thread is new, or belongs to another resource
            check_owner(self.storage, await self.storage.thread(thread_id), resource_id)
        return [row.message for row in sorted(page.items, key=lambda row: row.order)]

    async def _new_messages(self, sent: Sequence[Message], recent: Sequence[Message]) -> Sequence[Message]:
        """Return the new messages of a conversation. ``recent``: the stored ones."""
        calls = unanswered_calls(recent)
        last = max((index for index, message in enumerate(sent) if message.role != "user"), default=-1)
        if last < 0 or (sent[-1].role == "tool" and not _answers(sent, calls)):
            return sent
        stored = StoredMessages(recent, await self._known_ids(sent, recent))
        held = [stored.holds(sent, index) for index in range(last + 1)]
        made = {key for here, message in zip(held, sent, strict=False) if not here for key in _made_calls(message)}
        new: list[Message] = []
        for index, message in enumerate(sent[: last + 1]):
            if message.role == "tool":
                parts = [part for part in message.parts if not has_result(part) or call_key(part) in calls | made]
            elif not held[index]:
                nobody = message.role == "assistant" and index < len(sent) - 1 and _has_results_only(message)
                parts = [] if nobody else list(message.parts)
            elif message.role == "assistant":
                ends = index == len(sent) - 1
                decided = [part for part in message.parts if is_decided(part) and call_key(part) in calls]
                results = _trailing_results(message.parts) if ends else _answers([message], calls)
                parts = [*decided, *results]
            else:
                continue
            if parts:
                new.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
        return [*new, *sent[last + 1 :]]

    async def _known_ids(self, sent: Sequence[Message], recent: Sequence[Message]) -> set[str]:
        """Return the ids of messages that are stored."""
        known = {message.id for message in recent}
        others = [message.id for message in sent if message.id not in known]
        found = await self.storage.messages_by_id(others) if others else ()
        return known.union(row.message.id for row in found if row.message.thread_id == recent[0].thread_id)


class StoredMessages:
    """Recognises stored messages in a conversation that a client sends, from its beginning on.

    Clients often give new ids. So a message is recognised by its id, or by its text in the order of the thread. What
    was stored with redactions is recognised by the rest of its text; an answer also by its place, since a client must
    not rewrite the history.
    """

    def __init__(self, stored: Sequence[Message], ids: Collection[str]) -> None:
        """Begin with the stored messages, oldest first, and the ids of further ones."""
        self._stored = stored
        self._ids = ids
        self._place = {message.id: index for index, message in enumerate(stored)}
        self._calls = {key for message in stored for key in _calls(message)}
        self._texts: dict[tuple[bool, str], list[int]] = {}
        self._roles: dict[str, list[int]] = {}
        self._next = 0  # the index of the first stored message that no message was recognised as
        turn = ""
        for index, message in enumerate(stored):
            self._roles.setdefault(message.role, []).append(index)
            text = _letters(message)
            turn = "" if message.role == "user" else turn + text
            for each in {text, turn or text} - {""}:  # clients may join the messages of an answer
                self._texts.setdefault((message.role == "user", each), []).append(index)

    def holds(self, sent: Sequence[Message], index: int) -> bool:
        """Return whether a message is stored. Ask for one after the other, in their order."""
        message, ends = sent[index], index == len(sent) - 1
        if message.id in self._ids:
            self._next = max(self._next, self._place.get(message.id, -1) + 1)
            return True
        if message.role == "tool":
            return False
        if message.role == "user":
            place = self._question(message, begins=index == len(sent) - 2)
        elif ends:
            place = self._next if _calls(message) and self._calls.issuperset(_calls(message)) else None
        else:
            place = self._answer(message)
        if place is None:
            return False
        self._next = max(self._next, place + 1)
        return True

    def _question(self, message: Message, *, begins: bool) -> int | None:
        """Return the index of a stored user message. ``begins``: only an answer that the client began follows it."""
        place = self._found(message)
        if place is None:
            near = self._near("user")
            place = near if near is not None and _is_redacted(message, self._stored[near]) else None
        if place is not None and begins and any(found.role != "user" for found in self._stored[place + 1 :]):
            return None
        return place

    def _answer(self, message: Message) -> int | None:
        place = self._found(message)
        if place is None and _calls(message) and self._calls.issuperset(_calls(message)):
            place = self._next - 1
        if place is None and self._next > 0 and self._near("assistant") == self._next:
            place = self._next
        return place

    def _found(self, message: Message) -> int | None:
        return self._following(self._texts.get((message.role == "user", _letters(message)), []))

    def _near(self, role: str) -> int | None:
        """Return the index of the next stored message of a role."""
        return self._following(self._roles.get(role, []))

    def _following(self, places: Sequence[int]) -> int | None:
        at = bisect_left(places, self._next)
        return places[at] if at < len(places) else None


_REDACTED = deferred(r"\[[^\[\]]{1,80}\]|<[^<>]{1,80}>|[*█]+|\s+")
"""What stands in the place of redacted text; and white space."""


def _is_redacted(sent: Message, stored: Message) -> bool:
    """Return whether a stored text is a sent one without some of its words."""
    text, place = _plain(sent), 0
    for piece in _REDACTED.split(_plain(stored)):
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def _plain(message: Message) -> str:
    return unicodedata.normalize("NFKC", message.text).casefold()


def _letters(message: Message) -> str:
    """Return the text without white space; of a message without text, its parts."""
    text = "".join(_plain(message).split())
    others = [part for part in message.parts if not isinstance(part, (TextPart, ToolPart, ReasoningPart, *_NO_CONTENT))]
    return f"{text}{others!r}" if others and message.role == "user" else text


def _made_calls(message: Message) -> set[str]:
    return _calls(message) if message.role == "assistant" and not _has_results_only(message) else set()


def _has_results_only(message: Message) -> bool:
    """Return whether a message holds nothing but results. Without a stored call, nobody asked for them."""
    return all(has_result(part) or isinstance(part, _NO_CONTENT) for part in message.parts)


def _calls(message: Message) -> set[str]:
    return {call_key(part) for part in message.parts if isinstance(part, ToolPart)}


def _trailing_results(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the results at the end. The application's data and step marks between them are ignored."""
    parts_last = [part for part in reversed(parts) if not isinstance(part, _NO_CONTENT)]
    return list(itertools.takewhile(has_result, parts_last))[::-1]


def _answers(messages: Sequence[Message], calls: Collection[str]) -> list[ToolPart]:
    """Return the results of those calls in messages."""
    parts = [part for message in messages for part in message.parts]
    return [part for part in parts if has_result(part) and call_key(part) in calls]


def _without_provider_metadata(message: Message) -> Message:
    """Return an assistant message without metadata of providers: its ids belong to another conversation."""
    if message.role != "assistant" or not any(part.metadata for part in message.parts):
        return message
    return message.with_parts(part if has_result(part) else _without_provider_keys(part) for part in message.parts)


def _without_provider_keys(part: Part) -> Part:
    metadata = {key: value for key, value in part.metadata.items() if key in _FORMAT_KEYS}
    return part if len(metadata) == len(part.metadata) else replace(part, metadata=metadata)
