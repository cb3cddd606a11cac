"""The entry point of the command ``penstock``: it runs a command, and reports errors."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import IO, TYPE_CHECKING

import penstock
from penstock.engine.values.errors import DefinitionError, MissingExtraError, PenstockError
from penstock.lazy import by_name
from penstock.workflows.cli.arguments.parser import command_parser, parse
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import discard, log_messages_once, open_closed_streams, use_utf8, write_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code; see `Exit`.

    While a command runs, ``sys.stdout`` is stderr: output of the user's code does not mix with the results.

    Args:
        argv: the arguments. None: those of the process.
    """
    open_closed_streams()
    stdout = sys.stdout
    use_utf8(stdout)
    try:
        args = parse(argv, penstock.__version__)
    except SystemExit as end:  # argparse has printed the message
        return end.code if isinstance(end.code, int) else Exit.USAGE
    try:
        _apply_profile(args)
        with contextlib.redirect_stdout(sys.stderr), log_messages_once():
            return _run_command(args, stdout)
    except BrokenPipeError:
        discard(stdout)
        return Exit.PIPE
    except (PenstockError, OSError) as error:
        if isinstance(error, OSError):
            discard(stdout)  # it may be what failed: a full disk, or a closed stream
        return _report(error, debug=args.debug)


_COMMANDS = {
    "run": "run.run",
    "eval": "evaluation.evaluate",
    "draw": "inspection.draw",
    "diff": "inspection.diff",
    "validate": "inspection.validate",
    "schema": "inspection.schema",
    "coverage": "coverage.coverage",
    "attack": "attack.attack",
    "list": "listing.list_all",
    "memory": "memory.memory",
    "review": "review.review",
    "serve": "serve.serve",
    "studio": "studio.studio",
    "mcp": "mcp.mcp",
    "pin": "pin.pin",
    "hook": "hook.hook",
}
"""The module and the function of each command but ``completion``; only the modules that it needs are imported."""


def _apply_profile(args: argparse.Namespace) -> None:
    """Add the profile of ``--profile`` to the names of policy files, by which every process loads them.

    Raises:
        CommandError: no name is that of a policy file.
    """
    profile: str | None = getattr(args, "profile", None)
    if profile is None:
        return
    from penstock.workflows.loading import with_profile

    found = False
    for name in _REFERENCES:
        given: str | list[str] | None = getattr(args, name, None)
        if given:
            made = with_profile(given, profile) if isinstance(given, str) else [with_profile(g, profile) for g in given]
            found = found or made != given
            setattr(args, name, made)
    if not found:
        raise CommandError("--profile is for policy files (.yaml, .json) that are named without a profile")


_REFERENCES = ("workflow", "workflows", "old", "new", "baseline")
"""The arguments that name workflows."""


def _run_command(args: argparse.Namespace, stdout: IO[str]) -> int:
    if args.command == "completion":
        code = completion(args, stdout)
    else:
        module, _, name = _COMMANDS[args.command].partition(".")
        code = by_name(f"penstock.workflows.cli.{module}", name)(args, stdout)
    stdout.flush()
    return code


def completion(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write the script with which a shell completes the command's words, and return the exit code.

    Raises:
        MissingExtraError: the library that makes it is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise MissingExtraError("penstock completion", "completion") from error
    stdout.write(shtab.complete(command_parser(penstock.__version__), shell=args.shell))
    return Exit.OK


def _report(error: Exception, *, debug: bool) -> int:
    """Print an error as one line, or with ``--debug`` as a traceback; return the exit code."""
    if debug:
        write_line("".join(traceback.format_exception(error)).rstrip())
    else:
        known = (OSError, ImportError, SyntaxError, DefinitionError)
        explained = error.__cause__ is None or isinstance(error.__cause__, known)
        hint = "" if explained else " (--debug shows where)"
        write_line(f"penstock: {error}{hint}")
    return Exit.USAGE
