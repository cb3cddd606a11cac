"""Texts in chunks that are no pieces of a text: a tool's arguments, a result, a source, data. It knows no step.

Names and ids by which programs find things are no texts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine import edits as edit_ops
from penstock.engine.texts import KeyText, TextPlace, leaves, rewrite
from penstock.engine.whole_texts import value_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.chunks import Chunk
    from penstock.engine.edits import Edits
    from penstock.engine.frozen import Value
    from penstock.engine.texts import Path
    from penstock.engine.whole_texts import Text

SNAPSHOT = "object"
"""The chunk that shows a growing value as it stands."""

PROBE = "tool-input"
"""A chunk of the driver's own: what was written to call a tool, as a value."""

KIND_OF: Mapping[str, str] = {
    PROBE: "tool",
    "tool-call": "tool",
    "tool-result": "tool",
    "tool-error": "tool",
    "source": "source",
    "file": "file",
    "object": "text",
    "object-result": "text",
}
"""Of which kind of part the texts in a chunk are; those of other chunks are no part's."""

_NAME = re.compile(
    r"(?:^|_)id$|[a-z]Id$|^(?:tool_?[nN]ame|name|type|media_?[tT]ype|mime_?[tT]ype|data|state|provider.*)$"
)


def kind_of(chunk: Chunk) -> str | None:
    """Return the kind of part that the texts in a chunk are of; None if they are no part's."""
    return "data" if chunk.is_data else KIND_OF.get(chunk.type)


def chunk_texts(chunk: Chunk, kinds: Iterable[str]) -> list[Text]:
    """Return the texts in a chunk, if they are of one of those kinds."""
    kind = kind_of(chunk)
    if kind is None or kind not in kinds:
        return []
    free = kind == "data"  # an application's own: nothing of it is known
    return [
        text
        for text in value_texts(_value_of(chunk), (), TextPlace("", 0), kind)
        if free or not _is_name(text.place.path, kind)
    ]


def _value_of(chunk: Chunk) -> Value:
    return chunk.payload


def _is_name(path: Path, kind: str) -> bool:
    """Tell whether a path leads to a name at the chunk's own level: what a tool was given may be called anything."""
    first = path[0]
    if isinstance(first, KeyText):
        return True
    return _NAME.search(first) is not None and not (kind == "file" and first == "name")


def rewritten(chunk: Chunk, edits: Mapping[TextPlace, Edits]) -> Chunk:
    """Return the chunk with edits made to the texts in it."""
    if not edits:
        return chunk
    texts = {TextPlace("", 0, path): text for path, text in leaves(_value_of(chunk))}
    made = {place.path: edit_ops.apply(texts[place], changes) for place, changes in edits.items()}
    return chunk.with_payload(rewrite(_value_of(chunk), made))


def applied(texts: Iterable[Text], edits: Mapping[TextPlace, Edits]) -> list[Text]:
    """Return texts as they are after the edits."""
    return [text._replace(text=edit_ops.apply(text.text, edits.get(text.place, ()))) for text in texts]
