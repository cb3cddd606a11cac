"""The table of the rules that are there from the start, in the order in which they are applied."""

from __future__ import annotations

from penstock.processors.prompt import _error_rules as errors, _prompt_rules as prompts
from penstock.processors.prompt.history_rules import HistoryRule

BUILT_IN: tuple[HistoryRule, ...] = (
    HistoryRule("strip-foreign-provider-executed-tools", prompts.without_foreign_hosted_tools),
    HistoryRule("anthropic-tool-id-format", fix=errors.with_plain_ids, error_patterns=errors.ID_REFUSED),
    HistoryRule("cerebras-strip-reasoning-content", prompts.without_thoughts_for_cerebras),
    HistoryRule("anthropic-strip-empty-signed-reasoning-content", prompts.without_empty_signed_thoughts),
    HistoryRule("anthropic-strip-foreign-reasoning-content", prompts.without_foreign_thoughts),
    HistoryRule("anthropic-strip-foreign-signed-reasoning", prompts.without_foreign_signatures),
    HistoryRule("azure-system-reminder-transform", prompts.with_reminders_renamed),
    HistoryRule("openai-orphan-item-id", fix=errors.without_orphan_items, error_patterns=errors.ITEM_REFUSED),
)
"""The built-in rules. Their names are the reference's."""
