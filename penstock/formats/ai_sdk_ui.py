"""Read and write the AI SDK's UI messages.

A tool call and its result stand in one part. When messages are written, the results of tool messages are put into the
calls that they answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import ROLES, Message
from penstock.formats.ai_sdk_parts import read_body, read_head, together, write_body, write_head
from penstock.formats.wire import expect_object, expect_role, maybe_text, reader, with_notes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.formats.wire import Json, Value

__all__ = ["FORMAT", "LEAVES_OUT", "read", "write"]

FORMAT = "ai-sdk-ui"
LEAVES_OUT: frozenset[str] = frozenset()

_HEAD = frozenset({"id", "role", "name", "createdAt"})


def _read_message(value: Value, place: str) -> Iterable[Message]:
    item = expect_object(value, place, "a UI message")
    role = expect_role(item, place, ROLES)
    message_id, created_at, head = read_head(item, place)
    body = {key: value for key, value in item.items() if key not in _HEAD}
    parts, notes, metadata = read_body(body, place, FORMAT, "extra")
    notes["role"] = "tool" if role == "tool" else None
    notes["time"] = "given" if created_at is not None else None
    made = Message(
        role,  # type: ignore[arg-type]
        tuple(parts),
        id=message_id,
        created_at=created_at,
        metadata=with_notes(FORMAT, {**head, **notes}, metadata),
        name=maybe_text(item, "name", place) or None,
    )
    return [made]


read = reader(_read_message, names=False)


def write(messages: Iterable[Message]) -> list[Json]:
    """Return the messages as a UI has them."""
    return [
        {
            **write_body(message, FORMAT, "extra"),
            **write_head(message, FORMAT, timed=False),
            "role": message.role,
        }
        for message in together(messages, FORMAT)
    ]
