"""Read single values of a policy file: each is checked, and each fault is told with its place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.workflows.policies.problems import suggestion
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.workflows.policies.problems import Problems
    from penstock.workflows.policies.yaml_nodes import PolicyNode

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_LONGEST = 1e9  # seconds: thirty years, which every clock can add
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def mapping_of(node: PolicyNode, what: str, known: Iterable[str], problems: Problems) -> MappingNode | None:
    """Return a mapping with the keys that are known; others are told. None if it is no mapping."""
    if not isinstance(node, MappingNode):
        problems.add(node.place, f"{what} must be a mapping of names to values")
        return None
    names = frozenset(known)
    for key, (name, _) in node.entries.items():
        if key not in names:
            problems.add(name.place, f"{what} has no key {key}; {suggestion(key, names)}")
    if names.issuperset(node.entries):
        return node
    return replace(node, entries={key: entry for key, entry in node.entries.items() if key in names})


def list_of(node: PolicyNode | None, what: str, problems: Problems) -> tuple[PolicyNode, ...]:
    """Return the items of a list; none if it is missing, or no list, which is told."""
    if node is None:
        return ()
    if not isinstance(node, ListNode):
        problems.add(node.place, f"{what} must be a list: begin each entry with `- `")
        return ()
    return node.items


def text_of(node: PolicyNode | None, what: str, problems: Problems, *, empty: bool = False) -> str | None:
    """Return a text; None if it is missing, or none, which is told; so is an empty one, unless it may be."""
    if node is None:
        return None
    if not isinstance(node, ScalarNode) or not (empty or node.text.strip()):
        problems.add(node.place, f"{what} must be a text")
        return None
    return node.text


def word_of(node: PolicyNode | None, what: str, allowed: tuple[str, ...], problems: Problems) -> str | None:
    """Return one of the allowed words; None if it is missing, or another, which is told."""
    if node is None:
        return None
    if isinstance(node, ScalarNode) and node.text in allowed:
        return node.text
    given = node.text if isinstance(node, ScalarNode) else "a list or a mapping"
    problems.add(node.place, f"{what} is {given}, but must be one of {', '.join(allowed)}")
    return None


def bool_of(node: PolicyNode | None, what: str, problems: Problems) -> bool:
    """Return true or false; false if it is missing, or neither, which is told: ``yes`` and ``on`` are texts."""
    if node is None:
        return False
    if isinstance(node, ScalarNode) and isinstance(node.value, bool):
        return node.value
    problems.add(node.place, f"{what} must be true or false")
    return False


def whole_of(node: PolicyNode | None, what: str, problems: Problems) -> int | None:
    """Return a whole number, 0 or more; None if it is missing, or none, which is told."""
    if node is None:
        return None
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        problems.add(node.place, f"{what} must be a whole number, 0 or more")
        return None
    return value


def seconds_of(node: PolicyNode | None, what: str, problems: Problems) -> float | None:
    """Return a time in seconds, of ``2s``, ``500ms``, ``1.5m``, ``1h`` or a number; None if it is missing."""
    if node is None:
        return None
    if isinstance(node, ScalarNode):
        value = node.value
        found = _DURATION.fullmatch(node.text.strip())
        if found is not None:
            value = float(found[1]) * _UNITS[found[2]]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _LONGEST:
            return float(value)
    problems.add(node.place, f"{what} must be a time above 0, such as 2s, 500ms or 1.5m")
    return None
