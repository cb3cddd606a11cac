"""Which messages of a conversation a budget keeps; it knows prices and messages, no stage and no context.

The rules, in this order. What must stay (the newest user message, all that came after it, pinned messages) is paid
first. Then the others, by priority, then from the newest to the oldest, each with what belongs to it: a call with its
results, and an answer with the user message before it, so that none stands without its question. What does not fit is
skipped (best-fit), or ends the walk (contiguous).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Message

_CALLS = ("call", "partial")


class Walk:
    """One decision about one conversation (its messages without the system's)."""

    def __init__(self, messages: Sequence[Message], price: Callable[[Message], float], budget: float) -> None:
        self.messages = messages
        self.kept: set[int] = set()
        self.spent: float = 0
        self._price = price
        self._budget = budget
        self._links: dict[int, tuple[int, ...]] | None = None
        self._asked: tuple[int, int] | None = None  # a question, and up to where it is the one before

    def must(self, pinned: Iterable[int]) -> bool:
        """Keep what must stay, and tell whether it fits."""
        last = newest_user(self.messages, len(self.messages))
        current = range(last, len(self.messages)) if last >= 0 else range(0)
        for index in (*current, *pinned):
            for member in self.group(index):
                self._keep(member)
        return self.spent <= self._budget

    def fill(self, order: Iterable[int], *, contiguous: bool, least: float) -> None:
        """Keep as many of the others as fit, in that order."""
        refused: set[int] = set()
        kept, budget, price, messages = self.kept, self._budget, self._price, self.messages
        for index in order:
            if index in kept or index in refused:
                continue
            if not contiguous and least >= 0 and price(messages[index]) > budget - self.spent:
                refused.add(index)  # what belongs to it makes it no cheaper
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
        """Return the messages that are bound to one by tools' calls, itself included, in order."""
        if not _has_tools(self.messages[index]):
            return (index,)
        if self._links is None:
            self._links = links(self.messages)
        return self._links.get(index, (index,))

    def _question(self, index: int) -> tuple[int, ...]:
        """Return the user message before an answer; nothing for one that is a user's itself."""
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
    """Return the index of the last user message before a place; -1 if there is none."""
    return next((index for index in range(before - 1, -1, -1) if messages[index].role == "user"), -1)


def links(messages: Sequence[Message]) -> dict[int, tuple[int, ...]]:
    """Return which messages tools' calls bind together, by each of them: a result to the last call of its id."""
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
    """Return the indexes of so many messages: higher priorities first, of equals the newest."""
    newest_first = range(count - 1, -1, -1)
    if not priorities:
        return newest_first
    return sorted(newest_first, key=lambda index: -priorities.get(index, 0))


def stale(messages: Sequence[Message], free: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yield what memory may give up, oldest first: messages, those that tools' calls bind together as one.

    ``free`` are the indexes that may go; a group of which one may not go stays whole.
    """
    bound = links(messages)
    for index in sorted(free):
        group = bound.get(index, (index,))
        if index == group[0] and all(member in free for member in group):
            yield group


def orphans(messages: Sequence[Message], gone: Collection[int], free: Collection[int]) -> set[int]:
    """Return the answers among ``free`` whose question is gone; what tools' calls bind together goes together."""
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
