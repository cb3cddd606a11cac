"""`ResponseCache`: answer repeated model calls from a cache; its options, and the overrides that a caller may send."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.protocols import RANDOM_IDS, Cache
from penstock.models.single_flight import SingleFlight
from penstock.processors.caching.entries import (
    CacheAccess,
    CacheEntry,
    OriginalAnswer,
    refusal,
    replay,
    tag_hash,
    write_entry,
)
from penstock.processors.caching.keys import NoHashError, digest, model_identity, request_content
from penstock.processors.caching.lookups import Keep, Lookup, RunLookups
from penstock.stores.memory_cache import MemoryCache
from penstock.stores.shared import state_at

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.engine.processor.context import LLMRequestContext, LLMResponseContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.protocols import Ids


OVERRIDES = "response_cache"
"""The key of the request context under which a caller overrides options for one request."""


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """A model call that the cache may answer: the argument of functions that make keys and tags.

    Attributes:
        agent_id: the cache's ``agent_id``.
        scope: who shares the answer; None for everybody.
        model: the name of the model.
        request: the request that the model would be sent.
        step_number: the number of the model step in its run, from 0.
        request_context: the caller's mapping for this request.
    """

    agent_id: str
    scope: str | None = field(repr=False)
    model: str
    request: ModelRequest = field(repr=False)
    step_number: int
    request_context: Values = field(repr=False)


KeyFunction: TypeAlias = Callable[[CacheRequest], "str | Awaitable[str]"]
TagFunction: TypeAlias = Callable[[CacheRequest], Iterable[str]]
ScopeFunction: TypeAlias = "Callable[[LLMRequestContext[Value]], str | None]"


def by_resource(ctx: LLMRequestContext[Value]) -> str | None:
    """Return the caller's ``request_context["resource_id"]``; None if there is none. The default of ``scope``."""
    return ctx.resource_id


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """The options for one request: those of the processor, with the caller's overrides.

    Attributes:
        key: a key, or a function that makes one; None: a hash of the whole request.
        scope: who shares the answers, or a function that returns it; None for everybody.
        bust: do not read, but write.
        tags: the tags by which the answer can be invalidated, or a function that returns them.
        ttl: for how many seconds the answer is stored; None: as long as the cache decides.
        skip: neither read nor write.
    """

    key: str | KeyFunction | None
    scope: str | ScopeFunction | None
    bust: bool
    tags: tuple[str, ...] | TagFunction
    ttl: float | None
    skip: bool = False

    def overridden(self, request_context: Values) -> CacheOptions:
        """Return the options with the overrides of a request's caller.

        Raises:
            UsageError: an override is unknown or has a value that is not allowed. To ignore it could mix up scopes.
        """
        given = request_context.get(OVERRIDES)
        if given is None:
            return self
        if not is_mapping(given):
            raise UsageError(f"request_context[{OVERRIDES!r}] must be a mapping, not {type(given).__name__}")
        wrong = [name for name, value in given.items() if name not in _ALLOWED or not _ALLOWED[name](value)]
        if wrong:
            raise UsageError(f"request_context[{OVERRIDES!r}] may hold {_OVERRIDES_TEXT}")
        own: dict[str, Value] = {name: getattr(self, name) for name in _ALLOWED}
        made = CacheOptions(**{**own, **given})
        return made if callable(made.tags) else replace(made, tags=tuple(made.tags))


def is_key(given: object) -> bool:
    """Tell whether a value is a key, a function, or None."""
    return given is None or callable(given) or (isinstance(given, str) and bool(given))


def is_tags(given: object) -> bool:
    """Tell whether a value is a collection of tags, or a function."""
    if callable(given):
        return True
    if not isinstance(given, (list, tuple, set, frozenset)):
        return False
    return all(isinstance(tag, str) for tag in cast("Iterable[object]", given))


def is_ttl(given: object) -> bool:
    """Tell whether a value is a finite number of seconds above 0, or None."""
    return given is None or (
        isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < float("inf")
    )


def _is_flag(given: object) -> bool:
    return isinstance(given, bool)


_ALLOWED: dict[str, Callable[[object], bool]] = {
    "key": is_key,
    "scope": is_key,  # the same types; an empty scope is refused, since it is probably an id that somebody forgot
    "bust": _is_flag,
    "skip": _is_flag,
    "tags": is_tags,
    "ttl": is_ttl,
}
_OVERRIDES_TEXT = (
    "key and scope (a non-empty str, a function, or None), bust and skip (True or False), "
    "tags (a list of str, or a function) and ttl (seconds above 0, or None), and nothing else"
)


_LOG = logging.getLogger("penstock")
_PREFIX = "penstock:response:"
_SCOPE_LENGTH = 8

ToolCalls = Literal["skip", "store"]


_OF_THE_INSTANCE = ("_access", "_pending", "_warned")
"""The attributes that are no options."""


class ResponseCache(Processor[RunLookups]):
    """Answer repeated model calls from a cache. Of equal calls at the same time, only one is made.

    That holds over all processes that share a `LeasingCache`, such as ``cache`` of a `SharedState`.

    A stored answer passes through the stream, its guards and the tools like a new one. An answer is stored only if its
    run ended without a tripwire and (``keep="unchanged"``) no processor changed what the model had said.

    It is not a guard: if the cache fails, the model is asked.

    Args:
        cache: stores the answers, or the address of a server that replicas share (see `open_state`). None: a
            `penstock.stores.MemoryCache` of its own.
        key: identifies a call within its scope, instead of the whole request: a str, or a function (sync or async)
            from a `CacheRequest` to one. If the function raises or returns no str, the whole request is the key.
        ttl: seconds for which an answer is stored, above 0; None: as long as the cache decides.
        scope: who shares answers: a str, a function of the `LLMRequestContext` that returns a str or None, or None
            for everybody. By default each ``resource_id`` has its own; requests without one share theirs.
        bust: do not read from the cache, but write to it.
        agent_id: the name of the agent; part of every key, in plain text.
        tags: tags by which answers can be invalidated, or a function from a `CacheRequest` to them.
        keep: ``unchanged`` stores only answers that no processor edited. ``raw`` stores what the model said, whatever
            output steps made of it: for graphs whose output steps only put back what input steps had replaced.
        tool_calls: ``skip``: answers that call tools are not stored. ``store``: they are, and their tools run again
            each time.
        max_size: the largest entry that is stored, in characters, 1 or more.
        timeout: seconds for each read or write of the cache, above 0; after that the model is asked.
        max_wait: seconds that a request waits for another one that asks the same, 0 or more; 0: it does not wait. If a
            process dies while others wait for it, the next of them asks after so many seconds.
        id: the processor's name in the graph.
        ids: makes the ids of replayed tool calls and the versions of tags.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    id = "response-cache"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"
    stores = True

    def __init__(
        self,
        cache: Cache | str | None = None,
        *,
        key: str | KeyFunction | None = None,
        ttl: float | None = 300.0,
        scope: str | ScopeFunction | None = by_resource,
        bust: bool = False,
        agent_id: str = "response-cache",
        tags: Iterable[str] | TagFunction = (),
        keep: Keep = "unchanged",
        tool_calls: ToolCalls = "skip",
        max_size: int = 1_000_000,
        timeout: float = 2.0,
        max_wait: float = 30.0,
        id: str | None = None,
        ids: Ids = RANDOM_IDS,
    ) -> None:
        name = type(self).__name__
        if id is not None:
            self.id = id
        cache = state_at(cache).cache if isinstance(cache, str) else cache
        _check(name, "cache", cache, cache is None or isinstance(cast("object", cache), Cache), "a Cache or None")
        _check(name, "key", key, is_key(key), "a non-empty str, a function, or None")
        _check(name, "ttl", ttl, is_ttl(ttl), "a number of seconds above 0, or None")
        _check(name, "scope", scope, is_key(scope), "a non-empty str, a function, or None for everybody")
        named = isinstance(cast("object", agent_id), str) and bool(agent_id.strip())
        _check(name, "agent_id", agent_id, named, "a non-empty str")
        _check(name, "tags", tags, is_tags(tags), "a list of str, or a function")
        _check(name, "max_size", max_size, type(max_size) is int and max_size > 0, "an int of 1 or more")
        _check(name, "timeout", timeout, is_ttl(timeout or -1), "a number of seconds above 0")
        _check(name, "max_wait", max_wait, max_wait == 0 or is_ttl(max_wait or None), "a number of seconds, 0 or more")
        self._cache = cache
        self.ttl = ttl
        self.bust = flag(name, "bust", bust)
        self.agent_id = agent_id
        self.timeout = timeout
        self.max_wait = max_wait
        self.keep: Keep = cast("Keep", one_of(name, "keep", keep, get_args(Keep)))
        self.tool_calls: ToolCalls = cast("ToolCalls", one_of(name, "tool_calls", tool_calls, get_args(ToolCalls)))
        self.max_size = max_size
        self._options = CacheOptions(key, scope, self.bust, tags if callable(tags) else tuple(tags), ttl)
        self._access = CacheAccess(MemoryCache() if cache is None else cache, timeout, ids)
        self._pending = SingleFlight[str, "CacheEntry | None"](max_wait) if max_wait else None
        self._ids = ids
        self._warned: set[str] = set()

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same class and equal options, whatever they have stored."""
        if not isinstance(other, ResponseCache) or type(self) is not type(other):
            return self is other
        mine, theirs = vars(self), vars(other)
        return all(mine[name] == theirs.get(name) for name in mine if name not in _OF_THE_INSTANCE)

    __hash__ = None

    def new_state(self) -> RunLookups:
        """Return the lookups of one run: none yet."""
        return RunLookups()

    async def invalidate(self, *tags: str) -> None:
        """Make all answers with one of the tags invalid, in every process that shares the cache.

        This includes answers that are being made now.

        Raises:
            TimeoutError: the cache did not answer within ``timeout``.
            Exception: whatever the cache raises.
        """
        await self._access.invalidate(tags)

    async def process_llm_request(self, ctx: LLMRequestContext[RunLookups]) -> Answer | None:
        """Look up the answer in the cache and among the calls that are under way."""
        if ctx.retry_count > 0:
            ctx.state.reject()
        options = self._options.overridden(ctx.request_context)
        lookup = None if options.skip or ctx.answer is not None else await self._lookup(ctx, options)
        if lookup is None:
            ctx.state.give_up_open()
            ctx.note(cache="off")
            return None
        return await self._answered(ctx, lookup, bust=options.bust)

    async def process_llm_response(self, ctx: LLMResponseContext[RunLookups]) -> None:
        """Remember the answer; whether it is stored is decided at the end of the run."""
        lookup = ctx.state.open
        if lookup is None:
            return
        why = "answered" if ctx.from_cache else self._refused(ctx, lookup)
        if why is not None:
            lookup.drop(wait_is_over=True)
            ctx.note(not_kept=why)
            if lookup.lease:
                await self._access.end_lease(lookup.shared_key, lookup.lease, useless=True)

    # The request

    async def _answered(self, ctx: LLMRequestContext[RunLookups], lookup: Lookup, *, bust: bool) -> Answer | None:
        """Return the answer from another run that asks for it, or from the cache; None: the model is asked."""
        versions = await self._access.versions(lookup.tags)
        if versions is None:
            ctx.state.give_up_open()
            ctx.note(cache="failed")
            return None
        lookup.tags, lookup.shared_key = versions, digest([lookup.key, versions])
        self._add(ctx, lookup)
        found = await self._joined(ctx.state, lookup, waits=not bust)
        if found is not None:
            return self._replayed(ctx, lookup, found, "joined")
        if not bust:
            found, lookup.writes = await self._access.get(lookup.key, versions)
        if found is None and lookup.writes and self.max_wait and not lookup.lease:
            waits = not bust and not ctx.state.leads_elsewhere(lookup)
            found, lookup.lease = await self._access.lead(
                lookup.key, lookup.shared_key, versions, seconds=self.max_wait, waits=waits
            )
        if found is not None:
            return self._replayed(ctx, lookup, found, "hit")
        ctx.note(cache="bust" if bust else "miss" if lookup.writes else "failed")
        return None

    async def _joined(self, lookups: RunLookups, lookup: Lookup, *, waits: bool) -> CacheEntry | None:
        """Return the answer that another run asked for; None if this run asks, perhaps on behalf of others."""
        if self._pending is None or lookup.pending is not None:
            return None
        pending = await self._pending.join(lookup.shared_key, wait=waits and not lookups.leads)
        if pending is not None and pending.is_done:
            return pending.result
        lookup.pending = pending
        return None

    def _add(self, ctx: LLMRequestContext[RunLookups], lookup: Lookup) -> None:
        lookups = ctx.state
        lookups.add(lookup)
        if not lookups.has_end_callback:
            lookups.has_end_callback = True
            ctx.on_end(lambda end: self._on_end(lookups, end))

    def _replayed(self, ctx: LLMRequestContext[RunLookups], lookup: Lookup, entry: CacheEntry, how: str) -> Answer:
        lookup.replay(entry)
        ctx.note(cache=how)
        return Answer(replay(entry.chunks, ctx.run_id, self._ids))

    async def _lookup(self, ctx: LLMRequestContext[RunLookups], options: CacheOptions) -> Lookup | None:
        """Return the lookup for the coming model call; None if the call has no key."""
        model = model_identity(ctx.model)
        if ctx.request is None or model is None:
            self._warn_once("no-request", "model calls are not cached unless the host passes request= and model=")
            return None
        request = replace(ctx.request, messages=ctx.messages)
        scope = options.scope(ctx) if callable(options.scope) else options.scope
        about = CacheRequest(self.agent_id, scope, model[0], request, ctx.step_number, ctx.request_context)
        try:
            key = await self._key(options, about, model)
        except NoHashError as error:
            self._warn_once(
                f"no-hash {error}", "model calls that hold a %s are not cached: it has no stable form", error
            )
            return None
        tags = _tags(options.tags, about)
        known = frozenset(message.id for message in ctx.message_list)
        return Lookup(key, dict.fromkeys(map(tag_hash, tags), ""), options.ttl, (model, request), known, "")

    async def _key(self, options: CacheOptions, about: CacheRequest, model: tuple[str, object]) -> str:
        """Return the key: the agent's name, a hash of the scope, and a hash of the call within it."""
        within = {"agent": about.agent_id, "scope": about.scope}
        own = await self._own_key(options.key, about)
        if own is not None:
            call = digest({**within, "key": own})
        else:
            content = request_content(about.request)
            call = digest({**within, "step": about.step_number, "model": model, "request": content})
        scope = "" if about.scope is None else f"{digest(about.scope, _SCOPE_LENGTH)}:"
        return f"{_PREFIX}{self.agent_id}:{scope}{call}"

    async def _own_key(self, key: str | KeyFunction | None, about: CacheRequest) -> str | None:
        if key is None or isinstance(key, str):
            return key
        try:
            made: object = key(about)
            made = await cast("Awaitable[object]", made) if isawaitable(made) else made
        except Exception as error:  # noqa: BLE001 - the whole request can always be the key
            self._warn_once(
                "key", "the function for keys raised %s; the whole request is the key", type(error).__name__
            )
            return None
        if isinstance(made, str) and made:
            return made
        self._warn_once("key", "the function for keys returned no str; the whole request is the key")
        return None

    # The answer

    def _refused(self, ctx: LLMResponseContext[RunLookups], lookup: Lookup) -> str | None:
        """Remember an answer that may be stored; otherwise return the reason."""
        chunks = ctx.chunks or ()
        why = refusal(chunks, ctx.finish_reason, calls=self.tool_calls == "store")
        if why is not None:
            return why
        if not self._is_same(ctx, lookup):
            self._warn_once("changed", "answers are not stored: a later step changes the prompt; place the cache last")
            return "changed-request"
        try:
            text = write_entry(chunks, lookup.tags)
        except (TypeError, ValueError):
            return "no-json"
        if len(text) > self.max_size:
            return "too-large"
        return self._edited(ctx, lookup, OriginalAnswer(chunks), text)

    def _edited(
        self, ctx: LLMResponseContext[RunLookups], lookup: Lookup, original: OriginalAnswer, text: str
    ) -> str | None:
        responses = ctx.message_list.response
        answer = responses[-1] if responses and responses[-1].id not in lookup.known else None
        if self.keep == "unchanged" and not original.is_unchanged_in(answer):
            return "edited"
        lookup.text, lookup.original, lookup.answer_id = text, original, "" if answer is None else answer.id
        return None

    def _is_same(self, ctx: LLMResponseContext[RunLookups], lookup: Lookup) -> bool:
        """Tell whether the model was sent the request that the key was made of: a later step may have changed it."""
        model, request = lookup.request
        sent = ctx.request
        if sent is None or model_identity(ctx.model) != model:
            return False
        return sent == request or request_content(sent) == request_content(request)

    # The end

    def _on_end(self, lookups: RunLookups, end: RunEnd) -> Awaitable[None] | None:
        stored = list(lookups.end(end, self.keep))
        rejected, leased = lookups.rejected(end), lookups.leased()
        return self._put(stored, rejected, leased) if stored or rejected or leased else None

    async def _put(self, stored: list[Lookup], rejected: list[str], leased: list[Lookup]) -> None:
        try:
            for lookup in stored:
                if lookup.writes:
                    await self._access.put(lookup.key, lookup.text or "", lookup.ttl, lookup.tags)
            for key in rejected:
                await self._access.delete(key)
            for lookup in leased:
                await self._access.end_lease(lookup.shared_key, lookup.lease, useless=lookup.useless)
        finally:
            for lookup in stored:
                if lookup.pending is not None:
                    lookup.pending.remove()

    def _warn_once(self, what: str, told: str, *more: Value) -> None:
        """Log a warning that concerns the developer, once per processor."""
        if what not in self._warned:
            self._warned.add(what)
            _LOG.warning("%s: %s (logged once)", self.id, told % more)


def _tags(tags: tuple[str, ...] | TagFunction, about: CacheRequest) -> Iterable[str]:
    if not callable(tags):
        return tags
    made = tags(about)
    if not is_tags(made):
        raise UsageError("the function for tags must return a list of str; an answer without its tags is not stored")
    return made


def _check(name: str, option: str, given: object, holds: bool, allowed: str) -> None:  # noqa: FBT001 - the check itself
    if not holds:
        raise OptionError(name, option, given, allowed)
