"""Which messages a prompt's budget lets through, and the verdict where none can; it knows contexts, no callback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.processors.budgets._conversations import Conversation
from penstock.processors.budgets._walk import Walk, by_priority, orphans, stale

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.processor.context import Context
    from penstock.engine.values.messages import Message
    from penstock.models.tokens.prices import Prices


class Trim(NamedTuple):
    """What a budget leaves of a conversation.

    Attributes:
        view: the conversation.
        kept: the places, among its messages, of those that stay.
        tokens: what the prompt costs then.
        room: what is left of the budget.
    """

    view: Conversation
    kept: frozenset[int]
    tokens: float
    room: float

    @property
    def dropped(self) -> tuple[Message, ...]:
        """The messages that go, in order."""
        return tuple([message for place, message in enumerate(self.view.messages) if place not in self.kept])

    @property
    def places(self) -> list[int]:
        """What stays, by its places in the list, the system's messages included."""
        first, places = self.view.first, self.view.places
        return [*self.view.system, *((first + place if places is None else places[place]) for place in self.kept)]


class Budget:
    """A number of tokens for a prompt. It remembers the last conversation it looked at."""

    def __init__(self, limit: int, prices: Prices) -> None:
        self.limit = limit
        self.prices = prices
        self._last: Conversation | None = None

    def view(self, ctx: Context[Any]) -> Conversation:
        """Return the conversation; the stages of a run show the same one again and again."""
        entries = ctx.message_list.entries
        last = self._last
        if last is None or last.entries is not entries:
            last = self._last = Conversation(entries)
        return last

    def taken(self, view: Conversation) -> float:
        """Return what the system's messages cost."""
        return sum([self.prices.costs.system(view.entries[place][0]) for place in view.system])

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal options."""
        return isinstance(other, Budget) and self._options() == other._options()

    __hash__ = None  # type: ignore[assignment]

    def _options(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_last"}


class PromptBudget(Budget):
    """A budget that lets through what is new, and what must stay whatever it costs."""

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
        super().__init__(limit, prices)
        self.contiguous = contiguous
        self.spare = spare
        self.pinned = pinned

    def trim(self, ctx: Context[Any], *, prompt: bool) -> Trim | None:
        """Return what stays, or None if all does; stop the run if what must stay does not fit, or nothing does."""
        view = self.view(ctx)
        count = len(view.messages)
        if not count:
            ctx.abort("there are no messages to send to the model")
        taken = self.taken(view)
        budget = self.limit - taken - self.prices.costs.conversation
        told = {"system_tokens": round(taken, 6), "limit": self.limit}
        if budget <= 0:
            ctx.abort("the system messages alone use up the token limit", metadata=told)
        walk = self._walked(view, budget, prompt=prompt)
        if walk is None or not walk.kept:
            told |= {"remaining_budget": round(budget, 6), "message_count": count}
            ctx.abort("what must be sent to the model does not fit into the token limit", metadata=told)
        if len(walk.kept) == count:
            return None
        tokens = round(self.limit - budget + walk.spent, 6)
        return Trim(view, frozenset(walk.kept), tokens, budget - walk.spent)

    def _walked(self, view: Conversation, budget: float, *, prompt: bool) -> Walk | None:
        walk = self._filled(view, budget, prompt=prompt)
        if walk is not None and self.spare and len(walk.kept) < len(view.messages):
            return self._filled(view, budget - self.spare, prompt=prompt) or walk
        return walk

    def _filled(self, view: Conversation, budget: float, *, prompt: bool) -> Walk | None:
        walk = Walk(view.messages, self.prices.sent if prompt else self.prices.kept, budget)
        if not walk.must([*view.said, *view.pinned(), *self._chosen(view)]):
            return None
        order = by_priority(len(view.messages), {} if self.contiguous else view.priorities())
        walk.fill(order, contiguous=self.contiguous, least=self.prices.costs.least)
        return walk

    def _chosen(self, view: Conversation) -> list[int]:
        chosen = self.pinned
        return [] if chosen is None else [at for at, message in enumerate(view.messages) if chosen(message)]


class MemoryBudget(Budget):
    """A budget for the whole conversation, beyond which the oldest of what memory brought goes."""

    def __init__(self, limit: int, prices: Prices, remove: float) -> None:
        """Take the options; ``remove`` tokens below the limit are made free where it is exceeded."""
        super().__init__(limit, prices)
        self.remove = remove

    def trim(self, ctx: Context[Any], *, prompt: bool) -> Trim | None:
        """Return what stays, or None if all does. It may stay above the limit: only memory's messages go."""
        view = self.view(ctx)
        price = self.prices.sent if prompt else self.prices.kept
        costs = [price(message) for message in view.messages]
        total = self.taken(view) + self.prices.costs.conversation + sum(costs)
        if total <= self.limit:
            return None
        free = set(view.of("memory")).difference(view.pinned())
        gone: set[int] = set()
        left = total
        for group in stale(view.messages, free):
            if left <= self.limit - self.remove:
                break
            gone.update(group)
            left -= sum(costs[at] for at in group)
        gone |= orphans(view.messages, gone, free)
        total -= sum(costs[at] for at in gone)
        kept = frozenset(range(len(costs))) - gone
        return Trim(view, kept, round(total, 6), self.limit - total) if gone else None
