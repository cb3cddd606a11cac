"""What the models of a request took, as it becomes known: those that answer, and those that judge. It knows usages.

A run has one account. Whoever asks a model on a run's behalf enters what it took, and whoever minds the cost listens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.model import Usage


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What one or several requests to a model took.

    Attributes:
        model: the model's name, as its `Model` tells it.
        usage: the tokens; None where the provider did not say.
        by: who asked: the path of a step, or empty for the agent itself.
        attempts: how many requests it were, those that failed included.
    """

    model: str
    usage: Usage | None
    by: str = ""
    attempts: int = 1


class UsageLog:
    """All that a run has spent so far, in the order in which it became known. Lives as long as the run."""

    __slots__ = ("_listeners", "_spent")

    def __init__(self) -> None:
        self._spent: list[UsageEntry] = []
        self._listeners: list[Callable[[UsageEntry], None]] = []

    @property
    def spent(self) -> tuple[UsageEntry, ...]:
        """What was spent so far."""
        return tuple(self._spent)

    def enter(self, spend: UsageEntry) -> None:
        """Enter what a model took, and tell the listeners, at once."""
        self._spent.append(spend)
        for listener in self._listeners:
            listener(spend)

    def listen(self, listener: Callable[[UsageEntry], None]) -> None:
        """Tell a listener of all that was spent so far, and from now on of each further spend."""
        for spend in self._spent:
            listener(spend)
        self._listeners.append(listener)
