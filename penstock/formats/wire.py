"""Helpers for all wire formats: check JSON values, read and write times, and keep data that only one format has.

An error names the place and the type that was found there, never the text itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

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


def maybe_flag(item: Json, key: str, place: str) -> bool | None:
    """Return the flag under a key, None if there is none.

    Raises:
        MessageError: it is something else.
    """
    flag = item.get(key)
    if flag is not None and not isinstance(flag, bool):
        raise type_error(flag, f"{place}.{key}", "a bool")
    return flag


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


def read_each(
    items: Iterable[Value], place: str, start: int, read: Callable[[Value, str], Iterable[Message]]
) -> Iterator[Message]:
    """Yield the messages that a reader makes of each item. Errors of values are given the place of their item.

    Raises:
        MessageError: an item is malformed, or nested too deep.
    """
    for index, item in enumerate(items, start):
        where = f"{place}[{index}]"
        try:
            yield from read(item, where)
        except RecursionError:
            raise MessageError(where, "it is nested too deep; flatten it") from None
        except MessageError as error:
            if error.place.startswith(where):
                raise
            raise MessageError(f"{where}.{error.place}" if error.place else where, error.problem) from None


class Read(Protocol):
    """Reads items of a format."""

    def __call__(self, items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
        """Return the messages; errors call the first item ``place[start]``.

        Raises:
            MessageError: an item is malformed; its place is named.
        """
        ...


def reader(read: Callable[[Value, str], Iterable[Message]], *, names: bool = True) -> Read:
    """Return the ``read`` of a format from the reader of one item. ``names``: results get the names of their calls."""

    def read_all(items: Sequence[Value], place: str = "messages", start: int = 0) -> tuple[Message, ...]:
        found = read_each(items, place, start, read)
        return named(found) if names else tuple(found)

    return read_all


def writer(write: Callable[[Message], Iterable[Json]]) -> Callable[[Iterable[Message]], list[Json]]:
    """Return the ``write`` of a format from the writer of one message.

    It raises `MessageError` if a tool's arguments or result are not JSON values.
    """

    def write_all(messages: Iterable[Message]) -> list[Json]:
        return [item for message in messages for item in write(message)]

    return write_all


def refuse_without_content(item: Json, place: str, parts: Collection[Part], extra: Json) -> None:
    """Refuse a message that says something, but only under keys that nobody knows: a model would be sent nothing.

    Raises:
        MessageError: the message has no content, and unknown keys.
    """
    if parts or "content" in item:
        return
    if any(_says(value) for key, value in extra.items() if key != "status"):
        raise MessageError(place, "expected content, but there are only unknown keys; put what is said under content")


def _says(value: Value) -> bool:
    """Return whether there is a text in a value."""
    if isinstance(value, str):
        return bool(value)
    inner = value.values() if is_object(value) else value if is_array(value) else ()
    return any(_says(item) for item in inner)


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
        return replace(part, name=names[part.call_id])
    return part


def unknown_keys(item: Json, known: Collection[str], handled: Collection[str] = ()) -> Json:
    """Return the entries with unknown keys, and those that are known but empty; without the keys in ``handled``."""
    return {key: value for key, value in item.items() if key not in handled and (key not in known or is_empty(value))}


def respelled(item: Json, spellings: Mapping[str, str], place: str) -> tuple[Json, list[str] | None]:
    """Return an object with its keys in one spelling, and those of them that were in the other one; None if none was.

    Libraries of Python dump ``mime_type`` what is ``mimeType`` on the wire.

    Args:
        item: the object.
        spellings: the spelling that is wanted, by the other one.
        place: where the object stands.

    Raises:
        MessageError: a key is there in both spellings.
    """
    found = {spellings.get(key, key): value for key, value in item.items()}
    if len(found) != len(item):
        raise MessageError(place, "a key is there in two spellings, as camelCase and as snake_case; keep one of them")
    return found, [spellings[key] for key in item if key in spellings] or None


def spelled_back(item: Json, spellings: Mapping[str, str], keys: Value) -> Json:
    """Return an object with those of its keys in the other spelling that were read so."""
    if not is_array(keys):
        return item
    back = {name: key for key, name in spellings.items() if name in keys}
    return {back.get(key, key): value for key, value in item.items()}


def without_empty(given: Mapping[str, Value]) -> Json:
    """Return the entries that are not empty."""
    return {key: value for key, value in given.items() if value is not None and value != {}}


def without_none(given: Mapping[str, Value]) -> Json:
    """Return the entries that are there."""
    return {key: value for key, value in given.items() if value is not None}


def metadata_of(value: Message | Part, name: str) -> Json:
    """Return the object in the metadata under a name; empty if there is none."""
    found = value.metadata.get(name)
    return thaw(found) if is_object(found) else {}


def with_notes(name: str, notes: Mapping[str, Value], metadata: Mapping[str, Value] | None = None) -> Json:
    """Return the metadata with notes added under a name, without the empty ones."""
    found = without_empty(notes)
    return {**(metadata or {}), name: found} if found else dict(metadata or {})


def has_text(value: object) -> bool:
    """Return whether a value holds any text, keys included; an object that is no JSON counts as text."""
    if is_object(value):
        return bool(value)
    if is_array(value):
        return any(map(has_text, value))
    return not (value is None or isinstance(value, (bool, int, float))) and value != ""


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
