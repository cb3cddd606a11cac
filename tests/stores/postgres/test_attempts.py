"""PostgresStorage where the end of an attempt is not heard, where others are in the way, and where it is cancelled."""

import copy
import pickle

import anyio
import asyncpg
import pytest

from penstock import StorageError
from penstock.engine import StorageConflictError, UsageError
from penstock.engine.values.stored import Thread
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
