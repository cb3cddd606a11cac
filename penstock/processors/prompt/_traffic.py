"""Tool traffic in a conversation: calls paired with their results, model steps, what is still open. It knows no filter.

A call and its result belong together by the call's id, wherever they stand and whatever tool the result names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.messages import DataPart, StepStartPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message

_ASIDE = (StepStartPart, DataPart)
"""Parts that say nothing to a model."""


@dataclass(slots=True)
class Exchange:
    """A call with its result, or either alone.

    Attributes:
        key: the call's id; numbered when an id is used again, the tool's name where an older format has no ids.
        names: the tool, under every name that call or result gives it.
        step: the number of the model step that called, from 0; -1 for a result without its call.
        last: the index of the last message in which it occurs.
        result: the part that holds the result; None as long as there is none.
    """

    key: str
    names: set[str] = field(default_factory=set[str])
    step: int = -1
    last: int = -1
    result: ToolPart | None = None

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return self.result is not None and self.result.state == "error"


@dataclass(slots=True)
class Traffic:
    """The tool traffic of a conversation.

    Attributes:
        exchanges: all of it, in the order in which it began.
        owners: the exchange to which a tool part belongs, by the indices of its message and of the part.
        steps: how many model steps called tools.
        turn: the index of the first message after the user's last one.
        answer: the index of the assistant's last message.
        is_open: whether the conversation ends with a result, which the model has not seen yet.
    """

    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    owners: dict[tuple[int, int], Exchange] = field(default_factory=dict[tuple[int, int], Exchange])
    steps: int = 0
    turn: int = 0
    answer: int = 0
    is_open: bool = False

    def in_open_turn(self, exchange: Exchange) -> bool:
        """Whether it belongs to a turn that the model is in the middle of."""
        return self.is_open and exchange.last >= self.turn

    def in_open_step(self, exchange: Exchange) -> bool:
        """Whether the model asked for it in the step before, and has not seen the result yet."""
        return self.is_open and exchange.last >= self.answer and exchange.step in (-1, self.steps - 1)


def traffic_of(messages: Sequence[Message]) -> Traffic:
    """Return the tool traffic of a conversation."""
    found = Traffic(is_open=_ends_with_a_result(messages))
    latest: dict[str, Exchange] = {}
    for index, message in enumerate(messages):
        if message.role == "user":
            found.turn = index + 1
        elif message.role == "assistant":
            found.answer = index
        _collect(found, latest, index, message)
    return found


def _collect(found: Traffic, latest: dict[str, Exchange], index: int, message: Message) -> None:
    """Add the traffic of one message; ``latest`` has the exchange that an id meant last."""
    called = False
    for place, part in enumerate(message.parts):
        if isinstance(part, StepStartPart):
            called = False
        if not isinstance(part, ToolPart):
            continue
        name = part.call_id or f"\0{part.name}"
        exchange = latest.get(name)
        calls = _is_call(part, message, exchange)
        if exchange is None or (calls and exchange.result is not None):
            exchange = latest[name] = Exchange(name if exchange is None else f"{name}\0{len(found.exchanges)}")
            found.exchanges.append(exchange)
        if calls:
            found.steps += not called
            called = True
            exchange.step = found.steps - 1
        exchange.names.update({part.name} - {""})
        exchange.last = index
        exchange.result = part if _is_finished(part) else exchange.result
        found.owners[index, place] = exchange


def _is_finished(part: ToolPart) -> bool:
    return part.state in ("result", "error")


def _is_call(part: ToolPart, message: Message, known: Exchange | None) -> bool:
    """Whether the part tells of a new call. A finished one of an assistant's does, unless it answers an open call."""
    if not _is_finished(part):
        return True
    return message.role != "tool" and (known is None or known.result is not None)


def _ends_with_a_result(messages: Sequence[Message]) -> bool:
    if not messages or messages[-1].role not in ("assistant", "tool"):
        return False
    said = [part for part in messages[-1].parts if not isinstance(part, _ASIDE)]
    return bool(said) and isinstance(said[-1], ToolPart) and _is_finished(said[-1])
