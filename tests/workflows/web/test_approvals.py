"""An approval in the messages of the AI SDK, and one in the store, are the same one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock import Agent, SQLiteStorage, Tool
from penstock.engine.values.errors import ReviewError
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from penstock.workflows.web import UIMessagesEncoder, ui_messages

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.engine.values.frozen import Value

pytestmark = pytest.mark.anyio

CALL: Value = {"tool_calls": [{"id": "c1", "name": "refund", "args": {"order": 7}}]}


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: the loop is tested elsewhere."""
    return "asyncio"


class Shop:
    """A service with a store, whose client is `useChat`."""

    def __init__(self, store: SQLiteStorage) -> None:
        self.store = store
        self.ran: list[int] = []
        asked = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Refund order 7"}]}
        self.messages: list[Value] = [asked]

    def agent(self, answer: Value) -> Agent:
        """Return the agent, as each process makes it."""
        self.model = ScriptedModel([answer])
        return Agent(self.model, tools=[Tool(self.refund, approval=True)], reviews=self.store)

    def refund(self, order: int) -> str:
        """Refund an order."""
        self.ran.append(order)
        return f"refunded {order}"

    async def post(self, answer: Value) -> list[Value]:
        """Send the messages, and return the events."""
        asked = ui_messages.read_request(json.dumps({"id": "chat", "messages": self.messages}).encode())
        stream = self.agent(answer).stream(asked.messages, **asked.options())
        encoder = UIMessagesEncoder.answering(asked)
        sent = [event async for event in ui_messages.stream(stream, encoder)]
        lines = b"".join(sent).decode().split("\n\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]

    def decide(self, **approval: Value) -> None:
        """Let the client decide, as `addToolApprovalResponse` does."""
        part = {"type": "tool-refund", "toolCallId": "c1", "state": "approval-responded", "input": {"order": 7}}
        made = {**part, "approval": {"id": "c1", **approval}}
        self.messages.append({"id": "m2", "role": "assistant", "parts": [{"type": "step-start"}, made]})

    async def run_id(self) -> str:
        """Return the id of the run that waits."""
        return (await Reviews(self.store).runs()).items[0].run_id


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a service that asks nobody yet."""
    return Shop(SQLiteStorage(tmp_path / "runs.db"))


async def test_the_clients_approval_runs_the_tool_once(shop: Shop) -> None:
    """It ends the stored run; of a client that sends it twice, it counts once."""
    asked = await shop.post(CALL)
    assert {"type": "tool-approval-request", "toolCallId": "c1", "approvalId": "c1"} in asked
    run_id = await shop.run_id()
    shop.decide(approved=True)
    done = await shop.post("Done.")
    assert {"type": "tool-output-available", "toolCallId": "c1", "output": "refunded 7"} in done
    await shop.post("Done.")
    assert shop.ran == [7]
    with pytest.raises(ReviewError, match="it has ended"):
        await Reviews(shop.store).approve(run_id)


async def test_an_approval_in_the_store_takes_the_clients_place(shop: Shop) -> None:
    """The client's comes too late."""
    await shop.post(CALL)
    run_id = await shop.run_id()
    await Reviews(shop.store).approve(run_id, by="eve")
    await shop.agent("Done.").resume(run_id)
    shop.decide(approved=True)
    await shop.post("Done.")
    assert shop.ran == [7]


async def test_the_clients_refusal_ends_the_run_with_its_reason(shop: Shop) -> None:
    """The model reads it."""
    await shop.post(CALL)
    shop.decide(approved=False, reason="not before Monday")
    done = await shop.post("I cannot.")
    assert {"type": "tool-output-denied", "toolCallId": "c1"} in done
    assert "not before Monday" in repr(shop.model.requests)
    assert shop.ran == []
    shop.messages.pop()
    shop.decide(approved=True)
    await shop.post("Done.")
    assert shop.ran == []
