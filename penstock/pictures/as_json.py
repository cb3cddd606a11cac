"""Write a scene as JSON: boxes, groups and edges with all their properties; docs/diagrams.md has the schema.

The schema only grows: a program that reads version 1 can read any later text with ``"version": 1``.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

from penstock.engine.processor.processor import Processor, given_options
from penstock.engine.values.secret_names import is_secret, masked_value
from penstock.pictures.chart import chart_of
from penstock.pictures.labels import merge_words, role_of

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Policy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.pictures.scene import Part, Scene

VERSION = 1


def as_json(scene: Scene) -> str:
    """Return the JSON text, indented."""
    chart = chart_of(scene)
    made = {
        "version": VERSION,
        "name": scene.name,
        "stage": scene.stage,
        "stages": list(scene.stages),
        "nodes": [
            {"id": box.id, "kind": box.kind, "group": box.group or None, "title": box.title, **_said(box.part)}
            | ({"tools": list(scene.tools)} if box.kind == "tools" else {})
            for box in chart.boxes
        ],
        "groups": [
            {"id": one.id, "kind": one.kind, "group": one.parent or None, "title": one.title, **_said(one.part)}
            for one in chart.groups
        ],
        "edges": [
            {"source": arrow.source, "target": arrow.target, "when": arrow.label or None, "shadow": arrow.beside}
            for arrow in chart.arrows
        ],
    }
    return json.dumps(made, indent=2, ensure_ascii=False)


def _said(part: Part | None) -> dict[str, object]:
    """Return the properties of a part."""
    if part is None:
        return {}
    if step := part.step:
        claims, kind = step.claims, type(step.processor)
        return {
            "path": part.path,
            "processor": f"{kind.__module__}.{kind.__qualname__}",
            "role": role_of(step),
            "edits": claims.edits,
            "on_error": claims.on_error,
            "stages": list(part.stages),
            "async_stages": [stage for stage in part.stages if claims.hooks[stage].awaits],
            "provides": sorted(key.name for key in claims.provides),
            "requires": sorted(key.name for key in claims.requires),
            "stores": claims.stores,
            "policy": _policy(step.policy),
            "options": options_of(step.processor),
        }
    if part.kind == "list":
        return {"list": part.serves, "stages": list(part.stages)}
    if part.kind in ("workflow", "steps", "memory"):
        return {"path": part.path, "policy": _policy(part.policy)}
    merge = merge_words(part.merge).removeprefix("merge=") or None
    if part.kind == "branch":
        return {"path": part.path, "match": part.match, "merge": merge, "on_error": part.on_error}
    return {"path": part.path, "merge": merge}


def _policy(policy: Policy) -> dict[str, object]:
    values = {one.name: getattr(policy, one.name) for one in fields(policy)}
    return {name: {"fallback": one.id} if isinstance(one, Processor) else one for name, one in values.items()}


def options_of(processor: AnyProcessor) -> dict[str, object]:
    """Return the options of a processor that differ from their defaults as JSON values; see `given_options`.

    An option that is not a JSON value is shown as its class; strings that may be secrets, by their name, as ``***``,
    and so is the password in a URL.
    """
    return {name: masked_value(value, secret=is_secret(name)) for name, value in given_options(processor).items()}
