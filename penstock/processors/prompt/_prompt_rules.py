"""The rules that make prompts fit for a provider before each call; they know no processor.

Each is given a prompt and whom it is for, and returns the messages that are sent instead, or None for no change. A
message that is left with nothing to say goes. The rules about Anthropic leave the answer alone whose tools have just
run: its thoughts must come back as they were.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart, UnknownPart
from penstock.processors.prompt._origins import (
    hosted_id,
    hosts_of,
    is_signed,
    is_thought,
    made_by,
    open_answer,
    providers_of,
    says_something,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.messages import Message, Part
    from penstock.models.conversations.providers import Recipient

_REMINDER = re.compile(r"<(/?)system-reminder(?=[\s/>])", re.IGNORECASE)
_CALLS = (ToolPart, UnknownPart)
_GATEWAYS = frozenset({"bedrock", "gateway", "litellm", "mastra", "netlify", "openrouter", "vercel"})
"""Providers that relay to others, so that what another family's tools left may be meant for whom they relay to."""


def _without(
    messages: Sequence[Message], goes: Callable[[Message, Part], bool], spared: int | None = None
) -> tuple[Message, ...] | None:
    """Return the messages without parts of the assistant's; None if there is none to go."""
    made: list[Message] = []
    changed = False
    for place, message in enumerate(messages):
        parts = message.parts
        if message.role in ("assistant", "tool") and place != spared:
            parts = tuple(part for part in parts if not goes(message, part))
        if len(parts) == len(message.parts):
            made.append(message)
            continue
        changed = True
        if says_something(parts):
            made.append(message.with_parts(parts))
    return tuple(made) if changed else None


def without_foreign_hosted_tools(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Take away calls to tools that another family's provider ran itself, and their results."""
    if not recipient.providers or recipient.is_any(*_GATEWAYS):
        return None
    families = recipient.families
    foreign: set[str] = set()
    for part in (part for message in prompt for part in message.parts if type(part) in _CALLS):
        hosts = hosts_of(part)
        named = hosted_id(part)
        if hosts and hosts.isdisjoint(families) and named is not None:
            foreign.add(named)
    return _without(prompt, lambda _, part: hosted_id(part) in foreign) if foreign else None


def without_thoughts_for_cerebras(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Take reasoning away: Cerebras refuses it."""
    return _without(prompt, lambda _, part: is_thought(part)) if recipient.is_any("cerebras") else None


def without_empty_signed_thoughts(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Take away reasoning that has a signature and no text; what is sealed is no such thing."""

    def goes(_message: Message, part: Part) -> bool:
        return isinstance(part, ReasoningPart) and not part.text and is_signed(part)

    return _for_anthropic(prompt, recipient, goes)


def without_foreign_thoughts(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Take away reasoning that does not come from Anthropic."""
    return _for_anthropic(prompt, recipient, lambda _, part: is_thought(part) and "anthropic" not in providers_of(part))


def without_foreign_signatures(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Take away reasoning with a signature that looks like Anthropic's, in an answer that another provider gave."""

    def goes(message: Message, part: Part) -> bool:
        return is_thought(part) and is_signed(part) and made_by(message) not in (None, "anthropic")

    return _for_anthropic(prompt, recipient, goes)


def _for_anthropic(
    prompt: tuple[Message, ...], recipient: Recipient, goes: Callable[[Message, Part], bool]
) -> tuple[Message, ...] | None:
    return _without(prompt, goes, open_answer(prompt)) if recipient.is_any("anthropic") else None


def with_reminders_renamed(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Call the tags ``system-reminder`` of system and user ``memory-context``: Azure's filter takes them for attacks.

    Source: the reference's rule of that purpose (spec builtins §8.2).
    """
    if not recipient.is_any("azure"):
        return None
    made = tuple(_renamed(message) for message in prompt)
    return made if made != prompt else None


def _renamed(message: Message) -> Message:
    if message.role not in ("system", "user"):
        return message
    parts = [
        replace(part, text=_REMINDER.sub(r"<\1memory-context", part.text)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.with_parts(parts)
