"""Parse the command line: the table of all commands. Only the parser of the given command is made."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from penstock.workflows.cli.arguments.building import Parser
from penstock.workflows.cli.arguments.checking import add_attack, add_coverage, add_pin, add_validate
from penstock.workflows.cli.arguments.evaluation import add_eval
from penstock.workflows.cli.arguments.hook import add_hook
from penstock.workflows.cli.arguments.memory import add_memory
from penstock.workflows.cli.arguments.pictures import add_diff, add_draw
from penstock.workflows.cli.arguments.reference import add_completion, add_list, add_schema
from penstock.workflows.cli.arguments.review import add_review
from penstock.workflows.cli.arguments.run import add_run
from penstock.workflows.cli.arguments.serving import add_mcp, add_serve, add_studio

if TYPE_CHECKING:
    from collections.abc import Sequence


_ABOUT = "Run, draw and check workflows of guards for LLM agents, and manage stored conversations."

_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"          check one text
  penstock run hygiene --input chats.jsonl                 check a file
  penstock run guards.py:guard - <rows.jsonl >out.jsonl    read stdin, write JSONL
  penstock eval guards.py:guard labelled.jsonl             show how often a workflow is right
  penstock draw hygiene                                    show the workflow as a diagram
  penstock diff old.py:guard new.py:guard                  show the differences between two workflows
  penstock validate policy.yaml                            check a policy file, and run its tests
  penstock list                                            show presets, processors and stages
  penstock memory list --store chat.db                     show stored conversations
  penstock studio guards.py:guard                          a page to see workflows, and to watch them run
  penstock mcp -w guards.py:guard -- uvx mcp-server-time   guard an MCP server
  penstock hook claude-code -w coding --install            guard a coding agent
"""


def parse(argv: Sequence[str] | None, version: str) -> argparse.Namespace:
    """Parse a command line.

    argparse (at least that of Python 3.11) assigns an optional positional argument as soon as the one before it is
    there, so an argument after options (``run WORKFLOW --stage STAGE -``) is left over; here it gets its place.

    Raises:
        SystemExit: the arguments are wrong, or ask for help; argparse has printed the message.
    """
    given = sys.argv[1:] if argv is None else argv
    made = command_parser(version, *given[:1])
    args, left = made.parse_known_args(argv)
    for name in ("text", "name"):
        if len(left) == 1 and getattr(args, name, "") is None and (left[0] == "-" or left[0][:1] != "-"):
            setattr(args, name, left.pop())
    if left:
        made.error(f"unrecognized arguments: {' '.join(left)}")
    return args


def command_parser(version: str, first: str = "") -> argparse.ArgumentParser:
    """Return the parser of the whole command line.

    Args:
        version: the version of the package.
        first: the first argument. If it is a command or ``--version``, the parser has no other command.
    """
    main = Parser(
        "penstock", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    main.add_argument("--version", action="version", version=f"penstock {version}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)
    adding = {
        "run": add_run,
        "eval": add_eval,
        "draw": add_draw,
        "diff": add_diff,
        "validate": add_validate,
        "schema": add_schema,
        "coverage": add_coverage,
        "attack": add_attack,
        "list": add_list,
        "memory": add_memory,
        "review": add_review,
        "serve": add_serve,
        "studio": add_studio,
        "mcp": add_mcp,
        "pin": add_pin,
        "hook": add_hook,
        "completion": add_completion,
    }
    for name, add in adding.items():
        if first == name or first not in ("--version", *adding):
            add(commands)
    return main
