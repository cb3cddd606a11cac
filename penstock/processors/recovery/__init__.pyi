from penstock.processors.recovery.backoff import Backoff as Backoff
from penstock.processors.recovery.circuit_breaker import CircuitBreaker as CircuitBreaker
from penstock.processors.recovery.kinds import ErrorKind as ErrorKind
from penstock.processors.recovery.matchers import (
    FailedCall as FailedCall,
    RetryMatcher as RetryMatcher,
    is_bad_request_error as is_bad_request_error,
)
from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler as PrefillErrorHandler
from penstock.processors.recovery.stream_error_retry import StreamErrorRetryProcessor as StreamErrorRetryProcessor
