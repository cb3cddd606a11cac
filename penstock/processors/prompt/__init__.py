"""Processors that shape the prompt: what a model is shown of the conversation. It knows no other family."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.prompt.tool_call_filter import ToolCallFilter
else:
    __getattr__, __dir__ = lazily(__name__, tool_call_filter=["ToolCallFilter"])

__all__ = ["ToolCallFilter"]
