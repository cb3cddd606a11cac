"""The command ``penstock coverage``: which step of a workflow or an agent reads which channel."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from penstock.engine.values.errors import UsageError
from penstock.workflows.cli.arguments.checking import COVERAGES, Table
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import refuse_source, write_line, writing
from penstock.workflows.coverage.coverage import Coverage, parse_required
from penstock.workflows.loading import load_workflow_or_agent

if TYPE_CHECKING:
    import argparse


def coverage(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write the table, and return the exit code: 1 if something is not read that ``--require`` asks for.

    Raises:
        CommandError: a requirement names nothing, the processors of the agent are not known before a request, or no
            format has the extension of the file.
    """
    form = _format(args.output, args.format)
    required = None if args.require is None else parse_required(args.require)
    drawn = load_workflow_or_agent(args.workflow)
    try:
        made: Coverage = drawn.coverage()
        gaps = () if required is None else made.unmet(required)
        text = made.draw(form, required)
    except UsageError as error:
        raise CommandError(f"coverage of {args.workflow}: {error}") from error
    refuse_source(args.output)
    with writing(args.output, stdout) as out:
        out.write(f"{text}\n")
    if args.output not in (None, "-"):
        write_line(f"wrote {args.output}")
    if required is not None and not gaps:
        write_line(f"read on every path: {', '.join(cast('list[str]', args.require))}")
    return Exit.FOUND if gaps else Exit.OK


def _format(output: str | None, given: Table | None) -> Table:
    """Return the format that was given, else the format of the file's extension; text without one.

    Raises:
        CommandError: no format has that extension.
    """
    ending = Path(output or "").suffix.lower()
    endings: dict[str, Table] = {end: form for form in COVERAGES for end in COVERAGES[form]}
    if given is None and ending and ending not in endings:
        raise CommandError(f"cannot write a coverage into {output}: the formats are {' '.join(endings)}")
    return given or endings.get(ending, "text")
