"""``penstock draw``: a workflow as a diagram, in a file or on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.arguments import DIAGRAMS, PICTURES, Diagram
from penstock.workflows.cli.exits import CommandError, Exit
from penstock.workflows.cli.files import writing
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse


def draw(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Draw the workflow and return the exit code; one with problems is drawn all the same, for that may show them."""
    form = _format(args.output, args.format)
    diagram = load_workflow(args.workflow).draw(form, stage=args.stage)
    with writing(args.output, stdout) as out:
        out.write(diagram if diagram.endswith("\n") else f"{diagram}\n")
    if args.output not in (None, "-"):
        sys.stderr.write(f"wrote {args.output}\n")
    return Exit.OK


def _format(output: str | None, given: Diagram | None) -> Diagram:
    """Return the format asked for, else the one that the file's ending says; without an ending it is text."""
    ending = Path(output or "").suffix.lower()
    meant = given or _meant(ending)
    if ending in PICTURES or (ending and meant is None):
        texts = " ".join(endings[0] for endings in DIAGRAMS.values())
        kind = ending[1:] if ending in PICTURES else "svg"
        hint = f"for a picture: --format dot | dot -T{kind} >{Path(output or '').stem}.{kind}"
        raise CommandError(f"cannot draw into {output}: what is written is a text ({texts}); {hint}")
    return meant or "text"


def _meant(ending: str) -> Diagram | None:
    for form, endings in DIAGRAMS.items():
        if ending in endings:
            return form
    return None
