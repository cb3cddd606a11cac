"""Whose the parts of a conversation are: what metadata tell of the provider that made them. It knows no rule.

Metadata hold what a provider wants back under its own name (``anthropic``, ``openai`` …), as the AI SDK writes them, or
under ``pydantic-ai`` with the provider's name inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY, Values, is_mapping
from penstock.engine.values.messages import DataPart, ReasoningPart, SourcePart, StepStartPart, ToolPart, UnknownPart
from penstock.models.conversations.providers import family_of, provider_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Message, Part

_PYDANTIC = "pydantic-ai"
_CHAT = "openai-chat"
_FORMATS = frozenset({_PYDANTIC, _CHAT, "openai-responses", "ai-sdk-model", "ai-sdk-ui", "stored"})
_SDK = ("ai-sdk-model", "ai-sdk-ui", "stored")
_HOSTED = ("builtin-tool-call", "builtin-tool-return")
_ASIDE = (StepStartPart, DataPart, SourcePart)
"""Parts that no provider is sent."""

HOSTING_FAMILIES = frozenset({"anthropic", "openai", "google"})
"""The families whose providers run tools themselves."""


def notes_under(value: Message | Part, name: str) -> Values:
    """Return what stands in the metadata under a name; nothing where that is no mapping."""
    found = value.metadata.get(name)
    return found if is_mapping(found) else EMPTY


def raw_of(part: Part) -> Values:
    """Return what a part of an unknown kind holds; nothing for any other."""
    return part.raw if isinstance(part, UnknownPart) and is_mapping(part.raw) else EMPTY


def providers_of(part: Part) -> frozenset[str]:
    """Return the providers, each by its one name, whose metadata a part bears; none where nobody tells."""
    named = [name for name in part.metadata if name not in _FORMATS and name != "mastra"]
    told = (notes_under(part, _PYDANTIC).get("provider_name"), raw_of(part).get("provider_name"))
    return frozenset(provider_named(name) for name in (*named, *told) if isinstance(name, str))


def made_by(message: Message) -> str | None:
    """Return the provider that a message is stamped with: ``metadata["provider"]``, or pydantic-ai's note."""
    told = (message.metadata.get("provider"), notes_under(message, _PYDANTIC).get("provider_name"))
    return next((provider_named(name) for name in told if isinstance(name, str) and name), None)


def is_thought(part: Part) -> bool:
    """Tell whether it is reasoning, readable or sealed."""
    if isinstance(part, ReasoningPart):
        return True
    if not isinstance(part, UnknownPart):
        return False
    return raw_of(part).get("part_kind") == "thinking" or notes_under(part, _CHAT).get("field") == "reasoning_details"


def is_signed(part: Part) -> bool:
    """Tell whether it bears a signature of Anthropic's; what is redacted is sealed, and has none."""
    own, kept = notes_under(part, "anthropic"), notes_under(part, _PYDANTIC)
    sealed = bool(own.get("redactedData")) or kept.get("id") == "redacted_thinking"
    return "anthropic" in providers_of(part) and not sealed and bool(own.get("signature") or kept.get("signature"))


def hosts_of(part: Part) -> frozenset[str]:
    """Return the families of the provider that ran a tool itself; none for a tool of the caller's."""
    hosted = raw_of(part).get("part_kind") in _HOSTED or (
        isinstance(part, ToolPart) and any(_executed(notes_under(part, name)) for name in _SDK)
    )
    return HOSTING_FAMILIES.intersection(map(family_of, providers_of(part))) if hosted else frozenset()


def _executed(notes: Values) -> bool:
    extras = (notes.get("extra"), notes.get("inner"))
    return any(is_mapping(extra) and extra.get("providerExecuted") is True for extra in extras)


def hosted_id(part: Part) -> str | None:
    """Return the id of the call that a part calls or answers; None where it is neither, or has none."""
    found: object = part.call_id if isinstance(part, ToolPart) else raw_of(part).get("tool_call_id")
    return found if isinstance(found, str) and found else None


def says_something(parts: Iterable[Part]) -> bool:
    """Tell whether there is something that a provider is sent."""
    return any(not isinstance(part, _ASIDE) for part in parts)


def open_answer(messages: Sequence[Message]) -> int | None:
    """Return the place of the assistant's message whose calls were answered last; None where no turn is open.

    Behind it stand results alone, in messages of their own or in itself.
    """
    place = len(messages) - 1
    while place >= 0 and messages[place].role == "tool":
        place -= 1
    if place < 0 or messages[place].role != "assistant":
        return None
    if place < len(messages) - 1:
        return place
    said = [part for part in messages[place].parts if not isinstance(part, _ASIDE)]
    settled = said and isinstance(said[-1], ToolPart) and said[-1].state in ("result", "error")
    return place if settled else None
