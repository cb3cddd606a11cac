"""Processors that shape the prompt: what a model is shown of the conversation. It knows no other family."""

from penstock.processors.prompt.history_rules import HistoryRule as HistoryRule
from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat as ProviderHistoryCompat
from penstock.processors.prompt.tool_call_filter import ToolCallFilter as ToolCallFilter
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard as TrailingAssistantGuard
