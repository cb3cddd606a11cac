"""`Loaded`: the workflow or agent of a worker, with changed options if asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.graph.nodes import Sequence, resolve
from penstock.engine.tracing.trace import Trace
from penstock.engine.workflow import Workflow
from penstock.pictures.page_marks import PageMarks
from penstock.pictures.scene import scene_of, scene_of_lists
from penstock.workflows.loading import load_workflow_or_agent
from penstock.workflows.studio.worker.changes import changed_agent, changed_workflow
from penstock.workflows.studio.worker.constructor_arguments import record_agents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.pictures import Format
    from penstock.pictures.labels import Detail
    from penstock.pictures.scene import Scene
    from penstock.workflows.agent import Agent
    from penstock.workflows.studio.protocol import Json


@dataclass(frozen=True, slots=True)
class Loaded:
    """A workflow or an agent."""

    target: Workflow | Agent

    @property
    def workflow(self) -> Workflow | None:
        """The workflow; None for an agent."""
        return self.target if isinstance(self.target, Workflow) else None

    @property
    def agent(self) -> Agent | None:
        """The agent; None for a workflow."""
        return None if isinstance(self.target, Workflow) else self.target

    @property
    def name(self) -> str:
        """Its name."""
        return self.target.name

    @property
    def root(self) -> Sequence:
        """The graph with paths; empty for an agent whose lists depend on the request."""
        if isinstance(self.target, Workflow):
            return resolve(self.target.root)
        plans = self.target.plans
        return Sequence() if plans is None else plans.resolved

    def scene(self, stage: str | None) -> Scene | None:
        """Return the scene of all stages or of one; None for an agent whose lists depend on the request."""
        if isinstance(self.target, Workflow):
            return scene_of(self.name, self.target.root, stage)
        plans = self.target.plans
        return None if plans is None else scene_of_lists(self.name, plans, stage, parts=self.target.parts)

    def changed(self, changes: Mapping[str, object]) -> Loaded:
        """Return it with changed options.

        Raises:
            ChangeError: they cannot be changed so.
        """
        if isinstance(self.target, Workflow):
            return Loaded(changed_workflow(self.target, changes))
        return Loaded(changed_agent(self.target, self.root, changes))

    def draw(self, form: Format, stage: str | None = None, detail: Detail | None = None) -> str | None:
        """Return it as a diagram; None for an agent whose lists depend on the request."""
        unknown = self.agent is not None and self.agent.plans is None
        return None if unknown else self.target.draw(form, stage, detail=detail)

    def with_marks(self, made: Json) -> Json:
        """Return the result of a run of it with the marks of the run in each picture.

        ``marks`` has those of the picture of all stages under an empty name, and those of each stage that ran under
        its name.
        """
        if made["trace"] is None:
            return made
        trace = Trace.from_json(made["trace"])
        stages = dict.fromkeys(span.stage for span in trace.spans if span.kind == "stage")
        scenes = {stage or "": self.scene(stage) for stage in (None, *stages)}
        return {**made, "marks": {name: PageMarks(scene).of(trace) for name, scene in scenes.items() if scene}}

    def differences(self, newer: Loaded) -> Json:
        """Return the differences to a newer one, as text and as a picture; of agents, those of their JSON as text."""
        if self.workflow is not None and newer.workflow is not None:
            found = self.workflow.diff(newer.workflow)
            return {"diff": {"same": found.same, "text": str(found), "svg": found.draw("svg")}}
        texts = [(each.draw("json") or "").splitlines() for each in (self, newer)]
        lines = difflib.unified_diff(texts[0], texts[1], self.name, newer.name, lineterm="")
        return {"diff": {"same": texts[0] == texts[1], "text": "\n".join(lines), "svg": None}}


def load(reference: str) -> Loaded:
    """Load a workflow or an agent.

    Raises:
        LoadingError: it cannot be loaded.
    """
    record_agents()
    return Loaded(load_workflow_or_agent(reference))
