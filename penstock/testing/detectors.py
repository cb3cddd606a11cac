"""`ScriptedScores` and `ScriptedSpans`: detectors that answer by a script, and keep the texts of their calls.

Both go by the text and not by the order of the calls: guards collect the texts of concurrent requests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.detection.spans import Span
from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence

ScoreScript: TypeAlias = Mapping[str, Mapping[str, float]] | Callable[[str], Mapping[str, float]]
"""The scores of texts by a pattern that they hold, or a function that returns the scores of a text."""

SpanScript: TypeAlias = Mapping[str, str] | Callable[[str], Iterable[tuple[int, int, str, float]]]
"""The types of what patterns match, or a function that returns the spans of a text."""


class ScriptedScores:
    """A `ScoreDetector` that answers by a script.

    Args:
        script: the scores of a text by a regular expression that matches somewhere in it, such as
            ``{"buy now": {"spam": 0.9}}``. If several match, the highest score of each category counts; if none does,
            every score is 0. Or a function of a text that returns its scores, which are passed on unchecked.
        categories: the categories; by default those of the script. A function needs them.
        thresholds: the score from which a category counts; empty by default, so that guards take 0.5.
        name: its name in errors and reports.
        batch_size: the most texts of a call.
        batch_seconds: how long a text waits for others; 0 by default, so that tests need not wait.

    Attributes:
        batches: the texts of each call so far.
    """

    def __init__(
        self,
        script: ScoreScript,
        *,
        categories: Iterable[str] | None = None,
        thresholds: Mapping[str, float] = EMPTY,
        name: str = "scripted",
        batch_size: int = 32,
        batch_seconds: float = 0.0,
    ) -> None:
        said = () if callable(script) else (one for scores in script.values() for one in scores)
        self.categories = tuple(dict.fromkeys(said if categories is None else categories))
        self._scores = script if callable(script) else partial(_highest, script, self.categories)
        self.thresholds = thresholds
        self.name = name
        self.batch_size, self.batch_seconds = batch_size, batch_seconds
        self.batches: list[list[str]] = []

    def scores(self, texts: Sequence[str]) -> list[Mapping[str, float]]:
        """Return the scores of each text."""
        self.batches.append([*texts])
        return [self._scores(text) for text in texts]


def _highest(script: Mapping[str, Mapping[str, float]], categories: Iterable[str], text: str) -> dict[str, float]:
    found = [scores for pattern, scores in script.items() if re.search(pattern, text)]
    return {name: max((scores.get(name, 0.0) for scores in found), default=0.0) for name in categories}


class ScriptedSpans:
    """A `SpanDetector` that answers by a script.

    Args:
        script: the types of what regular expressions match, such as ``{"Mary [A-Z][a-z]+": "name"}``. Or a function
            of a text that returns its spans, ``(start, end, type, score)``, which are passed on unchecked.
        types: the types; by default those of the script. A function needs them.
        score: the score of each match.
        name: its name in errors and reports.
        batch_size: the most texts of a call.
        batch_seconds: how long a text waits for others; 0 by default, so that tests need not wait.

    Attributes:
        batches: the texts of each call so far.
    """

    def __init__(
        self,
        script: SpanScript,
        *,
        types: Iterable[str] | None = None,
        score: float = 1.0,
        name: str = "scripted",
        batch_size: int = 32,
        batch_seconds: float = 0.0,
    ) -> None:
        said = () if callable(script) else script.values()
        self.types = tuple(dict.fromkeys(said if types is None else types))
        self._spans = script if callable(script) else partial(_matches, script, score)
        self.name = name
        self.batch_size, self.batch_seconds = batch_size, batch_seconds
        self.batches: list[list[str]] = []

    def find(self, texts: Sequence[str]) -> list[list[tuple[int, int, str, float]]]:
        """Return the spans of each text; they may overlap."""
        self.batches.append([*texts])
        return [[*self._spans(text)] for text in texts]


def _matches(script: Mapping[str, str], score: float, text: str) -> list[Span]:
    return [
        Span(*match.span(), kind, score) for pattern, kind in script.items() for match in re.finditer(pattern, text)
    ]
