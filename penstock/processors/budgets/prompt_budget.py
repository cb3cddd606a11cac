"""Choose which messages of a prompt fit into a token budget.

Required messages come first: the newest question, the current turn without its finished tool exchanges, the
newest of these, and pinned messages. Then come the other tool exchanges of the turn, the newest first, up to the first
that does not fit. The turns before it follow, by priority, then from the newest to the oldest.

No exchange is left half: a tool call stays with its results, an answer with its question, and an old question with its
answer. An old turn that does not fit may lose tool exchanges before it is skipped (best-fit), or ends the selection
(contiguous).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.values.messages import TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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
        price = self.prices.sent if prompt else self.prices.kept
        selection = MessageSelection(view.messages, view.question, price, budget, self.prices.costs.least)
        if not selection.must([*view.pinned(), *self._chosen(view)]):
            return None
        priorities = {} if self.contiguous else view.priorities()
        selection.fill(priorities, contiguous=self.contiguous)
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
        free = set(view.of("memory")).difference(view.pinned(), [view.question])
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
        question: the index, in ``messages``, of the newest question; -1 if there is none.
        marked: the indices, in ``messages``, of those with metadata.
    """

    __slots__ = ("entries", "first", "marked", "messages", "places", "question", "system")

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
        self.question = self._newest_question()
        self.marked = [place for place, message in enumerate(self.messages) if message.metadata]

    def of(self, source: str) -> list[int]:
        """Return the indices of the messages from a source."""
        if self.places is not None:
            return [at for at, place in enumerate(self.places) if self.entries[place][1] == source]
        return [at for at, entry in enumerate(self.entries[self.first :]) if entry[1] == source]

    def _newest_question(self) -> int:
        """Return the index of the last user message that the caller sent.

        Processors add user messages, too (as context): they ask nothing. If the caller sent none, it is the last one
        that is not context, or else the last one.
        """
        last = {"input": -1, "other": -1, "context": -1}
        for at in range(len(self.messages) - 1, -1, -1):
            if self.messages[at].role == "user":
                source = self.entries[self.first + at if self.places is None else self.places[at]][1]
                if source == "input":
                    return at
                kind = "context" if source == "context" else "other"
                last[kind] = max(last[kind], at)
        return last["other"] if last["other"] >= 0 else last["context"]

    def pinned(self) -> list[int]:
        """Return the indices of the messages with ``metadata["pinned"]``."""
        return [at for at in self.marked if self.messages[at].metadata.get(PINNED) is True]

    def priorities(self) -> dict[int, float]:
        """Return the numbers in ``metadata["priority"]``, by index."""
        given = {at: self.messages[at].metadata.get(PRIORITY) for at in self.marked}
        return {at: one for at, one in given.items() if isinstance(one, (int, float)) and not isinstance(one, bool)}


_CALLS = ("call", "partial")
_SHORTEST = 2
"""A turn of so many messages has no tool exchanges between its question and its end."""


class MessageSelection:
    """The selection of the messages that fit into a budget, for one conversation without its system messages.

    Attributes:
        kept: the indices of the selected messages.
        spent: their tokens.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        question: int,
        price: Callable[[Message], float],
        budget: float,
        least: float,
    ) -> None:
        """Begin without any message.

        Args:
            messages: the conversation.
            question: the index of the newest question; -1 if there is none.
            price: returns the tokens of a message.
            budget: the most tokens.
            least: the fewest tokens that a message can have; it may be below 0.
        """
        self.messages = messages
        self.kept: set[int] = set()
        self.spent: float = 0
        self._turn = question if question >= 0 else len(messages)
        self._price = price
        self._budget = budget
        self._least = least
        self._links: dict[int, tuple[int, ...]] | None = None
        self._removable: list[tuple[int, ...]] = []

    def must(self, pinned: Collection[int]) -> bool:
        """Keep the messages that must stay; tell whether they fit."""
        self._removable = self._exchanges(set(pinned))
        removable = {member for group in self._removable for member in group}
        stays = {member for index in range(self._turn, len(self.messages)) for member in self.group(index)} - removable
        stays.update(member for index in pinned for member in self.group(index))
        if self._turn == len(self.messages) and self.messages and _has_tools(self.messages[-1]):
            stays |= self._last_step()
        if stays and min(stays) < self._turn:  # with the questions and answers that belong to them
            stays.update(index for turn in self._turns() if stays.intersection(turn) for index in self._base(turn))
        for index in stays:
            self._keep((index,))
        return self.spent <= self._budget

    def fill(self, priorities: Mapping[int, float], *, contiguous: bool) -> None:
        """Keep as many of the other messages as fit."""
        for group in self._removable:
            if not self._fits(group):
                if contiguous:
                    return
                break
            self._keep(group)
        for turn in _by_priority(self._turns(), priorities):
            if not contiguous and self._budget - self.spent < self._least:
                return
            if self._fits(turn):
                self._keep(turn)
            elif contiguous:
                return
            elif len(turn) > _SHORTEST:
                self._keep_base(turn)

    def group(self, index: int) -> tuple[int, ...]:
        """Return the messages that tool calls link to one, itself included, in order."""
        if not _has_tools(self.messages[index]):
            return (index,)
        if self._links is None:
            self._links = links(self.messages)
        return self._links.get(index, (index,))

    def _exchanges(self, pinned: set[int]) -> list[tuple[int, ...]]:
        """Return the tool exchanges of the current turn that may go, the newest first."""
        turn = [index for index in range(len(self.messages) - 1, self._turn, -1) if _has_tools(self.messages[index])]
        last = self._last_step() if turn else set[int]()
        return [
            group
            for group in dict.fromkeys(map(self.group, turn))
            if group[0] > self._turn
            and last.isdisjoint(group)
            and pinned.isdisjoint(group)
            and self._is_finished(group)
        ]

    def _last_step(self) -> set[int]:
        """Return the messages of the newest tool exchanges: the model may not have seen their results yet."""
        found = set[int]()
        first = self._turn if self._turn < len(self.messages) else 0
        for index in range(len(self.messages) - 1, first - 1, -1):
            if _has_tools(self.messages[index]):
                found.update(self.group(index))
            if found and self.messages[index].role != "tool":
                break
        return found

    def _is_finished(self, group: Iterable[int]) -> bool:
        """Return whether every call of some messages has its result among them."""
        parts = [part for index in group for part in self.messages[index].parts if type(part) is ToolPart]
        finished = {part.call_id for part in parts if part.state not in _CALLS}
        return all(part.call_id in finished for part in parts)

    def _turns(self) -> Iterator[Sequence[int]]:
        """Yield the turns before the current one, the newest first: a question with all that follows it.

        Turns that tool calls link are one. Messages before the first question are no turn: each message, with those
        that tool calls link to it, is yielded alone.
        """
        messages, end = self.messages, self._turn
        while end > 0:
            start = first = end
            asks = False
            while start > 0 and not (asks and first >= start and messages[start].role == "user"):
                start -= 1
                asks = asks or messages[start].role == "user"
                if _has_tools(messages[start]):
                    first = min(first, self.group(start)[0])
            if asks:
                yield range(start, end)
            else:
                yield from (group for at in range(end - 1, -1, -1) if (group := self.group(at))[-1] == at)
            end = start

    def _base(self, turn: Sequence[int]) -> Sequence[int]:
        """Return what stays of a turn that may lose tool exchanges: its question, its texts, and how it ends."""
        if any(self.messages[index].role == "user" for index in turn[1:]):
            return turn
        last = set(self.group(turn[-1]))
        return [index for index in turn if index in last or not _has_tools(self.messages[index])]

    def _keep_base(self, turn: Sequence[int]) -> None:
        """Keep a turn without some of its tool exchanges, if it fits so."""
        base = self._base(turn)
        if len(base) == len(turn) or self.messages[turn[0]].role != "user" or not self._fits(base):
            return
        self._keep(base)
        for index in reversed(turn):
            group = self.group(index)
            if index == group[-1] and index not in self.kept and self._fits(group):
                self._keep(group)

    def _fits(self, places: Iterable[int]) -> bool:
        total = self.spent
        for index in places:
            if index not in self.kept:
                total += self._price(self.messages[index])
                if total > self._budget and self._least >= 0:
                    return False
        return total <= self._budget

    def _keep(self, places: Iterable[int]) -> None:
        for index in places:
            if index not in self.kept:
                self.kept.add(index)
                self.spent += self._price(self.messages[index])


def _by_priority(turns: Iterable[Sequence[int]], priorities: Mapping[int, float]) -> Iterable[Sequence[int]]:
    """Return turns in order of the highest priority that one of their messages has; without any, it is 0."""
    if not priorities:
        return turns
    return sorted(turns, key=lambda turn: -max([priorities[at] for at in turn if at in priorities], default=0))


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
    while (above := parent.get(index, index)) != index:
        parent[index] = parent.get(above, above)  # so that long chains are walked once
        index = above
    return index


def _has_tools(message: Message) -> bool:
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return False
    return any(type(part) is ToolPart for part in parts)


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
