"""Read and write messages in the JSON formats of providers, user interfaces and stores.

    penstock            Penstock's own: the fields of the values under their own names (module `native`)
    openai-chat         messages of OpenAI's chat completions, and of providers that are compatible with them
    openai-responses    items of OpenAI's responses
    anthropic           messages of Anthropic's Messages API
    google              contents of Gemini
    ai-sdk-ui           the AI SDK's UI messages
    ai-sdk-model        the AI SDK's model messages, which it sends to a provider
    langchain           LangChain's messages, as its functions dump them
    pydantic-ai         pydantic-ai's history, as its adapter dumps it
    mcp                 messages of prompts, and results of tools, of the Model Context Protocol
    stored              rows of the reference system, ``content.format`` 2

Each format is a module with the functions ``read`` and ``write`` (`WireFormat`), imported when it is first needed.
`wire` and `parts` hold what several of them share, `ai_sdk_parts` what UI and stored messages share. docs/messages.md
says what each format holds, and what writing normalises or leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.message_list import as_messages
from penstock.engine.values.messages import Message
from penstock.formats.detection import formats_of
from penstock.formats.wire import is_iterable, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.formats.wire import Json, Value

__all__ = ["FORMATS", "Format", "WireFormat", "dump_messages", "json_schema", "parse_messages", "wire_format"]

Format = Literal[
    "penstock",
    "openai-chat",
    "openai-responses",
    "anthropic",
    "google",
    "ai-sdk-ui",
    "ai-sdk-model",
    "langchain",
    "pydantic-ai",
    "mcp",
    "stored",
]
FORMATS: tuple[str, ...] = get_args(Format)

_MODULES = {"penstock": "native"}
_PLACE = "messages"


class WireFormat(Protocol):
    """The interface of a format's module."""

    @property
    def FORMAT(self) -> str:  # noqa: N802  # a constant of the module
        """The format's name. Data that no other format can hold is kept in metadata under it."""
        ...

    @property
    def LEAVES_OUT(self) -> frozenset[str]:  # noqa: N802  # a constant of the module
        """The types of parts that the format has no place for; writing leaves them out."""
        ...

    def read(self, items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
        """Return the messages; errors call the first one ``place[start]``."""
        ...

    def write(self, messages: Iterable[Message]) -> list[Json]:
        """Return the messages as JSON objects."""
        ...


@cache
def wire_format(format: str) -> WireFormat:  # noqa: A002  # the users' word
    """Return the module that reads and writes a format, one of `FORMATS`.

    Raises:
        UsageError: there is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f"format must be one of {', '.join(FORMATS)}, not {format!r}")
    found: Value = import_module(f"{__name__}.{_MODULES.get(format, format.replace('-', '_'))}")
    made: WireFormat = found
    return made


def parse_messages(
    value: object,
    format: Format | None = None,  # noqa: A002  # the users' word
    *,
    trusted: bool = False,
) -> tuple[Message, ...]:
    """Return messages from text, from JSON objects in any of the formats, or from messages.

    What is parsed from JSON objects counts as a client's: its messages have ``from_client`` set, whatever their role
    and whatever the object says, and guards check them all, system messages included.

    Args:
        value: a str (one user message), a `Message`, a JSON object, or an iterable of messages and objects.
        format: the format of the objects, one of `FORMATS`; None detects it for each object.
        trusted: whether the objects come from the application itself (its store, its configuration). ``from_client``
            is then not set, except where an object in Penstock's own format says so.

    Raises:
        MessageError: the value is something else, or a message is malformed. The error names its place
            (``messages[3].content[1]``) and quotes no text.
        UsageError: there is no such format.
    """
    given = None if format is None else wire_format(format)
    if isinstance(value, str):
        return (Message.user(value),)
    items = _items(value)
    made: list[Message] = []
    runs = 0
    for kind, run in groupby(range(len(items)), _kinds(items, given).__getitem__):
        places = list(run)
        part = [items[index] for index in places]
        made += _read(wire_format(kind), part, places[0], trusted=trusted) if kind else part
        runs += 1
    return tuple(made) if runs <= 1 else named(made)


def _read(format: WireFormat, items: Sequence[Value], start: int, *, trusted: bool) -> Iterable[Message]:  # noqa: A002
    found = format.read(items, _PLACE, start)
    return found if trusted else [message.as_from_client() for message in found]


def _items(value: object) -> list[Value]:
    """Return the value itself as the one item, or the items that it holds."""
    if isinstance(value, (Message, Mapping)):
        return [value]
    if is_iterable(value):
        return list(value)
    raise MessageError(_PLACE, f"expected a str, a message or several, not {type(value).__name__}")


def _kinds(items: Sequence[Value], given: WireFormat | None) -> list[str]:
    """Return the format of each item; empty for one that is a `Message` already."""
    if given is not None:
        return ["" if isinstance(item, Message) else given.FORMAT for item in items]
    return formats_of(items, _PLACE)


def dump_messages(
    messages: str | Message | Iterable[Message],
    format: Format = "penstock",  # noqa: A002  # the users' word
) -> list[Json]:
    """Return messages as JSON objects of a format.

    Tool calls and their results are put into one part or into separate messages, as the format requires. What it has no
    place for is left out: the types of parts in `WireFormat.LEAVES_OUT`, and the ids, times and metadata that
    docs/messages.md lists.

    Args:
        messages: a str (one user message), a message, or several.
        format: the format to write, one of `FORMATS`.

    Raises:
        MessageError: something is not a message, or holds a value that JSON does not have.
        UsageError: there is no such format.
    """
    return wire_format(format).write(as_messages(messages))


def json_schema() -> Json:
    """Return the JSON Schema of one message in Penstock's own form."""
    from penstock.formats import native

    return native.json_schema()
