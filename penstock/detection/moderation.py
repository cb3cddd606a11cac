"""Moderation: `ModerationScorer` estimates how likely a text falls into each of the five main categories.

It is a linear model over words and letters, trained by ``training/moderation.py`` on the data sets that are listed in
the file of its weights. Use it to sort, not to judge: docs/processors/moderation.md has its figures and weaknesses.
Each category has two heads. One recognises content, and its scores are calibrated. The other recognises requests for
such content, and gives a score only if it is certain. One more head recognises content of any category; it raises or
lowers the scores of all categories, see `joined`. Before a text counts as harmful, rules remove idioms, quotations that
are condemned, and names of one's own group; see `as_meant`. Finer categories (threats, minors, graphic violence) are
not covered.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.idioms import as_meant
from penstock.detection.linear.counting import load
from penstock.detection.linear.model import Curve
from penstock.detection.linear.reading import readings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.detection.linear.counting import CountingModel


CATEGORIES = ("hate", "harassment", "self-harm", "sexual", "violence")
REQUEST = " (request)"  # what the names of the heads end with that know requests
_DOUBTFUL = 0.2  # below that, under every threshold, it is not worth the time to ask what a text means
ANY = "any"  # the head that knows content of any category
WEIGHTS = Path(__file__).parent / "weights" / "moderation.bin"


class ModerationScorer:
    """Scores a window of text; may be shared between threads. Its weights are read at first use.

    Attributes:
        categories: the categories that it scores.
    """

    categories = CATEGORIES

    @property
    def thresholds(self) -> Mapping[str, float]:
        """By category, the score from which on it counts, chosen on development data.

        They keep false alarms on harmless texts, category by category, below the rates that stand in
        ``training/moderation_curves.py`` and docs/processors/moderation.md.
        """
        return self._limits

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class. They have no options, so guards that use them can be equal."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Hash by the class, as equality requires."""
        return hash(type(self))

    def scores(self, text: str) -> Mapping[str, float]:
        """Return the score of each category, from 0 to 1."""
        heads = self._highest(text)
        for name, request in self._requests:
            heads[name] = max(heads[name], heads.pop(request))
        return heads

    def reasons(self, text: str) -> tuple[str, ...]:
        """Return what reaches its limit: a category as ``sexual`` or ``sexual (request)``."""
        thresholds = self.thresholds
        return tuple(
            name for name, score in self._highest(text).items() if score >= thresholds[name.removesuffix(REQUEST)]
        )

    def _highest(self, text: str) -> dict[str, float]:
        """Return the score of each head for a text as it is meant, in the reading that it is highest in."""
        heads = self._of_readings(text)
        if max(heads.values()) < _DOUBTFUL or (meant := as_meant(text)) is text:
            return heads
        lower = self._of_readings(meant)
        return {name: min(score, lower[name]) for name, score in heads.items()}

    def _of_readings(self, text: str) -> dict[str, float]:
        heads = self._read(text)
        for said in readings(text):
            heads = {name: max(score, heads[name]) for name, score in self._read(said).items()}
        return heads

    @staticmethod
    def overall(scores: Mapping[str, float]) -> float:
        """Return how likely at least one category applies, as if they were independent."""
        return one_of(scores.values())

    @property
    def _model(self) -> CountingModel:
        return load(WEIGHTS)

    @cached_property
    def _limits(self) -> Mapping[str, float]:
        return {head.name: head.threshold for head in self._model.heads if head.name in self.categories}

    @cached_property
    def _curves(self) -> Mapping[str, Curve]:
        return {head.name: Curve(head.points) for head in self._model.heads}

    @cached_property
    def _requests(self) -> Sequence[tuple[str, str]]:
        """The categories with requests, and the names of their heads."""
        names = [head.name for head in self._model.heads if head.name.endswith(REQUEST)]
        return [(name.removesuffix(REQUEST), name) for name in names]

    def _read(self, text: str) -> dict[str, float]:
        margins = self._model.margins(_OBJECT.sub(" ", text) if "self" in text else text)
        heads = {name: curve(margins[name]) for name, curve in self._curves.items()}
        found = joined(heads)
        for _, request in self._requests:
            found[request] = heads[request]
        return found


_OBJECT = deferred(r"\bself\.(?!harm|injur|mutilat)(?=[A-Za-z_])|(?<=\()self(?=[,)])")
"""The object itself in code, which says nothing of anybody: 14 of 331 modules of Python's library were flagged.

*self.harm* in prose is a word with a point in place of its dash, so it stays.
"""


def joined(heads: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of the categories as content, from the scores of their heads and of the head ``any``.

    How likely any category applies is estimated twice: by the head ``any``, and from the heads of the categories as if
    they were independent. All scores are multiplied by one factor, so that together they say the mean of both. What
    looks harmful counts more even if it is in no category for certain, and what resembles one category but nothing
    harmful counts less.
    """
    apart = one_of([heads[name] for name in CATEGORIES])
    factor = (1.0 + heads[ANY] / apart) / 2.0 if apart else 0.0
    return {name: heads[name] * factor for name in CATEGORIES}


def one_of(scores: Iterable[float]) -> float:
    """Return how likely at least one of several things is so, as if they were independent."""
    none = 1.0
    for score in scores:
        none *= 1.0 - score
    return 1.0 - none
