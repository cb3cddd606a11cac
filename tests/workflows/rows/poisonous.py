"""A workflow whose rows can kill, stop and hang the process that checks them, and what runs rows through it."""

import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from penstock import InputContext, Processor, Workflow
from penstock.workflows.rows.job import RowsJob
from penstock.workflows.rows.processes import checked_in_processes
from penstock.workflows.rows.reading import RawRow
from penstock.workflows.rows.results import ResultFields, RowResult, as_json


class Poison(Processor[Any]):
    """Does to its process what the text says."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Do it."""
        what, _, marker = ctx.text.partition(" ")
        if what == "once" and not Path(marker).exists():
            Path(marker).touch()
            _end_with(signal.SIGKILL)
        if what == "bomb":
            ctx.abort("no bombs")
        if what in POISONS:
            POISONS[what]()


def _end_with(number: int) -> None:
    os.kill(os.getpid(), number)


def _fork_and_end() -> None:
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    _end_with(signal.SIGKILL)


POISONS = {
    "kill": lambda: _end_with(signal.SIGKILL),
    "fork": _fork_and_end,
    "stop": lambda: _end_with(signal.SIGSTOP),
    "hang": lambda: time.sleep(600),
    "exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(0),
    "nap": lambda: time.sleep(0.1),
    "log": lambda: logging.getLogger(__name__).warning("a lock", extra={"lock": Lock()}),
}


guard = Workflow("guard").then(Poison())


class Lines:
    """Makes the line of JSON that stands in a file."""

    def maker(self, workflow: Workflow) -> Any:
        """Return what makes it."""
        del workflow
        return lambda checked: as_json(checked, ResultFields(times=False))


JOB = RowsJob(f"{__file__}:guard", forms=(Lines(),))


def checked(rows: Iterable[bytes], *, processes: int = 2, row_seconds: float = 60.0) -> list[RowResult]:
    """Check lines of JSON in processes."""
    raw = (RawRow(number, line) for number, line in enumerate(rows, 1))
    return list(checked_in_processes(JOB, raw, processes=processes, row_seconds=row_seconds))
