"""The conversation in a request of `/v1/messages`: system blocks, messages, and thoughts whose signatures hold no more.

A provider signs the thoughts of its model, and refuses a request in which a signed thought was changed. So a thought
that a guard changes leaves without its signature, with `EDITED` in its place; when the client sends it back, it is left
out. A provider that was told to think refuses calls of tools without the thought before them, so it is asked for an
answer without thoughts then. Thoughts that nobody changed go out and come back byte by byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message, ReasoningPart
from penstock.formats import anthropic
from penstock.formats.shape import notes_of
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.sections import MessagesSection, RequestSection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.tables import Path

EDITED: Final = "penstock-edited"
"""Stands in the place of a signature whose text was changed."""

_SEALS = ("signature", "encrypted_content")
_THOUGHTS = ("thinking", "redacted_thinking")


@dataclass(frozen=True)
class SystemSection(RequestSection):
    """The system prompt: a text, or a list of blocks. Each block is a message; messages that guards add go here.

    Attributes:
        path: where it stands in the request.
    """

    path: Path = ("system",)

    def read(self, value: Value) -> list[tuple[Message, ...]]:
        """Return one message for each block.

        Raises:
            MessageError: a block is malformed.
        """
        if value is None:
            return []
        return [(Message("system", (part,)),) for part in map(anthropic.read_part, _blocks(value), _places("system"))]

    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the blocks anew, or the text if it was one and is one."""
        given = _blocks(value) if value is not None else []
        made: list[Json] = []
        for item in items:
            if isinstance(item, int):
                made.append(given[item])
            else:
                made += [anthropic.write_part(part) for message in item for part in message.parts]
        return made[0]["text"] if isinstance(value, str) and len(made) == 1 else made

    def takes(self, message: Message) -> bool:
        """Return whether it is a message of the system."""
        return message.role == "system"

    @property
    def may_begin(self) -> bool:
        """Whether guards can add a system prompt: yes."""
        return True


def _blocks(value: Value) -> list[Json]:
    """Return the blocks of a system prompt.

    Raises:
        MessageError: it is neither a text nor a list of them.
    """
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if not is_array(value):
        raise MessageError("system", f"is {type(value).__name__}; send a text, or a list of text blocks")
    return list(value)


def _places(name: str) -> Iterator[str]:
    index = 0
    while True:
        yield f"{name}[{index}]"
        index += 1


@dataclass(frozen=True)
class ConversationSection(MessagesSection):
    """The messages. A signed thought that a guard changed is left out."""

    path: Path = ("messages",)
    format: str = "anthropic"  # type: ignore[assignment]

    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the list anew."""
        if any(_signature(block) for block in blocks_of(value)):
            items = [item if isinstance(item, int) else tuple(_signed(item)) for item in items]
        return super().write(value, items)

    def takes(self, message: Message) -> bool:
        """Return whether it is a message of the conversation."""
        return message.role != "system"


def _signature(block: Json) -> bool:
    return block.get("type") == "thinking" and bool(block.get("signature"))


def _signed(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield messages without thoughts that lost their signature, where the provider signs them."""
    for message in messages:
        kept = [part for part in message.parts if not isinstance(part, ReasoningPart) or _is_signed(part)]
        if len(kept) == len(message.parts):
            yield message
        elif kept:
            yield message.with_parts(kept)


def _is_signed(part: ReasoningPart) -> bool:
    notes = notes_of(part, anthropic.FORMAT)
    return bool(notes.get("signature") or notes.get("redactedData"))


def blocks_of(messages: Value) -> Iterator[Json]:
    """Yield the blocks in the contents of messages; nothing of malformed ones."""
    for message in messages if is_array(messages) else ():
        content = message.get("content") if is_object(message) else None
        yield from (block for block in content if is_object(block)) if is_array(content) else ()


def without_edited(body: Json) -> Json:
    """Return a request without thoughts that were changed on their way to the client, or that request if it has none.

    A summary of the conversation that was changed stays, without its signature.
    """
    if not any(block.get(key) == EDITED for block in blocks_of(body.get("messages")) for key in _SEALS):
        return body
    messages = [_cleaned(message) for message in body["messages"]]
    return {**body, "messages": [message for message in messages if message is not None]}


def _cleaned(message: Value) -> Value:
    """Return a message without its changed parts; None if no part is left."""
    content = message.get("content") if is_object(message) else None
    if not is_array(content):
        return message
    kept = [_without_seals(block) for block in content if not _is_edited_thought(block)]
    return {**message, "content": kept} if kept or not content else None


def _is_edited_thought(block: Value) -> bool:
    return is_object(block) and block.get("type") == "thinking" and block.get("signature") == EDITED


def _without_seals(block: Value) -> Value:
    if not is_object(block):
        return block
    return {key: value for key, value in block.items() if key not in _SEALS or value != EDITED}


def without_thinking(body: Json) -> Json:
    """Return a request that asks for no thoughts, if the last calls of tools in it have lost theirs; else that request.

    Models that think by themselves (``adaptive``) take calls without thoughts.
    """
    thinking: Value = body.get("thinking")
    if not is_object(thinking) or thinking.get("type") != "enabled" or not is_array(body.get("messages")):
        return body
    messages = list(body["messages"])
    at = next((at for at in reversed(range(len(messages))) if _role(messages[at]) == "assistant"), None)
    blocks = [] if at is None else list(blocks_of(messages[at : at + 1]))
    kinds = [block.get("type") for block in blocks]
    if at is None or "tool_use" not in kinds or kinds[0] in _THOUGHTS:
        return body
    messages[at] = {**messages[at], "content": [block for block in blocks if block.get("type") not in _THOUGHTS]}
    return _without_edits({**body, "thinking": {"type": "disabled"}, "messages": messages})


def _role(message: Value) -> Value:
    return message.get("role") if is_object(message) else None


def _without_edits(body: Json) -> Json:
    """Return a request whose context is not cleared of thoughts: a provider that does not think refuses that."""
    management: Value = body.get("context_management")
    edits: Value = management.get("edits") if is_object(management) else None
    if not is_array(edits):
        return body
    left = [edit for edit in edits if not (is_object(edit) and str(edit.get("type")).startswith("clear_thinking"))]
    if left:
        return {**body, "context_management": {**management, "edits": left}}
    return {key: value for key, value in body.items() if key != "context_management"}
