"""Profiles of a policy file: the differences in development, staging and production, by the ids of steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.workflows.policies.fields import bool_of, mapping_of
from penstock.workflows.policies.problems import Problems, suggestion
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.policies.yaml_nodes import PolicyNode

BASE = "base"
"""The name of the file without a profile in tests."""

_CHANGES = ("with", "skip", "timeout", "on_error", "mode", "overlap", "offload", "retries", "retry_delay")


def profile_names(root: MappingNode, problems: Problems) -> tuple[str, ...]:
    """Return the names of the profiles of a file."""
    node = root.get("profiles")
    if node is None:
        return ()
    if not isinstance(node, MappingNode):
        problems.add(node.place, "profiles: takes names, each with what differs by the id of a step")
        return ()
    if BASE in node.entries:
        problems.add(node.key_place(BASE), f"no profile may have the name {BASE}: it stands for the file without any")
    return tuple(node.entries)


def with_profile(root: MappingNode, profile: str, problems: Problems) -> MappingNode:
    """Return a file with the changes of a profile.

    A profile is a mapping of ids of steps (``id:``, or the name behind ``use:``) to what differs there: options under
    ``with:`` (each replaces that of the step), policies such as ``mode:``, or ``skip: true``, which leaves the step
    out.

    Args:
        root: the file.
        profile: the name of the profile.
        problems: takes the faults: a profile or a step that does not exist, or a change that is none.
    """
    names = profile_names(root, problems)
    if profile not in names:
        place = root.key_place("profiles")
        problems.add(place, f"there is no profile {profile}; {suggestion(profile, names)}")
        return root
    checked = changes_of(root, profile, problems)
    steps = root.get("steps")
    if steps is None:
        return root
    kept = _changed(steps, checked)
    return replace(root, entries={**root.entries, "steps": (root.entries["steps"][0], kept or ListNode(steps.place))})


def changes_of(root: MappingNode, profile: str, problems: Problems) -> dict[str, MappingNode]:
    """Return the changes of a profile by the ids of steps; those of steps that do not exist are told and left out."""
    changes = mapping_of(_profiles(root)[profile], f"profile {profile}", step_ids(root.get("steps")), problems)
    checked: dict[str, MappingNode] = {}
    for id, (_, node) in ({} if changes is None else changes.entries).items():
        change = mapping_of(node, f"what profile {profile} changes of {id}", _CHANGES, problems)
        if change is not None:
            checked[id] = change
            bool_of(change.get("skip"), "skip", problems)
    return checked


def step_ids(node: PolicyNode | None) -> frozenset[str]:
    """Return the ids of the steps in a node, however deep; of a step without an id, its name behind ``use:``."""
    return frozenset(_ids(node))


def _profiles(root: MappingNode) -> dict[str, PolicyNode]:
    node = root.get("profiles")
    return {key: value for key, (_, value) in node.entries.items()} if isinstance(node, MappingNode) else {}


def _ids(node: PolicyNode | None) -> Iterator[str]:
    """Yield the ids of the steps in a node, however deep."""
    if isinstance(node, ListNode):
        for item in node.items:
            if isinstance(item, ScalarNode):
                yield item.text
            yield from _ids(item)
    elif isinstance(node, MappingNode):
        id = _id(node)
        if id is not None:
            yield id
        for key in _INSIDE:
            yield from _ids(node.get(key))


_INSIDE = ("steps", "parallel", "branch", "dag")


def _id(node: MappingNode) -> str | None:
    found = node.get("id") or node.get("use")
    return found.text if isinstance(found, ScalarNode) else None


def _changed(node: PolicyNode, changes: dict[str, MappingNode]) -> PolicyNode | None:
    """Return a step, or a list of steps, with the changes; None for a step that is left out."""
    if isinstance(node, ListNode):
        kept = [_changed(item, changes) for item in node.items]
        return replace(node, items=tuple(one for one in kept if one is not None))
    if isinstance(node, ScalarNode):
        node = MappingNode(node.place, {"use": (ScalarNode(node.place, "use"), node)})
    change = changes.get(_id(node) or "")
    if change is not None:
        if bool_of(change.get("skip"), "skip", Problems()):
            return None
        node = _laid_over(node, change)
    entries = dict(node.entries)
    for key in _INSIDE:
        if key in entries:
            name, value = entries[key]
            entries[key] = (name, _changed(value, changes) or ListNode(value.place))
    return replace(node, entries=entries)


def _laid_over(node: MappingNode, change: MappingNode) -> MappingNode:
    entries = {**node.entries, **{key: entry for key, entry in change.entries.items() if key not in ("skip", "with")}}
    options = change.entries.get("with")
    if options is not None:
        own = node.get("with")
        if isinstance(own, MappingNode) and isinstance(options[1], MappingNode):
            options = (options[0], replace(own, entries={**own.entries, **options[1].entries}))
        entries["with"] = options
    return replace(node, entries=entries)
