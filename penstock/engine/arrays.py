"""What stands in an agent's arrays, as the plans of one run; it knows workflows and stages, no agent.

An array serves the stages that `Stage.array` says. An item that stands in several is one step, with one state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from penstock.engine.graph.checks import problems
from penstock.engine.graph.fact_flow import unmet_facts
from penstock.engine.graph.nodes import Sequence, resolve, steps_of
from penstock.engine.graph.plans import Plans
from penstock.engine.processor.stages import STAGES, Array
from penstock.engine.values.errors import OptionError, PenstockError, WorkflowError
from penstock.engine.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.graph.nodes import Node
    from penstock.engine.workflow import Item

ARRAYS: tuple[Array, ...] = get_args(Array)


def stages_of(array: Array) -> tuple[str, ...]:
    """Return the stages that an array serves, in the order of a run."""
    return tuple(name for name, stage in STAGES.items() if stage.array == array)


def arrayed(name: str, arrays: Mapping[Array, Iterable[Item]]) -> Plans:
    """Return the plans of a run in which each array's items serve its stages, in the order given.

    Raises:
        OptionError: what stands in an array is no processor and no workflow, stands there twice, or has no stage that
            the array serves.
        WorkflowError: the items together have problems; all of them at once.
    """
    plans = _together(name, arrays)
    _ = plans.resolved  # what has problems does not start
    return plans


def check_some(name: str, arrays: Mapping[Array, Iterable[Item]]) -> None:
    """Refuse items that cannot stand in the arrays, whatever else will stand there: facts may come from that.

    Raises:
        OptionError, WorkflowError: as in `arrayed`.
    """
    plans = _together(name, arrays)
    found = problems(plans.root, None, plans.orders)
    lacking = set(unmet_facts(resolve(plans.root), plans.orders)) if found else set[str]()
    if lacking.issuperset(found):
        return
    raise WorkflowError(name, [problem for problem in found if problem not in lacking])


def _together(name: str, arrays: Mapping[Array, Iterable[Item]]) -> Plans:
    """Return the plans of the items, not checked yet."""
    items: list[Item] = []
    nodes: list[Node] = []
    orders: dict[str, tuple[int, ...]] = {}
    for array in ARRAYS:
        order: list[int] = []
        for place, item in enumerate(arrays.get(array, ())):
            index = next((index for index, known in enumerate(items) if known is item), len(items))
            if index == len(items):
                nodes.append(_placed(name, array, place, item))
                items.append(item)
            _check_serves(name, array, nodes[index])
            if index in order:
                raise OptionError(name, f"{array}_processors", _called(nodes[index]), "each item once")
            order.append(index)
        orders[array] = tuple(order)
    return Plans(name, Sequence(tuple(nodes)), orders)


def _placed(name: str, array: str, place: int, item: Item) -> Node:
    try:
        return Workflow(name).then(item).root.nodes[0]
    except PenstockError as error:
        raise OptionError(name, f"{array}_processors[{place}]", item, f"a processor or a workflow: {error}") from error


def _check_serves(name: str, array: Array, node: Node) -> None:
    """Refuse what would never be called there."""
    serves = stages_of(array)
    has = {stage for step in steps_of(node) for stage in step.claims.hooks}
    if has and not has.intersection(serves):
        elsewhere = sorted({STAGES[stage].array for stage in has})
        cure = " or ".join(f"{other}_processors=" for other in elsewhere)
        allowed = f"what has one of {', '.join(serves)}; it has {', '.join(sorted(has))}: place it in {cure}"
        raise OptionError(name, f"{array}_processors", _called(node), f"{allowed}, or in processors=")


def _called(node: Node) -> str:
    """Return what a placed item is called."""
    if isinstance(node, Sequence):
        return node.name
    return next((step.id or step.claims.id for step in steps_of(node)), "")
