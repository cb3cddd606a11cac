"""Engines that do the wrong thing, and must be found out in every recorded scenario."""

from __future__ import annotations

from typing import Any

from penstock import Run, Workflow
from penstock.engine.stages import STAGES
from tests.conformance.runtime.driver import Hooks, World


class PassAll(World):
    """Starts workflows that hold nothing."""

    def start(self, workflow: Workflow, **options: Any) -> Run:
        """Return a run of an empty workflow."""
        return super().start(Workflow(workflow.name), **options)


class BlockAll(World):
    """Starts workflows that block whatever comes."""

    def start(self, workflow: Workflow, **options: Any) -> Run:
        """Return a run of a workflow that aborts at every stage."""
        hooks = {name: lambda ctx: ctx.abort("no") for name, stage in STAGES.items() if not stage.streams}
        return super().start(Workflow(workflow.name).then(Hooks("no", **hooks)), **options)


class DropAll(World):
    """Starts workflows that leave no message."""

    def start(self, workflow: Workflow, **options: Any) -> Run:
        """Return a run of a workflow that empties the conversation before each model call."""

        def empty(ctx: Any) -> Any:
            return ctx.message_list.clear()

        hooks = Hooks("none", process_input=empty, process_input_step=empty)
        return super().start(Workflow(workflow.name).then(hooks), **options)


class ErrAll(World):
    """Starts workflows that break at once."""

    def start(self, workflow: Workflow, **options: Any) -> Run:
        """Return a run of a workflow whose first hook raises another error."""

        def broken(_ctx: Any) -> None:
            raise RuntimeError("sabotage")

        return super().start(Workflow(workflow.name).then(Hooks("no", process_input=broken)), **options)
