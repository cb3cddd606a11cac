"""Whether a failed call is worth another try: the user's matchers first, then what providers say. It counts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.processors.recovery.kinds import LASTING, kind_along, kind_of, passes
from penstock.processors.recovery.reading import causes, read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.processors.recovery.kinds import ErrorKind
    from penstock.processors.recovery.matchers import RetryMatcher
    from penstock.processors.recovery.reading import Said


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a failed call is worth another try.

    Attributes:
        kind: what the error is about.
        status: the HTTP status, if one is named.
        wait: for how many seconds the provider asks to wait, if it does.
        matcher: the place of the user's matcher that says so, if one does.
    """

    kind: ErrorKind
    status: int | None
    wait: float | None
    matcher: int | None = None


def judged(error: object, matchers: Sequence[RetryMatcher], now: datetime, *, unknown: bool) -> Finding | None:
    """Return why an error, or what it came of, is worth another try; None if it is not.

    Args:
        error: what the call raised; an event of a stream may be a mapping.
        matchers: what the user says; goes before all else, for errors that others take for final too.
        now: the time.
        unknown: whether errors that nobody knows are worth one, as long as they are not known to last.
    """
    chain = list(causes(error))
    said = [read(one, now) for one in chain]
    for place, one in enumerate(chain):
        for index, matcher in enumerate(matchers):
            if matcher.match(cast("BaseException", one)):  # or an event, as a mapping
                return _finding(said, place, index)
    known = _worth_it(said)
    if known is not None:
        return _finding(said, known)
    return _finding(said, 0) if unknown and not any(kind_of(one) in LASTING for one in said) else None


def _worth_it(said: Sequence[Said]) -> int | None:
    """Return the place of the first that says so itself, or is known to pass; none behind a No is guessed about."""
    refused = False
    for place, one in enumerate(said):
        if one.retryable is True and kind_of(one) != "quota":
            return place
        refused = refused or one.retryable is False
        if not refused and passes(one):
            return place
    return None


def _finding(said: Sequence[Said], place: int, matcher: int | None = None) -> Finding:
    """Return the finding about one of the chain; what it does not say, those behind it may, then those before."""
    chain = [*said[place:], *reversed(said[:place])]
    status = next((one.status for one in chain if one.status is not None), None)
    wait = next((one.wait for one in chain if one.wait is not None), None)
    return Finding(kind_along(chain), status, wait, matcher)
