"""Reasoning parts of UI and stored messages: ``text``, or ``reasoning`` with ``details``; it knows no other part.

The older shape may say its text once, twice, or in pieces. All of it becomes one text, and only the lengths of the
pieces are noted: if an edit changes the length, the first piece takes the text and the others are emptied.
"""

from __future__ import annotations

from penstock.engine.formats._copies import cut
from penstock.engine.formats._notes import array_in, notes_of
from penstock.engine.formats.ai_sdk_notes import STORED, read_metadata, write_metadata
from penstock.engine.formats.wire import Json, Value, expect_text, is_array, is_object
from penstock.engine.values.messages import ReasoningPart

_FIELDS = ("text", "reasoning")
_KEYS = frozenset({"type", "details", *_FIELDS})


def read_reasoning(item: Json, place: str, fmt: str) -> ReasoningPart:
    """Return the part.

    Raises:
        MessageError: it says no text at all.
    """
    fields = [key for key in _FIELDS if isinstance(item.get(key), str)]
    details: Value = item.get("details")
    pieces = [detail["text"] for detail in details if _is_piece(detail)] if is_array(details) else []
    if not fields and not is_array(details):
        expect_text(item, _FIELDS[0], place)
    said: list[str] = [item[key] for key in fields]
    copy = len(said) == 1 and bool(pieces) and "".join(pieces) == said[0]
    handled = {"type", *fields, *(("details",) if is_array(details) else ())}
    notes: Json = {
        "fields": fields if fields != ["text"] or fmt == STORED else None,
        "details": [_without_text(detail) for detail in details] if is_array(details) else None,
        "copy": True if copy else None,
        "lengths": [len(piece) for piece in (pieces if copy else [*said, *pieces])]
        if pieces or len(said) > 1
        else None,
    }
    rest = {key: value for key, value in item.items() if key not in handled}
    return ReasoningPart("".join(said if copy else [*said, *pieces]), read_metadata(rest, fmt, (), notes))


def _is_piece(detail: Value) -> bool:
    return is_object(detail) and isinstance(detail.get("text"), str)


def _without_text(detail: Value) -> Value:
    """Return what a detail says beside its text, wrapped so that it can be told from one that has none."""
    if not _is_piece(detail):
        return {"raw": detail}
    return {"piece": {key: value for key, value in detail.items() if key != "text"}}


def _raw(detail: Value) -> Value:
    """Return a noted detail; one that says a text was never noted by us."""
    return None if _is_piece(detail) else detail


def write_reasoning(part: ReasoningPart, fmt: str) -> Json:
    """Return the part in the shape that it was read in, else in the one that the format uses today."""
    notes = notes_of(part, fmt)
    if fmt == STORED and fmt not in part.metadata:
        notes = {"fields": ["reasoning"], "details": [{"piece": {"type": "text"}}], "copy": True, "lengths": []}
    given: Value = notes.get("fields")
    fields = [key for key in _FIELDS if key in given] if is_array(given) else ["text"]
    details = [detail for detail in array_in(notes, "details") if is_object(detail)]
    count = sum("piece" in detail for detail in details)
    copy = bool(notes.get("copy"))
    texts = cut(part.text, array_in(notes, "lengths"), count + (0 if copy else len(fields)))
    body: Json = {"type": "reasoning"}
    for key in fields:
        body[key] = part.text if copy or not texts else texts.pop(0)
    if "details" in notes:
        body["details"] = [
            {**detail["piece"], "text": texts.pop(0)} if is_object(detail.get("piece")) else _raw(detail.get("raw"))
            for detail in details
        ]
    return write_metadata(body, part, fmt, _KEYS)
