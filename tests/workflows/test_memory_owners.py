"""Requests that say oddly whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Agent, Memory, SQLiteStorage
from penstock.engine import StepFailedError
from penstock.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("nobody", [{"resource_id": ""}, {"resource_id": 5}, {"thread_id": ["t"]}], ids=repr)
@pytest.mark.parametrize("on_error", ["raise", "allow"])
async def test_an_id_of_nobody_opens_no_thread(nobody: dict[str, Any], on_error: Any) -> None:
    """An application that does not know its user names an empty one: that is not everybody."""
    storage = SQLiteStorage(":memory:")
    await Agent(ScriptedModel(["noted"]), memory=Memory(storage)).generate("mine", thread_id="t", resource_id="u")
    await storage.put_working_memory("thread", "t", "private", expected=0)
    model = ScriptedModel(["one"])
    memory = Memory(storage, semantic_recall=True, working_memory={"scope": "thread"}, on_error=on_error)
    agent = Agent(model, memory=memory)
    context = {"thread_id": "t", "resource_id": "u", **nobody}
    if on_error == "raise":
        with pytest.raises(StepFailedError, match=r"in the request context (must|is)"):
            await agent.generate("theirs", request_context=context)
    else:
        await agent.generate("theirs", request_context=context)
    told = [[message.text for message in request.messages] for request in model.requests]
    assert told == ([] if on_error == "raise" else [["theirs"]])
    assert (await storage.messages("t")).items[0].message.text == "noted"
    await storage.close()
