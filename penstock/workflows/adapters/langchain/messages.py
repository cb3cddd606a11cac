"""LangChain's messages both ways, and changes of its state.

Answers are read as the model's are. Other messages go through the JSON in which LangChain dumps them, which keeps
unknown fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.messages import Message
from penstock.formats import langchain as wire
from penstock.formats.wire import is_object
from penstock.workflows.adapters.langchain.left import Left
from penstock.workflows.adapters.langchain.reading import SIGNS, parts_of
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting import Original, Originals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostRequest

_CLASSES: dict[str, type[BaseMessage]] = {
    "human": HumanMessage,
    "ai": AIMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}


# From LangChain


def read(messages: Iterable[BaseMessage]) -> list[Message]:
    """Return each of LangChain's messages as one of ours.

    Raises:
        MessageError: one is of a kind that is not known.
    """
    return [_read_one(message) for message in messages]


def _read_one(message: BaseMessage) -> Message:
    if isinstance(message, AIMessage):
        return Message("assistant", tuple(parts_of(message)), name=message.name)
    dumped = to_jsonable_python(message.model_dump(exclude={"artifact"}), fallback=str, bytes_mode="base64")
    said = {name: item for name, item in dumped.items() if item is not None and name != "response_metadata"}
    [one] = wire.read([said])
    return one


# To LangChain


class CallMessages:
    """The messages of a model call, both ways.

    Args:
        request: the request that the call belongs to.
    """

    def __init__(self, request: HostRequest) -> None:
        self._originals = Originals[BaseMessage](request, self._write)
        self._results: Mapping[str, ToolMessage] = {}

    def read(self, given: Sequence[BaseMessage]) -> list[Message]:
        """Return the messages that LangChain gives."""
        said = read(given)
        self._originals.note(given, said)
        self._results = {message.tool_call_id: message for message in given if isinstance(message, ToolMessage)}
        return said

    def written(self, messages: Iterable[Message]) -> list[BaseMessage]:
        """Return messages of the run as LangChain's; those that nothing has changed are the ones that it gave."""
        return [_signed(one) if isinstance(one, AIMessage) else one for one in self._originals.written(messages)]

    def _write(self, message: Message, original: Original[BaseMessage] | None) -> Iterator[BaseMessage]:
        if original is not None:
            yield _changed(original.given, original.said, message)
            return
        for made in map(_message_of, wire.write([message])):
            if isinstance(made, ToolMessage) and (known := self._results.get(made.tool_call_id)) is not None:
                yield known if (known.content, known.status) == (made.content, made.status) else made
            else:
                yield made


def _changed(message: BaseMessage, before: Message, after: Message) -> BaseMessage:
    """Return a message of LangChain with other parts; the same if nothing has changed."""
    if isinstance(message, AIMessage):
        return _changed_answer(message, after.parts)
    if after.parts == before.parts:
        return message
    [item] = wire.write([replace(before, parts=after.parts)])
    fields = _message_of(item)
    update: dict[str, object] = {"content": fields.content, "additional_kwargs": fields.additional_kwargs}
    if isinstance(fields, ToolMessage):
        update |= {"status": fields.status, "artifact": None}
    return message.model_copy(update=update)


def _changed_answer(message: AIMessage, parts: Sequence[Part]) -> AIMessage:
    left = Left(message, parts)
    if left.unchanged:
        return message
    [item] = wire.write([Message("assistant", tuple(calls_of(Message("assistant", tuple(parts)))))])
    calls = _message_of(item)
    return message.model_copy(
        update={
            "content": left.content(),
            "additional_kwargs": left.fields(),
            "response_metadata": left.reports(),
            **{name: getattr(calls, name) for name in ("tool_calls", "invalid_tool_calls")},
        }
    )


def _message_of(item: Json) -> BaseMessage:
    """Return one of LangChain's messages for its JSON."""
    kind = _CLASSES.get(item["type"])
    if kind is None:
        raise UsageError(
            f"a processor made a message of the type {item['type']!r}, which LangChain's agents do not have"
        )
    return kind(**{**item, "content": item.get("content", "")})


def _signed(message: AIMessage) -> AIMessage:
    """Return an answer without reasoning that its provider would refuse, since its text was changed."""
    content = message.content
    if isinstance(content, str) or not any(map(_is_unsigned, content)):
        return message
    return message.model_copy(update={"content": [block for block in content if not _is_unsigned(block)]})


def _is_unsigned(block: Value) -> bool:
    given: Mapping[str, Value] = block if is_object(block) else {}
    return given.get("type") in ("thinking", "reasoning") and not any(given.get(name) for name in (*SIGNS, "extras"))


# The state


def as_left(
    given: Sequence[BaseMessage], said: Sequence[Message], left: Sequence[Message | None]
) -> list[BaseMessage | None]:
    """Return messages as the guards left them; None for those that they removed."""
    rows = zip(given, said, left, strict=True)
    return [None if after is None else _changed(message, before, after) for message, before, after in rows]


def changes(given: Sequence[BaseMessage], said: Sequence[Message], left: Sequence[Message | None]) -> list[BaseMessage]:
    """Return what replaces or removes messages of the state, by their ids."""
    made: list[BaseMessage] = []
    for message, now in zip(given, as_left(given, said, left), strict=True):
        made.extend(removed([message]) if now is None else [now] if now is not message else [])
    return made


def removed(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return what removes messages from the state."""
    return [RemoveMessage(id=message.id) for message in messages if message.id]


def last_turn(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return the messages that came in last: all behind the last answer."""
    index = len(messages)
    while index and isinstance(messages[index - 1], HumanMessage):
        index -= 1
    return messages[index:]
