"""Messages as another product sends them, and back: an object that no guard changed stays the very same object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.formats import wire_format
from penstock.formats.detection import formats_of
from penstock.formats.wire import expect_array, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.checks.core import CheckResult


class Rows:
    """The messages of one request, as objects and as messages.

    Args:
        items: a list of objects.
        place: where it stands, for errors.
        format: the format of all of them; None detects it for each.

    Attributes:
        items: the objects.
        messages: the messages that were read from them. All are a client's word.

    Raises:
        MessageError: an object is malformed, or in no known format.
    """

    def __init__(self, items: Value, place: str = "messages", format: str | None = None) -> None:  # noqa: A002
        self.items: Sequence[Json] = list(expect_array(items, place, "a list of messages"))
        self._formats = formats_of(self.items, place) if format is None else [format] * len(self.items)
        self._counts: list[int] = []
        said: list[Message] = []
        for number, (item, kind) in enumerate(zip(self.items, self._formats, strict=True)):
            read = wire_format(kind).read([item], place, number)
            self._counts.append(len(read))
            said += [message.as_from_client() for message in read]
        self.messages: tuple[Message, ...] = named(said)

    def place_of(self, number: int) -> int:
        """Return the index of the object that a message was read from."""
        for index, count in enumerate(self._counts):
            number -= count
            if number < 0:
                return index
        return len(self._counts)

    def left(self, checked: CheckResult) -> list[Json]:
        """Return the objects as a check has left them, with those that it has added.

        Raises:
            MessageError: a message cannot be written in its format any more.
        """
        return [item for _, items in self.changes(checked) for item in items]

    def changes(self, checked: CheckResult) -> list[tuple[int, list[Json]]]:
        """Return the objects that each given one has become, by its index: itself, others, none; -1 for added ones."""
        made: list[tuple[int, list[Json]]] = []
        start = 0
        for index, (item, count) in enumerate(zip(self.items, self._counts, strict=True)):
            made += self._added(checked, start)
            made.append((index, self._written(item, index, checked.messages[start : start + count], start)))
            start += count
        return made + self._added(checked, start, last=True)

    def _written(self, item: Json, index: int, now: Sequence[Message | None], start: int) -> list[Json]:
        given = self.messages[start : start + len(now)]
        left = [_as_given(message, was) for message, was in zip(now, given, strict=True)]
        if all(message == was for message, was in zip(left, given, strict=True)):
            return [item]
        write = wire_format(self._formats[index]).write
        try:
            return write([message for message in left if message is not None])
        except (TypeError, ValueError) as error:
            raise MessageError(f"messages[{index}]", "what the guards left of it cannot be written") from error

    def _added(self, checked: CheckResult, start: int, *, last: bool = False) -> list[tuple[int, list[Json]]]:
        """Return the added messages that stand behind so many of the given ones."""
        there = [message for at, message in checked.added if at == start or (last and at > start)]
        kind = self._formats[0] if self._formats else "openai-chat"
        return [(-1, wire_format(kind).write([replace(message, id="", created_at=None)])) for message in there]


def _as_given(message: Message | None, given: Message) -> Message | None:
    """Return a message without the id and the time that the check has given it."""
    return None if message is None else replace(message, id=given.id, created_at=given.created_at)
