"""What of a message is kept in a history. It knows messages, no store and no stage.

Left out are the system's messages, what is meant to be shown only, calls whose arguments are not whole, and what
belongs to the working memory, which is kept elsewhere: calls to its tool, and its elements in texts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import TextPart, ToolPart
from penstock.models.conversations.pairs import says_something

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.engine.values.messages import Message, Part

WORKING_MEMORY_TOOLS = ("update_working_memory", "updateWorkingMemory")
"""What the tool of the working memory is called, here and in the reference."""

_OPENING = re.compile(r"<working_memory(?:\s[^<>]{0,200})?>")
_CLOSING = "</working_memory>"


def filed(message: Message, tools: Collection[str] = WORKING_MEMORY_TOOLS) -> Message | None:
    """Return what of a message is kept; None if that is nothing. ``tools``: the tools whose calls are not."""
    if message.role == "system" or _is_transient(message):
        return None
    parts = [left for part in message.parts if (left := _left(part, tools)) is not None]
    if not says_something(parts):
        return None
    return message if _same(parts, message.parts) else message.with_parts(parts)


def without_elements(text: str) -> str:
    """Return a text without the elements of a working memory, trimmed if there were any; one not closed stays."""
    pieces: list[str] = []
    at = 0
    while opening := _OPENING.search(text, at):
        closing = text.find(_CLOSING, opening.end())
        if closing < 0:
            break
        pieces.append(text[at : opening.start()])
        at = closing + len(_CLOSING)
    return "".join([*pieces, text[at:]]).strip() if pieces else text


def _left(part: Part, tools: Collection[str]) -> Part | None:
    """Return what is kept of a part."""
    if part.metadata.get("transient") is True:
        return None
    if isinstance(part, ToolPart):
        return None if part.state == "partial" or part.name in tools else part
    if isinstance(part, TextPart):
        text = without_elements(part.text)
        if text != part.text:
            return replace(part, text=text) if text else None
    return part


def _is_transient(message: Message) -> bool:
    """Tell whether a message is meant for one run: it says so, or the signal does that it was made of."""
    signal = message.metadata.get("signal")
    return any(said.get("transient") is True for said in (message.metadata, signal) if is_mapping(said))


def _same(parts: list[Part], before: tuple[Part, ...]) -> bool:
    return len(parts) == len(before) and all(one is other for one, other in zip(parts, before, strict=True))
