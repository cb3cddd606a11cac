"""`ResponseCache`: spares model calls whose answer is known already. It knows no model and no provider."""

from __future__ import annotations

import logging
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Literal, cast, get_args

from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.ports import RANDOM_IDS, Cache
from penstock.processors.caching._answers import Given, refusal
from penstock.processors.caching._entries import Entry, replayed, written
from penstock.processors.caching._flights import Flights
from penstock.processors.caching._hashing import NoHashError, digest, told_model, told_request
from penstock.processors.caching._shelf import Shelf, hashed
from penstock.processors.caching._visits import Asked, Keep, Visit
from penstock.processors.caching.requests import CacheRequest, Wishes, by_resource, is_key, is_tags, is_ttl
from penstock.stores.memory_cache import MemoryCache

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from penstock.engine.processor.context import LLMRequestContext, LLMResponseContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ports import Ids
    from penstock.processors.caching.requests import KeyFunction, ScopeFunction, TagFunction

_LOG = logging.getLogger("penstock")
_PREFIX = "penstock:response:"
_SCOPE_LENGTH = 8

ToolCalls = Literal["skip", "store"]


class ResponseCache(Processor[Visit]):
    """Answers model calls that were answered before, and has one of those that come at the same time made for all.

    A kept answer goes through the stream, its guards and the tools as a fresh one. An answer is kept only if its run
    came to its end without a verdict, and (``keep="unchanged"``) nobody changed what the model had said.

    It protects nothing: if it fails, the model is asked.

    Args:
        cache: where answers are kept; None: a `MemoryCache` of its own.
        key: what tells calls apart within a scope, in place of the whole request: a str, or a function (async or
            not) from a `CacheRequest` to one. One that raises, or gives no str, falls back to the whole request.
        ttl: for how many seconds an answer is kept; None: as long as the cache likes.
        scope: who shares answers: a str, a function of the context, None for everybody. By default each
            ``resource_id`` for itself; requests that name none share theirs.
        bust: read nothing, but write.
        agent_id: names the agent whose answers these are; part of every key, in plain.
        tags: by which answers can be invalidated, or a function from a `CacheRequest` to them.
        keep: ``unchanged``: only answers that nobody edited. ``raw``: what the model said, whatever output steps
            made of it: for graphs whose output steps only put back what input steps had taken out.
        tool_calls: whether answers that call tools are kept (``store``): their tools run again each time.
        max_size: how many characters the text of an answer may have to be kept.
        timeout: seconds for the cache to answer; then the model is asked.
        max_wait: for how many seconds a request waits for another that asks the same; 0: not at all.
        id: its name in the graph.
        ids: what the ids of replayed calls and the versions of tags are made of.

    Raises:
        OptionError: an option is not allowed.
    """

    id = "response-cache"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"
    stores = True

    def __init__(
        self,
        cache: Cache | None = None,
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
        _check(name, "cache", cache, cache is None or isinstance(cast("object", cache), Cache), "a Cache, or None")
        _check(name, "key", key, is_key(key), "a str that is not empty, a function, or None")
        _check(name, "ttl", ttl, is_ttl(ttl), "seconds, more than 0, or None")
        _check(name, "scope", scope, is_key(scope), "a str that is not empty, a function, or None for everybody")
        _check(name, "agent_id", agent_id, _is_word(agent_id), "a str that is not empty")
        _check(name, "tags", tags, is_tags(tags), "a list of str, or a function")
        _check(name, "max_size", max_size, type(max_size) is int and max_size > 0, "an int, 1 or more")
        _check(name, "timeout", timeout, is_ttl(timeout or -1), "seconds, more than 0")
        _check(name, "max_wait", max_wait, max_wait == 0 or is_ttl(max_wait or None), "seconds, 0 or more")
        self.agent_id = agent_id
        self.keep: Keep = cast("Keep", one_of(name, "keep", keep, get_args(Keep)))
        self.tool_calls: ToolCalls = cast("ToolCalls", one_of(name, "tool_calls", tool_calls, get_args(ToolCalls)))
        self.max_size = max_size
        self._wishes = Wishes(key, scope, flag(name, "bust", bust), tags if callable(tags) else tuple(tags), ttl)
        self._shelf = Shelf(MemoryCache() if cache is None else cache, timeout, ids)
        self._flights = Flights(max_wait) if max_wait else None
        self._ids = ids
        self._told: set[str] = set()

    def new_state(self) -> Visit:
        """Return the calls of one run: none yet."""
        return Visit()

    async def invalidate(self, *tags: str) -> None:
        """Give no answer any more that has one of the tags, in any process that shares the cache.

        Answers that are being made have the tags as they were, and are not given either. What the cache raises comes
        out, a `TimeoutError` if it hangs.
        """
        await self._shelf.invalidate(tags)

    async def process_llm_request(self, ctx: LLMRequestContext[Visit]) -> Answer | None:
        """Look for the answer, or for somebody who is asking for it."""
        if ctx.retry_count > 0:
            ctx.state.reject()
        wishes = self._wishes.laid_over(ctx.request_context)
        asked = None if wishes.skip or ctx.answer is not None else await self._asked(ctx, wishes)
        if asked is None:
            ctx.state.forgo()
            ctx.note(cache="off")
            return None
        return await self._answered(ctx, asked, bust=wishes.bust)

    def process_llm_response(self, ctx: LLMResponseContext[Visit]) -> None:
        """Note the answer; whether it is kept shows at the end of the run."""
        asked = ctx.state.open
        if asked is None:
            return
        why = "answered" if ctx.from_cache else self._refused(ctx, asked)
        if why is not None:
            asked.drop(hopeless=True)
            ctx.note(not_kept=why)

    # The request

    async def _answered(self, ctx: LLMRequestContext[Visit], asked: Asked, *, bust: bool) -> Answer | None:
        """Return the answer from somebody else who is looking for it, or from the cache."""
        versions = await self._shelf.versions(asked.tags)
        if versions is None:
            ctx.state.forgo()
            ctx.note(cache="failed")
            return None
        asked.tags, asked.place = versions, digest([asked.key, versions])
        self._noted(ctx, asked)
        found = await self._joined(ctx.state, asked, waits=not bust)
        if found is not None:
            return self._replayed(ctx, asked, found, "joined")
        if not bust:
            found, asked.writes = await self._shelf.look(asked.key, versions)
        if found is not None:
            return self._replayed(ctx, asked, found, "hit")
        ctx.note(cache="bust" if bust else "miss" if asked.writes else "failed")
        return None

    async def _joined(self, visit: Visit, asked: Asked, *, waits: bool) -> Entry | None:
        """Return the answer that somebody else was looking for; None if this run is to look, perhaps for others too."""
        if self._flights is None or asked.flight is not None:
            return None
        found = await self._flights.joined(asked.place, waits=waits and not visit.leads)
        if found is None or isinstance(found, Entry):
            return found
        asked.flight = found
        return None

    def _noted(self, ctx: LLMRequestContext[Visit], asked: Asked) -> None:
        visit = ctx.state
        visit.add(asked)
        if not visit.is_told:
            visit.is_told = True
            ctx.on_end(lambda ended: self._ended(visit, ended))

    def _replayed(self, ctx: LLMRequestContext[Visit], asked: Asked, entry: Entry, how: str) -> Answer:
        asked.replay(entry)
        ctx.note(cache=how)
        return Answer(replayed(entry.chunks, ctx.run_id, self._ids))

    async def _asked(self, ctx: LLMRequestContext[Visit], wishes: Wishes) -> Asked | None:
        """Return the call that the model is about to be asked; None if it cannot be told apart from others."""
        model = told_model(ctx.model)
        if ctx.request is None or model is None:
            self._tell("no-request", "nothing is kept of model calls whose request= and model= the host does not tell")
            return None
        request = replace(ctx.request, messages=ctx.messages)
        scope = wishes.scope(ctx) if callable(wishes.scope) else wishes.scope
        about = CacheRequest(self.agent_id, scope, model[0], request, ctx.step_number, ctx.request_context)
        try:
            key = await self._key(wishes, about, model)
        except NoHashError as error:
            self._tell(
                f"no-hash {error}", "nothing is kept of model calls that hold a %s: it has no stable form", error
            )
            return None
        tags = _tags(wishes.tags, about)
        known = frozenset(message.id for message in ctx.message_list)
        return Asked(key, dict.fromkeys(map(hashed, tags), ""), wishes.ttl, (model, request), known, "")

    async def _key(self, wishes: Wishes, about: CacheRequest, model: tuple[str, object]) -> str:
        """Return the key: the agent's name, a hash of the scope, and one of what tells calls apart within it."""
        within = {"agent": about.agent_id, "scope": about.scope}
        own = await self._own_key(wishes.key, about)
        if own is not None:
            call = digest({**within, "key": own})
        else:
            call = digest({**within, "step": about.step_number, "model": model, "request": told_request(about.request)})
        scope = "" if about.scope is None else f"{digest(about.scope, _SCOPE_LENGTH)}:"
        return f"{_PREFIX}{self.agent_id}:{scope}{call}"

    async def _own_key(self, key: str | KeyFunction | None, about: CacheRequest) -> str | None:
        if key is None or isinstance(key, str):
            return key
        try:
            made: object = key(about)
            made = await cast("Awaitable[object]", made) if isawaitable(made) else made
        except Exception as error:  # noqa: BLE001 - the whole request is a key that holds for everything
            self._tell("key", "the function for keys failed (%s); the whole request is the key", type(error).__name__)
            return None
        if isinstance(made, str) and made:
            return made
        self._tell("key", "the function for keys gave no str; the whole request is the key")
        return None

    # The answer

    def _refused(self, ctx: LLMResponseContext[Visit], asked: Asked) -> str | None:
        """Note an answer that may be kept; return why another is not."""
        chunks = ctx.chunks or ()
        why = refusal(chunks, ctx.finish_reason, calls=self.tool_calls == "store")
        if why is not None:
            return why
        if not self._is_same(ctx, asked):
            self._tell("changed", "answers are not kept: the prompt is changed behind the cache; place it last")
            return "changed-request"
        try:
            text = written(chunks, asked.tags)
        except (TypeError, ValueError):
            return "no-json"
        if len(text) > self.max_size:
            return "too-large"
        return self._edited(ctx, asked, Given(chunks), text)

    def _edited(self, ctx: LLMResponseContext[Visit], asked: Asked, given: Given, text: str) -> str | None:
        responses = ctx.message_list.response
        answer = responses[-1] if responses and responses[-1].id not in asked.known else None
        if self.keep == "unchanged" and not given.stands_in(answer):
            return "edited"
        asked.text, asked.given, asked.answer_id = text, given, "" if answer is None else answer.id
        return None

    def _is_same(self, ctx: LLMResponseContext[Visit], asked: Asked) -> bool:
        """Tell whether the model was asked what the key stands for: what came later into the prompt is not in it."""
        model, request = asked.request
        sent = ctx.request
        if sent is None or told_model(ctx.model) != model:
            return False
        return sent == request or told_request(sent) == told_request(request)

    # The end

    def _ended(self, visit: Visit, ended: RunEnd) -> Awaitable[None] | None:
        kept = list(visit.end(ended, self.keep))
        gone = visit.rejected(ended)
        return self._put(kept, gone) if kept or gone else None

    async def _put(self, kept: list[Asked], gone: list[str]) -> None:
        try:
            for asked in kept:
                if asked.writes:
                    await self._shelf.put(asked.key, asked.text or "", asked.ttl, asked.tags)
            for key in gone:
                await self._shelf.forget(key)
        finally:
            for asked in kept:
                if asked.flight is not None:
                    asked.flight.close()

    def _tell(self, what: str, told: str, *more: Value) -> None:
        """Log something that the developer can do something about, once."""
        if what not in self._told:
            self._told.add(what)
            _LOG.warning("%s: %s (said once)", self.id, told % more)


def _tags(tags: tuple[str, ...] | TagFunction, about: CacheRequest) -> Iterable[str]:
    if not callable(tags):
        return tags
    made = tags(about)
    if not is_tags(made):
        raise UsageError("the function for tags must return a list of str: an answer without its tags is not kept")
    return made


def _check(name: str, option: str, given: object, holds: bool, allowed: str) -> None:  # noqa: FBT001 - the claim is what it is about
    if not holds:
        raise OptionError(name, option, given, allowed)


def _is_word(given: object) -> bool:
    return isinstance(given, str) and bool(given.strip())
