"""The exit codes of the command, and `CommandError`."""

from __future__ import annotations

from enum import IntEnum

from penstock.engine.values.errors import PenstockError


class Exit(IntEnum):
    """The exit codes of the command. docs/cli.md documents them, so they are never renumbered.

    Attributes:
        OK: success; for ``run``: every row was checked, whatever the verdicts.
        FOUND: ``run --fail-on`` found such a row, a condition of ``eval --fail-if`` holds, ``validate`` found problems,
            ``diff`` found differences, ``coverage --require`` a channel that is not read, or ``attack`` a leak.
        USAGE: wrong arguments, or a workflow, file or store that cannot be loaded.
        INCOMPLETE: some rows could not be checked or evaluated: they are malformed, or a step failed.
        INTERRUPTED: stopped with Ctrl-C (128 + SIGINT).
        PIPE: the reader of the output has closed it (128 + SIGPIPE).
    """

    OK = 0
    FOUND = 1
    USAGE = 2
    INCOMPLETE = 3
    INTERRUPTED = 130
    PIPE = 141


class CommandError(PenstockError):
    """Something that a command cannot do. The text says what, and what to do instead."""
