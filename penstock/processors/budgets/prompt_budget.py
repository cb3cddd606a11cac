"""Choose which messages of a prompt fit into a token budget.

The order of the rules: messages that must stay (the newest user message, all that follow it, pinned messages) come
first. Then the others, by priority, then from the newest to the oldest, each with the messages that belong to it: a
tool call with its results, and an answer with the user message before it, so that no answer lacks its question.
A message that does not fit is skipped (best-fit), or ends the selection (contiguous).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.values.messages import TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from penstock.engine.processor.context import Context
    from penstock.engine.values.message_list import Entry
    from penstock.engine.values.messages import Message
    from penstock.models.tokens.message_costs import Prices


class TrimmedPrompt(NamedTuple):
    """A prompt after trimming.

    Attributes:
        view: the conversation.
        kept: the indices, in ``view.messages``, of the messages that stay.
        tokens: the tokens of the prompt.
        room: the tokens that are left of the budget.
    """

    view: PromptView
    kept: frozenset[int]
    tokens: float
    room: float

    @property
    def dropped(self) -> tuple[Message, ...]:
        """The messages that are dropped, in order."""
        return tuple([message for place, message in enumerate(self.view.messages) if place not in self.kept])

    @property
    def places(self) -> list[int]:
        """The indices in the message list of all that stays, system messages included."""
        first, places = self.view.first, self.view.places
        return [*self.view.system, *((first + place if places is None else places[place]) for place in self.kept)]


class TokenBudget:
    """A token limit for a prompt. It caches the view of the last conversation."""

    def __init__(self, limit: int, prices: Prices) -> None:
        self.limit = limit
        self.prices = prices
        self._last: PromptView | None = None

    def view(self, ctx: Context[Any]) -> PromptView:
        """Return the conversation; the stages of a run often see the same one, so the last view is cached."""
        entries = ctx.message_list.entries
        last = self._last
        if last is None or last.entries is not entries:
            last = self._last = PromptView(entries)
        return last

    def taken(self, view: PromptView) -> float:
        """Return the tokens of the system messages."""
        return sum([self.prices.costs.system(view.entries[place][0]) for place in view.system])

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal options."""
        return isinstance(other, TokenBudget) and self._options() == other._options()

    __hash__ = None  # type: ignore[assignment]

    def _options(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_last"}


class PromptBudget(TokenBudget):
    """A budget that keeps the messages that must stay, and then the newest."""

    def __init__(
        self,
        limit: int,
        prices: Prices,
        *,
        contiguous: bool,
        spare: int,
        pinned: Callable[[Message], bool] | None,
    ) -> None:
        """Store the options; ``spare`` tokens are left free if messages are dropped."""
        super().__init__(limit, prices)
        self.contiguous = contiguous
        self.spare = spare
        self.pinned = pinned

    def trim(self, ctx: Context[Any], *, prompt: bool) -> TrimmedPrompt | None:
        """Return what stays, None if nothing is dropped. Abort the run if the messages that must stay do not fit."""
        view = self.view(ctx)
        count = len(view.messages)
        if not count:
            ctx.abort("there are no messages to send to the model")
        taken = self.taken(view)
        budget = self.limit - taken - self.prices.costs.conversation
        metadata = {"system_tokens": round(taken, 6), "limit": self.limit}
        if budget <= 0:
            ctx.abort("the system messages alone use up the token limit", metadata=metadata)
        selection = self._selected(view, budget, prompt=prompt)
        if selection is None or not selection.kept:
            metadata |= {"remaining_budget": round(budget, 6), "message_count": count}
            ctx.abort("what must be sent to the model does not fit into the token limit", metadata=metadata)
        if len(selection.kept) == count:
            return None
        tokens = round(self.limit - budget + selection.spent, 6)
        return TrimmedPrompt(view, frozenset(selection.kept), tokens, budget - selection.spent)

    def _selected(self, view: PromptView, budget: float, *, prompt: bool) -> MessageSelection | None:
        selection = self._filled(view, budget, prompt=prompt)
        if selection is not None and self.spare and len(selection.kept) < len(view.messages):
            return self._filled(view, budget - self.spare, prompt=prompt) or selection
        return selection

    def _filled(self, view: PromptView, budget: float, *, prompt: bool) -> MessageSelection | None:
        selection = MessageSelection(view.messages, self.prices.sent if prompt else self.prices.kept, budget)
        if not selection.must([*view.said, *view.pinned(), *self._chosen(view)]):
            return None
        order = by_priority(len(view.messages), {} if self.contiguous else view.priorities())
        selection.fill(order, contiguous=self.contiguous, least=self.prices.costs.least)
        return selection

    def _chosen(self, view: PromptView) -> list[int]:
        chosen = self.pinned
        return [] if chosen is None else [at for at, message in enumerate(view.messages) if chosen(message)]


class MemoryBudget(TokenBudget):
    """A budget for the whole conversation; if it is exceeded, the oldest messages from memory are dropped."""

    def __init__(self, limit: int, prices: Prices, remove: float) -> None:
        """Store the options; if the limit is exceeded, the prompt is cut to ``remove`` tokens below it."""
        super().__init__(limit, prices)
        self.remove = remove

    def trim(self, ctx: Context[Any], *, prompt: bool) -> TrimmedPrompt | None:
        """Return what stays, None if nothing is dropped. It may exceed the limit: only memory's messages can go."""
        view = self.view(ctx)
        price = self.prices.sent if prompt else self.prices.kept
        costs = [price(message) for message in view.messages]
        total = self.taken(view) + self.prices.costs.conversation + sum(costs)
        if total <= self.limit:
            return None
        free = set(view.of("memory")).difference(view.pinned())
        gone: set[int] = set()
        left = total
        for group in removable_groups(view.messages, free):
            if left <= self.limit - self.remove:
                break
            gone.update(group)
            left -= sum(costs[at] for at in group)
        gone |= answers_without_question(view.messages, gone, free)
        total -= sum(costs[at] for at in gone)
        kept = frozenset(range(len(costs))) - gone
        return TrimmedPrompt(view, kept, round(total, 6), self.limit - total) if gone else None


PINNED = "pinned"
PRIORITY = "priority"


class PromptView:
    """A message list with the system messages apart. Immutable: valid while the entries are the same.

    Attributes:
        entries: the entries of the list.
        system: the indices of the system messages in the entries.
        first: the index of the first other message, if the others follow one another.
        places: the indices of the others in the entries, if they do not; None if they do.
        messages: the others.
        said: the indices, in ``messages``, of those from this run.
        marked: the indices, in ``messages``, of those with metadata.
    """

    __slots__ = ("entries", "first", "marked", "messages", "places", "said", "system")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.system = [place for place, entry in enumerate(entries) if entry[1] == "system"]
        self.first = len(self.system)
        self.places: list[int] | None = None
        self.messages: list[Message]
        if self.system and self.system[-1] >= self.first:
            self.places = [place for place, entry in enumerate(entries) if entry[1] != "system"]
            self.messages = [entries[place][0] for place in self.places]
        else:
            self.messages = [entry[0] for entry in entries[self.first :]]
        self.said = self.of("response")
        self.marked = [place for place, message in enumerate(self.messages) if message.metadata]

    def of(self, source: str) -> list[int]:
        """Return the indices of the messages from a source."""
        if self.places is not None:
            return [at for at, place in enumerate(self.places) if self.entries[place][1] == source]
        return [at for at, entry in enumerate(self.entries[self.first :]) if entry[1] == source]

    def pinned(self) -> list[int]:
        """Return the indices of the messages with ``metadata["pinned"]``."""
        return [at for at in self.marked if self.messages[at].metadata.get(PINNED) is True]

    def priorities(self) -> dict[int, float]:
        """Return the numbers in ``metadata["priority"]``, by index."""
        given = {at: self.messages[at].metadata.get(PRIORITY) for at in self.marked}
        return {at: one for at, one in given.items() if isinstance(one, (int, float)) and not isinstance(one, bool)}


_CALLS = ("call", "partial")


class MessageSelection:
    """The selection of the messages that fit into a budget, for one conversation without its system messages."""

    def __init__(self, messages: Sequence[Message], price: Callable[[Message], float], budget: float) -> None:
        self.messages = messages
        self.kept: set[int] = set()
        self.spent: float = 0
        self._price = price
        self._budget = budget
        self._links: dict[int, tuple[int, ...]] | None = None
        self._asked: tuple[int, int] | None = (
            None  # the index of a question, and of the last message for which it was looked up
        )

    def must(self, pinned: Iterable[int]) -> bool:
        """Keep the messages that must stay; tell whether they fit."""
        last = newest_user(self.messages, len(self.messages))
        current = range(last, len(self.messages)) if last >= 0 else range(0)
        for index in (*current, *pinned):
            for member in self.group(index):
                self._keep(member)
        return self.spent <= self._budget

    def fill(self, order: Iterable[int], *, contiguous: bool, least: float) -> None:
        """Keep as many of the other messages as fit, in the given order."""
        refused: set[int] = set()
        kept, budget, price, messages = self.kept, self._budget, self._price, self.messages
        for index in order:
            if index in kept or index in refused:
                continue
            if not contiguous and least >= 0 and price(messages[index]) > budget - self.spent:
                refused.add(index)  # with the messages that belong to it, it costs even more
                continue
            group = self.group(index)
            unit = [member for member in (*group, *self._question(group[0])) if member not in kept]
            need = sum([price(messages[member]) for member in unit])
            if self.spent + need <= budget:
                kept.update(unit)
                self.spent += need
            elif contiguous or budget - self.spent < least:
                return
            else:
                refused.update(group)

    def group(self, index: int) -> tuple[int, ...]:
        """Return the messages that tool calls link to one, itself included, in order."""
        if not _has_tools(self.messages[index]):
            return (index,)
        if self._links is None:
            self._links = links(self.messages)
        return self._links.get(index, (index,))

    def _question(self, index: int) -> tuple[int, ...]:
        """Return the index of the user message before an answer; empty for a user message."""
        if self.messages[index].role == "user":
            return ()
        if self._asked is None or not self._asked[0] < index <= self._asked[1]:
            self._asked = (newest_user(self.messages, index), index)
        return (self._asked[0],) if self._asked[0] >= 0 else ()

    def _keep(self, index: int) -> None:
        if index not in self.kept:
            self.kept.add(index)
            self.spent += self._price(self.messages[index])


def newest_user(messages: Sequence[Message], before: int) -> int:
    """Return the index of the last user message before an index; -1 if there is none."""
    return next((index for index in range(before - 1, -1, -1) if messages[index].role == "user"), -1)


def links(messages: Sequence[Message]) -> dict[int, tuple[int, ...]]:
    """Return the groups of messages that tool calls link, by the index of each member."""
    called: dict[str, int] = {}
    parent: dict[int, int] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if type(part) is not ToolPart:
                continue
            if part.state in _CALLS:
                called[part.call_id] = index
            elif part.call_id in called:
                first, second = sorted((_root(parent, called[part.call_id]), _root(parent, index)))
                parent[second] = first
    groups: dict[int, list[int]] = {}
    for index in sorted({*parent, *parent.values()}):
        groups.setdefault(_root(parent, index), []).append(index)
    return {member: tuple(group) for group in groups.values() for member in group}


def _root(parent: dict[int, int], index: int) -> int:
    while parent.get(index, index) != index:
        index = parent[index]
    return index


def _has_tools(message: Message) -> bool:
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return False
    return any(type(part) is ToolPart for part in parts)


def by_priority(count: int, priorities: dict[int, float]) -> Iterable[int]:
    """Return the indices of a number of messages: higher priorities first, newer ones first within a priority."""
    newest_first = range(count - 1, -1, -1)
    if not priorities:
        return newest_first
    return sorted(newest_first, key=lambda index: -priorities.get(index, 0))


def removable_groups(messages: Sequence[Message], free: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yield the groups of messages that may be dropped, oldest first; messages linked by tool calls are one group.

    Args:
        messages: the conversation.
        free: the indices that may be dropped; a group with another member stays whole.
    """
    bound = links(messages)
    for index in sorted(free):
        group = bound.get(index, (index,))
        if index == group[0] and all(member in free for member in group):
            yield group


def answers_without_question(messages: Sequence[Message], gone: Collection[int], free: Collection[int]) -> set[int]:
    """Return the indices in ``free`` of the answers whose question is gone; groups linked by tool calls go together."""
    bound = links(messages)
    found: set[int] = set()
    question_gone = False
    for index, message in enumerate(messages):
        if message.role == "user":
            question_gone = index in gone
        elif question_gone and index not in gone:
            group = bound.get(index, (index,))
            found.update(group if all(member in free for member in group) else ())
    return found
