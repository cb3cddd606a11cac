"""Where a step broke, for ``--debug``: the frames that led there; it knows no screen, and quotes no value."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from penstock.engine.values.errors import StepFailedError

if TYPE_CHECKING:
    from penstock.workflows.cli.results import RowChecked


def trace_of(checked: RowChecked) -> str:
    """Return the traceback of what broke a row's step; empty if none broke.

    It ends with the kind of the error, without its text: that may quote what was checked, as in `ValueError`'s.
    """
    failure = checked.error if checked.outcome is None else checked.outcome.failure
    if not isinstance(failure, StepFailedError):
        return ""
    cause = failure.__cause__ or failure
    frames = "".join(traceback.format_tb(cause.__traceback__))
    head = f"Traceback of line {checked.item.line}, step {failure.step!r} (most recent call last):"
    return f"{head}\n{frames}{type(cause).__name__}\n"
