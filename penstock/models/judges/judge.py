"""`Judge`: asks a model for a verdict of a type. It knows no processor and no provider."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, get_args
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import RunVar

from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY, Value, freeze
from penstock.engine.values.model import JudgeError, Usage
from penstock.engine.values.ports import RANDOM_IDS, Cache, LRUCache, Model
from penstock.models.judges._calls import Caller, Found, Manner, Structured, wait_before
from penstock.models.judges._flights import Flights
from penstock.models.judges._forms import Form, Reading
from penstock.models.judges._json import UnreadableError
from penstock.models.judges.judgement import Judgement, noted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.ports import Ids
    from penstock.models.judges._calls import Backoff

V = TypeVar("V")

_LOG = logging.getLogger("penstock.judges")
_PATIENCE = 2.0  # seconds for a cache: one that hangs is not to hold up what it should speed up
_STRUCTURED: tuple[str, ...] = get_args(Structured)


class Judge(Generic[V]):
    """Asks a model for verdicts of one type, about content that may want to mislead it.

    Lives as long as its owner; may be shared by processors, requests, and event loops. What comes out is a `Judgement`
    or a `JudgeError`: an answer that cannot be read is never taken for "nothing found". ``usage`` sums the tokens of
    all its calls.

    Args:
        model: the model to ask.
        verdict: the type of its verdicts: a pydantic model, or whatever else pydantic can validate. Fields
            without defaults are safer: a model that leaves one out is asked again.
        instructions: what to judge, and how; the content and the form of the answer are added.
        settings: settings of the model beside ``temperature``, which is 0; None for one that is not to be sent.
        provider_options: what goes to the provider as it stands.
        structured: how the provider is told the form: ``schema`` (the JSON Schema; a provider that rejects it is asked
            without from then on), ``json`` (any JSON object), ``prompt`` (not at all). The prompt tells it in any case.
        timeout: seconds for each attempt, without the wait for its turn.
        retries: further attempts after errors that may pass, timeouts, empty answers, and answers that are no verdict.
        backoff: the seconds to wait before an attempt, from its number; what a provider asks for goes first.
        limit: how many calls may be under way at once, in one event loop.
        cache: where verdicts are remembered, under a hash of all that was asked; None: nowhere. ``memory``: the last
            1024 of this judge's, in its own.
        ttl: for how many seconds they are remembered; None: as long as the cache likes.
        max_characters: how long the contents of a question may be together.
        ids: what delimiters are made of; they must be such that nobody can guess them.

    Raises:
        OptionError: an option is not allowed.
    """

    def __init__(
        self,
        model: Model,
        verdict: type[V],
        instructions: str,
        *,
        settings: Values = EMPTY,
        provider_options: Values = EMPTY,
        structured: Structured = "schema",
        timeout: float = 30.0,
        retries: int = 2,
        backoff: Backoff = wait_before,
        limit: int = 8,
        cache: Cache | Literal["memory"] | None = "memory",
        ttl: float | None = None,
        max_characters: int = 200_000,
        ids: Ids = RANDOM_IDS,
    ) -> None:
        _check("model", model, isinstance(_any(model), Model), "a Model: something with a name that can stream")
        _check("instructions", instructions, _says(instructions), "a text that says what to judge")
        for option, told in (("settings", settings), ("provider_options", provider_options)):
            _check(option, "…", isinstance(_any(told), Mapping), "a mapping")  # which may hold keys
        _check("structured", structured, structured in _STRUCTURED, f"one of {', '.join(_STRUCTURED)}")
        _check("timeout", timeout, _is_positive(timeout), "seconds, more than 0")
        _check("retries", retries, _counts(retries, 0), "an int, 0 or more")
        _check("backoff", backoff, callable(backoff), "a function from an attempt's number to seconds")
        _check("limit", limit, _counts(limit, 1), "an int, 1 or more")
        _check("cache", cache, cache in ("memory", None) or isinstance(_any(cache), Cache), "a Cache, 'memory' or None")
        _check("ttl", ttl, ttl is None or (_is_positive(ttl) and ttl < math.inf), "seconds, more than 0, or None")
        _check("max_characters", max_characters, _counts(max_characters, 1), "an int, 1 or more")
        self.model = model
        self.instructions = instructions
        self._one = _form(verdict, several=False)
        self._many = _form(verdict, several=True)
        asked = {"temperature": 0, **settings}
        kept = freeze({name: value for name, value in asked.items() if value is not None})
        manner = Manner(instructions, kept, freeze(provider_options), timeout, retries, backoff, ids)
        self._caller = Caller(model, manner, structured)
        self._limit = limit
        self._cache: Cache | None = LRUCache() if cache == "memory" else cache
        self._ttl = ttl
        self._most = max_characters
        self._base = [1, model.name, getattr(model, "identity", None), instructions, kept, manner.provider_options]
        self.usage = Usage(requests=0)

    async def ask(self, content: str, *, ctx: AnyContext | None = None) -> Judgement[V]:
        """Return the verdict about a content.

        Args:
            content: the text to judge, of any kind; it is sent as it stands.
            ctx: the context of the hook that asks; what the verdict took is noted in its record.

        Raises:
            JudgeError: the model gave none.
        """
        found, verdicts = await self._answered(self._one, (content,), ctx)
        return Judgement(verdicts[0], self.model.name, found.reading.dropped, found.attempts, found.usage)

    async def ask_all(self, contents: Sequence[str], *, ctx: AnyContext | None = None) -> Judgement[tuple[V, ...]]:
        """Return the verdicts about several contents, in order, from one call.

        They are remembered together only: what stands beside a content may have coloured the verdict about it.

        Raises:
            JudgeError: the model gave none, or not one about each.
            UsageError: there is no content.
        """
        if isinstance(contents, str) or not contents:
            raise UsageError("ask_all takes a list of texts, at least one; ask takes a single text")
        form = self._one if len(contents) == 1 else self._many
        found, verdicts = await self._answered(form, tuple(contents), ctx)
        return Judgement(tuple(verdicts), self.model.name, found.reading.dropped, found.attempts, found.usage)

    async def _answered(
        self, form: Form[V], contents: tuple[str, ...], ctx: AnyContext | None
    ) -> tuple[Found, list[V]]:
        try:
            found = await self._found(form, contents)
        except JudgeError as error:
            if ctx is not None:
                noted(ctx, self.model.name, error.attempts, error.usage)
            raise
        if ctx is not None:
            noted(ctx, self.model.name, found.attempts, found.usage, len(found.reading.dropped))
        return found, form.verdicts(found.reading.data, len(contents))

    async def _found(self, form: Form[V], contents: tuple[str, ...]) -> Found:
        if sum(map(len, contents)) > self._most:
            problem = (
                f"the content has more than {self._most:,} characters; judge it in pieces, or raise max_characters"
            )
            raise JudgeError(self.model.name, "too-long", problem, attempts=0)
        key = self._key(form, contents)
        desk = self._desk()

        async def work() -> Found:
            known = await self._remembered(key, form, len(contents))
            return known if known is not None else await self._asked(key, form, contents, desk)

        found, shared = await desk.flights.fly(key, work)
        return Found(found.reading, 0, None) if shared else found

    async def _asked(self, key: str, form: Form[V], contents: tuple[str, ...], desk: _Desk) -> Found:
        try:
            found = await self._caller.ask(form, contents, desk.limiter)
        except JudgeError as error:
            self._count(error.usage, error.attempts)
            raise
        self._count(found.usage, found.attempts)
        await self._remember(key, found.reading)
        return found

    def _count(self, usage: Usage | None, attempts: int) -> None:
        told = usage.requests if usage is not None else 0
        self.usage += Usage(requests=attempts - told) + (usage or Usage(requests=0))

    async def _remembered(self, key: str, form: Form[V], count: int) -> Found | None:
        if self._cache is None:
            return None
        try:
            with anyio.fail_after(_PATIENCE):
                kept = await self._cache.get(key)
            if kept is None:
                return None
            known: Value = json.loads(kept)
            form.verdicts(known["data"], count)
            return Found(Reading(known["data"], tuple(known["dropped"])), 0, None)
        except (UnreadableError, LookupError, TypeError, ValueError):
            return None  # of another version, or not ours
        except Exception as error:  # noqa: BLE001 - a cache that fails costs a call, not the verdict
            _LOG.warning("the cache of a judge could not be read: %s", type(error).__name__)
            return None

    async def _remember(self, key: str, reading: Reading) -> None:
        if self._cache is None:
            return
        try:
            with anyio.fail_after(_PATIENCE):
                kept = json.dumps({"data": reading.data, "dropped": reading.dropped})
                await self._cache.set(key, kept, ttl=self._ttl)
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("the cache of a judge could not be written: %s", type(error).__name__)

    def _key(self, form: Form[V], contents: tuple[str, ...]) -> str:
        """Return a hash of all that the verdict depends on; from it nobody learns what was judged."""
        asked = json.dumps([*self._base, form.schema, contents], sort_keys=True, default=repr)
        return f"penstock:judge:{hashlib.sha256(asked.encode()).hexdigest()}"

    def _desk(self) -> _Desk:
        desks = _DESKS.get(None)
        if desks is None:
            desks = WeakKeyDictionary[Judge[Value], _Desk]()
            _DESKS.set(desks)
        desk = desks.get(self)
        if desk is None:
            desk = desks[self] = _Desk(self._limit)
        return desk

    def __repr__(self) -> str:
        """Show the model's name."""
        return f"Judge({self.model.name!r})"


class _Desk:
    """What a judge has in one event loop."""

    __slots__ = ("flights", "limiter")

    def __init__(self, limit: int) -> None:
        self.limiter = anyio.CapacityLimiter(limit)
        self.flights = Flights[Found]()


_DESKS: RunVar[WeakKeyDictionary[Judge[Value], _Desk] | None] = RunVar("penstock_judges")


def _check(option: str, given: object, holds: bool, allowed: str) -> None:  # noqa: FBT001 - the claim is what it is about
    if not holds:
        raise OptionError("Judge", option, given, allowed)


def _any(given: object) -> object:
    """Return it as one of any type: what callers without a type checker give may be."""
    return given


def _says(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())


def _is_positive(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0


def _counts(given: object, least: int) -> bool:
    return type(given) is int and given >= least


def _form(verdict: type[V], *, several: bool) -> Form[V]:
    from pydantic.errors import PydanticUserError

    try:
        return Form(verdict, several=several)
    except PydanticUserError as error:
        raise OptionError("Judge", "verdict", verdict, "a type that pydantic knows a JSON Schema of") from error
