"""Who may decide is asked wherever a decision comes from, about each call, and by all processes of an application."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from penstock import InMemoryStorage, Tool
from penstock.engine.values.errors import ReviewError
from penstock.workflows.agent.operations import RecordedReviews, begin_request, dump_stored, run_operations
from penstock.workflows.review import Reviews
from tests.clock import SetClock
from tests.workflows.durable.test_operations import Log
from tests.workflows.review.made import CALLS, Shop, agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value
    from penstock.workflows.review import WaitingRun

pytestmark = pytest.mark.anyio
WHERE: Any = {"thread_id": "t", "resource_id": "ann"}
BOTH: Any = {
    "tool_calls": [
        {"name": "refund", "args": {"order": 7}, "id": "one"},
        {"name": "look_up", "args": {"order": 8}, "id": "two"},
    ]
}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


def by_eve(run: WaitingRun, by: str) -> bool:
    """Let Eve decide about refunds, and anybody about the rest."""
    return run.calls[0].tool != "refund" or by == "eve"


def anybody(run: WaitingRun, by: str) -> bool:
    """Let anybody decide."""
    del run, by
    return True


def made(reviews: Reviews, answers: list[Value], shop: Shop) -> Any:
    """Return an agent with two tools that need approval."""

    def look_up(order: int) -> str:
        """Look an order up."""
        shop.refunded.append((order, "looked up"))
        return "found"

    return agent(reviews, answers, shop, Tool(look_up, approval=True))


def as_parts(asked: Any, _: str) -> Any:
    """Return the conversation with an approval, as a client of ours sends it."""
    return asked.approve("call-1")


def as_ui_messages(asked: Any, state: str) -> Any:
    """Return it as the AI SDK sends it."""
    [part] = [part for one in asked.messages for part in one.parts if part.type == "tool"]
    approved = {
        "type": "tool-refund",
        "toolCallId": part.call_id,
        "state": "approval-responded",
        "input": {**part.arguments},
        "approval": {"id": part.call_id, "approved": state == "approved"},
    }
    return [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Refund order 7"}]},
        {"id": "m2", "role": "assistant", "parts": [approved]},
    ]


@pytest.mark.parametrize("sent", [as_parts, as_ui_messages])
@pytest.mark.parametrize("known", [True, False])
async def test_a_client_that_may_not_decide_cannot_approve_with_its_messages(
    sent: Callable[[Any, str], Any], known: bool
) -> None:
    """Nor where the rule of the run is not known; who may decide still can."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=by_eve)
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7", **WHERE)
    there = reviews if known else Reviews(store)
    await agent(there, ["I cannot."], shop).generate(sent(asked, "approved"), **WHERE)
    assert shop.refunded == []
    assert (await reviews.run(asked.run_id)).status == "waiting"
    done = await agent(reviews, ["Done."], shop).resume(asked.run_id, decisions={"call-1": True}, by="eve")
    assert (done.status, len(shop.refunded)) == ("success", 1)


async def test_a_client_that_may_decide_approves_with_its_messages() -> None:
    """The rule is asked about somebody without a name."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=lambda _, by: not by)
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7", **WHERE)
    await agent(reviews, ["Done."], shop).generate(asked.approve("call-1"), **WHERE)
    assert len(shop.refunded) == 1
    assert (await reviews.run(asked.run_id)).status == "ended"


async def test_a_client_that_may_not_decide_cannot_reject_either() -> None:
    """The call waits for those who may."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=by_eve)
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7", **WHERE)
    done = await agent(reviews, ["Well."], shop).generate(as_ui_messages(asked, "rejected"), **WHERE)
    assert done.status == "success"
    assert (await reviews.run(asked.run_id)).status == "waiting"
    other = Reviews(store)
    asked = await agent(other, [CALLS], shop).generate("Refund order 7", thread_id="u", resource_id="ann")
    await agent(other, ["Well."], shop).generate(as_ui_messages(asked, "rejected"), thread_id="u", resource_id="ann")
    assert (await other.run(asked.run_id)).status == "ended"


async def test_with_a_rule_an_approval_counts_only_for_a_call_that_is_stored() -> None:
    """A client could make up the call with its approval; without a rule, another process may have asked."""
    for rule, ran in ((by_eve, 0), (anybody, 0), (None, 1)):
        shop, reviews = Shop(), Reviews(InMemoryStorage(), may_decide=rule)
        asked = await agent(Reviews(InMemoryStorage()), [CALLS], Shop()).generate("Refund order 7", **WHERE)
        await agent(reviews, ["Done."], shop).generate(as_ui_messages(asked, "approved"), **WHERE)
        assert len(shop.refunded) == ran


async def test_a_person_may_decide_about_one_call_and_not_about_another() -> None:
    """The rule sees the one call in question, wherever the decision comes from."""
    seen: list[tuple[str, ...]] = []

    def rule(run: WaitingRun, by: str) -> bool:
        seen.append(tuple(call.tool for call in run.calls))
        return by_eve(run, by)

    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=rule)
    asked = await made(reviews, [BOTH], shop).generate("Both", **WHERE)
    with pytest.raises(ReviewError, match="'bob' may not decide"):
        await reviews.approve(asked.run_id, "one", by="bob")
    await reviews.approve(asked.run_id, "two", by="bob")
    await reviews.approve(asked.run_id, "one", by="eve")
    assert seen == [("refund",), ("look_up",), ("refund",)]

    where: Any = {"thread_id": "u", "resource_id": "ann"}
    asked = await made(reviews, [BOTH], shop).generate("Both", **where)
    messages = asked.answered({}, approvals={"one": True, "two": True})
    left = await made(reviews, ["Done."], shop).generate(messages, **where)
    assert shop.refunded == [(8, "looked up")]
    assert {*seen} == {("refund",), ("look_up",)}
    assert [call.call_id for call in left.pending] == ["one"]
    assert (await reviews.run(asked.run_id)).status == "ended"
    again = await made(reviews, ["Done."], shop).generate(messages, **where)  # what was sent before decides nothing new
    assert (shop.refunded, again.status) == ([(8, "looked up")], "success")
    with pytest.raises(ReviewError, match="'bob' may not decide"):
        await reviews.approve(left.run_id, "one", by="bob")
    await reviews.approve(left.run_id, "one", by="eve")
    done = await made(reviews, ["Done."], shop).resume(left.run_id)
    assert (done.status, [order for order, _ in shop.refunded]) == ("success", [8, 7])


async def test_a_refusal_of_somebody_who_may_not_decide_leaves_nothing_with_the_call() -> None:
    """Its reason would stand beside the question, as if a person who may decide had said so."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=by_eve)
    asked = await made(reviews, [BOTH], shop).generate("Both", **WHERE)
    messages = asked.answered({}, approvals={"one": "It is a fraud.", "two": True})
    left = await made(reviews, ["Done."], shop).generate(messages, **WHERE)
    assert shop.refunded == [(8, "looked up")]
    assert [(call.call_id, call.approval, call.error) for call in left.pending] == [("one", "requested", None)]
    await reviews.approve(left.run_id, "one", by="eve")
    done = await made(reviews, ["Done."], shop).resume(left.run_id)
    assert (done.status, [order for order, _ in shop.refunded]) == ("success", [8, 7])


@pytest.mark.parametrize("late", [True, False])
async def test_a_refusal_in_the_store_and_its_time_count_more_than_an_approval_in_messages(late: bool) -> None:
    """A call is decided about once, and in time."""
    clock = SetClock()
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, expires_in=60, clock=clock)
    asked = await agent(reviews, [CALLS], shop).generate("Refund order 7", **WHERE)
    if late:
        clock.move(61)
    else:
        await reviews.reject(asked.run_id, by="eve")
    await agent(reviews, ["I cannot."], shop).generate(asked.approve("call-1"), **WHERE)
    assert shop.refunded == []
    done = await agent(reviews, ["I may not."], shop).resume(asked.run_id)
    assert (done.status, shop.refunded) == ("success", [])


async def test_an_approval_of_an_earlier_call_does_not_end_a_run_that_waits_for_another() -> None:
    """A client may send its old messages again."""
    store, shop = InMemoryStorage(), Shop()
    asked = await agent(store, [CALLS], shop).generate("Refund order 7", **WHERE)
    again = {"tool_calls": [{"name": "refund", "args": {"order": 9}, "id": "second"}]}
    await agent(store, [again], shop).resume(asked.run_id, decisions={"call-1": True})
    await agent(store, ["Done."], shop).generate(asked.approve("call-1"), **WHERE)
    assert [order for order, _ in shop.refunded] == [7]
    assert [call.call_id for call in (await Reviews(store).run(asked.run_id)).undecided] == ["second"]


@pytest.mark.parametrize("first", ["with", "from_start"])
async def test_a_run_that_is_suspended_again_keeps_its_rule(first: str) -> None:
    """Whatever process suspends it the second time; also when it was stored from its start, and when it has ended."""
    store, shop = InMemoryStorage(), Shop()
    ruled = Reviews(store, may_decide=by_eve, from_start=True)
    again = {"tool_calls": [{"name": "refund", "args": {"order": 9}, "id": "second"}]}
    run_id = "run-1"
    if first == "with":
        await agent(ruled, [CALLS], shop).generate("Refund order 7", run_id=run_id)
        await ruled.approve(run_id, by="eve")
    else:
        with pytest.raises(Exception, match="down"):
            await agent(ruled, [{"error": {"status": 400, "message": "down"}}], shop).generate("Hi", run_id=run_id)
    await agent(Reviews(store), [again], shop).resume(run_id)
    with pytest.raises(ReviewError, match="none is known here"):
        await Reviews(store).approve(run_id, "second", by="eve")
    with pytest.raises(ReviewError, match="may not decide"):
        await ruled.approve(run_id, "second", by="bob")
    await agent(ruled, ["Done."], shop).resume(run_id, decisions={"second": True}, by="eve")
    ended = await ruled.run(run_id)
    assert (ended.status, ended.has_rule) == ("ended", True)


async def test_recorded_requests_have_the_options_of_the_agents_reviews() -> None:
    """All but what the engine decides: where each is stored, and from when on."""
    given: dict[str, Any] = {
        "expires_in": 5.0,
        "lease": 6.0,
        "on_change": "keep",
        "may_decide": by_eve,
        "clock": object(),
    }
    own = Reviews(InMemoryStorage(), **given)
    assert {*inspect.signature(Reviews).parameters} == {"store", "from_start", *given}
    recorded = RecordedReviews(own)
    assert {name: getattr(recorded, name) for name in given} == given
    assert recorded.vaults is own.vaults


async def test_a_durable_request_is_stored_with_its_rule() -> None:
    """People who are not allowed cannot decide, nor can processes without the rule."""
    store, shop = InMemoryStorage(), Shop()
    reviews = Reviews(store, may_decide=by_eve)
    begun = await begin_request(agent(reviews, [], shop), "Refund order 7", "run-1")
    asked = await run_operations(agent(reviews, [CALLS], shop), begun, Log())
    assert asked["status"] == "suspended"
    with pytest.raises(ReviewError, match="none is known here"):
        await Reviews(store).approve("run-1", by="eve")
    with pytest.raises(ReviewError, match="may not decide"):
        await reviews.approve("run-1", by="bob")
    await reviews.approve("run-1", by="eve")
    stored = dump_stored(await reviews.claim("run-1"))
    done = await run_operations(agent(reviews, ["Done."], shop), stored, Log())
    assert (done["status"], len(shop.refunded)) == ("success", 1)
    assert (await reviews.run("run-1")).has_rule
