"""`ValkeyCache` and `ValkeyNames`: texts for a limited time, with leases; and names that conversations have loaded."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.stores.valkey._connections import ServerScript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.shared import LeaseState
    from penstock.stores.valkey._connections import ValkeyServer

_GET = ServerScript("return redis.call('GET', KEYS[1])")
_SET = ServerScript("""
if ARGV[2] == '' then redis.call('SET', KEYS[1], ARGV[1]) else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1
""")
_LEASE = ServerScript("""
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return 'lead' end
if holder == '' then return 'ask' end
if holder then return 'wait' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'lead'
""")
_END_LEASE = ServerScript("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], '', 'PX', ARGV[2]) end
return 1
""")
_NAMES = ServerScript("""
if ARGV[1] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return redis.call('ZRANGE', KEYS[1], 0, -1)
""")
_ADD_NAMES = ServerScript("""
local place = redis.call('ZCARD', KEYS[1])
for number = 2, #ARGV do redis.call('ZADD', KEYS[1], 'NX', place + number, ARGV[number]) end
if ARGV[1] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 1
""")

USELESS_FOR = 1.0
"""Seconds for which those who ask for a lease are told that its last holder's value was of no use."""


def hashed(key: str) -> str:
    """Return the hash that stands for a key of a caller: the server's keys do not show whose they are."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def milliseconds(seconds: float | None) -> int | str:
    """Return a time to live for a script; empty for None."""
    return "" if seconds is None else max(1, round(seconds * 1000))


class ValkeyCache:
    """A `LeasingCache` in a Valkey server. It needs no file there: what is lost is made again."""

    def __init__(self, server: ValkeyServer, prefix: str) -> None:
        self._server = server
        self._prefix = f"{prefix}:cache:"

    async def get(self, key: str) -> str | None:
        """Return the value stored under the key, or None."""
        found: bytes | None = await self._server.run(_GET, [self._prefix + hashed(key)])
        return None if found is None else found.decode()

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Store the value in place of an earlier one; for ``ttl`` seconds if that is given."""
        await self._server.run(_SET, [self._prefix + hashed(key)], value.encode(), milliseconds(ttl))

    async def lease(self, key: str, holder: str, *, seconds: float) -> LeaseState:
        """Ask for the lease of a key; see `LeasingCache.lease`."""
        found: bytes = await self._server.run(_LEASE, [self._lease(key)], holder, milliseconds(seconds))
        return "lead" if found == b"lead" else "ask" if found == b"ask" else "wait"

    async def end_lease(self, key: str, holder: str, *, useless: bool = False) -> None:
        """Give a lease back, if the holder has it; see `LeasingCache.end_lease`."""
        await self._server.run(_END_LEASE, [self._lease(key)], holder, milliseconds(USELESS_FOR if useless else None))

    def _lease(self, key: str) -> str:
        return f"{self._prefix}{hashed(key)}:lease"


class ValkeyNames:
    """A `NameStore` in a Valkey server."""

    def __init__(self, server: ValkeyServer, prefix: str) -> None:
        self._server = server
        self._prefix = f"{prefix}:names:"

    async def names(self, owner: str, *, ttl: float | None) -> Sequence[str]:
        """Return the names of an owner, in the order in which they were added."""
        found: list[bytes] = await self._server.run(_NAMES, [self._prefix + hashed(owner)], milliseconds(ttl))
        return [name.decode() for name in found]

    async def add_names(self, owner: str, names: Sequence[str], *, ttl: float | None) -> None:
        """Add names to those of an owner."""
        await self._server.run(_ADD_NAMES, [self._prefix + hashed(owner)], milliseconds(ttl), *names)
