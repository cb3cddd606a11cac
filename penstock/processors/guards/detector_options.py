"""Checks of ``detector=`` and ``combine=``: what a detector knows, and which categories or types then count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

from penstock.engine.processor.option_checks import check_names, check_scores
from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.protocols import ScoreDetector, SpanDetector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.text_guards.text_guard import TextGuard
    from penstock.models.detectors.calls import DetectorCalls

R = TypeVar("R")

Combine = Literal["max", "replace", "confirm"]
"""How the findings of ``detector=`` and of the embedded detector become one."""


@dataclass(frozen=True)
class OwnDetector(Generic[R]):
    """The options ``detector=`` and ``combine=`` of a guard, checked.

    Attributes:
        calls: the calls of the detector; None if there is none.
        combine: how its findings and those of the embedded detector become one.
    """

    calls: DetectorCalls[R] | None = None
    combine: str = "max"


NO_DETECTOR: OwnDetector[Any] = OwnDetector()
"""The options of a guard that is given no detector."""


def use_score_detector(
    guard: TextGuard, detector: object, combine: str, *, embedded: bool
) -> OwnDetector[Mapping[str, float]]:
    """Check the options ``detector`` and ``combine`` of a guard, and set its attributes of these names.

    Raises:
        OptionError: the detector is no `ScoreDetector`, or ``combine`` is not allowed here.
    """
    name = _set_options(guard, detector, combine, embedded=embedded)
    if detector is None:
        return NO_DETECTOR
    if isinstance(detector, type) or not isinstance(detector, ScoreDetector):
        allowed = "a ScoreDetector: an object with categories, thresholds and scores(texts), or None"
        raise OptionError(name, "detector", detector, allowed)
    known = _announced(name, "detector.categories", detector.categories)
    if not is_mapping(detector.thresholds):
        allowed = "a mapping of categories to numbers from 0 to 1; it may be empty"
        raise OptionError(name, "detector.thresholds", detector.thresholds, allowed)
    check_scores(name, "detector.thresholds", detector.thresholds, known)
    from penstock.models.detectors.calls import score_calls  # loaded where there is a detector, with anyio

    return OwnDetector(score_calls(detector), combine)


def use_span_detector(
    guard: TextGuard, detector: object, combine: str, *, embedded: bool
) -> OwnDetector[Sequence[Span]]:
    """Check the options ``detector`` and ``combine`` of a guard, and set its attributes of these names.

    Raises:
        OptionError: the detector is no `SpanDetector`, or ``combine`` is not allowed here.
    """
    name = _set_options(guard, detector, combine, embedded=embedded)
    if detector is None:
        return NO_DETECTOR
    if isinstance(detector, type) or not isinstance(detector, SpanDetector):
        allowed = "a SpanDetector: an object with types and find(texts), or None"
        raise OptionError(name, "detector", detector, allowed)
    _announced(name, "detector.types", detector.types)
    from penstock.models.detectors.calls import span_calls  # loaded where there is a detector, with anyio

    return OwnDetector(span_calls(detector), combine)


def known_names(own: Iterable[str], theirs: Iterable[str], combine: str) -> tuple[str, ...]:
    """Return the categories or types that count: those of both detectors, those of the user's, or the shared ones."""
    if combine == "replace":
        return tuple(dict.fromkeys(theirs))
    if combine == "confirm":
        shared = {*theirs}
        return tuple(name for name in own if name in shared)
    return tuple(dict.fromkeys((*own, *theirs)))


def check_shared(guard: str, known: Sequence[str], own: Iterable[str], theirs: Iterable[str]) -> None:
    """Refuse ``combine="confirm"`` for detectors that have no category or type in common.

    Raises:
        OptionError: ``known`` is empty.
    """
    if not known:
        allowed = (
            f"'max' or 'replace': the guard knows {', '.join(map(repr, own))} and the detector "
            f"{', '.join(map(repr, theirs))}, so neither can confirm the other"
        )
        raise OptionError(guard, "combine", "confirm", allowed)


def _set_options(guard: TextGuard, detector: object, combine: str, *, embedded: bool) -> str:
    """Check ``combine``, set both options on the guard, and return its name for errors."""
    name = type(guard).__name__
    one_of(name, "combine", combine, get_args(Combine))
    if detector is None and combine != "max":
        raise OptionError(name, "combine", combine, "left out: without detector= there is nothing to combine")
    if combine == "confirm" and not embedded:
        raise OptionError(name, "combine", combine, "left out where embedded=False: then only the detector is asked")
    vars(guard).update(detector=detector, combine=combine)
    return name


def _announced(guard: str, option: str, given: object) -> tuple[str, ...]:
    """Return the names that a detector announces; it is asked for them again, so a generator will not do.

    Raises:
        OptionError: they are not a list of names.
    """
    listed = () if isinstance(given, (str, Iterator)) else given
    return check_names(guard, option, listed)
