"""A process that dies while the model is asked, and a store in a file that is opened again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import Agent, Memory, PIIDetector, SQLiteStorage
from penstock.testing import InMemoryStorage, ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.rest]

OWN: dict[str, Any] = {"thread_id": "t", "resource_id": "u"}
DYING = """
import os, signal, sys
import anyio
from penstock import Agent, Memory, PIIDetector, SQLiteStorage
from penstock.testing import ScriptedModel

def dies(request):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    memory = Memory(SQLiteStorage(sys.argv[1]), keep_input=sys.argv[2])
    agent = Agent(ScriptedModel(["one", dies]), processors=[PIIDetector(redaction_method="placeholder")], memory=memory)
    await agent.generate("first", thread_id="t", resource_id="u")
    await agent.generate("I am joe@example.com", thread_id="t", resource_id="u")

anyio.run(main)
"""


async def kept(path: Path) -> list[str]:
    """Return what a file holds of the thread."""
    storage = SQLiteStorage(path)
    page = await storage.messages("t", oldest_first=True)
    await storage.close()
    return [f"{row.message.role}:{row.message.text}" for row in page.items]


@pytest.mark.parametrize(("keep_input", "last"), [("accepted", ["user:I am [EMAIL]"]), ("answered", [])])
def test_a_process_that_is_killed_loses_nothing_that_was_accepted(
    tmp_path: Path, keep_input: str, last: list[str]
) -> None:
    """The turn before is whole, the input at hand is there as its guards left it, and the raw one nowhere."""
    path = tmp_path / "chat.db"
    done = subprocess.run([sys.executable, "-c", DYING, str(path), keep_input], check=False, capture_output=True)
    assert done.returncode < 0, done.stderr
    assert anyio.run(kept, path) == ["user:first", "assistant:one", *last]
    assert not any(b"joe@" in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    """All that it needs is in the file."""
    path = tmp_path / "chat.db"
    models = {"first": ScriptedModel(["one"]), "second": ScriptedModel(["two"])}
    for text, model in models.items():
        storage = SQLiteStorage(path)
        await Agent(model, memory=Memory(storage)).generate(text, **OWN)
        await storage.close()
    assert [message.text for message in models["second"].requests[0].messages] == ["first", "one", "second"]
    assert await kept(path) == ["user:first", "assistant:one", "user:second", "assistant:two"]


async def test_all_kinds_of_memory_work_together() -> None:
    """History, recall and working memory over one store; what is hidden is in none of them."""
    storage = InMemoryStorage()
    note = {"id": "c1", "name": "update_working_memory", "args": {"memory": "# User\n- Contact: joe@example.com"}}
    model = ScriptedModel([{"tool_calls": [note]}, "noted", "hello again"], repeat_last=True)
    memory = Memory(storage, last_messages=2, semantic_recall=True, working_memory=True)
    agent = Agent(model, processors=[PIIDetector(redaction_method="placeholder")], memory=memory)
    await agent.generate("Remember joe@example.com and my cat Tabitha", **OWN)
    result = await agent.generate("What is my cat called?", thread_id="t2", resource_id="u")
    assert result.text == "hello again"
    told = "\n".join(message.text for message in model.requests[-1].messages)
    assert "Tabitha" in told
    assert "[EMAIL]" in told
    assert "joe@" not in told
    rows = (await storage.messages("t", oldest_first=True)).items
    assert [row.message.text for row in rows] == ["Remember [EMAIL] and my cat Tabitha", "noted"]
    await storage.close()
