"""The command ``penstock completion``: a script with which a shell completes the command's words."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import penstock
from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.cli.arguments import command_parser
from penstock.workflows.cli.exit_codes import Exit

if TYPE_CHECKING:
    import argparse


def completion(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write the script for the shell, and return the exit code.

    Raises:
        MissingExtraError: the library that makes it is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError("penstock completion", "completion") from error
    stdout.write(shtab.complete(command_parser(penstock.__version__), shell=args.shell))
    return Exit.OK
