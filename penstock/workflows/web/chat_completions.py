"""OpenAI's chat completions: requests of clients, and answers to them, streamed and whole.

`ChatCompletionsEncoder` writes chunks as the objects of a stream; `stream` frames them as server-sent events.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.protocols import RANDOM_IDS
from penstock.workflows.web.client_request import (
    ClientRequest,
    Fields,
    RequestError,
    read_messages,
    read_object,
    read_response_format,
    read_tool_choice,
    read_tools,
)
from penstock.workflows.web.sent import CANCELLED_TEXT, FAILED_TEXT, SentAnswer, is_refusal
from penstock.workflows.web.sse import HEADERS, Encoder, stream, stream_sync
from penstock.workflows.web.whole import events_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import Usage
    from penstock.workflows.web.sent import Json
    from penstock.workflows.web.whole import Answer

__all__ = [
    "FINISH_REASONS",
    "HEADERS",
    "ChatCompletionsEncoder",
    "ReasoningField",
    "answer",
    "error_body",
    "read_request",
    "stream",
    "stream_sync",
    "write_usage",
]

ReasoningField: TypeAlias = Literal["reasoning_content", "reasoning"]
"""The field in which compatible servers send reasoning; OpenAI's own has none."""

FINISH_REASONS: Mapping[str, str] = {
    "stop": "stop",
    "length": "length",
    "tool-calls": "tool_calls",
    "content-filter": "content_filter",
}
"""The format's finish reason for each of Penstock's; any other is written as ``stop``."""

_SETTINGS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_completion_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "stop": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning_effort": "reasoning_effort",
}


def read_request(body: bytes | str | Mapping[str, object]) -> ClientRequest:
    """Return the request of a client.

    Args:
        body: the body of the HTTP request, or the JSON object in it.

    Raises:
        RequestError: the request is malformed, or asks for what cannot be given: several answers (``n``), or a tool
            that is no function.
    """
    fields = Fields(read_object(body))
    if fields.take("n") not in (None, 1):
        raise RequestError("n", "asks for several answers; send one request for each")
    tools = read_tools(fields, nested=True)
    options = Fields(fields.object("stream_options") or {}, "stream_options")
    return ClientRequest(
        messages=read_messages(fields.take("messages"), "openai-chat", "messages"),
        model=fields.text("model"),
        stream=fields.flag("stream"),
        include_usage=options.flag("include_usage"),
        tools=tools,
        tool_choice=read_tool_choice(fields.take("tool_choice"), tools),
        settings=fields.settings(_SETTINGS),
        response_format=read_response_format(fields.object("response_format"), "response_format", nested=True),
        user=fields.text("user"),
        rest=fields.rest(),
    )


def answer(result: Answer, encoder: ChatCompletionsEncoder) -> Json:
    """Return a whole answer as a ``chat.completion``; for a request that failed, the body of an error.

    Args:
        result: the result of ``agent.generate(...)``, or an assistant message that has left the guards.
        encoder: a new encoder.
    """
    events = events_of(result, encoder)
    return events[-1] if "error" in events[-1] else encoder.whole(events)


class ChatCompletionsEncoder(Encoder["Json"]):
    """Writes the chunks of one answer as ``chat.completion.chunk`` objects, without the framing of a stream.

    Give it each chunk that has left the guards, send the objects that `events` returns, and those of `end` at last.
    Text, refusals and tool calls are sent, sources as annotations, and reasoning if you name a field for it. All other
    chunks have no place in the format: data, files, results of tools. Metadata of a provider is never sent.

    If a guard blocks, the answer ends with the finish reason ``content_filter``, and says nothing of the verdict. It
    also ends so if something that was sent no longer holds, because the format cannot take it back: a text that is
    retracted, a tool call that was dropped or changed. Use ``release="step"`` to send nothing before it is accepted.

    Args:
        model: the name of the model that the client gets to see.
        id: the id of the completion. Default: a new one.
        created: its time, in seconds since 1970. Default: now.
        include_usage: whether the last object reports the tokens (``stream_options.include_usage`` of a request).
        reasoning: the field for reasoning, ``reasoning_content`` or ``reasoning``. Default None: it is not sent.
        client_tools: the names of the tools that the client runs; calls to other tools are not sent. Default None:
            all calls are sent.
        refusal: a text for the client if a guard blocks. Default: none.
    """

    __slots__ = ("_base", "_include_usage", "_reasoning", "_refusals", "_role")

    def __init__(
        self,
        model: str,
        *,
        id: str | None = None,
        created: int | None = None,
        include_usage: bool = False,
        reasoning: ReasoningField | None = None,
        client_tools: Container[str] | None = None,
        refusal: str = "",
    ) -> None:
        super().__init__(SentAnswer(client_tools), refusal)
        self._base: Json = {
            "id": f"chatcmpl-{RANDOM_IDS.next()}" if id is None else id,
            "object": "chat.completion.chunk",
            "created": int(time.time()) if created is None else created,
            "model": model,
        }
        if include_usage:
            self._base["usage"] = None
        self._include_usage = include_usage
        self._reasoning = reasoning
        self._refusals: set[str] = set()
        self._role = True

    @classmethod
    def answering(
        cls, request: ClientRequest, *, reasoning: ReasoningField | None = None, refusal: str = ""
    ) -> ChatCompletionsEncoder:
        """Return an encoder for the answer to a request: with its model, its wish for usage, and calls to its tools."""
        usage, tools = request.include_usage, request.tool_names
        return cls(request.model, include_usage=usage, reasoning=reasoning, client_tools=tools, refusal=refusal)

    def _events(self, chunk: Chunk) -> Sequence[Json]:
        """Return the objects to send for a chunk."""
        kind = chunk.type
        if kind == "text-delta":
            self._sent.add_block(chunk.id)
            return (self._delta({"refusal" if chunk.id in self._refusals else "content": chunk.text}),)
        if kind == "reasoning-delta":
            if self._reasoning is None:
                return ()
            self._sent.add_block(chunk.id)
            return (self._delta({self._reasoning: chunk.text}),)
        if kind == "text-start":
            (self._refusals.add if is_refusal(chunk) else self._refusals.discard)(chunk.id)
            return ()
        if kind == "source":
            return self._source(chunk)
        if kind in ("tool-input-start", "tool-input-delta", "tool-call"):
            return self._call(chunk)
        self._sent.control(chunk)
        return ()

    def _end(self) -> Sequence[Json]:
        """Return the last objects: the finish reason, and the usage if it is wanted; or a neutral error."""
        self._sent.end()
        ending = self._sent.ending
        if ending in ("failed", "cancelled"):
            text = FAILED_TEXT if ending == "failed" else CANCELLED_TEXT
            return (error_body(text, "server_error" if ending == "failed" else "cancelled"),)
        made = [self._delta({"refusal": self._refusal})] if ending == "filtered" and self._refusal else []
        made.append(self._delta({}, FINISH_REASONS.get(self._sent.reason, "stop")))
        if self._include_usage:
            made.append({**self._base, "choices": [], "usage": write_usage(self._sent.usage)})
        return made

    def whole(self, events: Iterable[Json]) -> Json:
        """Return the completion that all objects of an answer make together."""
        message: Json = {"role": "assistant", "content": None, "refusal": None}
        calls: dict[int, Json] = {}
        reason: str | None = None
        for choice in (choice for event in events for choice in event["choices"]):
            reason = choice["finish_reason"] or reason
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    _add_call(calls, value[0])
                elif name != "role":
                    message[name] = value if message.get(name) is None else message[name] + value
        if calls:
            message["tool_calls"] = list(calls.values())
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        usage = write_usage(self._sent.usage)
        return {**self._base, "object": "chat.completion", "choices": [choice], "usage": usage}

    def _delta(self, delta: Json, finish_reason: str | None = None) -> Json:
        if self._role:
            self._role = False
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._base, "choices": [choice]}

    def _source(self, chunk: Chunk) -> Sequence[Json]:
        url = chunk.payload.get("url")
        if not isinstance(url, str):
            return ()
        title = chunk.payload.get("title")
        cited = {"url": url, "title": title if isinstance(title, str) else "", "start_index": 0, "end_index": 0}
        return (self._delta({"annotations": [{"type": "url_citation", "url_citation": cited}]}),)

    def _call(self, chunk: Chunk) -> Sequence[Json]:
        if chunk.type == "tool-input-start":
            call = self._sent.begin_call(chunk)
            return () if call is None else (self._begin_call(call.index, call.call_id, call.name),)
        if chunk.type == "tool-input-delta":
            call = self._sent.add_arguments(chunk)
            return () if call is None else (self._arguments(call.index, chunk.text),)
        known = self._sent.call_count
        ended = self._sent.end_call(chunk)
        if ended is None:
            return ()
        call, arguments = ended
        if call.index == known:
            return (self._begin_call(call.index, call.call_id, call.name, arguments),)
        return (self._arguments(call.index, arguments),) if arguments else ()

    def _begin_call(self, index: int, call_id: str, name: str, arguments: str = "") -> Json:
        function = {"name": name, "arguments": arguments}
        return self._delta({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]})

    def _arguments(self, index: int, text: str) -> Json:
        return self._delta({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


def _add_call(calls: dict[int, Json], piece: Json) -> None:
    """Add the beginning of a call, or a piece of its arguments."""
    known = calls.get(piece["index"])
    if known is None:
        calls[piece["index"]] = {name: value for name, value in piece.items() if name != "index"}
    else:
        known["function"]["arguments"] += piece["function"]["arguments"]


def write_usage(usage: Usage | None) -> Json | None:
    """Return the tokens in the format; None if they are not known."""
    if usage is None:
        return None
    written: Json = {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": (usage.input_tokens or 0) + (usage.output_tokens or 0),
    }
    if usage.cached_tokens is not None:
        written["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        written["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return written


def error_body(message: str, type: str = "server_error", code: str | None = None) -> Json:
    """Return an error in the format, which the official clients raise as an exception."""
    return {"error": {"message": message, "type": type, "param": None, "code": code}}
