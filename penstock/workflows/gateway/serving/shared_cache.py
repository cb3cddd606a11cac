"""`SharedAnswerCache`: released answers that all replicas of a gateway send again; of equal requests, one is made."""

from __future__ import annotations

import json
import logging
import time
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

import anyio

from penstock.formats.wire import is_object
from penstock.workflows.gateway.serving.cache import AnswerCache, Released, lasting

if TYPE_CHECKING:
    from penstock.engine.values.shared import LeasingCache
    from penstock.workflows.gateway.http import Headers

_LOG = logging.getLogger("penstock.gateway")

_FIRST_LOOK, _LONGEST_LOOK = 0.01, 0.25
"""The first and the longest wait between two looks for an answer that another gateway makes, in seconds."""


class SharedAnswerCache(AnswerCache):
    """Answers of one route in a store that replicas share. While it is lost, the provider is asked.

    Args:
        store: the store.
        keep: how long an answer is kept, in seconds.
        most_bytes: how long one answer may be.
        shared: whether clients with other keys get them, too.
        wait: how long a request waits for an equal one, in seconds. If its gateway dies, another asks after that time.
    """

    def __init__(self, store: LeasingCache, *, keep: float, most_bytes: int, shared: bool, wait: float) -> None:
        super().__init__(keep=keep, entries=1, memory=most_bytes * 8, shared=shared)
        self._store = store
        self._seconds = keep
        self._wait = wait

    async def find(self, key: bytes, holder: str) -> Released | None:
        """Return an answer, perhaps after a wait for a gateway that makes it; None if the provider is to be asked."""
        name, until, wait = _name(key), anyio.current_time() + self._wait, _FIRST_LOOK
        try:
            while True:
                found = _read(await self._store.get(name))
                if found is not None:
                    return found
                state = await self._store.lease(name, holder, seconds=self._wait)
                if state == "lead":
                    return await self._led(name, holder)
                if state == "ask" or anyio.current_time() + wait > until:
                    return None
                await anyio.sleep(wait)
                wait = min(wait * 1.5, _LONGEST_LOOK)
        except Exception as error:  # noqa: BLE001 - of a server: a cache that fails costs a call, not the request
            _LOG.warning("the cache of answers cannot be read: %s", type(error).__name__)
            return None

    async def _led(self, name: str, holder: str) -> Released | None:
        """Return an answer that was stored just before the lease was free."""
        found = _read(await self._store.get(name))
        if found is not None:
            await self._end(name, holder, useless=False)
        return found

    async def keep(self, key: bytes, holder: str, headers: Headers, body: bytes) -> None:
        """Keep an answer that has left whole."""
        if len(body) <= self.most_bytes:
            try:
                await self._store.set(_name(key), _written(headers, body), ttl=self._seconds)
            except Exception as error:  # noqa: BLE001 - see `find`
                _LOG.warning("the cache of answers cannot be written: %s", type(error).__name__)
        await self._end(_name(key), holder, useless=len(body) > self.most_bytes)

    async def leave(self, key: bytes, holder: str) -> None:
        """Tell gateways that wait to ask the provider each for itself."""
        await self._end(_name(key), holder, useless=True)

    async def _end(self, name: str, holder: str, *, useless: bool) -> None:
        try:
            await self._store.end_lease(name, holder, useless=useless)
        except Exception as error:  # noqa: BLE001 - it ends by itself
            _LOG.warning("a lease of the cache of answers cannot be ended: %s", type(error).__name__)


def _name(key: bytes) -> str:
    return f"answer/{key.hex()}"


def _written(headers: Headers, body: bytes) -> str:
    return json.dumps({"version": 1, "headers": lasting(headers), "body": b64encode(body).decode()})


def _read(text: str | None) -> Released | None:
    """Return an answer; None for no text, and for one of another version."""
    try:
        found = None if text is None else json.loads(text)
        if not is_object(found) or found.get("version") != 1:
            return None
        headers = tuple((str(name), str(value)) for name, value in found["headers"])
        return Released(headers, b64decode(found["body"]), time.monotonic())
    except (LookupError, TypeError, ValueError):
        return None
