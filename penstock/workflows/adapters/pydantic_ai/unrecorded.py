"""Checks of the engines that record runs with guards, and tools that an engine does not record by itself.

The work of the guards is recorded with the call of a tool that they check, see `GuardOperations`. Some engines run each
call in a recorded unit of its own within that. Its record would hold the result before a guard has read it.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic_ai.toolsets import CombinedToolset, WrapperToolset

from penstock.workflows.adapters.pydantic_ai.messages import DurableRunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_ai import AbstractToolset, RunContext
    from pydantic_ai.durable_exec import BaseDurabilityCapability
    from pydantic_ai.toolsets.abstract import ToolsetTool

_UNRECORDED: Mapping[str | None, Mapping[str, object]] = {"prefect": {"persist_result": False, "cache_policy": None}}
"""The settings with which an engine does not record a call, by the key of its settings in the metadata of a tool."""


def engine_of(ctx: RunContext[object]) -> BaseDurabilityCapability[object] | None:
    """Return the engine of durable execution of a run's agent."""
    if ctx.agent is None or "pydantic_ai.durable_exec._base" not in sys.modules:  # it takes 0.1 s to load
        return None
    from pydantic_ai.durable_exec import BaseDurabilityCapability

    return BaseDurabilityCapability[object].from_agent(ctx.agent)


def recording_engine(ctx: RunContext[object]) -> BaseDurabilityCapability[object] | None:
    """Return the engine that records a run; None if none does."""
    engine = engine_of(ctx)
    return engine if engine is not None and engine.in_durable_context else None


def can_record(engine: BaseDurabilityCapability[object]) -> bool:
    """Return whether an engine can record runs with guards, and nothing that they have not read."""
    return not _records_tools(engine) or engine.engine_spec.tool_config_key in _UNRECORDED


def check_recording(engine: BaseDurabilityCapability[object], id: str | None) -> None:
    """Check that an engine can record the work of guards.

    Raises:
        DurableRunError: it records what guards have not read, or the capability has no id.
    """
    if not can_record(engine):
        raise DurableRunError(
            f"pydantic_ai.as_capability cannot guard runs that {engine.engine_name} records: it stores results of "
            "tools, and may store the input, before guards can read them, and may work in another process; use "
            f"DBOSDurability or PrefectDurability, or run the agent outside of the {engine.durable_container_noun}"
        )
    if id is None:
        raise DurableRunError(
            "durable execution records the work of guards under a name that must not change; give the capability "
            "one: as_capability(…, id='guard')"
        )


def check_tools(
    ctx: RunContext[object], toolset: AbstractToolset[object], tools: Mapping[str, ToolsetTool[object]]
) -> None:
    """Check that the engine of a run records nothing of its tools that guards have not read.

    Raises:
        DurableRunError: it would.
    """
    for name, tool in tools.items():
        validator = tool.args_validator_func
        if validator is not None and validator.__module__.startswith("pydantic_ai.durable_exec."):
            raise DurableRunError(
                f"durable execution records what the args_validator of the tool {name!r} says before guards can read "
                "it; check the arguments in the tool itself"
            )
    engine = engine_of(ctx)
    if engine is None or not _records_tools(engine):
        return
    for wrapper in _wrappers(toolset):
        if not type(wrapper).call_tool.__module__.startswith("pydantic_ai."):
            raise DurableRunError(
                f"{type(wrapper).__name__}.call_tool may call another tool than it is given, and "
                f"{engine.engine_name} would store its result before guards can read it; let a capability do its "
                "work, in wrap_tool_execute"
            )


def unrecorded(ctx: RunContext[object], tool: ToolsetTool[object]) -> ToolsetTool[object]:
    """Return a tool whose calls the engine of a run does not record by itself."""
    engine = engine_of(ctx)
    if engine is None or not _records_tools(engine):
        return tool
    key, metadata = engine.engine_spec.tool_config_key or "", tool.tool_def.metadata or {}
    settings: dict[str, object] = {**(metadata.get(key) or {}), **_UNRECORDED[key]}  # False: in no unit of its own
    return replace(tool, tool_def=replace(tool.tool_def, metadata={**metadata, key: settings}))


def _records_tools(engine: BaseDurabilityCapability[object]) -> bool:
    return "function" in engine.engine_spec.wrapped_toolset_kinds


def _wrappers(toolset: AbstractToolset[object]) -> Iterator[AbstractToolset[object]]:
    """Yield the toolsets that pass calls on to others."""
    within: Iterable[AbstractToolset[object]]
    if isinstance(toolset, CombinedToolset):
        within = toolset.toolsets
    elif isinstance(toolset, WrapperToolset):
        within = [toolset.wrapped]
    else:
        return
    yield toolset
    for one in within:
        yield from _wrappers(one)
