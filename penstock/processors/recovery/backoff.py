"""`Backoff`: waits that grow, and are spread by chance. It knows numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Waits that grow from try to try. Half of each is left to chance by default, so that not all come back at once.

    The wait before the n-th retry (from 0) lies between ``(1 - jitter) * d`` and ``d``, where ``d`` is
    ``min(first * factor ** n, most)``.

    Attributes:
        first: the longest first wait, in seconds; 0 or more.
        factor: by how much the next is longer; 1 or more.
        most: the longest of all, in seconds.
        jitter: which share of a wait is left to chance, 0 to 1.

    Raises:
        OptionError: a figure that is not allowed.
    """

    first: float = 0.5
    factor: float = 2.0
    most: float = 8.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        """Refuse figures that cannot be meant."""
        for field in fields(self):
            least, most = _BOUNDS[field.name]
            given = getattr(self, field.name)
            if not is_number(given) or not least <= given <= most:
                allowed = f"a number from {least:g} on" if most == math.inf else f"a number from {least:g} to {most:g}"
                raise OptionError("Backoff", field.name, given, allowed)

    def seconds(self, retry: int, random: Callable[[], float]) -> float:
        """Return the wait before a retry, in seconds; ``retry`` counts from 0, ``random`` gives numbers from 0 to 1."""
        try:
            longest = min(self.first * self.factor**retry, self.most)
        except OverflowError:
            longest = self.most
        return longest * (1 - self.jitter * random())

    def spread(self, asked: float, random: Callable[[], float]) -> float:
        """Return a wait that a provider asks for, a little longer: all who were told the same do not come at once."""
        return asked + self.first * self.jitter * random()


_BOUNDS = {"first": (0.0, math.inf), "factor": (1.0, math.inf), "most": (0.0, math.inf), "jitter": (0.0, 1.0)}


def is_number(given: object) -> TypeGuard[float]:
    """Tell whether something is a finite number; True and False are none."""
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)
