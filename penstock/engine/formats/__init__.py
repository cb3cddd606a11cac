"""Conversions both ways between messages and the formats of others; it knows no list, no stage and no step.

    penstock            the values' own fields (`native`)
    openai-chat         messages of OpenAI's chat completions and of those who speak like it
    openai-responses    items of OpenAI's responses
    ai-sdk-ui           the AI SDK's UI messages
    ai-sdk-model        the AI SDK's model messages: what goes to a provider
    stored              the reference's rows, ``content.format`` 2

Each is a module with ``read(items, place)`` and ``write(messages)``, imported at first use. docs/messages.md
says what each holds, and what writing normalises or leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from penstock.engine.formats.detection import formats_of
from penstock.engine.formats.wire import is_iterable, named
from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.message_list import as_messages
from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.formats.wire import Json, Value

__all__ = ["FORMATS", "Codec", "Format", "codec", "dump_messages", "json_schema", "parse_messages"]

Format = Literal["penstock", "openai-chat", "openai-responses", "ai-sdk-ui", "ai-sdk-model", "stored"]
FORMATS: tuple[str, ...] = get_args(Format)

_MODULES = {"penstock": "native"}
_PLACE = "messages"


class Codec(Protocol):
    """What the module of a format offers."""

    @property
    def FORMAT(self) -> str:  # noqa: N802  # a constant of the module
        """The format's name, under which metadata keeps what only this format says."""
        ...

    @property
    def LEAVES_OUT(self) -> frozenset[str]:  # noqa: N802  # a constant of the module
        """The kinds of parts for which the format has no place."""
        ...

    def read(self, items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
        """Return the messages; the first is called ``place[start]`` in errors."""
        ...

    def write(self, messages: Iterable[Message]) -> list[Json]:
        """Return the messages as JSON objects."""
        ...


@cache
def codec(format: str) -> Codec:  # noqa: A002  # the users' word
    """Return the codec for a format.

    Raises:
        UsageError: there is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f"format is one of {', '.join(FORMATS)}, not {format!r}")
    found: Value = import_module(f"{__name__}.{_MODULES.get(format, format.replace('-', '_'))}")
    made: Codec = found
    return made


def parse_messages(
    value: object,
    format: Format | None = None,  # noqa: A002  # the users' word
) -> tuple[Message, ...]:
    """Return messages from whatever holds some.

    Args:
        value: a str (one user message), a `Message`, a JSON object, or an iterable of messages and objects.
        format: what the objects are; if it is not told, it is found out for each.

    Raises:
        MessageError: something else, or a malformed message; its place is named (``messages[3].content[1]``).
        UsageError: there is no such format.
    """
    given = None if format is None else codec(format)
    if isinstance(value, str):
        return (Message.user(value),)
    items = _items(value)
    made: list[Message] = []
    runs = 0
    for kind, run in groupby(range(len(items)), _kinds(items, given).__getitem__):
        places = list(run)
        part = [items[index] for index in places]
        made += codec(kind).read(part, _PLACE, places[0]) if kind else part
        runs += 1
    return tuple(made) if runs <= 1 else named(made)


def _items(value: object) -> list[Value]:
    """Return what may be messages: the value itself, or all that it holds."""
    if isinstance(value, (Message, Mapping)):
        return [value]
    if is_iterable(value):
        return list(value)
    raise MessageError(_PLACE, f"expected a str, a message or several, not {type(value).__name__}")


def _kinds(items: Sequence[Value], given: Codec | None) -> list[str]:
    """Return the format of each item; empty for one that is a `Message` already."""
    if given is not None:
        return ["" if isinstance(item, Message) else given.FORMAT for item in items]
    return formats_of(items, _PLACE)


def dump_messages(
    messages: str | Message | Iterable[Message],
    format: Format = "penstock",  # noqa: A002  # the users' word
) -> list[Json]:
    """Return messages as JSON objects of a format.

    Calls and results are brought together or parted, as the format has them. What it has no place for is left out: the
    kinds of parts in its codec's ``LEAVES_OUT``, and the ids, times and metadata that docs/messages.md lists.

    Raises:
        MessageError: something is no message, or holds what JSON does not know.
        UsageError: there is no such format.
    """
    return codec(format).write(as_messages(messages))


def json_schema() -> Json:
    """Return the JSON Schema of one message in Penstock's own form."""
    from penstock.engine.formats import native

    return native.json_schema()
