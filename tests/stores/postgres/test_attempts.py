"""PostgresStorage where the end of an attempt is not heard, where others are in the way, and where it is cancelled."""

import copy
import pickle

import anyio
import asyncpg
import pytest

from penstock import StorageError
from penstock.engine import StorageConflictError, UsageError
from penstock.engine.values.stored import StoredRun, Thread
from penstock.stores.postgres import PostgresStorage, _connections
from tests.stores.made import entry, ids, many, said
from tests.stores.postgres.servers import of


@pytest.fixture
async def store(server, schema):
    """An open store."""
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.create_thread(Thread("t", "r", "title"))
        yield store


@pytest.fixture
async def looking(server):
    """A connection of somebody else's."""
    connection = await asyncpg.connect(server.url)
    yield connection
    await connection.close()


@pytest.fixture
def unheard(monkeypatch):
    """A function: of the next transaction that is committed nobody hears."""
    commit = _connections._commit
    pending = []

    async def lose(connection):
        await commit(connection)
        if pending:
            pending.pop()
            raise ConnectionResetError

    monkeypatch.setattr(_connections, "_commit", lose)
    return lambda: pending.append(True)


async def test_messages_whose_commit_was_not_heard_of_are_there_once(store, unheard):
    """They keep their places."""
    unheard()
    stored = await store.save_messages(many(3))
    page = await store.messages("t", oldest_first=True)
    assert page.items == stored
    assert ids(stored) == ["t-m1", "t-m2", "t-m3"]


async def test_a_change_whose_commit_was_not_heard_of_is_made_once(store, unheard):
    """It is no conflict with itself."""
    unheard()
    changed = await store.update_thread("t", title="new", expected=1)
    assert (changed.title, changed.version) == ("new", 2)
    unheard()
    assert (await store.update_thread("t", metadata={"a": 1})).version == 3


async def test_a_working_memory_whose_commit_was_not_heard_of_is_stored_once(store, unheard):
    """Also where nothing was expected."""
    unheard()
    assert (await store.put_working_memory("thread", "t", "one", expected=0)).version == 1
    unheard()
    assert (await store.put_working_memory("thread", "t", "two", expected=None)).version == 2
    assert len(await store.working_memory_history("thread", "t")) == 2
    with pytest.raises(StorageConflictError):
        await store.put_working_memory("thread", "t", "three", expected=1)


async def test_what_was_deleted_unheard_of_is_counted(store, unheard):
    """There was something to delete, and it is gone."""
    await store.save_messages(many(3))
    await store.upsert_vectors("i", [entry("a", [1, 0], message="t-m1"), entry("b", [1, 0], message="t-m2")])
    unheard()
    assert await store.delete_vectors("i", ["t-m2"]) == 1
    unheard()
    assert await store.delete_messages(["t-m1", "t-m2"]) == 2
    unheard()
    assert await store.delete_thread("t") is True
    assert await store.thread("t") is None


CHANGES = {
    "update_thread": (
        lambda mine: mine.update_thread("t", title="mine", expected=1),
        lambda theirs: theirs.update_thread("t", title="theirs"),
        lambda got: (got.title, got.version) == ("mine", 2),
        lambda theirs: theirs.thread("t"),
        lambda kept: kept.title == "theirs",
    ),
    "save_messages": (
        lambda mine: mine.save_messages(many(1)),
        lambda theirs: theirs.delete_messages(["t-m1"]),
        lambda got: ids(got) == ["t-m1"],
        lambda theirs: theirs.messages_by_id(["t-m1"]),
        lambda kept: not kept,
    ),
    "delete_messages": (
        lambda mine: mine.delete_messages(["old"]),
        lambda theirs: theirs.save_messages([said("old", "again")]),
        lambda got: got == 1,
        lambda theirs: theirs.messages_by_id(["old"]),
        lambda kept: len(kept) == 1,
    ),
    "delete_thread": (
        lambda mine: mine.delete_thread("t"),
        lambda theirs: theirs.save_messages(many(1)),
        lambda got: got is True,
        lambda theirs: theirs.messages_by_id(["t-m1"]),
        lambda kept: len(kept) == 1,
    ),
    "delete_resource": (
        lambda mine: mine.delete_resource("r"),
        lambda theirs: theirs.save_messages(many(1)),
        lambda got: got == 1,
        lambda theirs: theirs.messages_by_id(["t-m1"]),
        lambda kept: len(kept) == 1,
    ),
    "put_working_memory": (
        lambda mine: mine.put_working_memory("thread", "t", "mine", expected=None),
        lambda theirs: theirs.put_working_memory("thread", "t", "theirs", expected=1),
        lambda got: (got.text, got.version) == ("mine", 1),
        lambda theirs: theirs.working_memory_history("thread", "t"),
        lambda kept: [each.text for each in kept] == ["theirs", "mine"],
    ),
    "delete_working_memory": (
        lambda mine: mine.delete_working_memory("resource", "r"),
        lambda theirs: theirs.put_working_memory("resource", "r", "theirs", expected=0),
        lambda got: got is True,
        lambda theirs: theirs.working_memory("resource", "r"),
        lambda kept: kept.text == "theirs",
    ),
    "save_run": (
        lambda mine: mine.save_run(StoredRun("x", "mailer", body={"by": "mine"})),
        lambda theirs: theirs.save_run(StoredRun("x", "mailer", body={"by": "theirs"}, version=1)),
        lambda got: (got.body, got.version) == ({"by": "mine"}, 1),
        lambda theirs: theirs.run("x"),
        lambda kept: (kept.body, kept.version) == ({"by": "theirs"}, 2),
    ),
    "save_run, again": (
        lambda mine: mine.save_run(StoredRun("old", "mailer", body={"by": "mine"}, version=1)),
        lambda theirs: theirs.delete_run("old"),
        lambda got: (got.body, got.version) == ({"by": "mine"}, 2),
        lambda theirs: theirs.run("old"),
        lambda kept: kept is None,
    ),
    "delete_run": (
        lambda mine: mine.delete_run("old"),
        lambda theirs: theirs.save_run(StoredRun("old", "mailer", body={"by": "theirs"})),
        lambda got: got is True,
        lambda theirs: theirs.run("old"),
        lambda kept: kept.body == {"by": "theirs"},
    ),
    "upsert_vectors": (
        lambda mine: mine.upsert_vectors("i", [entry("a", [1, 0], message="old")]),
        lambda theirs: theirs.delete_vectors("i", ["old"]),
        lambda got: got is None,
        lambda theirs: theirs.query_vectors("i", [1, 0], limit=9),
        lambda kept: [hit.id for hit in kept] == ["b"],
    ),
    "delete_vectors": (
        lambda mine: mine.delete_vectors("i", ["other"]),
        lambda theirs: theirs.upsert_vectors("i", [entry("b", [1, 0], message="other")]),
        lambda got: got == 1,
        lambda theirs: theirs.query_vectors("i", [1, 0], limit=9),
        lambda kept: [hit.id for hit in kept] == ["b"],
    ),
}


@pytest.mark.parametrize("retry_for", [0, 10])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_is_made_once_where_others_come_behind_it(server, schema, monkeypatch, change, retry_for):
    """The answer to its commit is lost, others change the same and are told so: the retry undoes nothing of theirs."""
    make, come_behind, is_right, look, is_theirs = CHANGES[change]
    commit = _connections._commit
    async with PostgresStorage(server.url, schema=schema) as theirs:
        await theirs.create_thread(Thread("t", "r", "title"))
        await theirs.save_messages([said("old")])
        await theirs.put_working_memory("resource", "r", "old", expected=0)
        await theirs.upsert_vectors("i", [entry("b", [1, 0], message="other")])
        await theirs.save_run(StoredRun("old", "mailer"))
        version = (await theirs.thread("t")).version
        assert version == 1
        async with PostgresStorage(server.url, schema=schema, retry_for=retry_for) as mine:
            await mine.thread("t")

            async def lose(connection):
                monkeypatch.setattr(_connections, "_commit", commit)
                await commit(connection)
                await come_behind(theirs)
                raise ConnectionResetError

            monkeypatch.setattr(_connections, "_commit", lose)
            assert is_right(await make(mine))
            assert is_theirs(await look(theirs))


@pytest.mark.rest
async def test_a_commit_that_is_still_under_way_is_waited_for(server, schema, looking, monkeypatch):
    """The connection broke, but the server has not committed yet: the retry neither overtakes it nor does it again."""
    commit = _connections._commit
    async with PostgresStorage(server.url, schema=schema) as store, anyio.create_task_group() as group:
        await store.create_thread(Thread("t", "r", "title"))

        async def late(connection):
            monkeypatch.setattr(_connections, "_commit", commit)
            held = anyio.Event()

            async def commit_late():
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                while not await looking.fetchval(waits):
                    await anyio.lowlevel.checkpoint()
                await commit(connection)
                held.set()

            group.start_soon(commit_late)
            monkeypatch.setattr(_connections, "_roll_back", keep(held, connection))
            raise ConnectionResetError

        roll_back = _connections._roll_back

        def keep(held, broken):
            async def wait(connection):
                if connection is not broken:
                    await roll_back(connection)

            return wait

        monkeypatch.setattr(_connections, "_commit", late)
        release = _connections.asyncpg.Pool.release
        monkeypatch.setattr(_connections.asyncpg.Pool, "release", not_yet(release))
        assert (await store.update_thread("t", title="new", expected=1)).version == 2
        assert (await store.thread("t")).version == 2


def not_yet(release):
    """Return `Pool.release`, but for the first connection, which is in use still."""
    first = []

    async def wait(self, connection, **options):
        if not first:
            first.append(connection)
            return
        await release(self, connection, **options)

    return wait


async def test_who_cannot_ask_whether_it_was_stored_says_so(server, schema, monkeypatch):
    """It may be, or not."""
    async with PostgresStorage(server.url, schema=schema, retry_for=0) as store:
        await store.create_thread(Thread("t", "r", "title"))

        async def lose(connection):
            raise ConnectionResetError

        monkeypatch.setattr(_connections, "_commit", lose)
        with pytest.raises(StorageError, match="it may be stored or not; read it again"):
            await store.update_thread("t", title="new")


async def test_writers_are_few_and_forgotten_in_the_end(server, schema, looking):
    """As many as have written at the same time, however much they write, and whether or not it fails."""
    async with PostgresStorage(server.url, schema=schema, max_connections=4) as store:
        await store.create_thread(Thread("t", "r", "title"))
        for _ in range(30):
            await store.save_messages(many(1))
            with pytest.raises(StorageConflictError):
                await store.update_thread("t", title="x", expected=99)
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(store.save_messages, many(1))
        count = of(schema, "SELECT count(*) FROM SCHEMA.writers")
        assert await looking.fetchval(count) <= 20
        await looking.execute(of(schema, "UPDATE SCHEMA.writers SET at = now() - interval '32 days'"))
    async with PostgresStorage(server.url, schema=schema) as store:
        await store.thread("t")
    assert await looking.fetchval(count) == 0


async def test_work_that_cannot_be_done_ends_in_time_and_says_why(server, schema, store):
    """Another session holds the thread for ever."""
    other = await asyncpg.connect(server.url)
    try:
        await other.execute(of(schema, "BEGIN; SELECT 1 FROM SCHEMA.threads FOR UPDATE"))
        async with PostgresStorage(server.url, schema=schema, timeout=0.2) as hasty:
            with pytest.raises(StorageError, match=r"longer than 0\.2 s"):
                await hasty.save_messages([said("m1", "secret")])
            assert await hasty.thread("t") is not None
    finally:
        await other.close()
    await store.save_messages([said("m1")])


async def test_who_waits_for_a_connection_waits_no_longer_than_was_said(server, schema, store):
    """One connection, and it is in use."""
    other = await asyncpg.connect(server.url)
    try:
        await other.execute(of(schema, "BEGIN; SELECT 1 FROM SCHEMA.threads FOR UPDATE"))
        async with PostgresStorage(server.url, schema=schema, timeout=0.3, max_connections=1) as narrow:
            failed = []

            async def save(number):
                try:
                    await narrow.save_messages([said(f"m{number}")])
                except StorageError as error:
                    failed.append(str(error))

            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(save, number)
            assert len(failed) == 3
    finally:
        await other.close()


async def test_200_tasks_that_are_cancelled_leave_no_session_in_a_transaction(server, schema, store):
    """Each at another moment; every connection is free again."""
    for wait in range(10):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(store.save_messages, many(3, f"c{wait}-{number}"))
            for _ in range(wait * 3):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(store.messages, f"c0-{number}")
    looking = await asyncpg.connect(server.url)
    found = await looking.fetch(
        "SELECT state FROM pg_stat_activity WHERE application_name = 'penstock' AND state LIKE 'idle in%'"
    )
    await looking.close()
    assert found == []


def test_a_store_may_be_used_in_one_event_loop_after_another(server, schema):
    """Each has connections of its own."""
    store = PostgresStorage(server.url, schema=schema)

    async def use(number):
        await store.save_messages([said(f"m{number}")])
        found = ids((await store.messages("t", oldest_first=True)).items)
        await store.close()
        return found

    assert anyio.run(use, 1) == ["m1"]
    assert anyio.run(use, 2) == ["m1", "m2"]


async def test_a_copied_store_is_the_same_and_a_pickled_one_is_over_the_same_data(store):
    """As for copied workflows, and other processes."""
    await store.save_messages(many(1))
    assert copy.copy(store) is store
    assert copy.deepcopy(store) is store
    async with pickle.loads(pickle.dumps(store)) as other:  # noqa: S301 - our own
        assert other is not store
        assert ids((await other.messages("t")).items) == ["t-m1"]


def test_trio_is_refused_with_the_reason(server):
    """Rather than by an error deep in the driver."""
    store = PostgresStorage(server.url)
    with pytest.raises(UsageError, match="asyncio alone"):
        anyio.run(store.thread, "t", backend="trio")


async def test_an_id_that_cannot_be_kept_is_an_error_that_does_not_quote(store):
    """Neither itself nor in its cause."""
    for id in ("secret\0", "secret\ud800"):
        with pytest.raises(StorageError, match="cannot keep") as caught:
            await store.create_thread(Thread(id, "r"))
        assert caught.value.__cause__ is None
        assert "secret" not in str(caught.value)


async def test_an_id_that_is_too_long_is_an_error_that_says_so(store):
    """An index has its limits; long texts that repeat are compressed, so this one does not."""
    long = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(9000))
    with pytest.raises(StorageError, match="longer than an index"):
        await store.save_messages([said(long)])
