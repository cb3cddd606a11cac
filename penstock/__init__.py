"""Penstock: a workflow engine for LLM agents in which processors are steps.

This module holds the public names and loads each when it is first used; it knows where they live and nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; a test holds it against `_HOMES`
    from penstock.engine.chunks import Chunk as Chunk
    from penstock.engine.codec import dump_messages as dump_messages, parse_messages as parse_messages
    from penstock.engine.context import (
        APIErrorContext as APIErrorContext,
        Context as Context,
        InputContext as InputContext,
        InputStepContext as InputStepContext,
        LLMRequestContext as LLMRequestContext,
        LLMResponseContext as LLMResponseContext,
        OutputResultContext as OutputResultContext,
        OutputStepContext as OutputStepContext,
        OutputStreamContext as OutputStreamContext,
        ToolCallContext as ToolCallContext,
        ToolResultContext as ToolResultContext,
    )
    from penstock.engine.edits import Edit as Edit
    from penstock.engine.endings import Ended as Ended
    from penstock.engine.errors import (
        BlockedError as BlockedError,
        DefinitionError as DefinitionError,
        EditError as EditError,
        JudgeError as JudgeError,
        MergeConflictError as MergeConflictError,
        MessageError as MessageError,
        MissingExtraError as MissingExtraError,
        ModelError as ModelError,
        NotStoredError as NotStoredError,
        OptionError as OptionError,
        OwnershipError as OwnershipError,
        PenstockError as PenstockError,
        ProcessorError as ProcessorError,
        StepFailedError as StepFailedError,
        StorageConflictError as StorageConflictError,
        StorageError as StorageError,
        UsageError as UsageError,
        WorkflowError as WorkflowError,
    )
    from penstock.engine.facts import Key as Key
    from penstock.engine.merge import Conflict as Conflict, pick as pick
    from penstock.engine.message_list import MessageList as MessageList
    from penstock.engine.messages import (
        AudioPart as AudioPart,
        DataPart as DataPart,
        FilePart as FilePart,
        ImagePart as ImagePart,
        Message as Message,
        Part as Part,
        ReasoningPart as ReasoningPart,
        SourcePart as SourcePart,
        StepStartPart as StepStartPart,
        TextPart as TextPart,
        ToolPart as ToolPart,
        UnknownPart as UnknownPart,
    )
    from penstock.engine.model import (
        ModelAnswer as ModelAnswer,
        ModelRequest as ModelRequest,
        ResponseFormat as ResponseFormat,
        ToolSpec as ToolSpec,
        Usage as Usage,
    )
    from penstock.engine.nodes import DagEdge as DagEdge, Policy as Policy
    from penstock.engine.outcome import ModelOutcome as ModelOutcome, Outcome as Outcome
    from penstock.engine.processor import Processor as Processor, processor as processor
    from penstock.engine.records import Record as Record
    from penstock.engine.remembered import (
        MemoryRecord as MemoryRecord,
        Page as Page,
        StoredMessage as StoredMessage,
        Thread as Thread,
        VectorEntry as VectorEntry,
        VectorHit as VectorHit,
    )
    from penstock.engine.results import Answer as Answer, Overrides as Overrides, Retry as Retry, TextEdits as TextEdits
    from penstock.engine.run import Run as Run
    from penstock.engine.run_sync import SyncRun as SyncRun
    from penstock.engine.spending import Spend as Spend
    from penstock.engine.streams.stream import OutputStream as OutputStream
    from penstock.engine.streams.sync import SyncOutputStream as SyncOutputStream
    from penstock.engine.text_guard import TextGuard as TextGuard
    from penstock.engine.text_window import Hit as Hit, TextWindow as TextWindow
    from penstock.engine.texts import TextPlace as TextPlace
    from penstock.engine.tripwire import Tripwire as Tripwire
    from penstock.engine.view import View as View
    from penstock.engine.workflow import Workflow as Workflow, member as member
    from penstock.processors.budgets.cost_report import CostReport as CostReport
    from penstock.processors.budgets.memory_ledger import InMemoryLedger as InMemoryLedger
    from penstock.processors.budgets.price_tables import Price as Price
    from penstock.processors.budgets.token_cost_control import TokenCostControl as TokenCostControl
    from penstock.processors.budgets.token_limiter import TokenLimiterProcessor as TokenLimiterProcessor
    from penstock.processors.caching.memory_cache import MemoryCache as MemoryCache
    from penstock.processors.caching.requests import CacheRequest as CacheRequest
    from penstock.processors.caching.response_cache import ResponseCache as ResponseCache
    from penstock.processors.conversations.providers import Recipient as Recipient
    from penstock.processors.discovery.agents_md import AgentsMDInjector as AgentsMDInjector
    from penstock.processors.discovery.file_reader import FileReader as FileReader
    from penstock.processors.discovery.skill import Skill as Skill
    from penstock.processors.discovery.skill_search import SkillSearchProcessor as SkillSearchProcessor
    from penstock.processors.discovery.skill_sources import read_skills as read_skills
    from penstock.processors.discovery.skills import SkillsProcessor as SkillsProcessor
    from penstock.processors.discovery.tool_access import ToolAccess as ToolAccess
    from penstock.processors.discovery.tool_search import ToolSearchProcessor as ToolSearchProcessor
    from penstock.processors.embedders.cached import CachedEmbedder as CachedEmbedder
    from penstock.processors.embedders.hashing import HashingEmbedder as HashingEmbedder
    from penstock.processors.embedders.sentences import SentenceEmbedder as SentenceEmbedder
    from penstock.processors.guards.classifications import Classification as Classification
    from penstock.processors.guards.classifier import ClassifierProcessor as ClassifierProcessor
    from penstock.processors.guards.language_detector import LanguageDetector as LanguageDetector
    from penstock.processors.guards.leak_verdicts import LeakVerdict as LeakVerdict
    from penstock.processors.guards.moderation import (
        ModerationProcessor as ModerationProcessor,
        ModerationVerdict as ModerationVerdict,
    )
    from penstock.processors.guards.pii_detector import PIIDetector as PIIDetector
    from penstock.processors.guards.pii_types import PIIType as PIIType
    from penstock.processors.guards.prompt_injection import (
        InjectionVerdict as InjectionVerdict,
        PromptInjectionDetector as PromptInjectionDetector,
    )
    from penstock.processors.guards.questions import Question as Question
    from penstock.processors.guards.restore import Restore as Restore
    from penstock.processors.guards.system_prompt_scrubber import SystemPromptScrubber as SystemPromptScrubber
    from penstock.processors.guards.vault import VAULT as VAULT, Vault as Vault
    from penstock.processors.judges.judge import Judge as Judge
    from penstock.processors.judges.judgement import Judgement as Judgement
    from penstock.processors.memory.drop_messages import DropMessages as DropMessages
    from penstock.processors.memory.drop_parts import DropParts as DropParts
    from penstock.processors.memory.legacy import (
        LegacyMemory as LegacyMemory,
        LegacyMemoryProcessor as LegacyMemoryProcessor,
    )
    from penstock.processors.memory.memory_input_filter import MemoryInputFilter as MemoryInputFilter
    from penstock.processors.memory.message_history import MessageHistory as MessageHistory
    from penstock.processors.memory.ranking import RecallRanking as RecallRanking
    from penstock.processors.memory.semantic_recall import SemanticRecall as SemanticRecall
    from penstock.processors.memory.token_limiter import MemoryTokenLimiter as MemoryTokenLimiter
    from penstock.processors.memory.tool_call_filter import MemoryToolCallFilter as MemoryToolCallFilter
    from penstock.processors.memory.working_memory import WorkingMemory as WorkingMemory
    from penstock.processors.memory.working_memory_update import working_memory_tool as working_memory_tool
    from penstock.processors.patterns.rules import RegexRule as RegexRule
    from penstock.processors.prompt.history_rules import HistoryRule as HistoryRule
    from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat as ProviderHistoryCompat
    from penstock.processors.prompt.tool_call_filter import ToolCallFilter as ToolCallFilter
    from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard as TrailingAssistantGuard
    from penstock.processors.recovery.backoff import Backoff as Backoff
    from penstock.processors.recovery.circuit_breaker import CircuitBreaker as CircuitBreaker
    from penstock.processors.recovery.matchers import (
        FailedCall as FailedCall,
        RetryMatcher as RetryMatcher,
        is_bad_request_error as is_bad_request_error,
    )
    from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler as PrefillErrorHandler
    from penstock.processors.recovery.stream_error_retry import StreamErrorRetryProcessor as StreamErrorRetryProcessor
    from penstock.processors.routing.decisions import (
        MODEL_CHOICE as MODEL_CHOICE,
        ModelChoice as ModelChoice,
        ModelDecision as ModelDecision,
    )
    from penstock.processors.routing.model_selection import ModelSelectionProcessor as ModelSelectionProcessor
    from penstock.processors.routing.prepare_step import PrepareStepProcessor as PrepareStepProcessor
    from penstock.processors.storage.postgres.storage import PostgresStorage as PostgresStorage
    from penstock.processors.storage.sqlite.storage import (
        InMemoryStorage as InMemoryStorage,
        SQLiteStorage as SQLiteStorage,
    )
    from penstock.processors.streaming.batch_parts import BatchPartsProcessor as BatchPartsProcessor
    from penstock.processors.structure.facts import OBJECT as OBJECT
    from penstock.processors.structure.structured_output import StructuredOutputProcessor as StructuredOutputProcessor
    from penstock.processors.text.regex_filter import RegexFilterProcessor as RegexFilterProcessor
    from penstock.processors.text.reports import PatternMatch as PatternMatch, Violation as Violation
    from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
    from penstock.processors.tools.context import ToolContext as ToolContext
    from penstock.processors.tools.errors import ToolError as ToolError, ToolFailed as ToolFailed
    from penstock.processors.tools.tool import Tool as Tool, tool as tool
    from penstock.workflows.agent.agent import Agent as Agent
    from penstock.workflows.agent.results import AgentResult as AgentResult, StepResult as StepResult
    from penstock.workflows.agent.stream import AgentStream as AgentStream
    from penstock.workflows.memory import Memory as Memory
    from penstock.workflows.models.naming import model as model
    from penstock.workflows.models.openai.embedder import OpenAICompatibleEmbedder as OpenAICompatibleEmbedder
    from penstock.workflows.models.openai.http import TimeLimits as TimeLimits
    from penstock.workflows.models.openai.model import OpenAICompatibleModel as OpenAICompatibleModel
    from penstock.workflows.models.pydantic_ai.model import PydanticAIModel as PydanticAIModel

__version__ = "0.1.0"

_HOMES = {
    "penstock.engine.chunks": ("Chunk",),
    "penstock.engine.codec": (
        "dump_messages",
        "parse_messages",
    ),
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
    ),
    "penstock.engine.edits": ("Edit",),
    "penstock.engine.endings": ("Ended",),
    "penstock.engine.errors": (
        "BlockedError",
        "DefinitionError",
        "EditError",
        "JudgeError",
        "MergeConflictError",
        "MessageError",
        "MissingExtraError",
        "ModelError",
        "OptionError",
        "PenstockError",
        "ProcessorError",
        "NotStoredError",
        "OwnershipError",
        "StepFailedError",
        "StorageConflictError",
        "StorageError",
        "UsageError",
        "WorkflowError",
    ),
    "penstock.engine.facts": ("Key",),
    "penstock.engine.merge": (
        "Conflict",
        "pick",
    ),
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
    "penstock.engine.model": ("ModelAnswer", "ModelRequest", "ResponseFormat", "ToolSpec", "Usage"),
    "penstock.engine.nodes": (
        "DagEdge",
        "Policy",
    ),
    "penstock.engine.outcome": (
        "ModelOutcome",
        "Outcome",
    ),
    "penstock.engine.processor": (
        "Processor",
        "processor",
    ),
    "penstock.engine.records": ("Record",),
    "penstock.engine.remembered": (
        "MemoryRecord",
        "Page",
        "StoredMessage",
        "Thread",
        "VectorEntry",
        "VectorHit",
    ),
    "penstock.engine.results": (
        "Answer",
        "Overrides",
        "Retry",
        "TextEdits",
    ),
    "penstock.engine.run": ("Run",),
    "penstock.engine.run_sync": ("SyncRun",),
    "penstock.engine.texts": ("TextPlace",),
    "penstock.engine.spending": ("Spend",),
    "penstock.engine.streams.stream": ("OutputStream",),
    "penstock.engine.streams.sync": ("SyncOutputStream",),
    "penstock.engine.text_guard": ("TextGuard",),
    "penstock.engine.text_window": (
        "Hit",
        "TextWindow",
    ),
    "penstock.engine.tripwire": ("Tripwire",),
    "penstock.engine.view": ("View",),
    "penstock.engine.workflow": (
        "Workflow",
        "member",
    ),
    "penstock.processors.budgets.cost_report": ("CostReport",),
    "penstock.processors.budgets.memory_ledger": ("InMemoryLedger",),
    "penstock.processors.budgets.price_tables": ("Price",),
    "penstock.processors.budgets.token_cost_control": ("TokenCostControl",),
    "penstock.processors.budgets.token_limiter": ("TokenLimiterProcessor",),
    "penstock.processors.discovery.agents_md": ("AgentsMDInjector",),
    "penstock.processors.discovery.file_reader": ("FileReader",),
    "penstock.processors.discovery.skill": ("Skill",),
    "penstock.processors.discovery.skill_search": ("SkillSearchProcessor",),
    "penstock.processors.discovery.skill_sources": ("read_skills",),
    "penstock.processors.discovery.skills": ("SkillsProcessor",),
    "penstock.processors.discovery.tool_access": ("ToolAccess",),
    "penstock.processors.discovery.tool_search": ("ToolSearchProcessor",),
    "penstock.processors.caching.memory_cache": ("MemoryCache",),
    "penstock.processors.caching.requests": ("CacheRequest",),
    "penstock.processors.caching.response_cache": ("ResponseCache",),
    "penstock.processors.conversations.providers": ("Recipient",),
    "penstock.processors.embedders.cached": ("CachedEmbedder",),
    "penstock.processors.embedders.hashing": ("HashingEmbedder",),
    "penstock.processors.embedders.sentences": ("SentenceEmbedder",),
    "penstock.processors.guards.classifications": ("Classification",),
    "penstock.processors.guards.classifier": ("ClassifierProcessor",),
    "penstock.processors.guards.language_detector": ("LanguageDetector",),
    "penstock.processors.guards.leak_verdicts": ("LeakVerdict",),
    "penstock.processors.guards.moderation": ("ModerationProcessor", "ModerationVerdict"),
    "penstock.processors.guards.pii_detector": ("PIIDetector",),
    "penstock.processors.guards.pii_types": ("PIIType",),
    "penstock.processors.guards.prompt_injection": ("InjectionVerdict", "PromptInjectionDetector"),
    "penstock.processors.guards.questions": ("Question",),
    "penstock.processors.guards.restore": ("Restore",),
    "penstock.processors.guards.system_prompt_scrubber": ("SystemPromptScrubber",),
    "penstock.processors.guards.vault": ("VAULT", "Vault"),
    "penstock.processors.judges.judge": ("Judge",),
    "penstock.processors.judges.judgement": ("Judgement",),
    "penstock.processors.memory.drop_messages": ("DropMessages",),
    "penstock.processors.memory.drop_parts": ("DropParts",),
    "penstock.processors.memory.legacy": ("LegacyMemory", "LegacyMemoryProcessor"),
    "penstock.processors.memory.memory_input_filter": ("MemoryInputFilter",),
    "penstock.processors.memory.message_history": ("MessageHistory",),
    "penstock.processors.memory.ranking": ("RecallRanking",),
    "penstock.processors.memory.semantic_recall": ("SemanticRecall",),
    "penstock.processors.memory.token_limiter": ("MemoryTokenLimiter",),
    "penstock.processors.memory.tool_call_filter": ("MemoryToolCallFilter",),
    "penstock.processors.memory.working_memory": ("WorkingMemory",),
    "penstock.processors.memory.working_memory_update": ("working_memory_tool",),
    "penstock.processors.prompt.history_rules": ("HistoryRule",),
    "penstock.processors.prompt.provider_history_compat": ("ProviderHistoryCompat",),
    "penstock.processors.prompt.tool_call_filter": ("ToolCallFilter",),
    "penstock.processors.prompt.trailing_assistant_guard": ("TrailingAssistantGuard",),
    "penstock.processors.recovery.backoff": ("Backoff",),
    "penstock.processors.recovery.circuit_breaker": ("CircuitBreaker",),
    "penstock.processors.recovery.matchers": ("FailedCall", "RetryMatcher", "is_bad_request_error"),
    "penstock.processors.recovery.prefill_error_handler": ("PrefillErrorHandler",),
    "penstock.processors.recovery.stream_error_retry": ("StreamErrorRetryProcessor",),
    "penstock.processors.routing.decisions": ("MODEL_CHOICE", "ModelChoice", "ModelDecision"),
    "penstock.processors.routing.model_selection": ("ModelSelectionProcessor",),
    "penstock.processors.routing.prepare_step": ("PrepareStepProcessor",),
    "penstock.processors.storage.postgres.storage": ("PostgresStorage",),
    "penstock.processors.storage.sqlite.storage": ("InMemoryStorage", "SQLiteStorage"),
    "penstock.processors.streaming.batch_parts": ("BatchPartsProcessor",),
    "penstock.processors.structure.facts": ("OBJECT",),
    "penstock.processors.structure.structured_output": ("StructuredOutputProcessor",),
    "penstock.processors.text.regex_filter": ("RegexFilterProcessor",),
    "penstock.processors.text.reports": ("PatternMatch", "Violation"),
    "penstock.processors.patterns.rules": ("RegexRule",),
    "penstock.processors.text.unicode_normalizer": ("UnicodeNormalizer",),
    "penstock.processors.tools.context": ("ToolContext",),
    "penstock.processors.tools.errors": ("ToolError", "ToolFailed"),
    "penstock.processors.tools.tool": ("Tool", "tool"),
    "penstock.workflows.agent.agent": ("Agent",),
    "penstock.workflows.agent.results": ("AgentResult", "StepResult"),
    "penstock.workflows.agent.stream": ("AgentStream",),
    "penstock.workflows.memory": ("Memory",),
    "penstock.workflows.models.naming": ("model",),
    "penstock.workflows.models.openai.embedder": ("OpenAICompatibleEmbedder",),
    "penstock.workflows.models.openai.http": ("TimeLimits",),
    "penstock.workflows.models.openai.model": ("OpenAICompatibleModel",),
    "penstock.workflows.models.pydantic_ai.model": ("PydanticAIModel",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # else a name that does not exist would be `Any` to type checkers
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
    return ["__version__", *sorted(_HOME_OF)]
