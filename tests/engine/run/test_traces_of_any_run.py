"""The traces of random workflows: well-formed, in step with the records, and without a text that was not asked for."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings

from penstock import Message, MessageList, Workflow
from penstock.engine import StepFailedError, WorkflowError
from tests.engine.strategies import NOON, STAGE, conversations, workflows
from tests.engine.traces import check_trace
from tests.laws import examples

EXAMPLES = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))
HIDDEN = "zqhidden"


@pytest.fixture(autouse=True, scope="module")
def quiet_log() -> Iterator[None]:
    """Thousands of steps fail here on purpose."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


class Listens:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_record(self, record: Any) -> None:
        """Do nothing."""

    def on_event(self, event: Any) -> None:
        """Keep it."""
        self.events.append(event)


async def check_run(workflow: Workflow, messages: tuple[Message, ...], *, texts: bool) -> None:
    """The trace of one stage of a run, however it ends."""
    extra = Message.user(f"{HIDDEN} SECRET {HIDDEN}", id="hidden", created_at=NOON)
    told = Listens()
    try:
        run = workflow.start(records=True, texts=texts, observers=[told])
    except WorkflowError:
        return
    outcome = None
    with anyio.fail_after(60):
        try:
            async with run:
                outcome = await run.stage(STAGE, MessageList([*messages, extra]))
        except StepFailedError:
            pass
    trace = run.trace
    check_trace(trace, run.records)
    check_events(told.events)
    if outcome is None:
        assert trace.status == "failed"
    else:
        check_trace(outcome.trace, outcome.records)
        assert (outcome.trace.status == "blocked") == outcome.blocked
    for span in trace.spans:
        if span.kind == "branch" and span.status in ("passed", "edited"):
            assert any(arm.taken for arm in span.arms)
    quoted = json.dumps(trace.to_json()) + repr(told.events) + str(trace)
    if texts:
        assert HIDDEN in quoted or (run.step_number == 0 and not any(span.kind == "stage" for span in trace.spans))
    else:
        assert HIDDEN not in quoted


def check_events(events: list[Any]) -> None:
    """Each part has one start and one end, and starts within the part that its path names."""
    starts = [event.path for event in events if event.phase == "start"]
    assert len(set(starts)) == len(starts)
    assert sorted(starts) == sorted(event.path for event in events if event.phase == "end")
    begun: set[str] = set()
    for event in events:
        if event.phase == "start":
            assert event.parent is None or event.parent in begun
            begun.add(event.path)


def test_the_trace_of_any_run_is_well_formed_and_quotes_nothing() -> None:
    """With steps that wait, abort, fail, are tried again, and edit."""
    with asyncio.Runner() as runner:

        @EXAMPLES
        @given(workflows(), conversations())
        def hold(workflow: Workflow, messages: tuple[Message, ...]) -> None:
            runner.run(check_run(workflow, messages, texts=False))

        hold()


@EXAMPLES
@given(workflows(suspends=False), conversations())
def test_the_trace_of_any_run_with_texts_is_well_formed(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """The texts are in it, and nothing else changes; with shadows."""
    anyio.run(lambda: check_run(workflow, messages, texts=True))


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(workflows(), conversations())
def test_the_trace_of_any_run_on_trio_is_well_formed(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """The other event loop cancels in another way."""
    anyio.run(lambda: check_run(workflow, messages, texts=False), backend="trio")
