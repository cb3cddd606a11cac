"""Metadata of parts that have ``providerMetadata`` (UI, stored) or ``providerOptions`` (model): it is the part's own.

What other formats noted goes out under their names among the providers', and comes back from there.
This module knows no kind of part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats._notes import foreign, kept, notes_of, restored, unknown
from penstock.engine.formats.wire import Json, Value, is_empty, is_object
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import UnknownPart

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.engine.values.messages import Message, Part

STORED = "stored"
UI = "ai-sdk-ui"
MODEL = "ai-sdk-model"
PROVIDER = "providerMetadata"
CALL_PROVIDER = "callProviderMetadata"
OPTIONS = "providerOptions"
_CHAT_FORMATS = frozenset({"openai-chat", "openai-responses"})


def read_metadata(item: Json, fmt: str, known: Collection[str], notes: Json | None = None, key: str = PROVIDER) -> Json:
    """Return a part's metadata: what stands under ``providerMetadata``, and notes on what Penstock has no field for."""
    given = item.get(key)
    extra = unknown(item, {*known, key}, known)
    if is_object(given) and given and fmt not in given:
        return kept(fmt, {**(notes or {}), "extra": extra}, given)
    return kept(fmt, {**(notes or {}), "extra": extra, "metadata": None if is_empty(given) else given})


def write_metadata(body: Json, value: Message | Part, fmt: str, known: Collection[str], key: str = PROVIDER) -> Json:
    """Return a wire object with the part's metadata and unknown keys laid under it."""
    notes = notes_of(value, fmt)
    metadata: Value = foreign(value, fmt) or notes.get("metadata")
    if metadata is not None:
        body = {**body, key: metadata}
    return restored(body, notes, {*known, key})


def read_unknown(item: Json) -> UnknownPart:
    """Return the part as it is, without what other formats noted about it."""
    given = item.get(PROVIDER)
    if is_object(given) and not _CHAT_FORMATS.isdisjoint(given):
        return UnknownPart({key: value for key, value in item.items() if key != PROVIDER}, given)
    return UnknownPart(item)


def write_unknown(part: UnknownPart, fmt: str) -> Json:
    """Return the part as it was, with what other formats noted about it."""
    raw: Value = thaw(part.raw)
    noted = foreign(part, fmt)
    made: Json = {**raw, PROVIDER: noted} if noted and is_object(raw) and PROVIDER not in raw else raw
    return made
