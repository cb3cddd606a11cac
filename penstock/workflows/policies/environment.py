"""``${NAME}`` and ``${NAME:-default}`` in the values of a policy file: variables of the environment."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.workflows.policies.problems import suggestion
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.workflows.policies.problems import Problems
    from penstock.workflows.policies.yaml_nodes import PolicyNode

_VARIABLE = re.compile(
    r"\$(\$(?=\{)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\{(?P<rest>[^}]*)\}?)"
)


def with_environment(node: PolicyNode, variables: Mapping[str, str], problems: Problems) -> PolicyNode:
    """Return the node with the variables of the environment filled in, in values, not in keys.

    The value of a variable is never read as YAML: a value that is nothing but ``${NAME}`` becomes the number, bool or
    text that it says; everything else is text. ``$${`` stands for ``${``.

    Args:
        node: the node.
        variables: the environment.
        problems: takes variables that are not set and have no default.
    """
    if isinstance(node, ListNode):
        return replace(node, items=tuple(with_environment(item, variables, problems) for item in node.items))
    if isinstance(node, MappingNode):
        entries = {
            key: (name, with_environment(value, variables, problems)) for key, (name, value) in node.entries.items()
        }
        return replace(node, entries=entries)
    return _filled(node, variables, problems) if "${" in node.text else node


def _filled(node: ScalarNode, variables: Mapping[str, str], problems: Problems) -> ScalarNode:
    known = len(problems)

    def value_of(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if found[1] == "$":
            return "$"
        if name is None:
            message = f"${{{found['rest']}}} is no variable; write ${{NAME}}, ${{NAME:-default}}, or $${{ for the text"
            problems.add(node.place, message)
            return ""
        value = variables.get(name)
        if not value and default is not None:  # as in shells
            value = default
        if value is None:
            near = suggestion(name, (one for one in variables if one[:2] == name[:2]))
            hint = near if near.startswith("did") else f"set it, or write ${{{name}:-default}}"
            problems.add(node.place, f"the environment has no variable {name}; {hint}")
        return value or ""

    alone = _VARIABLE.fullmatch(node.text) is not None and not node.text.startswith("$$")
    filled = replace(node, text=_VARIABLE.sub(value_of, node.text), quoted=node.quoted or not alone)
    if len(problems) > known:
        problems.faulty.add(node.place)
    return filled
