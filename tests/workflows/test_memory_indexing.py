"""What a `Memory` indexes of what it stores."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Agent, Memory
from penstock.engine import StepFailedError
from penstock.testing import ScriptedModel
from tests.processors.memory.shelf import KeywordEmbedder, Shelf

pytestmark = pytest.mark.anyio


async def ask(agent: Agent, text: str, *, streamed: bool) -> None:
    """Make a request in the thread, whole or streamed."""
    own: dict[str, Any] = {"thread_id": "t", "resource_id": "u"}
    if not streamed:
        await agent.generate(text, **own)
        return
    async with agent.stream(text, **own) as stream:
        async for _ in stream:
            pass


@pytest.mark.parametrize("streamed", [False, True])
async def test_nothing_is_indexed_that_could_not_be_stored(streamed: bool) -> None:
    """A vector without its message would be of use to nobody."""
    shelf, embedder = Shelf(broken={"save_messages"}), KeywordEmbedder()
    memory = Memory(shelf, keep_input="answered", semantic_recall=True, embedder=embedder, vectors=shelf)
    agent = Agent(ScriptedModel(["a pet", "a car"]), memory=memory)
    with pytest.raises(StepFailedError, match="StorageError"):
        await ask(agent, "pasta", streamed=streamed)
    assert shelf.upserts == []
    shelf.broken.clear()
    await ask(agent, "food", streamed=streamed)
    assert {entry.message_id for entry in shelf.entries.values()} == set(shelf.rows)
    assert len(shelf.rows) == 2
