"""LangChain's messages both ways, and changes of its state.

They go through the JSON in which LangChain dumps them, which keeps what nobody knows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from pydantic_core import to_jsonable_python

from penstock.engine.formats import langchain as wire
from penstock.engine.formats.wire import is_array, is_object
from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.langchain.blocks import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.messages import Message


_CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


def read(messages: Iterable[BaseMessage]) -> list[Message]:
    """Return each of LangChain's messages as one of ours."""
    return [_read_one(message) for message in messages]


def _read_one(message: BaseMessage) -> Message:
    """Return one of LangChain's messages.

    Raises:
        MessageError: it is of a kind that is not known.
    """
    dumped = to_jsonable_python(message.model_dump(exclude={"artifact"}), fallback=str, bytes_mode="base64")
    said = {name: item for name, item in dumped.items() if item is not None and name not in _LEFT_OUT}
    [one] = wire.read([said])
    return one


_LEFT_OUT = frozenset({"usage_metadata", "response_metadata", "tool_call_chunks", "chunk_position"})
"""The fields of a message that no provider reads."""


def message_of(item: Any) -> BaseMessage:
    """Return one of LangChain's messages for its JSON; reasoning that a provider has signed goes with its signature."""
    content = item.get("content")
    if item["type"] == "ai" and is_array(content):
        blocks: Sequence[Any] = content
        item = {**item, "content": [block for block in blocks if not _is_unsigned(block)]}
    kind = _CLASSES.get(item["type"])
    if kind is None:
        raise UsageError(
            f"a processor made a message of the type {item['type']!r}, which LangChain's agents do not have"
        )
    return kind(**{**item, "content": item.get("content", "")})


def _is_unsigned(block: Any) -> bool:
    """Return whether a block is reasoning that its provider would refuse, since its text was changed."""
    given: Mapping[str, Any] = block if is_object(block) else {}
    return given.get("type") in ("thinking", "reasoning") and not any(given.get(name) for name in SIGNS)


def key_of(message: Message) -> str:
    """Return what makes a message the same as the one that LangChain gave: its JSON."""
    return json.dumps(wire.write([message]), sort_keys=True, default=str)


def changes(given: Sequence[BaseMessage], said: Sequence[Message], left: Sequence[Message | None]) -> list[BaseMessage]:
    """Return what replaces or removes messages of the state, by their ids."""
    changes: list[BaseMessage] = []
    for message, before, after in zip(given, said, left, strict=True):
        if after is None:
            changes.extend(removed([message]))
        elif after.parts != before.parts:
            [item] = wire.write([replace(before, parts=after.parts)])
            fields = message_of(item)
            update: dict[str, Any] = {"content": fields.content, "additional_kwargs": fields.additional_kwargs}
            if isinstance(fields, AIMessage):
                update |= {"tool_calls": fields.tool_calls, "invalid_tool_calls": fields.invalid_tool_calls}
            if isinstance(fields, ToolMessage):
                update |= {"status": fields.status, "artifact": None}
            changes.append(message.model_copy(update=update))
    return changes


def removed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return what removes messages from the state."""
    return [RemoveMessage(id=message.id) for message in messages if message.id]


def last_turn(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that came in last: all behind the last answer."""
    index = len(messages)
    while index and isinstance(messages[index - 1], HumanMessage):
        index -= 1
    return messages[index:]
