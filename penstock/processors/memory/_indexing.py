"""How messages get into an index: their one text, in pieces, embedded together. It knows no stage."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from penstock.engine.values.errors import NotStoredError
from penstock.engine.values.stored import VectorEntry
from penstock.models.embedders.texts import memory_text, pieces
from penstock.processors.memory._filing import filed
from penstock.processors.memory._loading import own
from penstock.processors.memory._searching import entry_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Embedder, Storage, VectorStore
    from penstock.engine.values.stored import Thread

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Index:
    """An index of messages. Lives as long as its processor.

    Attributes:
        storage: where the messages are, to make the index anew.
        vectors: where the vectors go.
        embedder: who makes them.
        name: the index's name.
        most: how many pieces of a message are indexed at most; what follows is not found.
    """

    storage: Storage
    vectors: VectorStore
    embedder: Embedder
    name: str
    most: int

    async def add(self, messages: Iterable[Message], thread_id: str, resource_id: str | None) -> int:
        """Index messages of a thread; return how many said something. All are embedded at once.

        Raises:
            ModelError: the embedder failed.
            OwnershipError: the thread is another resource's.
            StorageError: the store failed.
        """
        found = dict(_texts(messages, self.most))
        if not found:
            return 0
        thread = own(self.storage, await self.storage.thread(thread_id), resource_id)
        owner = resource_id or ("" if thread is None else thread.resource_id)
        vectors = await self.embedder.embed(list(found.values()))
        entries = [
            VectorEntry(entry_id(id_, piece), vector, id_, thread_id, owner)
            for (id_, piece), vector in zip(found, vectors, strict=True)
        ]
        await self.vectors.upsert_vectors(self.name, entries)
        return len({id_ for id_, _ in found})

    async def forget(self, ids: Sequence[str]) -> None:
        """Take messages out of the index."""
        await self.vectors.delete_vectors(self.name, ids)

    async def remake(self, thread_id: str | None, resource_id: str | None) -> int:
        """Index anew what is stored of a thread, or of a resource, or all; return how many messages said something.

        Raises:
            NotStoredError: there is no such thread.
            OwnershipError: the thread is another resource's.
        """
        count = 0
        async for thread in self._threads(thread_id, resource_id):
            before: str | None = None
            while True:
                page = await self.storage.messages(thread.id, limit=_PAGE, before=before, oldest_first=True)
                if page.items:
                    await self.forget([row.message.id for row in page.items])
                    count += await self.add([row.message for row in page.items], thread.id, thread.resource_id)
                before = page.following
                if before is None:
                    break
        return count

    async def _threads(self, thread_id: str | None, resource_id: str | None) -> AsyncIterator[Thread]:
        if thread_id is not None:
            thread = own(self.storage, await self.storage.thread(thread_id), resource_id)
            if thread is None:
                raise NotStoredError(type(self.storage).__name__, "there is no such thread")
            yield thread
            return
        after: str | None = None
        while True:
            page = await self.storage.threads(resource_id=resource_id, limit=_PAGE, after=after)
            for thread in page.items:
                yield thread
            after = page.following
            if after is None:
                return


def _texts(messages: Iterable[Message], most: int) -> Iterable[tuple[tuple[str, int], str]]:
    """Yield the pieces of what messages say, each with the message's id and its number."""
    for message in messages:
        kept = filed(message)
        for number, piece in enumerate(islice(pieces("" if kept is None else memory_text(kept)), most)):
            yield (message.id, number), piece.text
