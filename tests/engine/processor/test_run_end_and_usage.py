"""What a run tells at its end, and what it says of the models that were asked in it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import (
    APIErrorContext,
    InputContext,
    LLMRequestContext,
    LLMResponseContext,
    Message,
    Processor,
    Retry,
    Workflow,
    processor,
)
from penstock.engine import RunEnd, Usage, UsageEntry

pytestmark = pytest.mark.anyio


async def test_whoever_asked_is_told_once_how_the_run_ended() -> None:
    """A run that came to its end, one that was stopped, and one that broke."""
    told: list[tuple[bool, bool]] = []

    @processor
    def lender(ctx: InputContext) -> None:
        ctx.on_end(lambda ended: told.append((ended.completed, ended.tripwire is None)))
        if ctx.text == "stop":
            ctx.abort("no")

    workflow = Workflow("w").then(lender)
    for text in ("go", "stop"):
        async with workflow.start() as run:
            await run.process_input(text)
    with pytest.raises(ZeroDivisionError):
        await _broken(workflow)
    assert told == [(True, True), (False, False), (False, True)]


async def _broken(workflow: Workflow) -> None:
    async with workflow.start() as run:
        await run.process_input("go")
        raise ZeroDivisionError


async def test_what_is_told_at_the_end_may_wait_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    """Neither changes how the run ended; the last that asked is told first."""
    told: list[str] = []

    async def late(ended: RunEnd) -> None:
        told.append(f"late {ended.message_list.conversation[0].text}")

    def broken(ended: RunEnd) -> None:
        told.append("broken")
        raise ZeroDivisionError

    async def broken_late(ended: RunEnd) -> None:
        raise ZeroDivisionError

    @processor
    def lender(ctx: InputContext) -> None:
        for callback in (late, broken_late, broken):
            ctx.on_end(callback)

    with caplog.at_level(logging.WARNING):
        async with Workflow("w").then(lender).start() as run:
            assert not (await run.process_input("hi")).blocked
    assert told == ["broken", "late hi"]
    assert caplog.text.count("ZeroDivisionError") == 2


async def test_whoever_listens_knows_of_every_spend_at_once() -> None:
    """Those before it listened, too; and the run tells them all."""
    heard: list[str] = []

    @processor
    def judge(ctx: InputContext) -> None:
        ctx.spend("judge", Usage(1, 2), attempts=2)

    @processor
    def minder(ctx: InputContext) -> None:
        ctx.on_spend(lambda spend: heard.append(f"{spend.model} by {spend.by or 'the agent'}"))
        assert ctx.spent == (UsageEntry("judge", Usage(1, 2), "judge", 2),)

    run = Workflow("w").then(judge).then(minder).start()
    await run.process_input("hi")
    run.spend("model", None)
    assert heard == ["judge by judge", "model by the agent"]
    assert [spend.model for spend in run.spent] == ["judge", "model"]


async def test_a_retry_may_bring_messages() -> None:
    """They are kept, so that the next call is made with them."""

    @processor
    def fixer(ctx: APIErrorContext) -> Retry:
        return Retry(messages=ctx.message_list.add(Message.user("go on")))

    run = Workflow("w").then(fixer).start()
    await run.process_input("hi")
    outcome = await run.process_api_error(TimeoutError())
    assert outcome.retry is not None
    assert [message.text for message in run.message_list.conversation] == ["hi", "go on"]


async def test_a_step_that_failed_is_no_attempt() -> None:
    """The number of a step counts answers of the model, not calls that gave none."""

    @processor
    def again(ctx: APIErrorContext) -> Retry:
        return Retry()

    run = Workflow("w").then(again).start()
    await run.process_input("hi")
    await run.process_input_step()
    await run.process_api_error(TimeoutError())
    await run.process_input_step()
    assert run.step_number == 0


async def test_a_hook_can_tell_that_checks_have_given_no_verdict_yet() -> None:
    """Those that run beside the model; behind it they have."""
    seen: list[bool] = []

    @processor(edits="nothing")
    async def check(ctx: InputContext) -> None:
        """Let everything pass."""

    class Looks(Processor[dict[str, Any]]):
        def process_llm_request(self, ctx: LLMRequestContext) -> None:
            seen.append(ctx.unchecked)

        def process_llm_response(self, ctx: LLMResponseContext) -> None:
            seen.append(ctx.unchecked)

    workflow = Workflow("w").then(check, overlap="model").then(Looks())
    async with workflow.start(overlap=True) as run:
        await run.process_input("hi")
        await run.process_llm_request()
        await run.process_llm_response("hello")
    assert seen == [True, False]
