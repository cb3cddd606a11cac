"""The scene: a workflow or an agent as a tree of parts. Every drawing and every diff reads it; only this walks nodes.

A part is a step, or holds parts: a workflow, a parallel, a branch with its arms, a dag with its members. Of a sequence
without a name and a policy only the parts are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.graph.condition_words import condition_label, condition_words
from penstock.engine.graph.nodes import DEFAULT, Branch, Parallel, Sequence, Step, resolve
from penstock.engine.processor.stages import STAGES
from penstock.pictures.agent_parts import NO_PARTS
from penstock.pictures.labels import last, merge_words, policy_words, stage_words, step_words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from penstock.engine.graph.nodes import DagEdge, Node, Policy
    from penstock.engine.graph.plan_cache import Plans
    from penstock.pictures.agent_parts import AgentParts
    from penstock.pictures.labels import Detail

_MOST_TOOLS = 8
"""How many tools a box names."""

PartKind: TypeAlias = Literal[
    "root", "list", "step", "workflow", "steps", "parallel", "branch", "arm", "dag", "memory", "folded"
]


@dataclass(eq=False, slots=True)
class Part:
    """A part of a scene, and the parts in it, in declared order.

    Attributes:
        kind: its kind; ``steps`` is a sequence without a name, ``list`` a processor list of an agent, ``memory`` what
            a memory adds to a list, ``folded`` the same as one box.
        path: its path; of an arm ``PATH:0`` or ``PATH:otherwise``; empty for ``steps``.
        inside: the parts in it.
        step: of a step, the step.
        policy: of a step or a sequence, its policy.
        merge: of a parallel, a branch or a dag, how changes are merged.
        match: of a branch, ``first`` or ``all``.
        on_error: of a branch, what happens if a condition fails.
        condition: of an arm, its condition; None for ``otherwise``.
        stages: of a step or a list, the stages at which it runs.
        serves: of a list, ``input``, ``output`` or ``error``.
        member: of a member of a dag, its id there.
        after: of a member of a dag, the edges to it.
        above: the part that it is in.
    """

    kind: PartKind
    path: str = ""
    inside: list[Part] = field(default_factory=list["Part"])
    step: Step | None = None
    policy: Policy = DEFAULT
    merge: object = None
    match: str = "first"
    on_error: str = "raise"
    condition: object = None
    stages: tuple[str, ...] = ()
    serves: str = ""
    member: str = ""
    after: tuple[DagEdge, ...] = ()
    above: Part | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Tell the parts in it where they are."""
        for one in self.inside:
            one.above = self

    @property
    def id(self) -> str:
        """The last part of its path."""
        return last(self.path)

    @property
    def shadow(self) -> bool:
        """Whether it runs beside the flow."""
        return self.policy.mode == "shadow"

    @property
    def otherwise(self) -> bool:
        """Whether it is the last arm of a branch, without a condition."""
        return self.kind == "arm" and self.condition is None

    @property
    def merging(self) -> tuple[str, ...]:
        """How changes are merged, in words; empty if nothing says so."""
        words = merge_words(self.merge)
        return (words,) if words else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Its policy in words, how a branch chooses, or the names of the steps in a folded box."""
        if self.kind == "folded":
            return tuple(one.id for one in self.walk() if one.step)
        if self.kind != "branch":
            return policy_words(self.policy)
        how = "first that holds" if self.match == "first" else "every one that holds"
        return (how, "on_error=block") if self.on_error == "block" else (how,)

    @property
    def title(self) -> str:
        """The condition of an arm in words; the name of anything else."""
        if self.kind == "arm":
            return "otherwise" if self.condition is None else condition_words(self.condition)
        if self.kind == "folded":
            return "memory"
        return f"{self.serves} processors" if self.kind == "list" else self.id or self.kind

    @property
    def label(self) -> str:
        """The condition of an arm in words, cut to the length of a label."""
        return "otherwise" if self.condition is None else f"if {condition_label(self.condition)}"

    @property
    def unseen(self) -> bool:
        """Whether pictures show only the parts in it."""
        if self.kind == "parallel":
            return len(self.inside) == 1
        return self.kind == "steps" and not self.notes

    def walk(self) -> Iterator[Part]:
        """Yield it and all parts in it, each before those in it."""
        waiting: list[Part] = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.inside))

    def steps(self) -> Iterator[Step]:
        """Yield the steps in it."""
        return (one.step for one in self.walk() if one.step)

    @property
    def empty(self) -> bool:
        """Whether there is no step in it."""
        return not any(True for _ in self.steps())

    def chain(self) -> list[Part]:
        """Return the drawn parts in it: those with steps; an unseen part is replaced by the parts in it."""
        return [drawn for one in self.inside for drawn in one.drawn()]

    def drawn(self) -> list[Part]:
        """Return it, or the parts in it if it is unseen; nothing if it has no steps."""
        return [] if self.empty else self.chain() if self.unseen else [self]

    @property
    def bare_dag(self) -> Part | None:
        """The dag that it consists of, if changes are not merged there; a picture needs no frame for it."""
        only = self.inside[0] if len(self.inside) == 1 else None
        return only if only and only.kind == "dag" and only.merge is None else None

    def in_order(self) -> list[Part]:
        """Return the members of a dag in topological order; those on a cycle, and behind one, are the last."""
        ordered: list[Part] = []
        waiting = list(self.inside)
        known: set[str] = set()
        while ready := next((one for one in waiting if all(edge.source in known for edge in one.after)), None):
            waiting.remove(ready)
            ordered.append(ready)
            known.add(ready.member)
        return ordered + waiting

    def unknown(self) -> list[str]:
        """Return the ids that edges in a dag name, although no member has them."""
        members = self.in_order()
        ids = {one.member for one in members}
        return list(dict.fromkeys(edge.source for one in members for edge in one.after if edge.source not in ids))


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole diagram.

    Attributes:
        name: the name of the workflow or the agent.
        root: all parts.
        stage: the stage whose steps it shows; None: all.
        detail: how much it says of each step.
        model: of an agent, the name of the model between its lists, or empty to leave it out; None for a workflow.
        tools: the names of the tools that the model calls, if it is there.
    """

    name: str
    root: Part
    stage: str | None = None
    detail: Detail = "short"
    model: str | None = None
    tools: tuple[str, ...] = ()

    @property
    def named_tools(self) -> tuple[str, ...]:
        """The names of the tools for their box: the first ones, and how many more there are."""
        left = len(self.tools) - _MOST_TOOLS
        return self.tools if left <= 1 else (*self.tools[:_MOST_TOOLS], f"and {left} more")

    @property
    def stages(self) -> tuple[str, ...]:
        """All stages at which something in it runs."""
        return _in_order(self.root)

    @property
    def notes(self) -> tuple[str, ...]:
        """The words below the title of the whole: the stages of all steps, if all have the same."""
        if self.stage is not None:
            return (f"at {stage_words((self.stage,))}",)
        stages = self._stages_of_steps() if self.detail == "full" else set[tuple[str, ...]]()
        return tuple(f"at {stage_words(one)}" for one in stages) if len(stages) == 1 else ()

    def folded(self) -> Scene:
        """Return it with one box for each frame of a memory."""
        return replace(self, root=_folded(self.root))

    def lines(self) -> dict[Part, tuple[str, ...]]:
        """Return the lines below the title of each step, with its stages if not all have the same."""
        apart = self.stage is None and self.detail == "full" and len(self._stages_of_steps()) > 1
        return {one: self.words(one, stages=apart) for one in self.root.walk() if one.step}

    def words(self, part: Part, *, stages: bool) -> tuple[str, ...]:
        """Return the lines below the title of a step, with its stages if asked for."""
        words = step_words(part.step, self.detail) if part.step else ()
        return (*words, stage_words(part.stages)) if stages else words

    def _stages_of_steps(self) -> set[tuple[str, ...]]:
        return {one.stages for one in self.root.walk() if one.step}


def scene_of(name: str, root: Sequence, stage: str | None = None, detail: Detail = "short") -> Scene:
    """Return the scene of a workflow.

    Args:
        name: the workflow's name.
        root: its graph.
        stage: show only the steps that have this stage; None: all of them.
        detail: how much is said of each step.
    """
    inside = _chain(resolve(root).nodes)
    if stage is not None:
        inside = [kept for one in inside for kept in _kept(one, {stage}, narrowed=False)]
    return Scene(name, Part("root", inside=inside), stage, detail)


def scene_of_lists(
    name: str,
    plans: Plans,
    stage: str | None,
    detail: Detail = "short",
    model: str = "model",
    parts: AgentParts = NO_PARTS,
) -> Scene:
    """Return the scene of an agent: its processor lists, each with the steps that run at its stages.

    Args:
        name: the agent's name.
        plans: the plans of the lists.
        stage: show only the steps of this stage, in the order in which they run; None: all lists.
        detail: how much is said of each step.
        model: the name of the model between the lists.
        parts: what the agent has beside its lists.
    """
    wanted = STAGES.values() if stage is None else (STAGES[stage],)
    lists: list[Part] = []
    for serves, order in (plans.orders or {}).items():
        runs = {one.name for one in wanted if one.processor_list == serves}
        chain = [part for index in order for part in _chain((plans.resolved.nodes[index],))]
        made = Part("list", inside=[kept for one in chain for kept in _kept(one, runs, narrowed=True)], serves=serves)
        if stage is None and serves == "input":
            made = _without(made, {id(one) for one in made.walk() if one.step and _saves_later(one.step)})
        made.stages = _in_order(made)
        if stage is None and serves == "output":
            _name_all_stages(made)
        if stage is None:
            made = replace(made, inside=_framed(made.inside, parts.memory))
        if made.inside:
            lists.append(made)
    if stage is not None:
        return Scene(name, Part("root", inside=lists), stage, detail, "")
    return Scene(name, Part("root", inside=lists), None, detail, model, parts.tools)


def _framed(chain: Iterable[Part], memory: Collection[object]) -> list[Part]:
    """Return parts in their order; those of a memory that stand one behind the other are in a frame."""
    known = {id(one) for one in memory}
    framed: list[Part] = []
    for ours, ones in groupby(chain, lambda part: part.step is not None and id(part.step.processor) in known):
        inside = list(ones)
        framed += [Part("memory", inside=inside)] if ours else inside
    return framed


def _folded(part: Part) -> Part:
    """Return a part in which each frame of a memory is one box."""
    if part.kind == "memory":
        return Part("folded", next(one.path for one in part.walk() if one.step), part.inside)
    return replace(part, inside=[_folded(one) for one in part.inside]) if part.inside else part


def _name_all_stages(output: Part) -> None:
    """Give the steps that `_saves_later` all of their stages: no other box shows them."""
    for one in output.walk():
        if one.step and _saves_later(one.step):
            one.stages = tuple(one.step.claims.hooks)


def _saves_later(step: Step) -> bool:
    """Return whether a step stores what the model's answer leaves: its box stands behind the model only.

    It may run around the model, too, for example to store the input once it has passed its guards.
    """
    hooks = step.claims.hooks
    serves = {STAGES[name].processor_list for name in hooks}
    return step.claims.stores and "process_input" not in hooks and {"input", "output"} <= serves


def _without(part: Part, gone: Collection[int]) -> Part:
    """Return a part without some of those in it, by their identity, and without parts that are empty then."""
    inside = [_without(one, gone) for one in part.inside if id(one) not in gone]
    return replace(part, inside=[one for one in inside if one.kind in ("step", "arm") or not one.empty])


def _in_order(part: Part) -> tuple[str, ...]:
    found = {stage for one in part.walk() if one.step for stage in one.stages}
    return tuple(stage for stage in STAGES if stage in found)


def _chain(nodes: Iterable[Node]) -> list[Part]:
    """Return nodes that stand one after another; those of a sequence that says nothing stand among them."""
    parts = [_part(node) for node in nodes]
    return [part for one in parts for part in (one.inside if one.kind == "steps" and one.policy == DEFAULT else (one,))]


def _part(node: Node) -> Part:
    if isinstance(node, Step):
        return Part("step", node.path, step=node, policy=node.policy, stages=tuple(node.claims.hooks))
    if isinstance(node, Sequence):
        return Part("workflow" if node.name else "steps", node.path, _chain(node.nodes), policy=node.policy)
    if isinstance(node, Parallel):
        return Part("parallel", node.path, [_part(child) for child in node.nodes], merge=node.merge)
    if isinstance(node, Branch):
        arms = [
            Part("arm", f"{node.path}:{number}", _chain((arm.node,)), condition=arm.condition)
            for number, arm in enumerate(node.arms)
        ]
        if node.otherwise is not None:
            arms.append(Part("arm", f"{node.path}:otherwise", _chain((node.otherwise,))))
        return Part("branch", node.path, arms, merge=node.merge, match=node.match, on_error=node.on_error)
    members = [replace(_part(one.node), member=one.id, after=one.after) for one in node.members]
    return Part("dag", node.path, members, merge=node.merge)


def _kept(part: Part, stages: Collection[str], *, narrowed: bool) -> list[Part]:
    """Return a part without the steps that have none of these stages, and without parts that are empty then.

    Args:
        part: the part.
        stages: the stages.
        narrowed: whether steps lose their other stages.
    """
    if part.step:
        found = tuple(stage for stage in part.stages if stage in stages)
        return [replace(part, stages=found if narrowed else part.stages)] if found else []
    inside: list[Part] = []
    for one in part.inside:
        kept = _kept(one, stages, narrowed=narrowed)
        if part.kind == "dag" and not kept:
            kept = [Part("steps", member=one.member, after=one.after)]
        inside += [replace(one, inside=[])] if part.kind == "branch" and not kept else kept
    if all(one.empty for one in inside):
        return []
    if part.kind == "parallel" and len(inside) == 1:  # a parallel of one is that one
        return [replace(inside[0], member=part.member, after=part.after)]
    return [replace(part, inside=inside)]
