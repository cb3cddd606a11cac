"""`EventWriter`: chunks that guards have released as events of a responses stream."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, get_args

from openai.types.responses import (
    Response,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseStreamEvent,
    ResponseUsage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agents import Usage
    from agents.items import TResponseStreamEvent
    from openai.types.responses import ResponseOutputItem

    from penstock.engine.values.chunks import Chunk
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.openai_agents.answers import AgentsAnswerReader

_EVENTS: Mapping[str, Any] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}
"""The classes of the events of a responses stream, by their types."""

_TEXTS: Mapping[str, tuple[str, str, str, Json]] = {
    "text": ("response.output_text", "content_index", "text", {"logprobs": []}),
    "refusal": ("response.refusal", "content_index", "refusal", {}),
    "reasoning": ("response.reasoning_summary_text", "summary_index", "text", {}),
}
"""The events of each kind of text: how their types begin, the index and the key of the text in them, further fields."""


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
        name, index, _, more = _TEXTS[kind]
        yield self._event(f"{name}.delta", **self._at(index), delta=chunk.text, **more)

    def _event(self, kind: str, **fields: object) -> TResponseStreamEvent:
        self._number += 1
        made: TResponseStreamEvent = _EVENTS[kind](**fields, sequence_number=self._number, type=kind)
        return made

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
            yield self._event("response.content_part.added", **self._at("content_index"), part=self._part(kind, ""))

    def _at(self, index: str) -> Json:
        return {"item_id": self._item, "output_index": self._items[self._key], index: 0}

    @staticmethod
    def _part(kind: str, text: str) -> ResponseOutputRefusal | ResponseOutputText:
        if kind == "refusal":
            return ResponseOutputRefusal(refusal=text, type="refusal")
        return ResponseOutputText(text=text, annotations=[], type="output_text")

    def _created(self) -> Iterator[TResponseStreamEvent]:
        if self._number < 0:
            yield self._event("response.created", response=self._response((), None, None, ""))

    def _added(self, key: tuple[str, str], item: ResponseOutputItem) -> Iterator[TResponseStreamEvent]:
        if key not in self._items:
            self._items[key] = len(self._items)
            yield self._event("response.output_item.added", item=item, output_index=self._items[key])

    def _close(self) -> Iterator[TResponseStreamEvent]:
        if self._open is None:
            return
        kind, text = self._open[0], self._text
        name, index, key, more = _TEXTS[kind]
        yield self._event(f"{name}.done", **self._at(index), **{key: text}, **more)
        if kind != "reasoning":
            yield self._event("response.content_part.done", **self._at("content_index"), part=self._part(kind, text))
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
                at, name = {"item_id": item.id or key[1], "output_index": place}, "response.function_call_arguments"
                yield self._event(f"{name}.delta", **at, delta=item.arguments)
                yield self._event(f"{name}.done", **at, arguments=item.arguments)
            yield self._event("response.output_item.done", item=item, output_index=place)
        yield self._event("response.completed", response=self._response(output, usage, id, model))

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
