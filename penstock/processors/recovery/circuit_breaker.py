"""`CircuitBreaker`: keeps failed calls from being made again where a model is down. It knows times and names only."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.processors.recovery.options import count, seconds

if TYPE_CHECKING:
    from datetime import datetime


_LONGEST = 366 * 86_400.0


@dataclass(slots=True)
class _Circuit:
    """What is known of one model.

    Attributes:
        failures: when it failed of late.
        opened: since when nothing is retried, or when the last retry was let through; None: all may be.
    """

    failures: deque[datetime] = field(default_factory=deque["datetime"])
    opened: datetime | None = None


class CircuitBreaker:
    """Stops retries where a model fails again and again. Lives as long as the processor; shared by all requests.

    After ``failures`` failed calls of a model within ``within`` seconds it opens: for ``pause`` seconds no failed call
    of that model is made again, which spares a provider that is down, and its users the wait. Then one retry is let
    through, and another after each further pause. An answer of the model, or ``within`` seconds without a failure,
    closes it. First calls are never held back.

    Give one breaker to several processors to have them share what they know. It may be used from several threads.
    """

    def __init__(self, *, failures: int = 5, within: float = 60.0, pause: float = 30.0) -> None:
        """Check the options.

        Args:
            failures: how many failures open it; 1 or more.
            within: in how many seconds.
            pause: for how many seconds it stays open.

        Raises:
            OptionError: a figure that is not allowed.
        """
        if count(type(self).__name__, "failures", failures) < 1:
            raise OptionError(type(self).__name__, "failures", failures, "a whole number from 1 on")
        for option, given in (("within", within), ("pause", pause)):
            if not 0 < seconds(type(self).__name__, option, given) <= _LONGEST:
                raise OptionError(type(self).__name__, option, given, "a number of seconds above 0, a year at most")
        self.failures = failures
        self.within = within
        self.pause = pause
        self._circuits: dict[str, _Circuit] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the options: what a breaker knows of models is known where they are asked."""
        return {"failures": self.failures, "within": self.within, "pause": self.pause}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take the options, and begin anew."""
        vars(self).update(state)
        self._circuits = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"CircuitBreaker(failures={self.failures}, within={self.within:g}, pause={self.pause:g})"

    def failed(self, model: str, now: datetime) -> bool:
        """Note that a call of a model failed; tell whether it may be made again."""
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

    def succeeded(self, model: str) -> None:
        """Note that a model answered."""
        with self._lock:
            self._circuits.pop(model, None)

    def is_open(self, model: str) -> bool:
        """Tell whether failed calls of a model are kept from being made again; a pause that is over counts too."""
        with self._lock:
            circuit = self._circuits.get(model)
            return circuit is not None and circuit.opened is not None

    def _forget(self, circuit: _Circuit, now: datetime) -> None:
        """Drop failures that are too long ago; without any that are not, and the pause over, all begins anew."""
        oldest = now - timedelta(seconds=self.within)
        while circuit.failures and circuit.failures[0] < oldest:
            circuit.failures.popleft()
        over = circuit.opened is not None and now - circuit.opened >= timedelta(seconds=self.pause)
        if over and not circuit.failures:
            circuit.opened = None
