"""A naive interpreter of a workflow's tree: what a plan must agree with; it knows nodes, no plan and no executor.

It is a plain recursion, one step at a time in declared order, so that one can see that it is right. Branches of a
parallel run one after the other; when several trip, any of their verdicts will do (which one it is depends on who is
cancelled first), so a verdict is a set of them.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock import MessageList, Processor, Retry
from penstock.engine import Overrides, StepFailedError, TextEdits
from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step, steps_of
from penstock.engine.processor.context import View
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.processor import claims_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MergeConflictError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.texts import TextPlace
from tests.engine.naive_merge import (
    ConflictError,
    Edits,
    Join,
    Pick,
    Spot,
    State,
    Way,
    area,
    beyond_claim,
    edits_of,
    forked,
    hiding,
    left_over,
    parts_left,
    reshaped,
    spot_of,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.engine.processor.state import StageCall


class Verdicts(Exception):  # noqa: N818 - a verdict is no error
    """The tree was stopped; each of these ``(processor_id, reason)`` is a verdict it may end with."""

    def __init__(self, *found: tuple[str, str]) -> None:
        self.found = frozenset(found)
        super().__init__(found)


class FailedVerdicts(Verdicts):
    """The tree was stopped by failures only: a policy that retries tries again."""


async def interpret(node: Node, call: StageCall, payload: Payload) -> Payload:
    """Return the payload behind a node, or raise `Verdicts` or a `StepFailedError`."""
    return (await _node(node, call, State(payload))).payload


async def _node(node: Node, call: StageCall, payload: State) -> State:
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


async def _one_after_the_other(nodes: tuple[Node, ...], call: StageCall, payload: State) -> State:
    for node in nodes:
        payload = await _node(node, call, payload)
    return payload


async def _policed(node: Sequence, call: StageCall, payload: State) -> State:
    """A sequence, and what its own policy makes of a failure inside."""
    try:
        after = await _tried(node.policy.retries, lambda: _one_after_the_other(node.nodes, call, payload))
    except StepFailedError as error:
        if node.policy.mode == "shadow":
            return payload
        after = await _failed(node.policy.on_error or "raise", node.path, call, payload, error)
    except Verdicts:
        if node.policy.mode != "shadow":
            raise
        after = payload
    return payload if node.policy.mode == "shadow" else after


async def _tried(retries: int, attempt: Callable[[], Awaitable[State]]) -> State:
    """Try it, and after a failure again; a verdict is no failure."""
    for _ in range(retries):
        try:
            return await attempt()
        except (StepFailedError, FailedVerdicts, _BrokeError):
            pass
    return await attempt()


async def _failed(on_error: Any, path: str, call: StageCall, payload: State, error: StepFailedError) -> State:
    if isinstance(on_error, Processor):
        return await _step(Step(on_error, path=f"{path}.fallback"), call, payload)
    if on_error == "allow":
        return payload
    if on_error == "block":
        raise FailedVerdicts((error.processor_id, f"{error.processor_id} failed, so what it checks is blocked"))
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


async def _step(step: Step, call: StageCall, payload: State) -> State:
    claims = claims_of(step.processor)
    hook = claims.hooks.get(call.stage.name)
    if hook is None:
        return payload
    placed = _Placed(step)
    try:
        after = await _tried(step.policy.retries, lambda: _hooked(placed, claims, hook.call, call, payload))
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


async def _hooked(placed: _Placed, claims: Any, hook: Any, call: StageCall, payload: State) -> State:
    """Call one hook, whatever it does to its verdict, and put what it returned into the payload."""
    stage, before = STAGES[call.stage.name], payload.payload
    ctx = stage.context(call, placed, before)
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
    after = before if result is None else stage.accept(stage, before, result)
    said = _told(result)
    told = {spot: edits for place, edits in said.items() if edits and (spot := spot_of(before, place))}
    hidden = frozenset(
        ("messages", place.message_id, "parts") if place.message_id else ("fields", place.path[0])
        for place, edits in said.items()
        if any(edit.hidden for edit in edits)
    )
    edits = edits_of(before, after, told, placed.path, hidden)
    changed = reshaped(before, after, told)
    hidden = changed if claims.role == "guard" else frozenset(spot for spot in changed if area(spot) in hidden)
    if claims.role == "guard":  # all that it takes away is hidden
        edits = {
            spot: tuple(replace(e, hides=e.hides or e.start < e.end) for e in made) for spot, made in edits.items()
        }
    if beyond_claim(claims.edits, before, after, edits):
        raise _BrokeError
    facts = after.facts if effects is None else FrozenDict({**after.facts, **(effects.facts or {})})
    data = after.data if effects is None else (*after.data, *(effects.data or ()))
    end = Payload(after.message_list, facts, after.fields, data, None, after.finished)
    return payload.then(end, edits, parts_left(before, after), hidden)


def _told(result: object) -> dict[TextPlace, Edits]:
    """Return the edits of texts that a hook tells of."""
    if isinstance(result, TextEdits):
        return {TextPlace("", 0, path): tuple(edits) for path, edits in result.changes.items()}
    messages = result.messages if isinstance(result, (Overrides, Retry)) else result
    return dict(messages.known_edits.texts) if isinstance(messages, MessageList) else {}


async def _beside(nodes: tuple[Node, ...], policy: Any, path: str, call: StageCall, payload: State) -> State:
    """Every branch sees the payload at the fork; where they meet, a verdict beats a failure, a failure beats edits."""
    ends: list[tuple[Node, State]] = []
    verdicts: list[Verdicts] = []
    failures: list[StepFailedError] = []
    for node in nodes:
        try:
            ends.append((node, await _node(node, call, forked(payload.payload))))
        except Verdicts as verdict:
            verdicts.append(verdict)
        except StepFailedError as error:
            failures.append(error)
    if verdicts:
        raise _all_of(verdicts)
    if failures:
        raise failures[0]
    ways = [Way(name_of(node).rsplit("/", 1)[-1], name_of(node), end) for node, end in ends]
    try:
        met = Join(payload.payload, ways, policy).state()
    except ConflictError as conflict:
        raise _conflict(conflict.steps, nodes, path, call) from None
    return payload.then(met.payload, met.edits, met.left, met.hidden, met.unsettled)


def _all_of(verdicts: list[Verdicts]) -> Verdicts:
    kind = FailedVerdicts if all(isinstance(one, FailedVerdicts) for one in verdicts) else Verdicts
    return kind(*(found for one in verdicts for found in one.found))


def _conflict(culprits: set[str], nodes: tuple[Node, ...], path: str, call: StageCall) -> Exception:
    """A conflict blocks if one of the culprits is a guard, or has a guard in it; else it is raised."""
    guards = set()
    for node in nodes:
        here = [step for step in steps_of(node) if call.stage.name in step.claims.hooks]
        inside = {step.path for step in here if step.claims.role == "guard"}
        guards |= inside | ({name_of(node)} if inside else set())
    if guards & culprits:
        return FailedVerdicts((path, f"{path} failed, so what it checks is blocked"))
    return MergeConflictError(path, call.stage.name, sorted(culprits), ())


def name_of(node: Node) -> str:
    """The path of a node, or of the first step in it."""
    return node.path or next((step.path for step in steps_of(node)), "empty")


async def _branch(node: Branch, call: StageCall, payload: State) -> State:
    taken: list[Node] = []
    view = View(call, payload.payload)
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
        return await _node(taken[0], call, payload)
    return await _beside(tuple(taken), node.merge, node.path, call, payload)


async def _dag(node: Dag, call: StageCall, payload: State) -> State:
    """Every member sees what all of its ancestors did; what each did is carried back to the entry and united there."""
    walk = _DagWalk(node, call, payload.payload)
    for member in walk.members:
        await walk.visit(member)
    if walk.verdicts:
        raise _all_of(walk.verdicts)
    if walk.failures:
        raise next(iter(walk.failures.values()))
    everyone = frozenset(walk.ends)
    after = walk.state(everyone)
    data = payload.payload.data + tuple(chunk for end in walk.ends.values() for chunk in end.data)
    finished = any(end.finished for end in walk.ends.values())
    met = Payload(after.message_list, after.facts, after.fields, data, None, finished)
    made = walk.since(frozenset(), everyone)
    return payload.then(met, made.edits, made.left, made.hidden, made.unsettled)


Members = frozenset[str]


class _Met(NamedTuple):
    """What some members add up to: a smaller set of them, and what leads from that one's payload to this one's."""

    below: Members
    state: State
    credit: dict[Spot, str]


class _DagWalk:
    """One walk through a dag's members, in an order in which each comes after those it follows."""

    def __init__(self, node: Dag, call: StageCall, entry: Payload) -> None:
        self.node, self.call = node, call
        self.members: list[DagMember] = []
        while len(self.members) < len(node.members):
            done = [member.id for member in self.members]
            ready = [m for m in node.members if m.id not in done and all(edge.source in done for edge in m.after)]
            self.members.append(ready[0])
        self.met: dict[Members, _Met] = {frozenset(): _Met(frozenset(), forked(entry), {})}
        self.above: dict[str, Members] = {}
        self.ends: dict[str, Payload] = {}
        self.ran: set[str] = set()
        self.verdicts: list[Verdicts] = []
        self.failures: dict[str, StepFailedError] = {}
        self.broken: set[str] = set()

    async def visit(self, member: DagMember) -> None:
        """Run one member, unless something before it broke or no way leads to it."""
        sources = [edge.source for edge in member.after]
        self.above[member.id] = frozenset(sources).union(*(self.above[source] for source in sources))
        if self.broken & self.above[member.id]:
            return
        try:
            await self._run(member, self.above[member.id] & set(self.ends))
        except Verdicts as verdict:
            self.verdicts.append(verdict)
            self.broken.add(member.id)
        except StepFailedError as error:
            self.failures[member.id] = error
            self.broken.add(member.id)

    async def _run(self, member: DagMember, before: Members) -> None:
        met = self.state(before)
        finished = any(self.ends[name].finished for name in before)
        seen = forked(Payload(met.message_list, met.facts, met.fields, (), None, finished))
        if finished or not await _reached(self.node, member, seen.payload, self.ran, self.call):
            return
        self.ran.add(member.id)
        end = await _node(member.node, self.call, seen)
        alone = Join(seen.payload, [Way(member.id, name_of(member.node), end)], None)
        alone.state()
        self.ends[member.id] = end.payload
        self.met[before | {member.id}] = _Met(before, end.completed(name_of(member.node), seen.payload), alone.credit)

    def state(self, members: Members) -> Payload:
        """Return what members add up to, each of which stands there with all before it."""
        if members not in self.met:
            self.met[members] = self._meet(members)
        return self.met[members].state.payload

    def _meet(self, members: Members) -> _Met:
        """Join the last of them, over what all of these have in common."""
        order = [member.id for member in self.members if member.id in members]
        heads = [name for name in order if not any(name in self.above[other] for other in order)]
        common, groups = self._groups([(self.above[name] & members) | {name} for name in heads])
        base = self.state(common)
        nodes = {member.id: member.node for member in self.members}
        ways = []
        for group in groups:
            end = self.since(common, group)
            last = name_of(nodes[[name for name in order if name in group][-1]])
            names = {name_of(nodes[name]).rsplit("/", 1)[-1] for name in group - common}
            picked = self.node.merge.branch if isinstance(self.node.merge, Pick) else None
            ways.append(Way(picked if picked in names else last.rsplit("/", 1)[-1], last, end, self._credit(group)))
        join = Join(base, ways, self.node.merge)
        try:
            return _Met(common, join.state(), join.credit)
        except ConflictError as conflict:
            inside = tuple(member.node for member in self.node.members)
            raise _conflict(conflict.steps, inside, self.node.path, self.call) from None

    def _groups(self, heads: list[Members]) -> tuple[Members, list[Members]]:
        """Return what all have in common, and the sets that share nothing but that."""
        common = frozenset.intersection(*heads)
        groups: list[Members] = []
        for head in heads:
            touching = [group for group in groups if group & head - common]
            if touching:
                groups[groups.index(touching[0])] = head.union(*touching)
                groups = [group for group in groups if group not in touching]
            else:
                groups.append(head)
        if len(groups) > 1:
            return common, groups
        united = heads[0]  # each has something in common with another, so one joins after the other
        for head in heads[1:-1]:
            united |= head
            self.state(united)
        return united & heads[-1], [united, heads[-1]]

    def since(self, low: Members, high: Members) -> State:
        """Return what more members than some add up to, as a branch that begins where those few end."""
        if low == high:
            return forked(self.state(low))
        self.state(high)
        met = self.met[high]
        self.state(met.below)
        if low <= met.below:
            end = met.state
            return self.since(low, met.below).then(end.payload, end.edits, end.left, end.hidden, end.unsettled)
        common = low & met.below
        base = texts(self.state(common))
        done, whole = self.since(common, low), self.since(common, high)
        rest = {
            spot: left_over(base[spot], done.edits.get(spot, ()), whole.edits.get(spot, ()))
            for spot in {**done.edits, **whole.edits}
        }
        rest = {spot: edits for spot, edits in rest.items() if edits}
        there = texts(done.payload)
        if not reshaped(self.state(common), done.payload, done.edits):
            return State(whole.payload, there, rest, whole.left, whole.hidden, whole.reshaped, whole.unsettled)
        hidden = hiding(whole.edits) | {area(spot) for spot in whole.hidden}
        rest = {spot: edits for spot, edits in rest.items() if spot in there}
        return State(whole.payload, there, rest, {}, hidden, whole.reshaped, whole.unsettled)

    def _credit(self, members: Members) -> dict[Spot, str]:
        """Return who of the members changed what is taken whole."""
        met = self.met[members]
        return {**self._credit(met.below), **met.credit} if members else {}


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
