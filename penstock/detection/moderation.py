"""Moderation: `ModerationScorer` estimates how likely a text falls into each of the five main categories.

It is a linear model over words and letters, trained by ``training/moderation.py`` on the data sets that are listed in
the file of its weights. Use it to sort, not to judge: docs/processors/moderation.md has its figures and weaknesses.
Each category has two heads. One recognises content, and its scores are calibrated. The other recognises requests for
such content, and gives a score only if it is certain. Finer categories (threats, minors, graphic violence) are not
covered.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.linear.counting import load
from penstock.detection.linear.model import Curve
from penstock.detection.linear.reading import readings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.detection.linear.counting import CountingModel


CATEGORIES = ("hate", "harassment", "self-harm", "sexual", "violence")
REQUEST = " (request)"  # what the names of the heads end with that know requests
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

        At these scores, for each category, at most 0.3 % of harmless prompts, 1.2 % of harmless prompts that look
        harmful and 5 % of other texts of the kind that is moderated are flagged as content, and 0.2, 1.4 and 0.5 % as
        requests.
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
        heads = self._read(text)
        for said in readings(text):
            heads = {name: max(score, heads[name]) for name, score in self._read(said).items()}
        return {name: max(heads[name], heads.get(f"{name}{REQUEST}", 0.0)) for name in self.categories}

    def reasons(self, text: str) -> tuple[str, ...]:
        """Return the heads that reach their limit: a category as ``sexual`` or ``sexual (request)``."""
        thresholds = self.thresholds
        return tuple(
            name for name, score in self._read(text).items() if score >= thresholds[name.removesuffix(REQUEST)]
        )

    @staticmethod
    def overall(scores: Mapping[str, float]) -> float:
        """Return how likely at least one category applies, as if they were independent."""
        none = 1.0
        for score in scores.values():
            none *= 1.0 - score
        return 1.0 - none

    @property
    def _model(self) -> CountingModel:
        return load(WEIGHTS)

    @cached_property
    def _limits(self) -> Mapping[str, float]:
        return {head.name: head.threshold for head in self._model.heads if not head.name.endswith(REQUEST)}

    @cached_property
    def _curves(self) -> Mapping[str, Curve]:
        return {head.name: Curve(head.points) for head in self._model.heads}

    def _read(self, text: str) -> dict[str, float]:
        return {name: self._curves[name](margin) for name, margin in self._model.margins(text).items()}
