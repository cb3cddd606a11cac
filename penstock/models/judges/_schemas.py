"""JSON Schemas as providers take them: every field required, nothing else allowed; it knows no verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import Value, is_items, is_mapping

if TYPE_CHECKING:
    from penstock.models.judges._shapes import Schema


def tightened(schema: Schema) -> Schema:
    """Return the schema of what a model is to write: every field, no other, no defaults, titles left out."""
    made = {
        name: _inside(name, item) for name, item in schema.items() if name not in ("title", "default", "discriminator")
    }
    if "oneOf" in made:
        made["anyOf"] = made.pop("oneOf")
    if "properties" in made:
        made["required"] = list(made["properties"])
        made.setdefault("additionalProperties", False)
    return made


def _inside(name: str, item: Value) -> Value:
    if name in ("properties", "$defs"):
        return {key: tightened(below) for key, below in item.items()}
    if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [tightened(below) for below in item]
    if name in ("items", "additionalProperties", "propertyNames") and is_mapping(item):
        return tightened(item)
    return item


def is_strict(schema: object) -> bool:
    """Tell whether a provider can see to it that an answer fits: of mappings and tuples most cannot.

    The rule is that of OpenAI's structured outputs: every object closed, every field required, every value typed.
    """
    if is_items(schema):
        return all(is_strict(item) for item in schema)
    if not is_mapping(schema):
        return True
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    if "prefixItems" in schema or (schema.get("type") == "array" and "items" not in schema):
        return False
    if not _says_something(schema):
        return False
    return all(is_strict(item) for item in _below(schema))


def _says_something(schema: Schema) -> bool:
    return any(name in schema for name in ("type", "$ref", "anyOf", "allOf", "enum", "const"))


def _below(schema: Schema) -> list[Value]:
    below: list[Value] = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    below += [schema[name] for name in ("anyOf", "allOf", "items") if name in schema]
    return below
