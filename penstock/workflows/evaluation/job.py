"""`EvaluationJob`: the work on each row of an evaluation. Its workflow may have changed options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from penstock.engine.values.frozen import EMPTY
from penstock.lazy import by_name
from penstock.workflows.batch import is_sync
from penstock.workflows.evaluation.heard_spans import HeardSpans
from penstock.workflows.evaluation.row_facts import EvaluationRows
from penstock.workflows.rows.job import RowChecker, RowsJob
from penstock.workflows.rows.reading import TOOL_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import AbstractContextManager

    from penstock.engine.values.protocols import Cache
    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.reading import InputRow
    from penstock.workflows.rows.results import RowResult

STUDIO = "penstock.workflows.studio.worker"
"""Where steps are made anew with other options; it is loaded by its name, since the studio shows evaluations."""


@dataclass(frozen=True, slots=True)
class JudgeCaching:
    """Which cache the judges of a pass over the rows use.

    Attributes:
        cache: the cache of all judges; None: no cache, so that a model is asked about every row.
        every: whether it is also that of judges which were made without one.
    """

    cache: Cache | None
    every: bool = True

    def in_force(self) -> AbstractContextManager[None]:
        """Return the context in which judges use the cache."""
        from penstock.models.judges.access import judges_use  # only if judges are to use another cache

        return judges_use(self.cache, every=self.every)


@dataclass(frozen=True, slots=True)
class EvaluationJob(RowsJob):
    """The work on each row of an evaluation. It can be pickled if the workflow is a name, or can be pickled itself.

    Attributes:
        changes: changed options, by the path of the step, and by name.
        spans: whether the types and places of what guards find are wanted.
        judges: which cache judges use; None: each its own.
    """

    changes: Mapping[str, Mapping[str, object]] = EMPTY
    spans: bool = False
    judges: JudgeCaching | None = None

    def started(self) -> RowChecker:
        """Return the checker of rows in this process: it loads the workflow.

        Raises:
            LoadingError: the workflow cannot be loaded.
            ChangeError: an option cannot be changed so.
        """
        workflow = self.loaded()
        # A tool's value has no message by which findings of rows that run at once could be told apart.
        if not self.spans or (self.stage in TOOL_VALUES and not is_sync(workflow, self.stage)):
            return self._checker(self, workflow)
        heard = HeardSpans()
        forms = tuple(replace(form, heard=heard) if isinstance(form, EvaluationRows) else form for form in self.forms)
        return self._checker(replace(self, forms=forms), heard.listening(workflow))

    def _checker(self, job: EvaluationJob, workflow: Workflow) -> RowChecker:
        return RowChecker(job, workflow) if self.judges is None else _JudgedRows(job, workflow, self.judges)

    def loaded(self) -> Workflow:
        """Return the workflow, with changed options. It is loaded if it is a name.

        Raises:
            LoadingError: the workflow cannot be loaded.
            ChangeError: an option cannot be changed so.
        """
        if not self.changes:
            return RowsJob.loaded(self)
        changes = {path: {"options": dict(options)} for path, options in self.changes.items()}
        with by_name(
            f"{STUDIO}.constructor_arguments", "processors_recorded"
        )():  # they are made anew of their arguments
            return cast("Workflow", by_name(f"{STUDIO}.changes", "changed_workflow")(RowsJob.loaded(self), changes))


class _JudgedRows(RowChecker):
    """Checks rows while judges use another cache than their own."""

    def __init__(self, job: RowsJob, workflow: Workflow, judges: JudgeCaching) -> None:
        super().__init__(job, workflow)
        self._judges = judges

    async def check_async(self, row: InputRow) -> RowResult:
        with self._judges.in_force():
            return await super().check_async(row)

    def check_all(self, rows: Iterable[InputRow], emit: Callable[[RowResult], None], *, jobs: int) -> None:
        with self._judges.in_force():
            super().check_all(rows, emit, jobs=jobs)
