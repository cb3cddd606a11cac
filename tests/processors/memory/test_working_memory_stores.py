"""Working memories in real stores: many tasks, several processes."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel

from penstock import Agent, InMemoryStorage, Memory, SQLiteStorage
from penstock.engine import OwnershipError, UsageError
from penstock.engine.values.errors import NotStoredError
from penstock.processors.memory.working_memory import WorkingMemory
from penstock.testing import ScriptedModel

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import anyio
from penstock import SQLiteStorage
from penstock.processors.memory import working_memory_tool
from penstock.tools.context import ToolContext

SCHEMA = {"type": "object", "properties": {"tags": {"type": "array"}}}

async def main(path, first, count):
    store = SQLiteStorage(path)
    tool = working_memory_tool(store, template=SCHEMA)
    context = ToolContext(request_context={"resource_id": "ann"}, run_id=f"run-{first}")

    async def add(number):
        result = await tool.call({"changes": [{"op": "append", "path": "/tags", "value": number}]}, context)
        assert result["success"], result

    async with anyio.create_task_group() as group:
        for number in range(first, first + count):
            group.start_soon(add, number)
    await store.close()

anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
"""


class Profile(BaseModel):
    """Facts, as a list."""

    facts: list[str] = []


@pytest.mark.rest
async def test_two_processes_with_many_tasks_each_lose_nothing(tmp_path):
    """All 200 changes are there, each a version of its own."""
    path = str(tmp_path / "memory.db")
    command = [sys.executable, "-c", PROGRAM, path]
    async with anyio.create_task_group() as group:
        for first in ("0", "1000"):
            group.start_soon(
                partial(anyio.run_process, [*command, first, "100"], cwd=ROOT, stderr=subprocess.PIPE, check=True)
            )
    store = SQLiteStorage(path)
    record = await store.working_memory("resource", "ann")
    await store.close()
    assert record.version == 200
    assert sorted(json.loads(record.text)["tags"]) == [*range(100), *range(1000, 1100)]


async def test_two_hundred_requests_at_once_lose_nothing():
    """Of one agent, for one user."""
    storage = InMemoryStorage()

    def answer(request):
        asked = next(message.text for message in reversed(request.messages) if message.role == "user")
        if request.messages[-1].role != "user":
            return "Noted."
        change = {"op": "append", "path": "/facts", "value": asked}
        return {"tool_calls": [{"name": "update_working_memory", "args": {"changes": [change]}}]}

    notes = WorkingMemory(storage, template=Profile)
    agent = Agent(ScriptedModel(answer), memory=Memory(storage, working_memory=notes))

    async def ask(number):
        context = {"thread_id": f"t{number}", "resource_id": "ann"}
        assert (await agent.generate(f"fact {number}", request_context=context)).text == "Noted."

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(ask, number)
    record = await notes.read(resource_id="ann")
    assert record.version == 200
    assert sorted(json.loads(record.text)["facts"]) == sorted(f"fact {number}" for number in range(200))
    assert len({entry.author for entry in await notes.history(resource_id="ann")}) == 10


async def test_a_memory_goes_through_a_thread_of_several_requests():
    """Behind the history, and out of what is kept of the conversation."""
    storage = InMemoryStorage()
    call = {"tool_calls": [{"name": "update_working_memory", "args": {"memory": "Ann"}}]}
    model = ScriptedModel(["one", call, "two", "three"])
    agent = Agent(model, memory=Memory(storage, working_memory=True))
    for question in ("A", "B", "C"):
        await agent.generate(question, thread_id="t", resource_id="ann")
    told = [message.text.split("\n")[0][:5] for message in model.requests[-1].messages]
    assert told == ["Worki", "A", "one", "B", "two", "(From", "C"]
    kept = (await storage.messages("t", oldest_first=True)).items
    assert [row.message.text for row in kept] == ["A", "one", "B", "two", "C", "three"]
    assert "working_memory" not in repr(kept)


async def test_who_wants_to_be_forgotten_is():
    """With all that was known before; another's memory stays, and another's thread is nobody else's to forget."""
    storage = InMemoryStorage()
    notes = WorkingMemory(storage)
    for name in ("ann", "bob"):
        await notes.write("one", resource_id=name)
        await notes.write("two", resource_id=name)
    assert await notes.forget(resource_id="ann") is True
    assert await notes.read(resource_id="ann") is None
    assert await notes.history(resource_id="ann") == ()
    assert await notes.forget(resource_id="ann") is False
    with pytest.raises(NotStoredError):
        await notes.undo(resource_id="ann")
    assert (await notes.read(resource_id="bob")).text == "two"
    assert (await notes.write("anew", resource_id="ann", expected=0)).version == 1
    with pytest.raises(UsageError):
        await notes.forget(thread_id="t")
    own = WorkingMemory(storage, scope="thread")
    await own.write("secret", thread_id="t", resource_id="bob")
    with pytest.raises(OwnershipError):
        await own.forget(thread_id="t", resource_id="ann")
    assert (await own.read(thread_id="t", resource_id="bob")).text == "secret"
