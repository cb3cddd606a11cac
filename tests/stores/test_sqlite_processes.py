"""SQLiteStorage among processes: crowds that write the same threads, kills, forks, locks. It knows no statement."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from penstock import SQLiteStorage, StorageError
from penstock.engine import VectorEntry
from tests.stores.crowd import TASKS, THREADS
from tests.stores.made import found, ids, many, said

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[2]
KILLS = "12"


@pytest.fixture(params=["asyncio"])
def anyio_backend(request):
    """One event loop is enough where processes are what matters."""
    return request.param


def crowd(path: Path, name: str) -> subprocess.Popen[str]:
    """Start a process of 200 tasks; it waits for a line."""
    command = [sys.executable, "-m", "tests.stores.crowd", str(path), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT, text=True)


async def test_two_processes_of_two_hundred_tasks_lose_nothing(tmp_path):
    """No message is missing or there twice, no place is given twice, pairs stand together, all entered themselves."""
    path = tmp_path / "memory.db"
    names = ("one", "two")
    processes = [crowd(path, name) for name in names]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        await anyio.to_thread.run_sync(process.communicate)
    assert [process.returncode for process in processes] == [0, 0]
    async with SQLiteStorage(path) as store:
        for number in range(THREADS):
            items = (await store.messages(f"t{number}", limit=10_000, oldest_first=True)).items
            every = ids(items)
            own = [f"{name}-{task}" for name in names for task in range(number, TASKS, THREADS)]
            assert sorted(every) == sorted(f"{one}-{part}" for one in own for part in "abc")
            assert [item.order for item in items] == list(range(1, len(items) + 1))
            place = {name: at for at, name in enumerate(every)}
            assert all(place[f"{one}-a"] + 1 == place[f"{one}-b"] < place[f"{one}-c"] for one in own)
        assert len(await store.query_vectors("i", [1.0, 1.0], limit=10_000)) == len(names) * TASKS
        kept = await store.working_memory("resource", "r")
        assert sorted(kept.text.split()) == sorted(f"{name}-{task}" for name in names for task in range(0, TASKS, 10))
        assert kept.version == len(names) * TASKS // 10


def test_killed_processes_lose_nothing_that_was_awaited():
    """A few kills here; ``python -m tests.stores.killing 300`` for more."""
    command = [sys.executable, "-m", "tests.stores.killing", KILLS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "none lost" in done.stdout


SAVING = """
import os, sys, anyio
from dataclasses import replace
from penstock import SQLiteStorage
from penstock.engine import StoredRun
async def save():
    async with SQLiteStorage(sys.argv[1], synchronous="normal") as store:
        run = await store.run("x") or StoredRun("x", "mailer")
        while True:
            text = f"{run.version + 1} " * 1000
            run = await store.save_run(replace(run, body={"text": text}))
            os.write(1, f"{run.version}\\n".encode())
anyio.run(save)
"""


def last_told_when_killed(path: Path) -> int:
    """Kill a process that saves a run again and again; return the last version that it told of."""
    process = subprocess.Popen([sys.executable, "-c", SAVING, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
    with process.stdout as output:
        told = [output.readline() for _ in range(20)]
        process.kill()
        told += output.readlines()
    assert process.wait() == -signal.SIGKILL
    return int(told[-1])


async def test_a_process_that_is_killed_while_it_saves_a_run_leaves_a_whole_version(tmp_path):
    """The last one that it told of, or the next one; and another process goes on from there."""
    path = tmp_path / "memory.db"
    told = last_told_when_killed(path)
    async with SQLiteStorage(path) as store:
        run = await store.run("x")
        assert run.version - told in {0, 1}
        assert run.body["text"] == f"{run.version} " * 1000
        assert (await store.runs()).items == (run,)
        assert (await store.save_run(run)).version == run.version + 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


FORKING = """
import os, sys, anyio
from penstock import Message, SQLiteStorage
from penstock.engine import VectorEntry
store = SQLiteStorage(sys.argv[1])
async def write(name):
    await store.save_messages([Message.user(name, id=name, thread_id="t")])
    await store.upsert_vectors("i", [VectorEntry(name, [1.0, 0.0], name, "t")])
    return [hit.id for hit in await store.query_vectors("i", [1.0, 0.0], limit=9)]
assert anyio.run(write, "before") == ["before"]
pid = os.fork()
if pid == 0:
    ok = anyio.run(write, "child") == ["before", "child"]
    anyio.run(store.close)
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
assert anyio.run(write, "parent") == ["before", "child", "parent"]
anyio.run(store.close)
"""


async def test_a_forked_process_opens_the_file_for_itself(tmp_path):
    """Its parent's connections are neither used nor closed there."""
    path = tmp_path / "memory.db"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, str(path)]  # there are idle threads
    done = await anyio.run_process(command, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    async with SQLiteStorage(path) as store:
        assert ids((await store.messages("t", oldest_first=True)).items) == ["before", "child", "parent"]


@pytest.fixture
def locked(tmp_path):
    """Hold the file's lock, as another process that writes."""
    other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


async def test_a_locked_file_is_waited_for(tmp_path, locked):
    """As soon as the other is done, it goes on."""
    async with SQLiteStorage(tmp_path / "memory.db") as store, anyio.create_task_group() as group:
        group.start_soon(store.save_messages, many(1))
        await anyio.wait_all_tasks_blocked()
        locked.execute("COMMIT")
    async with SQLiteStorage(tmp_path / "memory.db") as store:
        assert ids((await store.messages("t")).items) == ["t-m1"]


async def test_a_file_that_stays_locked_is_an_error_in_the_end(tmp_path, locked):
    """It says for how long it waited; nothing was stored, and the next call has its chance."""
    async with SQLiteStorage(tmp_path / "memory.db", busy_timeout=0.01) as store:
        with pytest.raises(StorageError, match=r"kept it locked for 0\.01 seconds"):
            await store.save_messages(many(1))
        locked.execute("COMMIT")
        assert await store.messages_by_id(["t-m1"]) == ()
        await store.save_messages(many(1))


async def test_who_waits_for_a_locked_file_can_be_cancelled(tmp_path, locked):
    """Long before the patience ends; nothing is stored, and the next one is not held up."""
    async with SQLiteStorage(tmp_path / "memory.db", busy_timeout=1000) as store:
        async with anyio.create_task_group() as group:
            group.start_soon(store.save_messages, many(1))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        locked.execute("COMMIT")
        await store.save_messages([said("m2")])
        assert ids((await store.messages("t")).items) == ["m2"]


async def test_readers_do_not_wait_for_a_writer(tmp_path):
    """They see what was there before it began."""
    async with SQLiteStorage(tmp_path / "memory.db", busy_timeout=0.01) as store:
        await store.save_messages(many(1))
        await store.upsert_vectors("i", [VectorEntry("a", [1.0], "a", "t")])
        other = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM penstock_messages")
        assert ids((await store.messages("t")).items) == ["t-m1"]
        assert found(await store.query_vectors("i", [1.0], limit=1)) == ["a"]
        other.close()


async def test_a_task_that_is_cancelled_by_asyncio_leaves_nothing_half(tmp_path):
    """Though asyncio's own cancellation does not wait for the worker thread."""
    import asyncio

    async with SQLiteStorage(tmp_path / "memory.db") as store:
        for wait in range(8):
            task = asyncio.ensure_future(store.save_messages(many(5, f"c{wait}")))
            for _ in range(wait):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await store.save_messages(many(1))
        for wait in range(8):
            assert len((await store.messages(f"c{wait}")).items) in {0, 5}


async def test_one_store_serves_several_event_loops(tmp_path):
    """Each in a thread of its own."""
    store = SQLiteStorage(tmp_path / "memory.db")

    async def write(name: str) -> None:
        async with anyio.create_task_group() as group:
            for number in range(10):
                group.start_soon(store.save_messages, [said(f"{name}-{number}")])

    async with anyio.create_task_group() as group:
        for name, backend in (("one", "asyncio"), ("two", "trio")):
            group.start_soon(anyio.to_thread.run_sync, lambda n=name, b=backend: anyio.run(write, n, backend=b))
    assert len((await store.messages("t")).items) == 20
    await store.close()


def open_files() -> int:
    """Return how many files this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no list of open files")
async def test_no_connection_leaks(tmp_path):
    """Not by errors, not by cancellation, not by closing."""
    before = open_files()
    async with SQLiteStorage(tmp_path / "memory.db") as store:
        for wait in range(20):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    for _ in range(5):
                        group.start_soon(store.messages, "t")
                    for _ in range(wait):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
    assert open_files() <= before
