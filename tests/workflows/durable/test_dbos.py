"""Requests as DBOS workflows: each process is one of its own, since DBOS has one state a process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WAITS = """
import asyncio, sys
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer
from penstock import InMemoryStorage
from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.dbos import DurableAgent
from penstock.workflows.review import Reviews
from tests.workflows.review.made import CALLS, SECRET, Shop, agent

serializer = None if sys.argv[2:] else DBOSPortableJSONSerializer()
DBOS(config=DBOSConfig(
    name="waits", system_database_url=f"sqlite:///{sys.argv[1]}", serializer=serializer, log_level="ERROR"))
reviews, shop = Reviews(InMemoryStorage()), Shop()
durable = DurableAgent(agent(reviews, [CALLS, "It is refunded."], shop))
DBOS.launch()

async def main():
    question = f"Refund order 7, I am {SECRET}"
    try:
        asked = await durable.generate(question, run_id="run-1")
    except UsageError as error:
        return print(error)
    print(asked.status, *asked.pending)
    again = await durable.generate(question, run_id="run-1")
    print(again == asked, (await reviews.run("run-1")).status)
    done = await durable.resume("run-1", decisions={"call-1": True}, by="eve")
    print(done.status, done.text, [order for order, _ in shop.refunded])

asyncio.run(main())
DBOS.destroy()
"""


@pytest.mark.rest
@pytest.mark.timeout(900)  # two processes a line
def test_a_workflow_killed_at_any_line_repeats_nothing_that_was_recorded(tmp_path: Path) -> None:
    """DBOS recovers it in the next process; no byte of its database tells what was hidden."""
    assert _killed(str(tmp_path)) >= 20, "it was killed at that many lines"


@pytest.mark.rest
@pytest.mark.timeout(900)
def test_on_postgresql_neither(tmp_path: Path, postgres: str) -> None:
    """The same with a server."""
    assert _killed(str(tmp_path), postgres) >= 20


def _killed(*args: str) -> int:
    command = [sys.executable, "-m", "tests.workflows.durable.killed_in_dbos", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def _said(folder: Path, *more: str) -> list[str]:
    command = [sys.executable, "-c", WAITS, str(folder / "dbos.db"), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.rest
def test_a_workflow_that_waits_for_a_person_ends_and_another_goes_on(tmp_path: Path) -> None:
    """A request that is sent twice is one; the call waits in the agent's reviews."""
    assert _said(tmp_path) == [
        "suspended call-1",
        "True waiting",
        "success I will refund it.It is refunded. [7]",
    ]
    for path in tmp_path.glob("dbos.db*"):
        assert b"ann@example.com" not in path.read_bytes()


@pytest.mark.rest
def test_a_log_of_pickles_is_refused(tmp_path: Path) -> None:
    """Who can write one could run code here."""
    assert _said(tmp_path, "pickles")[0].startswith("DBOS is configured to record pickles")
