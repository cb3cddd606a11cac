"""Calls that a framework's agent waits for are in a store of ours: seen, decided about, and used once."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from penstock import Agent, PIIDetector, PostgresStorage, SQLiteStorage, Workflow
from penstock.engine.values.errors import UsageError
from penstock.processors.guards import Restore
from penstock.processors.tools import ToolPolicy
from penstock.testing import ScriptedModel
from penstock.workflows.adapters.langchain import as_chat_model
from penstock.workflows.cli import main
from penstock.workflows.hosting.asking import HostCall
from penstock.workflows.hosting.reviews import HostReviews
from penstock.workflows.review import ReviewError, Reviews, WaitingRun
from tests.clock import SetClock
from tests.stores.postgres.servers import running, why_not
from tests.workflows.adapters.review_shops import SHOPS
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Return the only backend that the frameworks have."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


@pytest.fixture(params=SHOPS)
def make(request: pytest.FixtureRequest) -> Any:
    """Return what makes an agent of each framework."""
    return SHOPS[request.param]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SQLiteStorage]:
    """Yield a store in a file."""
    made = SQLiteStorage(tmp_path / "runs.db")
    yield made
    await made.close()


async def only(store: Any, **which: Any) -> WaitingRun:
    """Return the only run of a store."""
    [run] = (await Reviews(store).runs(**which)).items
    return run


def stored_bytes(folder: Path) -> bytes:
    """Return all bytes of a store."""
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def results(shop: Any, *, own: bool = False) -> list[str]:
    """Go on with the decisions of the store, or with an approval of the framework; return what the model reads."""
    read: list[str] | None = await (shop.own(approves=True) if own else shop.stored())
    assert read is not None
    return read


async def test_a_call_that_waits_is_shown_and_decided_by_the_command(
    make: Any, store: SQLiteStorage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``penstock review`` lists it, shows it and approves it; the tool then runs in another process, once."""
    shop = make(store, PIIDetector(redaction_method="placeholder"), question="Refund it to bob@example.com")
    held = await shop.ask()
    assert await shop.stored() is None
    run = await only(store)
    assert run.agent.endswith("/guard")
    assert (run.calls[0].tool, run.calls[0].arguments, run.question) == ("refund", {"order": 7}, "Refund it to [EMAIL]")
    command = ["review", "--store", str(tmp_path / "runs.db")]

    async def cli(*words: str) -> str:
        left = [command[0], *words, *command[1:]]
        assert await asyncio.get_running_loop().run_in_executor(None, main, left) == 0
        return capsys.readouterr().out

    [listed] = (await cli("list", "--format", "jsonl")).splitlines()
    assert json.loads(listed)["calls"][0]["tool"] == "refund"
    assert "refund" in await cli("show", run.run_id)
    assert "it can go on" in await cli("approve", run.run_id, "--by", "eve")
    other = make(SQLiteStorage(tmp_path / "runs.db"), PIIDetector(redaction_method="placeholder"), held=held)
    assert await other.stored() == ["order 7 is refunded"]
    assert (shop.ran, other.ran) == ([], [7])
    record = json.loads(await cli("show", run.run_id, "--json"))["record"]
    assert [(one["verdict"], one["by"]) for one in record["decisions"]] == [("approve", "eve")]
    assert (await Reviews(store).runs()).items == ()
    assert b"bob@example" not in (tmp_path / "runs.db").read_bytes()


async def test_the_reason_of_a_refusal_reaches_the_model(make: Any, store: SQLiteStorage) -> None:
    """As the guards leave it; the call waits no more."""
    shop = make(store, PIIDetector(redaction_method="placeholder"))
    await shop.ask()
    await Reviews(store).reject((await only(store)).run_id, reason="ask bob@example.com", by="eve")
    [said] = await results(shop)
    assert said.endswith("ask [EMAIL]")
    assert shop.ran == []
    assert (await only(store, status=None)).status == "ended"


async def test_other_arguments_of_the_reviewer_run_where_the_framework_takes_them(
    make: Any, store: SQLiteStorage
) -> None:
    """The guards judge them; elsewhere the tool does not run."""
    shop = make(store)
    await shop.ask()
    await Reviews(store).approve((await only(store)).run_id, arguments={"order": 8})
    [said] = await results(shop)
    if make.edits:
        assert (shop.ran, said.endswith("order 8 is refunded")) == ([8], True)
    else:
        assert (shop.ran, "other arguments" in said) == ([], True)
    assert (await only(store, status=None)).status == "ended"


async def test_each_call_of_an_answer_waits_for_itself(make: Any, store: SQLiteStorage) -> None:
    """The run goes on when all are decided."""
    shop = make(store, orders=(7, 8))
    await shop.ask()
    runs = (await Reviews(store).runs()).items
    assert sorted(run.calls[0].arguments["order"] for run in runs) == [7, 8]
    by_order = {run.calls[0].arguments["order"]: run.run_id for run in runs}
    await Reviews(store).approve(by_order[7])
    assert await shop.stored() is None
    await Reviews(store).reject(by_order[8])
    assert "order 7 is refunded" in await results(shop)
    assert shop.ran == [7]
    assert (await Reviews(store).runs()).items == ()


async def test_the_frameworks_own_decision_is_stored(make: Any, store: SQLiteStorage) -> None:
    """With the adapter as who decided."""
    for number, approves in enumerate((True, False)):
        shop = make(store, orders=(7 + number,))
        await shop.ask()
        run = await only(store)
        await shop.own(approves=approves)
        assert shop.ran == ([7] if approves else [])
        [made] = (await Reviews(store).record(run.run_id))["decisions"]
        assert (made["verdict"], made["by"].partition(".")[0]) == (
            "approve" if approves else "reject",
            run.agent.partition("/")[0],
        )
        assert (await Reviews(store).runs()).items == ()


async def test_a_refusal_in_the_store_counts_more_than_an_approval_elsewhere(make: Any, store: SQLiteStorage) -> None:
    """A call is decided about once."""
    shop = make(store)
    await shop.ask()
    await Reviews(store).reject((await only(store)).run_id)
    assert await shop.own(approves=True) == ["The call was not run: a person rejected it."]
    assert shop.ran == []


@pytest.mark.parametrize("in_store", [True, False])
async def test_of_several_processes_one_runs_the_tool(
    make: Any, store: SQLiteStorage, tmp_path: Path, in_store: bool
) -> None:
    """Each with a connection and an adapter of its own; the others' models are told."""
    held = await make(store).ask()
    if in_store:
        await Reviews(store).approve((await only(store)).run_id)
    shops = [make(SQLiteStorage(tmp_path / "runs.db"), held=held) for _ in range(4)]
    others = shops[1:] if make is not SHOPS["langchain"] else []  # a finished graph of LangGraph cannot be resumed
    assert await (shops[0].stored() if in_store else shops[0].own(approves=True)) == ["order 7 is refunded"]
    for shop in others:
        [said] = await shop.own(approves=True)
        assert "its approval was used before" in said
    assert [order for shop in shops for order in shop.ran] == [7]


async def test_processes_that_go_on_at_once_run_the_tool_once(make: Any, store: SQLiteStorage, tmp_path: Path) -> None:
    """By compare-and-set in the store."""
    held = await make(store).ask()
    shops = [make(SQLiteStorage(tmp_path / "runs.db"), held=held) for _ in range(4)]
    await asyncio.gather(*[shop.own(approves=True) for shop in shops], return_exceptions=True)
    assert [order for shop in shops for order in shop.ran] == [7]


@pytest.mark.rest
async def test_postgresql_holds_them_too(make: Any) -> None:
    """Two connections: one approves, and of two agents one runs the tool."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running() as server:
        async with PostgresStorage(server.url) as first, PostgresStorage(server.url) as second:
            held = await make(first).ask()
            await Reviews(second).approve((await only(second)).run_id, by="eve")
            shops = [make(one, held=held) for one in (first, second)]
            assert await results(shops[0]) == ["order 7 is refunded"]
            if make is not SHOPS["langchain"]:
                await results(shops[1], own=True)
            assert [order for shop in shops for order in shop.ran] == [7]
            assert (await Reviews(second).runs()).items == ()


@pytest.mark.rest
async def test_processes_race_and_one_is_killed(store: SQLiteStorage, tmp_path: Path) -> None:
    """No refund runs twice; at most the one that the killed process had begun is missing."""
    framework, orders = "pydantic-ai", range(10, 30)
    for order in orders:
        held = await SHOPS[framework](store, orders=(order,)).ask()
        kept = held.decode() if isinstance(held, bytes) else held
        (tmp_path / f"held-{order}").write_text(json.dumps(kept), "utf-8")
    command = [sys.executable, "-m", "tests.workflows.adapters.host_racing", framework, str(tmp_path)]
    ran, left = tmp_path / "ran", list[int]()

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def refunded() -> list[str]:
        return ran.read_text("utf-8").split() if ran.exists() else []

    def race() -> list[int | None]:
        racers = [begin() for _ in range(3)]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        until = time.monotonic() + 100
        while len(refunded()) < 3 and time.monotonic() < until:  # they are at work
            time.sleep(0.005)
        racers[0].kill()
        left.append(len(orders) - len(refunded()))
        for racer in racers:
            racer.communicate(timeout=200)
        return [racer.returncode for racer in racers]

    codes = await asyncio.get_running_loop().run_in_executor(None, race)
    assert codes == [-signal.SIGKILL, 0, 0]
    assert left[0] > 0, "it was killed while there was work"
    assert len(refunded()) == len({*refunded()})
    assert len(orders) - 1 <= len(refunded()) <= len(orders)


async def test_an_approval_is_of_this_policy_and_this_tool(make: Any, store: SQLiteStorage) -> None:
    """A person who was shown the call under other guards, or of another tool, has not approved this one."""
    changes: list[dict[str, Any]] = [
        {"asks": ToolPolicy(ask=["refund"], limits={"refund": 3})},
        {"about": "Refund an order to anybody."},
    ]
    for number, changed in enumerate(changes):
        order = 7 + number
        held = await make(store, orders=(order,)).ask()
        await Reviews(store).approve((await only(store)).run_id)
        shop = make(store, orders=(order,), held=held, **changed)
        [said] = await results(shop)
        assert shop.ran == []
        assert "have changed since" in said or "given for other arguments" in said
        assert (await Reviews(store).runs()).items == ()


async def test_values_that_are_put_back_are_not_stored(make: Any, store: SQLiteStorage, tmp_path: Path) -> None:
    """A person sees their tokens; the tool gets the values, which the framework holds."""
    guards = (PIIDetector(redaction_method="token", phase="input"), Restore())
    shop = make(store, *guards, question="Refund it to bob@example.com", to="[EMAIL_1]")
    await shop.ask()
    run = await only(store)
    assert (run.question, run.calls[0].arguments) == ("Refund it to [EMAIL_1]", {"order": 7, "to": "[EMAIL_1]"})
    await Reviews(store).approve(run.run_id)
    await results(shop)
    assert shop.ran == [(7, "bob@example.com")]
    assert b"bob@" not in stored_bytes(tmp_path)


@pytest.mark.parametrize("own", [True, False])
async def test_time_that_is_over_is_no_refusal(make: Any, store: SQLiteStorage, own: bool) -> None:
    """Nobody can decide any more; the model is told that nobody has."""
    clock = SetClock()
    reviews = Reviews(store, expires_in=60, clock=clock)
    shop = make(reviews)
    await shop.ask()
    run = await only(store)
    clock.move(61)
    with pytest.raises(ReviewError, match="time is over"):
        await reviews.approve(run.run_id)
    [said] = await results(shop, own=own)
    assert said == "The call was not run: nobody decided about it in time. That is no refusal."
    assert shop.ran == []
    assert (await only(store, status=None)).status == "ended"
    assert (await reviews.record(run.run_id))["decisions"] == []


async def test_who_may_decide_holds_for_the_framework_too(make: Any, store: SQLiteStorage) -> None:
    """A framework's approval names nobody but its adapter."""
    reviews = Reviews(store, may_decide=lambda _, by: by == "eve")
    shop = make(reviews)
    await shop.ask()
    [said] = await shop.own(approves=True)
    assert (said, shop.ran) == ("The call was not run: whoever approved it may not decide about it.", [])


@pytest.mark.parametrize("ended", [True, False])
async def test_a_call_that_is_asked_about_again_keeps_its_rule(store: SQLiteStorage, ended: bool) -> None:
    """Also if the process that asks again does not know it."""
    clock, call = SetClock(), HostCall("refund", {"order": 7}, "call-1", "thread")
    ruled = Reviews(store, expires_in=60, clock=clock, may_decide=lambda _, by: bool(by))
    other = Reviews(store, clock=clock)
    first, second = [HostReviews(one, "guard", "langchain.as_middleware", lambda: "policy") for one in (ruled, other)]
    async with Workflow("w").then(PIIDetector()).start() as run:
        await first.ask(call, run, None)
        if ended:
            assert await first.use(call, call.arguments, run, asks=True) is None
        clock.move(61)
        await second.ask(call, run, None)
    assert (await only(store)).has_rule


async def test_a_call_that_is_not_stored_does_not_run(make: Any, store: SQLiteStorage) -> None:
    """Such as one that was deleted meanwhile."""
    shop = make(store)
    await shop.ask()
    await Reviews(store).delete((await only(store)).run_id)
    await shop.own(approves=True)
    assert shop.ran == []


async def test_an_agent_of_ours_does_not_go_on_with_it(make: Any, store: SQLiteStorage) -> None:
    """A service that looks for requests which are decided about finds those of other frameworks, too."""
    shop = make(store)
    await shop.ask()
    run = await only(store)
    await Reviews(store).approve(run.run_id)
    with pytest.raises(ReviewError, match="no request of an agent"):
        await Agent(ScriptedModel(["Hi"]), reviews=store).resume(run.run_id)
    assert await shop.stored() == ["order 7 is refunded"]


async def test_a_lost_store_lets_no_tool_run(make: Any, store: SQLiteStorage, tmp_path: Path) -> None:
    """Nobody knows whether the approval was used."""
    shop = make(store)
    await shop.ask()
    await store.close()
    with sqlite3.connect(tmp_path / "runs.db") as file:
        file.execute("DROP TABLE penstock_runs")
    with pytest.raises(Exception, match=r"store|SQLite"):
        await shop.own(approves=True)
    assert shop.ran == []


def test_only_where_the_framework_waits() -> None:
    """Elsewhere there is nothing to store."""
    with pytest.raises(UsageError, match="cannot wait for people"):
        as_chat_model(ScriptedModel([]), PIIDetector(), reviews=SQLiteStorage("x.db"))  # type: ignore[arg-type]
