"""A workflow or agent with changed options: steps are made anew, and put in the places of the old ones."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from penstock.engine.graph.nodes import Branch, Dag, Sequence, Step, resolve, steps_of
from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import OptionError, PenstockError
from penstock.engine.values.secret_names import HIDDEN
from penstock.engine.workflow import Workflow
from penstock.workflows.studio.worker.constructor_arguments import arguments_of, remade
from penstock.workflows.studio.worker.forms import POLICY, form_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.engine.graph.nodes import Node
    from penstock.workflows.agent import Agent

Place: TypeAlias = "Callable[[Step], Step]"
_LISTS = ("processors", "input_processors", "output_processors", "error_processors")


class ChangeError(PenstockError):
    """Options that cannot be changed so.

    Attributes:
        path: the path of the step.
        option: the name of the option, or None.
        problem: the problem in words.
    """

    def __init__(self, path: str, option: str | None, problem: str) -> None:
        self.path = path
        self.option = option
        self.problem = problem
        super().__init__(f"{path}: {problem}")


def changed_workflow(workflow: Workflow, changes: Mapping[str, Any]) -> Workflow:
    """Return a workflow with changed options.

    Args:
        workflow: the workflow.
        changes: by the path of a step: ``options`` and ``policy``, each by name.

    Raises:
        ChangeError: there is no such step or option, or the constructor refuses a value.
    """
    if not changes:
        return workflow
    root = resolve(workflow.root)
    check_paths((step.path for step in steps_of(root)), changes)

    def place(step: Step) -> Step:
        wanted = changes.get(step.path)
        return step if wanted is None else changed_step(step, step.path, wanted)

    return Workflow(workflow.name, cast("Sequence", _mapped(root, place)))


def changed_agent(agent: Agent, root: Sequence, changes: Mapping[str, Any]) -> Agent:
    """Return an agent with changed options of its processors.

    Args:
        agent: the agent.
        root: the graph of all its lists, with paths.
        changes: as in `changed_workflow`. A processor that stands in several places is changed in all of them.

    Raises:
        ChangeError: as in `changed_workflow`; or the step is none of the agent's own lists.
    """
    if not changes:
        return agent
    steps = {step.path: step for step in steps_of(root)}
    check_paths(steps, changes)
    made = {id(steps[path].processor): changed_step(steps[path], path, wanted) for path, wanted in changes.items()}
    used: set[int] = set()

    def place(step: Step) -> Step:
        found = made.get(id(step.processor))
        if found is None:
            return step
        used.add(id(step.processor))
        return replace(step, processor=found.processor, policy=found.policy, declared=None)

    lists: dict[str, object] = {}
    for name, entries in (arguments_of(agent) or {}).items():
        if name in _LISTS and isinstance(entries, (list, tuple)):
            lists[name] = [_mapped_item(entry, place) for entry in cast("list[object]", entries)]
    for path in changes:
        if id(steps[path].processor) not in used:
            raise ChangeError(path, None, "it is added by the agent itself, or by a function of the request")
    return remade(agent, lists)


def _mapped_item(item: object, place: Place) -> object:
    if isinstance(item, Workflow):
        return Workflow(item.name, cast("Sequence", _mapped(item.root, place)))
    if not isinstance(item, Processor):
        return item
    step = place(Step(cast("Any", item)))
    if step.policy == Step(cast("Any", item)).policy:
        return step.processor
    return Workflow(step.processor.id, Sequence((step,)))


def check_paths(paths: Any, changes: Mapping[str, Any]) -> None:
    """Refuse changes of steps that do not exist.

    Raises:
        ChangeError: there is no such step.
    """
    known = [*paths]
    for path in changes:
        if path not in known:
            close = difflib.get_close_matches(path, known, n=1)
            raise ChangeError(path, None, f"there is no such step{f'; did you mean {close[0]!r}?' if close else ''}")


def _mapped(node: Node, place: Place) -> Node:
    """Return a graph with its steps replaced."""
    if isinstance(node, Step):
        return place(node)
    if isinstance(node, Branch):
        arms = tuple(replace(arm, node=_mapped(arm.node, place)) for arm in node.arms)
        otherwise = None if node.otherwise is None else _mapped(node.otherwise, place)
        return replace(node, arms=arms, otherwise=otherwise)
    if isinstance(node, Dag):
        return replace(node, members=tuple(replace(each, node=_mapped(each.node, place)) for each in node.members))
    return replace(node, nodes=tuple(_mapped(each, place) for each in node.nodes))


def changed_step(step: Step, path: str, wanted: Mapping[str, Any]) -> Step:
    """Return a step with changed options and policy.

    Raises:
        ChangeError: an option does not exist, or its value is refused.
    """
    options: dict[str, Any] = wanted.get("options") or {}
    policy: dict[str, Any] = wanted.get("policy") or {}
    made = replace(step, declared=None)
    try:
        if options:
            made = replace(made, processor=remade(step.processor, _typed(step, path, options)))
        if policy:
            made = replace(made, policy=replace(step.policy, **_known_policy(path, policy)))
        _ = made.claims
    except ChangeError:
        raise
    except OptionError as error:
        known = error.option in options or error.option in policy
        raise ChangeError(path, error.option if known else None, str(error)) from error
    except Exception as error:
        raise ChangeError(path, None, f"{type(error).__name__}: {error}") from error
    return made


def _typed(step: Step, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as the constructor takes them: lists as tuples where they were, secrets left out."""
    fields = {str(field["name"]): field for field in form_of(step.processor)[0]}
    made: dict[str, Any] = {}
    for name, value in options.items():
        field = fields.get(name)
        if field is None or field["kind"] == "fixed":
            why = "there is no such option" if field is None else f"it cannot be changed here: {field['why_not']}"
            raise ChangeError(path, name, why)
        if not (field["secret"] and value == HIDDEN):
            made[name] = tuple(cast("list[object]", value)) if isinstance(value, list) else value
    return made


def _known_policy(path: str, policy: Mapping[str, Any]) -> Mapping[str, Any]:
    names = [name for name, *_ in POLICY]
    for name in policy:
        if name not in names:
            raise ChangeError(path, name, f"of the policy, these can be changed: {', '.join(names)}")
    return policy
