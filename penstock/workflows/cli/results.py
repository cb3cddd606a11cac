"""What became of a row, as plain values for programs; it knows no screen. The schema is documented in docs/cli.md.

A result never holds the text that was there before, unless the caller asks for the input: edits are positions and the
new text; of a blocked row there is no text at all.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.engine.values.frozen import thaw
from penstock.workflows.batch import STATUSES, Checked
from penstock.workflows.cli.inputs import TOOL_VALUES, InputRow, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.formats import Format
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Record, Tripwire


RowChecked = Checked[InputRow]


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
    fields["ms"] = _milliseconds(checked.seconds)
    fields["records"] = [_record(record) for record in checked.records]
    if show_input:
        fields["input"] = row.value
    return fields


def error_text(error: Exception) -> str:
    """Return what an error says, if it is one of ours; of a foreign one the type: its text could quote anything."""
    from penstock.engine.values.errors import PenstockError

    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__} was raised"


def _payload(row: InputRow, outcome: Outcome, messages_format: Format) -> dict[str, Any]:
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
        "ms": _milliseconds(record.seconds),
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


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


RATE_ROWS = 100
"""The rows from which on their number a second means something: fewer are over before the machine is warm."""


@dataclass(slots=True)
class StepCounts:
    """What one step did over all rows so far."""

    shadow: bool = False
    statuses: Counter[str] = field(default_factory=Counter[str])
    edits: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.statuses[record.status] += 1
        self.edits += len(record.edits)
        self.seconds += record.seconds
        self.slowest = max(self.slowest, record.seconds)

    @property
    def ran(self) -> int:
        """How often it ran."""
        return self.statuses.total() - self.statuses["skipped"]


@dataclass(slots=True)
class RunCounts:
    """What became of the rows so far.

    Attributes:
        statuses: how many rows ended how.
        steps: what each step did, by path, in the order in which they were first seen.
        broken: how many rows were blocked only because a step failed.
    """

    statuses: Counter[str] = field(default_factory=Counter[str])
    steps: dict[str, StepCounts] = field(default_factory=dict[str, StepCounts])
    broken: int = 0

    def add(self, checked: RowChecked) -> None:
        """Count one result."""
        self.statuses[checked.status] += 1
        if checked.outcome is not None and checked.outcome.failure is not None:
            self.broken += 1
        for record in checked.records:
            step = self.steps.get(record.step)
            if step is None:
                step = self.steps[record.step] = StepCounts(record.shadow)
            step.add(record)

    @property
    def rows(self) -> int:
        """How many rows there were."""
        return self.statuses.total()

    @property
    def incomplete(self) -> bool:
        """Whether some row could not be judged: it was malformed, or a step broke on it."""
        return bool(self.broken or self.statuses["failed"] or self.statuses["invalid"])

    def sentence(self, seconds: float) -> str:
        """Return the counts as a sentence for people."""
        counts = [f"{self.statuses[status]:,} {status}" for status in STATUSES if self.statuses[status]]
        broken = f" ({self.broken:,} of the blocked because a step failed)" if self.broken else ""
        speed = f", {self.rows / seconds:,.0f} rows/s" if self.rows >= RATE_ROWS and seconds > 0 else ""
        noun = "row" if self.rows == 1 else "rows"
        return f"{self.rows:,} {noun}: {', '.join(counts) or 'nothing to do'}{broken} in {seconds:,.2f} s{speed}"
