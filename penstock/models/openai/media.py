"""Sources, pictures and sounds in answers, as chunks; it knows the fields in which providers send them, no text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import freeze, is_items
from penstock.models.openai.wire import FORMAT, gather, object_of, objects_of, says, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value
    from penstock.models.openai.wire import Json

_URLS = ("url", "link", "uri")


class Sources:
    """The sources of one answer: each is told once, by its address, however often and wherever it is named."""

    __slots__ = ("_told",)

    def __init__(self) -> None:
        self._told: set[str] = set()

    def annotations(self, given: Value) -> Iterator[Chunk]:
        """Yield the sources that a message's annotations cite, with the place where each is cited."""
        for item in objects_of(given):
            inner = object_of(item.get(text_of(item.get("type")))) or item
            yield from self._source(inner, inner.keys() - {"url", "title", "type"}, again=True)

    def listed(self, given: Value) -> Iterator[Chunk]:
        """Yield the sources in a list of addresses, or of objects that have one."""
        for item in given if is_items(given) else ():
            yield from self._source({"url": item} if isinstance(item, str) else object_of(item), ())

    def found(self, tools: Value) -> Iterator[Chunk]:
        """Yield what tools have found that ran at the provider (Groq)."""
        for tool in objects_of(tools):
            yield from self.listed(object_of(tool.get("search_results")).get("results"))

    def _source(self, item: Json, more: object, *, again: bool = False) -> Iterator[Chunk]:
        url = next((text_of(item.get(name)) for name in _URLS if item.get(name)), "")
        if not url or (url in self._told and not again):
            return
        self._told.add(url)
        payload: Json = {"id": text_of(item.get("id")) or url, "url": url, "title": item.get("title")}
        metadata = {key: item[key] for key in item if isinstance(more, set) and key in more}
        yield Chunk("source", payload=freeze(payload | ({"metadata": metadata} if metadata else {})))


def image(item: Json) -> Iterator[Chunk]:
    """Yield a picture of an answer, as ``image_url`` holds one."""
    given = item.get("image_url")
    url = given if isinstance(given, str) else text_of(object_of(given).get("url"))
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        kind = head.removeprefix("data:").partition(";")[0] or "image/png"
        yield Chunk("file", payload=freeze({"media_type": kind, "data": data}))
    elif url:
        yield Chunk("file", payload=freeze({"media_type": "image/*", "url": url}))


@dataclass(slots=True)
class Audio:
    """The sound of one answer: its data and transcript come in pieces; it is told whole, so that guards can read it."""

    media_type: str = "audio/wav"
    data: list[str] = field(default_factory=list[str])
    transcript: list[str] = field(default_factory=list[str])
    rest: Json = field(default_factory=dict[str, "object"])

    def add(self, piece: Json) -> None:
        """Take in a piece."""
        self.data += [text_of(piece.get("data"))]
        self.transcript += [text_of(piece.get("transcript"))]
        gather(self.rest, {key: value for key, value in piece.items() if value != 0}, {"data", "transcript"})

    def end(self) -> Iterator[Chunk]:
        """Yield the sound, if there is one; what goes back to the provider is its id."""
        data, transcript = "".join(self.data), "".join(self.transcript)
        if not says([data, transcript, self.rest.get("id")]) or not (data or transcript or self.rest):
            return
        notes = {FORMAT: {"field": "audio", "extra": self.rest}}
        payload: Json = {"media_type": self.media_type, "data": data or None, "transcript": transcript or None}
        yield Chunk("file", payload=freeze({**payload, "provider_metadata": notes}))
