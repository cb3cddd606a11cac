"""Read a chat completion, streamed or whole, as chunks.

A whole answer is read as a stream of one piece, whose message is its delta. Fields without a chunk of their own are
kept: a provider's terms about its own operation in ``provider_terms`` of the finish chunk, all others in its
``metadata``. Also here: ``<think>`` tags, sources, images and audio, usage and finish reasons.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze, is_items
from penstock.engine.values.terms import MOST_COUNTED, counts_of
from penstock.formats import openai_chat
from penstock.models.openai.blocks import Blocks, Calls
from penstock.models.openai.wire import FORMAT, gather, gather_one, object_of, objects_of, says, text_of, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import FinishReason
    from penstock.models.openai.wire import Json


ThinkTagMode: TypeAlias = Literal["closed", "opened", "tagged"]
"""Where reasoning in the text of an answer begins. ``closed``: at the start, if a ``</think>`` follows; ``opened``: at
the start in any case; ``tagged``: behind a ``<think>`` at the start."""

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """Separates reasoning between ``<think>`` and ``</think>`` from the text of one answer, as it streams.

    Some servers send it so because they were not told how their model reasons: DeepSeek R1 and Qwen on vLLM or Hugging
    Face. Only a tag at the start of the answer counts. For models whose prompt template ends with the opening tag
    (Qwen3 Thinking, QwQ, R1), reasoning begins without one: in the mode ``closed``, an answer that begins with neither
    tag is held until a tag comes or it ends. Blanks after the closing tag are dropped.
    """

    __slots__ = ("_at", "_held", "_mode", "_pieces")

    def __init__(self, mode: ThinkTagMode = "closed") -> None:
        self._mode = mode
        self._at = "start"
        self._held = ""
        self._pieces: list[str] = []

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the field and the text once decided: ``think`` for reasoning, ``content`` for text."""
        text, self._held = self._held + text, ""
        if self._at == "start":
            begun = text.lstrip()
            if _OPEN.startswith(begun):
                self._held = text
                return
            text = self._started(text, begun)
        if self._at == "unknown":
            self._held = _possible_tag(text)
            self._pieces.append(text.removesuffix(self._held))
            if _OPEN not in text and _CLOSE not in text:
                return
            text = "".join(self._pieces) + self._held
            self._pieces, self._held = [], ""
            self._at = "thought" if _CLOSE in text.partition(_OPEN)[0] else "text"
        if self._at == "thought":
            thought, found, text = text.partition(_CLOSE)
            self._held = "" if found else _beginning_of_the_end(thought)
            yield "think", thought.removesuffix(self._held)
            self._at = "behind" if found else "thought"
        if self._at == "behind":
            text = text.lstrip()
            self._at = "text" if text else "behind"
        if self._at == "text":
            yield "content", text

    def _started(self, text: str, begun: str) -> str:
        """Decide which field the first characters begin; return the text without an opening tag."""
        if begun.startswith(_OPEN):
            self._at = "thought"
            return begun.removeprefix(_OPEN)
        self._at = {"closed": "unknown", "opened": "thought", "tagged": "text"}[self._mode]
        return text

    def end(self) -> Iterator[tuple[str, str]]:
        """Yield the held text at the end of the answer."""
        held, self._held = "".join(self._pieces) + self._held, ""
        yield ("think" if self._at == "thought" else "content"), held


def _possible_tag(text: str) -> str:
    """Return the end of a text that may begin a tag."""
    found = text[-len(_CLOSE) :].rpartition("<")
    rest = found[1] + found[2]
    return rest if found[1] and (_OPEN.startswith(rest) or _CLOSE.startswith(rest)) else ""


def _beginning_of_the_end(text: str) -> str:
    """Return the longest end of a text that may begin the closing tag."""
    sizes = range(min(len(text), len(_CLOSE) - 1), 0, -1)
    return next((_CLOSE[:size] for size in sizes if text.endswith(_CLOSE[:size])), "")


_URLS = ("url", "link", "uri")


class Sources:
    """The sources of one answer; each is reported once by its address, however often it is named.

    A citation, and a picture, is reported once too: some providers repeat all of them with each event.
    """

    __slots__ = ("_cited", "_told")

    def __init__(self) -> None:
        self._cited: set[str] = set()
        self._told: set[str] = set()

    def annotations(self, given: Value) -> Iterator[Chunk]:
        """Yield the sources that annotations of a message cite, with the place of each citation."""
        for item in objects_of(given):
            inner = object_of(item.get(text_of(item.get("type")))) or item
            if not self._is_new(json.dumps(item, sort_keys=True)):
                continue
            yield from self._source(inner, inner.keys() - {"url", "title", "type"}, again=True)

    def listed(self, given: Value) -> Iterator[Chunk]:
        """Yield the sources in a list of addresses, or of objects with an address."""
        for item in given if is_items(given) else ():
            yield from self._source({"url": item} if isinstance(item, str) else object_of(item), ())

    def found(self, tools: Value) -> Iterator[Chunk]:
        """Yield the findings of the provider's own tools (Groq)."""
        for tool in objects_of(tools):
            yield from self.listed(object_of(tool.get("search_results")).get("results"))

    def images(self, given: Value) -> list[Json]:
        """Return the pictures in a list that were not in an earlier one."""
        return [item for item in objects_of(given) if self._is_new(json.dumps(item, sort_keys=True))]

    def _is_new(self, cited: str) -> bool:
        known = cited in self._cited
        self._cited.add(cited)
        return not known

    def _source(self, item: Json, more: object, *, again: bool = False) -> Iterator[Chunk]:
        url = next((text_of(item.get(name)) for name in _URLS if item.get(name)), "")
        if not url or (url in self._told and not again):
            return
        self._told.add(url)
        payload: Json = {"id": text_of(item.get("id")) or url, "url": url, "title": item.get("title")}
        metadata = {key: item[key] for key in item if isinstance(more, set) and key in more}
        yield Chunk("source", payload=freeze(payload | ({"metadata": metadata} if metadata else {})))


def image(item: Json) -> Iterator[Chunk]:
    """Yield an image of an answer, from its ``image_url``."""
    given = item.get("image_url")
    url = given if isinstance(given, str) else text_of(object_of(given).get("url"))
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        kind = head.removeprefix("data:").partition(";")[0] or "image/png"
        yield Chunk("file", payload=freeze({"media_type": kind, "data": data}))
    elif url:
        yield Chunk("file", payload=freeze({"media_type": "image/*", "url": url}))


AUDIO_TYPES = {
    "aac": "audio/aac",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "pcm": "audio/pcm",
    "pcm16": "audio/pcm",
    "wav": "audio/wav",
}
"""The media type of each format of audio that can be requested."""


@dataclass(slots=True)
class Audio:
    """The audio of one answer. Data and transcript come in pieces.

    They are yielded as a whole, so that guards can read them.
    """

    media_type: str = "audio/wav"
    data: list[str] = field(default_factory=list[str])
    transcript: list[str] = field(default_factory=list[str])
    rest: Json = field(default_factory=dict[str, "object"])

    def add(self, piece: Json) -> None:
        """Add a piece."""
        self.data += [text_of(piece.get("data"))]
        self.transcript += [text_of(piece.get("transcript"))]
        gather(self.rest, {key: value for key, value in piece.items() if value != 0}, {"data", "transcript"})

    def end(self) -> Iterator[Chunk]:
        """Yield the audio, if there is any. Its id goes back to the provider."""
        data, transcript = "".join(self.data), "".join(self.transcript)
        if not says([data, transcript, self.rest.get("id")]) or not (data or transcript or self.rest):
            return
        notes = {FORMAT: {"field": "audio", "extra": self.rest}}
        payload: Json = {"media_type": self.media_type, "data": data or None, "transcript": transcript or None}
        yield Chunk("file", payload=freeze({**payload, "provider_metadata": notes}))


_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("cached_tokens",),  # Moonshot
    ("num_cached_tokens",),  # Mistral
)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("reasoning_tokens",),  # Perplexity
)
_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "complete": "stop",
    "completed": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_call": "tool-calls",
    "tool_use": "tool-calls",
    "content_filter": "content-filter",
    "safety": "content-filter",
    "sensitive": "content-filter",
    "refusal": "content-filter",
    "prohibited_content": "content-filter",
    "recitation": "content-filter",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}


def reason_of(raw: str, *, called: bool, whole: bool = False) -> FinishReason:
    """Return why an answer ended. Some providers say ``stop``, or nothing, when tools are called.

    An answer that is known to be ``whole`` ended by itself if the provider says nothing (Snowflake).
    """
    reason = _REASONS.get(raw.lower(), "other") if raw or not whole else "stop"
    return "tool-calls" if called and (reason == "stop" or not raw) else reason


def usage_from(given: Json) -> Json:
    """Return the fields of a `Usage`. Counts without a field stand in ``details``, under the provider's names."""
    fields: Json = {
        "input_tokens": _first(given, [(name,) for name in _INPUT]),
        "output_tokens": _first(given, [(name,) for name in _OUTPUT]),
        "cached_tokens": _first(given, _CACHED),
        "reasoning_tokens": _first(given, _REASONING),
    }
    own = {*_INPUT, *_OUTPUT, "total_tokens"}
    return {**fields, "details": counts_of({key: value for key, value in given.items() if key not in own})}


def _first(given: Json, paths: list[tuple[str, ...]] | tuple[tuple[str, ...], ...]) -> int | None:
    """Return the first number at one of the paths."""
    for *outer, name in paths:
        found: Value = object_of(given.get(outer[0])) if outer else given
        count = found.get(name)
        if _is_count(count):
            return int(count)
    return None


def _is_count(value: Value) -> bool:
    """Whether a value is a number that can be counted with: budgets and prices are computed from it."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED


_TOLD = frozenset(
    {"id", "model", "created", "object", "choices", "usage", "error", "obfuscation", "citations", "search_results"}
)
_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "error"})
_REASONING_FIELDS = frozenset({"reasoning_content", "reasoning", *openai_chat.DETAIL_KEYS})
_REFUSAL_AND_CALLS = frozenset({"refusal", "tool_calls", "function_call"})
_SAID = frozenset({"role", "content"}) | _REASONING_FIELDS | _REFUSAL_AND_CALLS
_MESSAGE = _SAID | {"annotations", "audio", "images"}
_MESSAGE_FIELDS = frozenset({"extra_content", "thought_signature"})
"""The fields of a message that its provider needs back: the signatures of Gemini's reasoning."""

_TERMS = frozenset(
    {
        "system_fingerprint",
        "service_tier",
        "provider",
        "request_id",
        "x_groq",
        "time_info",
        "usage_breakdown",
        "prompt_filter_results",
        "content_filter_results",
        "native_finish_reason",
        "stop_reason",
        "matched_stop",
        "seed",
    }
)
"""The fields in which providers describe their own operation; none is part of the answer."""


@dataclass(slots=True)
class OtherChoice:
    """A further choice of an answer, which nobody asked for: it is reported beside the answer, and is no part of it."""

    index: Value
    texts: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    rest: Json = field(default_factory=dict[str, "object"])

    def add(self, choice: Json) -> None:
        """Add a piece."""
        message = object_of(choice.get("delta")) or object_of(choice.get("message"))
        for name, text in message.items():
            if isinstance(text, str):
                self.texts.setdefault(name, []).append(text)
        gather(self.rest, {**choice, **message}, {"index", "delta", "message", *self.texts})

    def whole(self) -> Json:
        """Return all that came."""
        role = {name: pieces[0] for name, pieces in self.texts.items() if name == "role"}
        return {
            "index": self.index,
            **{name: "".join(pieces) for name, pieces in self.texts.items()},
            **role,
            **self.rest,
        }


class AnswerReader:
    """Reads one answer.

    Attributes:
        complete: whether a finish reason has come: after it, an answer can break off without a loss.
        begun: whether any part of an answer has come.
    """

    __slots__ = (
        "_audio",
        "_blocks",
        "_calls",
        "_kept",
        "_made",
        "_message",
        "_others",
        "_reason",
        "_sources",
        "_tags",
        "_terms",
        "_thought",
        "_usage",
        "_whole",
        "begun",
    )

    def __init__(self, *, audio_type: str = "audio/wav", think_tags: bool | ThinkTagMode = False) -> None:
        self.begun = False
        mode: ThinkTagMode = think_tags if isinstance(think_tags, str) else "closed"
        self._tags = ThinkTags(mode) if think_tags else None
        self._made: list[Chunk] = []
        self._blocks = Blocks(self._made)
        self._calls = Calls(self._made)
        self._sources = Sources()
        self._audio = Audio(audio_type)
        self._reason = ""
        self._whole = False
        self._thought = 0  # the number of the block of thinking
        self._usage: Json | None = None
        self._kept: Json = {}
        self._terms: Json = {}
        self._message: Json = {}
        self._others: dict[str, OtherChoice] = {}

    @property
    def complete(self) -> bool:
        """Whether a finish reason has come: after it, an answer can break off without a loss."""
        return bool(self._reason)

    def read(self, item: Json) -> list[Chunk]:
        """Return the chunks of a piece of the stream, or of a whole answer.

        Raises:
            MessageError: it is malformed.
        """
        try:
            self._read(item)
            return self._taken()
        except RecursionError:
            raise MessageError("", "it is nested too deeply") from None

    def _taken(self) -> list[Chunk]:
        """Return the chunks made so far, whose payloads can be encoded. Texts were joined where they came in."""
        made = [chunk.with_payload(well_formed(chunk.payload)) if chunk.payload else chunk for chunk in self._made]
        self._made.clear()
        return made

    def _read(self, item: Json) -> None:
        if item.get("usage") or "x_groq" in item:
            usage = object_of(item.get("usage")) or object_of(object_of(item.get("x_groq")).get("usage"))
            self._usage = usage or self._usage
        self._keep(item, _TOLD)
        choices = objects_of(item.get("choices"))
        if choices and not self.begun:
            self.begun = True
            payload = freeze({key: item.get(key) for key in ("id", "model", "created")})
            self._made.append(Chunk("response-metadata", payload=payload))
        for choice in choices:
            index = choice.get("index")
            if not index:
                self._choice(choice)
            else:
                self._others.setdefault(str(index), OtherChoice(index)).add(choice)
        for name in ("search_results", "citations"):
            if name in item:
                self._made += self._sources.listed(item[name])

    def _keep(self, item: Json, besides: frozenset[str]) -> None:
        for key, value in item.items():
            if value is not None and key not in besides:
                gather_one(self._terms if key in _TERMS else self._kept, key, value)

    def _choice(self, choice: Json) -> None:
        self._keep(choice, _CHOICE)
        message = object_of(choice.get("delta")) or object_of(choice.get("message"))
        said = {name: value for name, value in message.items() if value is not None}
        if not _REASONING_FIELDS.isdisjoint(said):
            self._reasoning(said)
        if "content" in said:
            self._content(said["content"])
        if not _REFUSAL_AND_CALLS.isdisjoint(said):
            self._refusal_and_calls(said)
        if not said.keys() <= _SAID:
            self._besides(said)
        self._reason = text_of(choice.get("finish_reason")) or self._reason
        self._whole = self._whole or "message" in choice

    def _refusal_and_calls(self, message: Json) -> None:
        self._blocks.say(("refusal",), text_of(message.get("refusal")))
        calls = objects_of(message.get("tool_calls"))
        older = object_of(message.get("function_call"))
        if says(older):
            calls = [*calls, {"index": -1, "function": older}]
        if calls:
            self._blocks.close()
        for call in calls:
            self._calls.add(call)

    def _reasoning(self, message: Json) -> None:
        """Add the reasoning. Some providers repeat it: in two plain fields, or in one beside details with text."""
        details = objects_of(message.get("reasoning_details"))
        thinking = objects_of(message.get("thinking_blocks"))
        said = [text_of(detail.get(key)) for detail in details for key in ("text", "summary")]
        detailed = any(said) or any(text_of(block.get("thinking")) for block in thinking)
        plain = {} if detailed else {text_of(message.get(name)): name for name in ("reasoning", "reasoning_content")}
        for text, name in reversed(plain.items()):
            self._blocks.say((name,), text)
        for detail in details:
            key = "summary" if isinstance(detail.get("summary"), str) else "text"
            rest = {name: value for name, value in detail.items() if name != key}
            index = detail.get("index")
            place = ("reasoning_details", key, text_of(detail.get("type")), index if isinstance(index, int) else "")
            self._blocks.say(place, text_of(detail.get(key)), rest)
        for at, block in enumerate(thinking):
            self._thinking(block, begins=at > 0)

    def _thinking(self, block: Json, *, begins: bool) -> None:
        """Add a piece of LiteLLM's thinking. Its blocks have no numbers: each ends with its signature, or its data."""
        self._thought += begins
        rest = {name: value for name, value in block.items() if name != "thinking"}
        self._blocks.say(("thinking_blocks", "thinking", self._thought), text_of(block.get("thinking")), rest)
        self._thought += bool(block.get("signature") or block.get("data"))

    def _content(self, content: Value) -> None:
        """Add the content: a text, or a list of parts (Mistral)."""
        if isinstance(content, str):
            self._text(content)
            return
        for part in objects_of(content):
            self._part(part)

    def _text(self, text: str) -> None:
        if self._tags is None:
            self._blocks.say(("content",), text)
        else:
            for where, piece in self._tags.feed(text):
                self._blocks.say((where,), piece)

    def _part(self, part: Json) -> None:
        kind = part.get("type")
        if kind == "thinking":
            pieces = part.get("thinking")
            text = pieces if isinstance(pieces, str) else "".join(text_of(p.get("text")) for p in objects_of(pieces))
            rest = {key: value for key, value in part.items() if key not in ("type", "thinking")}
            self._blocks.say(("thinking",), text, rest)
        elif isinstance(part.get("text"), str):
            self._text(part["text"])
        elif kind == "refusal":
            self._blocks.say(("refusal",), text_of(part.get("refusal")))
        elif kind == "image_url":
            self._blocks.close()
            self._made += image(part)
        else:
            self._blocks.close()
            self._made.append(Chunk("raw", payload=freeze({"provider_part": part})))

    def _besides(self, message: Json) -> None:
        """Add the data beside the text; keep data without a chunk of its own."""
        self._made += self._sources.annotations(message.get("annotations"))
        self._made += self._sources.found(message.get("executed_tools"))
        for item in self._sources.images(message.get("images")):
            self._blocks.close()
            self._made += image(item)
        audio = object_of(message.get("audio"))
        if says(audio):
            self._audio.add(audio)
        gather(self._message, message, _MESSAGE)

    def end(self, *, done: bool = False) -> list[Chunk]:
        """Return the rest when the answer has ended: the ends of texts and calls, and the finish.

        Args:
            done: whether the provider has marked the end of its stream, so that the answer is whole.

        Raises:
            MessageError: the answer is malformed.
        """
        for where, piece in self._tags.end() if self._tags is not None else ():
            self._blocks.say((where,), piece)
        self._blocks.close()
        self._made += self._audio.end()
        self._calls.end()
        payload: Json = {
            "reason": reason_of(self._reason, called=bool(self._calls), whole=self._whole or done),
            "raw_reason": self._reason or None,
        }
        if self._usage is not None:
            payload["usage"] = usage_from(self._usage)
        more = {key: value for key, value in self._message.items() if key not in _MESSAGE_FIELDS}
        others = [other.whole() for other in self._others.values()]
        named = {"message": more, "other_choices": others}
        payload["metadata"] = {**self._kept, **{key: value for key, value in named.items() if value}}
        payload |= {"provider_terms": self._terms} if self._terms else {}
        own = {key: value for key, value in self._message.items() if key in _MESSAGE_FIELDS}
        (message,) = openai_chat.read([{"role": "assistant", "content": "-", **own}])  # as it is written again
        payload |= {"provider_metadata": message.metadata} if message.metadata else {}
        self._made.append(Chunk("finish", payload=freeze(payload)))
        return self._taken()


def is_answer(item: Json) -> bool:
    """Whether a JSON object may be a chat completion, or a piece of one."""
    return is_items(item.get("choices")) or "usage" in item
