"""A workflow as a tree of entries, which a diff compares: steps, workflows, parallels, branches, arms and dags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.graph.condition_words import condition_label
from penstock.engine.graph.nodes import DEFAULT, Branch, Dag, Sequence, Step, resolve
from penstock.engine.processor.processor import CLAIMS, FunctionProcessor, is_processor, option_parameters
from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.display import short
from penstock.engine.values.facts import is_key
from penstock.pictures.diff.fields import Leaf
from penstock.pictures.diff.values import class_code, code_of, flat
from penstock.pictures.labels import last

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Arm, DagEdge, DagMember, Node, Policy
    from penstock.engine.processor.processor import AnyProcessor

EntryKind: TypeAlias = Literal["root", "step", "workflow", "steps", "parallel", "branch", "arm", "dag"]

NAMED: tuple[EntryKind, ...] = ("step", "workflow")
"""The kinds that have an id of their own; others are known by what is in them."""

_NUMBER = re.compile(r"#\d+$")


@dataclass(eq=False)
class Entry:
    """One thing that a diff can name, and what is directly in it, in declared order.

    Attributes:
        kind: what it is; ``steps`` is a sequence that nobody named.
        path: its path; of an arm ``PATH:0`` or ``PATH:otherwise``.
        node: what stands there; of an arm, its node.
        arm: of an arm with a condition, the arm.
        member: of a member of a dag, the member.
    """

    kind: EntryKind
    path: str
    node: Node
    arm: Arm | None = None
    member: DagMember | None = None
    above: Entry | None = None
    inside: list[Entry] = field(default_factory=list["Entry"])

    @property
    def base(self) -> str:
        """The id without the number of a repetition; of a member of a dag, the member's."""
        return self.member.id if self.member else _NUMBER.sub("", last(self.path))

    @property
    def otherwise(self) -> bool:
        """Whether it is the last arm of a branch, without a condition."""
        return self.kind == "arm" and self.arm is None

    @cached_property
    def leaves(self) -> dict[str, Leaf]:
        """Its properties, by dotted name."""
        return dict(_properties(self))

    @property
    def title(self) -> str:
        """What it is called in a text, without its properties."""
        if self.kind == "arm":
            return "otherwise" if self.arm is None else f"if {condition_label(self.arm.condition)}"
        if self.kind == "step":
            return self._member(short(last(self.path)))
        return self._member(f"workflow {short(last(self.path))}" if self.kind == "workflow" else self.kind)

    def _member(self, title: str) -> str:
        if self.member is None or self.base == last(self.path):
            return title
        return f"{short(self.member.id)}: {title}"

    def all(self) -> list[Entry]:
        """Return it and everything in it, each before what is in it."""
        found: list[Entry] = [self]
        for entry in found:
            found.extend(entry.inside)
        return found


def entries_of(root: Sequence) -> Entry:
    """Return the tree of a workflow."""
    resolved = resolve(root)
    return _filled(Entry("root", "", resolved), resolved.nodes)


def _filled(entry: Entry, nodes: tuple[Node, ...]) -> Entry:
    """Add nodes that stand one after another; those of a sequence that says nothing stand among them."""
    for node in nodes:
        if isinstance(node, Sequence) and _says_nothing(node):
            _filled(entry, node.nodes)
        else:
            _add(entry, _entry(node, entry))
    return entry


def _says_nothing(node: Sequence) -> bool:
    return not node.name and node.policy == DEFAULT


def _add(entry: Entry, one: Entry) -> None:
    one.above = entry
    entry.inside.append(one)


def _entry(node: Node, above: Entry, member: DagMember | None = None) -> Entry:
    if isinstance(node, Step):
        return Entry("step", node.path, node, member=member)
    if isinstance(node, Sequence):
        path = node.path or f"{above.path}:steps-{len(above.inside)}"
        return _filled(Entry("workflow" if node.name else "steps", path, node, member=member), node.nodes)
    if isinstance(node, Branch):
        return _branch(node, member)
    if isinstance(node, Dag):
        made = Entry("dag", node.path, node, member=member)
        for one in node.members:
            _add(made, _entry(one.node, made, one))
        return made
    made = Entry("parallel", node.path, node, member=member)
    for child in node.nodes:
        _add(made, _entry(child, made))
    return made


def _branch(node: Branch, member: DagMember | None) -> Entry:
    made = Entry("branch", node.path, node, member=member)
    for number, arm in enumerate(node.arms):
        _add(made, _filled(Entry("arm", f"{node.path}:{number}", arm.node, arm), (arm.node,)))
    if node.otherwise is not None:
        _add(made, _filled(Entry("arm", f"{node.path}:otherwise", node.otherwise), (node.otherwise,)))
    return made


# Properties


def _properties(entry: Entry) -> dict[str, Leaf]:
    node = entry.node
    found: dict[str, Leaf] = {}
    if entry.kind == "arm":
        if entry.arm is not None:
            found["condition"] = _condition(entry.arm.condition)
        return found
    if isinstance(node, Step):
        found.update(_step(node))
    elif isinstance(node, Sequence):
        found.update(_policy(node.policy) if entry.kind != "root" else {})
    else:
        found["merge"] = _merge(node.merge)
    if isinstance(node, Branch):
        found["match"] = Leaf(node.match, node.match)
        found["on_error"] = Leaf(node.on_error, node.on_error)
    if entry.member is not None:
        found["after"] = _edges(entry.member.after)
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
    for name, value in public.items():
        if name == "options" and isinstance(value, Mapping):  # what was given; other attributes say what holds
            given = cast("Mapping[str, object]", value)
            unsaid = [flat(key, one) for key, one in given.items() if key not in public and key not in CLAIMS]
            found.update({f"options.{key}": leaf for leaves in unsaid for key, leaf in leaves.items()})
        elif name not in CLAIMS and not is_key(value):  # its claims name the keys
            found.update({f"options.{key}": leaf for key, leaf in _shown(processor, name, value).items()})
    return found


def _shown(processor: AnyProcessor, name: str, value: object) -> dict[str, Leaf]:
    """Return an option as its leaves; one that its processor hides as what may be shown, compared by what it is."""
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
