"""`ModelAccess`: the model of a judge, with its settings, retries, limit of concurrent calls, and cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, Unpack, get_args

import anyio

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.protocols import Cache, LRUCache
from penstock.models.judges.verdict_requests import AskOptions, Caller, Structured, has_fixed_temperature, wait_before
from penstock.models.named import as_model
from penstock.models.single_flight import PerEventLoop

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Ids
    from penstock.models.judges.options import JudgeOptions


class _CacheForAll(NamedTuple):
    """A cache that judges use in place of their own; None: no cache. ``every``: those without a cache, too."""

    cache: Cache | None
    every: bool


_CACHE_FOR_ALL: ContextVar[_CacheForAll | None] = ContextVar("penstock_judge_cache", default=None)


@contextmanager
def judges_use(cache: Cache | None, *, every: bool = True) -> Generator[None]:
    """Within the block and the tasks that it starts, let all judges use this cache, without a time limit.

    Args:
        cache: the cache, in place of each judge's own; None: no cache, so that a model is asked every time.
        every: whether judges that were made with ``cache=None`` use it, too.
    """
    token = _CACHE_FOR_ALL.set(_CacheForAll(cache, every))
    try:
        yield
    finally:
        _CACHE_FOR_ALL.reset(token)


_STRUCTURED: tuple[str, ...] = get_args(Structured)


class ModelAccess:
    """How a judge, or several judges together, ask a model.

    Attributes:
        model: the model.
        caller: asks it.
        limiter: limits the calls at the same time.
        cache: stores verdicts; None for no cache.
        ttl: seconds for which a verdict is stored; None for no limit.
        max_characters: the longest content of a question.

    Args:
        owner: the class whose options these are, for errors.
        model: the model to ask, or its name.
        ids: makes the delimiters around the content.
        options: see `penstock.Judge`.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    def __init__(self, owner: str, model: object, ids: Ids, **options: Unpack[JudgeOptions]) -> None:
        told = _checked(owner, options)
        self.model = as_model(model, owner)
        settings: Values = told.get("settings", EMPTY)
        fixed = "temperature" in settings or has_fixed_temperature(self.model.name)
        own = {} if fixed else {"temperature": 0}
        kept = freeze({name: value for name, value in {**own, **settings}.items() if value is not None})
        asked = AskOptions(
            kept,
            frozenset(own),
            freeze(told.get("provider_options", EMPTY)),
            told.get("timeout", 30.0),
            told.get("retries", 2),
            told.get("backoff", wait_before),
            ids,
        )
        self.caller = Caller(self.model, asked, told.get("structured", "schema"))
        limit = told.get("limit", 8)
        self.limiter = PerEventLoop(lambda: anyio.CapacityLimiter(limit))
        cache = told.get("cache", "memory")
        self.cache: Cache | None = LRUCache() if cache == "memory" else cache
        self.ttl = told.get("ttl")
        self.max_characters = told.get("max_characters", 200_000)

    def cache_in_force(self) -> tuple[Cache | None, float | None]:
        """Return the cache, and for how many seconds it stores a verdict; see `judges_use`."""
        for_all = _CACHE_FOR_ALL.get()
        if for_all is None or (self.cache is None and not for_all.every):
            return self.cache, self.ttl
        return for_all.cache, None

    def identity(self, instructions: str) -> list[Value]:
        """Return the settings that a verdict depends on, apart from its type and the contents."""
        options = self.caller.options
        model = self.model
        return [
            1,
            model.name,
            getattr(model, "identity", None),
            instructions,
            options.settings,
            options.provider_options,
        ]


def _checked(owner: str, options: JudgeOptions) -> JudgeOptions:
    for option, (allows, allowed) in _ALLOWED.items():
        given: object = options.get(option)
        if option in options and not allows(given):
            raise OptionError(owner, option, "…" if option in _UNSHOWN else given, allowed)
    return options


def _is_positive(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0


def _counts(given: object, least: int) -> bool:
    return type(given) is int and given >= least


_UNSHOWN = ("settings", "provider_options")  # they may hold keys
_ALLOWED: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "settings": (lambda given: isinstance(given, Mapping), "a mapping"),
    "provider_options": (lambda given: isinstance(given, Mapping), "a mapping"),
    "structured": (lambda given: given in _STRUCTURED, f"one of {', '.join(_STRUCTURED)}"),
    "timeout": (_is_positive, "a number of seconds above 0"),
    "retries": (lambda given: _counts(given, 0), "an int, 0 or more"),
    "backoff": (callable, "a function from the number of an attempt to seconds"),
    "limit": (lambda given: _counts(given, 1), "an int, 1 or more"),
    "cache": (
        lambda given: given in ("memory", None) or isinstance(given, Cache),
        "a Cache, 'memory' or None",
    ),
    "ttl": (
        lambda given: given is None or (_is_positive(given) and given != math.inf),
        "a number of seconds above 0, or None",
    ),
    "max_characters": (lambda given: _counts(given, 1), "an int, 1 or more"),
}
