"""Penstock: a workflow engine for LLM agents in which processors are steps.

The public names that most programs use. Each loads when it is first used; the rest is imported from its family
(`penstock.engine`, `penstock.processors.guards`, `penstock.stores` …).
"""

__version__: str

from penstock.engine.chunks import Chunk as Chunk
from penstock.engine.codec import dump_messages as dump_messages
from penstock.engine.codec import parse_messages as parse_messages
from penstock.engine.context import APIErrorContext as APIErrorContext
from penstock.engine.context import Context as Context
from penstock.engine.context import InputContext as InputContext
from penstock.engine.context import InputStepContext as InputStepContext
from penstock.engine.context import LLMRequestContext as LLMRequestContext
from penstock.engine.context import LLMResponseContext as LLMResponseContext
from penstock.engine.context import OutputResultContext as OutputResultContext
from penstock.engine.context import OutputStepContext as OutputStepContext
from penstock.engine.context import OutputStreamContext as OutputStreamContext
from penstock.engine.context import ToolCallContext as ToolCallContext
from penstock.engine.context import ToolResultContext as ToolResultContext
from penstock.engine.edits import Edit as Edit
from penstock.engine.errors import BlockedError as BlockedError
from penstock.engine.errors import ModelError as ModelError
from penstock.engine.errors import OptionError as OptionError
from penstock.engine.errors import PenstockError as PenstockError
from penstock.engine.errors import StorageError as StorageError
from penstock.engine.errors import WorkflowError as WorkflowError
from penstock.engine.facts import Key as Key
from penstock.engine.message_list import MessageList as MessageList
from penstock.engine.messages import Message as Message
from penstock.engine.messages import TextPart as TextPart
from penstock.engine.messages import ToolPart as ToolPart
from penstock.engine.outcome import Outcome as Outcome
from penstock.engine.processor import Processor as Processor
from penstock.engine.processor import processor as processor
from penstock.engine.results import Answer as Answer
from penstock.engine.results import Retry as Retry
from penstock.engine.run import Run as Run
from penstock.engine.text_guard import TextGuard as TextGuard
from penstock.engine.text_window import Hit as Hit
from penstock.engine.text_window import TextWindow as TextWindow
from penstock.engine.tripwire import Tripwire as Tripwire
from penstock.engine.workflow import Workflow as Workflow
from penstock.engine.workflow import member as member
from penstock.processors.budgets.token_cost_control import TokenCostControl as TokenCostControl
from penstock.processors.budgets.token_limiter import TokenLimiterProcessor as TokenLimiterProcessor
from penstock.processors.caching.response_cache import ResponseCache as ResponseCache
from penstock.processors.discovery.agents_md import AgentsMDInjector as AgentsMDInjector
from penstock.processors.discovery.skill_search import SkillSearchProcessor as SkillSearchProcessor
from penstock.processors.discovery.skills import SkillsProcessor as SkillsProcessor
from penstock.processors.discovery.tool_search import ToolSearchProcessor as ToolSearchProcessor
from penstock.processors.guards.classifier import ClassifierProcessor as ClassifierProcessor
from penstock.processors.guards.language_detector import LanguageDetector as LanguageDetector
from penstock.processors.guards.moderation import ModerationProcessor as ModerationProcessor
from penstock.processors.guards.pii_detector import PIIDetector as PIIDetector
from penstock.processors.guards.prompt_injection import PromptInjectionDetector as PromptInjectionDetector
from penstock.processors.guards.restore import Restore as Restore
from penstock.processors.guards.system_prompt_scrubber import SystemPromptScrubber as SystemPromptScrubber
from penstock.processors.judges.judge import Judge as Judge
from penstock.processors.memory.message_history import MessageHistory as MessageHistory
from penstock.processors.memory.semantic_recall import SemanticRecall as SemanticRecall
from penstock.processors.memory.working_memory import WorkingMemory as WorkingMemory
from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat as ProviderHistoryCompat
from penstock.processors.prompt.tool_call_filter import ToolCallFilter as ToolCallFilter
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard as TrailingAssistantGuard
from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler as PrefillErrorHandler
from penstock.processors.recovery.stream_error_retry import StreamErrorRetryProcessor as StreamErrorRetryProcessor
from penstock.processors.routing.model_selection import ModelSelectionProcessor as ModelSelectionProcessor
from penstock.processors.routing.prepare_step import PrepareStepProcessor as PrepareStepProcessor
from penstock.processors.storage.postgres.storage import PostgresStorage as PostgresStorage
from penstock.processors.storage.sqlite.storage import InMemoryStorage as InMemoryStorage
from penstock.processors.storage.sqlite.storage import SQLiteStorage as SQLiteStorage
from penstock.processors.streaming.batch_parts import BatchPartsProcessor as BatchPartsProcessor
from penstock.processors.structure.structured_output import StructuredOutputProcessor as StructuredOutputProcessor
from penstock.processors.text.regex_filter import RegexFilterProcessor as RegexFilterProcessor
from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
from penstock.processors.tools.tool import Tool as Tool
from penstock.processors.tools.tool import tool as tool
from penstock.workflows.agent.agent import Agent as Agent
from penstock.workflows.memory import Memory as Memory
from penstock.workflows.models.naming import model as model
from penstock.workflows.models.openai.model import OpenAICompatibleModel as OpenAICompatibleModel
