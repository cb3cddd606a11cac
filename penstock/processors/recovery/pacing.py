"""`Backoff` computes the waits between retries, `CircuitBreaker` stops retries of a model that keeps failing."""

from __future__ import annotations

import math
import sys
import threading
from collections import deque
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.values.protocols import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeGuard

    from penstock.engine.values.protocols import Clock


def is_number(given: object) -> TypeGuard[float]:
    """Return whether a value is a finite number. True and False are not numbers."""
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)


# Backoff

_FINITE = sys.float_info.max
_BOUNDS = {"first": (0.0, _FINITE), "factor": (1.0, _FINITE), "most": (0.0, _FINITE), "jitter": (0.0, 1.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential backoff with jitter.

    The wait before retry ``n`` (from 0) lies between ``(1 - jitter) * d`` and ``d``, where ``d`` is
    ``min(first * factor ** n, most)``. With the default jitter, half of each wait is random, so that clients that
    failed together do not retry together.

    Attributes:
        first: the upper bound of the first wait, in seconds; 0 or more. Default 0.5.
        factor: by how much each further wait is longer; 1 or more. Default 2.
        most: the upper bound of all waits, in seconds; 0 or more. Default 8.
        jitter: the share of each wait that is random, from 0 to 1. Default 0.5.

    Raises:
        OptionError: a value is not a finite number, or out of its range.
    """

    first: float = 0.5
    factor: float = 2.0
    most: float = 8.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Check the values."""
        for each in fields(self):
            least, most = _BOUNDS[each.name]
            allowed = f"a number from {least:g} on" if most == _FINITE else f"a number from {least:g} to {most:g}"
            check_number("Backoff", each.name, getattr(self, each.name), allowed, least, most)

    def seconds(self, retry: int, random: Callable[[], float]) -> float:
        """Return the wait before a retry, in seconds.

        Args:
            retry: how many retries were made before, from 0.
            random: returns numbers from 0 to 1.
        """
        try:
            longest = min(self.first * self.factor**retry, self.most)
        except OverflowError:
            longest = self.most
        return longest * (1 - self.jitter * random())

    def spread(self, asked: float, random: Callable[[], float]) -> float:
        """Return the wait that a provider asks for plus a random part, in seconds.

        Clients that were told to wait equally long would otherwise come back at the same moment. The random part is at
        most ``first * jitter``.
        """
        return asked + self.first * self.jitter * random()


# Circuit breaker

_LONGEST = 366 * 86_400.0  # seconds: a year


@dataclass(slots=True)
class _Circuit:
    """The failures of one model.

    Attributes:
        failures: the times of its recent failures.
        opened: when the circuit opened, or when it last let a retry through; None while it is closed.
    """

    failures: deque[datetime] = field(default_factory=deque["datetime"])
    opened: datetime | None = None


class CircuitBreaker:
    """Stops retries of a model that fails again and again.

    After ``failures`` failed calls of a model within ``within`` seconds, the circuit of that model opens: for ``pause``
    seconds, no failed call of it is retried. This spares the provider load and users the wait. After the pause, one
    retry is let through, and another one after each further pause. The circuit closes when the model answers, or
    after ``within`` seconds without a failure once the pause is over. First calls are held back only by callers that
    ask `admits`, as the gateway does.

    Pass one breaker to several processors to share its counts, and one of a `SharedState` to share them with other
    processes. It is thread-safe. Copies and pickles hold the options, not the counts.

    Args:
        failures: how many failures open the circuit; 1 or more. Default 5.
        within: the period in which failures are counted, in seconds; above 0, at most 366 days. Default 60.
        pause: how long the circuit stays open, in seconds; above 0, at most 366 days. Default 30.
        clock: tells the time.

    Raises:
        OptionError: a value is out of its range.
    """

    def __init__(
        self, *, failures: int = 5, within: float = 60.0, pause: float = 30.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        name = type(self).__name__
        self.failures = check_count(name, "failures", failures, "a whole number from 1 on", 1)
        for option, given in (("within", within), ("pause", pause)):
            allowed = "a number of seconds above 0, at most 366 days"
            check_number(name, option, given, allowed, most=_LONGEST, above=True)
        self.within = within
        self.pause = pause
        self._clock = clock
        self._circuits: dict[str, _Circuit] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the options only: locks cannot be pickled, and counts belong to one process."""
        return {"failures": self.failures, "within": self.within, "pause": self.pause, "_clock": self._clock}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take the options, and start without counts."""
        vars(self).update(state)
        self._circuits = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"CircuitBreaker(failures={self.failures}, within={self.within:g}, pause={self.pause:g})"

    def failed(self, model: str) -> bool:
        """Count a failed call of a model.

        Args:
            model: the name of the model.

        Returns:
            Whether the call may be retried.
        """
        now = self._clock.now()
        with self._lock:
            circuit = self._circuits.setdefault(model, _Circuit())
            self._forget(circuit, now)
            circuit.failures.append(now)
            if circuit.opened is None:
                if len(circuit.failures) >= self.failures:
                    circuit.opened = now
                return circuit.opened is None
            if now - circuit.opened < timedelta(seconds=self.pause):
                return False
            circuit.opened = now
            return True

    def admits(self, model: str) -> bool:
        """Return whether a first call of a model may be made, for callers that hold first calls back, too.

        While the circuit is open, one call is let through after each pause.

        Args:
            model: the name of the model.
        """
        now = self._clock.now()
        with self._lock:
            circuit = self._circuits.get(model)
            opened = None if circuit is None else self._opened(circuit, now)
            if circuit is None or opened is None:
                return True
            if now - opened < timedelta(seconds=self.pause):
                return False
            circuit.opened = now
            return True

    def succeeded(self, model: str) -> None:
        """Close the circuit of a model, because it answered."""
        with self._lock:
            self._circuits.pop(model, None)

    def is_open(self, model: str) -> bool:
        """Return whether the circuit of a model is open. It counts as open until it closes, also after the pause."""
        with self._lock:
            circuit = self._circuits.get(model)
            return circuit is not None and circuit.opened is not None

    def _opened(self, circuit: _Circuit, now: datetime) -> datetime | None:
        """Return since when a circuit is open, after old failures were dropped; None if it is closed."""
        self._forget(circuit, now)
        return circuit.opened

    def _forget(self, circuit: _Circuit, now: datetime) -> None:
        """Drop failures older than ``within``; close the circuit if none is left and the pause is over."""
        oldest = now - timedelta(seconds=self.within)
        while circuit.failures and circuit.failures[0] < oldest:
            circuit.failures.popleft()
        over = circuit.opened is not None and now - circuit.opened >= timedelta(seconds=self.pause)
        if over and not circuit.failures:
            circuit.opened = None
