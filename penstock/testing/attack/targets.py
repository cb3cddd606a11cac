"""`Target`: the user's workflow or agent, as an agent with another model, with failing steps, or in another order."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import anyio

from penstock.engine.graph.nodes import Arm, Branch, Dag, Parallel, Sequence, Step, resolve
from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import UsageError
from penstock.engine.workflow import Workflow
from penstock.workflows.agent.agent import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from penstock.engine.graph.nodes import DagMember, Node
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.protocols import Model
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.options import AgentOptions, RequestOptions
    from penstock.workflows.coverage.coverage import Coverage

_LISTS = ("processors", "input_processors", "output_processors", "error_processors")

Fault = tuple[str, str]
"""The path of a step, and whether it ``raises`` or ``hangs``."""


class FaultyStep(Processor):
    """Stands in for a processor: its hooks fail, or never end."""

    def __init__(self, of: AnyProcessor, stages: tuple[str, ...], *, hangs: bool) -> None:
        for name in ("id", "role", "on_error", "provides", "requires", "stores"):
            setattr(self, name, getattr(of, name))
        self.edits = of.edits
        for stage in stages:
            setattr(self, stage, _hang if hangs else _fail)


async def _hang(*_given: object) -> None:
    await anyio.sleep_forever()


def _fail(*_given: object) -> None:
    raise RuntimeError("a step that fails, as an attack wants it")


@dataclass(frozen=True)
class Target:
    """The attacked guards: the processor lists of an agent, or a workflow as its only processor.

    Attributes:
        name: the name of the workflow or the agent.
        lists: the processor lists, by the name of the option of `Agent`.
        options: further options of `Agent`: when chunks leave.
        coverage: which step reads which channel.
    """

    name: str
    lists: Mapping[str, tuple[Item, ...]]
    options: Mapping[str, object]
    coverage: Coverage

    @property
    def items(self) -> tuple[Item, ...]:
        """The processors and workflows of all lists, each once."""
        found: list[Item] = []
        for item in (item for items in self.lists.values() for item in items):
            if not any(item is known for known in found):
                found.append(item)
        return tuple(found)

    def steps(self) -> list[Step]:
        """Return the steps of the lists, with the paths that faults name."""
        return list(_steps_of(resolve(Sequence(tuple(map(_node, self.items))))))

    def agent(
        self, model: Model, *, fault: Fault | None = None, order: int = 0, **options: Unpack[AgentOptions]
    ) -> Agent:
        """Return an agent with the target's processors.

        Args:
            model: its model.
            fault: a step that fails.
            order: the seed of another order of parallel steps; 0: as declared.
            options: further options of `Agent`.
        """
        lists: dict[str, list[Item]] = {name: list(items) for name, items in self.lists.items()}
        if fault is not None or order:
            root = resolve(Sequence(tuple(map(_node, self.items))))
            made = [_item(_changed(node, fault, random.Random(order) if order else None)) for node in root.nodes]  # noqa: S311 - an order, no secret
            known = list(zip(self.items, made, strict=True))
            lists = {
                name: [next(new for old, new in known if old is item) for item in items]
                for name, items in self.lists.items()
            }
        given = cast("AgentOptions", {**self.options, **lists, **options})
        return Agent(model, id=self.name, **given)


def target_of(attacked: Workflow | Agent | AnyProcessor) -> Target:
    """Return the target that a workflow, an agent or a processor is.

    Raises:
        UsageError: it is something else, or an agent whose lists depend on the request.
    """
    if isinstance(attacked, Agent):
        given: RequestOptions = vars(attacked)["_options"]
        if attacked.plans is None:
            raise UsageError("a processor list depends on the request context, so it is not known before a request")
        lists: dict[str, tuple[Item, ...]] = {name: tuple(getattr(given, name)) for name in _LISTS}
        return Target(attacked.id, lists, {"release": given.release}, attacked.coverage())
    if isinstance(attacked, Processor):
        attacked = Workflow(attacked.id).then(attacked)
    if not isinstance(cast("object", attacked), Workflow):
        raise UsageError(f"attack takes a workflow, an agent or a processor, not {type(attacked).__name__}")
    return Target(attacked.name, {"processors": (attacked,)}, {}, attacked.coverage())


def _node(item: Item) -> Node:
    return Workflow("list").then(item).root.nodes[0]


def _item(node: Node) -> Item:
    """Return a node as an item of a processor list."""
    if isinstance(node, Sequence) and node.name:
        inner = Workflow(node.name, Sequence(node.nodes))
        return inner if node.policy == Sequence().policy else Workflow(node.name, Sequence((node,)))
    if isinstance(node, Step):
        return node.processor if node.policy == Step(node.processor).policy else Workflow("list", Sequence((node,)))
    return Workflow("list", Sequence((node,)))


def _steps_of(node: Node) -> list[Step]:
    from penstock.engine.graph.nodes import steps_of

    return list(steps_of(node))


def _changed(node: Node, fault: Fault | None, order: random.Random | None) -> Node:
    """Return a node with one step that fails, or with its parallel steps in another order."""

    def inside(child: Node) -> Node:
        return _changed(child, fault, order)

    if isinstance(node, Step):
        return replace(_faulty(node, fault), path="", declared=None)
    if isinstance(node, Parallel):
        nodes = list(map(inside, node.nodes))
        if order is not None:
            order.shuffle(nodes)
        return replace(node, nodes=tuple(nodes), path="")
    if isinstance(node, Branch):
        arms = tuple(Arm(arm.condition, inside(arm.node)) for arm in node.arms)
        otherwise = None if node.otherwise is None else inside(node.otherwise)
        return replace(node, arms=arms, otherwise=otherwise, path="")
    if isinstance(node, Dag):
        return replace(node, members=_members(node, inside), path="")
    return replace(node, nodes=tuple(map(inside, node.nodes)), path="")


def _members(dag: Dag, inside: Callable[[Node], Node]) -> tuple[DagMember, ...]:
    return tuple(replace(member, node=inside(member.node)) for member in dag.members)


def _faulty(step: Step, fault: Fault | None) -> Step:
    if fault is None or step.path != fault[0]:
        return step
    claims = step.claims
    failing = FaultyStep(step.processor, tuple(claims.hooks), hangs=fault[1] == "hangs")
    failing.edits = claims.edits
    return replace(step, processor=failing, id=step.id or claims.id)
