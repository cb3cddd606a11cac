"""Rows in several processes: the same results in the same order, and what a killed or stuck worker costs."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from penstock.workflows.rows import processes
from penstock.workflows.rows.job import RowsJob
from penstock.workflows.rows.processes import (
    BLOCK_ROWS,
    BLOCKS_AHEAD,
    RowProcesses,
    _Worker,
    checked_in_processes,
    size_of,
)
from penstock.workflows.rows.reading import RawRow, RowsError, parse_json
from penstock.workflows.rows.results import RowResult, RunCounts, StepDone, packed, unpacked
from tests.workflows.rows.poisonous import JOB, checked

ROOT = Path(__file__).parents[3]


def lines_of(*texts: str) -> list[bytes]:
    """Return texts as lines of JSON, with ids."""
    return [json.dumps({"id": number, "text": text}).encode() for number, text in enumerate(texts)]


def raw_rows(rows: list[bytes]) -> Iterator[RawRow]:
    """Return lines as they are read."""
    return (RawRow(number, line) for number, line in enumerate(rows, 1))


@pytest.mark.rest
def test_the_results_are_those_of_one_process_in_the_same_order() -> None:
    """To the byte, for rows of every status, and for any number of processes."""
    texts = [("bomb", "fine", "text with more words")[number % 3] + f" {number}" for number in range(1500)]
    rows = [*lines_of(*texts), b"no json", b"\xff", b"[]", b"3"]
    checker = JOB.started()
    alone = [checker.check(parse_json(RawRow(number, line))).made for number, line in enumerate(rows, 1)]
    assert [result.made for result in checked(rows, processes=2)] == alone
    assert [result.made for result in checked(rows, processes=3)] == alone


def counted(results: Iterable[RowResult]) -> tuple[object, ...]:
    """Return the counts of results, without times."""
    counts = RunCounts()
    for result in results:
        counts.add(result)
    steps = [(path, each.shadow, each.statuses, each.edits, each.flagged) for path, each in counts.steps.items()]
    return counts.statuses, counts.broken, counts.flagged, steps


@pytest.mark.rest
def test_the_counts_are_those_of_one_process() -> None:
    """Though workers count the steps, and send the counts of many rows at once."""
    rows = lines_of(*[("bomb", "fine", "text with more words")[number % 3] for number in range(700)])
    checker = JOB.started()
    alone = [checker.check(parse_json(RawRow(number, line))) for number, line in enumerate(rows, 1)]
    assert counted(checked(rows, processes=2)) == counted(alone)
    assert any(step.seconds for result in checked(rows[:9]) for step in result.counts.values())


@pytest.mark.parametrize("size", [1, 2, 7])
def test_results_that_are_sent_together_are_counted_once(size: int) -> None:
    """Wherever they are cut; and all but their steps is what it was."""
    done = [
        StepDone("a", "edited", shadow=False, edits=2, flagged=True, seconds=0.5),
        StepDone("b", "passed", shadow=True, edits=0, flagged=False, seconds=0.25),
    ]
    results = [
        RowResult(line, "edited", broken=False, flagged=True, seconds=1.0, steps=tuple(done[: line % 3]), made=(line,))
        for line in range(7)
    ]
    sent = [one for at in range(0, 7, size) for one in unpacked(packed(results[at : at + size]))]
    assert [one._replace(counts={}) for one in sent] == [one._replace(steps=()) for one in results]
    assert counted(sent) == counted(results)
    one, other = RunCounts(), RunCounts()
    for result, again in zip(results, sent, strict=True):
        one.add(result)
        other.add(again)
    assert {path: (each.seconds, each.slowest) for path, each in one.steps.items()} == {
        path: (each.seconds, each.slowest) for path, each in other.steps.items()
    }


@pytest.mark.rest
def test_a_row_that_kills_its_worker_costs_that_row() -> None:
    """It is tried twice, and fails with the reason; all others have their results, once each, in order."""
    texts = [f"text {number}" for number in range(400)]
    for place in (0, 57, 58, 399):
        texts[place] = "kill"
    texts[200] = "exit"
    results = checked(lines_of(*texts))
    assert [result.line for result in results] == list(range(1, 401))
    failed = {result.line - 1 for result in results if result.status == "failed"}
    assert failed == {0, 57, 58, 200, 399}
    row = json.loads(results[57].made[0])
    assert row["id"] == 57
    assert row["error"] == {
        "type": "RowLostError",
        "message": "the row has no result: its worker process was killed by signal 9",
    }
    assert "ended with exit code 3" in json.loads(results[200].made[0])["error"]["message"]


@pytest.mark.rest
def test_workers_are_kept_for_the_next_rows() -> None:
    """Also if one was killed meanwhile, by a row or while it waited, and if the rows were left early."""
    with closing(RowProcesses(JOB, processes=1)) as pool:

        def statuses(*texts: str) -> list[str]:
            rows = enumerate(lines_of(*texts), 1)
            return [result.status for result in pool.checked(RawRow(*row) for row in rows)]

        assert statuses("a", "bomb") == ["passed", "blocked"]
        (worker,) = multiprocessing.active_children()
        assert statuses() == []
        assert statuses("a") == ["passed"]
        assert multiprocessing.active_children() == [worker]
        assert statuses("a", "kill", "b") == ["passed", "failed", "passed"]
        (other,) = multiprocessing.active_children()
        other.kill()
        other.join()
        assert statuses("a", "bomb") == ["passed", "blocked"]
        with closing(pool.checked(RawRow(number, b'"a"') for number in count(1))) as endless:
            assert next(endless).line == 1
        assert multiprocessing.active_children() == []
        assert statuses("bomb") == ["blocked"]
    assert multiprocessing.active_children() == []


@pytest.mark.rest
def test_a_killed_worker_is_noticed_though_what_it_forked_lives_on() -> None:
    """The process that it forked keeps its connection open."""
    begun = time.monotonic()
    results = checked(lines_of("fine", "fork", "fine"))
    assert [result.status for result in results] == ["passed", "failed", "passed"]
    assert "killed by signal 9" in json.loads(results[1].made[0])["error"]["message"]
    assert time.monotonic() - begun < 20  # it did not wait for the forked ones


@pytest.mark.rest
def test_a_row_that_hangs_or_stops_its_worker_costs_that_row() -> None:
    """After the time that a row has; a stopped process can do nothing about it itself."""
    texts = ["fine"] * 40
    texts[3], texts[20] = "hang", "stop"
    results = checked(lines_of(*texts), row_seconds=2.0)
    assert [result.line for result in results if result.status == "failed"] == [4, 21]
    assert len(results) == 40
    assert "took too long" in json.loads(results[3].made[0])["error"]["message"]


@pytest.mark.rest
def test_sys_exit_in_a_step_costs_that_row() -> None:
    """By one process or many: with the exit code 0, a run that ends there would seem to be complete."""
    rows = lines_of("fine", "sys.exit", "fine")
    checker = JOB.started()
    alone = [checker.check(parse_json(RawRow(number, line))).made for number, line in enumerate(rows, 1)]
    results = checked(rows)
    assert [result.made for result in results] == alone
    assert [result.status for result in results] == ["passed", "failed", "passed"]
    assert json.loads(alone[1][0])["error"]["message"] == "a step called sys.exit()"


@pytest.mark.rest
def test_time_in_which_all_processes_are_stopped_is_not_that_of_a_row(monkeypatch) -> None:
    """As by Ctrl-Z: the clock goes on, and nothing else."""
    really_wait, seconds_stopped = processes.wait, 0.0
    moments = deque(["begin"] * 8 + ["stop", "read", "late", "go on"])

    def signal_workers(sent: signal.Signals) -> None:
        for worker in multiprocessing.active_children():
            if worker.pid is not None:
                os.kill(worker.pid, sent)

    def wait_or_stop(connections, seconds):
        nonlocal seconds_stopped
        said = really_wait(connections, seconds)
        if not moments or (moments[0] == "begin" and not said):  # workers that start say nothing
            return said
        moment = moments.popleft()
        if moment == "stop":
            signal_workers(signal.SIGSTOP)
        elif moment == "late":  # what they had said before they were stopped is read
            seconds_stopped = 2.5
        elif moment == "go on":
            signal_workers(signal.SIGCONT)
        return said

    monkeypatch.setattr(processes, "wait", wait_or_stop)
    monkeypatch.setattr(processes, "monotonic", lambda: time.monotonic() + seconds_stopped)
    results = checked(lines_of(*["nap"] * 40), row_seconds=1.0)
    assert [(result.line, result.status) for result in results] == [(line, "passed") for line in range(1, 41)]
    assert not moments


@pytest.mark.rest
def test_a_worker_that_ends_between_two_rows_costs_nothing() -> None:
    """Its block goes on in another worker: no row is blamed, lost or doubled."""
    pool = RowProcesses(JOB, processes=1)
    pool._rows = raw_rows(lines_of("a", "b", "c", "d", "e"))
    try:
        assert pool._has_waiting(1)
        block = pool._waiting.popleft()
        worker = _Worker(JOB, 60.0, pool._orphans)
        pool._workers.append(worker)
        worker.block, worker._at.value = block, 1
        checker = JOB.started()
        worker.take([checker.check(parse_json(row)) for row in block.rows[:2]])
        assert worker.row_at_work is None
        pool._lost(worker, "was killed", killed=True)
        assert list(pool._waiting) == list(pool._blocks) == [block]
        assert [row.line for row in block.rows] == [3, 4, 5]
    finally:
        pool.close()


def test_a_log_message_with_what_cannot_be_pickled_is_passed_on(capfd, caplog) -> None:
    """Without what the caller added to it."""
    assert [result.status for result in checked(lines_of("log"))] == ["passed"]
    assert "a lock" in caplog.messages
    assert "Traceback" not in capfd.readouterr().err


def test_the_size_of_a_row_is_that_of_all_its_texts() -> None:
    """Of nested ones, too: blocks of long rows are short."""
    nested = {"messages": [{"content": [{"text": "x" * 50}, {"data": b"y" * 5}]}], "n": 3, "id": "abc"}
    assert size_of(RawRow(1, nested)) == 58


@pytest.mark.rest
def test_a_worker_that_is_killed_by_chance_costs_nothing(tmp_path) -> None:
    """Its row is tried again."""
    texts = [f"once {tmp_path}/{number}" if number % 50 == 0 else f"text {number}" for number in range(300)]
    results = checked(lines_of(*texts))
    assert [result.line for result in results] == list(range(1, 301))
    assert {result.status for result in results} == {"passed"}


def test_input_is_read_a_few_blocks_ahead_only() -> None:
    """However fast it comes: memory does not grow with it."""
    read = count()
    rows = (RawRow(next(read) + 1, b'"text"') for _ in range(10**6))
    with closing(checked_in_processes(JOB, rows, processes=2)) as results:
        for _ in range(100):
            next(results)
    assert next(read) <= 100 + 2 * (BLOCKS_AHEAD + 1) * BLOCK_ROWS


def test_leaving_early_ends_the_workers() -> None:
    """Nobody keeps a core busy afterwards."""
    rows = (RawRow(number, b'"text"') for number in range(1, 100_000))
    with closing(checked_in_processes(JOB, rows, processes=2)) as results:
        next(results)
        children = _children()
        assert len(children) >= 2
    assert not [child for child in children if _is_worker(child)]


@pytest.mark.rest
def test_no_worker_heeds_ctrl_c() -> None:
    """A terminal sends it to all processes, and this one ends the others; the first worker is no exception."""
    code = (
        "import sys; from contextlib import closing; from pathlib import Path\n"
        "from tests.workflows.rows.poisonous import JOB\n"
        "from penstock.workflows.rows.processes import checked_in_processes\n"
        "from penstock.workflows.rows.reading import RawRow\n"
        "rows = (RawRow(number, b'\"text\"') for number in range(10**6))\n"
        "with closing(checked_in_processes(JOB, rows, processes=2)) as results:\n"
        "    for _ in range(2000): next(results)\n"
        "    for task in Path('/proc/self/task').iterdir():\n"
        "        for child in (task / 'children').read_text().split():\n"
        "            if b'spawn_main' in Path(f'/proc/{child}/cmdline').read_bytes():\n"
        "                print(Path(f'/proc/{child}/status').read_text().partition('SigBlk:')[2].split()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    blocked = [int(mask, 16) for mask in done.stdout.split()]
    assert len(blocked) == 2
    assert all(mask & 1 << (signal.SIGINT - 1) for mask in blocked)


def test_an_error_of_reading_comes_after_the_results_of_what_was_read() -> None:
    """As with one process."""

    def rows():
        for number in range(1, 31):
            yield RawRow(number, b'"text"')
        raise RowsError("the file is broken here")

    taken = []
    results = checked_in_processes(JOB, rows(), processes=2)
    with pytest.raises(RowsError, match="broken here"):  # noqa: PT012 - it comes at the end
        for result in results:
            taken.append(result.line)  # noqa: PERF401 - what was taken before the error counts
    assert taken == list(range(1, 31))


def test_a_workflow_that_cannot_be_loaded_is_an_error() -> None:
    """Not an endless row of processes."""
    job = RowsJob("no_such_module:guard")
    with pytest.raises(RowsError, match=r"cannot load the workflow.*no_such_module"):
        list(checked_in_processes(job, [RawRow(1, b'"text"')], processes=2))


@pytest.mark.rest
def test_workers_that_die_before_they_check_anything_end_the_run(tmp_path) -> None:
    """As where memory is short."""
    (tmp_path / "dying.py").write_text("import os\nos._exit(9)\n")
    job = RowsJob(f"{tmp_path}/dying.py:guard")
    with pytest.raises(RowsError, match="before they have checked a row; the last one ended with exit code 9"):
        list(checked_in_processes(job, [RawRow(1, b'"text"')], processes=2))


@pytest.mark.rest
def test_workers_killed_again_and_again_lose_and_double_nothing() -> None:
    """From outside, at any moment, also while they start or send; only a row that was hit twice has failed."""
    rows = raw_rows(lines_of(*(f"text {number}" for number in range(4000))))
    results, killed = [], set[int]()
    for result in checked_in_processes(JOB, rows, processes=2):
        results.append(result)
        if result.line % 800 == 0:
            worker = next(filter(_is_worker, _children()))
            killed.add(worker)
            os.kill(worker, 9)
    assert len(killed) == 5
    assert [result.line for result in results] == list(range(1, 4001))
    assert Counter(result.status for result in results)["passed"] >= 3990


def _children() -> list[int]:
    """Return the processes that this one has started."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [int(child) for task in tasks for child in _read(f"{task}/children").split()]


def _is_worker(child: int) -> bool:
    """Return whether a process is one that checks rows, and lives."""
    return "spawn_main" in _read(f"/proc/{child}/cmdline") and ") Z" not in _read(f"/proc/{child}/stat")


def _read(path: str) -> str:
    try:
        return Path(path).read_text("latin-1")
    except OSError:
        return ""
