"""``penstock draw``: a workflow as a diagram, in a file or on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.arguments import DIAGRAMS, Diagram
from penstock.workflows.cli.exits import Exit
from penstock.workflows.cli.files import writing
from penstock.workflows.loading import load_workflow

if TYPE_CHECKING:
    import argparse


def draw(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Draw the workflow and return the exit code; one with problems is drawn all the same, for that may show them."""
    workflow = load_workflow(args.workflow)
    diagram = workflow.draw(args.format or _meant(args.output))
    with writing(args.output, stdout) as out:
        out.write(diagram if diagram.endswith("\n") else f"{diagram}\n")
    if args.output not in (None, "-"):
        sys.stderr.write(f"wrote {args.output}\n")
    return Exit.OK


def _meant(output: str | None) -> Diagram:
    ending = Path(output or "").suffix.lower()
    for form, endings in DIAGRAMS.items():
        if ending in endings:
            return form
    return "text"
