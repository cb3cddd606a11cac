"""The index of `SemanticRecall`: messages are added, searched, ranked, and freed from near duplicates."""

from __future__ import annotations

import logging
import math
import unicodedata
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.detection.deferred import deferred
from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.values.errors import NotStoredError, OptionError
from penstock.engine.values.stored import VectorEntry
from penstock.models.embedders.texts import memory_text, pieces
from penstock.processors.memory._options import check_owner
from penstock.processors.memory._quoting import message_time
from penstock.processors.memory._storing import storable_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from datetime import datetime

    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Clock, Embedder, Storage, VectorStore
    from penstock.engine.values.stored import MemoryScope, StoredMessage, Thread, VectorHit

_LOG = logging.getLogger("penstock")


# Near duplicates

_WORDS = deferred(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]|[^\W\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]+")
_LONGEST = 20_000  # characters of a text that are compared
_IN_A_ROW = 3  # words of a shingle


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; single letters in scripts without spaces (Thai, Japanese, Chinese)."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text[:_LONGEST]).casefold())


def shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Return the shingles of a text: all runs of three words. A text without words is its own shingle."""
    found = words(text)
    if not found:
        return frozenset({(text[:_LONGEST],)})
    size = min(_IN_A_ROW, len(found))
    return frozenset(tuple(found[at : at + size]) for at in range(len(found) - size + 1))


def is_near_duplicate(
    one: frozenset[tuple[str, ...]], others: Sequence[frozenset[tuple[str, ...]]], share: float
) -> bool:
    """Return whether the Jaccard similarity with one of the others is at least ``share``."""
    return any(len(one & other) >= share * len(one | other) for other in others)


# Ranking

_MOST_CANDIDATES = 100


@dataclass(frozen=True, slots=True)
class RecallRanking:
    """How found messages are ranked: by similarity, age, and words in common with the query.

    The score of a message is a weighted sum. The similarity of the vectors has the weight that is left:
    ``1 - recency - lexical``.

    Attributes:
        recency: the weight of the age, from 0 to 1. Default 0.2.
        lexical: the weight of the words in common with the query, from 0 to 1. Rare words count more. Default 0.2.
        half_life: the age at which the recency is one half; more than 0. Default 30 days.
        candidates: how many messages are ranked for each that is recalled, 1 to 100. Only these can move up. Default 4.

    Raises:
        OptionError: a value is out of its range, or both weights together are more than 1.
    """

    recency: float = 0.2
    lexical: float = 0.2
    half_life: timedelta = timedelta(days=30)
    candidates: int = 4

    def __post_init__(self) -> None:
        """Check the values."""
        for option in ("recency", "lexical"):
            check_number("RecallRanking", option, getattr(self, option), "a weight from 0 to 1", most=1)
        if self.recency + self.lexical > 1:
            raise OptionError("RecallRanking", "lexical", self.lexical, "a weight that makes 1 at most with recency")
        half_life = cast("object", self.half_life)
        if not isinstance(half_life, timedelta) or half_life <= timedelta(0):
            raise OptionError("RecallRanking", "half_life", self.half_life, "a timedelta of more than 0")
        allowed = f"a number from 1 to {_MOST_CANDIDATES}"
        check_count("RecallRanking", "candidates", self.candidates, allowed, 1, _MOST_CANDIDATES)

    def scores(self, query: str, texts: Sequence[str], likeness: Sequence[float], ages: Sequence[float]) -> list[float]:
        """Return the scores of messages, in their order.

        Args:
            query: the text that is searched for.
            texts: the texts of the messages.
            likeness: the cosine similarities of their vectors with the vector of the query.
            ages: their ages in seconds; infinite if unknown.
        """
        rest = 1 - self.recency - self.lexical
        shares = _word_shares(query, texts) if self.lexical else [0.0] * len(texts)
        recent = [0.5 ** (age / self.half_life.total_seconds()) for age in ages]
        return [
            rest * alike + self.recency * new + self.lexical * share
            for alike, new, share in zip(likeness, recent, shares, strict=True)
        ]


def _word_shares(query: str, texts: Sequence[str]) -> list[float]:
    """Return the share of the query's words that each text has. Words that are rare among the texts weigh more."""
    wanted = set(words(query))
    having = [wanted.intersection(words(text)) for text in texts]
    known = Counter(word for found in having for word in found)
    weight = {word: math.log1p(len(texts) / known[word]) for word in known}
    whole = sum(weight.values())
    return [sum(weight[word] for word in found) / whole if whole else 0.0 for found in having]


def _age(message: Message, now: datetime) -> float:
    """Return the age of a message in seconds, 0 or more; infinite if it has no time."""
    return max((now - message_time(message)).total_seconds(), 0.0) if message.created_at else math.inf


# The index

_MOST_PIECES = 64  # pieces of a message that are indexed; what follows is not found
_MOST_QUERIES = 4  # pieces of a long query that are searched for: its beginning and its end
_MOST_ROUNDS = 3  # searches for one query
_MOST_HITS = 1_000  # hits of one search
_WIDER = 4  # how many times more hits the next search asks for
_PAGE = 100  # messages or threads that are read at once


class RecallScope(NamedTuple):
    """Which messages are searched: those of a thread, or else those of a resource."""

    thread_id: str | None
    resource_id: str | None

    def contains(self, message: Message) -> bool:
        """Return whether a message belongs to the scope. The owner that a vector store has noted may be outdated."""
        if self.thread_id is not None:
            return message.thread_id == self.thread_id
        return message.resource_id in (None, self.resource_id)


class RecallHit(NamedTuple):
    """A message that was found, its similarity to the query, and the index of the piece of it that was found."""

    row: StoredMessage
    score: float
    piece: int


class RecallSearch(NamedTuple):
    """The options of a search.

    Attributes:
        top_k: how many messages to return at most.
        threshold: the least similarity; None: any.
        near_duplicates: the share of common shingles from which on a message is a duplicate of a better one; None:
            duplicates stay.
        ranking: how to rank the messages; None: by similarity alone.
    """

    top_k: int
    threshold: float | None
    near_duplicates: float | None
    ranking: RecallRanking | None


@dataclass(frozen=True, slots=True)
class RecallIndex:
    """An index of messages by the vectors of their texts. Lives as long as its processor.

    Attributes:
        storage: holds the messages.
        vectors: holds the vectors.
        embedder: makes the vectors.
        name: the name of the index in ``vectors``.
        clock: the time, for the ages of messages.
    """

    storage: Storage
    vectors: VectorStore
    embedder: Embedder
    name: str
    clock: Clock

    # Adding

    async def add(self, messages: Iterable[Message], thread_id: str, resource_id: str | None) -> int:
        """Index messages of a thread, with one call of the embedder. Return how many of them had text.

        Raises:
            ModelError: the embedder failed.
            OwnershipError: the thread belongs to another resource.
            StorageError: the store failed.
        """
        found = dict(_texts(messages))
        if not found:
            return 0
        thread = check_owner(self.storage, await self.storage.thread(thread_id), resource_id)
        owner = resource_id or ("" if thread is None else thread.resource_id)
        vectors = await self.embedder.embed(list(found.values()))
        entries = [
            VectorEntry(entry_id(id_, piece), vector, id_, thread_id, owner)
            for (id_, piece), vector in zip(found, vectors, strict=True)
        ]
        await self.vectors.upsert_vectors(self.name, entries)
        return len({id_ for id_, _ in found})

    async def remove(self, ids: Sequence[str]) -> None:
        """Remove messages from the index."""
        await self.vectors.delete_vectors(self.name, ids)

    async def rebuild(self, thread_id: str | None, resource_id: str | None) -> int:
        """Index all stored messages of a thread, a resource, or everybody again. Return how many had text.

        Raises:
            NotStoredError: there is no such thread.
            OwnershipError: the thread belongs to another resource.
        """
        count = 0
        async for thread in self._threads(thread_id, resource_id):
            before: str | None = None
            while True:
                page = await self.storage.messages(thread.id, limit=_PAGE, before=before, oldest_first=True)
                if page.items:
                    await self.remove([row.message.id for row in page.items])
                    count += await self.add([row.message for row in page.items], thread.id, thread.resource_id)
                before = page.following
                if before is None:
                    break
        return count

    async def _threads(self, thread_id: str | None, resource_id: str | None) -> AsyncIterator[Thread]:
        if thread_id is not None:
            thread = check_owner(self.storage, await self.storage.thread(thread_id), resource_id)
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

    # Searching

    async def scope(self, scope: MemoryScope, thread_id: str, resource_id: str | None) -> RecallScope:
        """Return which messages to search. Without a resource, the scope ``resource`` is that of the thread.

        Raises:
            OwnershipError: the thread belongs to another resource.
        """
        if scope == "resource" and resource_id is not None:
            return RecallScope(None, resource_id)
        if resource_id is not None:
            check_owner(self.storage, await self.storage.thread(thread_id), resource_id)
        return RecallScope(thread_id, None)

    async def search(self, query: str, options: RecallSearch, scope: RecallScope) -> list[RecallHit]:
        """Return the best messages for a query, best first.

        The search is repeated with a higher limit if too many hits were unusable: pieces of the same message,
        duplicates, deleted messages, and messages of other owners.
        """
        vectors = await self.embedder.embed(_query_texts(query))
        limit = min(options.top_k * (1 if options.ranking is None else options.ranking.candidates), _MOST_HITS)
        rows: dict[str, StoredMessage] = {}
        best: list[RecallHit] = []
        for _ in range(_MOST_ROUNDS):
            hits, more = await self._nearest(vectors, limit, options, scope)
            fresh = [message_id for message_id in hits if message_id not in rows]
            rows |= {row.message.id: row for row in await self.storage.messages_by_id(fresh)} if fresh else {}
            usable = [RecallHit(rows[id_], hit.score, _piece_of(hit)) for id_, hit in hits.items() if id_ in rows]
            best = self._best(query, usable, options, scope)
            if len(best) >= options.top_k or not more or limit == _MOST_HITS:
                break
            limit = min(limit * _WIDER, _MOST_HITS)
        return best

    async def with_neighbours(
        self, hits: Sequence[RecallHit], before: int, after: int, scope: RecallScope
    ) -> list[StoredMessage]:
        """Return the messages of hits with their neighbours, by thread and order."""
        ids = [hit.row.message.id for hit in hits]
        if not ids:
            return []
        if before or after:
            rows: Iterable[StoredMessage] = await self.storage.messages_around(ids, before=before, after=after)
        else:
            rows = sorted([hit.row for hit in hits], key=lambda row: (row.message.thread_id or "", row.order))
        return [row for row in rows if row.message.role != "system" and scope.contains(row.message)]

    async def _nearest(
        self, vectors: Sequence[Sequence[float]], limit: int, options: RecallSearch, scope: RecallScope
    ) -> tuple[Mapping[str, VectorHit], bool]:
        """Return the best hit of each message, nearest first, and whether there may be more."""
        best: dict[str, VectorHit] = {}
        more = False
        for vector in vectors:
            found = await self.vectors.query_vectors(
                self.name,
                vector,
                limit=limit,
                thread_id=scope.thread_id,
                resource_id=scope.resource_id,
                threshold=options.threshold,
            )
            more = more or len(found) >= limit
            for hit in found:
                known = best.get(hit.message_id)
                if known is None or hit.score > known.score:
                    best[hit.message_id] = hit
        return dict(sorted(best.items(), key=lambda each: -each[1].score)), more

    def _best(
        self, query: str, hits: Sequence[RecallHit], options: RecallSearch, scope: RecallScope
    ) -> list[RecallHit]:
        """Return the best hits without duplicates. Of duplicates with equal scores, the newest stays."""
        own = [hit for hit in hits if scope.contains(hit.row.message) and hit.row.message.role != "system"]
        if len(own) < len(hits):
            _LOG.warning("the recall index has entries for messages of other owners; they are ignored")
        scores = self._scores(query, own, options.ranking)
        order = sorted(
            range(len(own)), key=lambda at: (-round(scores[at], 6), -message_time(own[at].row.message).timestamp())
        )
        chosen: list[RecallHit] = []
        compared: list[frozenset[tuple[str, ...]]] = []
        for hit in (own[at] for at in order):
            if len(chosen) == options.top_k:
                break
            if options.near_duplicates is not None:
                found = shingles(memory_text(hit.row.message))
                if is_near_duplicate(found, compared, options.near_duplicates):
                    continue
                compared.append(found)
            chosen.append(hit)
        return chosen

    def _scores(self, query: str, hits: Sequence[RecallHit], ranking: RecallRanking | None) -> list[float]:
        likeness = [hit.score for hit in hits]
        if ranking is None:
            return likeness
        now = self.clock.now()
        ages = [_age(hit.row.message, now) for hit in hits]
        return ranking.scores(query, [memory_text(hit.row.message) for hit in hits], likeness, ages)


def entry_id(message_id: str, piece: int) -> str:
    """Return the id of an entry: that of the message for its first piece, with a number for further ones."""
    return f"{message_id}#{piece}" if piece else message_id


def _piece_of(hit: VectorHit) -> int:
    """Return the index of the piece of a message that an entry is for; see `entry_id`."""
    number = hit.id.removeprefix(hit.message_id).removeprefix("#")
    return int(number) if number.isascii() and number.isdigit() else 0


def _query_texts(query: str) -> list[str]:
    """Return the texts to search for: the query, or the pieces at both ends of a long one."""
    found = [piece.text for piece in pieces(query)]
    half = _MOST_QUERIES // 2
    return found if len(found) <= _MOST_QUERIES else [*found[:half], *found[-half:]]


def _texts(messages: Iterable[Message]) -> Iterable[tuple[tuple[str, int], str]]:
    """Yield the pieces of the texts of messages, each with the id of the message and its own index."""
    for message in messages:
        stored = storable_message(message)
        for number, piece in enumerate(islice(pieces("" if stored is None else memory_text(stored)), _MOST_PIECES)):
            yield (message.id, number), piece.text
