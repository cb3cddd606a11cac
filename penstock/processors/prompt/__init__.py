"""Processors that shape the prompt: what a model is shown of the conversation. It knows no other family."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.prompt.history_rules import HistoryRule
    from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat
    from penstock.processors.prompt.tool_call_filter import ToolCallFilter
    from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard
else:
    __getattr__, __dir__ = lazily(
        __name__,
        history_rules=["HistoryRule"],
        provider_history_compat=["ProviderHistoryCompat"],
        tool_call_filter=["ToolCallFilter"],
        trailing_assistant_guard=["TrailingAssistantGuard"],
    )

__all__ = ["HistoryRule", "ProviderHistoryCompat", "ToolCallFilter", "TrailingAssistantGuard"]
