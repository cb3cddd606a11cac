from penstock.processors.prompt.history_rules import HistoryRule as HistoryRule
from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat as ProviderHistoryCompat
from penstock.processors.prompt.recipient import Recipient as Recipient
from penstock.processors.prompt.spotlight import Spotlight as Spotlight
from penstock.processors.prompt.tool_call_filter import ToolCallFilter as ToolCallFilter
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard as TrailingAssistantGuard
