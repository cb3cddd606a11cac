"""Items of the SDK as messages, and messages as items. What no guard has changed stays the item that it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from penstock.engine.values.messages import Message
from penstock.formats import openai_responses as wire
from penstock.workflows.hosting import as_asked
from penstock.workflows.hosting.matching import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agents import TResponseInputItem

    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json

_NUMBER = "openai-agents-number"


def plain(item: Any) -> Json:
    """Return an item as a JSON object."""
    if isinstance(item, BaseModel):
        return item.model_dump(mode="json", exclude_unset=True)
    return cast("Json", to_jsonable_python(item, fallback=str))


class Items:
    """The items of one request, both ways."""

    def __init__(self) -> None:
        self._originals: list[tuple[Message, Sequence[Json]]] = []
        self._answers: dict[str, tuple[Sequence[Part], Sequence[Json]]] = {}

    def note(self, answer: Message, items: Sequence[Json]) -> None:
        """Note the items of an answer, for as long as no guard changes it."""
        self._answers[answer.id] = as_asked(answer).parts, items

    def read(self, given: str | Sequence[TResponseInputItem]) -> list[Message]:
        """Return the messages of an input. Items of one answer, which follow each other, become one message."""
        if isinstance(given, str):
            return [Message.user(given)] if given else []
        groups: list[tuple[Message, list[Json]]] = []
        for item in map(plain, given):
            [message] = wire.read([item])
            last = groups[-1] if groups else None
            if last is not None and message.role == last[0].role == "assistant":
                groups[-1] = (last[0].with_parts((*last[0].parts, *message.parts)), [*last[1], item])
            else:
                groups.append((message, [item]))
        return [self._numbered(message, items) for message, items in groups]

    def _numbered(self, message: Message, items: Sequence[Json]) -> Message:
        number = len(self._originals)
        made = replace(message, id="", metadata={**message.metadata, _NUMBER: number})
        self._originals.append((made, items))
        return replace(made, from_client=True) if message.role == "system" else made

    def written(self, messages: Iterable[Message]) -> list[Json]:
        """Return messages as items."""
        return [item for message in messages for item in self._written(message)]

    def _written(self, message: Message) -> Sequence[Json]:
        number = message.metadata.get(_NUMBER)
        if isinstance(number, int) and number < len(self._originals):
            original, items = self._originals[number]
            if original.parts == message.parts:
                return items
        parts, own = self._answers.get(message.id, ((), ()))
        if own and as_asked(message).parts == parts:
            results = [part for part in message.parts if is_finished(part)]
            return [*own, *wire.write([Message("tool", tuple(results))] if results else [])]
        return wire.write([_without_number(message)])

    def left(self, said: Sequence[Message], now: Iterable[Message | None]) -> list[Json]:
        """Return the items of messages as the guards left them."""
        made: list[Json] = []
        for before, after in zip(said, now, strict=True):
            if after is not None:
                number = before.metadata.get(_NUMBER)
                if after.parts == before.parts and isinstance(number, int):
                    made += self._originals[number][1]
                else:
                    made += wire.write([_without_number(after)])
        return made


def _without_number(message: Message) -> Message:
    return replace(message, metadata={name: item for name, item in message.metadata.items() if name != _NUMBER})
