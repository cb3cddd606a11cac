__version__: str

from penstock.engine.execution.outcome import Outcome as Outcome
from penstock.engine.processor.context import (
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
from penstock.engine.processor.payload import Answer as Answer, Retry as Retry
from penstock.engine.processor.processor import Processor as Processor, processor as processor
from penstock.engine.run.run import Run as Run
from penstock.engine.text_guards.text_guard import TextGuard as TextGuard
from penstock.engine.text_guards.window import Hit as Hit, TextWindow as TextWindow
from penstock.engine.tracing.trace import Trace as Trace
from penstock.engine.values.chunks import Chunk as Chunk
from penstock.engine.values.edits import Edit as Edit
from penstock.engine.values.errors import (
    ModelError as ModelError,
    OptionError as OptionError,
    PenstockError as PenstockError,
    StorageError as StorageError,
    WorkflowError as WorkflowError,
)
from penstock.engine.values.facts import Key as Key
from penstock.engine.values.message_list import MessageList as MessageList
from penstock.engine.values.messages import Message as Message, TextPart as TextPart, ToolPart as ToolPart
from penstock.engine.values.protocols import ScoreDetector as ScoreDetector, SpanDetector as SpanDetector
from penstock.engine.values.tripwire import BlockedError as BlockedError, Tripwire as Tripwire
from penstock.engine.workflow import Workflow as Workflow, member as member
from penstock.formats import dump_messages as dump_messages, parse_messages as parse_messages
from penstock.models.judges.judge import Judge as Judge
from penstock.models.openai.model import OpenAICompatibleModel as OpenAICompatibleModel, model as model
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
from penstock.processors.memory.message_history import MessageHistory as MessageHistory
from penstock.processors.memory.semantic_recall import SemanticRecall as SemanticRecall
from penstock.processors.memory.working_memory import WorkingMemory as WorkingMemory
from penstock.processors.prompt.provider_history_compat import ProviderHistoryCompat as ProviderHistoryCompat
from penstock.processors.prompt.spotlight import Spotlight as Spotlight
from penstock.processors.prompt.tool_call_filter import ToolCallFilter as ToolCallFilter
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard as TrailingAssistantGuard
from penstock.processors.recovery.prefill_error_handler import PrefillErrorHandler as PrefillErrorHandler
from penstock.processors.recovery.stream_error_retry import StreamErrorRetryProcessor as StreamErrorRetryProcessor
from penstock.processors.routing.model_selection import ModelSelectionProcessor as ModelSelectionProcessor
from penstock.processors.routing.prepare_step import PrepareStepProcessor as PrepareStepProcessor
from penstock.processors.streaming.batch_parts import BatchPartsProcessor as BatchPartsProcessor
from penstock.processors.structure.structured_output import StructuredOutputProcessor as StructuredOutputProcessor
from penstock.processors.text.regex_filter import RegexFilterProcessor as RegexFilterProcessor
from penstock.processors.text.unicode_normalizer import UnicodeNormalizer as UnicodeNormalizer
from penstock.stores.postgres.storage import PostgresStorage as PostgresStorage
from penstock.stores.sqlite.storage import InMemoryStorage as InMemoryStorage, SQLiteStorage as SQLiteStorage
from penstock.tools.tool import Tool as Tool, tool as tool
from penstock.workflows.agent.agent import Agent as Agent
from penstock.workflows.memory import Memory as Memory
