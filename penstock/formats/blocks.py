"""Blocks, steps and turns: the common parts of the formats of providers.

A `WireBlock` is a table of keys and fields, and is read and written by one piece of code. The functions beside it read
and write the content of a message, split an assistant's message into the steps of a model, and put results where a
format has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats.shape import notes_of
from penstock.formats.wire import (
    Json,
    Value,
    expect_array,
    expect_object,
    expect_text,
    is_array,
    is_empty,
    is_object,
    maybe_text,
    unknown_keys,
    with_notes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part, Role
    from penstock.formats.shape import WireShape

T = TypeVar("T")
Reader: TypeAlias = Callable[[Json, str], "Part | None"]
"""Reads a block at a place; None for one that stays as it is, in an unknown part."""


@dataclass(frozen=True)
class WireBlock:
    """A block that holds texts, or a call: which key of the wire is which field of the part.

    Attributes:
        fmt: the format.
        make: what makes the part: its class, or a function that takes the fields and ``metadata``.
        needed: the fields of the texts that must be there, by their keys.
        maybe: the fields of the texts that may be missing, by their keys.
        head: the entries that say which kind of block it is.
        notes: what is kept beside the fields, so that the block is written again.
        own: the keys of texts that are kept under their own names, since only providers read them.
        arguments: the key of a call's arguments, an object.
    """

    fmt: str
    make: Callable[..., Part]
    needed: Mapping[str, str]
    maybe: Mapping[str, str] = EMPTY
    head: Mapping[str, str] = EMPTY
    notes: Mapping[str, Value] = EMPTY
    own: tuple[str, ...] = ()
    arguments: str = ""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys that have a meaning in the block."""
        return self._sure.union(self.maybe)

    @cached_property
    def _sure(self) -> frozenset[str]:
        """The keys that are there in each such block."""
        return frozenset((*self.head, *self.needed, *([self.arguments] if self.arguments else [])))

    def maybe_read(self, item: Json, place: str) -> Part | None:
        """Return the part; None if a text that it needs is missing, or no text."""
        return self.read(item, place) if all(isinstance(item.get(key), str) for key in self.needed) else None

    def read(self, item: Json, place: str, notes: Mapping[str, Value] = EMPTY) -> Part:
        """Return the part, with further notes in its metadata.

        Raises:
            MessageError: a text is missing, or no text.
        """
        fields: Json = {field: expect_text(item, key, place) for key, field in self.needed.items()}
        fields |= {field: maybe_text(item, key, place) for key, field in self.maybe.items()}
        noted: Json = {**self.notes, **notes}
        if self.arguments:
            fields["arguments"] = item.get(self.arguments, EMPTY)
            noted[self.arguments] = input_notes(item, self.arguments)
        own = {key: text for key in self.own if (text := maybe_text(item, key, place))}
        if not self._sure.issuperset(item):
            noted |= {**own, "extra": unknown_keys(item, self.keys | own.keys(), self._sure | own.keys())}
        return self.make(**fields, metadata=with_notes(self.fmt, noted))

    def write(self, part: Part, notes: WireShape, **changed: Value) -> Json:
        """Return the block, with some of the fields changed."""
        body: Json = {**self.head}
        for key, field in (*self.needed.items(), *self.maybe.items()):
            text = changed[field] if field in changed else getattr(part, field)
            if text is not None:
                body[key] = text
        if self.arguments and isinstance(part, ToolPart):
            body |= write_input(part, self.arguments, notes.get(self.arguments), own=bool(notes))
        if not notes:
            return body
        own = {key: item for key, item in notes.items() if key in self.own and item is not None}
        return with_unknown_keys({**own, **body}, notes, self.keys | own.keys())


def with_unknown_keys(body: Json, notes: WireShape, known: Collection[str], key: str = "extra") -> Json:
    """Return a wire object with the noted unknown keys added. They never replace a known key."""
    found = notes.get(key)
    if not is_object(found):
        return body
    return {**{name: value for name, value in found.items() if name not in known or is_empty(value)}, **body}


def was_empty(notes: WireShape, key: str) -> bool:
    """Return whether the value of a key was null or missing when it was read."""
    return notes.get(key) == "absent" or key in notes.get("extra", {})


def own_id(notes: WireShape) -> Json:
    """Return the id with which something was received. A provider would refuse ids from elsewhere."""
    return {"id": notes["id"]} if "id" in notes else {}


def input_notes(item: Json, key: str) -> str | None:
    """Return a note on arguments that are missing, or that are no object."""
    return "absent" if key not in item else None if is_object(item[key]) else "bare"


def write_input(part: ToolPart, key: str, noted: Value, *, own: bool) -> Json:
    """Return a call's arguments as the object that a format wants; nothing if none were there.

    ``own``: whether they were read in the format itself, and may be something else than an object.
    """
    if noted == "absent" and part.arguments == {}:
        return {}
    arguments = thaw(part.arguments)
    return {key: arguments if own or is_object(arguments) else {"input": arguments}}


# Reading and writing content


def read_block(value: Value, place: str, readers: Mapping[str, Reader], tag: str = "type") -> Part:
    """Return the part for a block, by the reader of its kind; an unknown part if there is none.

    Raises:
        MessageError: it is no object, says not what kind it is, or is malformed.
    """
    item = expect_object(value, place, f"an object with a {tag}")
    reader = readers.get(expect_text(item, tag, place))
    part = reader(item, place) if reader is not None else None
    return UnknownPart(item) if part is None else part


def read_list(value: Value, place: str, read: Callable[[Value, str], T], expected: str = "a list") -> list[T]:
    """Read each entry of an array with a function.

    Raises:
        MessageError: it is no array, or an entry is malformed.
    """
    return [read(item, f"{place}[{index}]") for index, item in enumerate(expect_array(value, place, expected))]


def read_content(
    value: Value, place: str, read: Callable[[Value, str], Part], entries: str = "content parts"
) -> list[Part]:
    """Return the parts of a message's content: a str, a list, or null.

    Raises:
        MessageError: it is something else, or an entry is malformed.
    """
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [TextPart(value)]
    return read_list(value, place, read, f"a str or a list of {entries}")


def content_notes(item: Json, parts: Sequence[Part]) -> str | None:
    """Return a note on content that is missing, or a list though a str might do."""
    return "absent" if "content" not in item else "parts" if parts and is_array(item["content"]) else None


def write_content(
    items: Sequence[Value], notes: WireShape, nothing: Value = "", texts: Collection[str] = ("text",)
) -> Json:
    """Return the content: a str if that is enough, else a list; ``nothing`` if it is empty and was there.

    Args:
        items: the blocks.
        notes: the shape of the message.
        nothing: the content of a message that says nothing.
        texts: the kinds of blocks that hold only a text.
    """
    if not items:
        return {} if was_empty(notes, "content") else {"content": nothing}
    first = items[0]
    is_plain = len(items) == 1 and is_object(first) and first.keys() == {"type", "text"} and first["type"] in texts
    return {"content": first["text"] if is_plain and notes.get("content") not in ("parts", "list") else list(items)}


def raw_of(part: Part) -> Json:
    """Return the object in an unknown part; an empty one for another part."""
    raw: Json = thaw(part.raw) if isinstance(part, UnknownPart) else {}
    return raw


# Steps of a model, and the results of its tools


def is_finished(part: Part) -> bool:
    """Return whether it is a tool call that has a result or an error."""
    return isinstance(part, ToolPart) and part.state in {"result", "error"}


_SPOKEN = (TextPart, ImagePart, AudioPart, FilePart, ReasoningPart, UnknownPart)
"""What a model writes in one step, before its tools run."""


def steps(parts: Iterable[Part], finished: Callable[[Part], bool] = is_finished) -> list[list[Part]]:
    """Split an assistant's parts into model steps: at each step start, and where content follows a tool result."""
    made: list[list[Part]] = [[]]
    answered = False
    for part in parts:
        if isinstance(part, StepStartPart) or (answered and isinstance(part, _SPOKEN)):
            made.append([])
            answered = False
        made[-1].append(part)
        answered = answered or finished(part)
    return made


def written_steps(
    message: Message, fmt: str, leaves_out: Collection[str], cut: Sequence[Sequence[Part]] | None = None
) -> Iterator[tuple[list[Part], WireShape]]:
    """Yield the parts of each step that is written, without those that are left out, and the shape of the first one.

    Args:
        message: the message.
        fmt: the format.
        leaves_out: the types of parts for which the format has no place.
        cut: the steps; None writes all in one.
    """
    notes: WireShape = notes_of(message, fmt)
    found = [message.parts] if cut is None else cut
    for step in found:
        parts = [part for part in step if part.type not in leaves_out]
        if parts or (len(found) == 1 and (notes or not step)):
            yield parts, notes
            notes = {}


def tools(parts: Iterable[Part], wanted: Callable[[Part], bool] = is_finished) -> list[ToolPart]:
    """Return the tools' parts that are wanted: those that have a result, if nothing else is said."""
    return [part for part in parts if isinstance(part, ToolPart) and wanted(part)]


def with_answers(parts: Sequence[Part], fmt: str) -> list[Part]:
    """Return an assistant's parts with each result that stands by itself put into the open call before it.

    Providers that run tools themselves have both among the content, each in a block of its own. Results that were read
    in the format itself stay where they are.
    """
    made: list[Part] = []
    calls: dict[str, int] = {}
    for part in parts:
        if isinstance(part, ToolPart) and is_finished(part) and part.call_id in calls and fmt not in part.metadata:
            index = calls.pop(part.call_id)
            made[index] = _joined(cast("ToolPart", made[index]), part)
            continue
        if isinstance(part, ToolPart) and not is_finished(part):
            calls[part.call_id] = len(made)
        made.append(part)
    return made


def _joined(call: ToolPart, result: ToolPart) -> ToolPart:
    """Return the call with its result. Notes of both, which use different keys, are merged."""
    metadata = dict(call.metadata)
    for key, item in result.metadata.items():
        there = metadata.get(key)
        both = {**there, **item} if is_object(there) and is_object(item) else item
        metadata[key] = {name: note for name, note in both.items() if name != "alone"} if is_object(both) else both
    return replace(call, state=result.state, result=result.result, error=result.error, metadata=metadata)


def folded(messages: Iterable[Message], keep: Callable[[Message], bool]) -> list[Message]:
    """Return the messages with the results of tool messages moved into the calls that they answer.

    A tool message that may be kept stays. One that answers no earlier call becomes an assistant message.
    """
    made: list[Message] = []
    edited: dict[int, list[Part]] = {}
    calls: dict[str, list[tuple[int, int]]] = {}
    for message in messages:
        if message.role != "tool" or keep(message):
            _note_calls(message, len(made), calls)
            made.append(message)
            continue
        rest = [part for part in message.parts if not _answer(made, edited, calls, part)]
        if rest or not message.parts:
            made.append(replace(message, role="assistant", parts=tuple(rest)))
            _note_calls(made[-1], len(made) - 1, calls)
    return [message.with_parts(edited[index]) if index in edited else message for index, message in enumerate(made)]


def _note_calls(message: Message, index: int, calls: dict[str, list[tuple[int, int]]]) -> None:
    """Note where the open calls of an assistant's message stand, by their ids."""
    if message.role != "assistant":
        return
    for place, part in enumerate(message.parts):
        if isinstance(part, ToolPart) and not is_finished(part):
            calls.setdefault(part.call_id, []).append((index, place))


def _answer(
    messages: list[Message], edited: dict[int, list[Part]], calls: dict[str, list[tuple[int, int]]], part: Part
) -> bool:
    """Put a result into the latest open call with its id. Returns whether there was one."""
    found = calls.get(part.call_id) if isinstance(part, ToolPart) else None
    if not isinstance(part, ToolPart) or not found:
        return False
    index, place = found[-1]
    if index not in edited:
        edited[index] = list(messages[index].parts)
    edited[index][place] = _joined(cast("ToolPart", edited[index][place]), part)
    if is_finished(part):
        found.pop()
    return True


# Turns: results that stand in a user's message


def written_turns(
    message: Message,
    fmt: str,
    leaves_out: Collection[str],
    answered: Callable[[Part], bool],
    write: Callable[[Part], Json],
    write_result: Callable[[ToolPart], Json],
) -> Iterator[tuple[list[Json], list[Json], WireShape]]:
    """Yield the blocks of each step of a message, those of the user's answer to it, and the shape of the first step.

    Args:
        message: the message.
        fmt: the format.
        leaves_out: the types of parts for which the format has no place.
        answered: whether a part is a call whose result stands in the user's answer. Another one with a result has both
            among the blocks, or only the result, if that was by itself when it was read.
        write: returns the block of a part, for a tool's that of its call.
        write_result: returns the block of a result.
    """
    by_model = message.role == "assistant"
    for parts, notes in written_steps(message, fmt, leaves_out, steps(message.parts, answered) if by_model else None):
        made: list[Json] = []
        results: list[Json] = []
        for part in parts:
            result = write_result(part) if isinstance(part, ToolPart) and is_finished(part) else None
            if result is None or (by_model and not notes_of(part, fmt).get("alone")):
                made.append(write(part))
            if result is not None:
                (results if by_model and answered(part) else made).append(result)
        yield made, results, notes


def split_results(message: Message, fmt: str) -> list[Message]:
    """Split a user's message into tool messages, which hold its results, and user messages with the other parts.

    Runs behind the first are noted as ``joined``, so that writing can put them together again (`turn_writer`).
    """
    if message.role != "user":
        return [message]
    runs = [(found, tuple(run)) for found, run in groupby(message.parts, is_finished)]
    made: list[Message] = []
    for is_result, parts in runs or [(False, ())]:
        role: Role = "tool" if is_result else "user"
        if not made:
            metadata = with_notes(fmt, {**notes_of(message, fmt), **({"role": "user"} if is_result else {})})
            made.append(replace(message, role=role, parts=parts, metadata=metadata))
        else:
            made.append(Message(role, parts, metadata=with_notes(fmt, {"joined": True})))
    return made


def turn_writer(
    write: Callable[[Message], Iterable[tuple[Message, Json]]], fmt: str, key: str
) -> Callable[[Iterable[Message]], list[Json]]:
    """Return the ``write`` of a format that has the results of one turn in one message.

    Args:
        write: writes one message, and yields with each wire message the one that it was written for.
        fmt: the format.
        key: the key of a wire message's content.
    """
    return lambda messages: _in_turns((pair for message in messages for pair in write(message)), fmt, key)


def _in_turns(items: Iterable[tuple[Message, Json]], fmt: str, key: str) -> list[Json]:
    """Return the wire messages, the results of one turn in one of them.

    A message that was noted as ``joined`` goes into the one before it; so do the results of a tool message from another
    format, if the one before it holds results too.
    """
    made: list[Json] = []
    answered = False
    for message, item in items:
        is_tool = message.role == "tool" or (message.role == "assistant" and item["role"] == "user")
        joined = notes_of(message, fmt).get("joined") is True and message.role != "assistant"
        follows = joined or (is_tool and answered and fmt not in message.metadata)
        if follows and made and made[-1]["role"] == item["role"]:
            if not isinstance(made[-1].get(key), list):
                made[-1][key] = list(_as_blocks(made[-1].get(key)))
            made[-1][key].extend(_as_blocks(item.get(key)))
        else:
            made.append(item)
        answered = is_tool
    return made


def _as_blocks(content: Value) -> Sequence[Value]:
    """Return a wire message's content as a list of its blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if is_array(content) else ()
