"""The arguments of `penstock review`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.workflows.cli.arguments.building import Subcommands, add_format, command
from penstock.workflows.cli.arguments.memory import STORE
from penstock.workflows.cli.arguments.values import positive

if TYPE_CHECKING:
    import argparse

_REVIEW = """\
Agents with `reviews` store requests that wait for a person. A decision is stored, too; the application goes on with the
request (`agent.resume(run_id)`). STORE is the file of a SQLiteStorage, or the URL of a PostgreSQL server. Without
--store, the environment variable PENSTOCK_STORE is used.
"""

_REVIEW_EXAMPLES = """\
examples:
  penstock review list --store runs.db                         list what waits, the oldest first
  penstock review show --store runs.db RUN                     show a request and its calls, as the guards left them
  penstock review approve --store runs.db RUN                  approve the only call that is undecided
  penstock review reject --store runs.db RUN --reason "late"   refuse it; the model gets the reason
  penstock review answer --store runs.db RUN CALL '{"ok":1}'   give the result of a call that the application runs

exit codes: 0 success, 2 wrong usage, the store cannot be read, or a decision is not possible
"""


MAY_DECIDE = "PENSTOCK_MAY_DECIDE"


def add_may_decide(parser: argparse.ArgumentParser) -> None:
    """Add ``--may-decide``."""
    parser.add_argument(
        "--may-decide",
        metavar="RULE",
        default=os.environ.get(MAY_DECIDE),
        help="who may decide: module:name or path.py:name of a function, or reviewers for those that a question names "
        f"(default: ${MAY_DECIDE})",
    )


def add_review(commands: Subcommands) -> None:
    """Add ``penstock review`` with its actions."""
    line = "decide about requests that wait for a person: list, show, approve, reject, answer"
    review = command(commands, "review", "ACTION", line, _REVIEW, _REVIEW_EXAMPLES)
    actions = review.add_subparsers(dest="action", metavar="ACTION", prog="penstock review", required=True)

    def action(name: str, usage: str, line: str) -> argparse.ArgumentParser:
        made = command(actions, name, usage, line, _REVIEW, under="penstock review")
        made.add_argument(
            "--store", metavar="STORE", default=os.environ.get(STORE), help=f"the store (default: ${STORE})"
        )
        return made

    listing = action("list", "", "list requests, the one that has waited longest first")
    listing.add_argument("--agent", metavar="NAME", help="only those of this agent")
    listing.add_argument("--all", action="store_true", help="also those that go on or have ended")
    listing.add_argument("-n", "--limit", type=positive, default=100, metavar="N", help="at most N (default: 100)")
    add_format(listing)
    show = action("show", "RUN", "show a request: the question, the answer so far, its calls and decisions")
    show.add_argument("run", metavar="RUN", help="the id of the run")
    add_format(show)
    line = "print it as JSON, with the record of verdicts, costs and answers"
    show.add_argument("--json", action="store_const", const="json", dest="format", help=line)
    approve = action("approve", "RUN [CALL]", "approve a call, so that its tool runs when the request goes on")
    approve.add_argument("--arguments", metavar="JSON", help="other arguments; guards judge them before the tool runs")
    reject = action("reject", "RUN [CALL]", "refuse a call")
    reject.add_argument("--reason", default="", metavar="TEXT", help="why; the model gets it")
    answer = action("answer", "RUN CALL JSON", "give the result of a call that the application runs")
    for parser in (approve, reject, answer):
        parser.add_argument("run", metavar="RUN", help="the id of the run")
        needed = None if parser is answer else "?"
        parser.add_argument("call", metavar="CALL", nargs=needed, help="the id of the call (default: the only one)")
        parser.add_argument("--by", metavar="NAME", help="who decides (default: the user's name)")
        add_may_decide(parser)
    answer.add_argument("value", metavar="JSON", help="the result")
