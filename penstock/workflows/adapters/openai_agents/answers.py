"""Answers of the SDK's models as chunks, and the items of an answer as the guards left it.

Texts, reasoning and calls become chunks of their own. All that stands beside them (citations, items of tools that the
provider runs) becomes one data chunk, so that guards read and edit it, too.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from openai.types.responses import ResponseOutputItem
from pydantic import TypeAdapter

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, Message, ReasoningPart, TextPart, ToolPart
from penstock.formats import openai_responses as wire
from penstock.formats.wire import is_array, is_object
from penstock.workflows.hosting import as_asked
from penstock.workflows.hosting.answers import as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value

BESIDE = "openai-agents"
"""The name of the data with what stands beside the texts and the calls of an answer."""

_OUTPUT = TypeAdapter[ResponseOutputItem](ResponseOutputItem)

_DELTAS = {
    "response.output_text.delta": ("text", "content_index"),
    "response.refusal.delta": ("text", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "content_index"),
}
_CALLS = ("function_call", "custom_tool_call")
_LISTS = {"message": ("content",), "reasoning": ("summary", "content")}
_TEXT_KEYS = ("text", "refusal")
_READ = {
    "message": {"id", "type", "role", "status", "content", "phase"},
    "reasoning": {"id", "type", "status", "summary", "content", "encrypted_content"},
    "function_call": {"id", "type", "status", "call_id", "name", "arguments"},
    "custom_tool_call": {"id", "type", "status", "call_id", "name", "input"},
}
"""The keys of each type of item that are read elsewhere, or that hold no text."""


def text_places(item: Json) -> list[tuple[str, Json, str]]:
    """Return the places of an item's texts that are not empty: the kind, the object, and its key."""
    kind = "reasoning" if item.get("type") == "reasoning" else "text"
    found: list[tuple[str, Json, str]] = []
    for field in _LISTS.get(str(item.get("type")), ()):
        entries = item.get(field)
        for entry in entries if is_array(entries) else ():
            if is_object(entry):
                found += [(kind, entry, key) for key in _TEXT_KEYS if isinstance(entry.get(key), str) and entry[key]]
    return found


def _beside(item: Json) -> Json:
    """Return the fields of an item beside its texts, its reasoning and its call."""
    kind = str(item.get("type"))
    if kind not in _READ:
        return item
    rest: Json = {key: value for key, value in item.items() if key not in _READ[kind] and value not in (None, [], {})}
    for field in _LISTS.get(kind, ()):
        entries = item.get(field)
        told = [_entry_rest(entry) for entry in entries] if is_array(entries) else []
        if any(told):
            rest[field] = told
    return rest


def _entry_rest(entry: Value) -> Value:
    if not is_object(entry):
        return entry
    return {
        key: value
        for key, value in entry.items()
        if key not in ("type", "logprobs", *_TEXT_KEYS) and value not in (None, [], {})
    }


class AgentsAnswerReader:
    """Reads one answer: the events as they come, then the rest of its items.

    Attributes:
        item_ids: the ids of the items of blocks, by the ids of their chunks.
        refusals: the ids of the chunks that are of refusals.
    """

    def __init__(self) -> None:
        self.item_ids: dict[str, str] = {}
        self.refusals: set[str] = set()
        self._open: tuple[str, str] | None = None
        self._shown = {"text": "", "reasoning": ""}

    def event(self, event: Any) -> Iterator[Chunk]:
        """Yield the text of an event; nothing for others, which the whole answer repeats."""
        known = _DELTAS.get(event.type)
        if known is None:
            return
        kind, index = known
        block = f"{kind}-{event.output_index}-{getattr(event, index)}"
        self.item_ids[block] = event.item_id
        if event.type == "response.refusal.delta":
            self.refusals.add(block)
        self._shown[kind] += event.delta
        yield from self._say(kind, block, event.delta)

    def rest(self, items: Sequence[Json], usage: Json | None) -> Iterator[Chunk]:
        """Yield the rest after the events, and the finish."""
        for number, item in enumerate(items):
            for place, (kind, entry, key) in enumerate(text_places(item)):
                text: str = entry[key]
                shown = self._shown[kind]
                if shown.startswith(text):
                    self._shown[kind] = shown[len(text) :]
                    continue
                new = text[len(shown) :] if shown and text.startswith(shown) else text
                block = self._open[1] if shown and new != text and self._open else f"{kind}-{number}-{place}-whole"
                self._shown[kind] = ""
                yield from self._say(kind, block, new)
        yield from self._close()
        beside = {str(number): rest for number, item in enumerate(items) if (rest := _beside(item))}
        if beside:
            yield Chunk(f"data-{BESIDE}", payload={"data": beside})
        calls = [part for part in map(call_of, items) if part is not None]
        for part in calls:
            named = {"call_id": part.call_id, "name": part.name, "arguments": part.arguments}
            yield Chunk("tool-call", id=part.call_id, payload=named)
        yield Chunk("finish", payload={"reason": "tool-calls" if calls else "stop", "usage": usage})

    def _say(self, kind: str, block: str, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if self._open != (kind, block):
            yield from self._close()
            self._open = (kind, block)
            yield Chunk(f"{kind}-start", id=block)
        yield Chunk(f"{kind}-delta", text, block)

    def _close(self) -> Iterator[Chunk]:
        if self._open is not None:
            yield Chunk(f"{self._open[0]}-end", id=self._open[1])
        self._open = None


def call_of(item: Json) -> ToolPart | None:
    """Return the call of an item that is one."""
    if item.get("type") not in _CALLS:
        return None
    [message] = wire.read([item])
    return next((part for part in message.parts if isinstance(part, ToolPart)), None)


def items_of(said: Sequence[Json], answer: Message) -> list[Json]:
    """Return the items of an answer as the guards left it; unchanged items stay as the model gave them.

    Args:
        said: the items that the model said; empty if it was not called.
        answer: the answer after the guards.
    """
    asked = as_asked(answer)
    texts = [part for part in asked.parts if isinstance(part, TextPart)]
    thoughts = [part for part in asked.parts if isinstance(part, ReasoningPart)]
    calls = {part.call_id: part for part in asked.parts if isinstance(part, ToolPart)}
    data = next((part for part in asked.parts if isinstance(part, DataPart) and part.name == BESIDE), None)
    beside: Value = None if data is None else thaw(data.data)
    places = [place for item in said for place in text_places(item)]
    in_place = [kind for kind, _, _ in places].count("text") == len(texts)
    thinks = [kind for kind, _, _ in places].count("reasoning") == len(thoughts)
    left = {"text": iter([part.text for part in texts]), "reasoning": iter([part.text for part in thoughts])}
    made: list[Json] = []
    for number, item in enumerate(said):
        kind = item.get("type")
        rest: Value = beside.get(str(number)) if is_object(beside) else None
        if (kind == "message" and not in_place) or (kind == "reasoning" and not thinks):
            continue
        if kind in _CALLS:
            call = calls.pop(str(item.get("call_id")), None)
            if call is not None:
                made.append(_called(item, call, rest))
        elif kind not in _READ:
            if is_object(rest) and all(rest.get(key) == item.get(key) for key in ("type", "id")):  # still of its kind
                made.append(rest)
        else:
            made.append(_told(item, left, rest))
    fresh: list[Part] = [*([] if in_place else texts), *calls.values()]
    return [*made, *map(_complete, wire.write([Message("assistant", tuple(fresh))] if fresh else []))]


def _told(item: Json, left: dict[str, Iterator[str]], rest: Value) -> Json:
    """Return a message or reasoning with the texts that are left, and with the guarded version beside them."""
    places = text_places(item)
    now: dict[tuple[int, str], str] = {}
    for kind, entry, key in places:
        now[id(entry), key] = next(left[kind])
    changed = any(entry[key] != now[id(entry), key] for _, entry, key in places)
    scored = any(entry.get("logprobs") for _, entry, _ in places)  # with words that the model did not say: dropped
    if not changed and not scored and (rest or {}) == _beside(item):
        return item
    made = _read_keys(item)
    if changed:
        made.pop("encrypted_content", None)
    own: Json = rest if is_object(rest) else {}
    made |= {key: value for key, value in own.items() if key not in made}
    for field in _LISTS[str(item["type"])]:
        entries = item.get(field)
        beside: Value = own.get(field)
        if is_array(entries):
            made[field] = [
                _entry(entry, now, beside[at] if is_array(beside) and at < len(beside) else None)
                for at, entry in enumerate(entries)
            ]
    return made


def _entry(entry: Value, now: dict[tuple[int, str], str], rest: Value) -> Value:
    if not is_object(entry):
        return entry
    made: Json = {"type": entry.get("type")}
    made |= {key: now.get((id(entry), key), entry[key]) for key in _TEXT_KEYS if key in entry}
    if entry.get("type") == "output_text":
        made["annotations"] = []
    return made | (rest if is_object(rest) else {})


def _called(item: Json, call: ToolPart, rest: Value) -> Json:
    """Return a call as it is left, and with the guarded version beside it."""
    before = call_of(item)
    same = before is not None and (before.name, before.arguments) == (call.name, call.arguments)
    if same and (rest or {}) == _beside(item):
        return item
    made = _read_keys(item)
    made |= {key: value for key, value in rest.items() if key not in made} if is_object(rest) else {}
    if same:
        return made
    key = "arguments" if item["type"] == "function_call" else "input"
    return {**made, "name": call.name, key: as_text(call.arguments)}


def _read_keys(item: Json) -> Json:
    """Return an item without the data beside its texts and its call."""
    return {key: value for key, value in item.items() if key in _READ[str(item["type"])]}


def _complete(item: Json) -> Json:
    """Return an item that is none of the model's with the fields that the SDK needs."""
    if item.get("type", "message") != "message":
        return {"id": f"fc_{uuid.uuid4().hex}", "status": "completed", **item}
    given = item.get("content")
    parts: list[Json] = [{"type": "output_text", "text": given}] if isinstance(given, str) else given or []
    content: list[Json] = [{"annotations": [], **part} if part.get("type") == "output_text" else part for part in parts]
    named = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "status": "completed", "role": "assistant"}
    return {**named, **item, "content": content}


def as_output(
    items: Sequence[Json], said: Sequence[ResponseOutputItem], known: Sequence[Json]
) -> list[ResponseOutputItem]:
    """Return items as the SDK's objects; those that are the same stay the objects that the model gave."""
    objects = {id(item): given for item, given in zip(known, said, strict=True)}
    return [objects[id(item)] if id(item) in objects else _OUTPUT.validate_python(item) for item in items]
