"""The arguments of ``penstock hook``. A call of a hook itself is read by its client, which needs no argparse."""

from __future__ import annotations

from penstock.workflows.cli.arguments.building import Subcommands, command
from penstock.workflows.cli.arguments.values import natural, positive

_HOOK = """\
Guards a coding agent: Claude Code or Codex calls it before and after each of its steps. It reads the JSON of the hook
on stdin and answers in the product's form: prompts, calls of tools and their results are allowed, asked about, denied
with a reason, or changed.

A server that holds the policy is started by the first call, and ends when no hook has called for an hour.
"""

_HOOK_EXAMPLES = """\
examples:
  penstock hook claude-code -w coding --install --dry-run   show what would be written into the settings
  penstock hook claude-code -w coding --install             write it
  penstock hook claude-code --uninstall                     take it out again
  penstock hook codex -w policy.yaml --install              the same for Codex, with a policy of yours
  penstock hook claude-code -w coding <call.json            answer one call
  penstock hook --serve                                     be the server, in the foreground
  penstock hook --stop                                      end the server

exit codes: 0 the answer is on stdout, 2 refused, with the reason on stderr, or wrong usage
"""


def add_hook(commands: Subcommands) -> None:
    """Add ``penstock hook``."""
    from penstock.workflows.hooks.client import PRODUCTS, SECONDS, UNREAD  # other commands do not need it

    usage = "(claude-code | codex) -w WORKFLOW [--install] | PRODUCT --uninstall | --serve | --stop"
    hook = command(commands, "hook", usage, "guard a coding agent by its hooks", _HOOK, _HOOK_EXAMPLES)
    hook.add_argument("product", nargs="?", choices=PRODUCTS, metavar="PRODUCT", help="the agent")
    hook.add_argument("-w", "--workflow", metavar="WORKFLOW", help="a preset, a policy file, or path.py:name")
    hook.add_argument(
        "--fail",
        choices=("closed", "open"),
        default="closed",
        help="a call that cannot be checked is denied, or passes (default: closed)",
    )
    hook.add_argument(
        "--timeout",
        type=positive,
        default=SECONDS,
        metavar="S",
        help=f"a check may take S seconds (default: {SECONDS:g})",
    )
    hook.add_argument(
        "--unread",
        choices=UNREAD,
        default="pictures",
        help="which bodies pass that no guard can read: pictures, all (PDFs too) or none (default: pictures)",
    )
    hook.add_argument(
        "--hold-output", action="store_true", help="Codex: commands write nothing before they end, so that all is read"
    )
    hook.add_argument("--no-server", action="store_true", help="load the policy for each call, which takes a second")
    hook.add_argument("--install", action="store_true", help="write the hooks into the settings of the product")
    hook.add_argument("--uninstall", action="store_true", help="take them out again")
    hook.add_argument("--settings", metavar="FILE", help="the settings (default: those of the user)")
    hook.add_argument("--dry-run", action="store_true", help="only show what would be written")
    hook.add_argument("--serve", action="store_true", help="be the server of the hooks, in the foreground")
    hook.add_argument("--stop", action="store_true", help="end the server that the first call has started")
    hook.add_argument(
        "--idle", type=natural, default=3600, metavar="S", help="end after S seconds without a call (default: 3600)"
    )
