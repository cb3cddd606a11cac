"""A stored request that ends in an unusual way is ended or given back at once: no run waits for its lease."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import Agent, InMemoryStorage, PIIDetector, Processor, Workflow
from penstock.engine.values.errors import ModelError, ReviewError, StorageConflictError, StorageError
from penstock.engine.values.frozen import FrozenDict
from penstock.processors.guards import Restore
from penstock.processors.memory import vaults_of
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from tests.workflows.review.judging import Judges
from tests.workflows.review.made import CALLS, SECRET, Shop, agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine import InputContext
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.stored import StoredRun
    from penstock.workflows.agent.stream import AgentStream

pytestmark = pytest.mark.anyio
DOWN = {"error": {"status": 400, "message": "down"}}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


class Fails(InMemoryStorage):
    """Fails when it saves a run with one of these statuses."""

    def __init__(self, *statuses: str, error: type[StorageError] = StorageError, most: int = 99) -> None:
        super().__init__()
        self.statuses = statuses
        self._error = error
        self.most = most

    async def save_run(self, run: StoredRun) -> StoredRun:
        if run.status in self.statuses and self.most:
            self.most -= 1
            if self._error is StorageConflictError:
                raise StorageConflictError("a store", run.id, 9)
            raise StorageError("a store", "it is gone")
        return await super().save_run(run)


def verdict_beside_error(store: InMemoryStorage) -> Agent:
    """Return an agent whose check beside the model rejects, on which a hook of the stream breaks."""
    broke = anyio.Event()

    class Check(Processor[dict[str, Any]]):
        edits = "nothing"

        async def process_input(self, ctx: InputContext) -> None:
            await broke.wait()
            ctx.abort("not this")

    class Breaks(Processor[dict[str, Any]]):
        on_error = "raise"

        async def process_output_stream(self, chunk: Chunk, ctx: Any) -> Chunk:
            del chunk, ctx
            broke.set()
            try:
                await anyio.sleep_forever()  # until the verdict cancels it
            finally:
                raise ZeroDivisionError

    steps: list[Any] = [Workflow("guard").then(Check(), overlap="model"), Breaks()]
    return Agent(ScriptedModel(["hello"]), processors=steps, reviews=Reviews(store, from_start=True))


@pytest.mark.parametrize("failures", [0, 1])
async def test_a_run_that_a_verdict_and_an_error_end_has_ended(failures: int) -> None:
    """The verdict counts, and it is stored at once; also if the error is that of a store that fails for a moment."""
    store = Fails("ended", most=failures)
    result = await verdict_beside_error(store).generate("Hi", run_id="r")
    assert result.status == "blocked"
    assert (await Reviews(store).run("r")).status == "ended"


@pytest.mark.parametrize("error", [StorageError, StorageConflictError])
async def test_a_verdict_counts_though_the_store_fails(error: type[StorageError]) -> None:
    """The client gets the verdict alone."""
    store = Fails("ended", error=error)
    result = await verdict_beside_error(store).generate("Hi", run_id="r")
    assert (result.status, result.error) == ("blocked", None)


async def test_an_error_is_told_though_the_store_fails() -> None:
    """The caller gets the error of the model, and the client an error chunk."""
    store, shop = Fails(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    store.statuses = ("waiting",)
    seen: list[str] = []
    async with agent(store, [DOWN], shop).resume_stream(asked.run_id) as stream:
        with pytest.raises(ModelError):
            await _read(stream, seen)
    assert "error" in seen
    assert stream.status == "failed"


async def _read(stream: AgentStream, seen: list[str]) -> None:
    async for chunk in stream:
        seen.append(chunk.type)  # noqa: PERF401 - what came before an error counts


@pytest.mark.parametrize("at", ["start", "tool-result", "text-delta"])
async def test_a_cancelled_request_leaves_the_run_to_others(at: str) -> None:
    """Where it stood."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    async with agent(store, ["Done."], shop).resume_stream(asked.run_id) as stream:
        async for chunk in stream:
            if chunk.type == at:
                stream.cancel()
    assert stream.status == "cancelled"
    assert (await Reviews(store).run(asked.run_id)).status == "waiting"
    done = await agent(store, ["Done."], shop).resume(asked.run_id)
    assert (done.status, len(shop.refunded)) == ("success", 1)


class Lost(InMemoryStorage):
    """Makes a save, and does not say so: it hangs, or an error is raised. Which save is said by ``lose``."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs
        self.lose: Callable[[StoredRun], bool] = lambda _: False
        self.held = anyio.Event()

    async def save_run(self, run: StoredRun) -> StoredRun:
        saved = await super().save_run(run)
        if not self.lose(run):
            return saved
        self.lose = lambda _: False
        self.held.set()
        if self.hangs:
            await anyio.sleep_forever()
        raise StorageError("a store", "the connection broke while a change was committed")

    async def cancel(self, stream: AgentStream) -> None:
        """Cancel a request when it hangs."""
        await self.held.wait()
        stream.cancel()


async def lose(store: Lost, stream: AgentStream) -> None:
    """Read a stream of which a save is lost: it is cancelled there, or fails."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            async with stream:
                if store.hangs:
                    group.start_soon(store.cancel, stream)
                    await _read(stream, [])
                else:
                    with pytest.raises(StorageError, match="the connection broke"):
                        await _read(stream, [])
            assert store.held.is_set()


@pytest.fixture(params=[True, False], ids=["cancelled", "answer lost"])
def lost(request: pytest.FixtureRequest) -> Lost:
    """Return a store whose answers get lost."""
    return Lost(hangs=request.param)


async def test_a_request_that_goes_on_waits_again_if_a_save_was_lost(lost: Lost) -> None:
    """The save was made, although nobody has heard of it; the tool had begun, for all that is known."""
    shop = Shop()
    asked = await agent(lost, [CALLS], shop).generate("Refund order 7")
    await Reviews(lost).approve(asked.run_id)
    lost.lose = lambda run: bool(run.body.get("begun"))
    await lose(lost, agent(lost, ["Done."], shop).resume_stream(asked.run_id))
    assert (await Reviews(lost).run(asked.run_id)).status == "waiting"
    done = await agent(lost, ["Done."], shop).resume(asked.run_id)
    assert (done.status, len(shop.refunded)) == ("success", 0)
    assert "unknown" in str(done.steps[0].tool_calls[0].error)


async def test_the_first_save_of_a_request_stays_claimed_by_nobody(lost: Lost) -> None:
    """It is stored from its start: it waits, and goes on where it stood; its tool runs once."""
    shop = Shop()
    reviews = Reviews(lost, from_start=True)
    lost.lose = lambda run: run.status == "running"
    await lose(lost, agent(reviews, [CALLS], shop).stream("Refund order 7", run_id="r"))
    assert (await reviews.run("r")).status == "waiting"
    asked = await agent(reviews, [CALLS], shop).resume("r")
    done = await agent(reviews, ["Done."], shop).resume("r", decisions={"call-1": True})
    assert (asked.status, done.status, len(shop.refunded)) == ("suspended", "success", 1)


async def test_the_first_save_for_the_sake_of_an_agent_leaves_nothing(lost: Lost) -> None:
    """The agent has not begun, so nobody is asked; hidden values are forgotten, too."""
    shop = Shop()
    clerk = agent(lost, [CALLS], shop)
    guards = [PIIDetector(redaction_method="token", phase="input"), Restore()]
    turn: Any = {"tool_calls": [{"name": "agent", "args": {"prompt": "Refund order 7"}}]}
    boss = Agent(ScriptedModel([turn]), tools=[clerk.as_tool()], processors=guards, reviews=lost)
    lost.lose = lambda run: run.status == "running"
    await lose(lost, boss.stream(f"Refund order 7, I am {SECRET}", run_id="r"))
    assert (await lost.runs()).items == ()
    assert vaults_of(lost).get("r") is None
    assert shop.refunded == []


async def test_another_process_that_has_the_same_id_is_left_alone() -> None:
    """Its first save is not taken for the one that was lost."""
    store = InMemoryStorage()
    reviews = Reviews(store, from_start=True)

    class Overtaken(InMemoryStorage):
        async def save_run(self, run: StoredRun) -> StoredRun:
            await store.save_run(replace(run, body=FrozenDict({**run.body, "claim": "another"})))
            return await store.save_run(run)

        async def run(self, run_id: str) -> StoredRun | None:
            return await store.run(run_id)

    with pytest.raises(ReviewError, match="another process has taken it over"):
        await agent(Reviews(Overtaken(), from_start=True), ["Hi"], Shop()).generate("Hi", run_id="r")
    assert (await reviews.run("r")).status == "running"


async def test_a_verdict_of_a_judge_whose_save_is_lost_does_not_end_the_request() -> None:
    """What is stored is read before the next save."""
    store = Lost(hangs=False)
    judge = Judges().guard(stages=("process_output_step",))
    made = Agent(ScriptedModel(["Hello."]), processors=[judge], reviews=Reviews(store, from_start=True))
    store.lose = lambda run: bool(run.body["record"]["judged"])
    done = await made.generate("Hi", run_id="r")
    assert (store.held.is_set(), done.status) == (True, "success")
    assert (await Reviews(store).run("r")).status == "ended"


async def test_a_run_whose_claim_is_lost_waits_again(lost: Lost) -> None:
    """Nobody goes on with it yet."""
    shop = Shop()
    asked = await agent(lost, [CALLS], shop).generate("Refund order 7")
    await Reviews(lost).approve(asked.run_id)
    lost.lose = lambda run: run.status == "running"
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:

            async def claims() -> None:
                with pytest.raises(StorageError) if not lost.hangs else nullcontext():
                    await Reviews(lost).claim(asked.run_id)

            group.start_soon(claims)
            await lost.held.wait()
            if lost.hangs:
                group.cancel_scope.cancel()
    assert (await Reviews(lost).run(asked.run_id)).status == "waiting"
    done = await agent(lost, ["Done."], shop).resume(asked.run_id)
    assert (done.status, len(shop.refunded)) == ("success", 1)


async def test_a_run_that_is_cancelled_while_its_request_is_prepared_waits_again() -> None:
    """Its claim was stored; a list of processors is still being made."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    began = anyio.Event()

    async def never(_: Any) -> Any:
        began.set()
        await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(agent(store, ["Done."], shop, processors=never).resume, asked.run_id)
            await began.wait()
            assert (await Reviews(store).run(asked.run_id)).status == "running"
            group.cancel_scope.cancel()
    assert (await Reviews(store).run(asked.run_id)).status == "waiting"


async def test_a_call_that_waits_is_noted_before_it_does(lost: Lost) -> None:
    """Else a client could approve it with its messages, and a person in the store, and it would run twice."""
    shop = Shop()
    where: Any = {"thread_id": "t", "resource_id": "ann"}
    asked = await agent(InMemoryStorage(), [CALLS], shop).generate("Refund order 7", **where)
    lost.lose = lambda run: run.status == "waiting"
    await lose(lost, agent(lost, [CALLS], shop).stream("Refund order 7", **where))
    [run] = (await Reviews(lost).runs()).items
    await agent(lost, ["Done."], shop).generate(asked.approve("call-1"), **where)
    with suppress(ReviewError):
        await agent(lost, ["Done."], shop).resume(run.run_id, decisions={"call-1": True})
    assert len(shop.refunded) == 1
