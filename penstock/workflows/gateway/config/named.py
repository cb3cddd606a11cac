"""The names in a gateway file that has faults, so that those of its policies and providers are told with the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.workflows.policies.yaml_nodes import PolicyNode


def named_policies(root: MappingNode) -> Iterator[ScalarNode]:
    """Yield the node of each name of a policy: of the file, its checks, its routes and their shadows."""
    yield from _texts(root.get("policy"))
    yield from _texts(root.get("checks"))
    for route in _mappings(root.get("routes")):
        yield from _texts(route.get("policy"))
        for shadow in _mappings(route.get("shadow")):
            yield from _texts(shadow.get("policy"))


def named_upstreams(root: MappingNode) -> Iterator[ScalarNode]:
    """Yield the node of each name of a provider in routes."""
    for route in _mappings(root.get("routes")):
        for node in _items(route.get("upstream")):
            yield from _texts(node.get("name") if isinstance(node, MappingNode) else node)
        for node in _items(route.get("fallback")):
            yield from _texts(node)


def upstream_names(root: MappingNode) -> tuple[str, ...] | None:
    """Return the names of all providers; None if the file does not say them in a form that can be read."""
    node = root.get("upstreams")
    return tuple(node.entries) if isinstance(node, MappingNode) else None


def _texts(node: PolicyNode | None) -> Iterator[ScalarNode]:
    if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value.strip():
        yield node


def _items(node: PolicyNode | None) -> tuple[PolicyNode, ...]:
    return () if node is None else node.items if isinstance(node, ListNode) else (node,)


def _mappings(node: PolicyNode | None) -> Iterator[MappingNode]:
    for item in _items(node):
        if isinstance(item, MappingNode):
            yield item
