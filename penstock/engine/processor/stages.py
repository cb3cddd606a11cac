"""The stage table: one row for each stage, with every rule that differs from stage to stage as a column.

A row says which context a hook gets, which messages it sees, what it may return and how that is applied, which of an
agent's processor lists serves the stage, what a verdict takes back, and so on. No other module of the engine compares
a stage by name. A new stage needs:

- a row here, and its name in `StageName`
- its context in `context`, which is made public in `penstock.engine` and in `penstock`
- its method in `Run` and in `SyncRun`
- a hook in `TextGuard`, if its row says ``guarded``; and its name in `REMOVES_MESSAGES` of the guards, if they may
  remove messages there
- a call in the agent

`process_tool_result` is also called for a tool that failed: ``is_error`` is True then, and the result is the text of
the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from penstock.engine.processor.context import (
    APIErrorContext,
    InputContext,
    InputStepContext,
    LLMRequestContext,
    LLMResponseContext,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    ToolCallContext,
    ToolResultContext,
)
from penstock.engine.processor.payload import Answer, Overrides, Payload, Retry, TextEdits
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import MessageError, PenstockError, UsageError
from penstock.engine.values.frozen import FrozenDict, freeze, is_items, json_value, thaw
from penstock.engine.values.message_list import Entry, MessageList
from penstock.engine.values.messages import Message
from penstock.engine.values.texts import NO_KNOWN_EDITS, KnownEdits, TextPlace, editable_texts, rewrite

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.state import StageCall
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Source
    from penstock.engine.values.messages import Role
    from penstock.engine.values.texts import Path


class WrongReturnError(PenstockError):
    """A hook returned a value that its stage does not accept. The step boundary turns it into a `StepFailedError`."""


# What a stage shows, and the text it is about


def _input(messages: MessageList) -> tuple[Message, ...]:
    return messages.input


def _all(messages: MessageList) -> tuple[Message, ...]:
    return messages.conversation


def _prompt(messages: MessageList) -> tuple[Message, ...]:
    return (*messages.system, *messages.conversation)


def _response(messages: MessageList) -> tuple[Message, ...]:
    return messages.response


def _shown_text(payload: Payload, call: StageCall) -> str:
    return "\n".join([message.text for message in call.stage.shows(payload.message_list)])


def _run_text(payload: Payload, _call: StageCall) -> str:
    return "".join([message.text for message in payload.message_list.response])  # one text, as in the run's result


def _answer_text(payload: Payload, call: StageCall) -> str:
    """The text of the last answer: of the messages that came with the call, or else of the last response."""
    responses = payload.message_list.response
    fresh = [message for message in responses if message.id in call.fresh]
    return "\n".join(message.text for message in (fresh or responses[-1:]))


def _value_text(payload: Payload, call: StageCall) -> str:
    value = payload.fields.get(call.stage.value)
    return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False, default=str)


# What a hook may return


def _messages(stage: Stage, payload: Payload, result: object) -> Payload:
    if isinstance(result, MessageList):
        return _with_list(payload, result)
    if is_items(result):
        return _with_list(payload, _filled(stage, payload.message_list, result))
    raise WrongReturnError(f"it returned {article(result)}; {stage.name} takes {stage.returns}")


def _input_step(stage: Stage, payload: Payload, result: object) -> Payload:
    if not isinstance(result, Overrides):
        return _messages(stage, payload, result)
    if result.messages is not None:
        payload = _messages(stage, payload, result.messages)
    return _with_fields(payload, {**_replaced(result), **_laid_over(payload, result)})


def _replaced(result: Overrides) -> dict[str, Value]:
    taken = {name: getattr(result, name) for name in ("model", "tool_choice", "response_format", "tools")}
    if result.active_tools is not None:
        taken["active_tools"] = tuple(result.active_tools)
    return {name: freeze(value) for name, value in taken.items() if value is not None}


def _laid_over(payload: Payload, result: Overrides) -> dict[str, Value]:
    laid: dict[str, Value] = {}
    for name in ("model_settings", "provider_options"):
        value = getattr(result, name)
        if value is not None:
            laid[name] = freeze({**(payload.fields.get(name) or {}), **value})
    return laid


def _llm_request(stage: Stage, payload: Payload, result: object) -> Payload:
    if not isinstance(result, Answer):
        return _messages(stage, payload, result)
    _refuse_question(stage, result)
    if "answer" in payload.fields:  # the first answer wins
        return payload
    return _with_fields(payload, {"answer": result.value})


def _api_error(stage: Stage, payload: Payload, result: object) -> Payload:
    if not isinstance(result, Retry):
        return _messages(stage, payload, result)
    if result.messages is not None:
        payload = _messages(stage, payload, result.messages)
    retried = _with_fields(payload, {"retry": result})
    retried.finished = True  # the first retry wins: nothing further runs
    return retried


def _streamed_text(payload: Payload, _call: StageCall) -> str:
    """The text that has left the stream; it cannot be read while the stream runs."""
    if "text" not in payload.fields:
        raise UsageError(
            "the answer's text is not available while it streams; judge its chunks, or use process_output_step"
        )
    text: str = payload.fields["text"]
    return text


def _refuse(stage: Stage, _payload: Payload, result: object) -> Payload:
    raise WrongReturnError(f"it returned {article(result)}; {stage.name} takes {stage.returns}")


def _tool_call(stage: Stage, payload: Payload, result: object) -> Payload:
    if isinstance(result, MessageList):
        return _messages(stage, payload, result)
    if isinstance(result, TextEdits):
        return _text_edited(payload, result, stage.value)
    if isinstance(result, Answer):
        field = "question" if result.asks else "answer"  # kept apart: no question stands before an answer
        answer = _json(result.value, field)
        return payload if field in payload.fields else _with_fields(payload, {field: answer})
    if isinstance(result, Mapping):
        return _with_fields(payload, {stage.value: _json(cast("Values", result), stage.value)})
    raise WrongReturnError(f"it returned {article(result)}; {stage.name} takes {stage.returns}")


def _tool_result(stage: Stage, payload: Payload, result: object) -> Payload:
    if isinstance(result, MessageList):
        return _messages(stage, payload, result)
    if isinstance(result, TextEdits):
        return _text_edited(payload, result, stage.value)
    if isinstance(result, Answer):
        _refuse_question(stage, result)
    value: object = result.value if isinstance(result, Answer) else result
    if is_items(value) and any(isinstance(item, Message) for item in value):
        raise WrongReturnError(f"it returned messages; {stage.name} takes {stage.returns}")
    return _with_fields(payload, {stage.value: _json(value, stage.value)})


def _refuse_question(stage: Stage, answer: Answer) -> None:
    if answer.asks:
        raise WrongReturnError(f"it returned an Answer that asks; {stage.name} asks nobody, process_tool_call does")


def _json(value: Value, place: str) -> Value:
    """Return the frozen JSON value of a tool stage's result; later guards must be able to read it."""
    try:
        return json_value(value, place)
    except MessageError as error:
        raise WrongReturnError(f"it returned something that is not a JSON value: {error}") from None


def _text_edited(payload: Payload, result: TextEdits, field: str) -> Payload:
    present = dict(editable_texts(payload.fields.get(field), (field,)))
    texts: dict[Path, str] = {}
    for path, edits in result.changes.items():
        if path not in present:
            raise WrongReturnError(
                f"it edits a place without text; paths begin with {field!r}, as returned by `editable_texts`"
            )
        texts[path] = edit_ops.apply(present[path], edit_ops.normalise(edits, present[path]))
    return _with_fields(payload, {field: rewrite(payload.fields.get(field), texts, (field,))})


def known_edits(result: object) -> KnownEdits:
    """Return the text edits that a hook's result names; changes without named edits have to be compared."""
    if isinstance(result, TextEdits):
        texts = {TextPlace("", 0, path): edit_ops.in_order(edits) for path, edits in result.changes.items()}
        return KnownEdits(texts, complete=True)
    if isinstance(result, (Overrides, Retry)):
        result = result.messages
    return result.known_edits if isinstance(result, MessageList) else NO_KNOWN_EDITS


# Applying


def _with_list(payload: Payload, messages: MessageList) -> Payload:
    if payload.changes is None:  # else a merge follows, which reads the edits: the messages need not be made
        messages = messages.with_entries(messages.entries)
    return Payload(messages, payload.facts, payload.fields, payload.data, None, payload.finished, payload.changes)


def _with_fields(payload: Payload, fields: Values) -> Payload:
    laid = FrozenDict({**payload.fields, **fields})
    return Payload(payload.message_list, payload.facts, laid, payload.data, None, payload.finished, payload.changes)


def _filled(stage: Stage, messages: MessageList, returned: Sequence[object]) -> MessageList:
    """Return the list with the shown messages replaced by those returned, in the order returned."""
    if not returned:
        cure = "return None for unchanged, or ctx.message_list.clear(...) to empty it on purpose"
        raise WrongReturnError(f"it returned an empty list; {cure}")
    shown = {message.id for message in stage.shows(messages)}
    known = {entry.message.id: entry for entry in messages.entries}
    groups: list[list[Entry]] = [[]]
    system: list[Message] = []
    seen: set[str] = set()
    keeps_place = False  # of system messages: behind others, in a stage that shows both
    for index, message in enumerate(returned):
        if not isinstance(message, Message):
            raise WrongReturnError(f"it returned {article(message)} at [{index}]; {stage.name} takes {stage.returns}")
        if message.id and message.id in seen:
            raise WrongReturnError(f"it returned another message with the id of the one at [{index}]; give it its own")
        seen.add(message.id)
        keeps_place = keeps_place or (stage.shows_system and message.role != "system")
        if message.id in shown:
            entry = known[message.id]._replace(message=messages.completed(message))
            moved = keeps_place and entry.source == "system"
            groups.append([Entry(entry.message, stage.source) if moved else entry])
        elif message.id in known:
            _check_hidden(message, known[message.id].message, stage)
        elif message.role == "system" and not keeps_place:
            system.append(message)
        else:
            groups[-1].append(Entry(messages.completed(message), stage.source))
    filled = messages.with_entries(_laid_out(messages, shown, groups))
    return filled.add(system) if system else filled


def _laid_out(messages: MessageList, shown: set[str], groups: list[list[Entry]]) -> list[Entry]:
    """Fill the slots of the shown messages with the groups, in order; remaining groups come last."""
    head, *rest = groups
    waiting = [[*head, *rest[0]], *rest[1:]] if rest else [head]
    entries: list[Entry] = []
    for entry in messages.entries:
        if entry.message.id not in shown:
            entries.append(entry)
        elif waiting:
            entries.extend(waiting.pop(0))
    for group in waiting:
        entries.extend(group)
    return entries


def _check_hidden(returned: Message, hidden: Message, stage: Stage) -> None:
    if returned != hidden:
        raise WrongReturnError(
            f"it returned a changed message that {stage.name} does not show; "
            "return ctx.message_list.replace(...) to change it on purpose"
        )


def article(value: object) -> str:
    """Return the name of a value's type with its article, for error messages."""
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"


# The table

_TAKES_MESSAGES = "None (unchanged), messages, or a list derived from ctx.message_list"

ProcessorList = Literal["input", "output", "error"]
"""The processor lists of an agent."""

StageName = Literal[
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_api_error",
    "process_output_stream",
    "process_llm_response",
    "process_output_step",
    "process_tool_call",
    "process_tool_result",
    "process_output_result",
]
"""The names of the stages, for type checkers; a test compares them with the table."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One row of the table.

    Attributes:
        name: the name of the stage, of its hook and of its method of `Run`.
        context: the class of the context that a hook gets.
        processor_list: which processor list of an agent serves the stage.
        phase: which way its text goes: ``input`` to the model, ``output`` from the model. Guards choose by it.
        guarded: whether guards over text read the stage by default. `TextGuard` then has its hook.
        shows: returns the messages that a hook sees.
        shows_system: whether system messages are among them. Those returned behind others then stay there.
        text: returns the text that the stage is about.
        value: the field with the JSON value that the stage is about; empty for stages about messages.
        accept: returns the payload after a hook's result; raises `WrongReturnError`.
        returns: the results that a hook may return, in words, for error messages.
        read_only: whether hooks may only read, put facts and abort.
        source: the source of the messages that a caller or a hook adds.
        fields: the names of what steps may change besides messages.
        keeps: whether changed messages enter the conversation; if not, they apply to this call only.
        streams: whether the stage runs chunk by chunk.
        overlaps: whether a check may wait for the model call and run beside it.
        always: whether every run passes the stage before its end, so that later stages can rely on its facts.
        opens: ``run``: its messages are the input of the run. ``step``: it begins a new attempt of the model.
        asks: whether the model is called with the conversation that the stage leaves.
        judges: the text that it judges after the stream: the answer of a ``step``, or the ``result`` of the run. Chunks
            can be held until then.
        accepts: whether the answer of the step is accepted once it has passed this stage.
        retries: the budget for retries: for another ``answer`` of the model, or for repeating the failed ``call``.
            None: the stage cannot retry.
        takes_back: the messages that a verdict removes from the conversation: the last ``answer``, or all answers of
            the ``run``.
        retracts: whether a verdict retracts text that was sent to the client.
        outlives_failures: whether the next step runs after one that failed under ``on_error="raise"``, because the
            stage handles another failure, which must not be lost.
    """

    name: str
    context: type[AnyContext]
    processor_list: ProcessorList
    phase: Literal["input", "output"]
    guarded: bool = False
    shows: Callable[[MessageList], tuple[Message, ...]] = _all
    shows_system: bool = False
    text: Callable[[Payload, StageCall], str] = _shown_text
    value: str = ""
    accept: Callable[[Stage, Payload, object], Payload] = _messages
    returns: str = _TAKES_MESSAGES
    read_only: bool = False
    source: Source = "input"
    fields: tuple[str, ...] = ()
    keeps: bool = True
    streams: bool = False
    overlaps: bool = False
    always: bool = False
    opens: Literal["run", "step"] | None = None
    asks: bool = False
    judges: Literal["step", "result"] | None = None
    accepts: bool = False
    retries: Literal["answer", "call"] | None = None
    takes_back: Literal["answer", "run"] | None = None
    retracts: bool = False
    outlives_failures: bool = False

    def shows_source(self, source: str) -> bool:
        """Return whether a hook sees the messages of a source; ``client-system`` is system messages of a client."""
        of_client = source == "client-system"
        role: Role = "system" if of_client or source == "system" else "user"
        sample = Entry(Message(role, id="?"), "system" if role == "system" else cast("Source", source))
        return bool(self.shows(MessageList().with_entries([sample])))


_ROWS = (
    Stage(
        "process_input",
        InputContext,
        "input",
        phase="input",
        guarded=True,
        shows=_input,
        overlaps=True,
        always=True,
        opens="run",
    ),
    Stage(
        "process_input_step",
        InputStepContext,
        "input",
        phase="input",
        accept=_input_step,
        returns=f"{_TAKES_MESSAGES}, or Overrides(...)",
        fields=(
            "model",
            "tools",
            "tool_choice",
            "active_tools",
            "model_settings",
            "provider_options",
            "response_format",
        ),
        overlaps=True,
        always=True,
        opens="step",
        asks=True,
    ),
    Stage(
        "process_llm_request",
        LLMRequestContext,
        "input",
        phase="input",
        shows=_prompt,
        shows_system=True,
        accept=_llm_request,
        returns=f"{_TAKES_MESSAGES}, or Answer(...) in place of the call",
        fields=("answer",),
        keeps=False,
        overlaps=True,
        always=True,
        takes_back="answer",
    ),
    Stage(
        "process_api_error",
        APIErrorContext,
        "error",
        phase="input",
        accept=_api_error,
        returns=f"{_TAKES_MESSAGES}, or Retry(after=...)",
        fields=("retry",),
        asks=True,
        retries="call",
        takes_back="answer",
        outlives_failures=True,
    ),
    Stage(
        "process_output_stream",
        OutputStreamContext,
        "output",
        phase="output",
        guarded=True,
        text=_streamed_text,
        accept=_refuse,
        returns="the chunk, another, several, or None to drop it",
        source="response",
        streams=True,
        retries="answer",
        takes_back="answer",
        retracts=True,
    ),
    Stage(
        "process_llm_response",
        LLMResponseContext,
        "input",
        phase="output",
        text=_answer_text,
        accept=_refuse,
        returns="None: it looks, and puts facts or aborts",
        read_only=True,
        source="response",
        judges="step",
        takes_back="answer",
        retracts=True,
    ),
    Stage(
        "process_output_step",
        OutputStepContext,
        "output",
        phase="output",
        guarded=True,
        text=_answer_text,
        source="response",
        always=True,
        judges="step",
        accepts=True,
        retries="answer",
        takes_back="answer",
        retracts=True,
    ),
    Stage(
        "process_tool_call",
        ToolCallContext,
        "output",
        phase="output",
        guarded=True,
        text=_value_text,
        value="arguments",
        accept=_tool_call,
        returns="None (unchanged), a mapping (the arguments), TextEdits(...), or Answer(...) in place of the tool",
        source="response",
        fields=("arguments", "answer", "question"),
        retries="answer",
        takes_back="answer",
        retracts=True,
    ),
    Stage(
        "process_tool_result",
        ToolResultContext,
        "output",
        phase="input",
        guarded=True,
        text=_value_text,
        value="result",
        accept=_tool_result,
        returns="None (unchanged), a JSON value (the result), TextEdits(...), or Answer(...)",
        source="response",
        fields=("result",),
        takes_back="answer",
        retracts=True,
    ),
    Stage(
        "process_output_result",
        OutputResultContext,
        "output",
        phase="output",
        guarded=True,
        shows=_response,
        text=_run_text,
        source="response",
        judges="result",
        takes_back="run",
        retracts=True,
    ),
)

STAGES: Mapping[str, Stage] = {stage.name: stage for stage in _ROWS}
"""Every stage by name, in the order of a run."""


def full_name(given: str) -> str:
    """Return the name of a stage that may be given without its ``process_``; any other value as it is."""
    return given if given in STAGES or f"process_{given}" not in STAGES else f"process_{given}"


STREAM: Stage = next(stage for stage in _ROWS if stage.streams)
"""The stage that runs chunk by chunk."""
