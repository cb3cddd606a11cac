"""The names of spans, attributes, events and metrics: OpenTelemetry's conventions where there are any, else our own.

Those that begin with ``gen_ai.`` are of the GenAI conventions 1.41.0, which are in development; ``error.type`` is of
the stable ones. All others begin with ``penstock.``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCOPE = "penstock"
"""The name of the tracer and the meter."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that turns on texts in spans."""

# Operations

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

# Attributes of the conventions

AGENT_NAME = "gen_ai.agent.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
OUTPUT_TYPE = "gen_ai.output.type"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - a name, no secret
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR_TYPE = "error.type"

USAGE: Mapping[str, str] = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    "cached_tokens": CACHED_TOKENS,
    "reasoning_tokens": REASONING_TOKENS,
}
"""The attributes of the counts of a usage."""

SETTINGS: Mapping[str, tuple[str, type[int | float]]] = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "seed": ("gen_ai.request.seed", int),
}
"""The attributes of the settings of a model call, with their types."""

STOP_SEQUENCES = "gen_ai.request.stop_sequences"

PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "moonshotai": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers whose models have another prefix. Other prefixes are used as they are."""

OTHER = "_OTHER"
"""The provider of a model whose name has no prefix, and the type of an error that has no name."""

# Our own attributes

RUN_ID = "penstock.run.id"
WORKFLOW = "penstock.workflow"
STATUS = "penstock.status"
STAGE = "penstock.stage"
STEP = "penstock.step"
PROCESSOR = "penstock.processor"
SHADOW = "penstock.shadow"
FLAGGED = "penstock.flagged"
EDITS = "penstock.edits"
HELD = "penstock.held_characters"
NUMBER = "penstock.number"
FINISH_REASON = "penstock.finish_reason"
ARMS = "penstock.branch.arms"
DETAIL = "penstock.detail."
"""Before the name of a detail that a processor noted."""

# Spans without a convention: these words, and then the path or the number

MODEL_STEP = "model_step"
STAGE_SPAN = "stage"
STEP_SPAN = "step"
BRANCH_SPAN = "branch"
ATTEMPT_SPAN = "attempt"

# Events

TRIPWIRE_EVENT = "penstock.tripwire"
EDIT_EVENT = "penstock.edit"
SKIPPED_EVENT = "penstock.skipped"

TRIPWIRE_REASON = "penstock.tripwire.reason"
TRIPWIRE_PROCESSOR = "penstock.tripwire.processor"
TRIPWIRE_STAGE = "penstock.tripwire.stage"
TRIPWIRE_RETRY = "penstock.tripwire.retry"
EDIT_KIND = "penstock.edit.kind"
EDIT_MESSAGE = "penstock.edit.message"
EDIT_PART = "penstock.edit.part"
EDIT_FIELD = "penstock.edit.field"
EDIT_START = "penstock.edit.start"
EDIT_END = "penstock.edit.end"

# Metrics

TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - a name, no secret
OPERATION_DURATION = "gen_ai.client.operation.duration"
TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
REQUEST_DURATION = "penstock.request.duration"
STEP_DURATION = "penstock.step.duration"
TOOL_DURATION = "penstock.tool.duration"
VERDICTS = "penstock.verdicts"
FAILURES = "penstock.failures"
EDIT_COUNT = "penstock.edits"
FLAG_COUNT = "penstock.flagged"
HELD_CHARACTERS = "penstock.stream.held_characters"

SECONDS_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The conventions' bounds for durations of model calls."""

STEP_BUCKETS = (0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
HELD_BUCKETS = (0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)


def model_attributes(name: str) -> dict[str, str]:
    """Split a model's name, such as ``openai/gpt-5``, into provider and model, as attributes."""
    prefix, separator, rest = name.partition("/")
    if not separator:
        prefix, separator, rest = name.partition(":")
    if not (separator and prefix and rest):
        return {PROVIDER: OTHER, REQUEST_MODEL: name}
    return {PROVIDER: PROVIDERS.get(prefix, prefix), REQUEST_MODEL: rest}


_ON = frozenset({"true", "span_only", "span_and_event"})


def is_wanted(content: bool | None) -> bool:  # noqa: FBT001 - an option, passed on
    """Return whether spans have texts: the option if it is given, else the environment variable decides."""
    return os.environ.get(CONTENT_VARIABLE, "").strip().lower() in _ON if content is None else content
