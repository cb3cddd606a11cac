"""Answers of LiteLLM as chunks, and the guarded version of them as LiteLLM's responses, whole and in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import UsageError
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.engine.values.terms import TOKEN_KEYS
from penstock.formats.parts import read_arguments
from penstock.formats.wire import has_text, is_array, is_object
from penstock.models.openai import reading
from penstock.workflows.adapters.litellm.messages import (
    BESIDE,
    FORMAT_KEYS,
    beside_of,
    plain,
    readable,
    restored,
    said_of,
    texts_of,
    thinking_of,
    written,
)
from penstock.workflows.adapters.litellm.theirs import types
from penstock.workflows.hosting import as_asked
from penstock.workflows.hosting.answers import data_left
from penstock.workflows.web.chat_completions import FINISH_REASONS, write_usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostRequest

REPORT = "litellm-response"
"""The name of the data part for what stands beside the message of an answer."""

_RESPONSE = frozenset({"id", "created", "model", "object", "system_fingerprint", "service_tier", "choices", "usage"})
_CHOICE = frozenset({"index", "delta", "message", "finish_reason"})
_MESSAGE = FORMAT_KEYS | {"images"}
_PROVIDERS = "provider_specific_fields"
_USAGE_TEXTS = frozenset({"service_tier", "inference_geo", "speed"})
"""The texts that providers write between their counts."""

_REPEATED = {"content": "text", "refusal": "text", "reasoning_content": "reasoning", "reasoning": "reasoning"}
"""The fields of a message that its provider's fields repeat, and the kind of their text."""


class LiteLLMAnswerReader:
    """Reads one answer, whole or in pieces.

    Attributes:
        raw: the first object of the answer; None before it came.
        usage: the tokens, as LiteLLM reports them.
        finish_reason: why the answer ended, in LiteLLM's words.
        base: its id, its model, its time.
    """

    def __init__(self) -> None:
        self.raw: object = None
        self.usage: Json | None = None
        self.finish_reason: str | None = None
        self._reader = reading.AnswerReader()
        self.base: Json = {}
        self._report: dict[str, Json] = {"response": {}, "choice": {}}
        self._message: Json = {}
        self._beside: Json = {}
        self._apart: Json = {}
        self._in_older_field = False
        self._arguments: dict[str, str] = {}
        self._repeats: Json = {}
        self._pieces: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._said = {"text": "", "reasoning": ""}

    def read(self, piece: object) -> Iterator[Chunk]:
        """Yield the chunks of a piece, or of a whole answer.

        Raises:
            UsageError: there are several answers.
            MessageError: it is malformed.
        """
        item: Json = plain(piece)
        if self.raw is None:
            self.raw = piece
            self.base = {name: item[name] for name in _RESPONSE - {"choices", "usage", "object"} if name in item}
        self.usage = _counts(item.get("usage")) or self.usage
        choices: list[Json] = item.get("choices") or []
        if len(choices) > 1 or any(choice.get("index") for choice in choices):
            raise UsageError("the model gave several answers; guards judge one: use n=1")
        gather(self._report["response"], _without(item, _RESPONSE))
        yield from self._noted({**item, "choices": [self._read_choice(choice) for choice in choices]})

    def _read_choice(self, choice: Json) -> Json:
        """Return the message of a choice in OpenAI's format, and keep the rest."""
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        gather(self._report["choice"], _without(choice, _CHOICE))
        name = "delta" if "delta" in choice else "message"
        message: Json = choice.get(name) or {}
        self._in_older_field = self._in_older_field or bool(message.get("function_call"))
        gather(self._message, _without(message, _MESSAGE))
        return {**choice, name: {key: value for key, value in message.items() if key in _MESSAGE}}

    def _noted(self, item: Json) -> Iterator[Chunk]:
        told = {name: item[name] for name in (*self.base, "usage", "choices") if name in item}
        for chunk in self._reader.read(told):
            self._note(chunk)
            yield chunk

    def _note(self, chunk: Chunk) -> None:
        if chunk.type in ("text-delta", "reasoning-delta"):
            self._pieces[chunk.type.removesuffix("-delta")].append(chunk.text)
        elif chunk.type == "tool-input-delta":
            self._arguments[chunk.id] = self._arguments.get(chunk.id, "") + chunk.text

    def end(self) -> Iterator[Chunk]:
        """Yield the rest when the answer has ended: the data beside its message, and the finish.

        Raises:
            MessageError: the answer is malformed.
        """
        for chunk in self._reader.end():
            self._note(chunk)
            if chunk.type == "finish":
                self._said = {kind: "".join(pieces) for kind, pieces in self._pieces.items()}
                self._beside, self._apart = beside_of(
                    {**self._without_repeats(), "reasoning_content": self._said["reasoning"]}
                )
                for name, data in ((BESIDE, readable(self._beside)), (REPORT, readable(self._report))):
                    if has_text(data):
                        yield Chunk(f"data-{name}", payload={"data": data})
            yield chunk

    def _without_repeats(self) -> Json:
        """Return the data beside the message's own fields, without copies of these; the copies are noted."""
        own: Json = self._message.get(_PROVIDERS, {})
        repeats = {name: own[name] for name, kind in _REPEATED.items() if own.get(name) == self._said[kind] != ""}
        if thinking_of(own) == self._said["reasoning"]:
            repeats["thinking_blocks"] = own["thinking_blocks"]
        self._repeats = repeats
        more = {name: value for name, value in own.items() if name not in repeats}
        return {**self._message, _PROVIDERS: more} if repeats else self._message

    # What the guards left

    def message(self, answer: Message) -> Json:
        """Return the message of an answer, with the data beside it."""
        items = written(as_asked(answer))
        item: Json = items[0] if items else {"role": "assistant", "content": None}
        item.pop("id", None)
        for call in item.get("tool_calls", ()):
            self._write_as_given(call)
        if self._in_older_field and item.get("tool_calls"):
            item["function_call"] = item.pop("tool_calls")[0]["function"]
        apart, repeats = dict(self._apart), self._repeats
        if texts_of(answer.parts, ReasoningPart) != self._said["reasoning"]:
            apart.pop("thinking_blocks", None)
            repeats = {}
        made: Json = {**apart, **restored(self._beside, data_left(answer.parts, BESIDE)), **_in_fields(item)}
        if repeats and texts_of(answer.parts, TextPart) == self._said["text"]:
            made[_PROVIDERS] = {**made.get(_PROVIDERS, {}), **repeats}
        return _without_tokens(made) if self._is_changed(answer) else made

    def _is_changed(self, answer: Message) -> bool:
        parts = as_asked(answer).parts
        calls = {part.call_id: part.arguments for part in parts if isinstance(part, ToolPart)}
        given = {id: read_arguments(self._arguments.get(id, ""))[0] for id in {*calls, *self._arguments}}
        left = {"text": texts_of(parts, TextPart), "reasoning": texts_of(parts, ReasoningPart)}
        return left != self._said or calls != given

    def _write_as_given(self, call: Json) -> None:
        """Write the arguments of a call as the model did, if they say the same."""
        function, text = call.get("function"), self._arguments.get(call.get("id", ""))
        if is_object(function) and text and read_arguments(text)[0] == read_arguments(function["arguments"])[0]:
            function["arguments"] = text

    def report(self, answer: Message) -> tuple[Json, Json]:
        """Return further fields of the response and of its choice, without tokens if the answer was changed."""
        given = self._report
        data = data_left(answer.parts, REPORT)
        left: dict[str, Json] = restored(given, data) if has_text(readable(given)) else given
        left = _without_tokens(left) if self._is_changed(answer) else left
        return left.get("response", {}), left.get("choice", {})


def _without(item: Json, known: frozenset[str]) -> Json:
    return {name: value for name, value in item.items() if name not in known and value not in (None, {}, [])}


def _without_tokens(value: Value) -> Value:
    if is_object(value):
        return {name: _without_tokens(item) for name, item in value.items() if name not in TOKEN_KEYS}
    return [_without_tokens(item) for item in value] if is_array(value) else value


def _counts(usage: Value) -> Value:
    """Return a usage without texts that nobody knows."""
    if is_object(usage):
        left = {name: item if name in _USAGE_TEXTS else _counts(item) for name, item in usage.items()}
        return {name: item for name, item in left.items() if item is not None}
    return None if isinstance(usage, str) else usage


def gather(kept: Json, item: Json) -> None:
    """Add the fields of a piece to those that came before. Texts and lists grow, so that guards read them whole."""
    for name, value in item.items():
        kept[name] = _joined(kept[name], value) if name in kept else value


def _joined(before: Value, value: Value) -> Value:
    """Return both in one; objects and lists grow in place."""
    if is_object(before) and is_object(value):
        gather(before, value)
        return before
    if is_array(before) and is_array(value):
        for item in value:
            _add(before, item)
        return before
    return before + value if isinstance(before, str) and isinstance(value, str) and before != value else value


def _add(items: Value, item: Value) -> None:
    """Add an item to a list; a piece of thinking continues the block before it."""
    last: Value = items[-1] if items else None
    thinks = is_object(last) and is_object(item) and last.get("type") == item.get("type") == "thinking"
    if thinks and not last.get("signature"):
        items[-1] = {**last, **item, "thinking": f"{last.get('thinking') or ''}{item.get('thinking') or ''}"}
    else:
        items.append(item)


def _in_fields(item: Json) -> Json:
    """Return a message whose content is a text; pictures stand in a field of their own, as LiteLLM has them."""
    content = item.get("content")
    if not is_array(content):
        return item
    text = "".join(part["text"] for part in content if part.get("type") == "text")
    images = [
        {"type": "image_url", "index": at, "image_url": part["image_url"]}
        for at, part in enumerate(part for part in content if part.get("type") == "image_url")
    ]
    return {**item, "content": text or None, **({"images": images} if images else {})}


def finish_reason(answer: Message, reader: LiteLLMAnswerReader, request: HostRequest) -> str:
    """Return why an answer ended, in OpenAI's words."""
    called = any(isinstance(part, ToolPart) for part in answer.parts)
    given = reader.finish_reason or FINISH_REASONS.get(request.finish_reason, "stop")
    return "stop" if given == "tool_calls" and not called else given


def usage_of(reader: LiteLLMAnswerReader, request: HostRequest, attempts: int) -> Json | None:
    """Return the tokens of all attempts, rejected ones included."""
    return reader.usage if attempts <= 1 else write_usage(request.usage)


def response_of(
    answer: Message, reader: LiteLLMAnswerReader, request: HostRequest, attempts: int
) -> tuple[object, Json]:
    """Return LiteLLM's response with an answer as the guards left it, and the message in it.

    It is the response of the model, if it says the same.
    """
    message = reader.message(answer)
    response, choice = reader.report(answer)
    ended = {"index": 0, "finish_reason": finish_reason(answer, reader, request), "message": message}
    usage = usage_of(reader, request, attempts)
    made = types.ModelResponse(**{**response, **reader.base, "choices": [{**choice, **ended}], "usage": usage})
    if said_of(plain(made)) == said_of(plain(reader.raw)):
        return reader.raw, message
    hidden: Json = getattr(reader.raw, "_hidden_params", None) or {}
    made._hidden_params = {name: item for name, item in hidden.items() if name != "original_response"}
    made._response_headers = getattr(reader.raw, "_response_headers", None)
    return made, message


class LiteLLMStreamWriter:
    """Writes an answer as the guards release it: pieces of text, then the calls and the data beside, and the finish.

    Args:
        model: the name of the model, if the answer names none.
    """

    def __init__(self, model: str) -> None:
        self._base: Json = {"model": model}
        self._begun = False
        self._refusals: set[str] = set()

    def pieces(self, chunk: Chunk, reader: LiteLLMAnswerReader) -> Iterator[object]:
        """Yield the piece for a chunk of text; nothing for others."""
        if chunk.type == "text-start" and chunk.payload.get("refusal"):
            self._refusals.add(chunk.id)
        if not chunk.text or chunk.type not in ("text-delta", "reasoning-delta"):
            return
        text = "refusal" if chunk.id in self._refusals else "content"
        yield self._piece({text if chunk.type == "text-delta" else "reasoning_content": chunk.text}, reader)

    def rest(
        self, answer: Message, reader: LiteLLMAnswerReader, request: HostRequest, attempts: int
    ) -> tuple[list[object], Json]:
        """Return the pieces after the text, and the whole message."""
        message = reader.message(answer)
        response, choice = reader.report(answer)
        told = {"role", "content", "refusal", "reasoning_content", "reasoning", "reasoning_details"}
        more = {name: item for name, item in message.items() if name not in told}
        if "tool_calls" in more:
            more["tool_calls"] = [{**call, "index": at} for at, call in enumerate(more["tool_calls"])]
        made = [self._piece(more, reader, response, choice)] if more or choice or response else []
        made.append(self._piece({}, reader, choice={"finish_reason": finish_reason(answer, reader, request)}))
        usage = usage_of(reader, request, attempts)
        if reader.usage is not None and usage is not None:
            made.append(self._piece({}, reader, {"usage": usage}))
        return made, message

    def _piece(
        self, delta: Json, reader: LiteLLMAnswerReader, more: Json | None = None, choice: Json | None = None
    ) -> object:
        if not self._begun:
            self._begun = True
            delta = {"role": "assistant", **delta}
            self._base |= reader.base
        made = types.ModelResponseStream(
            **{**(more or {}), **self._base, "choices": [{"index": 0, **(choice or {}), "delta": delta}]}
        )
        self._base.setdefault("id", made.id)
        self._base.setdefault("created", made.created)
        return made
