"""Steps to build graphs of that are validated, and what is compared with what validation finds; it runs nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Key, Processor, Workflow, WorkflowError

if TYPE_CHECKING:
    from penstock import InputContext, OutputStepContext
    from penstock.engine.processor.processor import EditsClaim

FACT = Key[int]("fact")
W = Workflow("w")


class Look(Processor):
    """A guard that edits nothing; it takes its claims as keywords."""

    edits: EditsClaim | None = "nothing"

    def __init__(self, **claims: Any) -> None:
        for name, value in claims.items():
            setattr(self, name, value)

    def process_input(self, ctx: InputContext) -> Any:
        """Look."""


class Wait(Look):
    """The same, async."""

    async def process_input(self, ctx: InputContext) -> None:
        """Look."""


class Change(Look):
    """A step that may do anything."""

    edits = "anything"


class Late(Look):
    """A guard of answers."""

    stages = ("process_output_step",)

    def process_output_step(self, ctx: OutputStepContext) -> None:
        """Look."""


def nested(*steps: Processor[Any]) -> Workflow:
    """A workflow to put into another."""
    made = Workflow("n")
    for step in steps:
        made = made.then(step)
    return made


def problems_of(workflow: Workflow, stage: str | None = None) -> tuple[str, ...]:
    """What a graph is refused for; the error tells all of it."""
    with pytest.raises(WorkflowError) as caught:
        workflow.validate(stage)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    assert caught.value.workflow == workflow.name
    return caught.value.problems


def agree(found: tuple[str, ...], told: tuple[str, ...]) -> bool:
    """Whether each problem begins as is told, in that order, and there are no others; ``…`` stands for anything."""
    patterns = [".*".join(re.escape(words.strip()) for words in line.split("…")) for line in told]
    return len(found) == len(told) and all(map(re.match, patterns, found))
