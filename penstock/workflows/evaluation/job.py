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
    from collections.abc import Mapping

    from penstock.engine.workflow import Workflow

STUDIO = "penstock.workflows.studio.worker"
"""Where steps are made anew with other options; it is loaded by its name, since the studio shows evaluations."""


@dataclass(frozen=True, slots=True)
class EvaluationJob(RowsJob):
    """The work on each row of an evaluation. It can be pickled if the workflow is a name, or can be pickled itself.

    Attributes:
        changes: changed options, by the path of the step, and by name.
        spans: whether the types and places of what guards find are wanted.
    """

    changes: Mapping[str, Mapping[str, object]] = EMPTY
    spans: bool = False

    def started(self) -> RowChecker:
        """Return the checker of rows in this process: it loads the workflow.

        Raises:
            LoadingError: the workflow cannot be loaded.
            ChangeError: an option cannot be changed so.
        """
        workflow = self.loaded()
        # A tool's value has no message by which findings of rows that run at once could be told apart.
        if not self.spans or (self.stage in TOOL_VALUES and not is_sync(workflow, self.stage)):
            return RowChecker(self, workflow)
        heard = HeardSpans()
        forms = tuple(replace(form, heard=heard) if isinstance(form, EvaluationRows) else form for form in self.forms)
        return RowChecker(replace(self, forms=forms), heard.listening(workflow))

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
