"""What became of a row, as plain values for programs; it knows no screen. The schema is documented in docs/cli.md.

A result never holds the text that was there before, unless the caller asks for the input: edits are positions and the
new text; of a blocked row there is no text at all.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.engine.values.frozen import thaw
from penstock.workflows.batch import Checked
from penstock.workflows.cli.inputs import TOOL_VALUES, Row, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.formats import Format
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Record, Tripwire

RowChecked = Checked[Row]


def as_json(checked: RowChecked, *, messages_format: Format = "openai-chat", show_input: bool = False) -> str:
    """Return the result as one line of JSON, without its end."""
    return _ENCODE(as_fields(checked, messages_format=messages_format, show_input=show_input))


def _kind(value: object) -> str:
    """Return what stands for a value that JSON does not know: its type, for what it prints could be what was hidden."""
    return type(value).__name__


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), skipkeys=True, default=_kind).encode


def as_fields(
    checked: RowChecked, *, messages_format: Format = "openai-chat", show_input: bool = False
) -> dict[str, Any]:
    """Return the result as a mapping of JSON values; a conversation's messages in the format given."""
    row, outcome = checked.item, checked.outcome
    fields: dict[str, Any] = {"line": row.line, "id": row.id, "status": checked.status}
    fields["text"] = None if outcome is None or outcome.blocked else outcome.text
    if outcome is not None and not outcome.blocked:
        fields.update(_payload(row, outcome, messages_format))
    fields["tripwire"] = None if outcome is None or outcome.tripwire is None else _tripwire(outcome.tripwire)
    fields["error"] = None if checked.error is None else _error(checked.error)
    fields["ms"] = _ms(checked.seconds)
    fields["records"] = [_record(record) for record in checked.records]
    if show_input:
        fields["input"] = row.value
    return fields


def error_text(error: Exception) -> str:
    """Return what an error says, if it is one of ours; of a foreign one the type: its text could quote anything."""
    from penstock.engine.values.errors import PenstockError

    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__} was raised"


def _payload(row: Row, outcome: Outcome, messages_format: Format) -> dict[str, Any]:
    """Return what the row came as, as edited: messages for messages, a JSON value for a tool's."""
    if outcome.stage in TOOL_VALUES:
        name = TOOL_VALUES[outcome.stage]
        return {name: thaw(outcome.overrides.get(name))}
    if isinstance(row.value, str) or (is_object(row.value) and isinstance(row.value.get("text"), str)):
        return {}
    return {"messages": _dumped(outcome.messages, messages_format)}


def _dumped(messages: tuple[Message, ...], messages_format: Format) -> Any:
    from penstock.engine.formats import dump_messages

    return dump_messages(messages, messages_format)


def _tripwire(tripwire: Tripwire) -> dict[str, Any]:
    return {
        "reason": tripwire.reason,
        "processor_id": tripwire.processor_id,
        "stage": tripwire.stage,
        "retry": tripwire.retry,
        "metadata": _thawed(tripwire.metadata),
    }


def _error(error: Exception) -> dict[str, str]:
    return {"type": type(error).__name__, "message": error_text(error)}


def _record(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "step": record.step,
        "processor": record.processor_id,
        "status": record.status,
        "shadow": record.shadow,
        "ms": _ms(record.seconds),
        "edits": [_edit(place, edit) for place, edit in record.edits],
    }
    if record.tripwire is not None:
        fields["reason"] = record.tripwire.reason
    if record.error is not None:
        fields["error"] = record.error
    if record.details:
        fields["details"] = _thawed(record.details)
    return fields


def _edit(place: TextPlace, edit: Edit) -> dict[str, Any]:
    return {
        "message": place.message_id,
        "part": place.part,
        "field": place.path[0],  # no further: the keys below it are text too, and could be what was hidden
        "start": edit.start,
        "end": edit.end,
        "kind": edit.kind,
        "text": edit.text,
    }


def _thawed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: thaw(value) for name, value in values.items()}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
