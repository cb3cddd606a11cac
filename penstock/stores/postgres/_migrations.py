"""The tables of the storage, version by version, forward only.

Each process that opens the storage looks which versions exist, and creates missing tables in one transaction, under a
lock of the whole database. The tables of vectors are a separate part, created when vectors are first stored: a server
without pgvector can still store messages. So are those of what replicas share (`_shared_tables`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import StorageError
from penstock.stores.postgres._shared_tables import SHARED

if TYPE_CHECKING:
    from penstock.stores.postgres._connections import Session

LOCK = 0x70656E73746F636B
"""The key of the lock under which tables are created: the bytes of "penstock"."""

_GRANT = """
    DO $$
    DECLARE role text;
    BEGIN
        FOR role IN
            SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
            FROM pg_class, aclexplode(relacl)
            WHERE pg_class.oid = '{schema}.threads'::regclass AND privilege_type = 'INSERT' AND grantee <> relowner
        LOOP
            EXECUTE 'GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.{table} TO ' || role;
        END LOOP;
    END $$;
"""
"""Lets users who may write to ``threads`` use a table that is added."""

MEMORY = (
    """
    CREATE TABLE {schema}.threads (
        id text COLLATE "C" PRIMARY KEY,
        resource_id text COLLATE "C" NOT NULL,
        title text NOT NULL,
        metadata text NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        version bigint NOT NULL DEFAULT 1,
        change text NOT NULL DEFAULT '',
        last_order bigint NOT NULL DEFAULT 0
    );
    CREATE INDEX threads_by_change ON {schema}.threads (updated_at DESC, id);
    CREATE INDEX threads_of_resource ON {schema}.threads (resource_id, updated_at DESC, id);
    CREATE TABLE {schema}.messages (
        id text COLLATE "C" PRIMARY KEY,
        thread_id text COLLATE "C" NOT NULL REFERENCES {schema}.threads ON DELETE CASCADE,
        order_key bigint NOT NULL,
        created_at timestamptz NOT NULL,
        body text NOT NULL,
        UNIQUE (thread_id, order_key)
    );
    CREATE TABLE {schema}.working_memories (
        scope text NOT NULL,
        key text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        body text NOT NULL,
        author text NOT NULL,
        updated_at timestamptz NOT NULL,
        change text NOT NULL,
        PRIMARY KEY (scope, key, version)
    );
    """,
    """
    CREATE TABLE {schema}.writers (
        id text COLLATE "C" PRIMARY KEY,
        last_change text COLLATE "C" NOT NULL,
        at timestamptz NOT NULL
    ) WITH (fillfactor = 50);
    ALTER TABLE {schema}.threads ALTER change SET DEFAULT '';
    ALTER TABLE {schema}.working_memories ALTER change SET DEFAULT '';
    """
    + _GRANT.replace("{table}", "writers"),
    """
    CREATE TABLE {schema}.runs (
        id text COLLATE "C" PRIMARY KEY,
        agent text COLLATE "C" NOT NULL,
        status text COLLATE "C" NOT NULL,
        thread_id text COLLATE "C",
        resource_id text COLLATE "C",
        due_at timestamptz,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        version bigint NOT NULL,
        body text NOT NULL
    );
    CREATE INDEX runs_in_order ON {schema}.runs (created_at, id);
    CREATE INDEX runs_by_status ON {schema}.runs (status, created_at, id);
    CREATE INDEX runs_by_agent ON {schema}.runs (agent, created_at, id);
    CREATE INDEX runs_by_both ON {schema}.runs (status, agent, created_at, id);
    CREATE INDEX runs_of_thread ON {schema}.runs (thread_id) WHERE thread_id IS NOT NULL;
    CREATE INDEX runs_of_resource ON {schema}.runs (resource_id) WHERE resource_id IS NOT NULL;
    """
    + _GRANT.replace("{table}", "runs"),
)
"""Titles, metadata, messages, memories and bodies of runs are JSON as text: unlike ``jsonb``, it can hold every
character.

``writers`` holds the last change of each writer: a retry sees there whether the attempt before was committed. Users who
may write to ``threads`` may write to it, and to ``runs``. The columns ``change`` are not used since version 2;
processes of version 1 that still run write them.
"""

VECTORS = (
    """
    CREATE TABLE {schema}.vector_indexes (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        length integer NOT NULL,
        has_hnsw boolean NOT NULL DEFAULT false
    );
    CREATE TABLE {schema}.vectors (
        index_id integer NOT NULL REFERENCES {schema}.vector_indexes,
        id text COLLATE "C" NOT NULL,
        message_id text COLLATE "C" NOT NULL,
        thread_id text COLLATE "C" NOT NULL,
        resource_id text COLLATE "C" NOT NULL,
        direction {vector}.vector,
        PRIMARY KEY (index_id, id)
    ) WITH (toast_tuple_target = 8160);
    CREATE INDEX vectors_of_message ON {schema}.vectors (message_id);
    CREATE INDEX vectors_of_thread ON {schema}.vectors (index_id, thread_id);
    CREATE INDEX vectors_of_resource ON {schema}.vectors (index_id, resource_id);
    CREATE FUNCTION {schema}.delete_vectors() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        DELETE FROM {schema}.vectors USING gone WHERE vectors.message_id = gone.id;
        RETURN NULL;
    END $$;
    CREATE TRIGGER delete_vectors AFTER DELETE ON {schema}.messages
        REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {schema}.delete_vectors();
    """,
)
"""A trigger deletes the vectors of deleted messages, in the same transaction, whoever deletes them and how.

Vectors of up to 2,000 numbers are stored in their rows: fetching each from the separate storage that PostgreSQL uses
for long values takes several times as long as comparing it.
"""

_PARTS = {"memory": MEMORY, "vectors": VECTORS, "shared": SHARED}


async def migrate(session: Session, part: str, label: str, **names: str) -> None:
    """Bring a part of the tables to the newest version.

    Args:
        session: a session in a transaction.
        part: ``memory``, ``vectors`` or ``shared``.
        label: names the storage in errors.
        names: the values of further placeholders in the statements.

    Raises:
        StorageError: the tables are of a newer version of Penstock.
    """
    versions = _PARTS[part]
    if await version(session, part, label) == len(versions):
        return
    await session.run("SELECT pg_advisory_xact_lock($1)", LOCK)
    await _make_schema(session)
    there = await version(session, part, label)
    for sql in versions[there:]:
        for name, stands_for in names.items():
            sql = sql.replace(f"{{{name}}}", stands_for)  # noqa: PLW2901 - the same statement, filled in
        await session.run(sql)
    await session.run(
        "INSERT INTO {schema}.versions (part, version) VALUES ($1, $2) "
        "ON CONFLICT (part) DO UPDATE SET version = excluded.version",
        part,
        len(versions),
    )


async def version(session: Session, part: str, label: str) -> int:
    """Return the version of a part of the tables; 0 if it does not exist.

    Raises:
        StorageError: it is newer than this Penstock, which must neither read nor write it.
    """
    if await session.value("SELECT to_regclass($1)::text", f"{session.schema}.versions") is None:
        return 0
    found: int | None = await session.value("SELECT version FROM {schema}.versions WHERE part = $1", part)
    known = len(_PARTS[part])
    if found is not None and found > known:
        told = f"its tables ({part}) have version {found}, but this Penstock supports {known}"
        raise StorageError(label, f"{told}: use a newer Penstock")
    return found or 0


def is_newest(part: str, there: int) -> bool:
    """Tell whether a version is the newest of a part."""
    return there == len(_PARTS[part])


async def forget_writers(session: Session) -> None:
    """Delete the rows of writers that have not written for a month: their processes have ended."""
    await session.run("DELETE FROM {schema}.writers WHERE at < now() - interval '31 days'")


async def _make_schema(session: Session) -> None:
    """Create the schema and the table of versions.

    A user without the right to create a schema can use an existing one.
    """
    name = session.schema.strip('"')
    if not await session.value("SELECT 1 FROM pg_namespace WHERE nspname = $1", name):
        await session.run("CREATE SCHEMA {schema}")
    await session.run("CREATE TABLE IF NOT EXISTS {schema}.versions (part text PRIMARY KEY, version integer NOT NULL)")
