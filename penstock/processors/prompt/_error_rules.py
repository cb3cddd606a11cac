"""The rules that make a conversation fit for a provider that has refused it; they know no processor."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.messages import ToolPart
from penstock.models.conversations.providers import family_of, provider_named
from penstock.processors.prompt._origins import is_thought, notes_under

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part

ID_REFUSED = (
    r"tool_use(?:_id|\.id)\b.{0,200}should match pattern",
    r"toolUseId\b.{0,300}regular expression pattern",
)
"""What Anthropic says of a call's id with other characters than it takes, and what Bedrock says."""

ITEM_REFUSED = (r"was provided without its required 'reasoning' item",)
"""What OpenAI says of an item that refers to reasoning that is not there."""

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_MOST_OF_AN_ID = 64  # characters: what the strictest of the providers takes
_SUFFIX = 8  # hexadecimal digits
_ITEM_ID = "itemId"
_PYDANTIC = "pydantic-ai"


def _mapped(messages: tuple[Message, ...], change: Callable[[Message, Part], Part]) -> tuple[Message, ...] | None:
    """Return the messages with their parts changed; None if none is."""
    made = [message.with_parts([change(message, part) for part in message.parts]) for message in messages]
    kept = tuple(new if new != old else old for new, old in zip(made, messages, strict=True))
    return kept if any(new is not old for new, old in zip(kept, messages, strict=True)) else None


# Ids of calls


def with_plain_ids(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Rename calls whose ids have characters that Anthropic does not take, and their results."""
    return _mapped(messages, lambda _, part: _with_plain_id(part))


def _with_plain_id(part: Part) -> Part:
    return replace(part, call_id=plain_id(part.call_id)) if isinstance(part, ToolPart) else part


def plain_id(given: str) -> str:
    """Return an id of letters, digits, ``_`` and ``-``: as it is, or with ``_`` for the others and a hash behind.

    It depends on the id alone, so call and result agree, in every request; and different ids stay different.
    """
    if not _ODD.search(given):
        return given
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX]
    return f"{_ODD.sub('_', given)[: _MOST_OF_AN_ID - _SUFFIX - 1]}_{digest}"


# References to items


def without_orphan_items(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Take the references to OpenAI's items out of answers that refer to no reasoning."""
    bare = {message.id for message in messages if message.role == "assistant" and not _has_reasoning_item(message)}

    def change(message: Message, part: Part) -> Part:
        return _without_item(part) if message.id in bare else part

    return _mapped(messages, change)


def _has_reasoning_item(message: Message) -> bool:
    return any(is_thought(part) and _without_item(part) is not part for part in message.parts)


def _without_item(part: Part) -> Part:
    """Return the part without the id of an item; the very part if it has none."""
    kept = {name: _bare(part, name) for name in part.metadata}
    if all(kept[name] is part.metadata[name] for name in kept):
        return part
    return replace(part, metadata={name: notes for name, notes in kept.items() if notes != {}})


def _bare(part: Part, name: str) -> Value:
    notes = notes_under(part, name)
    if name == _PYDANTIC:
        key, owner = "id", notes.get("provider_name")
    else:
        key, owner = _ITEM_ID, name
    if key not in notes or not isinstance(owner, str) or family_of(provider_named(owner)) != "openai":
        return part.metadata[name]
    return {other: item for other, item in notes.items() if other != key}
