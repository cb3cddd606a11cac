"""`RoutePolicies`: the workflows that the routes of a gateway name, loaded once and checked to run in a gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import steps_of
from penstock.engine.graph.plan import enforced_steps
from penstock.engine.values.errors import PenstockError, WorkflowError
from penstock.workflows.loading import load_workflow, policy_documents
from penstock.workflows.policies.problems import PolicyError

if TYPE_CHECKING:
    from penstock.engine.workflow import Workflow
    from penstock.workflows.policies import PolicyDocument
    from penstock.workflows.policies.files import FileState
    from penstock.workflows.policies.problems import FilePlace, Problems

_FILE = re.compile(r"(?P<file>.+\.(?:yaml|yml|json|py))(?P<rest>:[^/\\]*)?")

STAGES = frozenset(
    {
        "process_input",
        "process_input_step",
        "process_llm_request",
        "process_llm_response",
        "process_output_result",
        "process_output_step",
        "process_output_stream",
        "process_tool_call",
        "process_tool_result",
    }
)
"""The stages that a gateway runs. It retries by its own rules, so that ``process_api_error`` is not among them."""


class RoutePolicies:
    """The workflows of a gateway, by the names in its file.

    Args:
        folder: where files are found that are named without a folder of their own.
        problems: takes the faults.
        files: takes the files that were read, each with its state.

    Attributes:
        documents: the policy files among them, by the names in the file: each without a profile, and with each of its
            profiles.
    """

    def __init__(self, folder: str, problems: Problems, files: dict[str, FileState | None]) -> None:
        self._folder = folder
        self._problems = problems
        self._files = files
        self._loaded: dict[str, Workflow | None] = {}
        self.documents: dict[str, list[PolicyDocument]] = {}

    def __getitem__(self, name: str) -> Workflow:
        """Return a workflow that was loaded without faults.

        Raises:
            KeyError: it was not.
        """
        found = self._loaded[name]
        if found is None:
            raise KeyError(name)
        return found

    def names(self) -> tuple[str, ...]:
        """Return the names in the file, in its order."""
        return tuple(self._loaded)

    def load(self, name: str, place: FilePlace) -> None:
        """Load a workflow. Its faults are added, those of a policy file at their own places.

        Args:
            name: a policy file, a preset, ``module:name`` or ``path.py:name``.
            place: where it is named.
        """
        if name in self._loaded:
            return
        self._loaded[name] = None
        reference = self._found(name)
        try:
            documents = policy_documents(reference)
            workflow = documents[0].workflow if documents else load_workflow(reference)
            workflow.validate()
        except PenstockError as error:
            self._explain(error, name, place)
            return
        self._files.update({file: state for document in documents for file, state in document.files.items()})
        if self._runs(workflow, name, place):
            self._loaded[name] = workflow
            if documents:
                self.documents[name] = documents

    def _found(self, name: str) -> str:
        match = _FILE.fullmatch(name)
        return name if match is None else f"{Path(self._folder) / match['file']}{match['rest'] or ''}"

    def _explain(self, error: PenstockError, name: str, place: FilePlace) -> None:
        cause = error if isinstance(error, PolicyError) else error.__cause__
        if isinstance(cause, PolicyError):
            self._files.update(cause.files)
            unread = {file for file, state in cause.files.items() if state is None}
            for fault in cause.problems:
                self._problems.add(place if fault.place.file in unread else fault.place, fault.message)
        elif isinstance(error, WorkflowError):
            for problem in error.problems:
                self._problems.add(place, f"policy {name}: {problem}")
        else:
            self._problems.add(place, str(error))

    def _runs(self, workflow: Workflow, name: str, place: FilePlace) -> bool:
        """Return whether the workflow has steps, and each has a stage that a gateway runs; else it is a fault."""
        known = len(self._problems)
        steps = list(steps_of(workflow.root))
        if not steps:
            self._problems.add(place, f"policy {name} has no steps, so that it guards nothing")
        for step in steps:
            stages = step.claims.hooks
            if stages and STAGES.isdisjoint(stages):
                told = ", ".join(stages)
                message = (
                    f"policy {name}: the step {step.processor.id} would never run in a gateway; it has only {told}"
                )
                self._problems.add(place, message)
        for late in _asking_too_late(workflow):
            message = (
                f"policy {name}: the step {late} asks a person about an answer of which a part has left; place it as a "
                "guard without process_output_stream, such as human-review with at: [output], so that answers are held"
            )
            self._problems.add(place, message)
        return len(self._problems) == known


def _asking_too_late(workflow: Workflow) -> list[str]:
    """Return the ids of steps that ask about an answer at its end, although its pieces leave as they come."""
    plans = workflow.plans
    if plans.release != "live":
        return []
    return [step.processor.id for step in enforced_steps(plans.stage("process_output_result")) if step.asks]
