"""What a provider needs back with a part, kept in its metadata; it knows pydantic-ai's parts and ours, no request.

A part keeps ids, signatures and details of its provider's, and a checksum of the text that they belong to: once a guard
has edited the text they are left out, since some providers would use their own copy of it. No text is kept here.
"""

from __future__ import annotations

import json
from binascii import crc_hqx
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import messages as theirs
from pydantic_core import to_json

from penstock.engine.values.frozen import EMPTY, Value, is_mapping, thaw

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.messages import Message, Part

FORMAT = "pydantic-ai"
"""The name under which parts and messages keep what is this library's."""

_OF_PARTS = ("id", "signature", "provider_name", "provider_details")
_OF_ANSWERS = ("provider_name", "provider_url", "canonical_system", "provider_response_id", "provider_details")
_TEXTS = frozenset({"citations", "logprobs", "refusal", "finish_reason", "timestamp"})
_SENT_BACK = ("thinking", "builtin-tool-call", "builtin-tool-return", "compaction")


@cache
def _parts() -> TypeAdapter[theirs.ModelResponsePart]:
    return TypeAdapter(theirs.ModelResponsePart)


def dumped(part: theirs.ModelResponsePart) -> Values:
    """Return a part as JSON, to be sent back as it is."""
    made: Values = json.loads(_parts().dump_json(part, exclude_none=True))
    return made


def part_notes(part: theirs.ModelResponsePart, text: str) -> Values:
    """Return the metadata of the part that theirs becomes; ``text`` is what it says."""
    notes = _noted(part, _OF_PARTS)
    return {FORMAT: {**notes, "of": checksum(text)}} if notes else EMPTY


def answer_notes(answer: theirs.ModelResponse) -> Values:
    """Return the metadata of the message that an answer becomes."""
    notes = _noted(answer, _OF_ANSWERS)
    return {FORMAT: notes} if notes else EMPTY


def _noted(value: theirs.ModelResponsePart | theirs.ModelResponse, names: tuple[str, ...]) -> dict[str, Value]:
    found = {name: _plain(getattr(value, name, None)) for name in names}
    return {name: item for name, item in found.items() if item is not None}


def _plain(value: Value) -> Value:
    """Return a detail as a JSON value; None for none, or one that says nothing."""
    if not is_mapping(value):
        return value
    kept = {key: item for key, item in value.items() if key not in _TEXTS}
    return json.loads(to_json(kept, fallback=str)) or None


def notes_of(value: Message | Part, text: str | None = None) -> dict[str, Value]:
    """Return what to give back with a part or a message: keywords of pydantic-ai's class; none if its text was edited.

    Metadata may come from outside: what is of another type is left out.
    """
    notes = value.metadata.get(FORMAT)
    if not is_mapping(notes) or (text is not None and notes.get("of") != checksum(text)):
        return {}
    names = _OF_ANSWERS if text is None else _OF_PARTS
    given = {name: thaw(notes[name]) for name in names if notes.get(name) is not None}
    return {name: item for name, item in given.items() if is_mapping(item) == (name == "provider_details")}


def checksum(text: str) -> str:
    """Return enough to see that a text was edited, and too little (16 bits and the length) to guess it from."""
    return f"{len(text)}:{crc_hqx(text.encode('utf-8', 'surrogatepass'), 0):04x}"


def restored(raw: Value) -> theirs.ModelResponsePart | None:
    """Return a part that was kept as JSON; None for what is none, or of a kind that shows something."""
    found = thaw(raw)
    if not is_mapping(found) or found.get("part_kind") not in _SENT_BACK:
        return None
    try:
        return _parts().validate_python(found)
    except ValidationError:
        return None
