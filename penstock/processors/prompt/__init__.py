"""Processors that shape the prompt: what a model is shown of the conversation. It knows no other family."""

from penstock.processors.prompt.tool_call_filter import ToolCallFilter

__all__ = ["ToolCallFilter"]
