"""Anybody's detector as a contestant: ``--plug module:factory``.

The factory returns what guards take as ``detector=``: a `ScoreDetector` (``categories``, ``thresholds``,
``scores(texts)``) or a `SpanDetector` (``types``, ``find(texts)``), sync or async. It is measured wherever its types or
categories are.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

import anyio

from penstock.detection.spans import Span

Plugs = Mapping[str, object]
"""The detectors by the names under which they are reported."""


class PlugError(Exception):
    """What ``--plug`` names is no detector."""


def load(names: Sequence[str]) -> Plugs:
    """Return the detectors that these factories make.

    Raises:
        PlugError: a name is no ``module:factory``, cannot be imported, or makes no detector.
    """
    return {name: _made(name) for name in names}


def _made(name: str) -> object:
    module, _, factory = name.partition(":")
    try:
        found: object = getattr(import_module(module), factory)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise PlugError(f"--plug {name}: {error}. Name a function without arguments as module:function.") from error
    if not (_has(found, "types", "find") or _has(found, "categories", "scores")):
        raise PlugError(
            f"--plug {name}: it made a {type(found).__name__}, which has neither types and find(texts), nor "
            "categories and scores(texts)."
        )
    return found


def _has(found: object, *names: str) -> bool:
    return all(hasattr(found, name) for name in names)


class PluggedFinder:
    """Finds spans; text by text, as the others do."""

    def __init__(self, detector: object) -> None:
        self._detector: Any = detector

    def find(self, text: str) -> Sequence[Span]:
        """Return what it finds in a text."""
        [found] = _asked(self._detector.find, text)
        return [Span(start, end, kind, score) for start, end, kind, score in found]


class PluggedScorer:
    """Scores texts; text by text, as the others do."""

    def __init__(self, detector: object) -> None:
        self._detector: Any = detector

    @property
    def thresholds(self) -> Mapping[str, float]:
        """Its own; 0.5 for a category without one."""
        return {name: self._detector.thresholds.get(name, 0.5) for name in self._detector.categories}

    def scores(self, text: str) -> Mapping[str, float]:
        """Return the score of each category."""
        [found] = _asked(self._detector.scores, text)
        return {name: found.get(name, 0.0) for name in self._detector.categories}

    def identify(self, text: str) -> str | None:
        """Return the category with the highest score, if it reaches its threshold."""
        scores = self.scores(text)
        best = max(scores, key=scores.__getitem__)
        return best if scores[best] >= self.thresholds[best] else None


def _asked(ask: Any, text: str) -> Any:
    answer = ask([text])
    return anyio.run(_awaited, answer) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer


def finders(plugs: Plugs, types: Collection[str]) -> dict[str, PluggedFinder]:
    """Return those that find one of these types."""
    return {name: PluggedFinder(each) for name, each in plugs.items() if _overlaps(getattr(each, "types", ()), types)}


def scorers(plugs: Plugs, categories: Collection[str]) -> dict[str, PluggedScorer]:
    """Return those that score one of these categories."""
    return {
        name: PluggedScorer(each)
        for name, each in plugs.items()
        if _overlaps(getattr(each, "categories", ()), categories)
    }


def _overlaps(one: Collection[str], other: Collection[str]) -> bool:
    return not {*one}.isdisjoint(other)
