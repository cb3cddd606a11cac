"""The shape in which a message or a part was read: all that the wire had and that Penstock has no field for.

A format keeps it in metadata under its own name, and writes with it what it read. One type describes it for all
formats, so that a key means the same in each of them. Guards read metadata, but skip the words in it that formats write
by themselves (`note_words`).
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    TypeAlias,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from penstock.engine.values.frozen import thaw
from penstock.formats.wire import Json, Value, is_object, with_notes, without_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.engine.values.messages import Message, Part


Style: TypeAlias = Literal["compact", "spaced", "compact-ascii", "spaced-ascii", "indented", "blank"]
"""How the JSON text of a call's arguments was written."""

Rule: TypeAlias = Literal["lines", "plain", "words", "paragraphs", "last", "first", "own"]
"""How a copy of a text was made from its pieces; `own` for one that says something else."""

_Named = TypedDict("_Named", {"as": str, "list": bool}, total=False)  # names that a class cannot give to its entries


class WireTerms(_Named, total=False):
    """Entries that formats write by themselves: guards skip the keys, and the words in the types.

    A value that is typed as `str` comes from the wire, and guards read it, unless it is one of the words beside it.
    """

    # What was there beside the fields
    extra: Json  # unknown keys, and known ones that were empty
    inner: Json  # the same of the object within a block
    odd: Json | bool  # values of a wrong type
    snake: list[str]  # keys that were spelled in snake_case
    inner_snake: list[str]
    block: list[Value]  # the one block of a document or a search result, without its text
    pieces: list[Value]  # the pieces of a text, without their texts
    lengths: list[int]  # and how long each of them was
    lc: Json  # LangChain's frame around a message
    # Which one of several forms it had
    type: Annotated[str, "image", "file", "refusal", "resource", "resource_link", "video", "absent"]
    kind: Annotated[str, "image", "file"]
    shape: Annotated[str, "old", "new", "image", "invocation", "named", "dynamic", "absent"]
    style: Style
    content: Literal["absent", "parts", "list", "str", "null", "bare"]
    parts: Literal["absent"]
    input: Literal["absent", "bare"]
    args: Literal["absent", "bare", "null", "args"]
    arguments: Style | Literal["absent", "args", "bare"] | Json
    response: Literal["absent"]
    output: Literal["absent", "parts"]
    summary: Literal["absent"]
    result: Json | Literal["absent", "null"]  # the shape of a result; in UI messages, that it was missing
    state: str
    approval: Json  # what stood beside the decision about a call
    apart: bool  # a request for approval that stood behind all calls
    responses: Json  # the message that held nothing but decisions
    outcome: str
    source: Annotated[str, "text", "content", "base64", "url", "file"]
    data: Json | Literal["absent"]
    name: str | bool
    named: bool
    role: Annotated[str, "absent", "user", "assistant", "system", "tool", "function", "developer", "signal"]
    by_role: Annotated[str, "human", "user", "assistant", "system", "tool"]
    reasoning_content: Rule
    field: Annotated[str, "reasoning_content", "reasoning_details", "thinking_blocks", "refusal", "custom"]
    key: Annotated[str, "summary", "text", "thinking", "data", "result"]
    reasoning: Annotated[str, "summary", "content"]  # a field of an item; in chat, the rule of a copy
    item: Annotated[str, "reasoning"] | bool
    time: Literal["given"]
    alone: bool  # a result by itself, in an assistant's message
    joined: bool  # a message that goes on with the one before it
    server: bool
    bare: bool
    untyped: bool
    invalid: bool
    empty: bool
    instructions: bool
    custom: bool
    code: bool
    old: bool
    blocks: bool
    structured: bool
    flag: bool
    # Whose block it is, and copies of it elsewhere
    copies: dict[str, Rule | list[Value]]
    copy: bool | Json
    copy_in: Annotated[str, "content", "reasoning"]
    calls: list[Value]
    part: Json
    request: Json
    file: Json | bool
    # What only providers read
    id: str
    call_id: str
    signature: str
    redactedData: str  # noqa: N815 - a key of the wire
    thoughtSignature: str  # noqa: N815
    of: str  # the checksum of a text, by models


class WireShape(WireTerms, total=False):
    """All entries: those of `WireTerms`, and those whose keys guards read like any text."""

    metadata: Value  # what stood there and is no object
    head: Json  # keys of a head that were there, but empty
    odd_time: Value
    fields: list[str]
    details: list[Value]
    json: bool  # whether an error was a JSON value
    file_url: bool
    format: Value
    status: str
    error: Literal["null"]
    mimeType: Literal["absent"]  # noqa: N815
    sourceType: Value  # noqa: N815


@cache
def _classes() -> dict[str, tuple[type, ...]]:
    """Return the classes that a value of each entry may have."""
    return {key: _classes_of(hint) for key, hint in get_type_hints(WireShape).items()}


def _classes_of(hint: Value) -> tuple[type, ...]:
    origin: Value = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(kind for alternative in get_args(hint) for kind in _classes_of(alternative))
    return (object if hint is Value else str if origin is Literal else origin or hint,)


def notes_of(value: Message | Part, fmt: str) -> WireShape:
    """Return the shape that a format has kept; empty if there is none.

    Metadata may come from a client: entries of a wrong type are left out.
    """
    return as_shape(thaw(value.metadata.get(fmt))) if value.metadata else {}


def as_shape(found: Value) -> WireShape:
    """Return the entries of a shape within another one; empty if it is none."""
    if not is_object(found):
        return {}
    classes = _classes()
    wrong = [key for key in found if not isinstance(found[key], classes.get(key, object))]
    return cast("WireShape", {key: item for key, item in found.items() if key not in wrong} if wrong else found)


def result_notes(part: Part, fmt: str) -> WireShape:
    """Return the shape of a result; that of its call stands beside it."""
    return as_shape(notes_of(part, fmt).get("result"))


def with_result_notes(fmt: str, notes: Mapping[str, Value]) -> Json:
    """Return metadata with the shape of a result."""
    return with_notes(fmt, {"result": without_empty(notes)})


def foreign(value: Message | Part, fmt: str) -> Json:
    """Return the metadata without the format's own shape."""
    return {key: thaw(item) for key, item in value.metadata.items() if key != fmt}


@cache
def note_words() -> frozenset[str]:
    """Return the words that formats write into metadata by themselves. They carry nothing, whoever wrote them.

    They are the keys and the words of `WireTerms`, the names of the formats, and the words of the wire that a format
    lists under ``TERMS``.
    """
    from penstock.formats import FORMATS, wire_format

    listed = (getattr(wire_format(name), "TERMS", ()) for name in FORMATS)
    hints = get_type_hints(WireTerms, include_extras=True)
    said = (_words(hint) for hint in hints.values())
    return frozenset({*FORMATS, *hints, *(word for words in (*listed, *said) for word in words)})


def _words(hint: object) -> Iterator[str]:
    """Yield the words in a type."""
    for part in get_args(hint):
        if isinstance(part, str):
            yield part
        else:
            yield from _words(part)
