"""Nothing acknowledged is lost, whoever dies: the server under load, or a process; nor where two write at once."""

import anyio
import pytest

from penstock.stores.postgres import PostgresStorage
from tests.stores.postgres.breaking import kill, restart, started, told
from tests.stores.postgres.writing import check

TASKS = 200


@pytest.mark.rest
async def test_two_processes_of_200_tasks_each_write_the_same_threads(server, schema):
    """Everything is there, once, in pairs that stand together; the tables were made once."""
    processes = [started(server.url, schema, name, TASKS, 2) for name in ("p", "q")]
    outputs = [await anyio.to_thread.run_sync(process.communicate) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    known = told(outputs[0][0]) | told(outputs[1][0])
    assert len(known) == 2 * TASKS * 2
    async with PostgresStorage(server.url, schema=schema) as store:
        assert await check(store, known) == len(known)


@pytest.mark.rest
async def test_processes_that_are_killed_lose_nothing_and_hold_nothing_up(server, schema):
    """What they had acknowledged is there, no pair is half there, and others go on at once."""
    acknowledged, there = await kill(server.url, schema, 3)
    assert 3 <= acknowledged <= there


@pytest.mark.rest
async def test_a_server_that_is_restarted_under_load_loses_nothing(server, schema):
    """Stopped and crashed; writers wait, none is told of an error, nothing is stored twice."""
    if not server.is_our_own:
        pytest.skip("the server is not ours: it is not restarted, and this is not tested")
    acknowledged, there = await restart(server, schema, 2)
    assert 450 <= acknowledged == there
