"""`penstock review`: what waits is listed and shown, and decisions are stored, so that the application goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import anyio
import pytest

from penstock import SQLiteStorage
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
