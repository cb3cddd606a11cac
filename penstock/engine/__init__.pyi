from penstock.engine.execution.outcome import ModelOutcome as ModelOutcome, Outcome as Outcome
from penstock.engine.graph.nodes import DagEdge as DagEdge, Policy as Policy
from penstock.engine.merging.rules import Conflict as Conflict, pick as pick
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
    View as View,
)
from penstock.engine.processor.payload import (
    Answer as Answer,
    Overrides as Overrides,
    Retry as Retry,
    TextEdits as TextEdits,
)
from penstock.engine.processor.processor import Processor as Processor
from penstock.engine.processor.state import RunEnd as RunEnd
from penstock.engine.run.run import Run as Run
from penstock.engine.run.sync import SyncOutputStream as SyncOutputStream, SyncRun as SyncRun
from penstock.engine.streams.stream import OutputStream as OutputStream
from penstock.engine.text_guards.text_guard import TextGuard as TextGuard
from penstock.engine.text_guards.window import Hit as Hit, TextWindow as TextWindow
from penstock.engine.tracing.enclosing import CallSite as CallSite
from penstock.engine.tracing.events import RunEvent as RunEvent
from penstock.engine.tracing.span import (
    Span as Span,
    SpanArm as SpanArm,
    SpanChunk as SpanChunk,
    SpanEdit as SpanEdit,
    SpanText as SpanText,
)
from penstock.engine.tracing.trace import Trace as Trace
from penstock.engine.values.answer_builder import collected as collected
from penstock.engine.values.chunks import Chunk as Chunk
from penstock.engine.values.edits import Edit as Edit
from penstock.engine.values.errors import (
    DefinitionError as DefinitionError,
    DetectorError as DetectorError,
    EditError as EditError,
    MergeConflictError as MergeConflictError,
    MessageError as MessageError,
    MissingExtraError as MissingExtraError,
    ModelError as ModelError,
    NestingError as NestingError,
    NoMessageError as NoMessageError,
    NotStoredError as NotStoredError,
    OptionError as OptionError,
    OwnershipError as OwnershipError,
    PenstockError as PenstockError,
    ProcessorError as ProcessorError,
    StepFailedError as StepFailedError,
    StorageConflictError as StorageConflictError,
    StorageError as StorageError,
    TraceError as TraceError,
    UsageError as UsageError,
    WorkflowError as WorkflowError,
)
from penstock.engine.values.facts import Key as Key
from penstock.engine.values.message_list import MessageList as MessageList
from penstock.engine.values.messages import (
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
from penstock.engine.values.model import (
    JudgeError as JudgeError,
    ModelAnswer as ModelAnswer,
    ModelRequest as ModelRequest,
    ResponseFormat as ResponseFormat,
    ToolSpec as ToolSpec,
    Usage as Usage,
)
from penstock.engine.values.protocols import (
    Cache as Cache,
    Clock as Clock,
    Embedder as Embedder,
    Ids as Ids,
    LRUCache as LRUCache,
    Model as Model,
    Observer as Observer,
    RunStore as RunStore,
    ScoreDetector as ScoreDetector,
    SpanDetector as SpanDetector,
    Storage as Storage,
    TokenCounter as TokenCounter,
    VectorStore as VectorStore,
)
from penstock.engine.values.questions import PendingQuestion as PendingQuestion
from penstock.engine.values.stored import (
    MemoryRecord as MemoryRecord,
    Page as Page,
    StoredMessage as StoredMessage,
    StoredRun as StoredRun,
    Thread as Thread,
    VectorEntry as VectorEntry,
    VectorHit as VectorHit,
)
from penstock.engine.values.texts import TextPlace as TextPlace
from penstock.engine.values.tripwire import BlockedError as BlockedError, Record as Record, Tripwire as Tripwire
from penstock.engine.values.usage import UsageEntry as UsageEntry
from penstock.engine.workflow import Workflow as Workflow, member as member
from penstock.formats import (
    dump_messages as dump_messages,
    json_schema as json_schema,
    parse_messages as parse_messages,
)
from penstock.pictures.diff.difference import WorkflowChange as WorkflowChange, WorkflowDiff as WorkflowDiff
from penstock.pictures.diff.fields import FieldChange as FieldChange
from penstock.pictures.diff.trace_diff import SpanDiff as SpanDiff, TraceDiff as TraceDiff
