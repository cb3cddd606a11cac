"""The nodes of a workflow and the policy of a step, as values that compare by content.

`resolve` gives each node its path, once the whole graph is known.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from penstock.engine.processor.context import View
from penstock.engine.processor.processor import Claims, Processor, claims_of, one_of
from penstock.engine.values.errors import DefinitionError, OptionError

if TYPE_CHECKING:
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.processor import AnyProcessor

Condition: TypeAlias = Callable[[View], "bool | Awaitable[bool]"]
OnError: TypeAlias = 'Literal["block", "raise", "allow"] | AnyProcessor | None'


@dataclass(frozen=True, slots=True)
class Policy:
    """How a step runs. Its fields are the keyword arguments of the call that adds the step to a workflow.

    Attributes:
        timeout: seconds after which the step has failed; above 0. None: no limit. Sync hooks run in a worker thread,
            where they can be left: one that takes longer ends by itself, and its result is not used. Without an event
            loop, too (`Workflow.check_sync`).
        on_error: what happens if the step fails: ``block``, ``raise``, ``allow``, or a processor that runs in its
            place. None: as the processor declares. On a nested workflow that contains a guard, ``allow`` is refused:
            it would put back the payload from before the workflow, without the redactions of its earlier steps. If the
            fallback of a guard fails too, it blocks (or raises), whatever it declares.
        mode: ``enforce``; or ``shadow``: the step runs beside the run, and only its record counts.
        overlap: ``model``: the step is an input check that may run beside the model call.
        offload: ``thread``: a sync hook runs in a worker thread.
        retries: how often the step is tried again after a failure, each time with the payload that it was given. What
            a failed attempt did (edits, facts, data) is dropped. ``timeout`` limits each attempt, and ``on_error``
            applies to the failure of the last one. Verdicts and cancellation are never retried. In streams, where
            text may have been released already, a step is not tried again.
        retry_delay: seconds to wait before the first retry, doubled for each further one, up to a minute. None: no
            wait. A workflow that waits needs an event loop.
    """

    timeout: float | None = None
    on_error: OnError = None
    mode: Literal["enforce", "shadow"] = "enforce"
    overlap: Literal["model"] | None = None
    offload: Literal["thread"] | None = None
    retries: int = 0
    retry_delay: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that are not allowed.

        Raises:
            OptionError: a value is not allowed.
        """
        if not _is_timeout(self.timeout):
            raise OptionError("policy", "timeout", self.timeout, "a finite number of seconds above 0")
        if self.on_error is not None and not isinstance(self.on_error, Processor):
            one_of("policy", "on_error", self.on_error, ("block", "raise", "allow"))
        one_of("policy", "mode", self.mode, ("enforce", "shadow"))
        if self.overlap is not None:
            one_of("policy", "overlap", self.overlap, ("model",))
        if self.offload is not None:
            one_of("policy", "offload", self.offload, ("thread",))
        if not _is_count(self.retries):
            raise OptionError("policy", "retries", self.retries, "a whole number, 0 or more")
        if not _is_timeout(self.retry_delay):
            raise OptionError("policy", "retry_delay", self.retry_delay, "a finite number of seconds above 0")
        if self.retry_delay is not None and not self.retries:
            raise OptionError("policy", "retry_delay", self.retry_delay, "None, or set retries= to 1 or more")


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def _is_timeout(given: object) -> bool:
    if given is None:
        return True
    return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given) and given > 0


DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Step:
    """A processor in a graph. `resolve` sets ``path``, and reads the processor's claims."""

    processor: AnyProcessor
    policy: Policy = DEFAULT
    id: str = ""
    path: str = ""
    declared: Claims | None = field(default=None, repr=False, compare=False)

    @property
    def claims(self) -> Claims:
        """The processor's claims: as read when the graph was resolved; before that, as they are now."""
        return self.declared or claims_of(self.processor)

    @property
    def named(self) -> bool:
        """Whether its id was set explicitly."""
        return bool(self.id) or self.claims.named


@dataclass(frozen=True, slots=True)
class Sequence:
    """Nodes one after another; one with a name is a nested workflow."""

    nodes: tuple[Node, ...] = ()
    name: str = ""
    policy: Policy = DEFAULT
    path: str = ""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Nodes that run in parallel on one payload; ``merge`` resolves conflicts between their edits."""

    nodes: tuple[Node, ...]
    merge: MergePolicy = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a branch: taken if the condition holds."""

    condition: Condition
    node: Node


@dataclass(frozen=True, slots=True)
class Branch:
    """Arms by condition: the first that holds (``match="first"``), or every one, in parallel (``match="all"``)."""

    arms: tuple[Arm, ...]
    otherwise: Node | None = None
    match: Literal["first", "all"] = "first"
    merge: MergePolicy = None
    on_error: Literal["block", "raise"] = "raise"
    path: str = ""


@dataclass(frozen=True, slots=True)
class DagEdge:
    """An edge from one member of a `Dag` to another, taken if the condition holds (None: always).

    Attributes:
        source: the id of the member that it comes from.
        when: the condition.
    """

    source: str
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class DagMember:
    """A node in a `Dag`, under an id, with the edges that lead to it; without any it is an entry."""

    id: str
    node: Node
    after: tuple[DagEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Dag:
    """Members with ``after=``, for shapes that sequences and parallels cannot express."""

    members: tuple[DagMember, ...]
    merge: MergePolicy = None
    path: str = ""


Node: TypeAlias = "Step | Sequence | Parallel | Branch | Dag"
NODES = (Step, Sequence, Parallel, Branch, Dag)


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly inside a node, in declared order."""
    if isinstance(node, Branch):
        inside = tuple(arm.node for arm in node.arms)
        return inside if node.otherwise is None else (*inside, node.otherwise)
    if isinstance(node, Dag):
        return tuple(member.node for member in node.members)
    return () if isinstance(node, Step) else node.nodes


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes inside it, each before those inside it, in declared order; however deep they are."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children(current)))


def steps_of(node: Node) -> Iterator[Step]:
    """Yield the steps of a node, in declared order."""
    return (inner for inner in walk(node) if isinstance(inner, Step))


def fallback_of(node: Node) -> Step | None:
    """Return the fallback of a node as a step; None if its policy has none."""
    if not isinstance(node, (Step, Sequence)) or not isinstance(node.policy.on_error, Processor):
        return None
    fallback = node.policy.on_error
    return Step(fallback, path=f"{node.path}.fallback", declared=claims_of(fallback))


def steps_and_fallbacks(node: Node) -> Iterator[Step]:
    """Yield the steps of a node, and the fallback of each step or workflow in it."""
    for inner in walk(node):
        if isinstance(inner, Step):
            yield inner
        fallback = fallback_of(inner)
        if fallback is not None:
            yield fallback


DEEPEST_GRAPH = 100
"""How many levels of workflows may be nested: graphs are compiled and run by recursion."""


def too_deep(root: Node) -> str | None:
    """Return the problem of a graph that is nested deeper than `DEEPEST_GRAPH`; None if it is not."""
    waiting = [(root, 0)]
    while waiting:
        node, above = waiting.pop()
        levels = above + isinstance(node, Sequence)
        if levels > DEEPEST_GRAPH + 1:  # the outermost workflow does not count
            return f"workflows are nested deeper than {DEEPEST_GRAPH} levels; place their steps in fewer"
        waiting.extend((child, levels) for child in children(node))
    return None


class _GivenPaths(NamedTuple):
    """How often each path was given: to steps and workflows, and separately to joins, which have no own names."""

    steps: dict[str, int]
    joins: dict[str, int]


def resolve(node: Sequence) -> Sequence:
    """Return the graph with a unique path on every node; ids that repeat are numbered in declared order.

    Raises:
        DefinitionError: it is nested deeper than `DEEPEST_GRAPH` levels.
    """
    problem = too_deep(node)
    if problem:
        raise DefinitionError(problem)
    return cast("Sequence", _resolved(node, "", _GivenPaths({}, {})))


def _resolved(node: Node, prefix: str, taken: _GivenPaths) -> Node:
    if isinstance(node, Step):
        claims = node.claims
        return replace(node, path=_unique(prefix + (node.id or claims.id), taken.steps), declared=claims)
    if isinstance(node, Sequence):
        path = _unique(prefix + node.name, taken.steps) if node.name else ""
        below = f"{path}/" if path else prefix
        return replace(node, path=path, nodes=tuple(_resolved(child, below, taken) for child in node.nodes))
    if isinstance(node, Parallel):
        path = _unique(f"{prefix}parallel", taken.joins)
        return replace(node, path=path, nodes=tuple(_resolved(child, prefix, taken) for child in node.nodes))
    if isinstance(node, Branch):
        path = _unique(f"{prefix}branch", taken.joins)
        arms = tuple(Arm(arm.condition, _resolved(arm.node, prefix, taken)) for arm in node.arms)
        otherwise = None if node.otherwise is None else _resolved(node.otherwise, prefix, taken)
        return replace(node, path=path, arms=arms, otherwise=otherwise)
    path = _unique(f"{prefix}dag", taken.joins)
    return replace(
        node, path=path, members=tuple(replace(m, node=_resolved(m.node, prefix, taken)) for m in node.members)
    )


def _unique(path: str, taken: dict[str, int]) -> str:
    count = taken.get(path, 0) + 1
    taken[path] = count
    if count == 1:
        return path
    numbered = f"{path}#{count}"
    return numbered if numbered not in taken else _unique(path, taken)
