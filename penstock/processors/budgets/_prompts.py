"""Which messages a prompt's budget lets through, and the verdict where none can; it knows contexts, no callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.processors.budgets._walk import Walk, by_priority, orphans, stale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.context import Context
    from penstock.engine.message_list import Entry
    from penstock.engine.messages import Message
    from penstock.processors.tokens.prices import Prices

PINNED = "pinned"
PRIORITY = "priority"


class Trim(NamedTuple):
    """What a budget leaves of a conversation.

    Attributes:
        kept: the messages that stay, in order; the system's are not among them.
        dropped: those that go, in order.
        tokens: what the prompt costs then.
        room: what is left of the budget.
    """

    kept: tuple[Message, ...]
    dropped: tuple[Message, ...]
    tokens: float
    room: float


class PromptBudget:
    """A number of tokens for the prompt, and what must stay in it whatever it costs."""

    def __init__(
        self,
        limit: int,
        prices: Prices,
        *,
        contiguous: bool,
        spare: int,
        pinned: Callable[[Message], bool] | None,
    ) -> None:
        """Take the options; ``spare`` tokens are kept free where messages are dropped."""
        self.limit = limit
        self.prices = prices
        self.contiguous = contiguous
        self.spare = spare
        self.pinned = pinned

    def trim(self, ctx: Context[Any], *, prompt: bool) -> Trim | None:
        """Return what stays, or None if all does; stop the run if what must stay does not fit, or nothing does."""
        system, entries = parted(ctx.message_list.entries)
        if not entries:
            ctx.abort("there are no messages to send to the model")
        taken = sum(map(self.prices.costs.system, system))
        budget = self.limit - taken - self.prices.costs.conversation
        told = {"system_tokens": round(taken, 6), "limit": self.limit}
        if budget <= 0:
            ctx.abort("the system messages alone use up the token limit", metadata=told)
        told |= {"remaining_budget": round(budget, 6), "message_count": len(entries)}
        walk = self._walked(entries, budget, prompt=prompt)
        if walk is None or not walk.kept:
            ctx.abort("what must be sent to the model does not fit into the token limit", metadata=told)
        if len(walk.kept) == len(entries):
            return None
        return _trim(entries, walk.kept, taken + self.prices.costs.conversation + walk.spent, budget - walk.spent)

    def _walked(self, entries: Sequence[Entry], budget: float, *, prompt: bool) -> Walk | None:
        walk = self._filled(entries, budget, prompt=prompt)
        if walk is not None and self.spare and len(walk.kept) < len(entries):
            return self._filled(entries, budget - self.spare, prompt=prompt) or walk
        return walk

    def _filled(self, entries: Sequence[Entry], budget: float, *, prompt: bool) -> Walk | None:
        prices = self.prices

        def price(message: Message) -> float:
            return prices.of(message, prompt=prompt)

        messages = [entry[0] for entry in entries]
        walk = Walk(messages, price, budget)
        if not walk.must(self._fixed(entries)):
            return None
        priorities = {} if self.contiguous else _priorities(messages)
        order = by_priority(len(messages), priorities)
        walk.fill(order, contiguous=self.contiguous, least=prices.costs.least)
        return walk

    def _fixed(self, entries: Sequence[Entry]) -> list[int]:
        """Return the indexes of what is pinned, or was said in this run."""
        pinned = self.pinned
        fixed = [
            index
            for index, entry in enumerate(entries)
            if entry[1] == "response" or (entry[0].metadata and entry[0].metadata.get(PINNED) is True)
        ]
        return fixed if pinned is None else [*fixed, *(at for at, entry in enumerate(entries) if pinned(entry[0]))]

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal options."""
        return isinstance(other, PromptBudget) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class MemoryBudget:
    """A number of tokens for the whole conversation, beyond which the oldest of what memory brought goes."""

    def __init__(self, limit: int, prices: Prices, remove: float) -> None:
        """Take the options; ``remove`` tokens below the limit are made free where it is exceeded."""
        self.limit = limit
        self.prices = prices
        self.remove = remove

    def trim(self, ctx: Context[Any], *, prompt: bool) -> Trim | None:
        """Return what stays, or None if all does. It may stay above the limit: only memory's messages go."""
        system, entries = parted(ctx.message_list.entries)
        costs = [self.prices.of(entry[0], prompt=prompt) for entry in entries]
        total = sum(map(self.prices.costs.system, system)) + self.prices.costs.conversation + sum(costs)
        if total <= self.limit:
            return None
        messages = [entry[0] for entry in entries]
        free = {at for at, entry in enumerate(entries) if entry[1] == "memory" and not _is_pinned(entry[0])}
        gone: set[int] = set()
        for group in stale(messages, free):
            if total - sum(costs[at] for at in gone) <= self.limit - self.remove:
                break
            gone.update(group)
        gone |= orphans(messages, gone, free)
        total -= sum(costs[at] for at in gone)
        kept = set(range(len(messages))) - gone
        return _trim(entries, kept, total, self.limit - total) if gone else None

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal options."""
        return isinstance(other, MemoryBudget) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def parted(entries: Sequence[Entry]) -> tuple[list[Message], Sequence[Entry]]:
    """Return the system messages, and the entries of all others."""
    system = [entry[0] for entry in entries if entry[1] == "system"]
    return system, [entry for entry in entries if entry[1] != "system"] if system else entries


def _trim(entries: Sequence[Entry], kept: set[int], tokens: float, room: float) -> Trim:
    stays = tuple([entries[index][0] for index in sorted(kept)])
    goes = tuple([entry[0] for index, entry in enumerate(entries) if index not in kept])
    return Trim(stays, goes, round(tokens, 6), room)


def _is_pinned(message: Message) -> bool:
    return message.metadata.get(PINNED) is True


def _priorities(messages: Sequence[Message]) -> dict[int, float]:
    marked = [(index, message.metadata.get(PRIORITY)) for index, message in enumerate(messages) if message.metadata]
    return {index: given for index, given in marked if isinstance(given, (int, float)) and not isinstance(given, bool)}
