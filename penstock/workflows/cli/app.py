"""The entry point of the command ``penstock``, its error handling, and the commands ``draw`` and ``validate``."""

from __future__ import annotations

import contextlib
import sys
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING

import penstock
from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import PenstockError, WorkflowError
from penstock.workflows.cli.arguments import DIAGRAMS, PICTURES, Diagram, parse
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.inputs import discard, use_utf8, writing
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from penstock.engine.workflow import Workflow


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code; see `Exit`.

    While a command runs, ``sys.stdout`` is stderr: what the user's code prints does not mix with the results.

    Args:
        argv: the arguments. None: those of the process.
    """
    stdout = sys.stdout
    use_utf8(stdout)
    try:
        args = parse(argv, penstock.__version__)
    except SystemExit as end:  # argparse has printed the message
        return end.code if isinstance(end.code, int) else Exit.USAGE
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _run_command(args, stdout)
    except BrokenPipeError:
        discard(stdout)
        return Exit.PIPE
    except KeyboardInterrupt:
        sys.stderr.write("penstock: interrupted\n")
        return Exit.INTERRUPTED
    except (PenstockError, OSError) as error:
        return _report(error, debug=args.debug)


def _run_command(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run the command; only the modules that it needs are imported."""
    if args.command == "run":
        from penstock.workflows.cli.run import run as command
    elif args.command == "draw":
        command = draw
    elif args.command == "validate":
        command = validate
    elif args.command == "memory":
        from penstock.workflows.cli.memory import memory as command
    else:
        from penstock.workflows.cli.listing import list_all as command
    code = command(args, stdout)
    stdout.flush()
    return code


def _report(error: Exception, *, debug: bool) -> int:
    """Print an error as one line, or with ``--debug`` as a traceback; return the exit code."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    else:
        explained = error.__cause__ is None or isinstance(error.__cause__, (OSError, ImportError, SyntaxError))
        hint = "" if explained else " (--debug shows where)"
        sys.stderr.write(f"penstock: {error}{hint}\n")
    return Exit.USAGE


def draw(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Draw the workflow, and return the exit code. One with problems is drawn, too: the diagram may show them."""
    form = _format(args.output, args.format)
    diagram = load_workflow(args.workflow).draw(form, stage=args.stage)
    with writing(args.output, stdout) as out:
        out.write(diagram if diagram.endswith("\n") else f"{diagram}\n")
    if args.output not in (None, "-"):
        sys.stderr.write(f"wrote {args.output}\n")
    return Exit.OK


def _format(output: str | None, given: Diagram | None) -> Diagram:
    """Return the format that was given, else the format of the file's extension; text without one."""
    ending = Path(output or "").suffix.lower()
    meant = given or _format_of(ending)
    if ending in PICTURES or (ending and meant is None):
        texts = " ".join(endings[0] for endings in DIAGRAMS.values())
        kind = ending[1:] if ending in PICTURES else "svg"
        hint = f"for a picture: --format dot | dot -T{kind} >{Path(output or '').stem}.{kind}"
        raise CommandError(f"cannot draw into {output}: the formats are texts ({texts}); {hint}")
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
