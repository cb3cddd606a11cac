"""`main`: from the command line to a command and an exit code; the place where errors become sentences."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import IO, TYPE_CHECKING

import penstock
from penstock.engine.values.errors import PenstockError
from penstock.workflows.cli.arguments import parse
from penstock.workflows.cli.exits import Exit
from penstock.workflows.cli.files import forget, prepare

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; see `Exit`.

    While a command works, stdout is stderr for everybody else: what user code prints does not mix with the result.
    """
    stdout = sys.stdout
    prepare(stdout)
    try:
        args = parse(argv, penstock.__version__)
    except SystemExit as end:  # argparse has said what there was to say
        return end.code if isinstance(end.code, int) else Exit.USAGE
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return _command(args, stdout)
    except BrokenPipeError:
        forget(stdout)
        return Exit.PIPE
    except KeyboardInterrupt:
        sys.stderr.write("penstock: interrupted\n")
        return Exit.INTERRUPTED
    except (PenstockError, OSError) as error:
        return _refused(error, debug=args.debug)


def _command(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run the command named; only what it needs is imported."""
    if args.command == "run":
        from penstock.workflows.cli.run import run as command
    elif args.command == "draw":
        from penstock.workflows.cli.draw import draw as command
    elif args.command == "validate":
        from penstock.workflows.cli.validate import validate as command
    elif args.command == "memory":
        from penstock.workflows.cli.memory import memory as command
    else:
        from penstock.workflows.cli.listing import list_all as command
    code = command(args, stdout)
    stdout.flush()
    return code


def _refused(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    else:
        told = error.__cause__ is None or isinstance(error.__cause__, (OSError, ImportError, SyntaxError))
        hint = "" if told else " (--debug shows where)"
        sys.stderr.write(f"penstock: {error}{hint}\n")
    return Exit.USAGE
