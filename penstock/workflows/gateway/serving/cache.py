"""`AnswerCache`: answers that are sent again for an equal request, as the bytes that were released."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.protocols import RANDOM_IDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from penstock.workflows.gateway.http import Headers, HttpRequest, Upstream, UpstreamReply

_OK = 200
_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Released:
    """An answer that left the gateway whole.

    Attributes:
        headers: its headers.
        body: its bytes, those of a stream joined.
        at: the monotonic time at which it was released.
    """

    headers: Headers
    body: bytes = field(repr=False)
    at: float


class AnswerCache:
    """Answers of one route, as guards released them. Answers as the provider sent them are not kept.

    Args:
        keep: how long an answer is kept, in seconds.
        entries: how many answers.
        memory: how many bytes they take together.
        shared: whether clients with other keys get them, too.
    """

    def __init__(self, *, keep: float, entries: int, memory: int, shared: bool) -> None:
        self._keep = keep
        self._entries = entries
        self._memory = memory
        self._shared = shared
        self._size = 0
        self._answers: OrderedDict[bytes, Released] = OrderedDict()

    @property
    def most_bytes(self) -> int:
        """How long one answer may be: an eighth of the memory."""
        return self._memory // 8

    def key(self, given: HttpRequest, guarded: HttpRequest, policy: str, client: str) -> bytes:
        """Return the key of an answer.

        It holds the request as guards left it, and the one that came: what guards hid, and restore in the answer,
        differs between requests that are equal for the provider.

        Args:
            given: the request as it came.
            guarded: the request as it goes to the provider.
            policy: the fingerprint of the policy.
            client: the name of the client; empty if it has none.
        """
        made = hashlib.blake2b(digest_size=32)
        parts = (guarded.method, guarded.path, guarded.query, policy, "" if self._shared else client)
        versions = tuple(value for name, value in guarded.headers if name in _CHOOSING)
        for part in (*(text.encode() for text in (*parts, *versions)), guarded.body, given.body):
            made.update(len(part).to_bytes(8, "big") + part)
        return made.digest()

    async def find(self, key: bytes, holder: str) -> Released | None:  # noqa: ARG002 - `SharedAnswerCache` does
        """Return an answer; None if the provider is to be asked.

        Args:
            key: the key of the answer.
            holder: names the request, for `keep` or `leave`, one of which must follow if the provider is asked.
        """
        return self.get(key)

    async def keep(self, key: bytes, holder: str, headers: Headers, body: bytes) -> None:  # noqa: ARG002 - see `find`
        """Keep an answer that has left whole."""
        self.put(key, headers, body)

    async def leave(self, key: bytes, holder: str) -> None:
        """Tell requests that wait for this one that no answer is kept."""

    def get(self, key: bytes, now: float | None = None) -> Released | None:
        """Return an answer; None if there is none, or it is too old."""
        found = self._answers.get(key)
        if found is None:
            return None
        if (time.monotonic() if now is None else now) - found.at > self._keep:
            self._drop(key)
            return None
        self._answers.move_to_end(key)
        return found

    def put(self, key: bytes, headers: Headers, body: bytes) -> None:
        """Keep an answer that has left whole; the least recently used ones make room."""
        if len(body) > self.most_bytes:
            return
        if key in self._answers:
            self._drop(key)
        self._answers[key] = Released(lasting(headers), body, time.monotonic())
        self._size += len(body)
        while len(self._answers) > self._entries or self._size > self._memory:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: bytes) -> None:
        self._size -= len(self._answers.pop(key).body)


def lasting(headers: Headers) -> Headers:
    """Return the headers of an answer that are kept with it."""
    return tuple(one for one in headers if one[0] not in _ONCE)


_CHOOSING = frozenset({"accept", "anthropic-beta", "anthropic-version", "openai-beta"})
_ONCE = frozenset({"request-id", "retry-after", "x-request-id"})


class CacheHit(Exception):  # noqa: N818 - it ends the exchange, which needs no provider any more
    """An answer is in the cache. It ends the exchange before the provider is asked.

    Attributes:
        answer: the answer.
    """

    def __init__(self, answer: Released) -> None:
        self.answer = answer
        super().__init__("the answer is in the cache")


class CachedUpstream:
    """An upstream that looks into the cache before it asks the provider.

    Args:
        upstream: the upstream.
        cache: the cache.
        given: the request as it came.
        policy: the fingerprint of the policy.
        client: the name of the client.

    Attributes:
        key: the key of the answer, once the upstream was asked.
        hit: the answer that was found; None if there is none.
        most_bytes: how long an answer may be that is kept.
    """

    def __init__(self, upstream: Upstream, cache: AnswerCache, given: HttpRequest, policy: str, client: str) -> None:
        self._upstream = upstream
        self._cache = cache
        self._given = given
        self._policy = policy
        self._client = client
        self._status = 0
        self._holder = RANDOM_IDS.next()
        self.most_bytes = cache.most_bytes
        self.key: bytes | None = None
        self.hit: Released | None = None

    def send(self, request: HttpRequest) -> AbstractAsyncContextManager[UpstreamReply]:
        """Send a request that the guards left; see `Upstream.send`.

        Raises:
            CacheHit: the answer is in the cache.
        """
        return self._sent(request)

    @asynccontextmanager
    async def _sent(self, request: HttpRequest) -> AsyncGenerator[UpstreamReply]:
        self.key = self._cache.key(self._given, request, self._policy, self._client)
        self.hit = await self._cache.find(self.key, self._holder)
        if self.hit is not None:
            raise CacheHit(self.hit)
        async with self._upstream.send(request) as reply:
            self._status = reply.status
            yield reply

    async def end(self, released: tuple[Headers, bytes] | None) -> None:
        """Keep an answer that has left whole, without a verdict, if the provider answered with success.

        Args:
            released: its headers and its bytes; None if there is no such answer.
        """
        if self.key is None or self.hit is not None:
            return
        with anyio.move_on_after(_END_SECONDS, shield=True):  # also where the client has gone, since others may wait
            if released is not None and self._status == _OK:
                await self._cache.keep(self.key, self._holder, *released)
            else:
                await self._cache.leave(self.key, self._holder)
