"""`to_policy`: a workflow as the text of a policy file. `parse_policy` makes an equal workflow of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, cast

import yaml

from penstock.engine.graph.nodes import DEFAULT, Branch, Parallel, Policy, Sequence as Steps, Step, walk
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import given_options, is_processor, is_same
from penstock.engine.values.errors import DefinitionError
from penstock.workflows.policies.conditions import PolicyCondition
from penstock.workflows.policies.options import option_names, required_names
from penstock.workflows.policies.problems import PolicyError
from penstock.workflows.policies.reading import parse_policy
from penstock.workflows.policies.registry import condition_name, maker_of, name_of
from penstock.workflows.policies.scalars import is_plain_text

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Condition, DagMember, Node
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.frozen import Value


class PolicyWriteError(DefinitionError):
    """A workflow cannot be written as a policy file, since it has parts that only Python can say.

    Attributes:
        workflow: the name of the workflow.
        problems: each part with its place in the graph.
    """

    def __init__(self, workflow: str, problems: Sequence[str]) -> None:
        self.workflow = workflow
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in problems)
        super().__init__(f"workflow {workflow!r} cannot be written as a policy file:{lines}")


def to_policy(name: str, root: Steps) -> str:
    """Return a workflow as the text of a policy file, in YAML.

    Args:
        name: the name of the workflow.
        root: its graph.

    Raises:
        PolicyWriteError: a part of it can only be said in Python: a processor that is not registered, an option that
            is a function or an object, a condition that is no expression. The error names all of them.
    """
    writer = _Writer()
    steps = [writer.node(node) for node in root.nodes]
    if writer.problems:
        raise PolicyWriteError(name, writer.problems)
    text = _yaml({"penstock": 1, "name": name, "steps": steps})
    problem = _difference(text, name, root)
    if problem:
        raise PolicyWriteError(name, [problem])
    return text


def _difference(text: str, name: str, root: Steps) -> str:
    """Return the difference between a text and its workflow, which would be a silent change; empty if none."""
    try:
        read = parse_policy(text, environment={})
    except PolicyError as error:
        return f"what was written is not read again: {error.problems[0].message}"
    if (read.name, read.root) == (name, root):
        return ""
    pairs = zip_longest(walk(root), walk(read.root))
    differing = [node for node, other in pairs if node != other]
    place = differing[-1] if differing else root  # the innermost one, since a node holds those within it
    return f"{_label(place)}: a file cannot say how it is built"


def _label(node: Node | None) -> str:
    if isinstance(node, Step):
        return node.id or node.processor.id
    return node.name if isinstance(node, Steps) else type(node).__name__.lower()


class _Writer:
    """Writes nodes as plain data, and collects what cannot be written."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def node(self, node: Node) -> dict[str, object]:
        if isinstance(node, Step):
            return self._step(node)
        if isinstance(node, Steps):
            group = {"id": node.name, "steps": [self.node(one) for one in node.nodes]}
            return group | self._policy(node.policy, node.name)
        if isinstance(node, Parallel):
            return {"parallel": [self.node(one) for one in node.nodes], **self._merge(node.merge, "parallel")}
        if isinstance(node, Branch):
            return self._branch(node)
        return {"dag": [self._member(one) for one in node.members], **self._merge(node.merge, "dag")}

    def _step(self, step: Step) -> dict[str, object]:
        where = step.id or step.processor.id
        use, own = self._processor(step.processor, where)
        id: object = step.id
        if not id and "id" in own:
            id = own.pop("id")
        elif id and name_of(type(step.processor)) and "id" in (option_names(type(step.processor)) or ()):
            own = {"id": step.processor.id, **own}  # else the processor would get the id of the step
        written = {"use": use, **({"id": id} if id else {}), **({"with": own} if own else {})}
        return written | self._policy(step.policy, where)

    def _processor(self, processor: AnyProcessor, where: str) -> tuple[str, dict[str, object]]:
        """Return the name of a processor and its options."""
        name = name_of(type(processor))
        if name is None:
            kind = type(processor).__name__
            self._add(where, f"{kind} is not registered; add an entry point of its package in penstock.processors")
            return kind, {}
        given = {
            key: value for key, value in given_options(processor).items() if not _is_own_default(processor, key, value)
        }
        known = len(self.problems)
        options = {key: self._value(value, f"{where}: option {key!r}") for key, value in given.items()}
        if len(self.problems) == known:
            self._check_equal(name, options, processor, where)
        return name, options

    def _check_equal(self, name: str, options: dict[str, object], processor: AnyProcessor, where: str) -> None:
        """Check that the options make an equal processor: one may have an option that it does not show."""
        lost = [one for one in required_names(maker_of(name)) if one not in options]
        if lost:
            self._add(where, f"the option {lost[0]} {_NOT_KEPT}: `with: {{{lost[0]}: …}}`")
            return
        try:
            made: object = maker_of(name)(**options)
        except Exception as error:  # noqa: BLE001 - of a constructor that does not take what it shows
            self._add(where, f"its options do not make it again ({type(error).__name__}: {error})")
            return
        if not is_same(made, processor):
            self._add(where, _hidden(name, processor, made))

    def _value(self, value: object, where: str) -> object:
        """Return an option as plain data."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Decimal):
            return str(value)
        if isinstance(value, PolicyCondition):
            return value.source
        if isinstance(value, re.Pattern):
            return cast("re.Pattern[str]", value).pattern
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value).items()
            return {str(key): self._value(item, f"{where}[{key!r}]") for key, item in entries}
        if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
            items = list(cast("Sequence[object] | AbstractSet[object]", value))
            items = sorted(items, key=str) if isinstance(value, AbstractSet) else items
            return [self._value(item, f"{where}[{index}]") for index, item in enumerate(items)]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = [one for one in dataclasses.fields(value) if one.init]
            changed = [one for one in fields if not is_same(getattr(value, one.name), one.default)]
            return {one.name: self._value(getattr(value, one.name), f"{where}.{one.name}") for one in changed}
        self._add(where, f"a file cannot hold a {type(value).__name__}")
        return None

    def _branch(self, node: Branch) -> dict[str, object]:
        arms = [{"when": self._condition(arm.condition, node), "steps": [self.node(arm.node)]} for arm in node.arms]
        if node.otherwise is not None:
            arms.append({"steps": [self.node(node.otherwise)]})
        written: dict[str, object] = {"branch": arms}
        if node.match != "first":
            written["match"] = node.match
        if node.on_error != "block":
            written["on_error"] = node.on_error
        return written | self._merge(node.merge, "branch")

    def _condition(self, condition: Condition, node: object) -> object:
        if isinstance(condition, PolicyCondition):
            return condition.source
        registered = condition_name(condition)
        if registered is not None:
            return {"use": registered[0], "with": registered[1]}
        label = getattr(condition, "__name__", None) or repr(condition)
        where = "a branch" if isinstance(node, Branch) else "an edge of a dag"
        self._add(where, f"the condition {label} is a function; write it as an expression (PolicyCondition)")
        return None

    def _member(self, member: DagMember) -> dict[str, object]:
        written = self.node(member.node)
        if isinstance(member.node, Step) and not member.node.id and member.id != member.node.claims.id:
            written = {"use": written.pop("use"), "id": member.id, **written}
        if any(edge.when is not None for edge in member.after):
            edges = {edge.source: edge.when and self._condition(edge.when, member) for edge in member.after}
            return written | {"after": edges}
        return written | ({"after": [edge.source for edge in member.after]} if member.after else {})

    def _merge(self, merge: MergePolicy, where: str) -> dict[str, object]:
        if merge is None:
            return {}
        if isinstance(merge, Pick):
            return {"merge": {"pick": merge.branch}}
        if isinstance(merge, str):
            return {"merge": merge}
        self._add(where, "its merge= is a function; a file can say first, last, sequence or {pick: id}")
        return {}

    def _policy(self, policy: Policy, where: str) -> dict[str, object]:
        written: dict[str, object] = {}
        for one in dataclasses.fields(Policy):
            value: object = getattr(policy, one.name)
            if value == getattr(DEFAULT, one.name):
                continue
            if one.name in ("timeout", "retry_delay"):
                short = f"{value:g}"
                written[one.name] = f"{short}s" if float(short) == value and "e" not in short else value
            elif is_processor(value):
                use, options = self._processor(value, f"{where}: fallback")
                written[one.name] = {"use": use, **({"with": options} if options else {})}
            else:
                written[one.name] = value
        return written

    def _add(self, where: str, problem: str) -> None:
        self.problems.append(f"{where}: {problem}")


_NOT_KEPT = "cannot be read back from the processor; write it into the file yourself"


def _hidden(name: str, processor: AnyProcessor, made: object) -> str:
    """Return why a processor differs from one of the options that it shows: it keeps some of them to itself.

    Args:
        name: its name in policy files.
        processor: the processor.
        made: the one that was made of its options.
    """
    differing = {key for key, value in vars(processor).items() if not is_same(vars(made).get(key), value)}
    options = option_names(maker_of(name)) or frozenset()
    secret = sorted(one for one in options if one in _SECRETS and (one in differing or one not in vars(processor)))
    named = sorted(differing & options) or secret
    if named:
        said = f"the option {named[0]}" if len(named) == 1 else f"one of the options {', '.join(named)}"
        variable = named[0].upper()
        return f"{said} is not shown, because it may be a secret; write it into the file yourself, as ${{{variable}}}"
    kept = sorted(one for one in options if one not in vars(processor))
    return f"an option that it does not show is set ({', '.join(kept)}); {_NOT_KEPT.partition('; ')[2]}"


_SECRETS = ("prompts", "canaries", "allow", "hash_key", "custom_patterns", "tags", "key", "scope")
"""The options of built-in processors that may hold secrets, or tell what was asked, and which they show nobody."""


def _is_own_default(processor: AnyProcessor, key: str, value: object) -> bool:
    """Return whether an option is the id that the class has anyway."""
    return key == "id" and value == type(processor).id


def _yaml(document: dict[str, object]) -> str:
    library: Value = yaml  # its types are partial
    text: str = library.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.1 and 1.2 read the same of them, and lists as in our examples."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - of PyYAML
        """Indent the entries of a list below their key."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Value) -> bool:  # noqa: ARG002 - of PyYAML
        """Write a value that occurs twice twice."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    # ``${`` would be read as a variable of the environment.
    text = text.replace("${", "$${")
    style = None if is_plain_text(text) else "|" if "\n" in text.strip("\n") and not text.startswith(" ") else '"'
    node: yaml.Node = cast("Value", dumper).represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)
