"""What a worker has loaded: a workflow or an agent, with changed options if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from penstock.engine.graph.nodes import Sequence, resolve
from penstock.engine.workflow import Workflow
from penstock.pictures.scene import scene_of, scene_of_lists
from penstock.workflows.loading import load_workflow_or_agent
from penstock.workflows.studio.worker.changes import changed_agent, changed_workflow
from penstock.workflows.studio.worker.constructor_arguments import record_agents

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        return None if plans is None else scene_of_lists(self.name, plans, stage)

    def changed(self, changes: Mapping[str, Any]) -> Loaded:
        """Return it with changed options.

        Raises:
            ChangeError: they cannot be changed so.
        """
        if isinstance(self.target, Workflow):
            return Loaded(changed_workflow(self.target, changes))
        return Loaded(changed_agent(self.target, self.root, changes))

    def draw(self, form: Any, stage: str | None = None, **options: Any) -> str:
        """Return it as a diagram."""
        return self.target.draw(form, stage, **options)


def load(reference: str) -> Loaded:
    """Load a workflow or an agent.

    Raises:
        LoadingError: it cannot be loaded.
    """
    record_agents()
    return Loaded(load_workflow_or_agent(reference))


def changes_of(request: Json) -> dict[str, Any]:
    """Return the changed options that a request asks for."""
    return cast("dict[str, Any]", request.get("changes") or {})
