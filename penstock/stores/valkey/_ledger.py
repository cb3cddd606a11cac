"""`ValkeyLedger`: costs spent and reserved, in scripts that the server runs as one step.

A budget has five kinds of keys, which share a hash tag, and so a slot of a cluster:

    (none)       a hash: the amounts that each model and all of them have spent, reservations by holder, expired ones
    :leases      holders by the end of their lease
    :names       names of settled amounts, and of expired reservations, by time
    :marks       the amount spent before a bucket of time: ``start:width:amount``, by start
    :marks:…     the same for each model

The amount spent since a time is the total, less the amount of the bucket that the time lies in: a window
rolls over without a reset, whatever its length. Buckets become wider with age.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from penstock.engine.values.ledgers import UNSETTLED, Reservation
from penstock.stores.amounts import NAMES_KEPT, amount, limit_units, units, window_text
from penstock.stores.valkey._connections import ServerScript

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ledgers import Window
    from penstock.stores.valkey._connections import ValkeyServer

WINDOWS = """
local function clock() local t = redis.call('TIME'); return t[1] * 1000 + math.floor(t[2] / 1000) end
local function whole(n) return string.format('%.0f', n) end

-- When a window began, in seconds; nil for all time. `now` is in seconds.
local function window_start(window, now)
  if window == 'ever' then return nil end
  local day = math.floor(now / 86400)
  if window == 'day' then return day * 86400 end
  if window == 'week' then return (day - (day + 3) % 7) * 86400 end
  if window == 'month' then
    -- Days since the first of the month: Howard Hinnant's civil_from_days, whose years begin in March.
    local e = (day + 719468) % 146097
    local y = math.floor((e - math.floor(e / 1460) + math.floor(e / 36524) - math.floor(e / 146096)) / 365)
    local d = e - (365 * y + math.floor(y / 4) - math.floor(y / 100))
    local m = math.floor((5 * d + 2) / 153)
    return (day - (d - math.floor((153 * m + 2) / 5))) * 86400
  end
  return now - tonumber(window)
end
"""

_SPENT = """
local function bucket(mark) return string.match(mark, '^(%d+):(%d+):(%d+)$') end

-- The amount spent since a time, with the whole bucket that it lies in.
local function spent_since(marks, total, since)
  if since == nil then return total end
  local mark = redis.call('ZREVRANGEBYSCORE', marks, since, '-inf', 'LIMIT', 0, 1)[1]
  if mark then
    local start, width, before = bucket(mark)
    if start + width > since then return total - before end
  end
  mark = redis.call('ZRANGEBYSCORE', marks, '(' .. since, '+inf', 'LIMIT', 0, 1)[1]
  if not mark then return 0 end
  local _, _, before = bucket(mark)
  return total - before
end
"""

_LIFE = "local LIFE = 401 * 86400\nlocal function touch(key) redis.call('EXPIRE', key, LIFE) end\n"

_SPEND = """
-- Width of buckets, how long they stay so narrow, and the next width; all in seconds.
local LEVELS = {{1, 120, 60}, {60, 28800, 3600}, {3600, 691200, 86400}}

-- Let old buckets of a width become part of wider ones: the first of them has the amount before.
local function widen(marks, width, keeps, wider, now)
  local edge = math.floor((now - keeps) / wider) * wider
  local last = -1
  for _, mark in ipairs(redis.call('ZRANGEBYSCORE', marks, '-inf', '(' .. edge)) do
    local start, wide, before = bucket(mark)
    if tonumber(wide) == width then
      local place = math.floor(start / wider) * wider
      if place ~= last then
        local is_there = false
        for _, other in ipairs(redis.call('ZRANGEBYSCORE', marks, place, place)) do
          local _, other_width = bucket(other)
          if tonumber(other_width) == wider then is_there = true end
        end
        if not is_there then redis.call('ZADD', marks, place, place .. ':' .. wider .. ':' .. before) end
        last = place
      end
      redis.call('ZREM', marks, mark)
    end
  end
end

local function spend(account, marks, field, cost, now)
  local second = math.floor(now / 1000)
  local newest = redis.call('ZREVRANGE', marks, 0, 0, 'WITHSCORES')
  if not newest[1] or tonumber(newest[2]) < second then
    local before = redis.call('HGET', account, field) or '0'
    redis.call('ZADD', marks, second, second .. ':1:' .. before)
    local earlier = tonumber(newest[2] or '0')
    for _, level in ipairs(LEVELS) do
      if math.floor(earlier / level[3]) ~= math.floor(second / level[3]) then
        widen(marks, level[1], level[2], level[3], second)
      end
    end
    redis.call('ZREMRANGEBYSCORE', marks, '-inf', second - LIFE)
    touch(marks)
  end
  redis.call('HINCRBY', account, field, whole(cost))
end

-- Count the reservations whose lease has ended as spent: their holders may have spent them.
local function expire(account, leases, names, marks, unsettled, model, now)
  for _, holder in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 1000)) do
    local held = redis.call('HGET', account, 'r:' .. holder)
    redis.call('ZREM', leases, holder)
    if held then
      redis.call('HDEL', account, 'r:' .. holder)
      redis.call('HINCRBY', account, 'held', '-' .. held)
      redis.call('HSET', account, 'x:' .. holder, held)
      redis.call('ZADD', names, now, 'x:' .. holder)
      spend(account, marks, 'spent', tonumber(held), now)
      spend(account, unsettled, 'm:' .. model, tonumber(held), now)
      touch(names)
    end
  end
end

local function release(account, leases, holder)
  local held = redis.call('HGET', account, 'r:' .. holder)
  if held then
    redis.call('HDEL', account, 'r:' .. holder)
    redis.call('HINCRBY', account, 'held', '-' .. held)
  end
  redis.call('ZREM', leases, holder)
end
"""

RESERVE = ServerScript(
    WINDOWS
    + _SPENT
    + _LIFE
    + _SPEND
    + """
-- KEYS account, leases, names, marks, marks of expired reservations
-- ARGV holder, cost, limit, window, seconds of the lease, name of expired reservations
local account, leases, names, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, cost, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = clock()
expire(account, leases, names, marks, KEYS[5], ARGV[6], now)
release(account, leases, holder)
redis.call('HDEL', account, 'x:' .. holder)
local spent = tonumber(redis.call('HGET', account, 'spent') or '0')
spent = spent_since(marks, spent, window_start(ARGV[4], now / 1000))
local held = tonumber(redis.call('HGET', account, 'held') or '0')
local granted = spent + held < limit and spent + held + cost <= limit
if granted and cost > 0 then
  redis.call('HSET', account, 'r:' .. holder, ARGV[2])
  redis.call('HINCRBY', account, 'held', ARGV[2])
  redis.call('ZADD', leases, now + tonumber(ARGV[5]) * 1000, holder)
  touch(leases)
  touch(account)
end
return {whole(spent), whole(held), granted and 1 or 0}
"""
)

SETTLE = ServerScript(
    WINDOWS
    + _LIFE
    + _SPENT
    + _SPEND
    + """
-- KEYS account, leases, names, marks, marks of expired reservations, marks of the model
-- ARGV charge, cost, name of the model, holder or '', name of expired reservations, seconds that names are kept
local account, leases, names, marks = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = clock()
expire(account, leases, names, marks, KEYS[5], ARGV[5], now)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', names, '-inf', now - tonumber(ARGV[6]) * 1000, 'LIMIT', 0, 100)) do
  redis.call('ZREM', names, name)
  if string.sub(name, 1, 2) == 'x:' then redis.call('HDEL', account, name) end
end
if redis.call('ZADD', names, 'NX', now, 'c:' .. ARGV[1]) == 0 then return 0 end
local cost, holder = tonumber(ARGV[2]), ARGV[4]
if holder ~= '' then
  release(account, leases, holder)
  local counted = redis.call('HGET', account, 'x:' .. holder)
  if counted then
    cost = math.max(0, cost - tonumber(counted))
    redis.call('HDEL', account, 'x:' .. holder)
    redis.call('ZREM', names, 'x:' .. holder)
  end
end
if cost > 0 then
  spend(account, marks, 'spent', cost, now)
  spend(account, KEYS[6], 'm:' .. ARGV[3], cost, now)
end
touch(account)
touch(names)
return 1
"""
)

RELEASE = ServerScript(
    WINDOWS
    + _LIFE
    + _SPENT
    + _SPEND
    + """
-- KEYS as for RESERVE; ARGV holder, name of expired reservations
expire(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[2], clock())
release(KEYS[1], KEYS[2], ARGV[1])
return 1
"""
)

MODELS = ServerScript("return redis.call('HKEYS', KEYS[1])")

SPENT = ServerScript(
    WINDOWS
    + _LIFE
    + _SPENT
    + """
-- KEYS account, then the marks of models; ARGV window, then the names of those models
local since = window_start(ARGV[1], clock() / 1000)
local found = {}
for place = 2, #KEYS do
  local total = tonumber(redis.call('HGET', KEYS[1], 'm:' .. ARGV[place]) or '0')
  found[place - 1] = whole(spent_since(KEYS[place], total, since))
end
return found
"""
)


class ValkeyLedger:
    """A `CostLedger` in a Valkey server. Amounts are whole millionths; times are those of the server's clock."""

    def __init__(self, server: ValkeyServer, prefix: str) -> None:
        self._server = server
        self._prefix = prefix

    async def reserve(
        self, key: str, holder: str, cost: Decimal, *, limit: Decimal | None, window: Window, lease: float
    ) -> Reservation:
        """Reserve an amount if it fits; see `CostLedger.reserve`."""
        args = (holder, units(cost), limit_units(limit), window_text(window), lease, UNSETTLED)
        spent, held, granted = await self._server.run(RESERVE, self._keys(key), *args)
        return Reservation(amount(int(spent)), amount(int(held)), granted == 1)

    async def settle(self, key: str, charge: str, model: str, cost: Decimal, *, holder: str | None = None) -> None:
        """Count an amount as spent, once, in place of a reservation; see `CostLedger.settle`."""
        keys = [*self._keys(key), self._marks(key, model)]
        await self._server.run(SETTLE, keys, charge, units(cost), model, holder or "", UNSETTLED, NAMES_KEPT)

    async def release(self, key: str, holder: str) -> None:
        """Remove the reservation of a holder, if there is one; one whose lease has ended counts as spent."""
        await self._server.run(RELEASE, self._keys(key), holder, UNSETTLED)

    async def breakdown(self, key: str, window: Window = None) -> Mapping[str, Decimal]:
        """Return the amounts spent under a key within a window, by model, without zeros."""
        fields: list[bytes] = await self._server.run(MODELS, [self._account(key)])
        models = [field[2:].decode() for field in fields if field.startswith(b"m:")]
        keys = [self._account(key), *(self._marks(key, model) for model in models)]
        spent: list[Value] = await self._server.run(SPENT, keys, window_text(window), *models)
        return {model: amount(int(found)) for model, found in zip(models, spent, strict=True) if int(found)}

    def _account(self, key: str) -> str:
        """Return the first key of a budget. It does not reveal whose it is."""
        return f"{self._prefix}:ledger:{{{hashlib.sha256(key.encode()).hexdigest()[:32]}}}"

    def _keys(self, key: str) -> list[str]:
        account = self._account(key)
        names = [f"{account}:{name}" for name in ("leases", "names", "marks")]
        return [account, *names, self._marks(key, UNSETTLED)]

    def _marks(self, key: str, model: str) -> str:
        return f"{self._account(key)}:marks:{model}"
