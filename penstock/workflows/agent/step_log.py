"""`StepLog`: the attempts of a request, each with its answer as it is in the conversation now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.terms import without_repeats
from penstock.workflows.agent.results import calls_of, reasoning_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.workflows.agent.results import StepResult


class StepLog:
    """The results of all attempts, in order. A result is made again only when its answer has changed."""

    __slots__ = ("_by_answer", "_current", "_entries", "_made", "_stale", "_steps")

    def __init__(self) -> None:
        self._steps: list[StepResult] = []  # as they ended
        self._current: list[StepResult] = []  # as their answers are now
        self._by_answer: dict[str, list[int]] = {}  # the numbers of the steps, by the id of their answer
        self._stale: set[int] = set()  # the numbers of those to make again
        self._entries: Sequence[Entry] = ()  # of the conversation that the others were made from
        self._made: tuple[StepResult, ...] | None = ()  # None: a step was added, removed or changed

    @property
    def last(self) -> StepResult | None:
        """The last step as it ended; None if there is none."""
        return self._steps[-1] if self._steps else None

    @property
    def last_answer(self) -> str:
        """The id of the last answer; empty if there is none."""
        return next((step.message_id for step in reversed(self._steps) if step.message_id), "")

    def append(self, step: StepResult) -> None:
        """Add a step that has ended."""
        number = len(self._steps)
        self._steps.append(step)
        self._current.append(step)
        self._made = None
        if step.message_id:
            self._by_answer.setdefault(step.message_id, []).append(number)
            self._stale.add(number)

    def pop(self) -> None:
        """Remove the last step."""
        step = self._steps.pop()
        self._current.pop()
        self._made = None
        self._stale.discard(len(self._steps))
        if step.message_id:
            self._by_answer[step.message_id].pop()

    def rename(self, names: Mapping[str, str]) -> None:
        """Change the ids of answers: new ones by the old ones."""
        steps, self._steps, self._current = self._steps, [], []
        self._by_answer, self._stale = {}, set()
        for step in steps:
            self.append(replace(step, message_id=names.get(step.message_id, step.message_id)))

    def current(self, messages: MessageList) -> tuple[StepResult, ...]:
        """Return the steps with their answers as they are in these messages."""
        if messages.entries is not self._entries:
            for id in _changed(self._entries, messages.entries):
                self._stale.update(self._by_answer.get(id, ()))
            self._entries = messages.entries
        for number in self._stale:
            self._current[number] = _current_step(self._steps[number], messages)
            self._made = None
        self._stale.clear()
        if self._made is None:
            self._made = tuple(self._current)
        return self._made

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self._steps)

    def __iter__(self) -> Iterator[StepResult]:
        """Iterate over the steps as they ended."""
        return iter(self._steps)


def _changed(before: Sequence[Entry], after: Sequence[Entry]) -> Iterable[str]:
    """Return the ids of the messages that were added, removed or changed; perhaps those of further ones.

    Messages change at the end of a conversation: all else is compared at once, which takes no time where objects are
    the same.
    """
    same = min(len(before), len(after))
    while same and before[same - 1] is not after[same - 1]:
        same -= 1
    if before[:same] != after[:same]:
        same = 0
    return {entry[0].id for entries in (before[same:], after[same:]) for entry in entries}


def _current_step(step: StepResult, messages: MessageList) -> StepResult:
    """Return a step with its answer as it is in the conversation now."""
    message = messages.get(step.message_id)
    if message is None:  # taken back: the metadata of the provider may repeat its text
        return replace(step, text="", reasoning="", tool_calls=(), metadata=EMPTY)
    text, reasoning, calls = text_of(message), reasoning_of(message), calls_of(message)
    if (text, reasoning, calls) == (step.text, step.reasoning, step.tool_calls):
        return step
    metadata = step.metadata if (text, reasoning) == (step.text, step.reasoning) else without_repeats(step.metadata)
    return replace(step, text=text, reasoning=reasoning, tool_calls=calls, metadata=metadata)
