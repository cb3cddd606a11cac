"""Processors for the moment when a model call has failed: whether, when and how changed it is made again.

They judge the error and wait for nothing: the agent does the waiting. They know no other family.
"""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.recovery.backoff import Backoff
    from penstock.processors.recovery.circuit_breaker import CircuitBreaker
    from penstock.processors.recovery.kinds import ErrorKind
    from penstock.processors.recovery.matchers import FailedCall, RetryMatcher, is_bad_request_error
    from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler
    from penstock.processors.recovery.stream_error_retry import StreamErrorRetryProcessor
else:
    __getattr__, __dir__ = lazily(
        __name__,
        backoff=["Backoff"],
        circuit_breaker=["CircuitBreaker"],
        kinds=["ErrorKind"],
        matchers=["FailedCall", "RetryMatcher", "is_bad_request_error"],
        prefill_error_handler=["PrefillErrorHandler"],
        stream_error_retry=["StreamErrorRetryProcessor"],
    )

__all__ = [
    "Backoff",
    "CircuitBreaker",
    "ErrorKind",
    "FailedCall",
    "PrefillErrorHandler",
    "RetryMatcher",
    "StreamErrorRetryProcessor",
    "is_bad_request_error",
]
