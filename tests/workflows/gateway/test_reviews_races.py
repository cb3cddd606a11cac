"""Two gateways ask about the same request at once: no decision is lost, and no answer leaves empty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock import InMemoryStorage, PIIDetector
from penstock.processors.tools import HumanReview
from penstock.workflows.gateway.http import UpstreamError
from penstock.workflows.review import Reviews
from tests.workflows.gateway.desk import Desk, chat, messages, responses
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401 - checks each run that is stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.values.stored import StoredRun

PII = PIIDetector(redaction_method="placeholder")
INPUTS, ANSWERS = (HumanReview(["input"]), PII), (PII, HumanReview(["output"]))


class Shared(InMemoryStorage):
    """A store in which another gateway does something after a read, or before a write."""

    def __init__(self) -> None:
        super().__init__()
        self.after_read: Callable[[StoredRun | None], Awaitable[object]] | None = None
        self.before_save: Callable[[StoredRun], Awaitable[object]] | None = None

    async def run(self, run_id: str) -> StoredRun | None:
        found = await super().run(run_id)
        after, self.after_read = self.after_read, None
        if after is not None:
            await after(found)
        return found

    async def save_run(self, run: StoredRun) -> StoredRun:
        before, self.before_save = self.before_save, None
        if before is not None:
            await before(run)
        return await super().save_run(run)


def shared() -> tuple[Desk, Shared]:
    """Return a desk with such a store."""
    desk, store = Desk(), Shared()
    desk.reviews = Reviews(store)
    return desk, store


async def test_a_refusal_that_is_stored_meanwhile_stands() -> None:
    """The other gateway asked anew, too, and an operator was quick."""
    desk, store = shared()
    path, body, sends = chat(streams=False)
    await desk.send(path, body, sends, *INPUTS, asked=0)
    run_id = (await desk.waits())["run_id"]
    await desk.reviews.approve(run_id)
    await desk.send(path, body, sends, *INPUTS)

    async def asks_anew_and_is_refused(found: StoredRun | None) -> None:
        assert found is not None
        first = next(iter(found.body["waiting"]))
        fresh = replace(found, body={**found.body, "waiting": (first,), "decisions": {}})
        await desk.reviews.suspend(fresh)
        await desk.reviews.reject(run_id, reason="not again")

    store.after_read = asks_anew_and_is_refused
    got = await desk.send(path, body, sends, *INPUTS, asked=0)
    assert got.ended.standing == "rejected"
    assert "not again" in got.body.decode()
    kept = [
        one.decision.verdict
        for run in (await desk.reviews.runs(status=None)).items
        for one in run.calls
        if one.decision
    ]
    assert sorted(kept) == ["approve", "reject"]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", [chat, messages, responses])
async def test_an_answer_that_is_approved_while_it_is_stored_does_not_leave_empty(protocol: Any, streams: bool) -> None:
    """Its bytes are in the store by then; the client gets them when it sends the request again."""
    desk, store = shared()
    path, body, sends = protocol(streams=streams)

    async def stores_and_is_approved(run: StoredRun) -> None:
        await store.save_run(run)
        await desk.reviews.approve(run.id)

    store.before_save = stores_and_is_approved
    got = await desk.send(path, body, sends, *ANSWERS)
    assert got.ended.standing == "in use"
    assert got.body
    let = await desk.send(path, body, sends, *ANSWERS, asked=0)
    assert let.body == (await desk.send(path, body, sends, PII)).body


@pytest.mark.parametrize("streams", [False, True])
async def test_an_approval_of_an_input_stays_if_nothing_of_the_answer_has_left(streams: bool) -> None:
    """The provider failed before it had sent anything."""
    desk, _ = shared()
    path, body, sends = chat(streams=streams)
    await desk.send(path, body, sends, *INPUTS, asked=0)
    run_id = (await desk.waits())["run_id"]
    await desk.reviews.approve(run_id)
    failing: Any = [UpstreamError("unreachable", "is gone")]
    got = await desk.send(path, body, failing, *INPUTS)
    assert got.ended.error.startswith("upstream_")
    assert (got.ended.first_byte, got.ended.review) == (None, "")
    assert (await desk.send(path, body, sends, *INPUTS)).ended.review == run_id
    assert (await desk.send(path, body, sends, *INPUTS, asked=0)).ended.standing == "waiting"
