"""A plan: a workflow compiled for one stage, as blocks that `execution` and `streams` run.

Steps without a hook for the stage are left out. Ids, paths, hooks and policies are resolved here, once. ``sync`` of a
block means that none of its hooks suspends. ``movable`` is the number of its steps if the whole block may run in a
worker thread where texts are long (`Processor.offloadable`); otherwise 0.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.graph.nodes import DEFAULT, Branch, Dag, Parallel, Policy, Sequence, Step, steps_of
from penstock.engine.processor.processor import Processor, claims_of, is_async
from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.workers import run_in_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.graph.nodes import Condition, DagMember, Node
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import AnyProcessor, Claims, EditsClaim
    from penstock.engine.processor.stages import Stage
    from penstock.engine.processor.state import NewState
    from penstock.engine.values.facts import AnyKey


class PlanStep:
    """One step, ready to run, with its hook and its claims. Lives as long as the plan."""

    __slots__ = (
        "allows",
        "asks",
        "edits",
        "ends",
        "gathers",
        "needs_loop",
        "new_state",
        "offloadable",
        "on_error",
        "path",
        "processor",
        "processor_id",
        "provides",
        "role",
        "stage",
        "timed",
        "warned_open",
        "warned_slow",
    )

    def __init__(self, step: Step, claims: Claims, stage: Stage, on_error: str, *, allows: bool) -> None:
        self.path = step.path
        self.processor = step.processor
        self.processor_id = step.path.rsplit("/", 1)[-1]
        self.provides: frozenset[AnyKey] = claims.provides
        new_state = step.processor.new_state
        is_own = getattr(new_state, "__func__", None) is not Processor.new_state
        self.new_state: NewState = new_state if is_own else dict
        self.on_error = on_error
        self.allows = allows  # under a timeout ``on_error`` stands with the policy around the step
        self.asks = step.processor.asks and step.processor.suspends and not stage.streams
        self.edits: EditsClaim = claims.edits
        self.role = claims.role
        self.timed = step.processor.timed
        self.gathers = step.processor.awaits  # pieces of text gather while it looks at those before
        self.ends = step.processor.ends
        self.offloadable = step.processor.offloadable
        self.needs_loop = step.processor.needs_loop or step.policy.offload is not None
        self.stage = stage
        self.warned_open = False  # whether the log has warned that its failures let runs go on
        self.warned_slow = False  # whether the log has warned that it holds streams for long


TO_POLICY = "policy"
"""What a step does with its failure under a `PlanPolicy` of its own: it raises it, for the policy to handle."""

Orders: TypeAlias = "Mapping[str, tuple[int, ...]]"
"""The indexes of a graph's nodes in each of an agent's processor lists (`Stage.processor_list`), in their order."""

HookCall: TypeAlias = "Callable[..., Any]"
"""A hook; called with its context, in the stream with a chunk and the context."""

Call: TypeAlias = "tuple[PlanStep, HookCall, bool, type[AnyContext]]"
"""A step, its hook, whether to await it, and the class of its context: unpacked in the hot loop."""


@dataclass(slots=True, eq=False, repr=False)  # not frozen: that would double what each costs at import
class PlanSteps:
    """Steps one after another, without a policy around them."""

    calls: tuple[Call, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanSequence:
    """Blocks one after another."""

    blocks: tuple[Block, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanPolicy:
    """A block under a policy: a timeout, retries, or an ``on_error`` that replaces those of the steps inside."""

    block: Block
    path: str
    stage: Stage
    on_error: str | None
    timeout: float | None
    fallback: Block | None
    sync: bool
    movable: int = 0
    retries: int = 0
    retry_delay: float | None = None
    own: bool = False
    """Whether it is the policy of one step, which leaves its failures to it."""
    warned_open: bool = False

    def waits(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt, from 0 on: doubled each time, up to `LONGEST_DELAY`."""
        delay = self.retry_delay or 0.0
        return min(delay * 2.0 ** min(attempt, _MOST_DOUBLINGS), max(delay, LONGEST_DELAY))


LONGEST_DELAY = 60.0
"""Up to how many seconds the delay between two attempts grows."""

_MOST_DOUBLINGS = 64


@dataclass(slots=True, eq=False, repr=False)
class PlanShadow:
    """A block that runs in shadow: beside the run, changing nothing."""

    block: Block
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanOverlap:
    """A check that may wait for the model call and run beside it."""

    block: Block
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanViews:
    """A whole plan with steps that search texts: while it runs, they share views of the texts (`TextViews`)."""

    block: Block
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanAsking:
    """A whole plan with steps that may ask a person; see `penstock.engine.graph.asking`.

    Attributes:
        block: the plan, arranged for questions.
        plain: the plan as it was compiled.
        steps: the paths of its steps, in declared order.
    """

    block: Block
    plain: Block
    steps: tuple[str, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanBehind:
    """A block behind steps that may ask: while one of them waits for a person, only the guards of the block run.

    Attributes:
        block: the block.
        guards: the same with its guards only; None if it has none.
        before: the paths of the steps in front that may ask.
        steps: the paths of all steps in the block.
    """

    block: Block
    guards: Block | None
    before: frozenset[str]
    steps: tuple[str, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanNoted:
    """A block whose end is noted: the paths of its steps, or the way that was taken to it."""

    block: Block
    notes: tuple[str, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanAgain:
    """Guards that have run already, in a stage that is resumed. They run again if the payload has changed since."""

    block: Block
    steps: tuple[str, ...]
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanAttempt:
    """A block under a policy: its questions count if it comes to its end."""

    block: Block
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanAsk:
    """A step that may ask: it is noted if the step changes something after it was given an answer."""

    block: Block
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanArm:
    """One arm of a parallel, a branch or a dag: its id (for conflicts), its block, and whether a guard is in it."""

    id: str
    block: Block
    guards: bool
    name: str = field(init=False)
    """The id within its workflow, which `pick` and a function of a conflict use."""

    def __post_init__(self) -> None:
        """Take the name from the id."""
        self.name = self.id.rsplit("/", 1)[-1]


@dataclass(slots=True, eq=False, repr=False)
class PlanParallel:
    """Arms that run on one payload, and the join that merges their changes."""

    arms: tuple[PlanArm, ...]
    merge: MergePolicy
    path: str
    stage: Stage
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanBranch:
    """Arms by condition: the first that holds, or every one, in parallel. An arm of None has no step of this stage."""

    conditions: tuple[Condition, ...]
    arms: tuple[PlanArm | None, ...]
    otherwise: PlanArm | None
    every: bool
    merge: MergePolicy
    on_error: str
    path: str
    stage: Stage
    sync: bool
    movable: int = 0


@dataclass(slots=True, eq=False, repr=False)
class PlanDagMember:
    """One member of a dag: what to run (None: no step of this stage), and the edges that lead to it."""

    id: str
    arm: PlanArm | None
    after: tuple[tuple[int, Condition | None], ...]
    ancestors: frozenset[int]


@dataclass(slots=True, eq=False, repr=False)
class PlanDag:
    """A dag, its members in topological order."""

    members: tuple[PlanDagMember, ...]
    merge: MergePolicy
    path: str
    stage: Stage
    sync: bool
    movable: int = 0


PlainBlock: TypeAlias = (
    "PlanSteps | PlanSequence | PlanPolicy | PlanShadow | PlanOverlap | PlanViews | PlanParallel | PlanBranch | PlanDag"
)
"""A block as it is compiled."""

AskingBlock: TypeAlias = "PlanAsking | PlanBehind | PlanNoted | PlanAgain | PlanAttempt | PlanAsk"
"""A block that only plans with questions have."""

Block: TypeAlias = "PlainBlock | AskingBlock"


def compile_plan(root: Node, stage_name: str) -> Block | None:
    """Return the plan of a resolved and validated graph for one stage; None if no step has that stage."""
    stage = STAGES[stage_name]
    block = _compile(root, stage)
    if block is None or stage.streams or not any(map(_searches_texts, plan_steps(block, fallbacks=True))):
        return block
    return PlanViews(block, block.sync, block.movable)


def _searches_texts(step: PlanStep) -> bool:
    return isinstance(step.processor, TextGuard)


def serving(root: Sequence, stage: Stage, orders: Orders | None) -> Sequence:
    """Return the part of a graph that serves a stage: all of it, or the nodes of the stage's processor list."""
    return root if orders is None else Sequence(tuple(root.nodes[index] for index in orders[stage.processor_list]))


def plan_steps(block: Block | None, *, fallbacks: bool = False) -> Iterator[PlanStep]:
    """Yield the steps of a plan, in declared order; with ``fallbacks``, also the fallbacks."""
    if block is None:
        return
    if isinstance(block, PlanSteps):
        yield from (call[0] for call in block.calls)
        return
    for inner in _inside(block):
        yield from plan_steps(inner, fallbacks=fallbacks)
    if fallbacks and isinstance(block, PlanPolicy):
        yield from plan_steps(block.fallback, fallbacks=True)


class StreamPlan:
    """The plan of the stream's stage, and what its steps need of a stream.

    Attributes:
        block: the plan; None if no step has the stage.
        movable: whether all of its steps may run in a worker thread.
        timed: whether a step may ask to be woken.
        gathers: whether pieces of text gather while a step looks at those before.
        ends: whether a step may end the stream before its source does.
    """

    __slots__ = ("block", "ends", "gathers", "movable", "timed")

    def __init__(self, block: Block | None) -> None:
        steps = list(plan_steps(block, fallbacks=True))
        self.block = block
        self.movable = block is not None and block.movable > 0
        self.timed = any(step.timed for step in steps)
        self.gathers = any(step.gathers for step in steps)
        self.ends = any(step.ends for step in steps)


def needs_loop(block: Block | None) -> bool:
    """Return whether a plan can only run in an event loop."""
    return block is not None and not block.sync and bool(waiting_steps(block))


def waiting_steps(block: Block | None) -> tuple[str, ...]:
    """Return the paths of the steps and conditions of a plan that may wait, and so need an event loop."""
    if block is None or block.sync:
        return ()
    if isinstance(block, PlanSteps):
        return tuple(step.path for step, _, awaits, _ in block.calls if awaits and step.needs_loop)
    inside = (*_inside(block), *((block.fallback,) if isinstance(block, PlanPolicy) else ()))
    return (*_waiting_between(block), *(path for inner in inside for path in waiting_steps(inner)))


def _waiting_between(block: Block) -> tuple[str, ...]:
    """Return the path of a block that waits between its steps: before a retry, or for a condition."""
    if isinstance(block, PlanPolicy):
        return (block.path,) if block.retry_delay is not None else ()
    if isinstance(block, PlanBranch):
        return (block.path,) if any(map(is_async, block.conditions)) else ()
    if isinstance(block, PlanDag):
        return (block.path,) if any(is_async(when) for member in block.members for _, when in member.after) else ()
    return ()


def enforced_steps(block: Block | None) -> Iterator[PlanStep]:
    """Yield the steps of a plan whose verdicts count: those in shadow are left out."""
    if block is None or isinstance(block, PlanShadow):
        return
    if isinstance(block, PlanSteps):
        yield from (call[0] for call in block.calls)
        return
    for inner in _inside(block):
        yield from enforced_steps(inner)


def overlapping_blocks(block: Block | None) -> Iterator[Block]:
    """Yield the checks in a block that may wait for the model call."""
    if isinstance(block, PlanOverlap):
        yield block.block
    elif block is not None and not isinstance(block, PlanSteps):
        for inner in _inside(block):
            yield from overlapping_blocks(inner)


def _inside(block: Block) -> tuple[Block, ...]:
    """Return the blocks directly inside a block that is not of steps."""
    if isinstance(block, PlanSequence):
        return block.blocks
    if isinstance(block, PlanParallel):
        return tuple(arm.block for arm in block.arms)
    if isinstance(block, PlanBranch):
        return tuple(arm.block for arm in (*block.arms, block.otherwise) if arm is not None)
    if isinstance(block, PlanDag):
        return tuple(member.arm.block for member in block.members if member.arm is not None)
    return () if isinstance(block, PlanSteps) else (block.block,)


def _compile(node: Node, stage: Stage) -> Block | None:
    if isinstance(node, Step):
        return _step(node, stage)
    if isinstance(node, Sequence):
        return _under(node.policy, _sequence(node.nodes, stage), node.path, stage)
    if isinstance(node, Parallel):
        if node.merge == "sequence":
            return _sequence(node.nodes, stage)
        arms = tuple(arm for child in node.nodes if (arm := _arm(child, stage)) is not None)
        return _parallel(arms, node.merge, node.path, stage)
    if isinstance(node, Branch):
        return _branch(node, stage)
    return _dag(node, stage)


def _step(step: Step, stage: Stage) -> Block | None:
    claims = claims_of(step.processor)
    hook = claims.hooks.get(stage.name)
    if hook is None:
        return None
    policy = step.policy
    on_error = policy.on_error or claims.on_error
    retries = policy.retries if not stage.streams else 0
    wrapped = policy.timeout is not None or retries > 0 or isinstance(on_error, Processor)
    placed = PlanStep(step, claims, stage, TO_POLICY if wrapped else str(on_error), allows=on_error == "allow")
    call = offloaded(hook.call) if policy.offload else hook.call
    awaits = hook.awaits or policy.offload is not None
    movable = int(placed.offloadable and not awaits)
    block = PlanSteps(((placed, call, awaits, stage.context),), not awaits, movable)
    return _under(replace(policy, on_error=on_error), block, step.path, stage, wrapped)


def _under(policy: Policy, block: Block | None, path: str, stage: Stage, wrapped: bool | None = None) -> Block | None:  # noqa: FBT001
    """Return the block under a policy; the block itself if the policy sets nothing."""
    if block is None:
        return None
    sets = policy.timeout is not None or policy.on_error is not None or (policy.retries > 0 and not stage.streams)
    if sets if wrapped is None else wrapped:
        block = _with_policy(policy, block, path, stage, own=bool(wrapped))
    if policy.overlap is not None and stage.overlaps and not any(step.asks for step in plan_steps(block)):
        block = PlanOverlap(block, block.sync)
    return PlanShadow(block, block.sync) if policy.mode == "shadow" else block


def _with_policy(policy: Policy, block: Block, path: str, stage: Stage, *, own: bool) -> PlanPolicy:
    fallback = None
    on_error = policy.on_error
    if isinstance(on_error, Processor):
        fallback = _step(Step(on_error, _fallback_policy(on_error, block), path=f"{path}.fallback"), stage)
        for step in plan_steps(fallback):
            step.asks = False  # it stands in for a step that failed, and has to come to an end
        on_error = "block"
    retries, delay = (policy.retries, policy.retry_delay) if not stage.streams else (0, None)
    sync = block.sync and (fallback is None or fallback.sync) and delay is None
    inside = (block,) if fallback is None else (block, fallback)
    movable = _movable(inside) if policy.timeout is None and delay is None else 0
    return PlanPolicy(block, path, stage, on_error, policy.timeout, fallback, sync, movable, retries, delay, own)


def _movable(blocks: Iterable[Block], merge: MergePolicy = None) -> int:
    """Return how many steps blocks have if all of them may run in a worker; 0 if a function of the user's may not."""
    counts = [block.movable for block in blocks]
    return 0 if callable(merge) or 0 in counts else sum(counts)


def _fallback_policy(fallback: AnyProcessor, block: Block) -> Policy:
    """Return the policy of a fallback. If it replaces a guard, its own failure blocks."""
    lenient = claims_of(fallback).on_error == "allow"
    return Policy(on_error="block") if lenient and _guards(block) else DEFAULT


def _guards(block: Block) -> bool:
    return any(step.role == "guard" for step in plan_steps(block))


def _sequence(nodes: tuple[Node, ...], stage: Stage) -> Block | None:
    blocks: list[Block] = []
    for node in nodes:
        block = _compile(node, stage)
        for inner in block.blocks if isinstance(block, PlanSequence) else (block,):
            before = blocks[-1] if blocks else None
            if (
                isinstance(inner, PlanSteps)
                and isinstance(before, PlanSteps)
                and bool(inner.movable) is bool(before.movable)
            ):
                movable = before.movable + inner.movable
                blocks[-1] = PlanSteps(before.calls + inner.calls, before.sync and inner.sync, movable)
            elif inner is not None:
                blocks.append(inner)
    if len(blocks) <= 1:
        return blocks[0] if blocks else None
    return PlanSequence(tuple(blocks), all(block.sync for block in blocks), _movable(blocks))


def _arm(node: Node, stage: Stage) -> PlanArm | None:
    block = _compile(node, stage)
    if block is None:
        return None
    return PlanArm(_arm_id(node), block, _guards(block))


def _arm_id(node: Node) -> str:
    """Return the path of a step or of a nested workflow; for other nodes, that of the first step."""
    return node.path or next((step.path for step in steps_of(node)), "empty")


def _parallel(arms: tuple[PlanArm, ...], merge: MergePolicy, path: str, stage: Stage) -> Block | None:
    if len(arms) <= 1:  # a parallel of one is that one
        return arms[0].block if arms else None
    movable = _movable([arm.block for arm in arms], merge)
    return PlanParallel(arms, merge, path, stage, all(arm.block.sync for arm in arms), movable)


def _branch(branch: Branch, stage: Stage) -> Block | None:
    arms = tuple(_arm(arm.node, stage) for arm in branch.arms)
    otherwise = None if branch.otherwise is None else _arm(branch.otherwise, stage)
    taken = [arm for arm in (*arms, otherwise) if arm is not None]
    if not taken:
        return None
    conditions = tuple(arm.condition for arm in branch.arms)
    sync = all(arm.block.sync for arm in taken) and not any(is_async(condition) for condition in conditions)
    every = branch.match == "all"
    return PlanBranch(conditions, arms, otherwise, every, branch.merge, branch.on_error, branch.path, stage, sync)


def _dag(dag: Dag, stage: Stage) -> Block | None:
    ordered = topological(dag)
    where = {member.id: index for index, member in enumerate(ordered)}
    ancestors: list[frozenset[int]] = []
    members: list[PlanDagMember] = []
    for member in ordered:
        after = tuple((where[edge.source], edge.when) for edge in member.after)
        above = frozenset(source for source, _ in after).union(*(ancestors[source] for source, _ in after))
        ancestors.append(above)
        members.append(PlanDagMember(member.id, _arm(member.node, stage), after, above))
    arms = [member.arm for member in members if member.arm is not None]
    if not arms:
        return None
    conditions = [when for member in members for _, when in member.after if when is not None]
    sync = all(arm.block.sync for arm in arms) and not any(map(is_async, conditions))
    movable = 0 if conditions else _movable([arm.block for arm in arms], dag.merge)
    return PlanDag(tuple(members), dag.merge, dag.path, stage, sync, movable)


def topological(dag: Dag) -> tuple[DagMember, ...]:
    """Return the members in topological order; in declared order where there is a choice.

    Members on a cycle, and those behind one, are left out; `validate` reports them.
    """
    done: dict[str, DagMember] = {}
    waiting: list[DagMember] = list(dag.members)
    while waiting:
        ready = next((m for m in waiting if all(edge.source in done for edge in m.after)), None)
        if ready is None:
            break
        waiting = [member for member in waiting if member is not ready]
        done[ready.id] = ready
    return tuple(done.values())


def offloaded(call: HookCall) -> HookCall:
    """Return a function that calls a sync hook in a worker thread."""
    return functools.partial(_in_thread, call)


async def _in_thread(hook: HookCall, *given: object) -> object:
    """Run a sync hook in a worker thread; one that is cancelled or times out ends by itself, its result unused."""
    return await run_in_worker(functools.partial(hook, *given), in_turn=False)
