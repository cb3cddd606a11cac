"""The AI SDK's UI message stream: requests of ``useChat``, and answers as the parts that it reads.

`UIMessagesEncoder` writes chunks as parts of the stream (``x-vercel-ai-ui-message-stream: v1``); `stream` frames them
as server-sent events. Versions 5, 6 and 7 of the SDK read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answer_builder import named
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import FilePart
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.formats.parts import as_url
from penstock.workflows.web.client_request import ClientRequest, Fields, read_messages, read_object
from penstock.workflows.web.sent import FAILED_TEXT, TOOL_FAILED_TEXT, SentAnswer
from penstock.workflows.web.sse import HEADERS as EVENTS, Encoder, stream, stream_sync
from penstock.workflows.web.whole import events_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.workflows.web.sent import Json
    from penstock.workflows.web.whole import Answer

__all__ = ["HEADERS", "TOOL_FAILED_TEXT", "UIMessagesEncoder", "answer", "read_request", "stream", "stream_sync"]

HEADERS: Mapping[str, str] = {**EVENTS, "x-vercel-ai-ui-message-stream": "v1"}
"""The headers of a streamed answer."""


def read_request(body: bytes | str | Mapping[str, object]) -> ClientRequest:
    """Return the request of a client: the body that ``useChat`` sends, with its messages and the id of the chat.

    Further fields, for example of ``prepareSendMessagesRequest``, are in ``rest``.

    Args:
        body: the body of the HTTP request, or the JSON object in it.

    Raises:
        RequestError: the request is malformed.
    """
    fields = Fields(read_object(body))
    messages = read_messages(fields.take("messages"), "ai-sdk-ui", "messages")
    return ClientRequest(
        messages=messages, model=fields.text("model"), stream=True, id=fields.text("id"), rest=fields.rest()
    )


def answer(result: Answer, encoder: UIMessagesEncoder) -> list[Json]:
    """Return a whole answer as the parts of a stream, which the SDK reads as one.

    Args:
        result: the result of ``agent.generate(...)``, or an assistant message that has left the guards.
        encoder: a new encoder.
    """
    return events_of(result, encoder)


class UIMessagesEncoder(Encoder["Json"]):
    """Writes the chunks of one answer as parts of the AI SDK's UI message stream, without the framing of a stream.

    Give it each chunk that has left the guards, send the parts that `events` returns, and those of `end` at last. Text,
    reasoning, tool calls and their results, sources, files, steps and data are sent. Not sent are metadata of a
    provider, ``raw`` and ``object`` chunks, and the texts of errors, also of tools.

    If a guard blocks, the stream ends with the finish reason ``content-filter``, and says nothing of the verdict. When
    texts or calls are rejected, a transient part ``data-retract`` names the blocks of the texts, and in ``parts`` the
    places of all of them among the parts of the SDK's message: do not show these. With ``release="step"`` nothing is
    sent before it is accepted.

    For a call that waits for approval, a ``tool-approval-request`` follows. The SDK answers it with the id of the call.

    Args:
        message_id: the id of the message. Default: the SDK makes one.
        reasoning: whether reasoning is sent.
        refusal: a text for the client if a guard blocks. Default: none.
        calls: the ids of calls in earlier messages whose results may be sent; the SDK refuses results of others.
        parts: how many parts the SDK's message has already, if the answer continues it.
        approvals: whether approvals are asked for. Version 5 of the SDK does not know them, and its stream would fail.
    """

    __slots__ = (
        "_approvals",
        "_begun",
        "_call_places",
        "_calls",
        "_denied",
        "_message_id",
        "_open",
        "_parts",
        "_places",
        "_reasoning",
        "_shown",
    )

    def __init__(
        self,
        *,
        message_id: str | None = None,
        reasoning: bool = True,
        refusal: str = "",
        calls: Collection[str] = (),
        parts: int = 0,
        approvals: bool = True,
    ) -> None:
        super().__init__(SentAnswer(ends_on_retract=False), refusal)
        self._approvals = approvals
        self._begun = False
        self._calls = set(calls)
        self._denied: set[str] = set()  # the calls that the client has rejected
        self._message_id = message_id
        self._open: dict[str, str] = {}  # the texts that have begun: their kind by their block
        self._parts = parts  # how many parts the SDK's message has
        self._call_places: list[int] = []  # of the step: the places of its calls among the parts
        self._places: dict[str, list[int]] = {}  # of the step: by block, the places of its texts among the parts
        self._reasoning = reasoning
        self._shown: set[tuple[str, str]] = set()  # data parts with an id, which later ones replace

    @classmethod
    def answering(
        cls, request: ClientRequest, *, reasoning: bool = True, refusal: str = "", approvals: bool = True
    ) -> UIMessagesEncoder:
        """Return an encoder for the answer to a request. If its last message is an answer, this one continues it."""
        last = request.messages[-1]
        parts = last.parts if last.role == "assistant" else ()
        calls = [part.call_id for part in parts if part.type == "tool"]
        made = cls(reasoning=reasoning, refusal=refusal, calls=calls, parts=len(parts), approvals=approvals)
        made._denied = {part.call_id for part in parts if part.type == "tool" and part.approval == "rejected"}
        return made

    def _events(self, chunk: Chunk) -> Sequence[Json]:
        """Return the parts to send for a chunk."""
        kind = chunk.type
        if kind in ("text-delta", "reasoning-delta"):
            return self._delta(chunk, kind.removesuffix("-delta"))
        made = self._begin()
        if kind in ("text-start", "reasoning-start"):
            self._begin_text(made, kind.removesuffix("-start"), chunk.id)
        elif kind in ("text-end", "reasoning-end"):
            self._finish_text(made, chunk.id)
        elif kind.startswith("tool-"):
            self._tool(made, chunk)
        elif kind in ("source", "file") or chunk.is_data:
            self._value(made, chunk)
        else:
            self._step(made, chunk)
            self._sent.control(chunk)
        return made

    def _end(self) -> Sequence[Json]:
        """Return the last parts: the finish reason; or a neutral error."""
        made = self._begin()
        ending = self._sent.ending
        if ending == "failed":
            made.append({"type": "error", "errorText": FAILED_TEXT})
        elif ending == "cancelled":
            made.append({"type": "abort"})
        else:
            if ending == "filtered" and self._refusal:
                block = f"refusal-{RANDOM_IDS.next()}"
                self._begin_text(made, "text", block)
                made.append({"type": "text-delta", "id": block, "delta": self._refusal})
            for block in list(self._open):
                self._finish_text(made, block)
            made.append({"type": "finish", "finishReason": self._sent.reason})
        return made

    def _begin(self) -> list[Json]:
        if self._begun:
            return []
        self._begun = True
        return [{"type": "start"} if self._message_id is None else {"type": "start", "messageId": self._message_id}]

    # Texts

    def _delta(self, chunk: Chunk, kind: str) -> Sequence[Json]:
        if kind == "reasoning" and not self._reasoning:
            return ()
        event = {"type": chunk.type, "id": chunk.id or "text", "delta": chunk.text}
        if self._open.get(chunk.id) == kind:
            return (event,)
        made = self._begin()
        self._begin_text(made, kind, chunk.id)
        return [*made, event]

    def _begin_text(self, made: list[Json], kind: str, block: str) -> None:
        if kind == "reasoning" and not self._reasoning:
            return
        self._finish_text(made, block)
        self._open[block] = kind
        self._places.setdefault(block, []).append(self._parts)
        self._parts += 1
        made.append({"type": f"{kind}-start", "id": block or "text"})

    def _finish_text(self, made: list[Json], block: str) -> None:
        kind = self._open.pop(block, None)
        if kind is not None:
            made.append({"type": f"{kind}-end", "id": block or "text"})

    # Tools

    def _tool(self, made: list[Json], chunk: Chunk) -> None:
        kind = chunk.type
        if kind == "tool-input-delta":
            call = self._sent.add_arguments(chunk)
            if call is not None:
                made.append({"type": kind, "toolCallId": call.call_id, "inputTextDelta": chunk.text})
        elif kind == "tool-input-start":
            call = self._sent.begin_call(chunk)
            if call is not None:
                self._add_call(call.call_id)
                made.append({"type": kind, "toolCallId": call.call_id, "toolName": call.name})
        elif kind == "tool-call":
            self._whole_call(made, chunk)
        elif kind in ("tool-result", "tool-error"):
            self._sent.control(chunk)
            self._result(made, chunk)
        elif kind == "tool-approval-request" and self._approvals:
            call_id = str(named(chunk, "call_id") or chunk.id)
            if call_id in self._calls:  # the SDK refuses a request without its call
                made.append({"type": kind, "toolCallId": call_id, "approvalId": call_id})

    def _whole_call(self, made: list[Json], chunk: Chunk) -> None:
        ended = self._sent.end_call(chunk)
        if ended is None:
            return
        self._add_call(ended[0].call_id)
        said: Json = {"toolCallId": ended[0].call_id, "toolName": ended[0].name, "input": _value(chunk, "arguments")}
        if chunk.payload.get("invalid"):
            made.append({"type": "tool-input-error", **said, "errorText": TOOL_FAILED_TEXT})
        else:
            made.append({"type": "tool-input-available", **said})

    def _add_call(self, call_id: str) -> None:
        if call_id not in self._calls:
            self._calls.add(call_id)
            self._call_places.append(self._parts)
            self._parts += 1

    def _result(self, made: list[Json], chunk: Chunk) -> None:
        call_id = str(named(chunk, "call_id") or chunk.id)
        if call_id not in self._calls:
            return  # the SDK refuses a result without its call
        if chunk.type == "tool-error" and call_id in self._denied:
            made.append({"type": "tool-output-denied", "toolCallId": call_id})
        elif chunk.type == "tool-error":
            made.append({"type": "tool-output-error", "toolCallId": call_id, "errorText": TOOL_FAILED_TEXT})
        else:
            output = _value(chunk, "result")
            made.append({"type": "tool-output-available", "toolCallId": call_id, "output": output})

    # Other chunks

    def _value(self, made: list[Json], chunk: Chunk) -> None:
        """Add a source, a file, or data."""
        if chunk.is_data:
            event: Json = {"type": chunk.type, "data": thaw(chunk.payload.get("data", chunk.payload))}
            event |= {"id": chunk.id} if chunk.id else {}
            event |= {"transient": True} if chunk.transient else {}
            replaces = bool(chunk.id) and (chunk.type, chunk.id) in self._shown
            self._shown.add((chunk.type, chunk.id))
            self._parts += not (chunk.transient or replaces)
            made.append(event)
            return
        found = _source(chunk, self._parts) if chunk.type == "source" else _file(chunk)
        if found is not None:
            self._parts += 1
            made.append(found)

    def _step(self, made: list[Json], chunk: Chunk) -> None:
        """Add the beginning or the end of a step, or a retraction."""
        if chunk.type == "step-start":
            self._places.clear()
            self._call_places.clear()
            self._parts += 1
            made.append({"type": "start-step"})
        elif chunk.type == "step-finish":
            for block in list(self._open):
                self._finish_text(made, block)
            if chunk.payload.get("reason") == "retry":
                self._retract(made, [], self._call_places)
            made.append({"type": "finish-step"})
        elif chunk.type == "tripwire":
            self._retract(made, [], self._call_places)
        elif chunk.type == "retract":
            blocks = [block for block in chunk.payload["blocks"] if block in self._places]
            self._retract(made, blocks, sorted(place for block in blocks for place in self._places[block]))

    @staticmethod
    def _retract(made: list[Json], blocks: list[str], places: list[int]) -> None:
        if places:
            told = {"blocks": [block or "text" for block in blocks], "parts": list(places)}
            made.append({"type": "data-retract", "data": told, "transient": True})


def _value(chunk: Chunk, what: str) -> object:
    found: object = thaw(named(chunk, what))
    return found


def _source(chunk: Chunk, place: int) -> Json | None:
    said = {"sourceId": str(named(chunk, "id") or f"source-{place}")}
    title, url = chunk.payload.get("title"), chunk.payload.get("url")
    if isinstance(url, str):
        return {"type": "source-url", **said, "url": url, **({"title": title} if isinstance(title, str) else {})}
    if not isinstance(title, str):
        return None
    return {"type": "source-document", **said, "mediaType": "application/octet-stream", "title": title}


def _file(chunk: Chunk) -> Json | None:
    media_type = str(named(chunk, "media_type") or "application/octet-stream")
    url = as_url(FilePart(chunk.payload.get("data"), chunk.payload.get("url"), media_type=media_type), media_type)
    return None if url is None else {"type": "file", "url": url, "mediaType": media_type}
