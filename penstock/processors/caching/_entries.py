"""Answers as texts that a cache can keep, and back as chunks that say that they were kept. It knows no cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import DELTAS, Chunk
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, Values, is_items, is_mapping, thaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.values.ports import Ids

_VERSION = 1
_CALL_IDS = ("call_id", "tool_call_id", "toolCallId")
_NOTHING_TAKEN: Values = FrozenDict({"input_tokens": 0, "output_tokens": 0, "requests": 0})


def written(chunks: Iterable[Chunk], tags: Mapping[str, str]) -> str:
    """Return an answer as a text, with the tags' versions. Pieces of one text are one entry, and stay pieces.

    Raises:
        TypeError: something in it is no JSON value.
        ValueError: likewise.
    """
    rows: list[dict[str, Value]] = []
    for chunk in chunks:
        if chunk.transient:
            continue
        row = _row(chunk)
        last = rows[-1] if rows else {}
        if "texts" in row and "payload" not in row and {**last, "texts": 0} == {**row, "texts": 0}:
            last["texts"] += row["texts"]
        else:
            rows.append(row)
    return json.dumps({"version": _VERSION, "tags": dict(tags), "chunks": rows}, separators=(",", ":"))


def _row(chunk: Chunk) -> dict[str, Value]:
    row: dict[str, Value] = {"type": chunk.type}
    if chunk.id:
        row["id"] = chunk.id
    if chunk.type in DELTAS:
        row["texts"] = [chunk.text]
    if chunk.payload:
        payload: Value = chunk.payload
        row["payload"] = thaw(payload)
    return row


class Entry:
    """An answer that was kept."""

    __slots__ = ("chunks", "tags")

    def __init__(self, chunks: tuple[Chunk, ...], tags: dict[str, str]) -> None:
        self.chunks = chunks
        self.tags = tags


def read(text: str | None) -> Entry | None:
    """Return what was kept; None for nothing, for what is no answer, and for another version's."""
    if not text:
        return None
    try:
        kept: Value = json.loads(text)
        if not is_mapping(kept) or kept.get("version") != _VERSION:
            return None
        chunks = tuple(chunk for row in kept["chunks"] for chunk in _chunks(row))
        tags = {str(tag): str(version) for tag, version in kept["tags"].items()}
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, MessageError):
        return None
    return Entry(chunks, tags) if chunks else None


def _chunks(row: Value) -> list[Chunk]:
    kind, id, payload = row["type"], row.get("id", ""), row.get("payload", EMPTY)
    texts = row.get("texts", [""])
    if not (isinstance(kind, str) and isinstance(id, str) and is_mapping(payload) and is_items(texts)):
        raise TypeError
    return [Chunk(kind, str(text), id, payload) for text in texts]


def replayed(chunks: Iterable[Chunk], run_id: str, ids: Ids) -> tuple[Chunk, ...]:
    """Return an answer for another run: it says that it was kept, took nothing, and calls tools by fresh ids.

    Its ``response-metadata`` has ``cached``; its ``finish`` a usage of nothing, and in ``provider_terms`` as
    ``cached_usage`` what the answer took when it was given.
    """
    given = list(chunks)
    if not any(chunk.type == "response-metadata" for chunk in given):
        given.insert(0, Chunk("response-metadata"))
    fresh = {call: f"call_{ids.next()}" for call in dict.fromkeys(map(_call_of, given)) if call}
    return tuple(_again(chunk, run_id, fresh) for chunk in given)


def _call_of(chunk: Chunk) -> str:
    """Return the id of the call that a chunk belongs to; empty if it belongs to none."""
    if not chunk.type.startswith("tool-"):
        return ""
    return next((str(chunk.payload[name]) for name in _CALL_IDS if chunk.payload.get(name)), chunk.id)


def _again(chunk: Chunk, run_id: str, fresh: Mapping[str, str]) -> Chunk:
    payload: Values = chunk.payload
    id = chunk.id
    if chunk.type == "response-metadata":
        payload = FrozenDict({**payload, "cached": True})
    elif chunk.type == "finish" and "usage" in payload:
        terms: Values = {**(payload.get("provider_terms") or {}), "cached_usage": payload["usage"]}
        payload = FrozenDict({**payload, "usage": _NOTHING_TAKEN, "provider_terms": terms})
    elif call := _call_of(chunk):
        payload = FrozenDict({**payload, **{name: fresh[call] for name in _CALL_IDS if name in payload}})
        id = fresh.get(id, id)
    return Chunk(chunk.type, chunk.text, id, payload, run_id)
