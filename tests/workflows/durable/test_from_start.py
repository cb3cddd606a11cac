"""Requests that are stored from their start: another process goes on where one was killed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock import Agent, InMemoryStorage, PIIDetector, Tool, processor
from penstock.engine import ToolCallContext
from penstock.engine.values.errors import ModelError
from penstock.engine.values.messages import ToolPart
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from tests.workflows.durable.world import SECRET

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import RunStore
    from penstock.engine.values.stored import StoredRun


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


@pytest.mark.rest
def test_a_process_killed_at_any_line_repeats_nothing_that_was_recorded(tmp_path: Path) -> None:
    """The process is killed at each piece of work in turn; another one takes the request up."""
    command = [sys.executable, "-m", "tests.workflows.durable.killed_from_start", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20, "it was killed at that many lines"


class Copying(InMemoryStorage):
    """A store that keeps a copy of each state of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: list[StoredRun] = []

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Store a run."""
        self.copies.append(run)
        return await super().save_run(run)


def _agent(store: RunStore, tool: Tool, answers: Sequence[Value], judged: list[str]) -> Agent:
    @processor
    def judge(ctx: ToolCallContext) -> None:
        judged.append(ctx.tool_name)

    reviews = Reviews(store, from_start=True, lease=0.001)
    return Agent(ScriptedModel(list(answers)), tools=[tool], processors=[PIIDetector(), judge], reviews=reviews)


@pytest.mark.anyio
@pytest.mark.parametrize(("repeatable", "runs"), [(True, 2), (False, 1)])
async def test_a_tool_that_was_running_runs_again_only_if_it_may(*, repeatable: bool, runs: int) -> None:
    """Its call is not judged again, and the model is told if its effect is unknown."""
    found: list[int] = []

    def find(order: int) -> str:
        found.append(order)
        return f"it belongs to {SECRET}"

    store, judged = Copying(), list[str]()
    tool = Tool(find, repeatable=repeatable)
    first = _agent(store, tool, [{"tool_calls": [{"name": "find", "args": {"order": 7}}]}, "Found."], judged)
    assert (await first.generate(f"Find order 7, I am {SECRET}")).status == "success"
    begun = next(one for one in store.copies if one.body.get("begun"))
    assert all(SECRET not in str(one.body) for one in store.copies)

    later = Copying()  # as if the first process had died while its tool ran
    await later.save_run(replace(begun, version=0))
    reviews = Reviews(later, lease=0.001)
    assert [run.run_id for run in await reviews.abandoned()] == [begun.id]
    second = _agent(later, tool, ["Found."], judged)
    done = await second.resume(begun.id)
    assert (done.status, done.text) == ("success", "Found.")
    assert found == [7] * runs
    assert judged == ["find"]
    result = next(part for part in done.messages[1].parts if isinstance(part, ToolPart))
    assert (result.state == "error") is not repeatable
    assert await reviews.abandoned() == ()


@pytest.mark.anyio
async def test_a_request_that_failed_goes_on_where_it_stood() -> None:
    """The answered step is not asked for again, and neither is the tool."""
    found: list[int] = []
    store, judged = InMemoryStorage(), list[str]()

    def find(order: int) -> None:
        found.append(order)

    tool = Tool(find)
    calls = {"tool_calls": [{"name": "find", "args": {"order": 7}}]}
    with pytest.raises(ModelError):
        await _agent(store, tool, [calls, {"error": 503}], judged).generate("Find order 7", run_id="run-1")
    done = await _agent(store, tool, ["Found."], judged).resume("run-1")
    assert (done.status, done.text, found, judged) == ("success", "Found.", [7], ["find"])
