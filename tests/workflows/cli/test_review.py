"""`penstock review`: what waits is listed and shown, and decisions are stored, so that the application goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from penstock import Agent, SQLiteStorage
from penstock.engine.values.stored import StoredRun
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from penstock.workflows.review.waiting import VERSION
from tests.workflows.review.made import CALLS, SECRET, Shop, agent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.conftest import Run


@pytest.fixture
def store(world: Path) -> tuple[str, str]:
    """Return the path of a store with a run that waits, and its id."""
    path = str(world / "runs.db")

    async def asked() -> str:
        storage = SQLiteStorage(path)
        made = await agent(storage, [CALLS], Shop()).generate(f"Refund order 7, I am {SECRET}", thread_id="t")
        await storage.close()
        return made.run_id

    return path, anyio.run(asked)


def test_a_run_is_listed_shown_and_approved(run: Run, store: tuple[str, str]) -> None:
    """And then it can go on."""
    path, run_id = store
    listed = run("review", "list", "--store", path)
    assert listed.code == 0
    assert run_id in listed.out.replace("\n", "")
    assert "refund: waits" in listed.out
    shown = run("review", "show", "--store", path, run_id)
    assert "Refund order 7" in shown.out
    assert SECRET not in shown.out
    approved = run("review", "approve", "--store", path, run_id, "--by", "eve")
    assert approved.out == f"{run_id}: refund: approved; it can go on\n"
    again = run("review", "reject", "--store", path, run_id, "call-1")
    assert again.code == 2
    assert "decided about already by eve: approve" in again.err
    assert "approved by eve" in run("review", "show", "--store", path, run_id).out


def test_a_decision_about_a_run_that_waits_for_an_agent_reaches_it(run: Run, world: Path) -> None:
    """Under the id of the outer run, as in Python."""
    path = str(world / "runs.db")

    async def asked() -> str:
        storage = SQLiteStorage(path)
        inner = agent(storage, [CALLS], Shop())
        call = {"tool_calls": [{"name": "agent", "args": {"prompt": "Refund order 7"}}]}
        outer = Agent(ScriptedModel([call]), tools=[inner.as_tool()], reviews=storage)
        made = await outer.generate("Refund order 7")
        await storage.close()
        return made.run_id

    run_id = anyio.run(asked)
    assert "waits for its own run" in run("review", "show", "--store", path, run_id).out
    assert run("review", "list", "--store", path).code == 0
    assert run("review", "approve", "--store", path, run_id, "--by", "eve").code == 0
    listed = run("review", "list", "--store", path, "-f", "jsonl").out
    assert '"by": "eve"' in listed


def test_json_has_all_fields(run: Run, store: tuple[str, str]) -> None:
    """One object a run."""
    path, run_id = store
    run("review", "reject", "--store", path, run_id, "--reason", "late", "--by", "eve")
    (line,) = run("review", "list", "--all", "--store", path, "-f", "jsonl").out.splitlines()
    found = json.loads(line)
    assert (found["run_id"], found["status"], found["thread_id"]) == (run_id, "waiting", "t")
    assert found["calls"][0]["decision"]["reason"] == "late"


def test_wrong_use_says_what_to_do(run: Run, store: tuple[str, str]) -> None:
    """A run that is not there, a call that waits for approval, a value that is no JSON, no store."""
    path, run_id = store
    assert "there is no suspended run" in run("review", "show", "--store", path, "other").err
    assert "waits for approval" in run("review", "answer", "--store", path, run_id, "call-1", "1").err
    assert "a text needs quotes" in run("review", "answer", "--store", path, run_id, "call-1", "yes").err
    assert "--store" in run("review", "list").err


def test_an_agent_within_an_agent_is_said_to_wait_for_its_own_run(run: Run, world: Path) -> None:
    """Decide about that one."""
    path = str(world / "runs.db")
    call = {"call_id": "c1", "tool": "clerk", "arguments": {}, "kind": "run", "digest": "", "inner": "r2"}
    body = {"version": VERSION, "waiting": [call], "question": "", "text": ""}

    async def stored() -> None:
        async with SQLiteStorage(path) as storage:
            await storage.save_run(StoredRun("r1", "desk", body=body))

    anyio.run(stored)
    assert "clerk: waits for its own run" in run("review", "list", "--store", path).out.replace("\n", " ")


RULE = """
def may_decide(run, by):
    return by == "boss" and run.calls[0].tool == "refund"

def asks(run, by):
    return "no"
"""


def test_who_may_decide_is_asked_on_the_command_line_too(run: Run, world: Path) -> None:
    """A run that was stored with a rule is decided about with one only; the record has who decided."""
    path = str(world / "runs.db")
    (world / "rules.py").write_text(RULE)

    async def asked() -> str:
        storage = SQLiteStorage(path)
        reviews = Reviews(storage, may_decide=lambda run, by: by == "boss")
        made = await agent(reviews, [CALLS], Shop()).generate("Refund order 7", thread_id="t")
        await storage.close()
        return made.run_id

    run_id = anyio.run(asked)
    approve = ("review", "approve", "--store", path, run_id)
    without = run(*approve, "--by", "boss")
    assert without.code == 2
    assert "its application has a rule about who may decide" in without.err
    rule = ("--may-decide", str(world / "rules.py:may_decide"))
    other = run(*approve, *rule, "--by", "eve")
    assert other.code == 2
    assert "'eve' may not decide about it" in other.err
    broken = run(*approve, "--may-decide", str(world / "rules.py:asks"), "--by", "boss")
    assert "may_decide returned str; it has to return True or False" in broken.err
    assert run(*approve, "--may-decide", str(world / "rules.py:gone")).code == 2
    assert run(*approve, *rule, "--by", "boss").code == 0
    record = json.loads(run("review", "show", "--store", path, run_id, "--json").out)["record"]
    assert [made["by"] for made in record["decisions"]] == ["boss"]
