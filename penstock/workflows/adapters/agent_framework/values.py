"""Arguments and results of tools as JSON, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import agent_framework as theirs

from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


def arguments_of(content: theirs.Content) -> tuple[Any, bool]:
    """Return a call's arguments, and whether they are valid JSON; no arguments are an empty object."""
    given: Any = content.arguments
    if not isinstance(given, str):
        return jsonable(given or {}), True
    try:
        return json.loads(given) if given.strip() else {}, True
    except (ValueError, RecursionError):
        return given, False


def jsonable(value: Any) -> Any:
    """Return a value as JSON has it."""
    return json.loads(json.dumps(value, default=str))


def result_value(result: Any) -> Any:
    """Return the result of a tool as JSON: the text, if there is nothing else."""
    if isinstance(result, theirs.Content):
        result = [result]
    items: list[Any] = [] if is_single(result) else list(result)
    if items and all(isinstance(item, theirs.Content) for item in items):
        if all(item.type == "text" for item in items):
            return "\n".join(item.text or "" for item in items)
        return [jsonable(item.to_dict()) for item in items]
    return jsonable(result)


def as_result(value: Value) -> Any:
    """Return a result for the framework."""
    said: Any = thaw(value)
    if isinstance(said, str):
        return [theirs.Content.from_text(said)]
    items: list[Any] = [] if is_single(said) else said
    if items and all(isinstance(item, dict) and "type" in item for item in items):
        return [theirs.Content.from_dict(item) for item in items]
    return [theirs.Content.from_text(json.dumps(said, ensure_ascii=False))]


def is_single(value: Any) -> bool:
    """Return whether a value is no list."""
    return not isinstance(value, (list, tuple))
