"""Budgets that replicas share: one ledger on real servers, and who dies on the way."""

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import anyio
import pytest

from penstock import Agent, TokenCostControl, Workflow
from penstock.engine import PenstockError, Usage
from penstock.engine.values.ledgers import UNSETTLED, window_start
from penstock.processors.budgets import CostLedger, Price, Reservation
from penstock.stores.shared import state_at
from penstock.stores.valkey import ValkeyState
from penstock.stores.valkey._connections import ServerScript
from penstock.stores.valkey._ledger import WINDOWS
from penstock.testing import ScriptedModel, VirtualClock
from penstock.workflows.policies import parse_policy
from tests.stores.replicas.processes import Forked
from tests.stores.replicas.servers import Place

ASK: dict[str, Any] = {"limit": Decimal(1), "window": "24h", "lease": 60}
SHORT: dict[str, Any] = {**ASK, "lease": 0.05}


async def test_it_reserves_settles_and_gives_back_like_the_one_in_memory(shared: Place) -> None:
    """With whole millionths: costs are rounded up, limits down."""
    async with shared.state() as state:
        ledger: CostLedger = state.ledger
        assert isinstance(ledger, CostLedger)
        assert await ledger.reserve("k", "a", Decimal("0.6"), **ASK) == Reservation(
            Decimal(0), Decimal(0), granted=True
        )
        assert await ledger.reserve("k", "b", Decimal("0.5"), **ASK) == (0, Decimal("0.6"), False)
        assert await ledger.reserve("k", "a", Decimal("0.7"), **ASK) == (0, 0, True)
        await ledger.settle("k", "c1", "m", Decimal("0.1000001"), holder="a")
        await ledger.settle("k", "c2", "n", Decimal("0.2"))
        assert await ledger.reserve("k", "b", Decimal("0.5"), **ASK) == (Decimal("0.300001"), 0, True)
        await ledger.release("k", "b")
        await ledger.release("k", "b")
        assert await ledger.reserve("k", "a", Decimal(0), **{**ASK, "limit": None}) == (Decimal("0.300001"), 0, True)
        assert await ledger.breakdown("k", "day") == {"m": Decimal("0.100001"), "n": Decimal("0.2")}
        assert await ledger.breakdown("other", None) == {}


async def test_what_is_settled_twice_counts_once(shared: Place) -> None:
    """A call whose answer was lost is repeated; the reservation of the next call is not dropped for it."""
    async with shared.state() as state:
        await state.ledger.reserve("k", "a", Decimal("0.2"), **ASK)
        await state.ledger.settle("k", "c", "m", Decimal("0.1"), holder="a")
        await state.ledger.reserve("k", "a", Decimal("0.2"), **ASK)
        await state.ledger.settle("k", "c", "m", Decimal("0.1"), holder="a")
        assert await state.ledger.reserve("k", "b", Decimal(0), **ASK) == (Decimal("0.1"), Decimal("0.2"), True)


@pytest.mark.parametrize(("actual", "total"), [("0.5", "0.6"), ("0.7", "0.7")])
async def test_a_lease_that_ends_counts_as_spent(shared: Place, actual: str, total: str) -> None:
    """Its holder may have spent it before it died; if it comes back, only what exceeds it is added."""
    async with shared.state() as state:
        await state.ledger.reserve("k", "a", Decimal("0.6"), **SHORT)
        await anyio.sleep(0.06)
        assert await state.ledger.reserve("k", "b", Decimal("0.5"), **ASK) == (Decimal("0.6"), 0, False)
        await state.ledger.release("k", "a")
        assert await state.ledger.breakdown("k", None) == {UNSETTLED: Decimal("0.6")}
        for _ in range(2):
            await state.ledger.settle("k", "c", "m", Decimal(actual), holder="a")
        assert sum((await state.ledger.breakdown("k", "month")).values()) == Decimal(total)


async def test_the_server_knows_when_a_calendar_window_began(shared: Place) -> None:
    """By its own clock alone: a client's clock is never sent."""
    chance = random.Random(5)  # noqa: S311 - moments, no secrets
    moments = [0, 951_782_400, 1_709_164_800, 4_107_542_399, *(chance.randrange(4_102_444_800) for _ in range(40))]
    async with shared.state() as state:
        since = _since_valkey(state) if isinstance(state, ValkeyState) else _since_postgres(state)
        for moment in moments:
            for window in ("day", "week", "month"):
                began = window_start(window, datetime.fromtimestamp(moment, UTC))
                assert await since(window, moment) == began.timestamp(), (window, moment)


def _since_valkey(state: ValkeyState) -> Callable[..., Any]:
    script = ServerScript(WINDOWS + "return whole(window_start(ARGV[1], tonumber(ARGV[2])))")

    async def since(window: str, moment: int) -> float:
        return float(await state._server.run(script, ["any"], window, moment))

    return since


def _since_postgres(state: Any) -> Callable[..., Any]:
    async def since(window: str, moment: int) -> float:
        sql = "SELECT {schema}.ledger_since($1, $2)"
        return await state._database.read(lambda session: session.value(sql, window, float(moment)))

    return since


@pytest.mark.rest
async def test_a_window_rolls_over_by_itself(shared: Place) -> None:
    """What was spent within the last second counts, with the second that it lies in; all time counts all."""
    window = timedelta(seconds=1)
    async with shared.state() as state:
        await state.ledger.settle("k", "c", "m", Decimal("0.4"))
        ask = {**ASK, "window": window}
        assert (await state.ledger.reserve("k", "a", Decimal(0), **ask)).spent == Decimal("0.4")
        with anyio.fail_after(60):
            while (await state.ledger.reserve("k", "a", Decimal(0), **ask)).spent:  # noqa: ASYNC110 - of a server
                await anyio.sleep(0.1)
        await state.ledger.settle("k", "c2", "m", Decimal("0.1"))
        assert await state.ledger.breakdown("k", window) == {"m": Decimal("0.1")}
        assert await state.ledger.breakdown("k", None) == {"m": Decimal("0.5")}


async def test_old_amounts_move_into_wider_buckets_and_none_is_lost(shared: Place) -> None:
    """Amounts of three weeks, put back in the store itself: its clock cannot be set."""
    ages = [30, 90, 400, 4_000, 40_000, 100_000, 400_000, 900_000, 1_800_000]
    async with shared.state() as state:
        for number, age in enumerate(sorted(ages, reverse=True)):
            await state.ledger.settle("k", f"c{number}", "m", Decimal("0.01"))
            await _put_back(state, age)
        await state.ledger.settle("k", "last", "m", Decimal("0.01"))
        for seconds in (60, 600, 86_400, 7 * 86_400, 30 * 86_400):
            counted = (await state.ledger.breakdown("k", timedelta(seconds=seconds)))["m"]
            least = Decimal("0.01") * (1 + sum(age <= seconds for age in ages))
            assert least <= counted <= least + Decimal("0.01"), seconds
        assert (await state.ledger.breakdown("k", None))["m"] == Decimal("0.1")
        widths = await _widths(state)
        assert {60, 3_600, 86_400} <= widths


async def _put_back(state: Any, age: int) -> None:
    """Make the newest bucket so many seconds old."""
    if not isinstance(state, ValkeyState):
        sql = (
            "UPDATE {schema}.ledger_spent SET start = start - $1 "
            "WHERE width = 1 AND start > extract(epoch FROM now()) - 20"
        )
        await state._database.read(lambda session: session.run(sql, age))
        return
    script = ServerScript(
        "for _, k in ipairs(KEYS) do local m = redis.call('ZREVRANGE', k, 0, 0)[1] "
        "local s, w, b = string.match(m, '^(%d+):(%d+):(%d+)$') redis.call('ZREM', k, m) "
        "redis.call('ZADD', k, s - ARGV[1], (s - ARGV[1]) .. ':' .. w .. ':' .. b) end"
    )
    ledger = state.ledger
    await state._server.run(script, [f"{ledger._account('k')}:marks", ledger._marks("k", "m")], age)


async def _widths(state: Any) -> set[int]:
    if not isinstance(state, ValkeyState):
        rows = await state._database.read(lambda session: session.rows("SELECT width FROM {schema}.ledger_spent"))
        return {row["width"] for row in rows}
    marks = await state._server.run(
        ServerScript("return redis.call('ZRANGE', KEYS[1], 0, -1)"), [state.ledger._marks("k", "m")]
    )
    return {int(mark.split(b":")[1]) for mark in marks}


# With a cost control


def control(ledger: Any, **options: Any) -> TokenCostControl:
    """A budget by which each token costs 1."""
    prices = {"*": Price(1_000_000, 1_000_000)}
    return TokenCostControl(10, scope="everybody", prices=prices, ledger=ledger, token_counter=lambda _: 1, **options)


async def test_two_replicas_share_a_budget(shared: Place) -> None:
    """What one has spent, the other refuses; at the end of a run nothing stays reserved."""
    async with shared.state() as one, shared.state() as other:
        async with Workflow("w").then(control(one.ledger, output_tokens=1)).start() as run:
            await run.process_input("hi")
            assert not (await run.process_input_step(model="m")).blocked
            run.spend("m", Usage(6, 4))
        assert (await Workflow("w").then(control(other.ledger)).check("hi")).blocked
        assert await one.ledger.reserve("everybody:all", "x", Decimal(0), **ASK) == (10, 0, False)


@pytest.mark.parametrize(("on_error", "blocked"), [("block", True), ("allow", False)])
@pytest.mark.parametrize("kind", ["valkey", "postgres"])
async def test_a_lost_store_follows_the_policy_of_the_step(
    kind: str, on_error: Any, blocked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """And tells nothing of its address."""
    urls = {
        "valkey": "valkey://u:pass-word@localhost:1/0",
        "postgres": "postgresql://u:pass-word@localhost:1/nowhere",
    }
    lost = Place(kind, urls[kind], "lost", None)
    async with lost.state(retry_for=0, timeout=1) as state:
        with caplog.at_level(logging.DEBUG, "penstock"):
            outcome = await Workflow("w").then(control(state.ledger, on_error=on_error)).check("hi")
        assert outcome.blocked is blocked
        told = f"{caplog.text} {outcome.tripwire} {state!r}"
        assert not any(word in told for word in ("pass-word", "localhost", "nowhere"))


async def test_clocks_of_replicas_may_differ_by_years(shared: Place) -> None:
    """The server's counts alone, for windows and for leases."""
    ahead = VirtualClock()
    ahead.advance(20 * 365 * 86_400)
    async with shared.state() as one, shared.state() as other:
        steps = [
            control(one.ledger, window="1h", clock=ahead),
            control(other.ledger, window="1h", clock=VirtualClock()),
        ]
        async with Workflow("w").then(steps[0]).start() as run:
            await run.process_input("hi")
            run.spend("m", Usage(6, 4))
        assert [(await Workflow("w").then(step).check("hi")).blocked for step in steps] == [True, True]


async def test_a_policy_file_names_a_server(shared: Place) -> None:
    """By a variable of the environment; all steps with one address share its connections, and nothing shows it."""
    text = "penstock: 1\nname: w\nsteps:\n  - use: response-cache\n    with: {cache: '${STATE_URL}'}\n"
    workflow = parse_policy(text, environment={"STATE_URL": shared.url})
    state = state_at(shared.url)
    answers = []
    for answer in ("one", "two"):
        agent = Agent(ScriptedModel([answer], name=shared.name), processors=[workflow])
        answers.append((await agent.generate("How deep?")).text)
    await state.close()
    assert answers == ["one", "one"]
    budget = TokenCostControl(1, ledger=shared.url, prices={"*": Price(1, 1)})
    assert budget._ledger is state.ledger
    with pytest.raises(PenstockError) as caught:
        workflow.to_policy()
    assert not any(shared.url in told for told in (repr(workflow), str(workflow), repr(budget), str(caught.value)))


# Many processes


def spender(shared: Place, number: int, limit: str, *, lease: float) -> Callable[..., Any]:
    """Return work that spends until nothing is left; it notes amounts before it spends them, and settles some twice."""
    chance = random.Random(number)  # noqa: S311 - amounts, no secrets

    async def work(note: Callable[[str], None]) -> None:
        async with shared.state(retry_for=20) as state:
            turn = 0
            while True:
                turn += 1
                holder, cost = f"{number}-{turn}", Decimal(chance.randrange(5, 20)) / 1000
                how: dict[str, Any] = {"limit": Decimal(limit), "window": "24h", "lease": lease}
                found = await state.ledger.reserve("budget", holder, cost, **how)
                if not found.granted:
                    note("refused")
                    return
                actual = cost - Decimal(chance.randrange(5)) / 1000
                note(str(actual))
                for _ in range(chance.randrange(1, 3)):
                    await state.ledger.settle("budget", holder, "m", actual, holder=holder)

    return work


async def sums(shared: Place, lease: float) -> tuple[Decimal, Decimal]:
    """Return what the ledger says was spent and is held, once all leases have ended."""
    await anyio.sleep(lease)
    async with shared.state(retry_for=20) as state:
        found = await state.ledger.reserve("budget", "auditor", Decimal(0), limit=None, window=None, lease=1)
        return found.spent, found.held


@pytest.mark.rest
def test_fourteen_processes_spend_no_more_than_there_is_though_some_die(shared: Place) -> None:
    """An independent count, noted before each amount is spent: at most the limit, and at most what the ledger says."""
    crowd = [Forked(spender(shared, number, "1.5", lease=0.4)) for number in range(14)]
    notes: list[str] = []
    for dying in crowd[:5]:
        notes.append(dying.line())
        dying.kill()
    for process in crowd:
        notes += process.end()
    spent = sum((Decimal(note) for note in notes if note != "refused"), Decimal(0))
    counted, held = anyio.run(sums, shared, 0.5)
    assert Decimal("1.3") < spent <= counted <= Decimal("1.5")
    assert held == 0


@pytest.mark.rest
def test_a_server_that_crashes_under_load_loses_nothing_and_counts_nothing_twice(shared: Place) -> None:
    """It is killed and started again while twelve processes spend."""
    if not hasattr(shared.server, "restart"):
        pytest.skip("the server is not ours: it cannot be restarted")
    crowd = [Forked(spender(shared, number, "0.8", lease=20)) for number in range(12)]
    notes = [process.line() for process in crowd]
    restarted = shared.server.restart("immediate") if shared.kind == "postgres" else None
    if restarted is None:
        shared.server.restart()
    else:
        anyio.run(lambda: restarted)
    for process in crowd:
        notes += process.end()
    spent = sum((Decimal(note) for note in notes if note != "refused"), Decimal(0))
    counted, held = anyio.run(sums, shared, 0)
    assert (counted, held) == (spent, 0)
    assert Decimal("0.7") < spent <= Decimal("0.8")
