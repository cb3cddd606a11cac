"""`Prices`: what messages cost, remembered by id; it knows no conversation and no budget."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.values.errors import UsageError
from penstock.models.tokens.costs import ChatCosts
from penstock.models.tokens.memo import Memo
from penstock.models.tokens.reference import ReferenceCosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.messages import Message
    from penstock.models.tokens.costs import Costs
    from penstock.models.tokens.counters import Counting

Way = Literal["chat", "reference", "reference-1.0"]


class Prices:
    """The costs of messages. Lives as long as the processor it was made for.

    A message is counted again only where it is not the one, nor equal to the one, that bore its id before.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._kept: Memo[str, tuple[Message, float]] = Memo(len)
        self._sent: Memo[str, tuple[Message, float]] = Memo(len)

    def kept(self, message: Message) -> float:
        """Return what a message costs, as it is kept."""
        found = self._kept.get(message.id)
        if found is not None and (found[0] is message or found[0] == message):
            return found[1]
        cost = self.costs.of(message)
        self._kept.put(message.id, (message, cost))
        return cost

    def sent(self, message: Message) -> float:
        """Return what a message costs, as it goes to the model."""
        found = self._sent.get(message.id)
        if found is not None and (found[0] is message or found[0] == message):
            return found[1]
        cost = self.costs.of(message, prompt=True)
        self._sent.put(message.id, (message, cost))
        return cost

    def __eq__(self, other: object) -> bool:
        """Tell whether both count alike."""
        return isinstance(other, Prices) and self.costs == other.costs

    __hash__ = None  # type: ignore[assignment]


class OwnCosts:
    """Costs as an object of the user's has them, whose ``count_message`` takes a message and gives a number."""

    conversation: float = 3
    least: float = 0

    def __init__(self, counter: object) -> None:
        self.counter = counter

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return what the object says.

        Raises:
            UsageError: it says something else than a number of 0 or more.
        """
        del prompt
        count = cast("Callable[[Message], object]", self.counter.count_message)  # type: ignore[attr-defined]
        found = count(message)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not isfinite(found) or found < 0:
            raise UsageError("count_message of the token counter must give a number of 0 or more")
        return found

    system = of

    def __eq__(self, other: object) -> bool:
        """Tell whether both ask the same object."""
        return isinstance(other, OwnCosts) and self.counter == other.counter

    __hash__ = None  # type: ignore[assignment]


def prices(counting: Counting, way: Way, counter: object = None) -> Prices:
    """Return prices: those of the counter's own ``count_message``, if it has one, else in that way."""
    if callable(getattr(counter, "count_message", None)):
        return Prices(OwnCosts(counter))
    if way == "chat":
        return Prices(ChatCosts(counting))
    return Prices(ReferenceCosts(counting, media=way == "reference"))
