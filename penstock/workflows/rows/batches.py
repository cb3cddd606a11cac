"""`WorkflowBatches`: a workflow on batches of rows, for Ray Data, Dask, Spark, Polars and Hugging Face ``datasets``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import full_name
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_items, is_mapping
from penstock.workflows.batch import CHECKED_STAGES, JOBS
from penstock.workflows.rows.job import ROW_SECONDS, RowsJob
from penstock.workflows.rows.reading import (
    MAX_LINE,
    TOO_DEEP,
    TOOL_VALUES,
    Columns,
    RawRow,
    RowsError,
    Unreadable,
    is_too_deep,
)
from penstock.workflows.rows.results import ResultFields, RowForm, kept_name
from penstock.workflows.rows.warm import WarmJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.arrow import ResultTables
    from penstock.workflows.rows.frames import Batch, Frame
    from penstock.workflows.rows.results import RowChecked

ROW = 1
"""The number of the line of every row: ids of messages and runs hold it, and must not depend on the batches."""


class WorkflowBatches:
    """Runs one stage of a workflow on each row of a batch. Use it where a library calls a function for each batch.

    A batch is a table or record batch of Arrow, a DataFrame of pandas or Polars, or a dict of lists; the result is of
    the same kind. It has a row for each row, in order, with the fields of ``penstock run`` as columns: ``status``,
    ``text``, ``flagged``, ``tripwire``, ``records`` and so on, and the columns that are kept, with their types. A row
    that is malformed has the status ``invalid``, one at which a step failed has ``failed``; neither raises.

    It can be pickled if the workflow is a name, or can be pickled itself. Each process loads the workflow once. If the
    stage has async steps, ``jobs`` rows run at once in one event loop of the process; batches that are checked at the
    same time share this limit.

    Args:
        workflow: the workflow, or its name: a preset, ``module:name``, or ``path.py:name``.
        stage: the stage to run.
        text: the column that holds the text, or the conversation, to check. None: rows as in JSONL, with the columns
            ``text``, ``messages``, or ``role`` and ``content``.
        id: the column with the id of a row. It is kept, as ``id``.
        keep: the columns to keep, which no guard reads. None: all that are not checked.
        context: the request context of each row.
        jobs: how many rows run at once in a process, if the stage has async steps.
        isolate: check rows in a child process, so that a row that kills it, or takes too long, fails alone: a row that
            killed it is tried once more. For a stage without async steps.
        row_seconds: with ``isolate``, how long a row may take, in seconds, again for each further million bytes.
        times: whether the results hold times; without them, every run on the same rows has the same results.

    Raises:
        LoadingError: when the first batch comes: the workflow cannot be loaded.
        MissingExtraError: the extra ``data`` is not installed.
    """

    def __init__(
        self,
        workflow: Workflow | str,
        *,
        stage: str = "process_input",
        text: str | None = None,
        id: str = "id",
        keep: Sequence[str] | None = None,
        context: Mapping[str, object] = EMPTY,
        jobs: int = JOBS,
        isolate: bool = False,
        row_seconds: float = ROW_SECONDS,
        times: bool = True,
    ) -> None:
        from penstock.workflows.rows.arrow import ResultTables  # not above: it needs the extra

        if isinstance(keep, str):
            raise OptionError("WorkflowBatches", "keep", keep, "a list of names of columns")
        if jobs < 1:
            raise OptionError("WorkflowBatches", "jobs", jobs, "a number, 1 or more")
        stage = full_name(stage)
        if stage not in CHECKED_STAGES:
            raise OptionError("WorkflowBatches", "stage", stage, f"one of {', '.join(CHECKED_STAGES)}")
        self._columns = Columns(text, id, None if keep is None else tuple(keep))
        self._tables = ResultTables(ResultFields(Columns(text, id, keep=()), times=times), stage, omitted=_OMITTED)
        job = RowsJob(workflow, stage, context, self._tables.fields.columns, forms=(_Plain(self._tables),))
        self._warm = WarmJob(job, jobs, row_seconds if isolate else None)

    def __call__(self, batch: Batch) -> Batch:
        """Return the results of a batch, as a batch of the same kind.

        Raises:
            RowsError: it is no batch (see `frame_of`), or has no column with the name ``text``.
        """
        from penstock.workflows.rows.frames import frame_of  # as with Arrow

        frame = frame_of(batch)
        rows = [RawRow(ROW, data) for data in self._rows(frame)]
        results = self._warm.checked(rows) if rows else []
        return frame.with_results(
            self._tables.table([cast("dict[str, object]", result.made[0]) for result in results]), self._kept(frame)
        )

    def _kept(self, frame: Frame) -> dict[str, str]:
        names = self._columns.kept_of(dict.fromkeys(frame.names))
        own_id = {"id": self._columns.id} if self._columns.id in frame.names else {}
        return {**own_id, **{kept_name(name): name for name in names}}

    def _rows(self, frame: Frame) -> Iterator[dict[str, object] | Unreadable]:
        text = self._columns.text
        if text is not None and text not in frame.names and frame.names:
            raise RowsError(f"the batch has no column {text!r}; it has {', '.join(map(repr, frame.names))}")
        names = [name for name in self._read(frame) if name in frame.names]
        columns = [frame.read(name) for name in names]
        tool = self._tables.stage in TOOL_VALUES
        for at in range(frame.length):
            yield _row({name: column[at] for name, column in zip(names, columns, strict=True)}, text, tool=tool)

    def _read(self, frame: Frame) -> Sequence[str]:
        """Return the columns of which the rows are made."""
        if self._columns.text is not None:
            return self._columns.text, *(_TOOL_DETAILS if self._tables.stage in TOOL_VALUES else ())
        kept = self._columns.kept_of(dict.fromkeys(frame.names)) if self._columns.keep is None else ()
        return [name for name in frame.names if name not in kept]


_OMITTED = ("file", "line", "id")  # rows of a batch have no numbers, and the id is kept as it is

_TOOL_DETAILS = ("tool_name", "call_id")


def _row(value: dict[str, object], text: str | None, *, tool: bool) -> dict[str, object] | Unreadable:
    for name, item in value.items():
        if isinstance(item, Unreadable):
            return Unreadable(f"column {name!r}: {item.problem}")
        if _is_longer(item, MAX_LINE):
            return Unreadable(f"column {name!r}: it is longer than {MAX_LINE // 1024 // 1024} MiB")
    if is_too_deep(value):
        return Unreadable(TOO_DEEP)
    if tool:
        return value
    present = {name: without_nulls(item) for name, item in value.items() if item is not None}
    return present if text is None else {**dict.fromkeys(value), **present}


def without_nulls(value: object) -> object:
    """Return a value without the fields that are null: each object of a table has all fields that any of them has."""
    if is_mapping(value):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if is_items(value):
        return [without_nulls(item) for item in value]
    return value


def _is_longer(value: object, most: int) -> bool:
    """Return whether the texts in a value have more bytes than that, together."""
    waiting, size = [value], 0
    while waiting:
        item = waiting.pop()
        if is_mapping(item):
            waiting += item.values()
        elif is_items(item):
            waiting += item
        elif isinstance(item, str | bytes):
            exact = isinstance(item, str) and len(item) > most // 4
            size += len(item.encode("utf-8", "surrogatepass")) if exact else len(item)  # type: ignore[union-attr]
    return size > most


@dataclass(frozen=True, slots=True)
class _Plain(RowForm):
    """Makes plain data of each result, for a table."""

    tables: ResultTables

    def make(self, checked: RowChecked) -> dict[str, object]:
        return self.tables.plain(self.tables.fields.of(checked))
