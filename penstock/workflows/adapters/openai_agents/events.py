"""`EventWriter`: chunks that guards have released as events of a responses stream."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseReasoningSummaryTextDoneEvent,
    ResponseRefusalDeltaEvent,
    ResponseRefusalDoneEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agents import Usage
    from agents.items import TResponseStreamEvent
    from openai.types.responses import ResponseOutputItem

    from penstock.engine.values.chunks import Chunk
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.openai_agents.answers import AgentsAnswerReader


class EventWriter:
    """Writes one answer: pieces of text as they are released, then the items, and the whole response."""

    def __init__(self) -> None:
        self._number = -1
        self._id = f"resp_{uuid.uuid4().hex}"
        self._items: dict[tuple[str, str], int] = {}  # the places of the items that were announced, by their keys
        self._open: tuple[str, str] | None = None  # the kind and the id of the chunks that are being written
        self._item = ""
        self._key = ("", "")
        self._text = ""

    def events(self, chunk: Chunk, reader: AgentsAnswerReader) -> Iterator[TResponseStreamEvent]:
        """Yield the events of a piece of text; nothing for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return
        kind = "reasoning" if chunk.type == "reasoning-delta" else "text"
        kind = "refusal" if chunk.id in reader.refusals else kind
        if self._open != (kind, chunk.id):
            yield from self._close()
            yield from self._begin(kind, chunk.id, reader.item_ids.get(chunk.id) or f"msg_{uuid.uuid4().hex}")
        self._text += chunk.text
        at: Json = {"item_id": self._item, "output_index": self._items[self._key], "delta": chunk.text}
        if kind == "reasoning":
            yield ResponseReasoningSummaryTextDeltaEvent(
                **at, summary_index=0, sequence_number=self._next(), type="response.reasoning_summary_text.delta"
            )
        elif kind == "refusal":
            yield ResponseRefusalDeltaEvent(
                **at, content_index=0, sequence_number=self._next(), type="response.refusal.delta"
            )
        else:
            yield ResponseTextDeltaEvent(
                **at, content_index=0, logprobs=[], sequence_number=self._next(), type="response.output_text.delta"
            )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _begin(self, kind: str, block: str, item_id: str) -> Iterator[TResponseStreamEvent]:
        yield from self._created()
        self._open, self._item, self._text = (kind, block), item_id, ""
        item = (
            ResponseReasoningItem(id=item_id, summary=[], type="reasoning")
            if kind == "reasoning"
            else ResponseOutputMessage(id=item_id, content=[], role="assistant", status="in_progress", type="message")
        )
        self._key = key_of(item)
        yield from self._added(self._key, item)
        if kind != "reasoning":
            yield ResponseContentPartAddedEvent(
                **self._at(), part=self._part(""), sequence_number=self._next(), type="response.content_part.added"
            )

    def _at(self) -> Json:
        return {"item_id": self._item, "output_index": self._items[self._key], "content_index": 0}

    def _part(self, text: str) -> ResponseOutputRefusal | ResponseOutputText:
        if self._open is not None and self._open[0] == "refusal":
            return ResponseOutputRefusal(refusal=text, type="refusal")
        return ResponseOutputText(text=text, annotations=[], type="output_text")

    def _created(self) -> Iterator[TResponseStreamEvent]:
        if self._number < 0:
            yield ResponseCreatedEvent(
                response=self._response((), None, None, ""), sequence_number=self._next(), type="response.created"
            )

    def _added(self, key: tuple[str, str], item: ResponseOutputItem) -> Iterator[TResponseStreamEvent]:
        if key not in self._items:
            self._items[key] = len(self._items)
            yield ResponseOutputItemAddedEvent(
                item=item,
                output_index=self._items[key],
                sequence_number=self._next(),
                type="response.output_item.added",
            )

    def _close(self) -> Iterator[TResponseStreamEvent]:
        if self._open is None:
            return
        kind, text = self._open[0], self._text
        if kind == "reasoning":
            yield ResponseReasoningSummaryTextDoneEvent(
                item_id=self._item,
                output_index=self._items[self._key],
                summary_index=0,
                text=text,
                sequence_number=self._next(),
                type="response.reasoning_summary_text.done",
            )
        elif kind == "refusal":
            yield ResponseRefusalDoneEvent(
                **self._at(), refusal=text, sequence_number=self._next(), type="response.refusal.done"
            )
        else:
            yield ResponseTextDoneEvent(
                **self._at(), text=text, logprobs=[], sequence_number=self._next(), type="response.output_text.done"
            )
        if kind != "reasoning":
            yield ResponseContentPartDoneEvent(
                **self._at(), part=self._part(text), sequence_number=self._next(), type="response.content_part.done"
            )
        self._open = None

    def rest(
        self, output: Sequence[ResponseOutputItem], usage: Usage, id: str | None, model: str
    ) -> Iterator[TResponseStreamEvent]:
        """Yield the items of the answer, and the whole response."""
        yield from self._created()
        yield from self._close()
        for item in output:
            key = key_of(item)
            yield from self._added(key, item)
            place = self._items[key]
            if item.type == "function_call":
                at: Json = {"item_id": item.id or key[1], "output_index": place}
                yield ResponseFunctionCallArgumentsDeltaEvent(
                    **at,
                    delta=item.arguments,
                    sequence_number=self._next(),
                    type="response.function_call_arguments.delta",
                )
                yield ResponseFunctionCallArgumentsDoneEvent(
                    **at,
                    arguments=item.arguments,
                    sequence_number=self._next(),
                    type="response.function_call_arguments.done",
                )
            yield ResponseOutputItemDoneEvent(
                item=item, output_index=place, sequence_number=self._next(), type="response.output_item.done"
            )
        whole = self._response(output, usage, id, model)
        yield ResponseCompletedEvent(response=whole, sequence_number=self._next(), type="response.completed")

    def _response(
        self, output: Sequence[ResponseOutputItem], usage: Usage | None, id: str | None, model: str
    ) -> Response:
        return Response(
            id=id or self._id,
            created_at=time.time(),
            model=model,
            object="response",
            output=list(output),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
            usage=None
            if usage is None
            else ResponseUsage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                total_tokens=usage.total_tokens,
                input_tokens_details=usage.input_tokens_details,
                output_tokens_details=usage.output_tokens_details,
            ),
        )


def key_of(item: ResponseOutputItem) -> tuple[str, str]:
    """Return what makes an item another one than those beside it: some models of the SDK give all the same id."""
    return item.type, str(getattr(item, "call_id", None) or getattr(item, "id", None))
