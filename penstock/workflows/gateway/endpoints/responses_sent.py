"""`ResponseSent`: the part of a streamed response that has left, and the events that bring it to a clean end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.endpoints.endpoint import SentEvents
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.json_text import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.formats.wire import Json, Value

NO_USAGE: Final = {
    "input_tokens": 0,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}

_KINDS: Final = {
    # by the type of a part: the key of its text, the event with all of it, the part's own event, the key of its place
    "output_text": ("text", "output_text.done", "content_part.done", "content_index"),
    "refusal": ("refusal", "refusal.done", "content_part.done", "content_index"),
    "reasoning_text": ("text", "reasoning_text.done", "content_part.done", "content_index"),
    "summary_text": ("text", "reasoning_summary_text.done", "reasoning_summary_part.done", "summary_index"),
}


def new_response(model: str, status: str, output: Sequence[Json], **more: Value) -> Json:
    """Return a response of the gateway itself."""
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **more,
    }


def refusing(text: str, status: str = "completed") -> Json:
    """Return a message of the model that refuses."""
    content: list[Json] = [] if status == "in_progress" else [{"type": "refusal", "refusal": text}]
    return {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


@dataclass(slots=True)
class _Part:
    """A part of an item that has begun to leave, and has not ended."""

    kind: str
    index: Value

    def closed(self, text: str) -> Json:
        """Return the part with its text."""
        more: Json = {"annotations": [], "logprobs": []} if self.kind == "output_text" else {}
        return {"type": self.kind, _KINDS[self.kind][0]: text, **more}


@dataclass(slots=True)
class _Item:
    """An item of the output that has begun to leave, and has not ended."""

    item: Json
    parts: dict[str, _Part] = field(default_factory=dict[str, _Part])
    ended: list[Json] = field(default_factory=list["Json"])


@dataclass(slots=True)
class ResponseSent(SentEvents):
    """The part of a streamed response that has left.

    Attributes:
        head: the id of the response, when it was made, and its model; empty before it left.
        number: the number of the next event.
        spells_json: whether the client asked for texts that are JSON, so that half of one is no answer.
        items: the items that have begun, by their place in the output.
        done: the items that have ended.
        after: the place of the next item.
    """

    head: Json = field(default_factory=dict[str, "Value"])
    number: int = 0
    spells_json: bool = False
    items: dict[int, _Item] = field(default_factory=dict[int, _Item])
    done: dict[int, Json] = field(default_factory=dict[int, "Json"])
    after: int = 0

    def pass_on(self, data: Json | bytes) -> None:
        """Note that an event leaves, as it leaves."""
        SentEvents.pass_on(self, data)
        if isinstance(data, bytes):  # a piece of a text
            self.number += 1
        elif data:
            self._note(data)

    def _note(self, data: Json) -> None:
        number = data.get("sequence_number")
        self.number = max(self.number, number + 1) if isinstance(number, int) else self.number + 1
        response, place = data.get("response"), data.get("output_index")
        if is_object(response):
            self._note_head(response)
        elif isinstance(place, int):
            self.after = max(self.after, place + 1)
            self._note_item(str(data.get("type")), place, data)

    def _note_head(self, response: Json) -> None:
        if not self.head:
            self.head = {key: response[key] for key in ("id", "created_at", "model") if key in response}
        text = response.get("text")
        form = text.get("format") if is_object(text) else None
        self.spells_json = is_object(form) and form.get("type") in ("json_schema", "json_object")

    def _note_item(self, kind: str, place: int, data: Json) -> None:
        given = data.get("item")
        if is_object(given):
            if kind.endswith(".done"):
                self.items.pop(place, None)
                self.done[place] = given
            else:
                self.items[place] = _Item(given)
        elif place in self.items:
            _note_part(self.items[place], kind, data)

    # The end

    def closing(self) -> Iterator[bytes]:
        """Yield the events that close open items, or that begin a response if nothing has left."""
        if not self.head:
            begun = new_response(self.model, "in_progress", [])
            self.head = {key: begun[key] for key in ("id", "created_at", "model")}
            yield self.event("response.created", response=begun)
            yield self.event("response.in_progress", response=begun)
        for place, open_item in sorted(self.items.items()):
            for part in open_item.parts.values():
                closed = self._closed(place, part)
                yield from self._part_events(place, open_item.item, part, closed)
                open_item.ended.append(closed)
            item = _closed_item(open_item)
            yield self.event("response.output_item.done", output_index=place, item=item)
            if not (self.spells_json and open_item.parts):
                self.done[place] = item
        self.items.clear()

    def _closed(self, place: int, part: _Part) -> Json:
        key, _, _, place_key = _KINDS[part.kind]
        return part.closed(self.spelled(f"{place}.{place_key.removesuffix('_index')}.{part.index}.{key}"))

    def _part_events(self, place: int, item: Json, part: _Part, closed: Json) -> Iterator[bytes]:
        key, text_done, part_done, place_key = _KINDS[part.kind]
        where: Json = {"item_id": item.get("id"), "output_index": place, place_key: part.index}
        if not (self.spells_json and part.kind == "output_text"):  # a client would read half of a JSON text
            tokens: Json = {"logprobs": []} if part.kind == "output_text" else {}
            yield self.event(f"response.{text_done}", **where, **tokens, **{key: closed[key]})
        yield self.event(f"response.{part_done}", **where, part=closed)

    def refused(self, text: str) -> Iterator[bytes]:
        """Yield the events of a message that refuses, and the end of the response."""
        message, place = refusing(text), self.after
        where: Json = {"item_id": message["id"], "output_index": place, "content_index": 0}
        part: Json = message["content"][0]
        begun: Json = {**message, "status": "in_progress", "content": []}
        yield self.event("response.output_item.added", output_index=place, item=begun)
        yield self.event("response.content_part.added", **where, part={**part, "refusal": ""})
        yield self.event("response.refusal.delta", **where, delta=text)
        yield self.event("response.refusal.done", **where, refusal=text)
        yield self.event("response.content_part.done", **where, part=part)
        yield self.event("response.output_item.done", output_index=place, item=message)
        output = [*self.messages(), message]
        yield self.event("response.completed", response=self.response("completed", output, usage=NO_USAGE))

    def failed(self, code: str, message: str) -> Iterator[bytes]:
        """Yield the end of a response that failed."""
        error = {"code": code, "message": message}
        yield self.event("response.failed", response=self.response("failed", self.messages(), error=error))

    def messages(self) -> list[Json]:
        """Return the messages that have left; calls are left out, so that nobody runs one of a refused answer."""
        return [item for _, item in sorted(self.done.items()) if item.get("type") == "message"]

    def response(self, status: str, output: Sequence[Json], **more: Value) -> Json:
        """Return the response as it ends."""
        return {**new_response(self.model, status, output, **more), **self.head}

    def event(self, kind: str, **fields: Value) -> bytes:
        """Return an event, with the next number."""
        number, self.number = self.number, self.number + 1
        return written(kind, write_json({"type": kind, "sequence_number": number, **fields}))


def _note_part(item: _Item, kind: str, data: Json) -> None:
    """Note the beginning or the end of a part of an item."""
    place_key = "summary_index" if "summary" in kind else "content_index"
    index, part = data.get(place_key), data.get("part")
    name = f"{place_key}.{index}"
    if is_object(part) and kind.endswith(".done"):
        item.parts.pop(name, None)
        item.ended.append(part)
    elif is_object(part) and part.get("type") in _KINDS:
        item.parts[name] = _Part(part["type"], index)


def _closed_item(item: _Item) -> Json:
    """Return an item that ends too early, with the texts that have left."""
    made: Json = {**item.item, "status": "incomplete"}
    if made.get("type") == "message":
        return {**made, "content": item.ended}
    for key, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        if is_array(made.get(key)):
            made[key] = [part for part in item.ended if part.get("type") == kind]
    return made
