"""The tables of PostgresStorage: made once, refused if they are newer, and theirs alone."""

import asyncpg
import pytest

from penstock import StorageError
from penstock.engine import NotStoredError
from penstock.engine.values.stored import StoredRun, Thread
from penstock.stores.postgres import PostgresStorage, _migrations
from tests.stores.made import entry, found, ids, many
from tests.stores.postgres.servers import of


@pytest.fixture
async def looking(server):
    """A connection of somebody else's."""
    connection = await asyncpg.connect(server.url)
    yield connection
    await connection.close()


async def test_tables_of_a_newer_penstock_are_refused(server, schema, looking):
    """Rather than read wrongly."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.thread("t")
        await looking.execute(of(schema, "UPDATE SCHEMA.versions SET version = 99"))
    async with PostgresStorage(server.url, schema=schema) as store:
        with pytest.raises(StorageError, match="use a newer Penstock"):
            await store.thread("t")


async def test_newer_tables_of_vectors_are_refused_whatever_is_asked(server, schema, looking):
    """Read or written; messages, which are another part, are there all the same."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.save_messages(many(2))
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        await looking.execute(of(schema, "UPDATE SCHEMA.versions SET version = 99 WHERE part = 'vectors'"))
    vectors = {
        "upsert": lambda store: store.upsert_vectors("i", [entry("b", [1, 0])]),
        "query": lambda store: store.query_vectors("i", [1, 0], limit=9),
        "delete": lambda store: store.delete_vectors("i", ["t-m1"]),
        "build": lambda store: store.build_hnsw("i"),
        "thread": lambda store: store.delete_thread("t"),
        "resource": lambda store: store.delete_resource("r"),
    }
    for name, work in vectors.items():
        for search in ("exact", "hnsw"):
            async with PostgresStorage(server.url, schema=schema, vector_search=search) as store:
                with pytest.raises(StorageError, match=r"\(vectors\) have version 99.* use a newer Penstock"):
                    await work(store)
                assert len((await store.messages("t")).items) == 2, name


async def test_tables_of_the_last_version_are_upgraded(server, schema, looking):
    """With what they hold, and for whoever may write to them."""
    role = f"{schema}_old"
    await looking.execute(f"CREATE SCHEMA {schema}")
    await looking.execute(_migrations.MEMORY[0].replace("{schema}", schema))
    await looking.execute(of(schema, "CREATE TABLE SCHEMA.versions (part text PRIMARY KEY, version integer NOT NULL)"))
    await looking.execute(of(schema, "INSERT INTO SCHEMA.versions VALUES ('memory', 1)"))
    await looking.execute(
        of(schema, "INSERT INTO SCHEMA.threads VALUES ('t', 'r', '\"title\"', '{}', now(), now(), 3, 'change')")
    )
    memory = "INSERT INTO SCHEMA.working_memories VALUES ('thread', 't', 1, '\"text\"', '\"\"', now(), 'change')"
    await looking.execute(of(schema, memory))
    await looking.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pass-word'")
    await looking.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    await looking.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
    try:
        async with PostgresStorage(server.url, schema=schema) as store:
            assert (await store.update_thread("t", title="new", expected=3)).version == 4
            assert (await store.put_working_memory("thread", "t", "more", expected=1)).version == 2
        assert await looking.fetchval(of(schema, "SELECT version FROM SCHEMA.versions")) == len(_migrations.MEMORY)
        url = server.url.replace("postgres:@", f"{role}:pass-word@")
        async with PostgresStorage(url, schema=schema) as store:
            assert (await store.update_thread("t", title="theirs")).version == 5
            assert (await store.save_run(StoredRun("x", "mailer", thread_id="t"))).version == 1
            assert await store.delete_thread("t") is True
            assert await store.run("x") is None
    finally:
        await looking.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_pages_of_runs_are_read_through_an_index(server, schema, looking):
    """Whatever is asked for, nothing is sorted where that can be spared."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.run("x")
    await looking.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off")
    for asked in ("status = 'waiting'", "agent = 'a'", "status = 'waiting' AND agent = 'a'", "true"):
        rows = await looking.fetch(
            of(schema, f"EXPLAIN SELECT body FROM SCHEMA.runs WHERE {asked} AND (created_at, id) > (now(), 'x') ")  # noqa: S608
            + "ORDER BY created_at, id LIMIT 51"
        )
        plan = "\n".join(row[0] for row in rows)
        assert "Index Scan using runs_" in plan
        assert "Sort" not in plan


async def test_a_run_that_somebody_else_has_written_is_an_error_without_its_text(server, schema, looking):
    """It says what cannot be read."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.save_run(StoredRun("x", "mailer"))
        await looking.execute(of(schema, "UPDATE SCHEMA.runs SET body = 'secret'"))
        with pytest.raises(StorageError, match="cannot be read") as caught:
            await store.run("x")
        assert "secret" not in str(caught.value)


async def test_schemas_are_apart(server, schema):
    """Two stores in one database know nothing of each other."""
    async with (
        PostgresStorage(server.url, schema=schema) as one,
        PostgresStorage(server.url, schema=f"{schema}_B") as other,
    ):
        await one.save_messages(many(1))
        assert await other.thread("t") is None
        await other.create_thread(Thread("t", "somebody else"))
        assert (await one.thread("t")).resource_id == "r"


async def test_a_message_that_is_deleted_by_hand_takes_its_vectors_along(server, schema, looking):
    """A trigger sees to it."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.save_messages([*many(2), *many(1, "u")])
        vectors = [entry("a", [1, 0], message="t-m1"), entry("b", [1, 0], message="t-m2")]
        await store.upsert_vectors("i", [*vectors, entry("c", [1, 0], message="u-m1", thread="u")])
        await looking.execute(of(schema, "DELETE FROM SCHEMA.messages WHERE id = 't-m1'"))
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["b", "c"]
        await looking.execute(of(schema, "DELETE FROM SCHEMA.threads WHERE id = 't'"))
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["c"]


@pytest.mark.rest
async def test_a_user_who_may_make_nothing_uses_tables_that_are_there(server, schema, looking):
    """And is told what is missing where they are not."""
    role = f"{schema}_role"
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.save_messages(many(1))
        await store.upsert_vectors("i", [entry("a", [1, 0])])
    await looking.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'pass-word'")
    try:
        await looking.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        await looking.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
        url = server.url.replace("postgres:@", f"{role}:pass-word@")
        async with PostgresStorage(url, schema=schema) as store:
            await store.save_messages(many(1, start=2))
            assert ids((await store.messages("t")).items) == ["t-m2", "t-m1"]
            assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a"]
        async with PostgresStorage(url, schema=f"{schema}_none") as store:
            with pytest.raises(StorageError, match="CREATE on the database") as caught:
                await store.thread("t")
            assert "pass-word" not in str(caught.value)
    finally:
        await looking.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


POINTS = {f"e{n:04}": [(n * 7919 % 101) - 50, (n * 104729 % 97) - 48, 30] for n in range(1200)}
VECTORS = [entry(name, point, thread=f"t{int(name[1:]) % 2}") for name, point in POINTS.items()]


async def hnsw_indexes(looking, schema):
    """How many there are."""
    built = await looking.fetch("SELECT indexdef FROM pg_indexes WHERE schemaname = $1", schema)
    return sum("hnsw" in row["indexdef"] for row in built)


async def test_a_small_index_can_be_given_hnsw_later(server, schema, looking):
    """It is built over what is there, once, and finds the same; a thread's vectors are looked through."""
    async with PostgresStorage(server.url, schema=schema) as exact:
        await exact.upsert_vectors("i", VECTORS[:300])
        nearest = await exact.query_vectors("i", [3, 2, 1], limit=5)
    async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as walking:
        assert await walking.query_vectors("i", [3, 2, 1], limit=5) == nearest
        await walking.upsert_vectors("i", VECTORS[:1])
        await walking.upsert_vectors("i", VECTORS[:1])
        assert await hnsw_indexes(looking, schema) == 1
        assert await walking.query_vectors("i", [3, 2, 1], limit=5) == nearest
        assert len(await walking.query_vectors("i", [3, 2, 1], limit=500, thread_id="t1")) == 150


async def test_a_large_index_is_given_hnsw_when_that_is_asked_for(server, schema, looking, caplog):
    """Until then its vectors are looked through, and the log says so once."""
    async with PostgresStorage(server.url, schema=schema) as exact:
        await exact.upsert_vectors("i", VECTORS)
        nearest = await exact.query_vectors("i", [3, 2, 1], limit=5)
    async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as walking:
        for _ in range(2):
            await walking.upsert_vectors("i", VECTORS[:1])
        assert await hnsw_indexes(looking, schema) == 0
        assert [record.message.rpartition(": ")[2] for record in caplog.records] == [
            "vectors are compared one by one until you call `await build_hnsw(index)`"
        ]
        assert await walking.query_vectors("i", [3, 2, 1], limit=5) == nearest
        for _ in range(2):
            await walking.build_hnsw("i")
        assert await hnsw_indexes(looking, schema) == 1
        assert await walking.query_vectors("i", [3, 2, 1], limit=5) == nearest


async def test_only_what_is_there_is_built_and_what_is_broken_off_is_told(server, schema, looking):
    """With the cure."""
    async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as store:
        with pytest.raises(NotStoredError):
            await store.build_hnsw("i")
        await store.upsert_vectors("i", VECTORS[:3])
        await looking.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass($1)", f"{schema}.vectors_hnsw_1"
        )
        with pytest.raises(StorageError, match="DROP INDEX"):
            await store.build_hnsw("i")


@pytest.mark.parametrize("length", [2000, 2001, 4000])
async def test_long_vectors_may_have_hnsw(server, schema, length):
    """Up to 4,000 numbers, beyond 2,000 with 16 bits each."""
    async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as store:
        some = [entry(f"e{n}", [float((n + place) % 7 - 3) for place in range(length)]) for n in range(7)]
        await store.upsert_vectors("i", some)
        hits = await store.query_vectors("i", some[3].vector, limit=1)
        assert [(hit.id, hit.score) for hit in hits] == [("e3", pytest.approx(1))]


async def test_vectors_too_long_for_hnsw_are_refused_with_the_cure(server, schema):
    """They can be looked through."""
    long = [entry("a", [1.0] * 4001)]
    async with PostgresStorage(server.url, schema=schema, vector_search="hnsw") as store:
        with pytest.raises(StorageError, match="exact"):
            await store.upsert_vectors("i", long)
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.upsert_vectors("i", long)
        assert found(await store.query_vectors("i", [1.0] * 4001, limit=1)) == ["a"]
