"""A chat completion, streamed or whole, as chunks: one reader for one answer; it knows no connection.

A whole answer is read as a stream of one piece, whose message is its delta. Whatever has no field of its own is kept:
what the provider says in its own terms in ``provider_terms`` of the finish, everything else in its ``metadata``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats import openai_chat
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze, is_items
from penstock.models.openai.blocks import Blocks
from penstock.models.openai.calls import Calls
from penstock.models.openai.media import Audio, Sources, image
from penstock.models.openai.tags import ThinkTags
from penstock.models.openai.usage import reason_of, usage_from
from penstock.models.openai.wire import gather, object_of, objects_of, says, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value
    from penstock.models.openai.wire import Json

_TOLD = frozenset(
    {"id", "model", "created", "object", "choices", "usage", "error", "obfuscation", "citations", "search_results"}
)
_CHOICE = frozenset({"index", "delta", "message", "finish_reason", "error"})
_MESSAGE = frozenset(
    {
        "role",
        "content",
        "refusal",
        "reasoning_content",
        "reasoning",
        "reasoning_details",
        "tool_calls",
        "function_call",
        "annotations",
        "audio",
        "images",
    }
)
_SENT_BACK = frozenset({"extra_content", "thought_signature"})
"""What a provider needs back with the message as a whole: the signatures of Gemini's thoughts."""

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
"""What is said in a provider's own terms, and is no word of the answer."""


class AnswerReader:
    """Reads one answer.

    Attributes:
        complete: whether a finish reason has come: what breaks off behind it has lost no word of the answer.
        begun: whether anything of an answer has come.
    """

    __slots__ = (
        "_audio",
        "_blocks",
        "_calls",
        "_kept",
        "_message",
        "_reason",
        "_sources",
        "_tags",
        "_terms",
        "_usage",
        "begun",
    )

    def __init__(self, *, audio_type: str = "audio/wav", think_tags: bool = False) -> None:
        self.begun = False
        self._tags = ThinkTags() if think_tags else None
        self._blocks = Blocks()
        self._calls = Calls()
        self._sources = Sources()
        self._audio = Audio(audio_type)
        self._reason = ""
        self._usage: Json | None = None
        self._kept: Json = {}
        self._terms: Json = {}
        self._message: Json = {}

    @property
    def complete(self) -> bool:
        return bool(self._reason)

    def read(self, item: Json) -> Iterator[Chunk]:
        """Yield the chunks of a piece of the stream, or of a whole answer.

        Raises:
            MessageError: it is malformed.
        """
        usage = object_of(item.get("usage")) or object_of(object_of(item.get("x_groq")).get("usage"))
        self._usage = usage or self._usage
        self._keep(item, _TOLD)
        choices = objects_of(item.get("choices"))
        if choices and not self.begun:
            self.begun = True
            yield Chunk("response-metadata", payload=freeze({key: item.get(key) for key in ("id", "model", "created")}))
        for choice in choices:
            if not choice.get("index"):
                yield from self._choice(choice)
        yield from self._sources.listed(item.get("search_results"))
        yield from self._sources.listed(item.get("citations"))

    def _keep(self, item: Json, besides: frozenset[str]) -> None:
        gather(self._terms, item, besides | (item.keys() - _TERMS))
        gather(self._kept, item, besides | _TERMS)

    def _choice(self, choice: Json) -> Iterator[Chunk]:
        self._keep(choice, _CHOICE)
        message = object_of(choice.get("delta")) or object_of(choice.get("message"))
        yield from self._said(message)
        yield from self._besides(message)
        self._reason = text_of(choice.get("finish_reason")) or self._reason

    def _said(self, message: Json) -> Iterator[Chunk]:
        """Yield what a message says: its thoughts, before its text, before its refusal, before its calls."""
        yield from self._thoughts(message)
        yield from self._content(message.get("content"))
        yield from self._blocks.say(("refusal",), text_of(message.get("refusal")))
        calls = objects_of(message.get("tool_calls"))
        older = object_of(message.get("function_call"))
        if says(older):
            calls = [*calls, {"index": -1, "function": older}]
        if calls:
            yield from self._blocks.close()
        for call in calls:
            yield from self._calls.add(call)

    def _thoughts(self, message: Json) -> Iterator[Chunk]:
        """Yield the thoughts; a plain field beside details that have a text only repeats them."""
        details = objects_of(message.get("reasoning_details"))
        for name in ("reasoning_content", "reasoning"):
            text = text_of(message.get(name))
            if text and not any(text_of(detail.get(key)) for detail in details for key in ("text", "summary")):
                yield from self._blocks.say((name,), text)
        for detail in details:
            key = "summary" if isinstance(detail.get("summary"), str) else "text"
            rest = {name: value for name, value in detail.items() if name != key}
            place = ("reasoning_details", key, text_of(detail.get("type")), _number(detail.get("index")))
            yield from self._blocks.say(place, text_of(detail.get(key)), rest)

    def _content(self, content: Value) -> Iterator[Chunk]:
        """Yield the content: a text, or a list of parts (Mistral)."""
        if isinstance(content, str):
            yield from self._text(content)
        for part in objects_of(content):
            yield from self._part(part)

    def _text(self, text: str) -> Iterator[Chunk]:
        if self._tags is None:
            yield from self._blocks.say(("content",), text)
        else:
            for field, piece in self._tags.feed(text):
                yield from self._blocks.say((field,), piece)

    def _part(self, part: Json) -> Iterator[Chunk]:
        kind = part.get("type")
        if kind == "thinking":
            pieces = part.get("thinking")
            text = pieces if isinstance(pieces, str) else "".join(text_of(p.get("text")) for p in objects_of(pieces))
            rest = {key: value for key, value in part.items() if key not in ("type", "thinking")}
            yield from self._blocks.say(("thinking",), text, rest)
        elif isinstance(part.get("text"), str):
            yield from self._text(part["text"])
        elif kind == "refusal":
            yield from self._blocks.say(("refusal",), text_of(part.get("refusal")))
        elif kind == "image_url":
            yield from self._blocks.close()
            yield from image(part)
        else:
            yield from self._blocks.close()
            yield Chunk("raw", payload=freeze({"provider_part": part}))

    def _besides(self, message: Json) -> Iterator[Chunk]:
        """Yield what stands beside the text; keep what has no place."""
        yield from self._sources.annotations(message.get("annotations"))
        yield from self._sources.found(message.get("executed_tools"))
        for item in objects_of(message.get("images")):
            yield from self._blocks.close()
            yield from image(item)
        audio = object_of(message.get("audio"))
        if says(audio):
            self._audio.add(audio)
        gather(self._message, message, _MESSAGE)

    def end(self) -> Iterator[Chunk]:
        """Yield what is left when everything has come: the ends of texts and calls, and the finish."""
        for field, piece in self._tags.end() if self._tags is not None else ():
            yield from self._blocks.say((field,), piece)
        yield from self._blocks.close()
        yield from self._audio.end()
        yield from self._calls.end()
        payload: Json = {
            "reason": reason_of(self._reason, called=bool(self._calls)),
            "raw_reason": self._reason or None,
        }
        if self._usage is not None:
            payload["usage"] = usage_from(self._usage)
        more = {key: value for key, value in self._message.items() if key not in _SENT_BACK}
        payload["metadata"] = {**self._kept, **({"message": more} if more else {})}
        payload |= {"provider_terms": self._terms} if self._terms else {}
        notes = _notes({key: value for key, value in self._message.items() if key in _SENT_BACK})
        payload |= {"provider_metadata": notes} if notes else {}
        yield Chunk("finish", payload=freeze(payload))


def _notes(extra: Json) -> Value:
    """Return the metadata with which the format writes these fields of a message again."""
    (message,) = openai_chat.read([{"role": "assistant", "content": "-", **extra}])
    return message.metadata


def _number(value: Value) -> int | str:
    return value if isinstance(value, int) else ""


def is_answer(item: Json) -> bool:
    """Whether a JSON object may be a chat completion or a piece of one."""
    return is_items(item.get("choices")) or "usage" in item
