"""How a command gets its parser, and the arguments that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from penstock.workflows.cli.arguments.values import positive, seconds
from penstock.workflows.cli.terminal import readable

if TYPE_CHECKING:
    from collections.abc import Sequence


Subcommands: TypeAlias = Any
"""The commands of a parser, ``argparse._SubParsersAction``, which argparse keeps to itself."""

WORKFLOW = "a preset (see `penstock list`), a policy file (.yaml, .json), module:name, or path.py:name"

FILES = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "tcsh": "f",
    "fish": "(__fish_complete_path (commandline -ct))",
    "powershell": "_shtab_powershell_compgen_files",
}
"""How the scripts of shtab complete the name of a file, by shell (``shtab.FILE``)."""


class Parser(argparse.ArgumentParser):
    """A parser whose error messages cannot control the terminal, though they repeat arguments."""

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add an argument; where it names a file, say so to shell completion."""
        action = super().add_argument(*args, **options)
        if options.get("metavar") in ("FILE", "WORKFLOW", "OLD", "NEW"):
            vars(action)["complete"] = FILES
        return action

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Print the message and end."""
        super().exit(status, None if message is None else readable(message))


def command(
    commands: Subcommands,
    name: str,
    usage: str,
    line: str,
    about: str = "",
    examples: str = "",
    under: str = "penstock",
) -> argparse.ArgumentParser:
    """Add a command and return its parser.

    Args:
        commands: the commands that it joins.
        name: its name.
        usage: the arguments in its usage line, without options.
        line: one line of help, without a capital and a full stop.
        about: further paragraphs of the description.
        examples: the text below the options.
        under: the words before its name.
    """
    text = f"{line[0].upper()}{line[1:]}.\n\n{about}".strip()
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"{under} {name} [OPTION ...] {usage}".rstrip(),
        help=line,
        description=text,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--debug",
        action="store_true",
        help="show the traceback of an error, without any text that was checked",
    )
    return made


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile``."""
    line = "the profile of policy files (default: that in the name, as in policy.yaml:NAME, or $PENSTOCK_PROFILE)"
    parser.add_argument("--profile", metavar="NAME", help=line)


def add_stage(
    parser: argparse.ArgumentParser, line: str, choices: Sequence[str] | None = None, default: str | None = None
) -> None:
    """Add ``--stage``, by default for every stage."""
    from penstock.engine.processor.stages import STAGES, full_name

    choices = tuple(STAGES) if choices is None else choices
    parser.add_argument("--stage", type=full_name, choices=choices, default=default, metavar="STAGE", help=line)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--format`` of a list: a table or JSONL."""
    parser.add_argument("-f", "--format", choices=("table", "jsonl"), default="table", help="default: table")


def add_input_format(parser: argparse.ArgumentParser) -> None:
    """Add ``--input-format``, the format of rows."""
    parser.add_argument(
        "--input-format",
        choices=("auto", "jsonl", "text", "csv", "parquet"),
        default="auto",
        help="the format of the rows (default: auto, that of the name of each file)",
    )


def add_engine(run: argparse.ArgumentParser) -> None:
    """Add the arguments that say where rows are checked, and how many at once."""
    from penstock.workflows.batch import JOBS
    from penstock.workflows.rows.job import ROW_SECONDS

    run.add_argument(
        "-j",
        "--jobs",
        type=positive,
        metavar="N",
        help="how many rows run at once: in so many processes (default for files: one a core), or if there are async "
        f"steps, in this one (default: {JOBS})",
    )
    run.add_argument(
        "--row-timeout",
        type=seconds,
        metavar="S",
        help=f"give a row up that takes a process longer than S seconds for each million bytes "
        f"(default: {ROW_SECONDS:.0f})",
    )
    run.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where rows are checked: on this machine (the default), or on a Ray cluster, which reads the files, too",
    )
    run.add_argument(
        "--address",
        metavar="ADDRESS",
        help="the Ray cluster (default: $RAY_ADDRESS; without it, one is started on this machine for the run)",
    )
