"""Values for models: requests, answers and token usage; and `JudgeError`.

A model streams its answer as chunks of the types in `penstock.engine.values.chunks`. In order, they and their payloads
are (``id`` is the id of the block, or of the call):

- ``response-metadata``: ``id``, ``model``, ``created`` (seconds since 1970), and whatever else the provider reports
- ``text-start``, ``text-delta``, ``text-end``; a refusal has ``{"refusal": True}`` in its start
- ``reasoning-start``, ``reasoning-delta``, ``reasoning-end``
- ``tool-input-start`` (``call_id``, ``name``), ``tool-input-delta``, ``tool-input-end``; then ``tool-call``:
  ``call_id``, ``name``, and ``arguments``, a JSON value; if the model wrote no valid JSON, its text and ``invalid:
  True``
- ``source`` (``id``, ``url``, ``title``), ``file`` (``media_type``, ``data`` or ``url``; for speech: its
``transcript``) - ``raw``: data that must be sent back to the provider but is not shown: under ``provider_sealed`` if
only the
  provider can read it (encrypted reasoning), else under ``provider_part``, which guards of a stream never let through
- ``finish``: ``reason`` (one of `FINISH_REASONS`), ``raw_reason``, ``usage`` (a `Usage` as a mapping), ``metadata``,
  and in ``provider_terms`` what the provider reports besides the answer (timings, fingerprints …)

``provider_metadata`` holds what the provider must get back later (a signature …), under the name of the format. That of
``text-end``, ``reasoning-end``, ``tool-call`` and ``raw`` becomes the metadata of the resulting part, and that of
``finish`` the metadata of the message. Guards read all keys of a payload except those that begin with ``provider``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.values.errors import MessageError, PenstockError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze
from penstock.engine.values.messages import Message

if TYPE_CHECKING:
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values

FinishReason = Literal["stop", "length", "tool-calls", "content-filter", "error", "other"]
FINISH_REASONS: tuple[str, ...] = get_args(FinishReason)

ToolChoice = Literal["auto", "none", "required"]
_CHOICES: tuple[str, ...] = get_args(ToolChoice)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that a model may call.

    Attributes:
        name: the name by which the model calls it.
        parameters: the JSON Schema of its arguments; the type is ``object``.
        description: the purpose of the tool, for the model.
        strict: whether the provider must make the arguments fit the schema; None leaves it to the provider's default.
    """

    name: str
    parameters: Values = field(default_factory=lambda: FrozenDict(type="object", properties=EMPTY))
    description: str = ""
    strict: bool | None = None

    def __post_init__(self) -> None:
        """Freeze the schema; refuse an empty name."""
        if not self.name:
            raise MessageError("tools", "a tool has no name; give it a non-empty one")
        object.__setattr__(self, "parameters", freeze(self.parameters))


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The format that an answer must have: JSON, optionally of a given schema.

    Attributes:
        schema: the JSON Schema; None: any JSON object.
        name: the name of the schema.
        description: the purpose of the schema, for the model.
        strict: whether the provider must make the answer fit the schema.
    """

    schema: Values | None = None
    name: str = "answer"
    description: str = ""
    strict: bool = True

    def __post_init__(self) -> None:
        """Freeze the schema."""
        if self.schema is not None:
            object.__setattr__(self, "schema", freeze(self.schema))


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model.

    Attributes:
        messages: the prompt, system messages included, in order; a str is one user message.
        tools: the tools that the model may call.
        tool_choice: ``auto``, ``none``, ``required``, or a tuple of names: the model must call one of these tools.
        settings: temperature, max_tokens, top_p, stop, seed, presence_penalty, frequency_penalty, parallel_tool_calls,
            reasoning_effort, timeout (seconds) …, under their usual names.
        response_format: the format of the answer; None for text.
        provider_options: fields for the provider, sent as they are; they take precedence over the other fields.

    Raises:
        MessageError: ``tool_choice`` is another word.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice | tuple[str, ...] = "auto"
    settings: Values = EMPTY
    response_format: ResponseFormat | None = None
    provider_options: Values = EMPTY

    def __post_init__(self) -> None:
        """Freeze the fields."""
        given: Value = self.messages
        if isinstance(given, str):
            object.__setattr__(self, "messages", (Message.user(given),))
        for name in ("messages", "tools"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        choice: Value = self.tool_choice
        if isinstance(choice, str) and choice not in _CHOICES:
            raise MessageError("tool_choice", f"expected auto, none, required, or a tuple of names, not {choice!r}")
        if not isinstance(choice, str):
            object.__setattr__(self, "tool_choice", tuple(choice))
        for name in ("settings", "provider_options"):
            object.__setattr__(self, name, freeze(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that an answer took. A field is None if the provider does not report it.

    Attributes:
        input_tokens: tokens of the prompt, cached ones included.
        output_tokens: tokens of the answer, reasoning included.
        cached_tokens: tokens of the prompt that were read from the provider's cache.
        reasoning_tokens: tokens of the answer that were reasoning.
        requests: the number of requests.
        details: other counts of the provider, under its own names.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    requests: int = 1
    details: Values = EMPTY

    @property
    def total_tokens(self) -> int | None:
        """The tokens of prompt and answer together; None unless both are known."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the sum. An unknown count of one is taken from the other. Only the numbers of ``details`` are kept."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            self.requests + other.requests,
            _sums(self.details, other.details),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


def _sums(one: Values, other: Values) -> Values:
    sums: dict[str, Value] = {}
    for name, count in (*one.items(), *other.items()):
        if isinstance(count, (int, float)) and not isinstance(count, bool):
            sums[name] = sums.get(name, 0) + count
    return FrozenDict(sums)


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A complete answer.

    Attributes:
        message: the answer as a message.
        finish_reason: why the model stopped.
        usage: the tokens it took; None if the provider did not report them.
        metadata: the provider's report about the answer: its id, the model that gave it …
        refused: whether it is a refusal.
        chunks: the chunks that it was assembled from.
    """

    message: Message
    finish_reason: FinishReason = "other"
    usage: Usage | None = None
    metadata: Values = EMPTY
    refused: bool = False
    chunks: tuple[Chunk, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.message.text


class JudgeError(PenstockError):
    """A judge gave no verdict. Do not take this for "nothing found".

    The model's error is the ``__cause__``, unless it quotes the judged content. The message quotes neither the content
    nor the model's answer.

    Attributes:
        model: the name of the model.
        reason: why there is no verdict: ``refused`` (by the model or its provider), ``empty`` (no answer),
            ``unreadable`` (the answer cannot be parsed as a verdict), ``timeout``, ``model`` (the model could not be
            asked), ``too-long`` (the content is too long, so the model was not asked).
        problem: what happened, in words.
        attempts: how often the model was asked.
        usage: the tokens of all attempts; None if no answer reported any.
    """

    def __init__(self, model: str, reason: str, problem: str, *, attempts: int = 1, usage: Usage | None = None) -> None:
        self.model = model
        self.reason = reason
        self.problem = problem
        self.attempts = attempts
        self.usage = usage
        asked = {0: "", 1: " after 1 attempt"}.get(attempts, f" after {attempts} attempts")
        super().__init__(f"judge {model!r} gave no verdict{asked}: {problem} ({reason})")
