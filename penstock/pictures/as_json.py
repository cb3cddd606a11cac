"""Write a scene as JSON: boxes, groups and edges with all their properties; docs/diagrams.md has the schema.

The schema only grows: a program that reads version 1 can read any later text with ``"version": 1``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Branch, Dag, Parallel, Sequence, Step
from penstock.engine.processor.processor import Processor, given_options
from penstock.engine.values.secret_names import is_secret, masked_value
from penstock.pictures.labels import merge_words, role_of
from penstock.pictures.scene import ProcessorList

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Node, Policy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.pictures.scene import Box, Group, Scene

VERSION = 1


def as_json(scene: Scene) -> str:
    """Return the JSON text, indented."""
    made = {
        "version": VERSION,
        "name": scene.name,
        "stage": scene.stage,
        "stages": list(scene.stages),
        "nodes": [_node(box) for box in scene.boxes],
        "groups": [_group(group) for group in scene.groups],
        "edges": [
            {"source": arrow.source, "target": arrow.target, "when": arrow.label or None, "shadow": arrow.beside}
            for arrow in scene.arrows
        ],
    }
    return json.dumps(made, indent=2, ensure_ascii=False)


def _node(box: Box) -> dict[str, object]:
    made: dict[str, object] = {"id": box.id, "kind": box.kind, "group": box.group or None, "title": box.title}
    if isinstance(box.node, Step) and box.kind == "step":
        return {**made, **_step(box.node)}
    return {**made, **_said(box.node)}


def _group(group: Group) -> dict[str, object]:
    made: dict[str, object] = {"id": group.id, "kind": group.kind, "group": group.parent or None, "title": group.title}
    return {**made, **_said(group.node)}


def _said(node: Node | None) -> dict[str, object]:
    """Return the properties of a node that is not a step."""
    if isinstance(node, Branch):
        own = {"match": node.match, "merge": merge_words(node.merge).removeprefix("merge=") or None}
        return {"path": node.path, **own, "on_error": node.on_error}
    if isinstance(node, (Parallel, Dag)):
        return {"path": node.path, "merge": merge_words(node.merge).removeprefix("merge=") or None}
    if isinstance(node, ProcessorList):
        return {"list": node.serves, "stages": list(node.stages)}
    if isinstance(node, Sequence):
        return {"path": node.path, "policy": _policy(node.policy)}
    return {}


def _step(step: Step) -> dict[str, object]:
    claims = step.claims
    kind = type(step.processor)
    return {
        "path": step.path,
        "processor": f"{kind.__module__}.{kind.__qualname__}",
        "role": role_of(step),
        "edits": claims.edits,
        "on_error": claims.on_error,
        "stages": list(claims.hooks),
        "async_stages": [stage for stage, hook in claims.hooks.items() if hook.awaits],
        "provides": sorted(key.name for key in claims.provides),
        "requires": sorted(key.name for key in claims.requires),
        "stores": claims.stores,
        "policy": _policy(step.policy),
        "options": options_of(step.processor),
    }


def _policy(policy: Policy) -> dict[str, object]:
    return {
        "timeout": policy.timeout,
        "on_error": {"fallback": policy.on_error.id} if isinstance(policy.on_error, Processor) else policy.on_error,
        "mode": policy.mode,
        "overlap": policy.overlap,
        "offload": policy.offload,
        "retries": policy.retries,
        "retry_delay": policy.retry_delay,
    }


def options_of(processor: AnyProcessor) -> dict[str, object]:
    """Return the options of a processor that differ from their defaults as JSON values; see `given_options`.

    An option that is not a JSON value is shown as its class; strings that may be secrets, by their name, as ``***``,
    and so is the password in a URL.
    """
    return {name: masked_value(value, secret=is_secret(name)) for name, value in given_options(processor).items()}
