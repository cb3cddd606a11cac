"""The exit codes of the command, and the error that ends it with one; it knows no command."""

from __future__ import annotations

from enum import IntEnum

from penstock.engine.values.errors import PenstockError


class Exit(IntEnum):
    """What the command's exit code means; documented in docs/cli.md, so never renumbered.

    Attributes:
        OK: it did what it was asked to; for ``run``: every row was judged, whatever the verdicts.
        FOUND: ``run --fail-on`` found what it was asked to fail on; ``validate`` found problems.
        USAGE: wrong arguments, a workflow or a file that cannot be loaded.
        INCOMPLETE: some rows could not be judged: they are malformed, or a step broke.
        INTERRUPTED: stopped by Ctrl-C (128 + SIGINT).
        PIPE: whoever read the output went away (128 + SIGPIPE).
    """

    OK = 0
    FOUND = 1
    USAGE = 2
    INCOMPLETE = 3
    INTERRUPTED = 130
    PIPE = 141


class CommandError(PenstockError):
    """What a command cannot do; its text says what, and what to do instead."""
