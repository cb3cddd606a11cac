"""OpenAI's Responses API: requests of clients, and answers to them, streamed and whole.

`ResponsesEncoder` writes chunks as the events of a stream; `stream` frames them as server-sent events.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY, is_mapping, thaw
from penstock.engine.values.messages import Message
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
from penstock.workflows.web.sse import HEADERS, Encoder, dumped, stream, stream_sync
from penstock.workflows.web.whole import events_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import Usage
    from penstock.workflows.web.sent import Json, SentCall
    from penstock.workflows.web.whole import Answer

__all__ = ["HEADERS", "INCOMPLETE_REASONS", "ResponsesEncoder", "answer", "read_request", "stream", "stream_sync"]

INCOMPLETE_REASONS: Mapping[str, str] = {"length": "max_output_tokens", "content-filter": "content_filter"}
"""Why a response is incomplete, by Penstock's finish reasons; with any other reason, it is complete."""

_SETTINGS: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
}
_REPEATED = (*_SETTINGS, "instructions", "metadata", "text", "tool_choice", "tools", "previous_response_id", "user")
"""The fields of a request that its response repeats."""


def read_request(body: bytes | str | Mapping[str, object]) -> ClientRequest:
    """Return the request of a client. Its ``instructions`` become a system message, which is the client's own.

    Args:
        body: the body of the HTTP request, or the JSON object in it.

    Raises:
        RequestError: the request is malformed, or declares a tool that is no function.
    """
    given = read_object(body)
    fields = Fields(given)
    tools = read_tools(fields, nested=False)
    form = Fields(fields.object("text") or {}, "text").object("format")
    effort = Fields(fields.object("reasoning") or {}, "reasoning").settings({"effort": "reasoning_effort"})
    instructions = fields.text("instructions")
    said = (Message.system(instructions, from_client=True),) if instructions else ()
    return ClientRequest(
        messages=(*said, *_read_input(fields.take("input"))),
        model=fields.text("model"),
        stream=fields.flag("stream"),
        include_usage=True,
        tools=tools,
        tool_choice=read_tool_choice(fields.take("tool_choice"), tools),
        settings={**fields.settings(_SETTINGS), **effort},
        response_format=read_response_format(form, "text.format", nested=False),
        id=_read_id(fields.take("conversation")),
        previous_id=fields.text("previous_response_id"),
        user=fields.text("user"),
        repeated={name: given[name] for name in _REPEATED if given.get(name) is not None},
        rest=fields.rest(),
    )


def _read_input(given: object) -> Iterable[Message]:
    if isinstance(given, str):
        if not given.strip():
            raise RequestError("input", "is empty; send the question as text")
        return (Message.user(given, from_client=True),)
    return read_messages(given, "openai-responses", "input")


def _read_id(conversation: Value) -> str:
    """Return the id of a conversation, which is a text or an object with an id."""
    found = conversation.get("id") if is_mapping(conversation) else conversation
    if found is not None and not isinstance(found, str):
        raise RequestError("conversation", "expected the id of a conversation, or an object with one")
    return found or ""


def answer(result: Answer, encoder: ResponsesEncoder) -> Json:
    """Return a whole answer as a ``response``.

    Args:
        result: the result of ``agent.generate(...)``, or an assistant message that has left the guards.
        encoder: a new encoder.
    """
    response: Json = events_of(result, encoder)[-1]["response"]
    return response


class _OpenText:
    """A text or a summary of reasoning that is being written, and the item that it stands in."""

    __slots__ = ("block", "delta_kind", "delta_type", "ids", "item", "kind", "pieces", "place")

    def __init__(self, kind: str, block: str, item: Json, place: int) -> None:
        self.kind = kind
        self.block = block
        self.item = item
        self.place = place
        self.delta_kind = "reasoning-delta" if kind == "reasoning" else "text-delta"
        self.delta_type = f"{_NAMES[kind][0]}.delta"
        index = "summary_index" if kind == "reasoning" else "content_index"
        self.ids: Json = {"item_id": item["id"], "output_index": place, index: 0}
        self.pieces: list[str] = []

    def part(self, text: str) -> Json:
        """Return the part with a text."""
        if self.kind == "text":
            return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return (
            {"type": "refusal", "refusal": text} if self.kind == "refusal" else {"type": "summary_text", "text": text}
        )


@dataclass(slots=True)
class _OpenCall:
    """A tool call that is being written."""

    item: Json
    place: int
    pieces: list[str] = field(default_factory=list[str])


_NAMES: Mapping[str, tuple[str, str]] = {
    "text": ("response.output_text", "response.content_part"),
    "refusal": ("response.refusal", "response.content_part"),
    "reasoning": ("response.reasoning_summary_text", "response.reasoning_summary_part"),
}
"""For each kind of text: the beginning of its events' names, and of those of its part."""


class ResponsesEncoder(Encoder["Json"]):
    """Writes the chunks of one answer as events of the Responses API, without the framing of a stream.

    Give it each chunk that has left the guards, send the events that `events` returns, and those of `end` at last.
    Texts and refusals become messages, tool calls become function calls, and reasoning becomes a summary if you want it
    sent. All other chunks have no place: sources, data, files, results of tools. Metadata of a provider is never sent.

    If a guard blocks, the last event is ``response.incomplete`` with the reason ``content_filter``; its response has no
    output, and it says nothing of the verdict. The response also ends so if something that was sent no longer holds,
    because the format cannot take it back: a text that is retracted, a tool call that was dropped or changed. Use
    ``release="step"`` to send nothing before it is accepted.

    Args:
        model: the name of the model that the client gets to see.
        id: the id of the response. Default: a new one.
        created_at: its time, in seconds since 1970. Default: now.
        reasoning: whether reasoning is sent, as a summary.
        client_tools: the names of the tools that the client runs; calls to other tools are not sent. Default None:
            all calls are sent.
        refusal: a text for the client if a guard blocks. Default: none.
        fields: further fields of the response, which repeat the request: ``tools``, ``temperature``, ``metadata`` …
    """

    __slots__ = (
        "_begun",
        "_calls",
        "_number",
        "_output",
        "_places",
        "_reasoning",
        "_response",
        "_text",
    )

    last = b""

    def __init__(
        self,
        model: str,
        *,
        id: str | None = None,
        created_at: int | None = None,
        reasoning: bool = False,
        client_tools: Container[str] | None = None,
        refusal: str = "",
        fields: Mapping[str, object] = EMPTY,
    ) -> None:
        super().__init__(SentAnswer(client_tools), refusal)
        self._response: Json = {
            "id": f"resp_{RANDOM_IDS.next()}" if id is None else id,
            "object": "response",
            "created_at": int(time.time()) if created_at is None else created_at,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": None,
            **thaw(dict(fields)),
            "model": model,
        }
        self._begun = False
        self._calls: dict[int, _OpenCall] = {}  # by their index among the calls
        self._number = -1
        self._output: dict[int, Json] = {}  # the items by their place
        self._places = 0
        self._reasoning = reasoning
        self._text: _OpenText | None = None

    @classmethod
    def answering(cls, request: ClientRequest, *, reasoning: bool = False, refusal: str = "") -> ResponsesEncoder:
        """Return an encoder for the answer to a request: with its model, calls to its tools, and its fields."""
        fields, tools = request.repeated, request.tool_names
        return cls(request.model, reasoning=reasoning, client_tools=tools, refusal=refusal, fields=fields)

    def frame(self, event: Json) -> bytes:
        """Return an event with its type as its name."""
        return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), dumped(event))

    def _events(self, chunk: Chunk) -> Sequence[Json]:
        """Return the events to send for a chunk."""
        kind = chunk.type
        if kind in ("text-delta", "reasoning-delta"):
            return self._delta(chunk)
        made = [] if self._begun else self._begin()
        if kind in ("text-start", "text-end", "reasoning-end"):
            self._turn(made, chunk)
        elif kind == "tool-input-start":
            call = self._sent.begin_call(chunk)
            if call is not None:
                self._begin_call(made, call)
        elif kind == "tool-input-delta":
            call = self._sent.add_arguments(chunk)
            if call is not None:
                self._arguments(made, call, chunk.text)
        elif kind == "tool-call":
            self._end_call(made, chunk)
        else:
            if kind == "step-start":
                self._close_text(made)  # the next step may give its texts the same ids
            self._sent.control(chunk)
        return made

    def _end(self) -> Sequence[Json]:
        """Return the last events: the ends of open items, and the whole response as it ended."""
        made = [] if self._begun else self._begin()
        self._sent.end()
        ending, response = self._sent.ending, self._response
        response["usage"] = write_usage(self._sent.usage)
        if ending != "open":
            self._text, self._calls, self._output = None, {}, {}  # what was sent no longer holds
        if ending == "filtered" and self._refusal:
            self._say_refusal(made)
        elif ending in ("failed", "cancelled"):
            response["status"] = "failed"
            text = FAILED_TEXT if ending == "failed" else CANCELLED_TEXT
            response["error"] = {"code": "server_error", "message": text}
            made.append(self._event("response.failed", response=self._whole()))
            return made
        why = INCOMPLETE_REASONS.get(self._sent.reason)
        self._close_all(made, "completed" if why is None else "incomplete")
        response["status"] = "completed" if why is None else "incomplete"
        response["incomplete_details"] = None if why is None else {"reason": why}
        made.append(self._event(f"response.{response['status']}", response=self._whole()))
        return made

    # Events

    def _event(self, type: str, **fields: object) -> Json:
        self._number += 1
        return {"type": type, "sequence_number": self._number, **fields}

    def _whole(self) -> Json:
        return {**self._response, "output": list(self._output.values())}

    def _begin(self) -> list[Json]:
        self._begun = True
        return [
            self._event("response.created", response=self._whole()),
            self._event("response.in_progress", response=self._whole()),
        ]

    # Texts

    def _turn(self, made: list[Json], chunk: Chunk) -> None:
        """Begin or end a text. One without text is not sent."""
        if chunk.type == "text-start" or (self._text is not None and self._text.block == chunk.id):
            self._close_text(made)
        if chunk.type == "text-start" and is_refusal(chunk):
            self._open_text(made, "refusal", chunk.id)

    def _delta(self, chunk: Chunk) -> Sequence[Json]:
        if chunk.type == "reasoning-delta" and not self._reasoning:
            return ()
        made: list[Json] = []
        text = self._text
        if text is None or text.block != chunk.id or text.delta_kind != chunk.type:
            made = [] if self._begun else self._begin()
            self._close_text(made)
            text = self._open_text(made, chunk.type.removesuffix("-delta"), chunk.id)
        text.pieces.append(chunk.text)
        self._number += 1
        event = {"type": text.delta_type, "sequence_number": self._number, **text.ids, "delta": chunk.text}
        if text.kind == "text":
            event["logprobs"] = []
        made.append(event)
        return made

    def _open_text(self, made: list[Json], kind: str, block: str) -> _OpenText:
        self._sent.add_block(block)
        if kind == "reasoning":
            item: Json = {"id": f"rs_{RANDOM_IDS.next()}", "type": "reasoning", "summary": []}
        else:
            item = {"id": f"msg_{RANDOM_IDS.next()}", "type": "message", "role": "assistant"}
            item |= {"status": "in_progress", "content": []}
        text = self._text = _OpenText(kind, block, item, self._add_item(made, item))
        made.append(self._event(f"{_NAMES[kind][1]}.added", **text.ids, part=text.part("")))
        return text

    def _close_text(self, made: list[Json], status: str = "completed") -> None:
        text, self._text = self._text, None
        if text is None:
            return
        whole = "".join(text.pieces)
        part = text.part(whole)
        said: Json = {"refusal" if text.kind == "refusal" else "text": whole}
        if text.kind == "text":
            said["logprobs"] = []
        made.append(self._event(f"{_NAMES[text.kind][0]}.done", **text.ids, **said))
        made.append(self._event(f"{_NAMES[text.kind][1]}.done", **text.ids, part=part))
        content: Json = {"summary": [part]} if text.kind == "reasoning" else {"status": status, "content": [part]}
        self._end_item(made, {**text.item, **content}, text.place)

    def _say_refusal(self, made: list[Json]) -> None:
        text = self._open_text(made, "refusal", "")
        text.pieces.append(self._refusal)
        made.append(self._event("response.refusal.delta", **text.ids, delta=self._refusal))

    # Items

    def _add_item(self, made: list[Json], item: Json) -> int:
        place = self._places
        self._places += 1
        self._output[place] = item
        made.append(self._event("response.output_item.added", output_index=place, item=dict(item)))
        return place

    def _end_item(self, made: list[Json], item: Json, place: int) -> None:
        self._output[place] = item
        made.append(self._event("response.output_item.done", output_index=place, item=dict(item)))

    def _close_all(self, made: list[Json], status: str) -> None:
        """End items that the model left open, for example because it was cut off."""
        self._close_text(made, status)
        for call in self._calls.values():
            if call.item["status"] == "in_progress":
                self._close_call(made, call, status)

    # Calls

    def _begin_call(self, made: list[Json], call: SentCall) -> _OpenCall:
        self._close_text(made)
        item: Json = {"id": f"fc_{RANDOM_IDS.next()}", "type": "function_call", "status": "in_progress"}
        item |= {"call_id": call.call_id, "name": call.name, "arguments": ""}
        opened = self._calls[call.index] = _OpenCall(item, self._add_item(made, item))
        return opened

    def _arguments(self, made: list[Json], call: SentCall, text: str) -> None:
        opened = self._calls[call.index]
        opened.pieces.append(text)
        ids: Json = {"item_id": opened.item["id"], "output_index": opened.place}
        made.append(self._event("response.function_call_arguments.delta", **ids, delta=text))

    def _end_call(self, made: list[Json], chunk: Chunk) -> None:
        ended = self._sent.end_call(chunk)
        if ended is None:
            return
        call, rest = ended
        if call.index not in self._calls:
            self._begin_call(made, call)
        if rest:
            self._arguments(made, call, rest)
        self._close_call(made, self._calls[call.index])

    def _close_call(self, made: list[Json], call: _OpenCall, status: str = "completed") -> None:
        ids: Json = {"item_id": call.item["id"], "output_index": call.place}
        call.item = {**call.item, "status": status, "arguments": "".join(call.pieces)}
        said: Json = {"name": call.item["name"], "arguments": call.item["arguments"]}
        made.append(self._event("response.function_call_arguments.done", **ids, **said))
        self._end_item(made, call.item, call.place)


def write_usage(usage: Usage | None) -> Json | None:
    """Return the tokens in the format; None if they are not known."""
    if usage is None:
        return None
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": read + written,
    }
