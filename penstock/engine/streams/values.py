"""Texts in chunks that are no pieces of a text: a tool's arguments, a result, a source, data. It knows no step.

Names and ids by which programs find things are no texts, nor is what a provider notes for itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.text_guards.whole_texts import value_texts
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.texts import TextPlace, leaves, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value

SNAPSHOT = "object"
"""The chunk that shows a growing value as it stands."""

PROBE = "data-penstock.probe"
"""A chunk of the driver's own, for what hooks are not shown: what a call was written as, what a piece says besides."""

KIND_OF: Mapping[str, str] = {
    "tool-call": "tool",
    "tool-result": "tool",
    "tool-error": "tool",
    "source": "source",
    "file": "file",
    "object": "text",
    "object-result": "text",
}
"""Of which kind of part the texts in a chunk are."""

_PAYLOAD = ("payload",)  # paths begin so: their beginning is told, and what comes behind may be a text
_PLACE = TextPlace("", 0)
_NAME = re.compile(
    r"(?:^|_)id$|[a-z]Id$|^(?:tool_?[nN]ame|name|type|media_?[tT]ype|mime_?[tT]ype|data|state|provider.*)$"
)


def kind_of(chunk: Chunk) -> str | None:
    """Return the kind of part that the texts in a chunk are of; None if nothing can be read in it.

    What says that a stream begins, ends or breaks could say anything: that is text.
    """
    if chunk.is_data:
        return "data"
    return "text" if chunk.is_control else KIND_OF.get(chunk.type)


def chunk_texts(chunk: Chunk, kinds: Iterable[str], kind: str | None = None) -> list[Text]:
    """Return the texts in a chunk, if they are of one of those kinds; ``kind``: of which they are, if it is known."""
    kind = kind or kind_of(chunk)
    if kind is None or kind not in kinds:
        return []
    return [text for text in value_texts(_value_of(chunk), _PAYLOAD, _PLACE, kind) if _is_text(text, chunk)]


def _value_of(chunk: Chunk) -> Value:
    return chunk.payload


def _is_text(text: Text, chunk: Chunk) -> bool:
    """Tell whether it says something: no name, and no figure that belongs to how a stream is driven."""
    if chunk.is_control and text.fixed and text.text.isdigit():
        return False
    return _is_free(chunk) or not is_name(text.place.path[1], chunk.type)


def _is_free(chunk: Chunk) -> bool:
    """Tell whether what the payload says on its own level may be called anything, as what a tool was given may."""
    if chunk.type in _OBJECTS:
        return "object" not in chunk.payload
    return chunk.is_data and chunk.type != PROBE


_OBJECTS = frozenset({"object", "object-result"})


def is_name(first: object, type: str) -> bool:
    """Tell whether what a chunk has under a name of its payload's own level is no text, but itself a name or a term."""
    if not isinstance(first, str):
        return True
    if type in ENDS and first in _TERMS:
        return True
    return _NAME.search(first) is not None and not (type == "file" and first == "name")


def is_sealed(chunk: Chunk) -> bool:
    """Tell whether a raw chunk says nothing to anybody but its provider: an encrypted thought, which must go back."""
    return "provider_sealed" in chunk.payload and chunk.payload.keys() <= {"provider_sealed", "provider_metadata"}


ENDS = frozenset({"step-finish", "finish", "response-metadata"})
_TERMS = frozenset({"reason", "finish_reason", "finishReason", "raw_reason", "model", "usage", "created"})
"""What the end of a step says in a provider's own terms: ``tool-calls`` is no word of the answer."""


def rewritten(chunk: Chunk, edits: Mapping[TextPlace, Edits]) -> Chunk:
    """Return the chunk with edits made to the texts in it; a number that is edited is taken out."""
    if not edits:
        return chunk
    texts = {_PLACE._replace(path=path): text for path, text in leaves(_value_of(chunk), _PAYLOAD)}
    return with_texts(
        chunk, {place: edit_ops.apply(texts[place], made) if place in texts else "" for place, made in edits.items()}
    )


def with_texts(chunk: Chunk, texts: Mapping[TextPlace, str]) -> Chunk:
    """Return the chunk with other texts at some places; a number at such a place is taken out."""
    if not texts:
        return chunk
    made = {place.path: text for place, text in texts.items()}
    return chunk.with_payload(rewrite(_value_of(chunk), made, _PAYLOAD))


def without_copies(value: Value, text: str) -> Value:
    """Return what a piece of a text says besides it, without copies of it: they would go ahead of what is held."""
    if is_mapping(value):
        return {key: without_copies(item, text) for key, item in value.items()}
    if is_items(value):
        return [without_copies(item, text) for item in value]
    return "" if text and value == text else value
