"""``penstock validate``: all problems of a workflow at once, or what it consists of."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import WorkflowError
from penstock.workflows.cli.exits import Exit
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse

    from penstock.engine.workflow import Workflow


def validate(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Check the workflow and return the exit code."""
    workflow = load_workflow(args.workflow)
    try:
        workflow.validate(args.stage)
    except WorkflowError as error:
        stdout.write(f"{error}\n")
        return Exit.FOUND
    stdout.write(_summary(workflow))
    return Exit.OK


def _summary(workflow: Workflow) -> str:
    steps = list(steps_of(workflow.root))
    if not steps:
        return f"workflow {workflow.name!r} is sound, but empty: it changes nothing\n"
    stages = {name for step in steps for name in step.claims.hooks}
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    served = ", ".join(name for name in STAGES if name in stages)
    return f"workflow {workflow.name!r} is sound: {count}; stages: {served}\n"
