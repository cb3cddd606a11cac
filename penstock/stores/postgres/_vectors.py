"""Store and search vectors on a PostgreSQL session, with pgvector.

All indexes are in one table, as vectors of length 1, whose inner product is the cosine. Vectors of zeros have no
direction: they are stored, and never found. Scores are rounded to 6 decimals, since 32-bit numbers have seven digits.
"""

from __future__ import annotations

import logging
import struct
from math import hypot
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.errors import NotStoredError, StorageError
from penstock.engine.values.stored import VectorHit
from penstock.stores.encoding import blob
from penstock.stores.postgres._migrations import LOCK, is_newest, migrate, version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.stored import VectorEntry
    from penstock.stores.postgres._connections import Session

log = logging.getLogger("penstock")

MOST_HNSW = 4000
"""The most numbers of a vector in an index with HNSW; from 2,001 on they are indexed with 16 bits each.

Source: pgvector's documentation, "HNSW".
"""

MOST_WHOLE = 2000
"""The most numbers of a vector that HNSW indexes with 32 bits each."""

LOOKED_THROUGH = 20_000
"""Up to this number, the vectors of one resource are compared one by one although there is an HNSW index: that takes a
few milliseconds, and finds what an index over all resources may miss."""

BUILT_AT_ONCE = 1000
"""Up to this number of vectors, an HNSW index is built when vectors are stored: that takes a second or less, and others
that store vectors wait for it. For more, it is built by `build_hnsw`, while others go on."""

BUILDING = 7 * 86400.0
"""The longest time, in seconds, that building an HNSW index may take: a week."""

_PGVECTOR = """
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'
"""

_INDEX = """
    SELECT indexes.id, length, has_hnsw, quote_ident(nspname) AS pgvector,
        string_to_array(extversion, '.')::int[] >= '{0,8}' AS goes_on
    FROM {schema}.vector_indexes AS indexes, pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE name = $1 AND extname = 'vector'
"""

_UPSERT = """
    INSERT INTO {schema}.vectors (index_id, id, message_id, thread_id, resource_id, direction)
    VALUES ($1, $2, $3, $4, $5, $6::real[]::{pgvector}.vector)
    ON CONFLICT (index_id, id) DO UPDATE SET message_id = excluded.message_id, thread_id = excluded.thread_id,
        resource_id = excluded.resource_id, direction = excluded.direction
"""

_DELETE_OF = "DELETE FROM {schema}.vectors WHERE resource_id = $1 OR thread_id = ANY($2::text[])"

_BUILD = """
    CREATE INDEX {concurrently} IF NOT EXISTS vectors_hnsw_{index} ON {schema}.vectors
    USING hnsw ((direction::{kind}({length})) {pgvector}.{name}_ip_ops)
    WHERE index_id = {index} AND direction IS NOT NULL
"""

_BUILT = "UPDATE {schema}.vector_indexes SET has_hnsw = true WHERE id = $1"

_IS_WHOLE = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"

_LOOK_THROUGH = """
    WITH scored AS (
        SELECT id, message_id, thread_id, resource_id,
            round(-(direction OPERATOR({pgvector}.<#>) $1::real[]::{pgvector}.vector) * 1e6) / 1e6 AS score
        FROM {schema}.vectors WHERE index_id = {index} AND direction IS NOT NULL{filters}
    )
    SELECT * FROM scored{least} ORDER BY score DESC, id LIMIT $2
"""

_WALK = """
    WITH near AS MATERIALIZED (
        SELECT id, message_id, thread_id, resource_id, direction
        FROM {schema}.vectors WHERE index_id = {index} AND direction IS NOT NULL{filters}
        ORDER BY (direction::{kind}({length})) OPERATOR({pgvector}.<#>) $1::real[]::{kind} LIMIT $2 * 2 + 20
    ), scored AS (
        SELECT id, message_id, thread_id, resource_id,
            round(-(direction OPERATOR({pgvector}.<#>) $1::real[]::{pgvector}.vector) * 1e6) / 1e6 AS score
        FROM near
    )
    SELECT * FROM scored{least} ORDER BY score DESC, id LIMIT $2
"""


class VectorQuery(NamedTuple):
    """A search; see `VectorStore.query_vectors`."""

    vector: Sequence[float]
    limit: int
    thread_id: str | None
    resource_id: str | None
    threshold: float | None


class VectorIndex(NamedTuple):
    """An index: its number, the length of its vectors, whether it has HNSW, and the schema of pgvector's types."""

    id: int
    length: int
    has_hnsw: bool
    pgvector: str
    goes_on: bool

    def filled(self, sql: str) -> str:
        """Return a statement with the index's values filled in: numbers, and names that the server has quoted."""
        name = "vector" if self.length <= MOST_WHOLE else "halfvec"
        sql = sql.replace("{kind}", f"{self.pgvector}.{name}").replace("{name}", name)
        sql = sql.replace("{pgvector}", self.pgvector)
        return sql.replace("{index}", str(self.id)).replace("{length}", str(self.length))


def _direction(vector: Sequence[float], label: str, length: int | None = None) -> list[float] | None:
    """Return the vector scaled to length 1; None for a vector of zeros."""
    numbers: tuple[float, ...] = struct.unpack(f"<{len(vector)}f", blob(vector, label, length))
    size = hypot(*numbers)
    return [number / size for number in numbers] if size else None


class Vectors:
    """The vectors of one storage, compared one by one, or searched with an HNSW index.

    Attributes:
        needs_settings: whether queries need settings of their own, as those with HNSW do, and so a transaction.
    """

    def __init__(self, label: str, *, hnsw: bool) -> None:
        self._label = label
        self.needs_settings = hnsw
        self._are_there = self._is_newest = False
        self._has_told = False

    def forget(self) -> None:
        """Look for the tables again: the storage was closed."""
        self._are_there = self._is_newest = False

    async def upsert(self, session: Session, index: str, entries: Sequence[VectorEntry]) -> None:
        """Store vectors, all or none; tables and index are created at first use."""
        length = len(entries[0].vector)
        directions = [_direction(entry.vector, self._label, length) for entry in entries]
        if not await self._is_ready(session) or not self._is_newest:
            await self._make_tables(session)
        found = await self._index(session, index) or await self._make_index(session, index, length)
        if found.length != length:
            raise StorageError(self._label, _other_length(length, found.length))
        if self.needs_settings and not found.has_hnsw:
            await self._build_if_small(session, found)
        rows = zip(entries, directions, strict=True)
        await session.run_each(
            found.filled(_UPSERT),
            [
                (found.id, entry.id, entry.message_id, entry.thread_id, entry.resource_id, direction)
                for entry, direction in sorted(rows, key=lambda row: row[0].id)
            ],
        )

    async def query(self, session: Session, index: str, search: VectorQuery) -> tuple[VectorHit, ...]:
        """Return the nearest vectors by cosine, the nearest first, equal ones by id."""
        direction = _direction(search.vector, self._label)
        found = await self._index(session, index) if await self._is_ready(session) else None
        if found is None:
            return ()
        if found.length != len(search.vector):
            raise StorageError(self._label, _other_length(len(search.vector), found.length))
        if direction is None:
            return ()
        values: list[Value] = [direction, search.limit]
        filters = ""
        for column in ("thread_id", "resource_id"):
            if (value := getattr(search, column)) is not None:
                values.append(value)
                filters += f" AND {column} = ${len(values)}"
        least = ""
        if search.threshold is not None:
            values.append(float(search.threshold))
            least = f" WHERE score >= ${len(values)}"
        walks = self.needs_settings and found.has_hnsw and await self._are_many(session, found, search)
        if walks:
            await _look_wide(session, found, search.limit)
        sql = found.filled(_WALK if walks else _LOOK_THROUGH).replace("{filters}", filters).replace("{least}", least)
        return tuple(_hit(row) for row in await session.rows(sql, *values))

    async def delete(self, session: Session, index: str, message_ids: Sequence[str]) -> Sequence[str]:
        """Delete the vectors of messages from an index; return their ids."""
        found = await self._index(session, index) if await self._is_ready(session) else None
        if found is None:
            return ()
        rows = await session.rows(
            "DELETE FROM {schema}.vectors WHERE index_id = $1 AND message_id = ANY($2::text[]) RETURNING id",
            found.id,
            list(message_ids),
        )
        return [row["id"] for row in rows]

    async def delete_thread(self, session: Session, thread_id: str) -> None:
        """Delete the vectors of a thread from all indexes, also those of messages that are stored elsewhere."""
        if await self._is_ready(session):
            await session.run("DELETE FROM {schema}.vectors WHERE thread_id = $1", thread_id)

    async def delete_resource(self, session: Session, resource_id: str, thread_ids: Sequence[str]) -> None:
        """Delete the vectors of a resource, and of its threads, from all indexes."""
        if await self._is_ready(session):
            await session.run(_DELETE_OF, resource_id, list(thread_ids))

    async def _is_ready(self, session: Session) -> bool:
        """Tell whether there are tables of vectors.

        Raises:
            StorageError: they are of a newer version of Penstock.
        """
        if not self._are_there:
            there = await version(session, "vectors", self._label)
            self._are_there, self._is_newest = there > 0, is_newest("vectors", there)
        return self._are_there

    async def _make_tables(self, session: Session) -> None:
        await session.run("SELECT pg_advisory_xact_lock($1)", LOCK)
        pgvector: str | None = await session.value(_PGVECTOR)
        if pgvector is None:
            if not await session.value("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
                raise StorageError(self._label, "the server has no pgvector, which vectors need; install it there")
            await session.run("CREATE EXTENSION IF NOT EXISTS vector")
            pgvector = await session.value(_PGVECTOR)
        await migrate(session, "vectors", self._label, vector=str(pgvector))
        self._are_there = False  # until the transaction is committed

    async def _index(self, session: Session, name: str) -> VectorIndex | None:
        row = await session.row(_INDEX, name)
        return None if row is None else VectorIndex(*row.values())

    async def _make_index(self, session: Session, name: str, length: int) -> VectorIndex:
        await session.run(
            "INSERT INTO {schema}.vector_indexes (name, length) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
            name,
            length,
        )
        found = await self._index(session, name)
        if found is None:
            raise StorageError(self._label, "pgvector was removed from the database")
        return found

    async def build(self, session: Session, index: str) -> None:
        """Build the HNSW index of an index's vectors while others read and write; not in a transaction."""
        found = await self._index(session, index) if await self._is_ready(session) else None
        if found is None:
            raise NotStoredError(
                self._label, "there is no index of that name; it is created when vectors are stored in it"
            )
        self._check_length(found)
        await session.run("SET statement_timeout = 0")  # transactions of the storage set their own
        await session.run(found.filled(_BUILD).replace("{concurrently}", "CONCURRENTLY"), timeout=BUILDING)
        name = f"{session.schema}.vectors_hnsw_{found.id}"
        if not await session.value(_IS_WHOLE, name):
            told = "the HNSW index is being built, or an earlier build did not finish"
            raise StorageError(self._label, f"{told}: wait, or DROP INDEX {name}")
        await session.run(_BUILT, found.id)

    async def _build_if_small(self, session: Session, index: VectorIndex) -> None:
        """Build the HNSW index if that is fast; otherwise log once that it must be built."""
        self._check_length(index)
        some = "SELECT 1 FROM {schema}.vectors WHERE index_id = $1 OFFSET $2 LIMIT 1"
        if await session.value(some, index.id, BUILT_AT_ONCE):
            if not self._has_told:
                self._has_told = True
                log.warning("%s: vectors are compared one by one until you call `await build_hnsw(index)`", self._label)
            return
        await session.run("SELECT pg_advisory_xact_lock($1)", LOCK)
        await session.run(index.filled(_BUILD).replace("{concurrently}", ""))
        await session.run(_BUILT, index.id)

    def _check_length(self, index: VectorIndex) -> None:
        if index.length > MOST_HNSW:
            told = f"vectors of {index.length} numbers are too long for HNSW ({MOST_HNSW} at most)"
            raise StorageError(self._label, f"{told}; use vector_search='exact'")

    async def _are_many(self, session: Session, index: VectorIndex, search: VectorQuery) -> bool:
        """Tell whether a query covers too many vectors to compare them one by one."""
        if search.thread_id is not None:
            return False
        if search.resource_id is None:
            return True
        few = "SELECT 1 FROM {schema}.vectors WHERE index_id = $1 AND resource_id = $2 OFFSET $3 LIMIT 1"
        return bool(await session.value(few, index.id, search.resource_id, LOOKED_THROUGH))


async def _look_wide(session: Session, index: VectorIndex, limit: int) -> None:
    """Let HNSW visit more candidates than by default; from pgvector 0.8 on, until there are enough."""
    wide = str(min(1000, max(100, limit * 2 + 20)))
    await session.run("SELECT set_config('hnsw.ef_search', $1, true)", wide)
    if index.goes_on:
        await session.run("SELECT set_config('hnsw.iterative_scan', 'strict_order', true)")


def _hit(row: Values) -> VectorHit:
    score: float = min(1.0, max(-1.0, row["score"]))
    return VectorHit(row["id"], row["message_id"], row["thread_id"], row["resource_id"], score)


def _other_length(given: int, length: int) -> str:
    return f"a vector has {given} numbers, but those of its index have {length}: use one index for each embedder"
