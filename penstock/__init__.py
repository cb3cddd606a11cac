"""Penstock: a workflow engine for LLM agents in which processors are steps.

This module holds the public names and loads each when it is first used; it knows where they live and nothing else.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "penstock.engine.chunks": ("Chunk",),
    "penstock.engine.codec": ("dump_messages", "parse_messages"),
    "penstock.engine.context": (
        "APIErrorContext",
        "Context",
        "InputContext",
        "InputStepContext",
        "LLMRequestContext",
        "LLMResponseContext",
        "OutputResultContext",
        "OutputStepContext",
        "OutputStreamContext",
        "ToolCallContext",
        "ToolResultContext",
        "View",
    ),
    "penstock.engine.edits": ("Edit",),
    "penstock.engine.errors": (
        "BlockedError",
        "DefinitionError",
        "EditError",
        "MergeConflictError",
        "MessageError",
        "MissingExtraError",
        "OptionError",
        "PenstockError",
        "ProcessorError",
        "StepFailedError",
        "UsageError",
        "WorkflowError",
    ),
    "penstock.engine.facts": ("Key",),
    "penstock.engine.merge": ("Conflict", "pick"),
    "penstock.engine.message_list": ("MessageList",),
    "penstock.engine.messages": (
        "AudioPart",
        "DataPart",
        "FilePart",
        "ImagePart",
        "Message",
        "Part",
        "ReasoningPart",
        "SourcePart",
        "StepStartPart",
        "TextPart",
        "ToolPart",
        "UnknownPart",
    ),
    "penstock.engine.nodes": ("DagEdge", "Policy"),
    "penstock.engine.outcome": ("ModelOutcome", "Outcome"),
    "penstock.engine.processor": ("Processor", "processor"),
    "penstock.engine.records": ("Record",),
    "penstock.engine.results": ("Answer", "Overrides", "Retry", "TextEdits"),
    "penstock.engine.run": ("Run",),
    "penstock.engine.run_sync": ("SyncRun",),
    "penstock.engine.texts": ("TextPlace",),
    "penstock.engine.tripwire": ("Tripwire",),
    "penstock.engine.workflow": ("Workflow", "member"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"penstock has no {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
