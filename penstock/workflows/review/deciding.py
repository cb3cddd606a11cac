"""Rules about who may decide about a request that waits, for code, the command line, the studio and the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.review.waiting import WaitingRun

if TYPE_CHECKING:
    from penstock.workflows.review.waiting import WaitingCall

MayDecide: TypeAlias = Callable[[WaitingRun, str], bool]
"""A function of a run and the name of a person: whether that person may decide. The run has only the call in question.
"""

NAMED = "reviewers"
"""The name of the rule `only_reviewers` on a command line or in a file."""


def only_reviewers(run: WaitingRun, by: str) -> bool:
    """Return whether a person is among the reviewers that the question names; one that names none is for anybody."""
    return all(not named or by in named for named in map(_reviewers, run.calls))


def _reviewers(call: WaitingCall) -> tuple[str, ...]:
    shown = call.arguments
    named = shown.get("reviewers") if call.kind == "question" and is_mapping(shown) else ()
    return tuple(map(str, named)) if is_items(named) else ()
