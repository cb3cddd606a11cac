"""`RowsJob`: the work on each row of a run, as a value that can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.batch import Checked, check_all, check_one, check_one_async, is_sync
from penstock.workflows.loading import load_workflow
from penstock.workflows.rows.reading import COLUMNS, Columns, InputRow, call_of
from penstock.workflows.rows.results import RowChecked, RowForm, RowResult, result_of
from penstock.workflows.streamed import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.workflow import Workflow
    from penstock.workflows.batch import Call


ROW_SECONDS = 60.0
"""How long a worker process may take for a row of up to a million bytes by default, and again for each further one."""


@dataclass(frozen=True, slots=True)
class RowsJob:
    """The work on each row. It can be pickled if the workflow is a name, or can be pickled itself.

    Attributes:
        workflow: the workflow, or the name that `load_workflow` finds it by in each process.
        stage: the full name of the stage to run.
        context: the request context of each row.
        columns: which columns of a row are used, and which are kept.
        texts: whether traces hold texts.
        forms: the outputs made from each result.
        piece: how many characters of a text come at once in the stage of streams.
    """

    workflow: Workflow | str
    stage: str = "process_input"
    context: Mapping[str, object] = EMPTY
    columns: Columns = COLUMNS
    texts: bool = False
    forms: tuple[RowForm, ...] = ()
    piece: int = PIECE

    def started(self) -> RowChecker:
        """Return the checker of rows in this process: it loads the workflow.

        Raises:
            LoadingError: the workflow cannot be loaded.
        """
        return RowChecker(self, self.loaded())

    def loaded(self) -> Workflow:
        """Return the workflow; load it if it is a name.

        Raises:
            LoadingError: the workflow cannot be loaded.
        """
        return load_workflow(self.workflow) if isinstance(self.workflow, str) else self.workflow


class RowChecker:
    """Checks rows in one process. Made by `RowsJob.started`.

    Attributes:
        workflow: the workflow.
        is_sync: whether no step of the stage is async.
    """

    def __init__(self, job: RowsJob, workflow: Workflow) -> None:
        self.workflow = workflow
        self.is_sync = is_sync(workflow, job.stage)
        self._job = job
        self._makers = [form.maker(workflow) for form in job.forms]

    def check(self, row: InputRow) -> RowResult:
        """Check one row, without an event loop, for a stage without async steps."""
        return self.result_of(check_one(self.workflow, row, stage=self._job.stage, as_call=self._call_of))

    async def check_async(self, row: InputRow) -> RowResult:
        """Check one row, for any stage."""
        return self.result_of(await check_one_async(self.workflow, row, stage=self._job.stage, as_call=self._call_of))

    def check_all(self, rows: Iterable[InputRow], emit: Callable[[RowResult], None], *, jobs: int) -> None:
        """Check rows, and pass their results on, in order. See `penstock.workflows.batch.check_all`."""

        def emit_result(checked: RowChecked) -> None:
            emit(self.result_of(checked))

        check_all(self.workflow, rows, emit_result, stage=self._job.stage, jobs=jobs, as_call=self._call_of)

    def failed(self, row: InputRow, error: Exception) -> RowResult:
        """Return the result of a row that could not be checked."""
        return self.result_of(Checked(row, None, error, (), 0.0))

    def result_of(self, checked: RowChecked) -> RowResult:
        """Return a result as plain data, with the output of each form of the job."""
        return result_of(checked, tuple([make(checked) for make in self._makers]))

    def _call_of(self, row: InputRow) -> Call:
        call = call_of(row, self._job.stage, self._job.context, self._job.columns)
        if STAGES[self._job.stage].streams:
            call = replace(call, details={**call.details, "piece": self._job.piece})
        return replace(call, options={**call.options, "texts": True}) if self._job.texts else call
