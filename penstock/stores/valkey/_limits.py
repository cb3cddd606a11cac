"""`ValkeyRateLimit` and `ValkeyBreaker`: requests in a time, and circuits, counted over all replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.protocols import RANDOM_IDS
from penstock.stores.checks import check_breaker, check_rate
from penstock.stores.valkey._cache import hashed
from penstock.stores.valkey._connections import ServerScript

if TYPE_CHECKING:
    from penstock.stores.valkey._connections import ValkeyServer

_TAKE = ServerScript("""
-- The key holds when the client's bucket is full again, in microseconds (the generic cell rate algorithm).
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now) + interval
if full - now > burst + 1 then return string.format('%.0f', full - now - burst) end
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return '0'
""")

_BREAKER = """
-- KEYS when the circuit opened, times of failures; ARGV failures, within, pause (milliseconds)
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local most, within, pause = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. (now - within))
local opened = tonumber(redis.call('GET', KEYS[1]))
if opened and now - opened >= pause and redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1])
  opened = nil
end
local function open() redis.call('SET', KEYS[1], string.format('%.0f', now), 'PX', within + pause) end
"""
_FAILED = ServerScript(
    _BREAKER
    + """
redis.call('ZADD', KEYS[2], now, ARGV[4])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -most - 1)
redis.call('PEXPIRE', KEYS[2], within)
if not opened then
  if redis.call('ZCARD', KEYS[2]) >= most then open(); return 0 end
  return 1
end
if now - opened < pause then return 0 end
open()
return 1
"""
)
_ADMITS = ServerScript(
    _BREAKER
    + """
if not opened then return 1 end
if now - opened < pause then return 0 end
open()
return 1
"""
)
_SUCCEEDED = ServerScript("return redis.call('DEL', KEYS[1], KEYS[2])")
_IS_OPEN = ServerScript("return redis.call('EXISTS', KEYS[1])")


class ValkeyRateLimit:
    """A `RateLimiter` in a Valkey server."""

    def __init__(self, server: ValkeyServer, prefix: str, requests: int, per: float) -> None:
        check_rate("ValkeyState", requests, per)
        self._server = server
        self._prefix = f"{prefix}:rate:"
        self._burst = per * 1e6
        self._interval = self._burst / requests

    async def take(self, client: str) -> float:
        """Count a request of a client; return 0, or after how many seconds it may try again."""
        found: bytes = await self._server.run(_TAKE, [self._prefix + hashed(client)], self._interval, self._burst)
        return int(found) / 1e6


class ValkeyBreaker:
    """A `Breaker` in a Valkey server."""

    def __init__(self, server: ValkeyServer, prefix: str, failures: int, within: float, pause: float) -> None:
        check_breaker("ValkeyState", failures, within, pause)
        self._server = server
        self._prefix = f"{prefix}:circuit:"
        self._options = (failures, round(within * 1000), round(pause * 1000))
        self.pause = pause

    async def failed(self, model: str) -> bool:
        """Count a failed call; return whether it may be retried."""
        return int(await self._server.run(_FAILED, self._keys(model), *self._options, RANDOM_IDS.next())) == 1

    async def admits(self, model: str) -> bool:
        """Return whether a first call may be made; of an open circuit, one after each pause, over all replicas."""
        return int(await self._server.run(_ADMITS, self._keys(model), *self._options)) == 1

    async def succeeded(self, model: str) -> None:
        """Close the circuit."""
        await self._server.run(_SUCCEEDED, self._keys(model))

    async def is_open(self, model: str) -> bool:
        """Return whether the circuit is open."""
        return int(await self._server.run(_IS_OPEN, self._keys(model))) == 1

    def _keys(self, model: str) -> list[str]:
        key = f"{self._prefix}{{{hashed(model)}}}"
        return [key, f"{key}:failures"]
