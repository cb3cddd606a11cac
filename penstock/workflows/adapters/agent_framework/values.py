"""Contents, arguments and results of tools as JSON, and back."""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING

import agent_framework as theirs
from pydantic_core import to_jsonable_python

from penstock.engine.values.frozen import thaw
from penstock.formats.wire import is_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.formats.wire import Value


def jsonable(value: object) -> Value:
    """Return a value as JSON; objects of unknown types as text."""
    try:
        return to_jsonable_python(value, fallback=str)
    except ValueError:  # bytes that are no text
        return json.loads(json.dumps(value, default=str))


def plain_content(content: theirs.Content) -> Value:
    """Return all of a content as JSON, but for the client's raw form."""
    return jsonable(content.to_dict())


def content_from(raw: Value) -> theirs.Content:
    """Return the content of a JSON object."""
    return theirs.Content.from_dict(raw)


def without_raw(content: theirs.Content) -> theirs.Content:
    """Return a copy of a content without the client's raw form, which may hold text that guards have not read."""
    made = copy(content)
    made.raw_representation = None
    return made


def arguments_of(content: theirs.Content) -> tuple[Value, bool]:
    """Return a call's arguments, and whether they are valid JSON; no arguments are an empty object."""
    given: object = content.arguments
    if not isinstance(given, str):
        return jsonable(given or {}), True
    try:
        return json.loads(given) if given.strip() else {}, True
    except (ValueError, RecursionError):
        return given, False


def result_value(result: object) -> Value:
    """Return the result of a tool as JSON: the text, if there is nothing else."""
    items = contents_in(result)
    if not items:
        return jsonable(result)
    if are_texts(items):
        return "\n".join([item.text or "" for item in items])
    return [plain_content(item) for item in items]


def contents_in(result: object) -> list[theirs.Content]:
    """Return the contents that the result of a tool consists of; nothing if it is another value."""
    if isinstance(result, theirs.Content):
        return [result]
    items: Sequence[object] = result if is_array(result) else ()
    contents = [item for item in items if isinstance(item, theirs.Content)]
    return contents if len(contents) == len(items) else []


def are_texts(items: Iterable[theirs.Content]) -> bool:
    """Return whether contents are texts, of which a guard reads the text only."""
    return all(item.type == "text" for item in items)


def as_result(value: Value) -> list[theirs.Content]:
    """Return a result for the framework."""
    said: Value = thaw(value)
    if isinstance(said, str):
        return [theirs.Content.from_text(said)]
    items: list[Value] = [] if is_single(said) else said
    if items and all(isinstance(item, dict) and "type" in item for item in items):
        return [content_from(item) for item in items]
    return [theirs.Content.from_text(json.dumps(said, ensure_ascii=False))]


def is_single(value: object) -> bool:
    """Return whether a value is no list."""
    return not is_array(value)
