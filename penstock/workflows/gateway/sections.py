"""`RequestSection`: a part of a request that holds messages. It is read, and written back where guards have changed it.

An item of the request whose messages did not change stays the value that came, so that its bytes stay, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message, TextPart, ToolPart, text_message
from penstock.formats import wire_format
from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.messages import Role
    from penstock.formats import Format
    from penstock.formats.wire import Value
    from penstock.workflows.gateway.tables import Path


class RequestSection(ABC):
    """A part of a request.

    Attributes:
        path: where it stands in the request.
    """

    path: Path

    @abstractmethod
    def read(self, value: Value) -> list[tuple[Message, ...]]:
        """Return the messages of each item.

        Raises:
            MessageError: an item is malformed.
        """

    @abstractmethod
    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the section anew.

        Args:
            value: the section as it came.
            items: for each item the index of one that stays as it came, or the messages that it is made of now.
        """

    @property
    def takes_new(self) -> bool:
        """Whether messages that guards add can be written here."""
        return False

    def takes(self, message: Message) -> bool:
        """Return whether a message that guards add can be written here."""
        del message
        return self.takes_new

    @property
    def may_begin(self) -> bool:
        """Whether guards can add messages here where the request has nothing; `read` and `write` then get None."""
        return False


@dataclass(frozen=True)
class MessagesSection(RequestSection):
    """A list of messages in a format; a text there is one message of the user.

    Attributes:
        path: where it stands in the request.
        format: the format.
    """

    path: Path
    format: Format

    def read(self, value: Value) -> list[tuple[Message, ...]]:
        """Return the messages of each item. Results of tools get the names of their calls."""
        place = ".".join(map(str, self.path))
        if isinstance(value, str):
            return [(Message.user(value),)]
        if not is_array(value):
            raise MessageError(place, f"is {type(value).__name__}; send a list of messages")
        fmt = wire_format(self.format)
        plain = self.format in _PLAIN_FORMATS
        names: dict[str, str] = {}
        made: list[tuple[Message, ...]] = []
        for at, item in enumerate(value):
            found = _plain_message(item) if plain else None
            made.append(tuple(_named(fmt.read([item], place, at), names)) if found is None else (found,))
        return made

    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the list, or the text if it was one and is one."""
        if isinstance(value, str):
            if len(items) == 1:
                only = items[0]
                if isinstance(only, int):
                    return value
                if (
                    len(only) == 1
                    and only[0].role == "user"
                    and all(isinstance(part, TextPart) for part in only[0].parts)
                ):
                    return text_of(only)
            value = wire_format(self.format).write([Message.user(value)])
        fmt = wire_format(self.format)
        made: list[Value] = []
        for item in items:
            if isinstance(item, int):
                made.append(value[item])
            else:
                made += fmt.write(item)
        return made

    @property
    def takes_new(self) -> bool:
        """Whether messages that guards add can be written here: yes."""
        return True


_PLAIN_FORMATS = frozenset({"anthropic", "openai-chat"})
"""The formats in which a role and a text are a message without metadata."""

_PLAIN_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _plain_message(item: Value) -> Message | None:
    """Return the message of an item that holds a role and a text and nothing else, as most do; None for any other."""
    if not is_object(item) or len(item) != 2:  # noqa: PLR2004 - a role and a text
        return None
    role, text = item.get("role"), item.get("content")
    if type(text) is not str or not text or type(role) is not str or role not in _PLAIN_ROLES:
        return None
    return text_message(_PLAIN_ROLES[role], text)


def _named(messages: Sequence[Message], names: dict[str, str]) -> list[Message]:
    """Return messages whose results have the names of their calls, and note the names of these calls."""
    made: list[Message] = []
    for message in messages:
        parts = [
            replace(part, name=names[part.call_id])
            if isinstance(part, ToolPart) and not part.name and part.call_id in names
            else part
            for part in message.parts
        ]
        names |= {part.call_id: part.name for part in parts if isinstance(part, ToolPart) and part.name}
        made.append(message.with_parts(parts) if any(map(_differ, parts, message.parts)) else message)
    return made


def _differ(one: object, other: object) -> bool:
    return one is not other


@dataclass(frozen=True)
class TextSection(RequestSection):
    """A text, a list of texts, or a list of objects with texts: each text is a message.

    Attributes:
        path: where it stands in the request.
        role: the role of its messages.
        key: where the text of an object stands; None if there are no objects.
    """

    path: Path
    role: Role
    key: str | None = None

    def read(self, value: Value) -> list[tuple[Message, ...]]:
        """Return one message for each text; none for a list of tokens or an empty field."""
        if value is None:
            return []
        items = value if is_array(value) else [value]
        return [tuple(self._message(item)) for item in items]

    def _message(self, item: Value) -> list[Message]:
        text = item.get(self.key) if self.key and is_object(item) else item
        return [Message(self.role, (TextPart(text),))] if isinstance(text, str) and text else []

    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the texts anew; a text that guards removed is left out of a list, and else empty."""
        given = value if is_array(value) else [value]
        made = [
            given[item] if isinstance(item, int) else self._written(given, at, item) for at, item in enumerate(items)
        ]
        if is_array(value):
            return made
        return made[0] if made else "" if isinstance(value, str) else None

    def _written(self, given: Sequence[Value], at: int, messages: tuple[Message, ...]) -> Value:
        text = text_of(messages)
        item = given[at] if at < len(given) else None
        return {**item, self.key: text} if self.key and is_object(item) else text


def text_of(messages: Sequence[Message]) -> str:
    """Return the text of messages that hold nothing else."""
    return "\n\n".join("".join(part.text for part in one.parts if isinstance(part, TextPart)) for one in messages)


def tool_calls(messages: Sequence[Message]) -> Mapping[str, ToolPart]:
    """Return the calls of messages by their ids."""
    parts = (part for message in messages for part in message.parts)
    return {part.call_id: part for part in parts if isinstance(part, ToolPart) and part.state == "call"}
