"""Builder helpers of `Workflow`: they check options, and turn the arguments of its methods into parts of a graph."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, cast

from penstock.engine.graph.nodes import (
    DEFAULT,
    Condition,
    DagEdge,
    DagMember,
    OnError,
    Policy,
    Step,
)
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, is_processor, one_of
from penstock.engine.values.errors import ProcessorError, UsageError

if TYPE_CHECKING:
    from collections import abc
    from collections.abc import Collection, Iterable

    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Clock, Ids, Observer


class PolicyOptions(TypedDict, total=False):
    """The fields of a `Policy`, as keyword arguments."""

    timeout: float | None
    on_error: OnError
    mode: Literal["enforce", "shadow"]
    overlap: Literal["model"] | None
    offload: Literal["thread"] | None
    retries: int
    retry_delay: float | None


class RunOptions(TypedDict, total=False):
    """The options of a `Run`, as keyword arguments."""

    request_context: dict[str, Value] | None
    run_id: str | None
    records: bool
    texts: bool
    observers: abc.Sequence[Observer]
    overlap: bool
    max_processor_retries: int | None
    max_error_retries: int
    ids: Ids
    clock: Clock
    may_suspend: bool | Collection[str]


def policy_of(given: PolicyOptions) -> Policy:
    """Return the policy for keyword arguments.

    Raises:
        UsageError: there is no such keyword.
        OptionError: a value is not allowed.
    """
    _check_names("policy option", given, PolicyOptions.__annotations__)
    return Policy(**given) if given else DEFAULT


def check_run_options(given: RunOptions) -> None:
    """Check that a run has these options.

    Raises:
        UsageError: there is no such option.
    """
    known = RunOptions.__annotations__
    if not given.keys() <= known.keys():
        _check_names("run option", given, known)


def check_stage(stage: str, stages: Iterable[str]) -> None:
    """Check that a stage exists.

    Raises:
        UsageError: it does not; the error lists the stages.
    """
    _check_names("stage", (stage,), stages)


def _check_names(kind: str, given: Collection[str], known: Iterable[str]) -> None:
    unknown = [name for name in given if name not in known] if given else ()
    if unknown:
        close = difflib.get_close_matches(str(unknown[0]), known, n=1)
        if unknown[0] == "error_strategy" and "on_error" in known:  # the reference system's name
            close = ["on_error"]
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise UsageError(f"unknown {kind} {', '.join(unknown)}; {meant}use one of {', '.join(known)}")


After: TypeAlias = "str | DagEdge | Iterable[str | DagEdge] | Mapping[str, Condition | None]"
"""What a member comes after: ids, edges, or a mapping from ids to the condition of the edge."""


def is_name(given: object) -> bool:
    """Return whether it can be the name of a workflow or the id of a step."""
    return isinstance(given, str) and bool(given.strip()) and "/" not in given


def processor_of(item: object) -> AnyProcessor:
    """Return a processor unchanged.

    Raises:
        ProcessorError: it is not a processor; the error says what to do.
    """
    if is_processor(item):
        return item
    label: str = getattr(item, "__name__", repr(item))
    if _is_processor_class(item):
        raise ProcessorError(label, f"it is a class; place an instance: {label}(...)")
    if callable(item):
        raise ProcessorError(label, "it is a plain function; make it a processor with @processor")
    kind = type(item)
    hint = "; place its items one by one: *items" if kind in (list, tuple) else ""
    raise ProcessorError(kind.__name__, f"it is neither a processor nor a workflow{hint}")


def _is_processor_class(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Processor)


def edges_of(after: After) -> tuple[DagEdge, ...]:
    """Return the edges for an ``after=`` argument."""
    if isinstance(after, (str, DagEdge)):
        after = (after,)
    if isinstance(after, Mapping):
        conditions = cast("Mapping[str, Condition | None]", after)
        return tuple(DagEdge(source, when) for source, when in conditions.items())
    return tuple(edge if isinstance(edge, DagEdge) else DagEdge(edge) for edge in after)


def numbered(members: tuple[DagMember, ...]) -> tuple[DagMember, ...]:
    """Number ids that repeat and were not set explicitly: ``a``, ``a#2``; edges can name the numbered ids."""
    named = {member.id for member in members if not (isinstance(member.node, Step) and not member.node.named)}
    taken = {member.id for member in members}
    seen: set[str] = set()
    made: list[DagMember] = []
    for member in members:
        own = member.id
        if own in seen and own not in named:
            number = 2
            while f"{own}#{number}" in taken:
                number += 1
            own = f"{own}#{number}"
            taken.add(own)
        seen.add(own)
        made.append(DagMember(own, member.node, member.after))
    return tuple(made)


def merge_policy(merge: MergePolicy) -> MergePolicy:
    """Return a merge policy unchanged.

    Raises:
        OptionError: it is not a merge policy.
    """
    if merge is None or isinstance(merge, Pick) or callable(merge):
        return merge
    one_of("join", "merge", merge, ("first", "last", "sequence"))
    return merge
