"""Processes that are killed while they go on with a run: no tool runs twice, and nothing is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from penstock import SQLiteStorage
from penstock.workflows.review import Reviews
from tests.stores.postgres.servers import why_not
from tests.stores.stored import stored_bytes
from tests.workflows.review.made import CALLS, SECRET, Shop, agent

PROCESS = """
import sys
import anyio
from pathlib import Path
from penstock import SQLiteStorage
from penstock.engine.values.errors import ReviewError
from penstock.workflows.review import Reviews
from tests.workflows.review.made import Shop, agent

class Diary(Shop):
    def refund(self, order: int, note: str = "") -> str:
        with Path(sys.argv[3]).open("a") as diary:
            diary.write(f"{order}\\n")
        return "refunded"

async def go_on():
    reviews = Reviews(SQLiteStorage(sys.argv[1]), lease=0.3)
    print("ready", flush=True)
    sys.stdin.readline()
    while True:
        try:
            done = await agent(reviews, ["It is refunded."], Diary()).resume(sys.argv[2])
            return print(done.status)
        except ReviewError as error:
            if "it has ended" in error.problem:
                return print("ended")
            await anyio.sleep(0.02)

anyio.run(go_on)
"""


@pytest.mark.rest
def test_a_killed_process_repeats_no_tool_and_loses_no_run(tmp_path: Path) -> None:
    """Five runs, each with a process that is killed at a random moment of its work, and one that takes it over."""
    path, diary = str(tmp_path / "runs.db"), tmp_path / "diary"
    dice = random.Random(41)  # noqa: S311 - no secret

    async def asked() -> str:
        reviews = Reviews(SQLiteStorage(path))
        made = await agent(reviews, [CALLS], Shop()).generate(f"Refund order 7, I am {SECRET}")
        await reviews.approve(made.run_id, by="eve")
        return made.run_id

    for _ in range(5):
        run_id = anyio.run(asked)
        diary.write_text("")
        command = [sys.executable, "-c", PROCESS, path, run_id, str(diary)]
        with (
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
        ):
            for process in (killed, other):
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            assert killed.stdin is not None
            killed.stdin.write("\n")
            killed.stdin.flush()
            time.sleep(dice.uniform(0, 0.08))
            killed.kill()
            said, _ = other.communicate("\n", timeout=60)
        assert said.strip() in ("success", "ended")
        assert len(diary.read_text().splitlines()) <= 1
        assert SECRET.encode() not in stored_bytes(tmp_path, "runs.db")

    async def status() -> list[str]:
        return [run.status for run in (await Reviews(SQLiteStorage(path)).runs(status=None)).items]

    assert anyio.run(status) == ["ended"] * 5


def said_by(module: str, *arguments: str) -> str:
    """Return what a driver of `tests.workflows.review` has printed; it has found nothing."""
    command = [sys.executable, "-m", f"tests.workflows.review.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


@pytest.mark.rest
def test_a_killed_process_pays_for_nothing_twice_at_any_stage() -> None:
    """Ten processes that ask, decide or go on are killed; `tests.workflows.review.kills` kills more of them."""
    assert '"kills": 1' in said_by("kills", "10")


@pytest.mark.rest
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_of_twenty_processes_one_goes_on_whatever_clocks_and_servers_do() -> None:
    """Two rounds, the second with clocks that jump; `tests.workflows.review.crowd` runs more of them."""
    assert '"success": 2' in said_by("crowd", "2")


@pytest.mark.rest
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_killed_process_pays_for_nothing_twice_on_a_server_that_crashes() -> None:
    """PostgreSQL is restarted, as if it had crashed, in half of the rounds; no file of it holds hidden text."""
    assert '"restarts": 0' not in said_by("kills", "5", "--store", "postgres", "--restarts", "0.5")
