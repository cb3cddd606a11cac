"""A call that waits is withheld in each protocol, whole and streamed, and leaves as it would have once approved."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import InMemoryStorage, PIIDetector
from penstock.engine.values.frozen import thaw
from penstock.engine.values.stored import StoredRun
from penstock.processors.guards import Restore
from penstock.processors.tools import HumanReview, ToolPolicy
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.reviewing import RouteReviews, sweep
from penstock.workflows.review import Reviews
from tests.workflows.gateway.desk import SECRET, Desk, chat, messages, responses
from tests.workflows.gateway.exchanges import Scripted, run_exchange
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401 - checks each run that is stored


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", [chat, messages, responses])
async def test_a_call_is_withheld_and_leaves_when_it_is_approved(protocol: Any, streams: bool) -> None:
    """As the same guards without a question would have let it leave, to the byte."""
    desk = Desk()
    path, body, sends = protocol(streams=streams)
    first = await desk.send(path, body, sends)
    waiting = await desk.waits()
    assert (first.ended.standing, first.ended.review) == ("waiting", waiting["run_id"])
    assert waiting["run_id"] in first.body.decode()
    assert b'refund"' not in first.body.replace(b"\\", b"")
    assert waiting["calls"][0]["arguments"] == {"order": 7, "note": "for [EMAIL]"}
    again = await desk.send(path, body, sends, asked=0)
    assert again.ended.standing == "waiting"
    await desk.reviews.approve(waiting["run_id"], by="eve")
    let = await desk.send(path, body, sends, asked=0)
    without = await desk.send(path, body, sends, PIIDetector(redaction_method="placeholder"))
    assert let.body == without.body
    assert (let.ended.review, let.ended.standing, let.ended.usage) == (waiting["run_id"], "", (0, 0))
    assert (await desk.send(path, body, sends)).ended.standing == "waiting"


async def test_an_answer_with_values_that_were_put_back_is_not_stored() -> None:
    """The provider is asked again; the call is found by its arguments, with tokens in place of the values."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    body["messages"] = [{"role": "user", "content": f"Refund order 7 for {SECRET}"}]
    token = json.loads(sends[0])
    call = token["choices"][0]["message"]["tool_calls"][0]["function"]
    call["arguments"] = json.dumps({"order": 7, "note": "for [EMAIL_1]"})
    token["choices"][0]["message"]["content"] = "I write to [EMAIL_1]."
    sends = [json.dumps(token).encode()]
    steps = (
        PIIDetector(strategy="redact", redaction_method="token"),
        ToolPolicy(ask=["refund"]),
        Restore(),
    )
    await desk.send(path, body, sends, *steps)
    waiting = await desk.waits()
    stored = await desk.reviews.store.run(waiting["run_id"])
    assert stored is not None
    assert SECRET not in json.dumps(thaw(dict(stored.body)))
    assert "reply" not in stored.body
    await desk.reviews.approve(waiting["run_id"])
    let = await desk.send(path, body, sends, *steps)
    assert let.ended.standing == ""
    assert SECRET in let.body.decode()


@pytest.mark.parametrize("change", ["policy", "client", "tool", "arguments"])
async def test_an_approval_dies_when_something_changes(change: str) -> None:
    """It is for one policy, client, conversation and call."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    await desk.send(path, body, sends)
    run_id = (await desk.waits())["run_id"]
    await desk.reviews.approve(run_id)
    stored = await desk.reviews.store.run(run_id)
    assert stored is not None
    policy, context = ("p2", {}) if change == "policy" else ("p1", {"resource_id": "web"} if change == "client" else {})
    if change == "tool":
        body["tools"][0]["function"]["description"] = "Refunds twice."
    if change == "arguments":  # as of a store that somebody wrote to
        reply = {**thaw(stored.body["reply"])}
        reply["body"] = reply["body"].replace('\\"order\\": 7', '\\"order\\": 8')
        assert 'order\\": 8' in reply["body"]
        await desk.reviews.store.save_run(_with_reply(stored, reply))
    guards = RouteReviews(desk.reviews, "all", policy)
    upstream = Scripted(sends, "application/json")
    steps = (PIIDetector(redaction_method="placeholder"), ToolPolicy(ask=["refund"]))
    got = await run_exchange(ENDPOINTS[path], body, upstream, *steps, reviews=guards, request_context=context)
    assert got.ended.standing == "waiting"
    assert "order" not in got.body.decode()


def _with_reply(stored: Any, reply: Any) -> Any:
    from dataclasses import replace

    return replace(stored, body={**thaw(dict(stored.body)), "reply": reply})


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time."""
        return self.at

    def monotonic(self) -> float:
        """Return it in seconds."""
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        """Set the clock."""
        self.at += timedelta(seconds=seconds)


async def test_what_was_not_decided_in_time_is_asked_anew_and_an_old_approval_does_not_count() -> None:
    """Both wait again, with a new time."""
    clock = Clock()
    desk = Desk()
    desk.reviews = Reviews(InMemoryStorage(clock=clock), expires_in=60, clock=clock)
    path, body, sends = chat(streams=False)
    for approved in (False, True):
        await desk.send(path, body, sends)
        if approved:
            await desk.reviews.approve((await desk.waits())["run_id"])
        clock.at += timedelta(seconds=61)
    assert (await desk.send(path, body, sends)).ended.standing == "waiting"
    waiting = await desk.waits()
    assert waiting["calls"][0]["decision"] is None
    assert waiting["due_at"] == (clock.at + timedelta(seconds=60)).isoformat()


async def test_old_requests_are_swept_and_those_of_agents_stay() -> None:
    """One that waits stays while somebody may decide, and some time longer."""
    clock = Clock()
    desk = Desk()
    desk.reviews = Reviews(InMemoryStorage(clock=clock), expires_in=60, clock=clock)
    store = desk.reviews.store
    await store.save_run(StoredRun("agent-1", "gateway/all", "ended", {"version": 1}))
    path, body, sends = chat(streams=False)
    await desk.send(path, body, sends)
    clock.at += timedelta(seconds=100)
    assert await sweep(desk.reviews, 60) == 0
    clock.at += timedelta(seconds=21)
    assert await sweep(desk.reviews, 60) == 1
    assert [run.id for run in (await store.runs()).items] == ["agent-1"]


async def test_calls_wait_together_and_go_through_together() -> None:
    """One decision is not enough; other calls of the answer, which nobody asks about, wait with them."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    answer = json.loads(sends[0])
    message = answer["choices"][0]["message"]
    (call,) = message["tool_calls"]
    message["tool_calls"] = [
        call,
        {**call, "id": "c2", "function": {"name": "look_up", "arguments": "{}"}},
        {**call, "id": "c3"},
    ]
    sends = [json.dumps(answer).encode()]
    assert (await desk.send(path, body, sends)).ended.standing == "waiting"
    first, second = (await desk.waits())["calls"]
    run_id = (await desk.waits())["run_id"]
    await desk.reviews.approve(run_id, first["call_id"])
    assert (await desk.send(path, body, sends, asked=0)).ended.standing == "waiting"
    await desk.reviews.approve(run_id, second["call_id"], arguments={"order": 9})
    let = await desk.send(path, body, sends, asked=0)
    calls = let.json["choices"][0]["message"]["tool_calls"]
    assert [json.loads(one["function"]["arguments"]).get("order") for one in calls] == [7, None, 9]


@pytest.mark.parametrize("streams", [False, True])
async def test_an_approved_input_counts_until_the_call_that_it_leads_to_is_decided(streams: bool) -> None:
    """It is not asked about a second time in between."""
    desk = Desk()
    path, body, sends = chat(streams=streams)
    steps = (HumanReview(["input", "tool_call"]), PIIDetector(redaction_method="placeholder"))
    await desk.send(path, body, sends, *steps, asked=0)
    await desk.reviews.approve((await desk.waits())["run_id"])
    await desk.send(path, body, sends, *steps)
    found = (await desk.reviews.runs()).items
    (call,) = [run for run in found if run.calls[0].kind == "approval"]
    await desk.reviews.approve(call.run_id)
    let = await desk.send(path, body, sends, *steps, asked=0)
    assert b"tool_calls" in let.body
    assert let.ended.standing == ""
    assert {run.status for run in (await desk.reviews.runs(status=None)).items} == {"ended"}


async def test_a_guard_that_blocks_wins_over_a_question() -> None:
    """Nothing waits then."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    got = await desk.send(path, body, sends, PIIDetector(strategy="block"), ToolPolicy(ask=["refund"]))
    assert got.ended.verdict is not None
    assert (await desk.reviews.runs(status=None)).items == ()


async def test_other_arguments_that_a_guard_blocks_do_not_leave() -> None:
    """An operator is no way around a guard; the approval is not used."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    sends = [sends[0].replace(SECRET.encode(), b"ann")]
    steps = (PIIDetector(strategy="block"), ToolPolicy(ask=["refund"]))
    await desk.send(path, body, sends, *steps)
    run_id = (await desk.waits())["run_id"]
    await desk.reviews.approve(run_id, arguments={"order": 7, "note": f"to {SECRET}"})
    got = await desk.send(path, body, sends, *steps, asked=0)
    assert got.ended.verdict is not None
    assert SECRET not in got.body.decode()
    assert (await desk.reviews.run(run_id)).status == "waiting"
