"""Messages both ways, through the JSON of pydantic-ai's histories, which keeps unknown fields; and verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic_ai import exceptions, messages as theirs

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, is_mapping, thaw
from penstock.engine.values.messages import Message, ReasoningPart, TextPart, ToolPart
from penstock.engine.values.tripwire import BlockedError
from penstock.formats import pydantic_ai as wire
from penstock.models.openai.wire import checksum
from penstock.models.pydantic_ai import requests

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_ai.models import ModelRequestParameters

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Part


class GuardBlockedError(BlockedError, exceptions.ContentFilterError):
    """A guard stopped a run. It is pydantic-ai's error for filtered content, and carries the verdict.

    Attributes:
        tripwire: the verdict.
    """

    def __reduce__(self) -> tuple[Value, ...]:
        """Return how it is made again: from the verdict, with what pydantic-ai has noted on it."""
        return BlockedError.__reduce__(self)


class DurableRunError(UsageError, exceptions.UserError):
    """Durable execution cannot record a run with guards. It is pydantic-ai's error, so that engines do not retry it."""

    def __reduce__(self) -> tuple[Value, ...]:
        """Return how it is made again."""
        return UsageError.__reduce__(self)


OURS = "penstock-instruction"
"""The key in the metadata of system messages that are instructions."""
INSTRUCTION: Values = freeze({OURS: True})
"""The metadata of instructions, which pydantic-ai sends beside the messages."""


def instruction_messages(parameters: ModelRequestParameters) -> list[Message]:
    """Return the instructions of a call as system messages."""
    return [Message.system(part.content, metadata=INSTRUCTION) for part in parameters.instruction_parts or ()]


def read_message(message: theirs.ModelMessage) -> tuple[Message, ...]:
    """Return a message of pydantic-ai's; its instructions are left out, since requests carry them beside it."""
    [item] = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json", exclude_none=True)
    item.pop("instructions", None)
    return tuple(map(_sealed, wire.read([item]))) if item["parts"] else ()


def write_messages(messages: Iterable[Message]) -> list[theirs.ModelMessage]:
    """Return messages as pydantic-ai's. A changed part loses its provider's signature."""
    return theirs.ModelMessagesTypeAdapter.validate_python(wire.write(map(_unsealed, messages)))


_SEAL = "of"
"""The key of the checksum of a part's text, beside what its provider needs back; `PydanticAIModel` notes it, too."""


def _sealed(message: Message) -> Message:
    """Return a message with a checksum at each part that a provider has signed, of the text as it is now."""
    parts = [
        _with_notes(part, {**notes, _SEAL: _seal(part)}) if (notes := _notes(part)) else part for part in message.parts
    ]
    return message.with_parts(parts)


def _unsealed(message: Message) -> Message:
    """Return a message without the signatures of parts whose text was changed since."""
    parts = [
        part if _notes(part).get(_SEAL) in (None, _seal(part)) else _with_notes(part, {}) for part in message.parts
    ]
    return message.with_parts(parts)


def _notes(part: Part) -> dict[str, Value]:
    notes = part.metadata.get(wire.FORMAT)
    return {**notes} if is_mapping(notes) else {}


def _with_notes(part: Part, notes: dict[str, Value]) -> Part:
    return replace(part, metadata={**part.metadata, wire.FORMAT: notes})


def _seal(part: Part) -> str:
    """Return the checksum of the content of a part."""
    if isinstance(part, ToolPart):
        return checksum(requests.arguments_text(thaw(part.arguments)))
    return checksum(part.text if isinstance(part, (TextPart, ReasoningPart)) else "")
