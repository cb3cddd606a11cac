from penstock.processors.recovery.pacing import Backoff as Backoff, CircuitBreaker as CircuitBreaker
from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler as PrefillErrorHandler
from penstock.processors.recovery.provider_errors import (
    ErrorKind as ErrorKind,
    is_bad_request_error as is_bad_request_error,
)
from penstock.processors.recovery.stream_error_retry import (
    FailedCall as FailedCall,
    RetryMatcher as RetryMatcher,
    StreamErrorRetryProcessor as StreamErrorRetryProcessor,
)
