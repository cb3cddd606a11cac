"""The keywords of the calls that place steps and start runs, for type checkers and at run time; it knows no graph."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Literal, TypedDict

from penstock.engine.graph.nodes import DEFAULT, OnError, Policy
from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ports import Clock, Ids, Observer


class PolicyOptions(TypedDict, total=False):
    """The fields of a `Policy`, as keywords."""

    timeout: float | None
    on_error: OnError
    mode: Literal["enforce", "shadow"]
    overlap: Literal["model"] | None
    offload: Literal["thread"] | None


class RunOptions(TypedDict, total=False):
    """The options of a `Run`, as keywords."""

    request_context: dict[str, Value] | None
    run_id: str | None
    records: bool
    observers: Sequence[Observer]
    overlap: bool
    max_processor_retries: int | None
    max_error_retries: int
    ids: Ids
    clock: Clock


def policy_of(given: PolicyOptions) -> Policy:
    """Return the policy that keywords say.

    Raises:
        UsageError: there is no such keyword.
        OptionError: a value is not allowed.
    """
    _check_names("policy", given, PolicyOptions.__annotations__)
    return Policy(**given) if given else DEFAULT


def check_run_options(given: RunOptions) -> None:
    """Refuse an option that no run has.

    Raises:
        UsageError: there is no such option.
    """
    _check_names("option of a run", given, RunOptions.__annotations__)


def check_stage(stage: str, stages: Iterable[str]) -> None:
    """Refuse a stage that does not exist.

    Raises:
        UsageError: it does not; the error names those that do.
    """
    _check_names("stage", (stage,), stages)


def _check_names(kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"no {kind} is called {', '.join(unknown)}; {meant}there are {', '.join(known)}")
