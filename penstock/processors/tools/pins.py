"""Pins: a hash of the definition of a tool, so that a changed or a new tool is noticed.

A server of tools may change the description of a tool after somebody approved it, and so give the model orders. The
hash covers what reaches the model: the name, the description and the schema of the arguments.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from penstock.engine.values.frozen import is_mapping, thaw

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Layer

_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")


def definition_hash(name: str, tool: object) -> str:
    """Return the hash of a tool's definition: ``sha256:`` and 64 hexadecimal digits.

    Args:
        name: the name under which the model is offered it.
        tool: a `penstock.Tool`, or its definition as a mapping, in the form of OpenAI, Anthropic, MCP or Google. The
            forms of one definition have one hash.
    """
    description, schema = _definition(tool)
    written = json.dumps([name, description, schema], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"sha256:{sha256(written.encode('utf-8', 'surrogatepass')).hexdigest()}"


def pins_of(tools: Mapping[str, object]) -> dict[str, str]:
    """Return the hash of each tool by its name, in the order of the names."""
    return {name: definition_hash(name, tools[name]) for name in sorted(tools)}


def changed_pins(tools: Mapping[str, object], pins: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of tools whose definition is not the pinned one; one without a pin counts as changed."""
    return tuple(sorted(name for name, tool in tools.items() if pins.get(name) != definition_hash(name, tool)))


def _definition(tool: object) -> tuple[str, object]:
    """Return the description and the schema of a tool."""
    spec = getattr(tool, "spec", None)
    if spec is not None:
        return str(spec.description), thaw(spec.parameters)
    fields: Mapping[str, object] = tool if is_mapping(tool) else {}
    inside = fields.get("function")
    fields = inside if is_mapping(inside) else fields
    text = fields.get("description")
    schema = next((fields[name] for name in _SCHEMAS if fields.get(name) is not None), None)
    return text if isinstance(text, str) else "", thaw(cast("Layer", schema))
