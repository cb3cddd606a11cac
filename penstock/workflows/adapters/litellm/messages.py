"""Messages of a request, both ways, in OpenAI's chat format. Fields of a message beyond that format are kept, and read.

LiteLLM's users write messages as dictionaries, and put its own objects between them: the answers of earlier calls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import BaseModel

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import DataPart, Message, ReasoningPart, StepStartPart, TextPart, ToolPart
from penstock.formats import openai_chat
from penstock.formats.wire import Json, has_text, is_array, is_empty, is_object
from penstock.workflows.hosting import Original, Originals
from penstock.workflows.hosting.answers import data_left

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Value
    from penstock.workflows.hosting import HostRequest

BESIDE = "litellm"
"""The name of the data part for what a message has beyond OpenAI's format."""

PARAMETERS = "litellm-parameters"
"""The name of the data part for what a client says beside its messages, and the key that marks its message."""

FORMAT_KEYS = frozenset(
    {
        "role",
        "content",
        "name",
        "refusal",
        "audio",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "function_call",
        "tool_call_id",
    }
)
"""The keys of a message that `openai_chat` reads."""

_THINKING = "thinking_blocks"
_BLOCK, _REDACTED = "thinking", "redacted_thinking"
_SEALED = frozenset({"signature", "thought_signature", "thought_signatures", "encrypted_content"})
"""The keys of what only its provider can read, and needs back; ``data`` of redacted thinking is such, too."""

_CODE = re.compile(r"[A-Za-z0-9+/=_-]*")


def plain(value: object) -> Value:
    """Return a value of LiteLLM as JSON; what its models leave empty is left out."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(exclude_none=True))
    if is_object(value):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if is_array(value) else value


def said_of(value: Value) -> Value:
    """Return a JSON value without empty values, which LiteLLM writes in several ways."""
    if is_object(value):
        said = {name: said_of(item) for name, item in value.items()}
        return {name: item for name, item in said.items() if not is_empty(item)}
    return [said_of(item) for item in value] if is_array(value) else value


# What stands beside the format


def beside_of(item: Json) -> tuple[Json, Json]:
    """Return the fields of a message beside its format: those that guards read, and the others.

    Thinking that its reasoning repeats is read there. The second holds no text for anybody but a provider.
    """
    more = {name: value for name, value in item.items() if name not in FORMAT_KEYS}
    apart = {_THINKING: more.pop(_THINKING)} if thinking_of(more) == (item.get("reasoning_content") or "") else {}
    read = {name: value for name, value in more.items() if not _marks_cache(name, value) and has_text(readable(value))}
    return read, {name: value for name, value in more.items() if name not in read} | apart


def _marks_cache(name: str, value: Value) -> bool:
    return name == "cache_control" and value in [
        {"type": "ephemeral", **ttl} for ttl in ({}, {"ttl": "5m"}, {"ttl": "1h"})
    ]


def thinking_of(item: Json) -> str | None:
    """Return the text of a message's blocks of thinking; None if it has none, or if they hold other text."""
    blocks = item.get(_THINKING)
    if not is_array(blocks) or not all(is_object(block) and _only_thinks(block) for block in blocks):
        return None
    return "".join(str(block.get("thinking") or "") for block in blocks)


def _only_thinks(block: Json) -> bool:
    beside = {name: value for name, value in readable(block).items() if name not in ("type", "thinking")}
    return block.get("type") in (None, _BLOCK, _REDACTED) and not has_text(beside)


def readable(value: Value) -> Value:
    """Return a JSON value without the text that only a provider can read."""
    if is_object(value):
        return {name: readable(item) for name, item in value.items() if not _is_sealed(value, name)}
    return [readable(item) for item in value] if is_array(value) else value


def _is_sealed(item: Json, name: str) -> bool:
    """Return whether only a provider can read a value; what holds more than letters of a code may be a text."""
    value = item[name]
    if name not in _SEALED and not (name == "data" and item.get("type") == _REDACTED):
        return False
    return all(isinstance(each, str) and _CODE.fullmatch(each) for each in (value if is_array(value) else [value]))


def restored(given: Value, left: Value) -> Value:
    """Return the guarded version of a readable value, with the text that only a provider can read."""
    if is_object(given) and is_object(left):
        return {
            name: restored(item, left[name]) if name in left else item
            for name, item in given.items()
            if name in left or _is_sealed(given, name)
        }
    if is_array(given) and is_array(left) and len(given) == len(left):
        return [restored(item, other) for item, other in zip(given, left, strict=True)]
    return left


def texts_of(parts: Iterable[Part], kind: type[TextPart | ReasoningPart]) -> str:
    """Return the texts of a kind, joined."""
    return "".join([part.text for part in parts if isinstance(part, kind)])


def written(message: Message) -> list[Json]:
    """Return a message in OpenAI's format: with its calls after its texts, and behind it the results of these calls."""
    parts = [part for part in message.parts if not isinstance(part, (DataPart, StepStartPart))]
    parts.sort(key=lambda part: isinstance(part, ToolPart))
    return openai_chat.write([message.with_parts(parts)])


class LiteLLMMessages(Originals["Json"]):
    """The messages of one request, both ways."""

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request, _write)

    def read_call(self, given: Value, *, from_client: bool) -> list[Message]:
        """Return the messages of a model call; `written` gives back those that are unchanged.

        Args:
            given: a list of messages: dictionaries, or LiteLLM's objects.
            from_client: whether a client has sent them.

        Raises:
            MessageError: one is malformed.
        """
        items, said = read(given)
        if from_client:
            said = [message.as_from_client() for message in said]
        self.note(items, said)
        return said

    def written(self, messages: Iterable[Message]) -> list[Json]:
        """Return messages as LiteLLM gets them, without the one of parameters."""
        return super().written(message for message in messages if PARAMETERS not in message.metadata)

    def current(self, given: Sequence[Value]) -> list[Value]:
        """Return messages as the guards left them; unchanged ones are the objects that were given."""
        _, said = read(given)
        made: list[Value] = []
        for one, before, left in zip(given, said, self._request.current(said), strict=True):
            if left is None:
                continue
            written = [one] if before.parts == left.parts else super().written([left])
            made += [one] if len(written) == 1 and said_of(written[0]) == said_of(plain(one)) else written
        return made


def read(given: Value) -> tuple[list[Json], list[Message]]:
    """Return messages as JSON and as ours.

    Raises:
        MessageError: one is malformed.
    """
    if not is_array(given):
        raise MessageError("messages", f"expected a list of messages, not {type(given).__name__}")
    items = [plain(item) for item in given]
    for at, item in enumerate(items):
        if not is_object(item):
            raise MessageError(f"messages[{at}]", f"expected a message, not {type(item).__name__}")
    pairs = list(map(_with_beside, openai_chat.read([_in_format(item) for item in items]), items))
    return [item for item, _ in pairs], [message for _, message in pairs]


def _with_beside(message: Message, item: Json) -> tuple[Json, Message]:
    """Return a message with its fields beyond the format; results of tools hold nothing else, so they lose them."""
    beside, apart = beside_of(item)
    if beside and message.role == "tool":
        return {**{name: value for name, value in item.items() if name in FORMAT_KEYS}, **apart}, message
    if beside:
        return item, message.with_parts([*message.parts, DataPart(BESIDE, readable(beside))])
    return item, message


def _write(message: Message, original: Original[Json] | None) -> list[Json]:
    """Return a message in LiteLLM's form, with the fields beside the format; thinking goes if its text was changed."""
    items = written(message)
    if original is None or not items or message.role == "tool":
        return items
    beside, apart = beside_of(original.given)
    if texts_of(original.said.parts, ReasoningPart) != texts_of(message.parts, ReasoningPart):
        apart.pop(_THINKING, None)
    return [{**items[0], **apart, **restored(beside, data_left(message.parts, BESIDE))}, *items[1:]]


def _in_format(item: Json) -> Json:
    """Return a message without its fields beyond the format."""
    return {"content": None, **{name: value for name, value in item.items() if name in FORMAT_KEYS}}
