"""The properties of the parts of a workflow, which a diff compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.processor.processor import CLAIMS, FunctionProcessor, is_processor, option_parameters
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.facts import is_key
from penstock.pictures.diff.fields import Leaf
from penstock.pictures.diff.values import class_code, code_of, flat

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import DagEdge, Policy, Step
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.pictures.scene import Part


def leaves_of(part: Part) -> dict[str, Leaf]:
    """Return the properties of a part, by dotted name."""
    found: dict[str, Leaf] = {}
    if part.kind == "arm":
        return {} if part.otherwise else {"condition": _condition(part.condition)}
    if part.step:
        found.update(_step(part.step))
    elif part.kind in ("workflow", "steps"):
        found.update(_policy(part.policy))
    elif part.kind != "root":
        found["merge"] = _merge(part.merge)
    if part.kind == "branch":
        found["match"] = Leaf(part.match, part.match)
        found["on_error"] = Leaf(part.on_error, part.on_error)
    if part.member:
        found["after"] = _edges(part.after)
    return found


def _condition(condition: object) -> Leaf:
    return Leaf(condition_label(condition), (condition_label(condition), code_of(condition)))


def _merge(merge: object) -> Leaf:
    if merge is None or isinstance(merge, str):
        return Leaf(merge, merge)
    branch = getattr(merge, "branch", None)
    return Leaf(f"pick {branch}", branch) if isinstance(branch, str) else _condition(merge)


def _edges(edges: tuple[DagEdge, ...]) -> Leaf:
    leaves = [(edge.source, None if edge.when is None else _condition(edge.when)) for edge in edges]
    return Leaf(
        [source if when is None else f"{source} if {when.shown}" for source, when in leaves],
        [(source, None if when is None else when.compared) for source, when in leaves],
    )


def _step(step: Step) -> dict[str, Leaf]:
    claims = step.claims
    shown: dict[str, list[str] | str | bool] = {
        "role": claims.role,
        "edits": claims.edits,
        "on_error": claims.on_error,
        "stages": [name.removeprefix("process_") for name in claims.hooks],
        "provides": sorted(key.name for key in claims.provides),
        "requires": sorted(key.name for key in claims.requires),
        "stores": claims.stores,
    }
    found = {"processor": _processor(step.processor)}
    for name, value in shown.items():
        found[name] = Leaf([*value] if isinstance(value, list) else value, value)
    return {**found, **_policy(step.policy), **_options(step.processor)}


def _processor(processor: AnyProcessor) -> Leaf:
    kind = type(processor)
    hook = getattr(processor, "_hook", None) if isinstance(processor, FunctionProcessor) else None
    if hook is not None:
        return Leaf(f"function {getattr(hook, '__name__', '?')}", code_of(hook))
    return Leaf(kind.__qualname__, (kind.__qualname__, class_code(kind)))


def _options(processor: AnyProcessor) -> dict[str, Leaf]:
    """Return the public options that its claims do not say already."""
    found: dict[str, Leaf] = {}
    public = {name: one for name, one in vars(processor).items() if not name.startswith("_") and name not in STAGES}
    if type(processor).__module__.startswith("penstock."):  # its other attributes are made from its options
        named = {name: public.get(name, processor.option(name)) for name in option_parameters(processor)}
        public = {name: value for name, value in named.items() if name in public or value is not None}
    for name, value in public.items():
        if name == "options" and isinstance(value, Mapping):  # what was given; other attributes say what holds
            given = cast("Mapping[str, object]", value)
            unsaid = [flat(key, one) for key, one in given.items() if key not in public and key not in CLAIMS]
            found.update({f"options.{key}": leaf for leaves in unsaid for key, leaf in leaves.items()})
        elif name not in CLAIMS and not is_key(value):  # its claims name the keys
            found.update({f"options.{key}": leaf for key, leaf in _shown(processor, name, value).items()})
    return found


def _shown(processor: AnyProcessor, name: str, value: object) -> dict[str, Leaf]:
    """Return an option as its leaves; one that its processor hides is shown as the processor shows it."""
    leaves = flat(name, value)
    if name not in option_parameters(processor) or (may := processor.option(name)) is value:
        return leaves
    compared = [(key, leaf.compared) for key, leaf in leaves.items()]
    return {key: Leaf(leaf.shown, (leaf.compared, compared)) for key, leaf in flat(name, may).items()}


def _policy(policy: Policy) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}
    for one in fields(policy):
        value: object = getattr(policy, one.name)
        if is_processor(value):
            leaves = {"": Leaf(value.id, value.id), **_options(value)}
            found.update({f"policy.{one.name}{'.' if name else ''}{name}": leaf for name, leaf in leaves.items()})
        else:
            found.update(flat(f"policy.{one.name}", value))
    return found
