"""`RecallRanking`: what beside likeness makes a memory worth recalling: its age, the words it shares. Pure."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError
from penstock.processors.memory._resemblance import words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_MOST_CANDIDATES = 100


@dataclass(frozen=True, slots=True)
class RecallRanking:
    """How hits are put in order. The likeness of the vectors has the weight that the other two leave.

    Attributes:
        recency: the weight of how recent a message is, 0 to 1.
        lexical: the weight of how many of the question's words it has, rare ones counting more, 0 to 1.
        half_life: after how long recency counts half.
        candidates: how many hits are looked at for each that is wanted, 1 to 100: only these can move up.

    Raises:
        OptionError: a weight or a number is not allowed, or both weights make more than 1.
    """

    recency: float = 0.2
    lexical: float = 0.2
    half_life: timedelta = timedelta(days=30)
    candidates: int = 4

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("recency", "lexical"):
            given: object = getattr(self, option)
            if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
                raise OptionError("RecallRanking", option, given, "a weight from 0 to 1")
        if self.recency + self.lexical > 1:
            raise OptionError("RecallRanking", "lexical", self.lexical, "a weight that makes 1 at most with recency")
        half_life = cast("object", self.half_life)
        if not isinstance(half_life, timedelta) or half_life <= timedelta(0):
            raise OptionError("RecallRanking", "half_life", self.half_life, "a timedelta of more than 0")
        if type(self.candidates) is not int or not 1 <= self.candidates <= _MOST_CANDIDATES:
            raise OptionError("RecallRanking", "candidates", self.candidates, f"a number from 1 to {_MOST_CANDIDATES}")

    def scores(self, query: str, texts: Sequence[str], likeness: Sequence[float], ages: Sequence[float]) -> list[float]:
        """Return the scores of messages.

        Args:
            query: what is asked.
            texts: what the messages say.
            likeness: the cosines of their vectors and the query's.
            ages: their ages in seconds; infinite where that is not known.
        """
        rest = 1 - self.recency - self.lexical
        shares = _shares(query, texts) if self.lexical else [0.0] * len(texts)
        recent = [0.5 ** (age / self.half_life.total_seconds()) for age in ages]
        return [
            rest * alike + self.recency * new + self.lexical * share
            for alike, new, share in zip(likeness, recent, shares, strict=True)
        ]


def age(when: datetime | None, now: datetime) -> float:
    """Return how many seconds ago something was, 0 at least; infinite if it is not known when."""
    return math.inf if when is None else max((now - when).total_seconds(), 0.0)


def _shares(query: str, texts: Sequence[str]) -> list[float]:
    """Return which share of the query's words each text has; what is rare among the texts weighs more."""
    asked = set(words(query))
    having = [asked.intersection(words(text)) for text in texts]
    known = Counter(word for found in having for word in found)
    weight = {word: math.log1p(len(texts) / known[word]) for word in known}
    whole = sum(weight.values())
    return [sum(weight[word] for word in found) / whole if whole else 0.0 for found in having]
