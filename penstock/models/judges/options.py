"""`JudgeOptions`: how judges ask a model, whatever the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.protocols import Cache
    from penstock.models.judges.verdict_requests import Backoff, Structured


class JudgeOptions(TypedDict, total=False):
    """How a model is asked; see `penstock.Judge` for each option. Guards take them with a ``model=`` that is a `Model`.

    Attributes:
        settings: settings of the model, such as ``{"max_tokens": 500}``; the temperature is 0 unless it is given.
        provider_options: options of the provider, by provider; none by default.
        structured: how the model is made to answer in the right form: ``schema`` (the default) or another value that
            `Judge` accepts.
        timeout: seconds that one request may take, above 0; 30 by default.
        retries: how often a failed request is repeated, 0 or more; 2 by default.
        backoff: a function from the number of an attempt to the seconds to wait before it.
        limit: how many requests may run at once, 1 or more; 8 by default.
        cache: where verdicts are cached: a `Cache`, ``"memory"`` (the default) or None for no cache.
        ttl: seconds for which a cached verdict is valid, above 0; None (the default) for no limit.
        max_characters: the longest text that the judge is asked about, in characters; 200,000 by default.
    """

    settings: Values
    provider_options: Values
    structured: Structured
    timeout: float
    retries: int
    backoff: Backoff
    limit: int
    cache: Cache | Literal["memory"] | None
    ttl: float | None
    max_characters: int
