"""The arguments of ``penstock memory``, with their help texts; it knows none of its work."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

STORE = "PENSTOCK_STORE"
"""The variable of the environment that names a store where ``--store`` does not."""

LAST = 50
"""How many messages of a thread are shown by default: some screens full."""

_ABOUT = """\
STORE is the file of a SQLiteStorage, or the URL of a PostgreSQL server (postgresql://…). A URL with a password in it
belongs in the variable PENSTOCK_STORE, which counts where there is no --store: other users of a machine see arguments.
"""

_EXAMPLES = """\
examples:
  penstock memory list --store chat.db                 the threads, the last changed first
  penstock memory show --store chat.db THREAD          what was said in one, and what is known of the user
  penstock memory export --store chat.db -o all.jsonl      all of them
  penstock memory import --store copy.db all.jsonl
  penstock memory delete --store chat.db THREAD
  penstock memory forget --store chat.db RESOURCE          all that is a user's

exit codes: 0 done, 2 wrong usage, or the store cannot be read, 3 a line to be imported is malformed
"""

_IMPORT = """\
What is there already is replaced: messages by their ids, working memories as wholes (the one before stays in their
history). So importing a file twice is as good as once. Threads of another resource are refused.
"""

_FORGET = """\
All threads of a resource with their messages, vectors and working memories, and its own working memory, with all
versions of it. Vectors that an application keeps in another store than the messages stay.
"""


def add_memory(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command and its actions; ``command`` makes a parser of its own for each.

    Args:
        commands: where the command goes.
        command: makes a parser, given where it goes, its name, its usage and what it does.
    """
    line = "look at what a store remembers: list, show, export, import or delete threads, forget users"
    memory = command(commands, "memory", "ACTION", line, _ABOUT, _EXAMPLES)
    actions = memory.add_subparsers(dest="action", metavar="ACTION", prog="penstock memory", required=True)

    def action(name: str, usage: str, line: str, about: str = "") -> argparse.ArgumentParser:
        made = command(actions, name, usage, line, f"{about}\n{_ABOUT}".strip(), under="penstock memory")
        made.add_argument(
            "--store", metavar="STORE", default=os.environ.get(STORE), help=f"the store (default: ${STORE})"
        )
        return made

    listing = action("list", "", "list threads, the last changed first")
    listing.add_argument("--resource", metavar="ID", help="only those of this resource")
    listing.add_argument("-n", "--limit", type=_positive, metavar="N", help="only the first N")
    _add_format(listing)
    show = action("show", "THREAD", "show a thread: what was said, and what is known of the user")
    show.add_argument("thread", metavar="THREAD", help="its id")
    show.add_argument("-n", "--last", type=_positive, default=LAST, metavar="N", help=f"how many messages ({LAST})")
    show.add_argument("--all", action="store_true", help="all messages")
    _add_format(show)
    export = action(
        "export", "[THREAD ...]", "write threads as JSON lines, which `import` reads; all, if none is named"
    )
    export.add_argument("threads", metavar="THREAD", nargs="*", help="their ids")
    export.add_argument("--resource", metavar="ID", help="those of this resource")
    export.add_argument("-o", "--output", metavar="FILE", help="write them there")
    action("import", "FILE", "store what was exported", _IMPORT).add_argument(
        "file", metavar="FILE", help="what `export` wrote; `-` for stdin"
    )
    delete = action("delete", "THREAD ...", "delete threads, their messages, vectors and working memories")
    delete.add_argument("threads", metavar="THREAD", nargs="+", help="their ids")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    forget = action("forget", "RESOURCE ...", "delete all that is a resource's, a user's say", _FORGET)
    forget.add_argument("resources", metavar="RESOURCE", nargs="+", help="their ids")
    forget.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--format", choices=("table", "jsonl"), default="table", help="for people, or for programs"
    )


def _positive(given: str) -> int:
    if not given.isdecimal() or not int(given):
        raise argparse.ArgumentTypeError(f"{given!r} is no whole number from 1 on")
    return int(given)
