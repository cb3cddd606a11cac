"""The stage table: one row for each lifecycle moment; it knows values, no step and no executor.

A row says which context a hook is given, which messages it shows, what it may return and how that is applied, which of
an agent's arrays serves the stage, and whether it may ask for a retry. The executor never asks which stage it runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock.engine.processor.context import CONTEXTS
from penstock.engine.processor.payload import Answer, Overrides, Payload, Retry, TextEdits
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import MessageError, PenstockError, UsageError
from penstock.engine.values.frozen import FrozenDict, freeze, is_items, json_value, thaw
from penstock.engine.values.message_list import Entry, MessageList
from penstock.engine.values.messages import Message
from penstock.engine.values.texts import NO_KNOWN_EDITS, KnownEdits, TextPlace, leaves, rewrite

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.state import StageCall
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Source
    from penstock.engine.values.texts import Path


class WrongReturnError(PenstockError):
    """A hook returned what its stage does not take. The step boundary makes a `StepFailedError` of it."""


Accept = Callable[["Stage", Payload, object], Payload]
Array = Literal["input", "output", "error"]
"""The arrays of an agent."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One row of the table.

    Attributes:
        name: the stage's name, which is the name of the hook.
        context: the class of the context that a hook is given.
        shows: picks the messages that a hook sees.
        text: gives the text the stage is about.
        accept: makes the payload that follows from what a hook returned; raises `WrongReturnError`.
        returns: in words, what a hook may return.
        array: which array of an agent serves it.
        source: whose messages new ones are.
        order: its place in a run.
        retries: whether a tripwire may ask for another attempt.
        fields: what steps may change besides messages.
        keeps: whether changed messages enter the history.
        streams: whether it runs chunk by chunk, by the stream driver.
        overlaps: whether a check of it may wait for the model call and run beside it.
    """

    name: str
    context: type[AnyContext]
    shows: Callable[[MessageList], tuple[Message, ...]]
    text: Callable[[Payload, StageCall], str]
    accept: Accept
    returns: str
    array: Array
    source: Source
    order: int
    retries: bool = False
    fields: tuple[str, ...] = ()
    keeps: bool = True
    streams: bool = False
    overlaps: bool = False


# What a stage shows, and the text it is about


def _input(messages: MessageList) -> tuple[Message, ...]:
    return messages.input


def _all(messages: MessageList) -> tuple[Message, ...]:
    return messages.all


def _prompt(messages: MessageList) -> tuple[Message, ...]:
    return (*messages.system, *messages.all)


def _response(messages: MessageList) -> tuple[Message, ...]:
    return messages.response


def _shown_text(payload: Payload, call: StageCall) -> str:
    return "\n".join([message.text for message in call.stage.shows(payload.message_list)])


def _run_text(payload: Payload, _call: StageCall) -> str:
    return "".join([message.text for message in payload.message_list.response])  # one text, as in the run's result


def _answer_text(payload: Payload, call: StageCall) -> str:
    """The text of the answer at hand: of the messages that came with the call, else of the last response."""
    responses = payload.message_list.response
    fresh = [message for message in responses if message.id in call.fresh]
    return "\n".join(message.text for message in (fresh or responses[-1:]))


def _field_text(name: str) -> Callable[[Payload, StageCall], str]:
    def text(payload: Payload, _call: StageCall) -> str:
        value = payload.fields.get(name)
        return value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False, default=str)

    return text


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
    if "answer" in payload.fields:  # the first answer wins
        return payload
    return _with_fields(payload, {"answer": result.value})


def _api_error(stage: Stage, payload: Payload, result: object) -> Payload:
    if not isinstance(result, Retry):
        return _messages(stage, payload, result)
    if result.messages is not None:
        payload = _messages(stage, payload, result.messages)
    settled = _with_fields(payload, {"retry": result})
    settled.settled = True  # the first retry wins: nothing further runs
    return settled


def _streamed_text(payload: Payload, _call: StageCall) -> str:
    """The text that has left the stream; while it runs there is none to read."""
    if "text" not in payload.fields:
        raise UsageError(
            "the answer's text is not there while it streams; judge its chunks, or use process_output_step"
        )
    text: str = payload.fields["text"]
    return text


def _nothing(stage: Stage, _payload: Payload, result: object) -> Payload:
    raise WrongReturnError(f"it returned {article(result)}; {stage.name} takes {stage.returns}")


def _tool_call(stage: Stage, payload: Payload, result: object) -> Payload:
    if isinstance(result, MessageList):
        return _messages(stage, payload, result)
    if isinstance(result, TextEdits):
        return _text_edited(payload, result, "arguments")
    if isinstance(result, Answer):
        answer = _json(result.value, "answer")
        return payload if "answer" in payload.fields else _with_fields(payload, {"answer": answer})
    if isinstance(result, Mapping):
        return _with_fields(payload, {"arguments": _json(cast("Values", result), "arguments")})
    raise WrongReturnError(f"it returned {article(result)}; {stage.name} takes {stage.returns}")


def _tool_result(stage: Stage, payload: Payload, result: object) -> Payload:
    if isinstance(result, MessageList):
        return _messages(stage, payload, result)
    if isinstance(result, TextEdits):
        return _text_edited(payload, result, "result")
    value: object = result.value if isinstance(result, Answer) else result
    if is_items(value) and any(isinstance(item, Message) for item in value):
        raise WrongReturnError(f"it returned messages; {stage.name} takes {stage.returns}")
    return _with_fields(payload, {"result": _json(value, "result")})


def _json(value: Value, place: str) -> Value:
    """Return a value that a hook of the tools' stages returned, frozen; guards behind it must be able to read it."""
    try:
        return json_value(value, place)
    except MessageError as error:
        raise WrongReturnError(f"it returned no JSON value: {error}") from None


def _text_edited(payload: Payload, result: TextEdits, field: str) -> Payload:
    present = dict(leaves(payload.fields.get(field), (field,)))
    texts: dict[Path, str] = {}
    for path, edits in result.changes.items():
        if path not in present:
            raise WrongReturnError(
                f"it edits a place where no text stands; paths begin with {field!r}, as `leaves` gives them"
            )
        texts[path] = edit_ops.apply(present[path], edit_ops.normalise(edits, present[path]))
    return _with_fields(payload, {field: rewrite(payload.fields.get(field), texts, (field,))})


def known_edits(result: object) -> KnownEdits:
    """Return the text edits that a hook's result names; what it changed without naming edits has to be compared."""
    if isinstance(result, TextEdits):
        texts = {TextPlace("", 0, path): edit_ops.in_order(edits) for path, edits in result.changes.items()}
        return KnownEdits(texts, complete=True)
    if isinstance(result, (Overrides, Retry)):
        result = result.messages
    return result.known_edits if isinstance(result, MessageList) else NO_KNOWN_EDITS


# Applying


def _with_list(payload: Payload, messages: MessageList) -> Payload:
    bare = messages.with_entries(messages.entries)
    return Payload(bare, payload.facts, payload.fields, payload.data, None, payload.settled, payload.changes)


def _with_fields(payload: Payload, fields: Values) -> Payload:
    laid = FrozenDict({**payload.fields, **fields})
    return Payload(payload.message_list, payload.facts, laid, payload.data, None, payload.settled, payload.changes)


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
    for index, message in enumerate(returned):
        if not isinstance(message, Message):
            raise WrongReturnError(f"it returned {article(message)} at [{index}]; {stage.name} takes {stage.returns}")
        if message.id and message.id in seen:
            raise WrongReturnError(f"it returned another message with the id of the one at [{index}]; give it its own")
        seen.add(message.id)
        if message.id in shown:
            groups.append([known[message.id]._replace(message=messages.completed(message))])
        elif message.id in known:
            _check_hidden(message, known[message.id].message, stage)
        elif message.role == "system":
            system.append(message)
        else:
            groups[-1].append(Entry(messages.completed(message), stage.source))
    filled = messages.with_entries(_laid_out(messages, shown, groups))
    return filled.add(system) if system else filled


def _laid_out(messages: MessageList, shown: set[str], groups: list[list[Entry]]) -> list[Entry]:
    """Fill the slots of the shown messages with the groups, in order; what is left over comes last."""
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
    """Return the name of a value's type, with its article."""
    name = type(value).__name__
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"


# The table

_TAKES_MESSAGES = "None (unchanged), messages, or a list derived from ctx.message_list"

_ROWS: dict[str, dict[str, Any]] = {
    "process_input": {"shows": _input, "array": "input", "overlaps": True},
    "process_input_step": {
        "array": "input",
        "overlaps": True,
        "accept": _input_step,
        "returns": f"{_TAKES_MESSAGES}, or Overrides(...)",
        "fields": (
            "model",
            "tools",
            "tool_choice",
            "active_tools",
            "model_settings",
            "provider_options",
            "response_format",
        ),
    },
    "process_llm_request": {
        "shows": _prompt,
        "array": "input",
        "overlaps": True,
        "accept": _llm_request,
        "returns": f"{_TAKES_MESSAGES}, or Answer(...) in place of the call",
        "fields": ("answer",),
        "keeps": False,
    },
    "process_api_error": {
        "array": "error",
        "accept": _api_error,
        "returns": f"{_TAKES_MESSAGES}, or Retry(after=...)",
        "fields": ("retry",),
        "retries": True,
    },
    "process_output_stream": {
        "text": _streamed_text,
        "array": "output",
        "source": "response",
        "accept": _nothing,
        "returns": "the chunk, another, several, or None to drop it",
        "retries": True,
        "streams": True,
    },
    "process_llm_response": {
        "text": _answer_text,
        "array": "input",
        "source": "response",
        "accept": _nothing,
        "returns": "None: it looks, and puts facts or aborts",
    },
    "process_output_step": {"text": _answer_text, "array": "output", "source": "response", "retries": True},
    "process_tool_call": {
        "text": _field_text("arguments"),
        "array": "output",
        "source": "response",
        "accept": _tool_call,
        "returns": "None (unchanged), a mapping (the arguments), TextEdits(...), or Answer(...) in place of the tool",
        "fields": ("arguments", "answer"),
        "retries": True,
    },
    "process_tool_result": {
        "text": _field_text("result"),
        "array": "output",
        "source": "response",
        "accept": _tool_result,
        "returns": "None (unchanged), a JSON value (the result), TextEdits(...), or Answer(...)",
        "fields": ("result",),
    },
    "process_output_result": {"shows": _response, "text": _run_text, "array": "output", "source": "response"},
}

_DEFAULTS: dict[str, Any] = {
    "shows": _all,
    "text": _shown_text,
    "accept": _messages,
    "returns": _TAKES_MESSAGES,
    "source": "input",
}

STAGES: Mapping[str, Stage] = {
    name: Stage(name=name, context=context, order=order, **{**_DEFAULTS, **_ROWS[name]})
    for order, (name, context) in enumerate(CONTEXTS.items())
}
"""Every stage by name, in the order of a run."""
