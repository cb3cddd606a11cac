"""The arguments of the commands that print reference: `list`, `schema` and `completion`."""

from __future__ import annotations

from penstock.workflows.cli.arguments.building import FILES, Subcommands, command

_COMPLETION = """\
Needs the extra `completion`. For bash, put this line into ~/.bashrc; other shells are alike:
  eval "$(penstock completion bash)"
"""

_SCHEMAS = ("policy", "gateway", "trace", "review")


def add_list(commands: Subcommands) -> None:
    """Add ``penstock list``."""
    listing = command(commands, "list", "[NAME]", "list the presets, the built-in processors and the stages")
    listing.add_argument("name", metavar="NAME", nargs="?", help="show only this one, with its whole description")
    listing.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")


def add_schema(commands: Subcommands) -> None:
    """Add ``penstock schema``."""
    made = command(
        commands, "schema", "NAME", "print a JSON Schema: of policy or gateway files, traces, or stored runs"
    )
    made.add_argument("name", metavar="NAME", choices=_SCHEMAS, help=", ".join(_SCHEMAS))


def add_completion(commands: Subcommands) -> None:
    """Add ``penstock completion``."""
    made = command(commands, "completion", "SHELL", "write a script that completes commands in a shell", _COMPLETION)
    made.add_argument("shell", metavar="SHELL", choices=tuple(FILES), help=", ".join(FILES))
