"""Helpers for all wire formats: check JSON values, read and write times, and keep data that only one format has.

An error names the place and the type that was found there, never the text itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from typing_extensions import TypeIs

    from penstock.engine.values.messages import Message, Part


Value: TypeAlias = Any
"""A JSON value as it was received."""

Json: TypeAlias = dict[str, Value]
"""A JSON object."""

_MILLISECONDS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_object(value: Value) -> TypeIs[Json]:
    """Return whether it is a JSON object."""
    return isinstance(value, dict)


def is_array(value: Value) -> TypeIs[list[Value] | tuple[Value, ...]]:
    """Return whether it is a JSON array, frozen or not."""
    return isinstance(value, (list, tuple))


def is_iterable(value: Value) -> TypeIs[Iterable[Value]]:
    """Return whether it can be iterated over."""
    return isinstance(value, Iterable)


def is_empty(value: Value) -> bool:
    """Return whether it is empty: null, an empty text, an empty array or object."""
    return value is None or (isinstance(value, (str, list, tuple, dict)) and not value)


def type_error(value: Value, place: str, expected: str) -> MessageError:
    """Return the error for a value of the wrong type."""
    return MessageError(place, f"expected {expected}, not {type(value).__name__}")


def expect_object(value: Value, place: str, expected: str = "an object") -> Json:
    """Return the JSON object.

    Raises:
        MessageError: it is something else.
    """
    if not is_object(value):
        raise type_error(value, place, expected)
    return value


def expect_array(value: Value, place: str, expected: str = "a list") -> list[Value] | tuple[Value, ...]:
    """Return the JSON array.

    Raises:
        MessageError: it is something else.
    """
    if not is_array(value):
        raise type_error(value, place, expected)
    return value


def expect_text(item: Json, key: str, place: str) -> str:
    """Return the text under a key.

    Raises:
        MessageError: it is missing or something else.
    """
    if key not in item:
        raise MessageError(f"{place}.{key}", "expected a str, but it is missing")
    value = item[key]
    if not isinstance(value, str):
        raise type_error(value, f"{place}.{key}", "a str")
    return value


def maybe_text(item: Json, key: str, place: str) -> str | None:
    """Return the text under a key, None if there is none.

    Raises:
        MessageError: it is something else.
    """
    return None if item.get(key) is None else expect_text(item, key, place)


def expect_role(item: Json, place: str, roles: Iterable[str]) -> str:
    """Return the role.

    Raises:
        MessageError: it is missing or none of those roles.
    """
    role = item.get("role")
    if isinstance(role, str) and role in roles:
        return role
    found = "but it is missing" if "role" not in item else "not another str"
    if "role" in item and not isinstance(role, str):
        found = f"not {type(role).__name__}"
    raise MessageError(f"{place}.role", f"expected one of {', '.join(roles)}, {found}")


def read_time(value: Value) -> datetime | None:
    """Return an aware time from ISO text (without a zone: UTC), epoch milliseconds or a datetime; None for others."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(milliseconds=value)
        except (OverflowError, ValueError):
            return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def write_time(time: datetime) -> str:
    """Return a time as ISO text with zone, to the microsecond; UTC as in JavaScript (``2026-01-01T00:00:00.000Z``)."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    precision = "microseconds" if aware.microsecond % _MILLISECONDS else "milliseconds"
    text = aware.isoformat(timespec=precision)
    return f"{text.removesuffix('+00:00')}Z" if aware.utcoffset() == timedelta(0) else text


def named(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages in which every tool result without a name gets the name of the earlier call with its id."""
    names: dict[str, str] = {}
    made: list[Message] = []
    for message in messages:
        parts = tuple(_named(part, names, message.role == "tool") for part in message.parts)
        made.append(message if parts == message.parts else message.with_parts(parts))
    return tuple(made)


def _named(part: Part, names: dict[str, str], is_result: bool) -> Part:  # noqa: FBT001
    """Return the part, named if it is a nameless result; note the name if it is a call."""
    if not isinstance(part, ToolPart):
        return part
    if part.name:
        names[part.call_id] = part.name
    elif is_result and part.call_id in names:
        return ToolPart(
            part.call_id, names[part.call_id], part.arguments, part.state, part.result, part.error, part.metadata
        )
    return part


CONTENT_PARTS = (TextPart, ImagePart, AudioPart, FilePart)
"""The parts that are the content of a message."""

SPOKEN_PARTS = (*CONTENT_PARTS, ReasoningPart)
"""The parts that a model writes in one step, before its tools run."""


def unknown_keys(item: Json, known: Collection[str], handled: Collection[str] = ()) -> Json:
    """Return the entries with unknown keys, and those that are known but empty; without the keys in ``handled``."""
    return {key: value for key, value in item.items() if key not in handled and (key not in known or is_empty(value))}


def with_notes(fmt: str, notes: Json, metadata: Mapping[str, Value] | None = None) -> Json:
    """Return the metadata with the notes for a format added, without empty notes."""
    found = without_empty(notes)
    return {**(metadata or {}), fmt: found} if found else dict(metadata or {})


def without_empty(notes: Json) -> Json:
    """Return the notes that are not empty."""
    return {key: value for key, value in notes.items() if value is not None and value != {}}


def notes_of(value: Message | Part, fmt: str) -> Json:
    """Return the notes for a format; empty if there are none."""
    found = value.metadata.get(fmt)
    return thaw(found) if is_object(found) else {}


def foreign(value: Message | Part, fmt: str) -> Json:
    """Return the metadata without the format's own notes."""
    return {key: thaw(item) for key, item in value.metadata.items() if key != fmt}


def with_unknown_keys(body: Json, notes: Json, known: Collection[str], key: str = "extra") -> Json:
    """Return a wire object with the noted unknown keys added. They never replace a known key."""
    found = notes.get(key)
    if not is_object(found):
        return body
    return {**{name: value for name, value in found.items() if name not in known or is_empty(value)}, **body}


def array_in(notes: Json, key: str) -> Sequence[Value]:
    """Return the array under a key of the notes; empty if there is none."""
    found = notes.get(key)
    return found if is_array(found) else ()


# A text that a format has twice: in pieces and as a whole

_JOINERS = {"lines": "\n", "plain": "", "words": " ", "paragraphs": "\n\n"}


def rule_of(pieces: Sequence[str], copy: str) -> str | None:
    """Return the rule by which a copy was made from its pieces; None if no rule gives it."""
    if not pieces:
        return None
    for rule, joiner in _JOINERS.items():
        if joiner.join(pieces) == copy:
            return rule
    if copy == pieces[-1]:
        return "last"
    return "first" if copy == pieces[0] else None


def copied(pieces: Sequence[str], rule: Value) -> str:
    """Return the copy that a rule makes from the pieces. An unknown rule joins them as lines."""
    if pieces and rule in ("last", "first"):
        return pieces[-1] if rule == "last" else pieces[0]
    return _JOINERS.get(rule if isinstance(rule, str) else "", "\n").join(pieces)


def cut(text: str, lengths: Sequence[Value], count: int) -> list[str]:
    """Return the text in that many pieces: of the given lengths if they fit, else all of it in the first."""
    fits = all(isinstance(length, int) and length >= 0 for length in lengths)
    if count and fits and len(lengths) == count and sum(lengths) == len(text):
        return [text[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
    return [text, *[""] * (count - 1)][:count]
