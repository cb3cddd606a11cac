"""`penstock run` in processes of its own: what is written by several processes, and runs that are killed and go on."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock

pytestmark = pytest.mark.rest

ROOT = Path(penstock.__file__).parents[1]
ROWS = 3000


@pytest.fixture
def rows(world: Path) -> Path:
    """Return a file of rows, on which one process is busy for a while."""
    text = "some words to read, and more of them; " * 30
    lines = (json.dumps({"id": n, "text": f"{n} {text}", "label": f"l{n % 3}"}) for n in range(ROWS))
    path = world / "rows.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def started(world: Path, *argv: str) -> subprocess.Popen[bytes]:
    """Start a run over the rows."""
    command = [sys.executable, "-m", "penstock", "run", "guards.py:guard", "-i", "rows.jsonl", "--no-times", *argv]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=world, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def finished(world: Path, *argv: str) -> str:
    """Run over the rows, and return what stderr says."""
    with started(world, *argv) as process:
        _, err = process.communicate()
    assert process.returncode == 0, err
    return err.decode()


def killed(world: Path, out: Path, size: int, kind: signal.Signals, *argv: str) -> None:
    """Start a run, and end it when its output has so many bytes, or when it is done."""
    with started(world, *argv) as process:
        while process.poll() is None and (not out.exists() or out.stat().st_size < size):
            time.sleep(0.01)
        if kind is signal.SIGKILL:
            os.killpg(process.pid, kind)
        elif process.poll() is None:
            process.send_signal(kind)
        process.communicate()


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_goes_on_and_loses_and_doubles_nothing(world: Path, rows, kind, jobs) -> None:
    """Again and again."""
    out = world / "out.jsonl"
    finished(world, "-o", "whole.jsonl", "-j", jobs)
    whole = (world / "whole.jsonl").read_bytes()
    for part in (0, 5):
        killed(world, out, len(whole) * (part + 1) // 10, kind, "-o", "out.jsonl", "--resume", "-j", jobs)
    assert f"{ROWS:,} rows" in finished(world, "-o", "out.jsonl", "--resume", "-j", jobs)
    assert out.read_bytes() == whole
    assert [json.loads(line)["id"] for line in whole.splitlines()] == list(range(ROWS))


def test_several_processes_write_what_one_writes(world: Path, rows) -> None:
    """In each format: what is written is made where a row is checked."""
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("csv", "jsonl.gz", "parquet"):
        finished(world, "-o", f"one.{name}", "-j", "1")
        finished(world, "-o", f"two.{name}", "-j", "2")
    assert (world / "one.csv").read_bytes() == (world / "two.csv").read_bytes()
    one, two = (gzip.decompress((world / f"{name}.jsonl.gz").read_bytes()) for name in ("one", "two"))
    assert one == two
    one, two = (parquet.read_table(world / f"{name}.parquet") for name in ("one", "two"))
    assert one.equals(two)
    assert one.column("label").to_pylist() == [f"l{n % 3}" for n in range(ROWS)]


def test_dead_letters_are_not_behind_the_results_of_a_killed_run(world: Path) -> None:
    """A run that is killed leaves the letter of each result that it has written."""
    lines = [json.dumps({"id": n, "text": "some words " * 20} if n % 40 else 3) for n in range(6000)]
    (world / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    killed(world, world / "out.jsonl", 200_000, signal.SIGKILL, "-o", "out.jsonl", "--dead-letters", "dead.jsonl")
    results = [
        json.loads(line) for line in (world / "out.jsonl").read_bytes().splitlines(keepends=True) if line[-1:] == b"\n"
    ]
    invalid = [row["line"] for row in results if row["status"] == "invalid"]
    letters = [json.loads(line)["line"] for line in (world / "dead.jsonl").read_bytes().splitlines()]
    assert letters[: len(invalid)] == invalid != []
