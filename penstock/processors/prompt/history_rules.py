"""`HistoryRule`, and the built-in rules that make a conversation acceptable to another provider.

The metadata of parts says which provider made them: under the name of the provider (``anthropic``, ``openai`` …), as
the AI SDK writes it, or under ``pydantic-ai`` with the name of the provider inside.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.detection.deferred import deferred
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, Values, is_mapping
from penstock.engine.values.messages import (
    DataPart,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import openai_chat
from penstock.models.conversations import is_provider_executed
from penstock.models.open_calls import with_calls_closed
from penstock.processors.prompt.recipient import family_of, provider_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.processors.prompt.recipient import Recipient


Rewrite: TypeAlias = "Callable[[tuple[Message, ...], Recipient], Sequence[Message] | None]"
"""Gets a prompt and its `Recipient`; returns the messages to send instead, or None for no change."""

Fix: TypeAlias = "Callable[[tuple[Message, ...]], Sequence[Message] | None]"
"""Gets a conversation that a provider refused; returns the messages to use instead, or None for no change."""

_MOST_CHARACTERS = 20_000  # characters of an error text that are read
_CAUSES = 8  # errors of a chain that are read


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """One thing that providers refuse, and how to repair it: before each call, or after a refusal.

    Attributes:
        name: the name of the rule in records and in ``disabled_rules``.
        apply_to_prompt: called with the prompt of every model call, system messages first, and its `Recipient`. The
            messages that it returns are sent in this call only. None returned: no change.
        fix: called with the conversation, without system messages, if a model call failed with an error that matches
            one of the patterns. The messages that it returns replace the conversation, and the call is retried. None
            returned: no change.
        error_patterns: regular expressions, searched in the texts of the error and its causes. A str ignores case; a
            compiled pattern keeps its flags.

    Raises:
        OptionError: the name is empty, neither function is given, ``fix`` comes without patterns or patterns without
            ``fix``, or a pattern is invalid.
    """

    name: str
    apply_to_prompt: Rewrite | None = None
    fix: Fix | None = None
    error_patterns: Sequence[str | re.Pattern[str]] = ()

    def __post_init__(self) -> None:
        """Check the values, and compile the patterns."""
        given: Value = self.name
        if not isinstance(given, str) or not given:
            raise OptionError("HistoryRule", "name", given, "a non-empty str")
        object.__setattr__(self, "error_patterns", tuple(_compiled_patterns(self.error_patterns)))
        if self.apply_to_prompt is None and self.fix is None:
            raise OptionError("HistoryRule", "fix", None, "given, unless apply_to_prompt is")
        if (self.fix is None) != (not self.error_patterns):
            raise OptionError("HistoryRule", "error_patterns", (), "given together with fix, which they call")

    def is_about(self, texts: Iterable[str]) -> bool:
        """Return whether one of the patterns matches one of the texts."""
        patterns = cast("Sequence[re.Pattern[str]]", self.error_patterns)
        return any(pattern.search(text) for text in texts for pattern in patterns)


def _compiled_patterns(given: Value) -> Iterator[re.Pattern[str]]:
    allowed = "a list of regular expressions"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise OptionError("HistoryRule", "error_patterns", given, allowed)
    for pattern in cast("Iterable[str | re.Pattern[str]]", given):
        try:
            yield re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else re.compile(pattern)
        except (re.error, TypeError):
            raise OptionError("HistoryRule", "error_patterns", pattern, allowed) from None


def error_texts(error: BaseException) -> tuple[str, ...]:
    """Return the messages of an error and its causes, and the bodies of the answers that they carry."""
    texts: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < _CAUSES:
        seen.add(id(cause))
        body: object = getattr(cause, "body", None)
        texts += [text[:_MOST_CHARACTERS] for text in (str(cause), body) if isinstance(text, str) and text]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return tuple(texts)


# Where parts come from

_PYDANTIC = "pydantic-ai"
_CHAT = "openai-chat"
_FORMATS = frozenset({_PYDANTIC, _CHAT, "openai-responses", "ai-sdk-model", "ai-sdk-ui", "stored", "langchain", "mcp"})
_HOSTED = ("builtin-tool-call", "builtin-tool-return")
_NOT_SENT = (StepStartPart, DataPart, SourcePart)
"""Parts that are not sent to providers."""

_HOSTING_FAMILIES = frozenset({"anthropic", "openai", "google"})
"""The families whose providers run tools themselves."""


def _metadata_under(value: Message | Part, name: str) -> Values:
    """Return the mapping in the metadata under a name; empty if there is none."""
    found = value.metadata.get(name)
    return found if is_mapping(found) else EMPTY


def _raw_of(part: Part) -> Values:
    """Return the content of a part of an unknown kind; empty for any other part."""
    return part.raw if isinstance(part, UnknownPart) and is_mapping(part.raw) else EMPTY


def _providers_of(part: Part) -> frozenset[str]:
    """Return the providers that the metadata of a part names, by their common names."""
    named = [name for name in part.metadata if name not in _FORMATS and name != "mastra"]
    noted = (_metadata_under(part, _PYDANTIC).get("provider_name"), _raw_of(part).get("provider_name"))
    return frozenset(provider_named(name) for name in (*named, *noted) if isinstance(name, str))


def _stamped_provider(message: Message) -> str | None:
    """Return the provider that the metadata of a message names: ``metadata["provider"]``, or pydantic-ai's note."""
    noted = (message.metadata.get("provider"), _metadata_under(message, _PYDANTIC).get("provider_name"))
    return next((provider_named(name) for name in noted if isinstance(name, str) and name), None)


def _is_reasoning(part: Part) -> bool:
    """Return whether a part is reasoning, readable or encrypted."""
    if isinstance(part, ReasoningPart):
        return True
    if not isinstance(part, UnknownPart):
        return False
    field = _metadata_under(part, _CHAT).get("field")
    return _raw_of(part).get("part_kind") == "thinking" or field in openai_chat.DETAIL_KEYS


def _has_anthropic_signature(part: Part) -> bool:
    """Return whether a part has a signature of Anthropic's. Redacted reasoning has none."""
    own, noted = _metadata_under(part, "anthropic"), _metadata_under(part, _PYDANTIC)
    redacted = bool(own.get("redactedData")) or noted.get("id") == "redacted_thinking"
    return "anthropic" in _providers_of(part) and not redacted and bool(own.get("signature") or noted.get("signature"))


def _hosting_families_of(part: Part) -> frozenset[str]:
    """Return the families of the provider that ran a tool itself; empty for tools of the caller."""
    hosted = _raw_of(part).get("part_kind") in _HOSTED or (isinstance(part, ToolPart) and is_provider_executed(part))
    return _HOSTING_FAMILIES.intersection(map(family_of, _providers_of(part))) if hosted else frozenset()


def _call_id_of(part: Part) -> str | None:
    """Return the id of the call that a part makes or answers; None if it is neither, or has no id."""
    found: object = part.call_id if isinstance(part, ToolPart) else _raw_of(part).get("tool_call_id")
    return found if isinstance(found, str) and found else None


def _open_answer_index(messages: Sequence[Message]) -> int | None:
    """Return the index of the assistant message whose calls were answered last; None if no turn is open.

    After it, there are only results: in tool messages, or in the message itself.
    """
    place = len(messages) - 1
    while place >= 0 and messages[place].role == "tool":
        place -= 1
    if place < 0 or messages[place].role != "assistant":
        return None
    if place < len(messages) - 1:
        return place
    sent = [part for part in messages[place].parts if not isinstance(part, _NOT_SENT)]
    answered = sent and isinstance(sent[-1], ToolPart) and sent[-1].state in ("result", "error")
    return place if answered else None


# Rules for prompts
#
# Each gets a prompt and its recipient, and returns the messages to send instead, or None for no change. A message
# without any content left is removed. The rules for Anthropic do not change the answer whose tools have just run: its
# reasoning must be sent back unchanged.

_REMINDER = deferred(r"<(/?)system-reminder(?=[\s/>])", re.IGNORECASE)
_CALLS = (ToolPart, UnknownPart)
_GATEWAYS = frozenset({"bedrock", "gateway", "litellm", "mastra", "netlify", "openrouter", "vercel"})
"""Providers that relay to others. Calls of another family's tools may be meant for the provider behind them."""


def _without_parts(
    messages: Sequence[Message], is_dropped: Callable[[Message, Part], bool], untouched: int | None = None
) -> tuple[Message, ...] | None:
    """Return the messages without some parts of assistant and tool messages; None if there is nothing to remove."""
    made: list[Message] = []
    changed = False
    for place, message in enumerate(messages):
        parts = message.parts
        if message.role in ("assistant", "tool") and place != untouched:
            parts = tuple(part for part in parts if not is_dropped(message, part))
        if len(parts) == len(message.parts):
            made.append(message)
            continue
        changed = True
        if any(not isinstance(part, _NOT_SENT) for part in parts):
            made.append(message.with_parts(parts))
    return tuple(made) if changed else None


def with_open_calls_closed(prompt: tuple[Message, ...], _recipient: Recipient) -> Sequence[Message] | None:
    """Give each call without a result an error that says so, and remove results without a call."""
    closed = with_calls_closed(prompt)
    return None if closed is prompt else closed


def without_foreign_hosted_tools(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Remove calls of tools that a provider of another family ran itself, and their results."""
    if not recipient.providers or recipient.is_any(*_GATEWAYS):
        return None
    families = recipient.families
    foreign: set[str] = set()
    for part in (part for message in prompt for part in message.parts if type(part) in _CALLS):
        hosts = _hosting_families_of(part)
        named = _call_id_of(part)
        if hosts and hosts.isdisjoint(families) and named is not None:
            foreign.add(named)
    return _without_parts(prompt, lambda _, part: _call_id_of(part) in foreign) if foreign else None


def without_reasoning_for_cerebras(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Remove reasoning, which Cerebras refuses."""
    return _without_parts(prompt, lambda _, part: _is_reasoning(part)) if recipient.is_any("cerebras") else None


def without_empty_signed_reasoning(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Remove reasoning that has a signature and no text. Redacted reasoning stays."""

    def is_dropped(_message: Message, part: Part) -> bool:
        return isinstance(part, ReasoningPart) and not part.text and _has_anthropic_signature(part)

    return _for_anthropic(prompt, recipient, is_dropped)


def without_foreign_reasoning(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Remove reasoning that does not come from Anthropic."""
    return _for_anthropic(
        prompt, recipient, lambda _, part: _is_reasoning(part) and "anthropic" not in _providers_of(part)
    )


def without_foreign_signatures(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Remove reasoning with a signature like Anthropic's from answers of other providers."""

    def is_dropped(message: Message, part: Part) -> bool:
        return (
            _is_reasoning(part)
            and _has_anthropic_signature(part)
            and _stamped_provider(message) not in (None, "anthropic")
        )

    return _for_anthropic(prompt, recipient, is_dropped)


def _for_anthropic(
    prompt: tuple[Message, ...], recipient: Recipient, is_dropped: Callable[[Message, Part], bool]
) -> tuple[Message, ...] | None:
    return _without_parts(prompt, is_dropped, _open_answer_index(prompt)) if recipient.is_any("anthropic") else None


def with_reminders_renamed(prompt: tuple[Message, ...], recipient: Recipient) -> tuple[Message, ...] | None:
    """Rename the tags ``system-reminder`` of system and user messages to ``memory-context`` for Azure.

    Azure's filter takes them for attacks. Source: the rule of the reference system (spec builtins §8.2).
    """
    if not recipient.is_any("azure"):
        return None
    made = tuple(_with_reminder_renamed(message) for message in prompt)
    return made if made != prompt else None


def _with_reminder_renamed(message: Message) -> Message:
    if message.role not in ("system", "user"):
        return message
    parts = [
        replace(part, text=_REMINDER.sub(r"<\1memory-context", part.text)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.with_parts(parts)


# Rules for conversations that a provider refused

_ID_REFUSED = (
    r"tool_use(?:_id|\.id)\b.{0,200}should match pattern",
    r"toolUseId\b.{0,300}regular expression pattern",
)
"""The errors of Anthropic and Bedrock about a call id with characters that they do not accept."""

_ITEM_REFUSED = (r"was provided without its required 'reasoning' item",)
"""OpenAI's error about an item that refers to missing reasoning."""

_NOT_PLAIN = deferred(r"[^A-Za-z0-9_-]")
_MOST_OF_AN_ID = 64  # characters: the limit of the strictest provider
_SUFFIX = 8  # hexadecimal digits
_ITEM_ID = "itemId"


def _with_parts_changed(
    messages: tuple[Message, ...], change: Callable[[Message, Part], Part]
) -> tuple[Message, ...] | None:
    """Return the messages with their parts changed; None if no part changed."""
    made = [message.with_parts([change(message, part) for part in message.parts]) for message in messages]
    merged = tuple(new if new != old else old for new, old in zip(made, messages, strict=True))
    return merged if any(new is not old for new, old in zip(merged, messages, strict=True)) else None


# Ids of calls


def with_plain_ids(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Rename calls whose ids have characters that Anthropic does not accept, and their results."""
    return _with_parts_changed(
        messages,
        lambda _, part: replace(part, call_id=plain_id(part.call_id)) if isinstance(part, ToolPart) else part,
    )


def plain_id(given: str) -> str:
    """Return an id of letters, digits, ``_`` and ``-``: the id itself, or with ``_`` for other characters and a hash.

    The result depends on the id alone, so calls and results still match in every request, and different ids stay
    different.
    """
    if not _NOT_PLAIN.search(given):
        return given
    digest = hashlib.sha256(given.encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX]
    return f"{_NOT_PLAIN.sub('_', given)[: _MOST_OF_AN_ID - _SUFFIX - 1]}_{digest}"


# References to items


def without_orphan_items(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Remove references to OpenAI's items from answers without a reasoning item."""
    bare = {message.id for message in messages if message.role == "assistant" and not _has_reasoning_item(message)}

    def change(message: Message, part: Part) -> Part:
        return _without_item(part) if message.id in bare else part

    return _with_parts_changed(messages, change)


def _has_reasoning_item(message: Message) -> bool:
    return any(_is_reasoning(part) and _without_item(part) is not part for part in message.parts)


def _without_item(part: Part) -> Part:
    """Return the part without its item id; the same object if it has none."""
    left = {name: _metadata_without_item(part, name) for name in part.metadata}
    if all(left[name] is part.metadata[name] for name in left):
        return part
    return replace(part, metadata={name: notes for name, notes in left.items() if notes != {}})


def _metadata_without_item(part: Part, name: str) -> Value:
    notes = _metadata_under(part, name)
    if name == _PYDANTIC:
        key, owner = "id", notes.get("provider_name")
    else:
        key, owner = _ITEM_ID, name
    if key not in notes or not isinstance(owner, str) or family_of(provider_named(owner)) != "openai":
        return part.metadata[name]
    return {other: item for other, item in notes.items() if other != key}


# The table

BUILT_IN: tuple[HistoryRule, ...] = (
    HistoryRule("strip-foreign-provider-executed-tools", without_foreign_hosted_tools),
    HistoryRule("anthropic-tool-id-format", fix=with_plain_ids, error_patterns=_ID_REFUSED),
    HistoryRule("cerebras-strip-reasoning-content", without_reasoning_for_cerebras),
    HistoryRule("anthropic-strip-empty-signed-reasoning-content", without_empty_signed_reasoning),
    HistoryRule("anthropic-strip-foreign-reasoning-content", without_foreign_reasoning),
    HistoryRule("anthropic-strip-foreign-signed-reasoning", without_foreign_signatures),
    HistoryRule("azure-system-reminder-transform", with_reminders_renamed),
    HistoryRule("openai-orphan-item-id", fix=without_orphan_items, error_patterns=_ITEM_REFUSED),
    HistoryRule("open-tool-calls", with_open_calls_closed),
)
"""The built-in rules, in the order in which they are applied. The reference system has all but the last one."""
