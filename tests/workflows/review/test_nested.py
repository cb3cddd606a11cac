"""An agent as a tool of an agent: both wait for a person, and go on together in another process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Agent, PIIDetector, RegexFilterProcessor, Tool
from penstock.engine.values.errors import ModelError, ReviewError
from penstock.processors.guards import Restore
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from tests.workflows.review.made import SECRET, Shop
from tests.workflows.review.waits import STAGES, WatchedStore, asker

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.stored import StoredRun

pytestmark = pytest.mark.anyio

CALL: Any = {"tool_calls": [{"name": "clerk", "args": {"prompt": "Refund order 7"}}]}
REFUND: Any = {"tool_calls": [{"name": "refund", "args": {"order": 7, "note": SECRET}}]}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


class Office:
    """Two agents, of which one is a tool of the other; and the answers of their models that are left."""

    def __init__(self, *steps: Value, inner: tuple[Value, ...] = (REFUND, "It is refunded."), **options: Value) -> None:
        self.shop = Shop()
        self.left = {"outer": [CALL, "Done."], "inner": [*inner]}
        self.called = {"outer": 0, "inner": 0}
        self._steps = steps
        self._options: Any = {"approval": True, **options}

    def _model(self, name: str) -> ScriptedModel:
        model = ScriptedModel([*self.left[name]], name=name)
        stream = model.stream

        def noted(request: Value) -> Value:
            self.called[name] += 1
            del self.left[name][:1]
            return stream(request)

        model.stream = noted  # type: ignore[method-assign]
        return model

    def outer(self, store: WatchedStore | Reviews | None, *steps: Value) -> Agent:
        """Return the outer agent as one process makes it."""
        refund = Tool(self.shop.refund, **self._options)
        inner = Agent(self._model("inner"), id="clerk", tools=[refund], processors=[PIIDetector(), *self._steps])
        guards = [PIIDetector(), *steps]
        return Agent(self._model("outer"), id="boss", tools=[inner.as_tool()], processors=guards, reviews=store)


async def test_an_approval_in_the_inner_agent_suspends_the_outer_one() -> None:
    """A decision under the id of the outer run reaches the inner one, and each model is asked as often as usual."""
    office, store = Office(), WatchedStore()
    asked = await office.outer(store).generate(f"Refund order 7 for {SECRET}")
    assert (asked.status, office.called) == ("suspended", {"outer": 1, "inner": 1})
    waiting = {one.run_id: one for one in (await Reviews(store).runs()).items}
    (call,) = waiting[asked.run_id].calls
    assert (call.kind, call.tool, waiting[call.inner].calls[0].tool) == ("run", "clerk", "refund")
    with pytest.raises(ReviewError, match="nobody has decided about call-1"):
        await office.outer(store).resume(asked.run_id)
    await Reviews(store).approve(asked.run_id, by="eve")
    assert (await Reviews(store).run(call.inner)).calls[0].decision is not None
    done = await office.outer(store).resume(asked.run_id)
    assert (done.status, done.text, office.called) == ("success", "Done.", {"outer": 2, "inner": 2})
    assert done.steps[0].tool_calls[0].result == "It is refunded."
    assert [order for order, _ in office.shop.refunded] == [7]
    assert not any(SECRET in body for body in store.bodies)
    assert {one.status for one in (await Reviews(store).runs(status=None)).items} == {"ended"}


@pytest.mark.parametrize("stage", STAGES)
async def test_the_inner_agent_waits_at_each_stage(stage: str) -> None:
    """Its questions are those of the outer request."""
    office, store = Office(asker(stage), approval=False), WatchedStore()
    results = [await office.outer(store).generate("Refund order 7")]
    while results[-1].status == "suspended":
        said = {one.id: "yes" for one in results[-1].questions}
        results.append(await office.outer(store).resume(results[-1].run_id, results=said))
    assert len(results) > 1
    assert (results[-1].status, results[-1].text) == ("success", "Done.")
    assert (office.called, len(office.shop.refunded)) == ({"outer": 2, "inner": 2}, 1)
    assert not any(SECRET in body for body in store.bodies)


async def test_a_refusal_and_a_verdict_in_the_inner_agent_reach_the_outer_one() -> None:
    """A refused call is told to the inner model; a question that is refused blocks the inner agent alone."""
    office, store = Office(), WatchedStore()
    asked = await office.outer(store).generate("Refund order 7")
    done = await office.outer(store).resume(asked.run_id, decisions={"call-1": "not today"})
    assert (done.status, office.shop.refunded) == ("success", [])
    office, store = Office(asker("process_input")), WatchedStore()
    asked = await office.outer(store).generate("Refund order 7")
    done = await office.outer(store).resume(asked.run_id, results={asked.questions[0].id: "no"})
    assert (done.status, office.called["inner"]) == ("success", 0)
    assert "a person said no" in str(done.steps[0].tool_calls[0].error)


async def test_an_inner_agent_that_has_ended_is_not_asked_again_after_a_kill() -> None:
    """Its answer is in the store until the outer one has got it."""
    office, store = Office(), WatchedStore()
    asked = await office.outer(store).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id)
    before = await store.run(asked.run_id)
    done = await office.outer(store).resume(asked.run_id)
    killed = await store.run(asked.run_id)
    assert before is not None
    assert killed is not None
    over = datetime.now(UTC) - timedelta(seconds=1)  # as if the process had ended before it stored the answer
    body = {**before.body, "begun": ["call-1"]}
    await store.save_run(replace(killed, status="running", due_at=over, body=body))
    office.left["outer"] = ["Done again."]
    again = await office.outer(store).resume(asked.run_id)
    assert (again.status, again.text) == ("success", "Done again.")
    assert again.steps[0].tool_calls[0].result == done.steps[0].tool_calls[0].result
    assert (office.called["inner"], len(office.shop.refunded)) == (2, 1)


async def test_an_outer_request_that_was_lost_finds_the_inner_one_that_waits() -> None:
    """The process ended before it had stored the outer one; sent again with its id, it waits for the same questions."""
    office, store = Office(asker("process_input")), WatchedStore()
    asked = await office.outer(store).generate("Refund order 7", run_id="r")
    await store.delete_run("r")
    office.left["outer"] = [CALL, "Done."]
    again = await office.outer(store).generate("Refund order 7", run_id="r")
    assert [replace(one, expires_in=None) for one in asked.questions] == list(again.questions)
    assert (again.status, office.called["inner"]) == ("suspended", 0)


class Ends(WatchedStore):
    """Ends its process when the outer request begins to wait; from then on nothing is saved."""

    dies = True
    over = False

    async def save_run(self, run: StoredRun) -> StoredRun:
        self.over = self.dies and (self.over or (run.id, run.status) == ("r", "waiting"))
        if self.over:
            raise KeyboardInterrupt
        return await super().save_run(run)


class Later:
    """A clock behind all leases."""

    def now(self) -> datetime:
        """Return the time."""
        return datetime.now(UTC) + timedelta(seconds=700)


@pytest.mark.parametrize("stage", [None, "process_input", "process_tool_result"])
async def test_an_outer_request_that_dies_while_the_inner_one_waits_is_found(stage: str | None) -> None:
    """Nobody is asked in vain: `abandoned` tells it, it goes on, and nothing is paid for twice."""
    office = Office(*([] if stage is None else [asker(stage)]), approval=stage is None)
    store = Ends()
    with pytest.raises(KeyboardInterrupt):
        await office.outer(store).generate("Refund order 7", run_id="r")
    store.dies = False
    (waiting,) = (await Reviews(store).runs()).items
    assert waiting.run_id != "r"
    reviews = Reviews(store, clock=Later())
    assert [one.run_id for one in await reviews.abandoned()] == ["r"]
    called = {**office.called}
    results = [await office.outer(reviews).resume("r")]
    assert (results[-1].status, office.called) == ("suspended", called)
    while results[-1].status == "suspended":
        for id in await reviews.undecided("r"):
            call = await reviews.run(waiting.run_id)
            await (reviews.approve("r", id) if call.call(id).kind == "approval" else reviews.answer("r", id, "yes"))
        results.append(await office.outer(reviews).resume("r"))
    assert (results[-1].status, results[-1].text) == ("success", "Done.")
    assert (office.called, len(office.shop.refunded)) == ({"outer": 2, "inner": 2}, 1)
    assert {one.status for one in (await reviews.runs(status=None)).items} == {"ended"}


@pytest.mark.parametrize("end", ["success", "failed", "cancelled", "blocked"])
async def test_a_request_whose_agent_has_not_waited_leaves_nothing_in_the_store(end: str) -> None:
    """However it ends; it was stored while the agent, which may wait, ran."""
    office, store = Office(inner=("It is fine.",)), WatchedStore()
    office.left["outer"][1:] = [{"error": {"status": 400, "message": "down"}}] if end == "failed" else ["Done."]
    steps = [RegexFilterProcessor(banned_words=["Done"], phase="output")] if end == "blocked" else []
    async with office.outer(store, *steps).stream("Refund order 7", run_id="r") as stream:
        with suppress(ModelError):
            async for chunk in stream:
                if end == "cancelled" and chunk.type == "tool-result":
                    stream.cancel()
    assert stream.status == end
    assert len(store.bodies) > 1
    assert not (await Reviews(store).runs(status=None)).items


async def test_a_request_whose_agent_cannot_wait_is_not_stored() -> None:
    """Neither a tool nor a processor of it asks."""
    office, store = Office(approval=False), WatchedStore()
    assert (await office.outer(store).generate("Refund order 7")).status == "success"
    assert not store.bodies


async def test_an_inner_agent_cannot_wait_where_the_outer_one_is_not_stored() -> None:
    """The call fails, and no tool runs."""
    office = Office()
    done = await office.outer(None).generate("Refund order 7")
    assert (done.status, office.shop.refunded) == ("success", [])
    assert "nobody can be asked here" in str(done.steps[0].tool_calls[0].error)


async def test_values_that_were_put_back_for_the_inner_agent_are_stored_as_tokens() -> None:
    """It shares the outer vault, also when the outer guards give its tool the values themselves."""
    office, store = Office(), WatchedStore()
    office.left["outer"][0] = {"tool_calls": [{"name": "clerk", "args": {"prompt": "Tell [EMAIL_1]"}}]}
    guards = [PIIDetector(redaction_method="token"), Restore()]
    inner = Agent(office._model("inner"), id="clerk", tools=[Tool(office.shop.refund, approval=True)])
    outer = Agent(office._model("outer"), tools=[inner.as_tool()], processors=guards, reviews=store)
    asked = await outer.generate(f"I am {SECRET}")
    assert asked.status == "suspended"
    (call,) = (await Reviews(store).run(asked.run_id)).calls
    inner_run = await Reviews(store).run(call.inner)
    assert inner_run.question == "Tell [EMAIL_1]"
    assert not any(SECRET in body for body in store.bodies)


async def test_deleting_the_outer_run_deletes_the_inner_one() -> None:
    """Nothing of either is left."""
    office, store = Office(), WatchedStore()
    asked = await office.outer(store).generate("Refund order 7")
    await Reviews(store).delete(asked.run_id)
    assert not (await Reviews(store).runs(status=None)).items
