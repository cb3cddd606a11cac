"""The answers of a response cache: which may be stored, how they are written and read, and timed access to the store.

A tag has a version, which is itself stored in the cache. An entry names the versions that its tags had when the model
was asked, and is valid while they are current. A version that the cache has lost counts as changed.
"""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import anyio

from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.chunks import DELTAS, Chunk
from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, Values, is_items, is_mapping, thaw
from penstock.engine.values.messages import DataPart, Message, ReasoningPart, StepStartPart, TextPart, ToolPart
from penstock.engine.values.shared import LeasingCache
from penstock.processors.caching.keys import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from penstock.engine.values.protocols import Cache, Ids
    from penstock.engine.values.shared import LeaseState


_REPLAYABLE = frozenset({"stop", "length", "tool-calls"})
"""Finish reasons of answers that may be replayed (the list of Mastra's cache)."""

_FAILED = frozenset({"error", "abort", "tripwire", "retract"})
_REASONS = ("reason", "finish_reason", "finishReason")
_IGNORED = (DataPart, StepStartPart)  # written by applications and the engine, not by the model

_Content: TypeAlias = tuple[str, str, tuple[Value, ...]]
"""The content of a message: its text, its reasoning, and all other parts, without metadata."""


def refusal(chunks: Sequence[Chunk], finish_reason: str | None, *, calls: bool) -> str | None:
    """Return why an answer must not be stored, as a short code; None if it may be stored.

    Args:
        chunks: the chunks that the model sent.
        finish_reason: the reason that the host reports, if any; it must allow storing, and so must the model's own.
        calls: whether answers that call tools may be stored.
    """
    if not chunks:
        return "empty"
    if any(chunk.type in _FAILED for chunk in chunks):
        return "failed"
    if not {_finish_reason(chunks), finish_reason or "stop"} <= _REPLAYABLE:  # without an end, the stream was cut off
        return "unfinished"
    if any(chunk.type == "text-start" and chunk.payload.get("refusal") is True for chunk in chunks):
        return "refused"
    if not calls and any(chunk.type.startswith("tool-") for chunk in chunks):
        return "tool-calls"
    return None


def _finish_reason(chunks: Sequence[Chunk]) -> Value:
    end = next((chunk.payload for chunk in reversed(chunks) if chunk.type == "finish"), EMPTY)
    return next((end[name] for name in _REASONS if name in end), None)


class OriginalAnswer:
    """An answer as the model gave it, to be compared with the message that it became."""

    __slots__ = ("_content", "_open")

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        answer = Assembly()
        for chunk in chunks:
            answer.add(chunk)
        parts = answer.message.parts
        calls = [part for part in parts if isinstance(part, ToolPart) and part.state in ("call", "partial")]
        self._open = frozenset(part.call_id for part in calls)
        self._content = self._content_of(answer.message)

    @property
    def is_silent(self) -> bool:
        """Whether it has no content, so that nothing can have changed it."""
        return self._content == ("", "", ())

    def is_unchanged_in(self, message: Message | None) -> bool:
        """Tell whether a message has the content of the answer and no more; results of its tool calls do not count."""
        return self.is_silent if message is None else self._content_of(message) == self._content

    def _content_of(self, message: Message) -> _Content:
        text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
        reasoning = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
        others = [part for part in message.parts if not isinstance(part, (TextPart, ReasoningPart, *_IGNORED))]
        return text, reasoning, tuple(self._bare(part) for part in others)

    def _bare(self, part: Value) -> Value:
        """Return a part without its metadata, and a call without the result that it has received since."""
        if isinstance(part, ToolPart) and part.call_id in self._open:
            return ToolPart(part.call_id, part.name, part.arguments)
        return replace(part, metadata=EMPTY)


_VERSION = 1
_CALL_IDS = ("call_id", "tool_call_id", "toolCallId")
_NO_USAGE: Values = FrozenDict({"input_tokens": 0, "output_tokens": 0, "requests": 0})


def write_entry(chunks: Iterable[Chunk], tags: Mapping[str, str]) -> str:
    """Return an answer and the versions of its tags as JSON text. Deltas of one text share a row, and stay apart in it.

    Raises:
        TypeError: a payload holds a value that is not JSON.
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


class CacheEntry:
    """An answer from the cache: its chunks, and the versions that its tags had when the model was asked."""

    __slots__ = ("chunks", "tags")

    def __init__(self, chunks: tuple[Chunk, ...], tags: dict[str, str]) -> None:
        self.chunks = chunks
        self.tags = tags


def read_entry(text: str | None) -> CacheEntry | None:
    """Return the entry that a stored text holds; None for no text, for a broken one, and for another format version."""
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
    return CacheEntry(chunks, tags) if chunks else None


def _chunks(row: Value) -> list[Chunk]:
    kind, id, payload = row["type"], row.get("id", ""), row.get("payload", EMPTY)
    texts = row.get("texts", [""])
    if not (isinstance(kind, str) and isinstance(id, str) and is_mapping(payload) and is_items(texts)):
        raise TypeError
    return [Chunk(kind, str(text), id, payload) for text in texts]


def replay(chunks: Iterable[Chunk], run_id: str, ids: Ids) -> tuple[Chunk, ...]:
    """Return the chunks of a stored answer for another run: marked as cached, without usage, with new tool call ids.

    Its ``response-metadata`` has ``cached``. The usage in its ``finish`` is zero; the usage of the original call stands
    in ``provider_terms`` as ``cached_usage``.
    """
    given = list(chunks)
    if not any(chunk.type == "response-metadata" for chunk in given):
        given.insert(0, Chunk("response-metadata"))
    fresh = {call: f"call_{ids.next()}" for call in dict.fromkeys(map(_call_of, given)) if call}
    return tuple(_again(chunk, run_id, fresh) for chunk in given)


def _call_of(chunk: Chunk) -> str:
    """Return the id of the tool call that a chunk belongs to; empty if it belongs to none."""
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
        payload = FrozenDict({**payload, "usage": _NO_USAGE, "provider_terms": terms})
    elif call := _call_of(chunk):
        payload = FrozenDict({**payload, **{name: fresh[call] for name in _CALL_IDS if name in payload}})
        id = fresh.get(id, id)
    return Chunk(chunk.type, chunk.text, id, payload, run_id)


_LOG = logging.getLogger("penstock")
_TAGS = "penstock:response-tag:"
_DELETED = ""  # stands for a deleted answer: a `Cache` cannot delete
_DELETED_TTL = 1.0  # seconds


_FIRST_LOOK, _LONGEST_LOOK = 0.01, 0.25
"""The first and the longest wait between two looks for an answer that another process makes, in seconds."""


class CacheAccess:
    """Access to a cache within a time limit; failures are logged. Lives as long as its processor.

    Args:
        cache: the store.
        timeout: seconds for each read and each write.
        ids: makes the versions of tags.
    """

    __slots__ = ("_cache", "_ids", "_leases", "_timeout")

    def __init__(self, cache: Cache, timeout: float, ids: Ids) -> None:
        self._cache = cache
        self._leases = cache if isinstance(cache, LeasingCache) else None
        self._timeout = timeout
        self._ids = ids

    async def versions(self, tags: Collection[str]) -> dict[str, str] | None:
        """Return the current versions of tags; None if the cache fails."""
        versions: dict[str, str] = {}
        if not tags:
            return versions
        with self._timed_read() as failed:
            for tag in tags:
                versions[tag] = await self._version(tag)
        return None if failed else versions

    async def get(self, key: str, versions: dict[str, str]) -> tuple[CacheEntry | None, bool]:
        """Return the valid entry under a key, if there is one, and whether the cache could be read.

        Args:
            key: the key of the entry.
            versions: the versions of tags that are known already.
        """
        entry = None
        with self._timed_read() as failed:
            found = read_entry(await self._cache.get(key))
            entry = found if found is None or await self._are_current(found.tags, versions) else None
        return entry, not failed

    async def put(self, key: str, text: str, ttl: float | None, versions: Mapping[str, str] = EMPTY) -> None:
        """Store an answer, unless its tags have other versions by now: a newer answer may stand in its place."""
        try:
            with anyio.fail_after(self._timeout):
                if await self._are_current(versions, {}):
                    await self._cache.set(key, text, ttl=ttl)
        except Exception as error:  # noqa: BLE001 - a cache that fails costs a call, not the request
            _LOG.warning("the response cache could not be written: %s", type(error).__name__)

    async def lead(
        self, key: str, lease: str, versions: dict[str, str], *, seconds: float, waits: bool
    ) -> tuple[CacheEntry | None, str]:
        """Return the entry that another process makes meanwhile, or the holder of a lease to make it.

        Neither, if the cache gives no leases, fails, or has been waited for long enough: the model is asked.

        Args:
            key: the key of the entry.
            lease: the key of the lease.
            versions: the versions of tags that are known already.
            seconds: how long a lease lasts, and how long to wait.
            waits: whether to wait for another process.
        """
        cache = self._leases
        if cache is None:
            return None, ""
        holder, until, wait = self._ids.next(), anyio.current_time() + seconds, _FIRST_LOOK
        while True:
            state: LeaseState | None = None
            with self._timed_read():
                state = await cache.lease(lease, holder, seconds=seconds)
            if state in (None, "ask") or (state == "wait" and not waits):
                return None, ""
            found, _ = await self.get(key, versions)  # it may have been stored just before the lease ended
            if state == "lead":
                if found is not None:
                    await self.end_lease(lease, holder)
                return (found, "") if found is not None else (None, holder)
            if found is not None or anyio.current_time() + wait > until:
                return found, ""
            await anyio.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_LOOK)

    async def end_lease(self, lease: str, holder: str, *, useless: bool = False) -> None:
        """End a lease; it ends by itself if the cache fails."""
        if self._leases is None:
            return
        try:
            with anyio.fail_after(self._timeout):
                await self._leases.end_lease(lease, holder, useless=useless)
        except Exception as error:  # noqa: BLE001 - see `put`
            _LOG.warning("a lease of the response cache could not be ended: %s", type(error).__name__)

    async def delete(self, key: str) -> None:
        """Delete an answer."""
        await self.put(key, _DELETED, _DELETED_TTL)

    async def invalidate(self, tags: Iterable[str]) -> None:
        """Make all answers with one of the tags invalid. Exceptions of the cache are raised."""
        with anyio.fail_after(self._timeout):
            for tag in tags:
                await self._cache.set(_TAGS + tag_hash(tag), self._ids.next())

    @contextmanager
    def _timed_read(self) -> Generator[list[str]]:
        """Limit the time of a read. The yielded list is empty unless the read fails."""
        failed: list[str] = []
        try:
            with anyio.fail_after(self._timeout):
                yield failed
        except Exception as error:  # noqa: BLE001 - a cache that fails costs a call, not the request
            failed.append(type(error).__name__)
            _LOG.warning("the response cache could not be read: %s", *failed)

    async def _are_current(self, versions: Mapping[str, str], known: Mapping[str, str]) -> bool:
        for tag, version in versions.items():
            current = known[tag] if tag in known else await self._cache.get(_TAGS + tag)
            if current != version:
                return False
        return True

    async def _version(self, tag: str) -> str:
        place = _TAGS + tag
        version = await self._cache.get(place)
        if not version:
            version = self._ids.next()
            await self._cache.set(place, version)
        return version


def tag_hash(tag: str) -> str:
    """Return the hash under which the version of a tag is stored: the cache does not reveal its name."""
    return digest(["tag", tag])
