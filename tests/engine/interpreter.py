"""A naive interpreter of a workflow's tree: what a plan must agree with; it knows nodes, no plan and no executor.

It is a plain recursion, one step at a time in declared order, so that one can see that it is right. Branches of a
parallel run one after the other; when several trip, any of their verdicts will do (which one it is depends on who is
cancelled first), so a verdict is a set of them.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step, steps_of
from penstock.engine.graph.plan import topological
from penstock.engine.merging.changes import composed, rebuild
from penstock.engine.merging.dag_state import DagState
from penstock.engine.merging.diff import diff
from penstock.engine.merging.rules import BranchChanges, merge
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import NO_CHANGES, Changes, Gone, Payload
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.processor.stages import STAGES, known_edits
from penstock.engine.values.errors import MergeConflictError, StepFailedError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.texts import KnownEdits

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.engine.processor.state import StageCall


class Verdicts(Exception):  # noqa: N818 - a verdict is no error
    """The tree was stopped; each of these ``(processor_id, reason)`` is a verdict it may end with."""

    def __init__(self, *found: tuple[str, str]) -> None:
        self.found = frozenset(found)
        super().__init__(found)


async def interpret(node: Node, call: StageCall, payload: Payload) -> Payload:
    """Return the payload behind a node, or raise `Verdicts` or a `StepFailedError`."""
    if not any(call.stage.name in step.claims.hooks for step in steps_of(node)):
        return payload  # nothing to do here in this stage, so nothing is asked either
    if isinstance(node, Step):
        return await _step(node, call, payload)
    if isinstance(node, Sequence):
        return await _policed(node, call, payload)
    if isinstance(node, Parallel):
        if node.merge == "sequence":
            return await _one_after_the_other(node.nodes, call, payload)
        return await _beside(node.nodes, node.merge, node.path, call, payload)
    if isinstance(node, Branch):
        return await _branch(node, call, payload)
    return await _dag(node, call, payload)


async def _one_after_the_other(nodes: tuple[Node, ...], call: StageCall, payload: Payload) -> Payload:
    for node in nodes:
        payload = await interpret(node, call, payload)
    return payload


async def _policed(node: Sequence, call: StageCall, payload: Payload) -> Payload:
    """A sequence, and what its own policy makes of a failure inside."""
    try:
        after = await _one_after_the_other(node.nodes, call, payload)
    except StepFailedError as error:
        if node.policy.mode == "shadow":
            return payload
        after = await _failed(node.policy.on_error or "raise", node.path, call, payload, error)
    except Verdicts:
        if node.policy.mode != "shadow":
            raise
        after = payload
    return payload if node.policy.mode == "shadow" else after


async def _failed(on_error: Any, path: str, call: StageCall, payload: Payload, error: StepFailedError) -> Payload:
    if isinstance(on_error, Processor):
        return await _step(Step(on_error, path=f"{path}.fallback"), call, payload)
    if on_error == "allow":
        return payload
    if on_error == "block":
        raise Verdicts((error.processor_id, f"{error.processor_id} failed, so what it checks is blocked"))
    raise error


class _BrokeError(Exception):
    """A hook raised, or returned what it may not."""


class _Placed:
    """What a context wants to know of its step."""

    def __init__(self, step: Step) -> None:
        self.path = step.path
        self.processor_id = step.path.rsplit("/", 1)[-1]
        self.provides = claims_of(step.processor).provides
        self.new_state = step.processor.new_state


async def _step(step: Step, call: StageCall, payload: Payload) -> Payload:
    claims = claims_of(step.processor)
    hook = claims.hooks.get(call.stage.name)
    if hook is None:
        return payload
    placed = _Placed(step)
    try:
        after = await _hooked(placed, claims, hook.call, call, payload)
    except Verdicts:
        if step.policy.mode == "shadow":
            return payload
        raise
    except _BrokeError as error:
        if step.policy.mode == "shadow":
            return payload
        failure = StepFailedError(placed.path, placed.processor_id, call.stage.name, str(error))
        after = await _failed(step.policy.on_error or claims.on_error, step.path, call, payload, failure)
    return payload if step.policy.mode == "shadow" else after


async def _hooked(placed: _Placed, claims: Any, hook: Any, call: StageCall, payload: Payload) -> Payload:
    """Call one hook, whatever it does to its verdict, and put what it returned into the payload."""
    ctx = STAGES[call.stage.name].context(call, placed, payload)
    broke: BaseException | None = None
    result = None
    try:
        result = hook(ctx)
        if inspect.isawaitable(result):
            result = await result
    except BaseException as error:  # noqa: BLE001 - the verdict is looked for first
        broke = error
    effects = ctx.effects
    if effects is not None and effects.tripwire is not None:
        raise Verdicts((placed.processor_id, effects.tripwire.reason))
    if broke is not None:
        raise _BrokeError from broke
    stage = STAGES[call.stage.name]
    after = payload if result is None else compared(stage.accept(stage, payload, result))
    known = known_edits(result)
    claim, hides = claims.edits, claims.role == "guard"
    edited = isinstance(result, MessageList) and known.complete and claim == "spans"
    made = diff(payload, after, placed.path, KnownEdits(known.texts, complete=False), hides=hides)
    beyond = any(not isinstance(one, Gone) for one in made.others.values())
    if not edited and ((claim == "nothing" and made) or (claim == "spans" and beyond)):
        raise _BrokeError
    facts = {**after.facts, **(effects.facts or {})} if effects is not None else after.facts
    data = (*after.data, *(effects.data or ())) if effects is not None else after.data
    logged = Changes(composed(texts_of(payload), made.texts), {})
    return compared(Payload(after.message_list, FrozenDict(facts), after.fields, data, None, after.settled, logged))


def texts_of(payload: Payload) -> Any:
    """Return the text edits that are known to have been made since the fork."""
    return (payload.changes or NO_CHANGES).texts


def compared(payload: Payload) -> Payload:
    """Return the payload with its changes to be found by comparing, never taken on trust."""
    kept = (payload.data, None, payload.settled, Changes(texts_of(payload), {}, complete=False))
    return Payload(payload.message_list, payload.facts, payload.fields, *kept)


async def _beside(nodes: tuple[Node, ...], policy: Any, path: str, call: StageCall, payload: Payload) -> Payload:
    """Every branch sees the payload at the fork; where they meet, a verdict beats a failure, a failure beats edits."""
    ends: list[tuple[Node, Payload]] = []
    verdicts: list[tuple[str, str]] = []
    failures: list[StepFailedError] = []
    for node in nodes:
        try:
            ends.append((node, await interpret(node, call, payload.tracked())))
        except Verdicts as verdict:
            verdicts.extend(verdict.found)
        except StepFailedError as error:
            failures.append(error)
    if verdicts:
        raise Verdicts(*verdicts)
    if failures:
        raise failures[0]
    fork = payload.tracked()
    changes = [
        BranchChanges(name_of(n), diff(fork, end, name_of(n), KnownEdits(texts_of(end), complete=False)))
        for n, end in ends
    ]
    return _joined(payload, changes, policy, nodes, path, call, [end for _, end in ends])


def _joined(
    payload: Payload,
    changes: list[BranchChanges],
    policy: Any,
    nodes: tuple[Node, ...],
    path: str,
    call: StageCall,
    ends: list[Payload],
) -> Payload:
    merged = merge(payload.tracked(), changes, policy)
    if merged.unresolved:
        raise _conflict(merged.unresolved, nodes, path, call)
    after = rebuild(payload, merged.changes)
    data = payload.data + tuple(chunk for end in ends for chunk in end.data)
    logged = Changes(composed(texts_of(payload), merged.changes.texts), {})
    settled = any(end.settled for end in ends)
    return compared(Payload(after.message_list, after.facts, after.fields, data, None, settled, logged))


def _conflict(unsettled: Any, nodes: tuple[Node, ...], path: str, call: StageCall) -> Exception:
    """A conflict blocks if one of the culprits is a guard, or has a guard in it; else it is raised."""
    culprits = {step for conflict in unsettled for step in conflict.steps}
    guards = set()
    for node in nodes:
        here = [step for step in steps_of(node) if call.stage.name in step.claims.hooks]
        inside = {step.path for step in here if step.claims.role == "guard"}
        guards |= inside | ({name_of(node)} if inside else set())
    if guards & culprits:
        return Verdicts((path, f"{path} failed, so what it checks is blocked"))
    return MergeConflictError(path, call.stage.name, sorted(culprits), ())


def name_of(node: Node) -> str:
    """The path of a node, or of the first step in it."""
    return node.path or next((step.path for step in steps_of(node)), "empty")


async def _branch(node: Branch, call: StageCall, payload: Payload) -> Payload:
    taken: list[Node] = []
    view = View(call, payload)
    for number, arm in enumerate(node.arms):
        try:
            holds = arm.condition(view)
            if inspect.isawaitable(holds):
                holds = await holds
            holds = bool(holds)
        except BaseException as error:  # noqa: BLE001 - whatever breaks a condition
            failure = StepFailedError(f"{node.path}[{number}]", node.path, call.stage.name, type(error).__name__)
            return await _failed(node.on_error, node.path, call, payload, failure)
        if holds:
            taken.append(arm.node)
            if node.match == "first":
                break
    if not taken and node.otherwise is not None:
        taken.append(node.otherwise)
    if len(taken) == 1:
        return await interpret(taken[0], call, payload)
    return await _beside(tuple(taken), node.merge, node.path, call, payload)


async def _dag(node: Dag, call: StageCall, payload: Payload) -> Payload:
    """Every member sees what all of its ancestors did; what each did is carried back to the entry and united there."""
    walk = _DagWalk(node, call, payload.tracked())
    for member in topological(node):
        await walk.visit(member)
    if walk.verdicts:
        raise Verdicts(*walk.verdicts)
    if walk.failures:
        raise next(iter(walk.failures.values()))
    after = walk.history.state(walk.bits(set(walk.ends)))
    changes = walk.history.changes(0, walk.bits(set(walk.ends)))
    data = payload.data + tuple(chunk for end in walk.ends.values() for chunk in end.data)
    settled = any(end.settled for end in walk.ends.values())
    logged = Changes(composed(texts_of(payload), changes.texts), {})
    return compared(Payload(after.message_list, after.facts, after.fields, data, None, settled, logged))


class _DagWalk:
    """One walk through a dag's members, in an order in which each comes after those it follows."""

    def __init__(self, node: Dag, call: StageCall, entry: Payload) -> None:
        self.node, self.call = node, call
        self.history = DagState(entry, node.merge, self.united)
        self.places = {member.id: index for index, member in enumerate(topological(node))}
        self.ancestors: dict[str, set[str]] = {}
        self.ends: dict[str, Payload] = {}
        self.ran: set[str] = set()
        self.verdicts: list[tuple[str, str]] = []
        self.failures: dict[str, StepFailedError] = {}
        self.broken: set[str] = set()

    def bits(self, names: set[str]) -> int:
        """Return those of the members that ended, as `DagState` writes sets."""
        return sum(1 << self.places[name] for name in names if name in self.ends)

    def united(self, base: Payload, branches: Any) -> Changes:
        """Return the changes of branches as one."""
        merged = merge(base, branches, self.node.merge)
        if merged.unresolved:
            nodes = tuple(member.node for member in self.node.members)
            raise _conflict(merged.unresolved, nodes, self.node.path, self.call)
        return merged.changes

    async def visit(self, member: DagMember) -> None:
        """Run one member, unless something before it broke or no way leads to it."""
        above = {edge.source for edge in member.after}
        before = self.ancestors[member.id] = above.union(*(self.ancestors[source] for source in above))
        if self.broken & before:
            return
        try:
            await self._run(member, before)
        except Verdicts as verdict:
            self.verdicts.extend(verdict.found)
            self.broken.add(member.id)
        except StepFailedError as error:
            self.failures[member.id] = error
            self.broken.add(member.id)

    async def _run(self, member: DagMember, before: set[str]) -> None:
        met = self.history.state(self.bits(before))
        settled = any(self.ends[name].settled for name in before if name in self.ends)
        seen = compared(Payload(met.message_list, met.facts, met.fields, (), None, settled, NO_CHANGES))
        if settled or not await _reached(self.node, member, seen, self.ran, self.call):
            return
        self.ran.add(member.id)
        end = await interpret(member.node, self.call, seen)
        name = name_of(member.node)
        self.history.add(self.places[member.id], name.rsplit("/", 1)[-1], name, self.bits(before), end)
        self.ends[member.id] = end


async def _reached(node: Dag, member: Any, seen: Payload, ran: set[str], call: StageCall) -> bool:
    if not member.after:
        return True
    for edge in member.after:
        if edge.source not in ran:
            continue
        if edge.when is None:
            return True
        try:
            holds = edge.when(View(call, seen))
            if inspect.isawaitable(holds):
                holds = await holds
        except BaseException as error:
            where = f"{node.path}/{member.id}[when]"
            raise StepFailedError(where, member.id, call.stage.name, type(error).__name__) from error
        if holds:
            return True
    return False
