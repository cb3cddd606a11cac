"""SQLiteStorage does what every store must do, and what only a file can be asked for; InMemoryStorage, too."""

import copy
import gc
import pickle
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import penstock.testing
from penstock import InMemoryStorage, Message, OptionError, SQLiteStorage, StorageError
from penstock.engine import MessageError, StoredRun, Thread, UsageError
from penstock.stores import matrices
from tests.stores.made import entry, ids, many, said
from tests.stores.suite import SharedSuite, StoreSuite
from tests.stores.suite_runs import pages
from tests.stores.suite_vectors import VectorsSuite


@pytest.fixture
def path(tmp_path):
    """Where the file is."""
    return tmp_path / "memory.db"


class TestSQLiteStorage(StoreSuite, SharedSuite):
    """A file."""

    @pytest.fixture
    async def store(self, path):
        async with SQLiteStorage(path) as store:
            yield store

    @pytest.fixture
    async def second(self, path):
        async with SQLiteStorage(path, synchronous="normal") as store:
            yield store


class TestInMemoryStorage(StoreSuite):
    """No file."""

    @pytest.fixture
    async def store(self):
        return InMemoryStorage()


class TestWithoutNumpy(VectorsSuite):
    """Vectors are found without it, too."""

    @pytest.fixture
    async def store(self, monkeypatch):
        monkeypatch.setattr(matrices, "find_spec", lambda name: None)
        return InMemoryStorage()


def by_hand(path, *statements):
    """Run statements on the file, past the store."""
    connection = sqlite3.connect(path)
    for statement in statements:
        rows = connection.execute(statement).fetchall()
    connection.commit()
    connection.close()
    return rows


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"path": ""}, "path"),
        ({"path": 3}, "path"),
        ({"path": b"x"}, "path"),
        ({"synchronous": "off"}, "synchronous"),
        ({"busy_timeout": 0}, "busy_timeout"),
        ({"busy_timeout": float("nan")}, "busy_timeout"),
        ({"busy_timeout": True}, "busy_timeout"),
        ({"memory_versions": 9}, "memory_versions"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, option):
    """When the store is made, not when it is used."""
    with pytest.raises(OptionError) as caught:
        SQLiteStorage(**{"path": "x.db", **options})
    assert (caught.value.processor, caught.value.option) == ("SQLiteStorage", option)


async def test_the_file_is_made_at_first_use(path):
    """Not when the store is made; what is stored is there for the next one."""
    async with SQLiteStorage(str(path)) as store:
        assert not path.exists()
        await store.save_messages(many(1))
    async with SQLiteStorage(path) as store:
        assert ids((await store.messages("t")).items) == ["t-m1"]
    assert by_hand(path, "PRAGMA integrity_check") == [("ok",)]
    assert by_hand(path, "PRAGMA journal_mode") == [("wal",)]


async def test_times_are_the_clocks():
    """Of threads, messages and working memories; a thread is never changed earlier than it was."""
    clock = penstock.testing.VirtualClock()
    store = penstock.testing.InMemoryStorage(clock=clock)
    start = clock.now()
    (stored,) = await store.save_messages([said("m1")])
    assert stored.message.created_at == start
    assert (await store.put_working_memory("thread", "t", "x", expected=0)).updated_at == start
    await store.create_thread(Thread("u", "r", updated_at=start + timedelta(days=9)))
    await store.save_messages([said("m2", thread="u")])
    assert (await store.thread("u")).updated_at == start + timedelta(days=9)


async def test_a_time_without_a_zone_is_of_utc():
    """And comes back with it, from saving and from reading alike."""
    store = InMemoryStorage()
    naive = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001  # the point
    (stored,) = await store.save_messages([Message.user("x", id="m", thread_id="t", created_at=naive)])
    assert stored.message.created_at == naive.replace(tzinfo=UTC)
    assert (await store.messages("t")).items == (stored,)


async def test_a_missing_folder_is_told(tmp_path):
    """With the place, and what to do."""
    store = SQLiteStorage(tmp_path / "none" / "memory.db")
    with pytest.raises(StorageError, match="check that its folder exists") as caught:
        await store.thread("t")
    assert "memory.db" in caught.value.store
    assert isinstance(caught.value.__cause__, sqlite3.Error)


async def test_a_file_that_is_no_database_is_left_alone(path):
    """It is told, and not overwritten."""
    path.write_text("my notes " * 1000)
    with pytest.raises(StorageError, match="not a SQLite database"):
        await SQLiteStorage(path).save_messages(many(1))
    assert path.read_text() == "my notes " * 1000


async def test_a_file_of_a_newer_version_is_refused(path):
    """Rather than misunderstood: it says who wrote it, and what to do."""
    async with SQLiteStorage(path) as store:
        await store.save_messages(many(1))
    by_hand(path, "INSERT INTO penstock_schema VALUES (99, 'later')")
    with pytest.raises(StorageError, match=r"version 99.*update Penstock"):
        await SQLiteStorage(path).messages("t")


async def test_an_application_may_keep_its_own_tables_in_the_file(path):
    """The names do not clash, and its tables are not touched."""
    by_hand(path, "CREATE TABLE messages (id)", "INSERT INTO messages VALUES ('mine')")
    async with SQLiteStorage(path) as store:
        await store.save_messages(many(1))
    assert by_hand(path, "SELECT * FROM messages") == [("mine",)]


async def test_a_migration_that_is_broken_off_is_done_whole_the_next_time(path, monkeypatch):
    """Half a version is never there."""
    from penstock.stores.sqlite import _schema

    whole = _schema.MIGRATIONS
    monkeypatch.setattr(_schema, "MIGRATIONS", ((whole[0][0], "CREATE TABLE is broken"),))
    with pytest.raises(StorageError):
        await SQLiteStorage(path).thread("t")
    assert by_hand(path, "SELECT name FROM sqlite_master") == []
    monkeypatch.setattr(_schema, "MIGRATIONS", whole)
    async with SQLiteStorage(path) as store:
        assert await store.thread("t") is None


async def test_older_files_are_brought_forward(path, monkeypatch):
    """One version after another; what was kept stays."""
    from penstock.stores.sqlite import _schema

    every = _schema.MIGRATIONS
    with monkeypatch.context() as patch:
        patch.setattr(_schema, "MIGRATIONS", every[:1])  # before there were runs
        async with SQLiteStorage(path) as store:
            await store.save_messages(many(1))
    added = ("ALTER TABLE penstock_threads ADD COLUMN colour TEXT",)
    monkeypatch.setattr(_schema, "MIGRATIONS", (*every, added))
    async with SQLiteStorage(path) as store:
        assert ids((await store.messages("t")).items) == ["t-m1"]
        assert (await store.save_run(StoredRun("x", "mailer"))).version == 1
    versions = [(number + 1,) for number in range(len(every) + 1)]
    assert by_hand(path, "SELECT version FROM penstock_schema ORDER BY 1") == versions
    assert by_hand(path, "SELECT colour FROM penstock_threads") == [(None,)]


async def test_a_damaged_file_is_told_and_another_one_taken_as_it_is(path):
    """A store that failed has not failed for good."""
    async with SQLiteStorage(path) as store:
        await store.save_messages(many(300))
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    path.write_bytes(data)
    store = SQLiteStorage(path)
    with pytest.raises(StorageError):
        await store.messages("t")
    path.unlink()
    assert (await store.messages("t")).items == ()
    await store.save_messages(many(1))
    await store.close()


async def test_a_write_that_sqlite_fails_is_told_and_the_next_one_has_its_chance(path):
    """The connection is not used again."""
    async with SQLiteStorage(path) as store:
        await store.save_messages(many(1))
        by_hand(path, "ALTER TABLE penstock_messages RENAME TO elsewhere")
        with pytest.raises(StorageError, match="SQLITE_ERROR") as caught:
            await store.save_messages([said("m2", "secret")])
        assert "secret" not in str(caught.value)
        by_hand(path, "ALTER TABLE elsewhere RENAME TO penstock_messages")
        await store.save_messages([said("m3")])
        assert ids((await store.messages("t")).items) == ["m3", "t-m1"]


async def test_names_that_cannot_be_are_refused():
    """Before the database is asked."""
    store = InMemoryStorage()
    with pytest.raises(UsageError):
        await store.create_thread(Thread("", "r"))
    with pytest.raises(UsageError):
        await store.upsert_vectors("", [entry("a", [1, 0])])
    with pytest.raises(UsageError):
        await store.update_thread("t", title="x", expected=-1)
    with pytest.raises(MessageError):
        await store.save_messages([said("a\0b")])


async def test_a_message_that_a_newer_version_wrote_is_an_error_without_its_text(path):
    """It says that there is a field that it does not know; its name is not quoted either, since it may be text."""
    async with SQLiteStorage(path) as store:
        await store.save_messages([said("m1", "secret")])
        by_hand(path, "UPDATE penstock_messages SET body = replace(body, 'parts', 'pieces')")
        with pytest.raises(StorageError, match="cannot be read") as caught:
            await store.messages("t")
        assert "secret" not in str(caught.value)
        assert "it has a field that does" in str(caught.value)
        assert "pieces" not in str(caught.value)


async def test_half_a_surrogate_outside_of_messages_is_refused_without_being_quoted():
    """SQLite has no place for it; Python's own error would quote the text."""
    store = InMemoryStorage()
    with pytest.raises(StorageError, match="half of a surrogate") as caught:
        await store.put_working_memory("thread", "t", "secret \ud83d", expected=None)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert await store.working_memory("thread", "t") is None


async def test_a_run_that_somebody_else_has_written_is_an_error_without_its_text(path):
    """It says what cannot be read."""
    async with SQLiteStorage(path) as store:
        await store.save_run(StoredRun("x", "mailer"))
        for body in ("secret {", '["secret"]'):
            by_hand(path, f"UPDATE penstock_runs SET body = '{body}'")  # noqa: S608 - of this test
            with pytest.raises(StorageError, match="cannot be read") as caught:
                await store.run("x")
            assert "secret" not in str(caught.value)
            with pytest.raises(StorageError, match="cannot be read"):
                await store.runs()


async def test_runs_stored_at_one_time_are_told_apart_on_pages():
    """None is left out, none comes twice."""
    store = penstock.testing.InMemoryStorage(clock=penstock.testing.VirtualClock())
    for number in (3, 1, 4, 0, 2):
        await store.save_run(StoredRun(f"x{number}", "mailer"))
    assert len({run.created_at for run in (await store.runs()).items}) == 1
    assert await pages(store, 2) == ["x0", "x1", "x2", "x3", "x4"]


async def test_a_run_is_never_changed_earlier_than_it_was():
    """Though a clock was set back."""
    clock = penstock.testing.VirtualClock()
    store = penstock.testing.InMemoryStorage(clock=clock)
    start = clock.now()
    kept = await store.save_run(StoredRun("x", "mailer"))
    clock.advance(-3600)
    later = await store.save_run(kept)
    assert (later.created_at, later.updated_at) == (start, start)


@pytest.mark.parametrize("after", ["", "(created_at, id) > ('2026', 'x')"])
@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ("", "in_order"),
        ("status = 'waiting'", "by_status"),
        ("agent = 'a'", "by_agent"),
        ("status = 'waiting' AND agent = 'a'", "by_both"),
    ],
)
async def test_no_page_of_runs_is_sorted_or_filtered(path, asked, index, after):
    """An index holds just the runs that are asked for, in their order, however many others there are."""
    async with SQLiteStorage(path) as store:
        await store.run("x")
    where = " AND ".join(filter(None, [asked, after])) or "1"
    statement = f"SELECT body FROM penstock_runs WHERE {where} ORDER BY created_at, id LIMIT 51"  # noqa: S608
    plan = [row[3] for row in by_hand(path, f"EXPLAIN QUERY PLAN {statement}")]
    assert len(plan) == 1
    assert f"USING INDEX penstock_runs_{index}" in plan[0]
    assert plan[0].count("?") == len(asked.split(" AND ") if asked else []) + 2 * bool(after)


async def test_what_is_deleted_is_not_in_the_file_any_more(path):
    """Neither messages nor threads nor working memories nor runs; they are overwritten."""
    async with SQLiteStorage(path) as store:
        await store.save_messages([said("m1", "very-secret-one"), said("m2", "kept"), said("n1", "x", "u")])
        await store.create_thread(Thread("v", "r", "very-secret-two"))
        await store.put_working_memory("thread", "u", "very-secret-three", expected=None)
        for name, thread in (("x", None), ("y", "u"), ("z", "v"), ("kept-run", None)):
            run = StoredRun(name, "mailer", "waiting", {"text": "very-secret-four" * 500}, thread, name)
            kept_run = await store.save_run(run)
        await store.save_run(replace(kept_run, body={}))
        await store.delete_run("x")
        await store.delete_resource("z")
        await store.delete_messages(["m1"])
        await store.delete_thread("u")
        await store.delete_thread("v")
    data = path.read_bytes()
    assert b"kept" in data
    assert b"kept-run" in data
    assert b"very-secret" not in data


async def test_more_versions_of_a_working_memory_may_be_kept():
    """As many as the option says, and no more."""
    store = SQLiteStorage(":memory:", memory_versions=12)
    for number in range(20):
        await store.put_working_memory("thread", "t", f"{number}", expected=number)
    assert len(await store.working_memory_history("thread", "t", limit=99)) == 12


async def test_a_store_in_memory_is_each_objects_own():
    """Closing keeps what is there; it goes with the object, without a warning that it was left open."""
    one, two = SQLiteStorage(":memory:"), InMemoryStorage()
    await one.save_messages(many(1))
    await one.close()
    assert ids((await one.messages("t")).items) == ["t-m1"]
    assert (await two.messages("t")).items == ()
    del one, two
    gc.collect()


async def test_a_copy_is_the_same_store():
    """So that copied workflows share what is remembered."""
    store = InMemoryStorage()
    assert copy.copy(store) is store
    assert copy.deepcopy({"store": store})["store"] is store


async def test_a_pickled_store_is_one_on_the_same_file(path):
    """As another process needs it; one in memory cannot be had elsewhere."""
    async with SQLiteStorage(path, memory_versions=12) as store:
        await store.save_messages(many(1))
        async with pickle.loads(pickle.dumps(store)) as other:  # noqa: S301  # our own
            assert ids((await other.messages("t")).items) == ["t-m1"]
    with pytest.raises(TypeError, match="memory of this process"):
        pickle.dumps(InMemoryStorage())


def test_a_store_shows_where_it_is_and_nothing_more():
    """What it keeps is nobody's who reads a log."""
    assert repr(SQLiteStorage("memory.db")) == "SQLiteStorage('memory.db')"
    assert repr(InMemoryStorage()) == "InMemoryStorage()"


async def test_only_what_is_new_is_read_again(path, monkeypatch):
    """Vectors in memory are brought up to date, not read anew: a change elsewhere costs what was changed."""
    from penstock.stores.sqlite import _vectors

    read = []
    rows_after = _vectors.rows_after
    monkeypatch.setattr(
        _vectors, "rows_after", lambda *given: (read.append(len(rows)) or rows for rows in rows_after(*given))
    )
    async with SQLiteStorage(path) as store, SQLiteStorage(path) as other:
        await store.upsert_vectors("i", [entry(f"e{number}", [1, number]) for number in range(20)])
        for _ in range(2):
            await store.query_vectors("i", [1, 0], limit=1)
        await other.upsert_vectors("i", [entry("new", [1, 0]), entry("e3", [1, 0])])
        await other.delete_vectors("i", ["e4"])
        hits = await store.query_vectors("i", [1, 0], limit=99)
    assert read == [20, 2]
    assert [hit.id for hit in hits][:3] == ["e0", "e3", "new"]
    assert len(hits) == 20
