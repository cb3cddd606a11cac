"""The arguments of `penstock memory`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.workflows.cli.arguments.building import Subcommands, add_format, command
from penstock.workflows.cli.arguments.values import positive

if TYPE_CHECKING:
    import argparse

STORE = "PENSTOCK_STORE"
"""The environment variable that names the store if ``--store`` does not."""

LAST = 50
"""How many messages of a thread are shown by default: a few screens."""

_MEMORY = """\
STORE is the file of a SQLiteStorage, or the URL of a PostgreSQL server (postgresql://…). Without --store, the
environment variable PENSTOCK_STORE is used. Put a URL with a password there, because other users of the machine can
see arguments.
"""

_MEMORY_EXAMPLES = """\
examples:
  penstock memory list --store chat.db                   list threads, the most recently changed first
  penstock memory show --store chat.db THREAD            show a thread and the user's working memory
  penstock memory export --store chat.db -o all.jsonl    export all threads
  penstock memory import --store copy.db all.jsonl       import them into another store
  penstock memory delete --store chat.db THREAD          delete a thread
  penstock memory forget --store chat.db RESOURCE        delete everything about a user

exit codes: 0 success, 2 wrong usage, or the store cannot be read, 3 a line to import is malformed
"""

_IMPORT = """\
Messages replace stored ones with the same id, and a working memory replaces the stored one as a whole (the earlier
version stays in its history). To import a file twice has the same result as once. A thread that belongs to another
resource is refused.
"""

_FORGET = """\
Deletes all threads of the resources with their messages, vectors and working memories, and the resources' own working
memory with all versions. Vectors that your application keeps in another store are not deleted.
"""


def add_memory(commands: Subcommands) -> None:
    """Add ``penstock memory`` with its actions."""
    line = "manage a store: list, show, export, import or delete threads; forget users"
    memory = command(commands, "memory", "ACTION", line, _MEMORY, _MEMORY_EXAMPLES)
    actions = memory.add_subparsers(dest="action", metavar="ACTION", prog="penstock memory", required=True)

    def action(name: str, usage: str, line: str, about: str = "") -> argparse.ArgumentParser:
        made = command(actions, name, usage, line, f"{about}\n{_MEMORY}".strip(), under="penstock memory")
        made.add_argument(
            "--store", metavar="STORE", default=os.environ.get(STORE), help=f"the store (default: ${STORE})"
        )
        return made

    listing = action("list", "", "list threads, the most recently changed first")
    listing.add_argument("--resource", metavar="ID", help="only the threads of this resource")
    listing.add_argument("-n", "--limit", type=positive, metavar="N", help="show at most N threads")
    add_format(listing)
    show = action("show", "THREAD", "show a thread: its messages, and the working memory")
    show.add_argument("thread", metavar="THREAD", help="the id of the thread")
    show.add_argument(
        "-n", "--last", type=positive, default=LAST, metavar="N", help=f"show the last N messages (default: {LAST})"
    )
    show.add_argument("--all", action="store_true", help="show all messages")
    add_format(show)
    export = action("export", "[THREAD ...]", "write threads as JSON lines for `import`; without THREAD, all of them")
    export.add_argument("threads", metavar="THREAD", nargs="*", help="the ids of the threads")
    export.add_argument("--resource", metavar="ID", help="only the threads of this resource")
    export.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")
    action("import", "FILE", "import threads from a file of `export`", _IMPORT).add_argument(
        "file", metavar="FILE", help="a file of `export`; `-` for stdin"
    )
    delete = action("delete", "THREAD ...", "delete threads, their messages, vectors and working memories")
    delete.add_argument("threads", metavar="THREAD", nargs="+", help="the ids of the threads")
    forget = action("forget", "RESOURCE ...", "delete everything about a resource, for example a user", _FORGET)
    forget.add_argument("resources", metavar="RESOURCE", nargs="+", help="the ids of the resources")
    for parser in (delete, forget):
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
