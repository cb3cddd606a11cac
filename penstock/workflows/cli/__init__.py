"""The command ``penstock``: run, draw, compare, check and list workflows, and manage stored conversations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code; see `Exit`. Ctrl-C ends it also while it is being imported.

    Args:
        argv: the arguments. None: those of the process.
    """
    try:
        given = sys.argv[1:] if argv is None else argv
        if given[:1] == ["hook"] and _NOT_A_CALL.isdisjoint(given):
            from penstock.workflows.hooks.client import main as answer_hook

            return answer_hook(list(given[1:]))
        from penstock.workflows.cli.app import main as run

        return run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("penstock: interrupted\n")
        return 130  # Exit.INTERRUPTED, which may not be imported yet


_NOT_A_CALL = frozenset({"--install", "--uninstall", "--serve", "--stop", "--help", "-h", "--dry-run"})
"""The arguments of ``penstock hook`` that are no call of a hook: such a call is answered without further imports."""
