"""The commands ``penstock draw`` and ``penstock validate``: look at a workflow without running it."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import WorkflowError
from penstock.workflows.cli.arguments import DIAGRAMS, PICTURES, Diagram
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.inputs import writing
from penstock.workflows.cli.terminal import write_line
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse

    from penstock.engine.workflow import Workflow


def draw(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Draw the workflow, and return the exit code. One with problems is drawn, too: the diagram may show them."""
    form = _format(args.output, args.format)
    diagram = load_workflow(args.workflow).draw(form, stage=args.stage)
    with writing(args.output, stdout) as out:
        out.write(diagram if diagram.endswith("\n") else f"{diagram}\n")
    if args.output not in (None, "-"):
        write_line(f"wrote {args.output}")
    return Exit.OK


def _format(output: str | None, given: Diagram | None) -> Diagram:
    """Return the format that was given, else the format of the file's extension; text without one."""
    ending = Path(output or "").suffix.lower()
    meant = given or _format_of(ending)
    if ending in PICTURES or (ending and meant is None):
        texts = " ".join(endings[0] for endings in DIAGRAMS.values())
        kind = ending[1:] if ending in PICTURES else "png"
        hint = f"for a picture: --format dot | dot -T{kind} >{Path(output or '').stem}.{kind}"
        raise CommandError(f"cannot draw into {output}: the formats are {texts}; {hint}")
    return meant or "text"


def _format_of(ending: str) -> Diagram | None:
    for form, endings in DIAGRAMS.items():
        if ending in endings:
            return form
    return None


def validate(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Check the workflow, and return the exit code."""
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
        return f"workflow {workflow.name!r} is valid, but empty: it changes nothing\n"
    stages = {name for step in steps for name in step.claims.hooks}
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    served = ", ".join(name for name in STAGES if name in stages)
    return f"workflow {workflow.name!r} is valid: {count}; stages: {served}\n"
