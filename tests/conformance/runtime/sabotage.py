"""Worlds whose agents do the wrong thing, and must be found out in every recorded scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.processor.stages import STAGES
from tests.conformance.runtime.driver import Hooks, World


class PassAll(World):
    """Makes agents without processors."""

    def arrays(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return nothing."""
        del given
        return {}


class BlockAll(World):
    """Makes agents that block whatever comes."""

    def arrays(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a processor that aborts at every stage."""
        del given
        hooks = {name: lambda ctx: ctx.abort("no") for name, stage in STAGES.items() if not stage.streams}
        return {"processors": [Hooks("no", **hooks)]}


class DropAll(World):
    """Makes agents that leave no message."""

    def arrays(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a processor that empties the conversation before each model call."""
        del given

        def empty(ctx: Any) -> Any:
            return ctx.message_list.clear()

        return {"processors": [Hooks("none", process_input=empty, process_input_step=empty)]}


class ErrAll(World):
    """Makes agents that break at once."""

    def arrays(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a processor whose first hook raises another error."""
        del given

        def broken(_ctx: Any) -> None:
            raise RuntimeError("sabotage")

        return {"processors": [Hooks("no", process_input=broken)]}
