"""Items of the SDK as messages, and messages as items. Unchanged items stay as they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from penstock.engine.values.messages import Message
from penstock.formats import openai_responses as wire
from penstock.workflows.hosting import Originals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agents import TResponseInputItem

    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostRequest


def plain(item: object) -> Json:
    """Return an item as a JSON object."""
    if isinstance(item, BaseModel):
        return item.model_dump(mode="json", exclude_unset=True)
    return cast("Json", to_jsonable_python(item, fallback=str))


class Items(Originals["Sequence[Json]"]):
    """The items of one request, both ways. Items of one answer, which follow each other, are one message."""

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request, lambda message, _: [wire.write([message])])

    def read(self, given: str | Sequence[TResponseInputItem]) -> list[Message]:
        """Return the messages of an input."""
        return [message for message, _ in _groups(given)]

    def read_call(self, given: str | Sequence[TResponseInputItem]) -> list[Message]:
        """Return the messages of the input of a model call; `written` gives back its unchanged items."""
        groups = _groups(given)
        self.note([items for _, items in groups], [message for message, _ in groups])
        return [message for message, _ in groups]

    def as_items(self, messages: Iterable[Message]) -> list[Json]:
        """Return messages of the run as items."""
        return list(chain.from_iterable(self.written(messages)))

    def items_left(self, given: str | Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
        """Return the items of an input as the guards left them."""
        groups = _groups(given)
        left = self.left([items for _, items in groups], [message for message, _ in groups])
        return cast("list[TResponseInputItem]", list(chain.from_iterable(left)))


def _groups(given: str | Sequence[TResponseInputItem]) -> list[tuple[Message, Sequence[Json]]]:
    """Return the messages of an input, each with its items."""
    if isinstance(given, str):
        message = Message.user(given)
        return [(message, wire.write([message]))] if given else []
    groups: list[tuple[Message, list[Json]]] = []
    for item in map(plain, given):
        [message] = wire.read([item])
        message = replace(message, id="", from_client=message.role == "system")
        last = groups[-1] if groups else None
        if last is not None and message.role == last[0].role == "assistant":
            groups[-1] = (last[0].with_parts((*last[0].parts, *message.parts)), [*last[1], item])
        else:
            groups.append((message, [item]))
    return list(groups)
