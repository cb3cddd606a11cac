"""What scenarios share: steps that do next to nothing, and what one needs to call hooks by hand as the engine does."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import InputContext, Message, MessageList, Processor, TextPart, Workflow
from penstock.engine.graph.plan import PlanStep, plan_steps
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunState, StageCall
from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = "Please move 250 euros to the account of my landlord, and tell me when it has arrived."
STAGE = "process_input"
STEPS = 10
"""The steps of a chain."""


@contextmanager
def logged_from(level: int, name: str = "penstock") -> Iterator[None]:
    """Log only messages of this level and above: each finding is a line otherwise. Afterwards the log is as it was."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


class Looks(Processor):
    """Does nothing."""

    edits = "nothing"

    async def process_input(self, _ctx: InputContext) -> None:
        """Find nothing."""


class LooksSync(Processor):
    """Does nothing, and cannot wait."""

    edits = "nothing"

    def process_input(self, _ctx: InputContext) -> None:
        """Find nothing."""


def chain(kind: type[Processor]) -> Workflow:
    """Return ten of the kind, one after another."""
    workflow = Workflow("chain")
    for _ in range(STEPS):
        workflow = workflow.then(kind())
    return workflow


def turned(message: Message) -> Message:
    """Return the message with its text backwards: ten such edits give the text again."""
    return message.with_parts((TextPart(message.text[::-1]),))


def text_of(payload: Payload) -> str:
    """Return the text of the one message."""
    return payload.message_list.input[0].text


@dataclass(frozen=True, slots=True)
class Hand:
    """One request in the hands of someone who calls the hooks himself."""

    call: StageCall
    steps: tuple[PlanStep, ...]
    payload: Payload


def hand(workflow: Workflow, request_context: dict[str, Any] | None = None) -> Hand:
    """Return what is needed to make the contexts of a workflow's steps for a request of one message."""
    run = RunState("by hand", request_context or {})
    call = StageCall(run, STAGES[STAGE], EMPTY, frozenset())
    steps = tuple(plan_steps(workflow.plans.stage(STAGE)))
    return Hand(call, steps, Payload(MessageList(TEXT)))
