"""The smallest store of messages and vectors, and embedders, that tests of recall need; it knows no database."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock import Message, ModelError, StorageError
from penstock.engine.values.stored import Page, StoredMessage, Thread, VectorEntry, VectorHit


@dataclass
class Shelf:
    """Keeps messages and vectors in dicts, and notes what was asked. ``broken``: the methods that fail."""

    rows: dict[str, StoredMessage] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    entries: dict[tuple[str, str], VectorEntry] = field(default_factory=dict)
    upserts: list[list[VectorEntry]] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def _use(self, method: str) -> None:
        if method in self.broken:
            raise StorageError("shelf", "it is broken")

    def put(self, *messages: Message) -> None:
        """Store messages, without waiting."""
        for message in messages:
            thread = message.thread_id or ""
            self.owners.setdefault(thread, message.resource_id or thread)
            order = self.rows[message.id].order if message.id in self.rows else len(self.rows) + 1
            self.rows[message.id] = StoredMessage(message, order)

    def _sorted(self, rows: Sequence[StoredMessage]) -> tuple[StoredMessage, ...]:
        return tuple(sorted(rows, key=lambda row: (row.message.thread_id or "", row.order)))

    async def thread(self, thread_id: str) -> Thread | None:
        self._use("thread")
        return Thread(thread_id, self.owners[thread_id]) if thread_id in self.owners else None

    async def create_thread(self, thread: Thread) -> Thread:
        self.owners.setdefault(thread.id, thread.resource_id)
        return Thread(thread.id, self.owners[thread.id])

    async def update_thread(self, thread_id: str, *, title=None, metadata=None, expected=None) -> Thread:
        return Thread(thread_id, self.owners[thread_id])

    async def threads(self, *, resource_id=None, limit=50, after=None) -> Page[Thread]:
        found = [Thread(id_, owner) for id_, owner in self.owners.items() if resource_id in (None, owner)]
        start = int(after or 0)
        return Page(tuple(found[start : start + limit]), str(start + limit) if start + limit < len(found) else None)

    async def delete_thread(self, thread_id: str) -> bool:
        return self.owners.pop(thread_id, None) is not None

    async def delete_resource(self, resource_id: str) -> int:
        raise NotImplementedError

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        self._use("save_messages")
        self.put(*messages)
        return tuple(self.rows[message.id] for message in messages)

    async def messages(
        self, thread_id, *, resource_id=None, limit=50, before=None, oldest_first=False
    ) -> Page[StoredMessage]:
        rows = [row for row in self._sorted(list(self.rows.values())) if row.message.thread_id == thread_id]
        rows = rows if oldest_first else rows[::-1]
        start = int(before or 0)
        return Page(tuple(rows[start : start + limit]), str(start + limit) if start + limit < len(rows) else None)

    async def messages_by_id(self, ids: Sequence[str]) -> tuple[StoredMessage, ...]:
        self._use("messages_by_id")
        return self._sorted([self.rows[id_] for id_ in dict.fromkeys(ids) if id_ in self.rows])

    async def messages_around(self, ids: Sequence[str], *, before: int, after: int) -> tuple[StoredMessage, ...]:
        self._use("messages_around")
        found: dict[str, StoredMessage] = {}
        for id_ in ids:
            if id_ in self.rows:
                thread = (await self.messages(self.rows[id_].message.thread_id, limit=10_000, oldest_first=True)).items
                at = thread.index(self.rows[id_])
                found |= {row.message.id: row for row in thread[max(at - before, 0) : at + after + 1]}
        return self._sorted(list(found.values()))

    async def delete_messages(self, ids: Sequence[str]) -> int:
        return sum(self.rows.pop(id_, None) is not None for id_ in ids)

    async def working_memory(self, scope, key):
        return None

    async def put_working_memory(self, scope, key, text, *, expected, author=""):
        raise NotImplementedError

    async def working_memory_history(self, scope, key, *, limit=10):
        return ()

    async def delete_working_memory(self, scope, key) -> bool:
        return False

    async def close(self) -> None:
        """Nothing is open."""

    async def upsert_vectors(self, index: str, entries: Sequence[VectorEntry]) -> None:
        self._use("upsert_vectors")
        self.upserts.append(list(entries))
        self.entries.update({(index, entry.id): entry for entry in entries})

    async def query_vectors(
        self, index, vector, *, limit, thread_id=None, resource_id=None, threshold=None
    ) -> tuple[VectorHit, ...]:
        self._use("query_vectors")
        told = {"thread_id": thread_id, "resource_id": resource_id}
        filtered = {name: value for name, value in told.items() if value is not None}
        self.queries.append({"top_k": limit, "filter": filtered})
        hits = [
            VectorHit(each.id, each.message_id, each.thread_id, each.resource_id, cosine(vector, each.vector))
            for (name, _), each in self.entries.items()
            if name == index and all(getattr(each, key) == value for key, value in filtered.items())
        ]
        good = [hit for hit in hits if threshold is None or hit.score >= threshold]
        return tuple(sorted(good, key=lambda hit: (-hit.score, hit.id))[:limit])

    async def delete_vectors(self, index: str, message_ids: Sequence[str]) -> int:
        gone = [key for key, entry in self.entries.items() if key[0] == index and entry.message_id in message_ids]
        for key in gone:
            del self.entries[key]
        return len(gone)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between vectors; 0 where one has no direction."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


AXES = (("cat", "pet", "dog"), ("car", "vehicle"), ("eat", "pasta", "food"))


class KeywordEmbedder:
    """Vectors of three numbers: about pets, about cars, about food. Notes what it was asked."""

    name = "keyword-axes"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise ModelError(self.name, "it is not there")
        self.calls.append(list(texts))
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return [float(any(word in text.lower() for word in axis)) for axis in AXES]
