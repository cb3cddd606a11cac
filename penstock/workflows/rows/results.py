"""The result of a row as JSON, and the counts over all rows. docs/cli.md documents the fields.

A result never holds the text that was there before, unless the caller asks for the input: edits are positions and
the new text, and a blocked row has no text at all.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.engine.values.frozen import thaw
from penstock.workflows.batch import STATUSES, Checked
from penstock.workflows.rows.reading import TOOL_VALUES, InputRow, is_object

if TYPE_CHECKING:
    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.formats import Format
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Record, Tripwire


RowChecked = Checked[InputRow]


def as_json(
    checked: RowChecked, *, messages_format: Format = "openai-chat", show_input: bool = False, traced: bool = False
) -> str:
    """Return the result as one line of JSON, without a line end."""
    return _ENCODE(as_fields(checked, messages_format=messages_format, show_input=show_input, traced=traced))


def _kind(value: object) -> str:
    """Return the type of a value that JSON cannot represent: its text could be what was hidden."""
    return type(value).__name__


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), skipkeys=True, default=_kind).encode


def as_fields(
    checked: RowChecked, *, messages_format: Format = "openai-chat", show_input: bool = False, traced: bool = False
) -> dict[str, Any]:
    """Return the result as a mapping that `as_json` writes: read-only mappings and tuples are JSON as they are.

    Args:
        checked: the result.
        messages_format: the format of the messages of a conversation.
        show_input: whether the original row is in it.
        traced: whether the trace is in it.
    """
    row, outcome = checked.item, checked.outcome
    fields: dict[str, Any] = {"line": row.line, "id": row.id, "status": checked.status}
    fields["text"] = None if outcome is None or outcome.blocked else outcome.text
    if outcome is not None and not outcome.blocked:
        fields.update(_payload(row, outcome, messages_format))
    fields["flagged"] = checked.flagged
    fields["tripwire"] = None if outcome is None or outcome.tripwire is None else _tripwire(outcome.tripwire)
    fields["error"] = None if checked.error is None else _error(checked.error)
    fields["ms"] = _milliseconds(checked.seconds)
    refused = checked.error is not None or (outcome is not None and outcome.blocked)
    named: dict[str, str] | None = {} if refused else None  # a row chooses ids: one could be what was refused
    fields["records"] = [_record(record, named) for record in checked.records]
    if show_input:
        fields["input"] = row.value
    if traced:
        fields["trace"] = None if checked.trace is None else checked.trace.to_json()
    return fields


def error_text(error: Exception) -> str:
    """Return the text of an error of our own; of other errors only the type, since their text could quote anything."""
    from penstock.engine.values.errors import PenstockError

    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__} was raised"


def _payload(row: InputRow, outcome: Outcome, messages_format: Format) -> dict[str, Any]:
    """Return the edited value in the form of the row: messages for messages, a JSON value for a tool."""
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
        "metadata": tripwire.metadata,
    }


def _error(error: Exception) -> dict[str, str]:
    return {"type": type(error).__name__, "message": error_text(error)}


def _record(record: Record, named: dict[str, str] | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "step": record.step,
        "processor": record.processor_id,
        "status": record.status,
        "shadow": record.shadow,
        "ms": _milliseconds(record.seconds),
        "edits": [_edit(place, edit, named) for place, edit in record.edits],
    }
    if record.tripwire is not None:
        fields["reason"] = record.tripwire.reason
    if record.error is not None:
        fields["error"] = record.error
    if record.flagged:
        fields["flagged"] = record.flagged
    if record.details:
        fields["details"] = record.details
    return fields


def _edit(place: TextPlace, edit: Edit, named: dict[str, str] | None) -> dict[str, Any]:
    message = place.message_id
    if named is not None and message:
        message = named.setdefault(message, f"message-{len(named) + 1}")
    return {
        "message": message,
        "part": place.part,
        "field": place.path[0],  # not the keys below it: they are text, too, and could be what was hidden
        "start": edit.start,
        "end": edit.end,
        "kind": edit.kind,
        "text": edit.text,
    }


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


RATE_ROWS = 100
"""The number of rows from which the rate in rows per second is shown; of fewer it says nothing."""


@dataclass(slots=True)
class StepCounts:
    """What one step did over all rows so far; times in seconds."""

    shadow: bool = False
    statuses: Counter[str] = field(default_factory=Counter[str])
    edits: int = 0
    flagged: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, record: Record) -> None:
        """Count one record."""
        self.statuses[record.status] += 1
        self.edits += len(record.edits)
        self.flagged += bool(record.flagged)
        self.seconds += record.seconds
        self.slowest = max(self.slowest, record.seconds)

    @property
    def ran(self) -> int:
        """How often the step ran."""
        return self.statuses.total() - self.statuses["skipped"]


@dataclass(slots=True)
class RunCounts:
    """What became of the rows so far. Its size depends on the workflow only, not on the number of rows.

    Attributes:
        statuses: how many rows have which status.
        steps: the counts of each step by its path, in the order in which the steps were first seen.
        broken: how many rows were blocked only because a step failed.
        flagged: how many rows have something that a step found and let pass.
    """

    statuses: Counter[str] = field(default_factory=Counter[str])
    steps: dict[str, StepCounts] = field(default_factory=dict[str, StepCounts])
    broken: int = 0
    flagged: int = 0

    def add(self, checked: RowChecked) -> None:
        """Count one result."""
        self.statuses[checked.status] += 1
        if checked.outcome is not None and checked.outcome.failure is not None:
            self.broken += 1
        self.flagged += bool(checked.flagged)
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
        """Whether some row could not be checked: it was malformed, or a step failed on it."""
        return bool(self.broken or self.statuses["failed"] or self.statuses["invalid"])

    def sentence(self, seconds: float) -> str:
        """Return the counts as a sentence; ``seconds`` is the time that all rows took."""
        counts = [f"{self.statuses[status]:,} {status}" for status in STATUSES if self.statuses[status]]
        flagged = f"; {self.flagged:,} flagged" if self.flagged else ""
        broken = f" ({self.broken:,} of the blocked because a step failed)" if self.broken else ""
        speed = f", {self.rows / seconds:,.0f} rows/s" if self.rows >= RATE_ROWS and seconds > 0 else ""
        noun = "row" if self.rows == 1 else "rows"
        return (
            f"{self.rows:,} {noun}: {', '.join(counts) or 'nothing to do'}{broken}{flagged} in {seconds:,.2f} s{speed}"
        )
