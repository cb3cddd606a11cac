"""How memories are looked for: the nearest vectors, their messages, the order among them. It knows no conversation."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.models.embedders.texts import memory_text, pieces
from penstock.processors.memory._loading import own
from penstock.processors.memory._recalled import when
from penstock.processors.memory._resemblance import is_near, outline
from penstock.processors.memory.ranking import age

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Clock, Embedder, Storage, VectorStore
    from penstock.engine.values.stored import MemoryScope, StoredMessage, VectorHit
    from penstock.processors.memory.ranking import RecallRanking

_LOG = logging.getLogger("penstock")
_QUERIES = 4  # pieces of a long question that are searched for: its beginning and its end
_ROUNDS = 3
_MOST = 1_000  # hits of one search
_WIDER = 4  # times as many hits are asked for where too many were of no use


class Where(NamedTuple):
    """Among whose messages is searched: those of a thread, or of a resource."""

    thread_id: str | None
    resource_id: str | None

    def holds(self, message: Message) -> bool:
        """Tell whether a message is of those: what a store of vectors says of it may be old."""
        if self.thread_id is not None:
            return message.thread_id == self.thread_id
        return message.resource_id in (None, self.resource_id)


class Hit(NamedTuple):
    """A message that was found, how like the question it is, and which piece of it."""

    row: StoredMessage
    score: float
    piece: int


class Wanted(NamedTuple):
    """What is searched for.

    Attributes:
        top_k: how many messages.
        threshold: the least likeness; None: any.
        near_duplicates: from which share of common words on a message is another's double; None: never.
        ranking: what else makes the order; None: likeness alone.
    """

    top_k: int
    threshold: float | None
    near_duplicates: float | None
    ranking: RecallRanking | None


@dataclass(frozen=True, slots=True)
class Search:
    """Looks for memories. Lives as long as its processor."""

    storage: Storage
    vectors: VectorStore
    embedder: Embedder
    index: str
    clock: Clock

    async def within(self, scope: MemoryScope, thread_id: str, resource_id: str | None) -> Where:
        """Return where to search; a scope of the resource is one of the thread where nobody says whose it is.

        Raises:
            OwnershipError: the thread is another resource's.
        """
        if scope == "resource" and resource_id is not None:
            return Where(None, resource_id)
        if resource_id is not None:
            own(self.storage, await self.storage.thread(thread_id), resource_id)
        return Where(thread_id, None)

    async def found(self, query: str, wanted: Wanted, where: Where) -> list[Hit]:
        """Return the messages that are most worth recalling, the best first.

        Hits that are of no use make room for others: pieces of one message, doubles, what is deleted, or somebody
        else's.
        """
        vectors = await self.embedder.embed(_asked(query))
        limit = min(wanted.top_k * (1 if wanted.ranking is None else wanted.ranking.candidates), _MOST)
        rows: dict[str, StoredMessage] = {}
        chosen: list[Hit] = []
        for _ in range(_ROUNDS):
            hits, more = await self._nearest(vectors, limit, wanted, where)
            fresh = [message_id for message_id in hits if message_id not in rows]
            rows |= {row.message.id: row for row in await self.storage.messages_by_id(fresh)} if fresh else {}
            usable = [Hit(rows[id_], hit.score, _piece(hit)) for id_, hit in hits.items() if id_ in rows]
            chosen = self._chosen(query, usable, wanted, where)
            if len(chosen) >= wanted.top_k or not more or limit == _MOST:
                break
            limit = min(limit * _WIDER, _MOST)
        return chosen

    async def around(self, hits: Sequence[Hit], before: int, after: int, where: Where) -> list[StoredMessage]:
        """Return the messages that were found with their neighbours, by thread and order."""
        ids = [hit.row.message.id for hit in hits]
        if not ids:
            return []
        if before or after:
            rows: Iterable[StoredMessage] = await self.storage.messages_around(ids, before=before, after=after)
        else:
            rows = sorted([hit.row for hit in hits], key=lambda row: (row.message.thread_id or "", row.order))
        return [row for row in rows if row.message.role != "system" and where.holds(row.message)]

    async def _nearest(
        self, vectors: Sequence[Sequence[float]], limit: int, wanted: Wanted, where: Where
    ) -> tuple[Mapping[str, VectorHit], bool]:
        """Return the best hit of each message, the nearest first, and whether there may be more."""
        best: dict[str, VectorHit] = {}
        more = False
        for vector in vectors:
            found = await self.vectors.query_vectors(
                self.index,
                vector,
                limit=limit,
                thread_id=where.thread_id,
                resource_id=where.resource_id,
                threshold=wanted.threshold,
            )
            more = more or len(found) >= limit
            for hit in found:
                known = best.get(hit.message_id)
                if known is None or hit.score > known.score:
                    best[hit.message_id] = hit
        return dict(sorted(best.items(), key=lambda each: -each[1].score)), more

    def _chosen(self, query: str, hits: Sequence[Hit], wanted: Wanted, where: Where) -> list[Hit]:
        """Return the best of the hits, without doubles; of doubles as good as each other the newest stays."""
        own = [hit for hit in hits if where.holds(hit.row.message) and hit.row.message.role != "system"]
        if len(own) < len(hits):
            _LOG.warning("an index of memories has entries of other owners' messages; they are left out")
        scores = self._scores(query, own, wanted.ranking)
        order = sorted(range(len(own)), key=lambda at: (-round(scores[at], 6), -when(own[at].row.message).timestamp()))
        chosen: list[Hit] = []
        outlines: list[frozenset[tuple[str, ...]]] = []
        for hit in (own[at] for at in order):
            if len(chosen) == wanted.top_k:
                break
            if wanted.near_duplicates is not None:
                seen = outline(memory_text(hit.row.message))
                if is_near(seen, outlines, wanted.near_duplicates):
                    continue
                outlines.append(seen)
            chosen.append(hit)
        return chosen

    def _scores(self, query: str, hits: Sequence[Hit], ranking: RecallRanking | None) -> list[float]:
        likeness = [hit.score for hit in hits]
        if ranking is None:
            return likeness
        now = self.clock.now()
        ages = [age(when(hit.row.message) if hit.row.message.created_at else None, now) for hit in hits]
        return ranking.scores(query, [memory_text(hit.row.message) for hit in hits], likeness, ages)


def _asked(query: str) -> list[str]:
    """Return what is searched for: the question, or of a long one the pieces at both ends."""
    found = [piece.text for piece in pieces(query)]
    return found if len(found) <= _QUERIES else [*found[: _QUERIES // 2], *found[-_QUERIES // 2 :]]


def _piece(hit: VectorHit) -> int:
    """Return which piece of a message an entry is of; see `entry_id`."""
    number = hit.id.removeprefix(hit.message_id).removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() else 0


def entry_id(message_id: str, piece: int) -> str:
    """Return the id of an entry: the message's own for its first piece, numbered for further ones."""
    return f"{message_id}#{piece}" if piece else message_id
