"""The result of a row as JSON, and the counts over all rows. docs/cli.md documents the fields.

A result never holds the text that was there before, unless the caller asks for the input: edits are positions and
the new text, and a blocked row has no text at all.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.engine.values.frozen import EMPTY, thaw
from penstock.engine.values.plain import plain
from penstock.workflows.batch import STATUSES, Checked
from penstock.workflows.rows.reading import COLUMNS, TOOL_VALUES, Columns, InputRow, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.texts import TextPlace
    from penstock.engine.values.tripwire import Record, Status
    from penstock.engine.workflow import Workflow
    from penstock.formats import Format
    from penstock.workflows.batch import CheckStatus

RowChecked = Checked[InputRow]


@dataclass(frozen=True, slots=True)
class ResultFields:
    """The fields of a row's result. It can be pickled: results are made where the rows are checked.

    Attributes:
        columns: which columns of the row are its id, its text, and kept.
        messages_format: the format of the messages of a conversation.
        show_input: whether the original row is in it.
        traced: whether the trace is in it.
        times: whether the times are in it; without them, every run on the same rows has the same results.
    """

    columns: Columns = COLUMNS
    messages_format: Format = "openai-chat"
    show_input: bool = False
    traced: bool = False
    times: bool = True

    def of(self, checked: RowChecked) -> dict[str, object]:
        """Return the result as a mapping that `as_json` writes: read-only mappings and tuples are JSON as they are."""
        row, outcome = checked.item, checked.outcome
        fields: dict[str, object] = {} if row.file is None else {"file": row.file}
        fields |= {"line": row.line, "id": self.columns.id_of(row.value), "status": checked.status}
        fields["text"] = None if outcome is None or outcome.blocked else outcome.text
        if outcome is not None and not outcome.blocked:
            fields.update(self._payload(row, outcome))
        fields["flagged"] = checked.flagged
        tripwire = None if outcome is None else outcome.tripwire
        fields["tripwire"] = None if tripwire is None else {name: getattr(tripwire, name) for name in _TRIPWIRE}
        fields["error"] = None if checked.error is None else error_fields(checked.error)
        if self.times:
            fields["ms"] = _milliseconds(checked.seconds)
        refused = checked.error is not None or (outcome is not None and outcome.blocked)
        named: dict[str, str] | None = {} if refused else None  # a row chooses ids: one could be what was refused
        fields["records"] = [_record(record, named, times=self.times) for record in checked.records]
        if self.show_input:
            fields["input"] = row.value
        if self.traced:
            fields["trace"] = None if checked.trace is None else checked.trace.to_json()
        for name, value in self.columns.kept_of(row.value).items():
            fields[kept_name(name)] = value
        return fields

    def _payload(self, row: InputRow, outcome: Outcome) -> dict[str, object]:
        """Return the edited value in the form of the row: messages for messages, a JSON value for a tool."""
        if outcome.stage in TOOL_VALUES:
            name = TOOL_VALUES[outcome.stage]
            return {name: thaw(outcome.overrides.get(name))}
        body = self.columns.body_of(row.value)
        if isinstance(body, str) or (is_object(body) and isinstance(body.get("text"), str)):
            return {}
        from penstock.formats import dump_messages  # not needed for plain texts

        return {"messages": dump_messages(outcome.messages, self.messages_format)}

    def names(self, stage: str, *, several: bool) -> tuple[str, ...]:
        """Return the names of the fields that a table of results has, without those that are kept.

        Args:
            stage: the stage that runs: a tool stage has ``arguments`` or ``result``, any other has ``messages``.
            several: whether there are several input files.
        """
        wanted = {
            "file": several,
            "messages": stage not in TOOL_VALUES,
            **{name: TOOL_VALUES.get(stage) == name for name in TOOL_VALUES.values()},
            "ms": self.times,
            "input": self.show_input,
            "trace": self.traced,
        }
        return tuple(name for name in RESULT_NAMES if wanted.get(name, True))


RESULT_NAMES = (
    "file",
    "line",
    "id",
    "status",
    "text",
    "messages",
    "arguments",
    "result",
    "flagged",
    "tripwire",
    "error",
    "ms",
    "records",
    "input",
    "trace",
)
"""The fields of a result, in order."""


UNFIT = "unfit"
"""The column of a table of results for kept values that have no column, or are not of its type: a JSON object."""


def kept_name(column: str) -> str:
    """Return the name that a kept column has in the result: its own, unless a field of the result has it.

    A column whose own name looks as if it had been renamed is renamed, too, so that no two get one name.
    """
    return f"input_{column}" if _TAKEN.fullmatch(column) else column


_TAKEN = re.compile(rf"(?:input_)*(?:{'|'.join((*RESULT_NAMES, UNFIT))})")


def as_json(checked: RowChecked, fields: ResultFields | None = None) -> str:
    """Return the result as one line of JSON, without a line end."""
    return as_line((fields or ResultFields()).of(checked))


def as_line(fields: dict[str, object]) -> str:
    """Return fields as one line of JSON, without a line end; of a value in it that JSON cannot write, its type."""
    try:
        return _ENCODE(fields)
    except (ValueError, RecursionError):  # as in `value_as_json`
        return _ENCODE(plain(fields))


def _kind(value: object) -> str:
    """Return the type of a value that JSON cannot represent; its text could quote hidden values."""
    return type(value).__name__


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), skipkeys=True, default=_kind).encode


def value_as_json(value: object) -> str:
    """Return a value of no fixed type as JSON text; of one that JSON cannot write, its type, as of a value in it."""
    try:
        return _ENCODE(value)
    except (ValueError, RecursionError):  # it holds itself, has too many digits, or is nested too deeply
        return _ENCODE(_kind(value))


def error_text(error: Exception) -> str:
    """Return the text of an error of our own; of other errors only the type, since their text could quote anything."""
    from penstock.engine.values.errors import PenstockError

    return str(error) if isinstance(error, PenstockError) else f"{type(error).__name__} was raised"


def error_fields(error: Exception) -> dict[str, str]:
    """Return an error as it stands in a result."""
    return {"type": type(error).__name__, "message": error_text(error)}


_TRIPWIRE = ("reason", "processor_id", "stage", "retry", "metadata")


def _record(record: Record, named: dict[str, str] | None, *, times: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "step": record.step,
        "processor": record.processor_id,
        "status": record.status,
        "shadow": record.shadow,
    }
    if times:
        fields["ms"] = _milliseconds(record.seconds)
    fields["edits"] = [edit_fields(place, edit, named) for place, edit in record.edits]
    if record.tripwire is not None:
        fields["reason"] = record.tripwire.reason
    if record.error is not None:
        fields["error"] = record.error
    if record.flagged:
        fields["flagged"] = record.flagged
    details = {name: detail for name, detail in record.details.items() if name != "known"}
    if details:  # the rows that a process has read before are no fact about this one
        fields["details"] = details
    return fields


def edit_fields(place: TextPlace, edit: Edit, named: dict[str, str] | None = None) -> dict[str, object]:
    """Return an edit as JSON; with ``named``, the messages have names of ours instead of their ids."""
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


class StepDone(NamedTuple):
    """The counted effects of a step on one row."""

    step: str
    status: Status
    shadow: bool
    edits: int
    flagged: bool
    seconds: float


class RowResult(NamedTuple):
    """The result of one row as plain data, which crosses to another process.

    Attributes:
        line: the number of its line.
        status: what became of the row.
        broken: whether it was blocked only because a step failed.
        flagged: whether a step found something and let it pass.
        seconds: how long it took, in seconds.
        steps: the effects of each step, in the order in which the steps ended.
        made: the output of each `RowForm` of the run, in their order.
        counts: the counts of steps by their paths, of this row and of rows before it, in place of ``steps``. A worker
            process sends these: to count each step of each row again costs as much as all else that is done here.
    """

    line: int
    status: CheckStatus
    broken: bool
    flagged: bool
    seconds: float
    steps: tuple[StepDone, ...]
    made: tuple[object, ...] = ()
    counts: Mapping[str, StepCounts] = EMPTY


class RowForm:
    """Something made of each result where its row is checked: a line of JSON, a row of a table, a part of a report.

    It can be pickled, and so can its outputs.
    """

    __slots__ = ()

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], object]:  # noqa: ARG002 - most need only the result
        """Return what makes it, for one process. It is called once for each row that was checked there, in order."""
        return self.make

    def make(self, checked: RowChecked) -> object:
        """Return the output for a result."""
        raise NotImplementedError


class Sink(Protocol):
    """Takes the output of its form for each result, in order."""

    @property
    def form(self) -> RowForm:
        """The form of each result."""
        ...

    def add(self, made: Any) -> None:
        """Take the output for a result."""
        ...


def result_of(checked: RowChecked, made: tuple[object, ...] = ()) -> RowResult:
    """Return a result as plain data."""
    steps = tuple(
        StepDone(each.step, each.status, each.shadow, len(each.edits), bool(each.flagged), each.seconds)
        for each in checked.records
    )
    broken = checked.outcome is not None and checked.outcome.failure is not None
    return RowResult(checked.item.line, checked.status, broken, bool(checked.flagged), checked.seconds, steps, made)


RATE_ROWS = 100
"""The number of rows from which the rate in rows per second is shown; of fewer it says nothing."""


@dataclass(slots=True)
class StepCounts:
    """The effects of one step over all rows so far; times in seconds."""

    shadow: bool = False
    statuses: Counter[str] = field(default_factory=Counter[str])
    edits: int = 0
    flagged: int = 0
    seconds: float = 0.0
    slowest: float = 0.0

    def add(self, done: StepDone) -> None:
        """Count its effects on one row."""
        self.statuses[done.status] += 1
        self.edits += done.edits
        self.flagged += done.flagged
        self.seconds += done.seconds
        self.slowest = max(self.slowest, done.seconds)

    def join(self, other: StepCounts) -> None:
        """Add the counts of other rows."""
        self.statuses.update(other.statuses)
        self.edits += other.edits
        self.flagged += other.flagged
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)

    @property
    def ran(self) -> int:
        """How often the step ran."""
        return self.statuses.total() - self.statuses["skipped"]


def count_steps(result: RowResult, counts: dict[str, StepCounts]) -> None:
    """Count the steps of a result."""
    for done in result.steps:
        step = counts.get(done.step)
        if step is None:
            step = counts[done.step] = StepCounts(done.shadow)
        step.add(done)
    for path, other in result.counts.items():
        counts.setdefault(path, StepCounts(other.shadow)).join(other)


def packed(results: Iterable[RowResult]) -> list[tuple[object, ...]]:
    """Return results as plain tuples to send to another process; the last one has the counts of all their steps."""
    counts: dict[str, StepCounts] = {}
    made: list[tuple[object, ...]] = []
    for result in results:
        count_steps(result, counts)
        made.append((*result[:_STEPS], (), result.made))
    if made:
        made[-1] = (*made[-1], counts)
    return made


def unpacked(sent: Iterable[tuple[object, ...]]) -> list[RowResult]:
    """Return the results that `packed` was given, but for their steps."""
    return [RowResult(*fields) for fields in sent]  # type: ignore[arg-type]


_STEPS = RowResult._fields.index("steps")


@dataclass(slots=True)
class RunCounts:
    """What became of the rows so far. Its size depends on the workflow only, not on the number of rows.

    Attributes:
        statuses: how many rows have which status.
        steps: the counts of each step by its path, in the order in which the steps were first seen.
        broken: how many rows were blocked only because a step failed.
        flagged: how many rows have something that a step found and let pass.
        earlier: how many of the rows were checked by an earlier run, which this one resumes.
    """

    statuses: Counter[str] = field(default_factory=Counter[str])
    steps: dict[str, StepCounts] = field(default_factory=dict[str, StepCounts])
    broken: int = 0
    flagged: int = 0
    earlier: int = 0

    def add(self, result: RowResult) -> None:
        """Count one result."""
        self.statuses[result.status] += 1
        self.broken += result.broken
        self.flagged += result.flagged
        count_steps(result, self.steps)

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
        rows = self.rows - self.earlier
        speed = f", {rows / seconds:,.0f} rows/s" if rows >= RATE_ROWS and seconds > 0 else ""
        noun = "row" if self.rows == 1 else "rows"
        noun += f" ({self.earlier:,} of them by the earlier run)" if self.earlier else ""
        return (
            f"{self.rows:,} {noun}: {', '.join(counts) or 'nothing to do'}{broken}{flagged} in {seconds:,.2f} s{speed}"
        )
