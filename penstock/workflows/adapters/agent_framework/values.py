"""Contents, arguments and results of tools as JSON, and back; and the data beside the text of a message.

That data is citations and notes of the provider. Guards read and edit it as data.
"""

from __future__ import annotations

import json
import re
from copy import copy
from typing import TYPE_CHECKING, TypeAlias

import agent_framework as theirs
from pydantic_core import to_jsonable_python

from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.messages import DataPart
from penstock.formats.wire import is_array, is_object, without_empty
from penstock.models.openai.wire import checksum

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value


def jsonable(value: object) -> Value:
    """Return a value as JSON; objects of unknown types as text."""
    try:
        return to_jsonable_python(value, fallback=str)
    except ValueError:  # bytes that are no text
        return json.loads(json.dumps(value, default=str))


def plain_content(content: theirs.Content) -> Value:
    """Return all of a content as JSON, but for the client's raw form."""
    return jsonable(content.to_dict())


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
    items: Sequence[Value] = said if is_array(said) else []
    if items and all(isinstance(item, dict) and "type" in item for item in items):
        return [theirs.Content.from_dict(item) for item in items]
    return [theirs.Content.from_text(json.dumps(said, ensure_ascii=False))]


FORMAT = "agent-framework"
"""The name under which metadata holds what only the framework knows."""

BESIDE = f"{FORMAT}-beside"
"""The name of the data parts with what stands beside the other parts of a message, by place."""

Beside: TypeAlias = "Json"
"""What stands beside parts: by the place of the part, the content's ``annotations`` and ``additional_properties``."""

OWN_PROPERTIES = frozenset(
    {
        "_attribution",
        "_excluded",
        "_exclude_reason",
        "_group",
        "_summarized_by_summary_id",
        "_summary_of_group_ids",
        "_summary_of_message_ids",
    }
)
"""What the framework itself notes in the properties of messages: where they are from, and how they are compacted."""

_SEALED = re.compile(r"[\w+/=.:~-]*", re.ASCII)
_KIND = "model_output_kind"  # whether a text is a refusal


def beside_content(place: str, content: theirs.Content) -> Beside:
    """Return the data beside a content's text, under its place; nothing if there is nothing."""
    if not (content.annotations or content.additional_properties or content.protected_data):
        return {}
    found: Beside = {
        "annotations": [_annotation(one) for one in content.annotations or ()],
        "additional_properties": jsonable(content.additional_properties),
        "protected_data": content.protected_data if is_readable(content.protected_data) else None,
    }
    held = {name: item for name, item in found.items() if item}
    return {place: held} if held else {}


def _annotation(annotation: object) -> Value:
    if not is_object(annotation):
        return jsonable(annotation)
    return jsonable({name: item for name, item in annotation.items() if name != "raw_representation"})


def is_readable(protected: str | None) -> bool:
    """Return whether protected data can be read, and is no signature: some providers send reasoning there."""
    return bool(protected) and _SEALED.fullmatch(protected or "") is None


def beside_message(message: theirs.Message) -> Beside:
    """Return the data beside the contents of a message, but for the framework's own notes."""
    given = message.additional_properties
    if not given or given.keys() <= OWN_PROPERTIES:
        return {}
    rest = {name: item for name, item in given.items() if name not in OWN_PROPERTIES}
    return {"message": {"additional_properties": jsonable(rest)}}


def own_properties(message: theirs.Message) -> Json:
    """Return the framework's own notes in the properties of a message."""
    return {name: item for name, item in message.additional_properties.items() if name in OWN_PROPERTIES}


def left_beside(parts: Iterable[Part]) -> Beside:
    """Return the guarded version of the data beside the parts of a message."""
    made: Beside = {}
    for part in parts:
        if isinstance(part, DataPart) and part.name == BESIDE:
            made |= as_beside(part.data)
    return made


def as_beside(data: Value) -> Beside:
    """Return data that guards have edited in the form that it had before; other data is left out."""
    held = thaw(data)
    if not is_object(held):
        return {}
    return {
        place: {
            name: item
            for name, item in one.items()
            if (is_array(item) if name == "annotations" else name != "additional_properties" or is_object(item))
        }
        for place, one in held.items()
        if is_object(one)
    }


def is_same(content: theirs.Content, place: str, left: Beside) -> bool:
    """Return whether guards left the data beside a content as it was."""
    if not (content.annotations or content.additional_properties or content.protected_data):
        return not left.get(place)
    return bool(beside_content(place, content).get(place, {}) == left.get(place, {}))


def put_beside(
    content: theirs.Content, place: str, left: Beside, notes: Values = EMPTY, *, changed: bool = False
) -> theirs.Content:
    """Return the content with the guarded version of what stood beside it.

    Args:
        content: the content.
        place: its place.
        left: the guarded version, by place.
        notes: the notes of its part; see `sealed_in`.
        changed: whether they changed the text. Then nothing stays that points into it, or that may repeat it in pieces.
    """
    found = left.get(place, {})
    annotations, properties = found.get("annotations"), found.get("additional_properties", {})
    if changed:
        annotations = [without_regions(one) for one in annotations or ()]
        properties = {_KIND: properties[_KIND]} if _KIND in properties else {}
    protected = found.get("protected_data")
    if not changed and isinstance(protected, str) and checksum(protected) == notes.get("protected"):
        content.protected_data = protected
    content.annotations = annotations or None
    content.additional_properties = properties
    return content


def without_regions(annotation: Value) -> Value:
    """Return an annotation without the places in the text that it points to."""
    if not is_object(annotation):
        return annotation
    return {name: item for name, item in annotation.items() if name != "annotated_regions"}


def sealed_in(content: theirs.Content) -> Json:
    """Return the notes of a text: the part that only its provider can read, and checksums that tell a changed text.

    The data beside the text holds the fields that a provider needs back, if that can be read.
    """
    protected = content.protected_data or None
    if is_readable(protected):
        return {"protected": checksum(protected or ""), "of": checksum(content.text or "")}
    return without_empty({"protected_data": protected, "of": checksum(content.text or "")})
