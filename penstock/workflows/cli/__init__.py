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
        from penstock.workflows.cli.app import main as run

        return run(argv)
    except KeyboardInterrupt:
        sys.stderr.write("penstock: interrupted\n")
        return 130  # Exit.INTERRUPTED, which may not be imported yet
