"""What a user's own functions are given of a failed call, and what they may say for a sort of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock.processors.recovery.options import callback, count, function, wait
from penstock.processors.recovery.reading import status_of

if TYPE_CHECKING:
    from penstock.processors.recovery.backoff import Backoff
    from penstock.processors.recovery.kinds import ErrorKind


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A failed call that is to be made again, as functions for waits and callbacks are told of it.

    Attributes:
        error: what the call raised. It may quote the prompt: think before it goes into a log.
        kind: what the error is about.
        status: the HTTP status, if it names one.
        model: the model's name.
        retry: how often the call was made again already, counted with what shares its budget; from 0.
        retry_after: for how many seconds the provider asks to wait, if it does; not capped.
        elapsed: for how many seconds the call has been tried.
        after: how long will be waited; 0 where that is being asked for.
    """

    error: BaseException = field(repr=False)
    kind: ErrorKind
    status: int | None
    model: str
    retry: int
    retry_after: float | None
    elapsed: float
    after: float = 0.0


Matches: TypeAlias = Callable[[BaseException], bool]
"""Tells whether an error is worth another try; it is shown the error, then each of its causes."""

Delay: TypeAlias = "float | Backoff | Callable[[FailedCall], float | Awaitable[float]]"
"""How long to wait: seconds, waits that grow, or a function, async or not; what is below 0 or no number counts as 0."""

OnRetry: TypeAlias = "Callable[[FailedCall], object]"
"""Is told before each wait; it may be async."""


@dataclass(frozen=True, slots=True)
class RetryMatcher:
    """A sort of errors with a budget, a wait, a callback of its own; what it leaves open is the processor's.

    Attributes:
        match: tells whether an error is of the sort.
        max_retries: how often a call may be made again for it, counted by itself; None: with all the others.
        delay: how long to wait; None: as for all the others.
        on_retry: is told before each wait, in place of the processor's own.

    Raises:
        OptionError: a value that is not allowed.
    """

    match: Matches
    max_retries: int | None = None
    delay: Delay | None = None
    on_retry: OnRetry | None = None

    def __post_init__(self) -> None:
        """Refuse values that cannot be meant."""
        owner = type(self).__name__
        function(owner, "match", self.match)
        if self.max_retries is not None:
            count(owner, "max_retries", self.max_retries)
        if self.delay is not None:
            wait(owner, "delay", self.delay)
        callback(owner, "on_retry", self.on_retry)


def is_bad_request_error(error: object) -> bool:
    """Tell whether a provider refused the request as malformed (HTTP 400); some do so by mistake, and take it later."""
    return status_of(error) == _BAD_REQUEST


_BAD_REQUEST = 400
