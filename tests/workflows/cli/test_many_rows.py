"""`penstock run` over many rows: processes, columns, dead letters, and what ends a run."""

import filecmp
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.workflows.cli.checking import SMALL
from penstock.workflows.rows import processes
from tests.workflows.cli.ctrl_c import heed_ctrl_c

ROOT = Path(penstock.__file__).parents[1]
POISONOUS = Path(__file__).parents[1] / "rows" / "poisonous.py"


def started(cwd: Path, *argv: str) -> subprocess.Popen[bytes]:
    """Start the command in that folder."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-m", "penstock", "run", *argv]
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - it takes no lock
        start_new_session=True,
    )


def written(world: Path, count: int) -> str:
    """Write rows of many kinds to a file, and return its name."""
    texts = ["fine", "to ann@example.com", "bomb", "crash", 3]
    lines = [json.dumps({"id": number, "text": texts[number % 5], "label": number % 2}) for number in range(count)]
    (world / "many.jsonl").write_text("\n".join([*lines, "no json", "", '"last"']) + "\n", "utf-8")
    return "many.jsonl"


@pytest.mark.rest
def test_several_processes_write_what_one_does(world: Path, run) -> None:
    """To the byte, in every file; and stderr is told the same."""
    name = written(world, 2000)
    told = {}
    for jobs in ("1", "3"):
        files = ("-o", f"out{jobs}.jsonl", "--dead-letters", f"dead{jobs}.jsonl")
        ran = run("run", "guards.py:guard", "-i", name, "-j", jobs, "--no-times", *files)
        assert ran.code == 3
        told[jobs] = ran.err.rpartition(" in ")[0]
    assert (world / "out1.jsonl").read_bytes() == (world / "out3.jsonl").read_bytes()
    assert (world / "dead1.jsonl").read_bytes() == (world / "dead3.jsonl").read_bytes()
    assert told["1"] == told["3"]
    assert "2,002 rows: 401 passed, 400 edited, 400 blocked, 400 failed, 401 invalid" in told["1"]


@pytest.mark.rest
def test_a_table_and_a_report_are_those_of_one_process(world: Path, run) -> None:
    """But for times."""
    name = written(world, 600)
    tables, reports = [], []
    for jobs in ("1", "2"):
        ran = run("run", "guards.py:guard", "-i", name, "-j", jobs, "-f", "table", "--report", f"r{jobs}.html")
        tables.append([line.split()[:4] for line in ran.out.splitlines() if "edited" in line])
        reports.append((world / f"r{jobs}.html").read_text("utf-8").count('"status"'))
    assert tables[0] == tables[1] != []
    assert reports[0] == reports[1] > 0


@pytest.mark.rest
def test_a_large_file_takes_all_cores_and_a_small_one_none(world: Path, run, monkeypatch) -> None:
    """By default; starting a process takes longer than a few rows do."""
    counts = []
    real = processes.checked_in_processes

    def counted(*args, processes, **options):
        counts.append(processes)
        return real(*args, processes=processes, **options)

    monkeypatch.setattr(processes, "checked_in_processes", counted)
    (world / "small.jsonl").write_text('"text"\n' * 10)
    (world / "large.jsonl").write_text('"text"\n' * (SMALL // 7 + 1))
    run("run", "guards.py:guard", "-i", "small.jsonl")
    assert counts == []
    run("run", "guards.py:guard", "-i", "large.jsonl")
    assert counts == [len(os.sched_getaffinity(0))]


@pytest.mark.rest
def test_a_row_that_kills_or_hangs_its_worker_is_a_dead_letter(world: Path, run) -> None:
    """It is reported, it stands in the results as failed, and it can be run again from its file."""
    texts = ["fine", "kill", "fine", "hang", "fine"]
    rows = [json.dumps({"id": f"row-{number}", "text": text}) for number, text in enumerate(texts)]
    (world / "rows.jsonl").write_text("\n".join(rows))
    options = ("-j", "2", "--row-timeout", "2", "--dead-letters", "dead.jsonl")
    ran = run("run", f"{POISONOUS}:guard", "-i", "rows.jsonl", *options)
    assert ran.code == 3
    assert [row["status"] for row in ran.rows] == ["passed", "failed", "passed", "failed", "passed"]
    assert "line 2: failed: the row has no result: its worker process was killed by signal 9" in ran.err
    assert "line 4: failed: the row has no result: its worker process took too long" in ran.err
    letters = [json.loads(line) for line in (world / "dead.jsonl").read_text().splitlines()]
    assert [(letter["line"], letter["id"], letter["input"]["text"]) for letter in letters] == [
        (2, "row-1", "kill"),
        (4, "row-3", "hang"),
    ]
    again = run("run", "guards.py:guard", "-i", "dead.jsonl", "--text", "input")
    assert [(row["status"], row["text"]) for row in again.rows] == [("passed", "kill"), ("passed", "hang")]


def test_a_row_that_cannot_be_parsed_is_a_dead_letter_as_it_came(world: Path, run) -> None:
    """Bytes that are no UTF-8 are escaped."""
    (world / "rows.jsonl").write_bytes(b'{"text": "x"}\n{"text": \xff}\n{broken\n')
    run("run", "guards.py:guard", "-i", "rows.jsonl", "--dead-letters", "dead.jsonl")
    letters = [json.loads(line) for line in (world / "dead.jsonl").read_text("utf-8").splitlines()]
    assert [letter["raw"] for letter in letters] == ['{"text": \\xff}', "{broken"]
    assert [letter["status"] for letter in letters] == ["invalid", "invalid"]


@pytest.mark.rest
def test_ctrl_c_ends_the_workers_too(world: Path) -> None:
    """Whole lines, the same sentences as with one process, and no traceback: a terminal tells all processes."""
    (world / "rows.jsonl").write_text('"text"\n' * 2_000_000)
    with started(world, "guards.py:guard", "-i", "rows.jsonl", "-j", "2") as process:
        first = [json.loads(process.stdout.readline()) for _ in range(3)]
        os.killpg(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        err = process.stderr.read().decode()
        assert process.wait() == 130
    rows = [*first, *map(json.loads, rest.splitlines())]
    assert [row["line"] for row in rows] == list(range(1, len(rows) + 1))
    counts, interrupted = err.splitlines()
    assert counts.startswith(f"penstock: {len(rows):,} rows: ")
    assert interrupted == f"penstock: interrupted after {len(rows):,} rows"


@pytest.mark.rest
def test_a_reader_that_goes_away_ends_the_workers_too(world: Path) -> None:
    """As in `penstock run … | head`."""
    (world / "rows.jsonl").write_text('"text"\n' * 2_000_000)
    with started(world, "guards.py:guard", "-i", "rows.jsonl", "-j", "2") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


@pytest.mark.rest
def test_a_full_disk_is_told_in_a_sentence(world: Path) -> None:
    """And not by a traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    (world / "rows.jsonl").write_text('"text"\n' * 200_000)
    with started(world, "guards.py:guard", "-i", "rows.jsonl", "-j", "2", "-o", "/dev/full") as process:
        _, err = process.communicate()
        assert process.returncode == 2
    assert "No space left on device" in err.decode()
    assert "Traceback" not in err.decode()


@pytest.mark.rest
def test_a_log_message_of_a_worker_is_written_once(world: Path) -> None:
    """Whichever worker logs it."""
    (world / "rows.jsonl").write_text('"same"\n' * 500)
    with started(world, "guards.py:chatty", "-i", "rows.jsonl", "-j", "2", "-o", "out.jsonl") as process:
        _, err = process.communicate()
    lines = err.decode().splitlines()
    assert lines.count("saw same") == 1
    assert "penstock: logged 499 more times: saw same" in lines


ODD = [
    b'{"id": 1, "text": "nul \x00"}',
    b'{"id": 2, "text": "nul \\u0000"}',
    b'{"id": 3, "text": "' + "ä".encode() * 40_000 + b'\xc3"}',
    *(b'{"id": %d, "text": "x", "deep": ' % depth + b"[" * depth + b"]" * depth + b"}" for depth in range(190, 210)),
    *(
        b'{"id": %d, "text": "x", "deep": ' % depth + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        for depth in (199, 200)
    ),
    *(b"[" * depth + b"]" * depth for depth in (900, 950, 980, 990, 10_000, 1_000_000)),
    b'{"id": 4, "text": "x", "n": ' + b"9" * 5000 + b"}",
    b'{"id": 5, "text": "half \\ud800"}',
    b'{"id": 6, "text": "x", "n": NaN, "m": 1e999}',
    b'{"id": 6, "text": "x", "label": 1}',
    b'{"id": 6, "text": "x", "label": "a"}',
    b'{"id": {"a": 1}, "text": "x", "": 2}',
    b'{"text": "' + b"a " * 150_000 + b'"}',
    b'{"id": 7, "text": "x"}',
]
"""Rows that nobody expects."""


@pytest.mark.rest
def test_rows_that_nobody_expects_cost_no_other_row(world: Path, run) -> None:
    """Each has one result, and the same with every number of processes."""
    (world / "odd.jsonl").write_bytes(b"\n".join(ODD))
    for jobs in ("1", "2"):
        files = ("-o", f"out{jobs}.jsonl", "--dead-letters", f"dead{jobs}.jsonl")
        assert run("run", "guards.py:guard", "-i", "odd.jsonl", "-j", jobs, "--no-times", *files).code == 3
    assert filecmp.cmp("out1.jsonl", "out2.jsonl", shallow=False)
    assert filecmp.cmp("dead1.jsonl", "dead2.jsonl", shallow=False)
    rows = [json.loads(line) for line in (world / "out1.jsonl").read_text("utf-8").splitlines()]
    assert [row["line"] for row in rows] == list(range(1, len(ODD) + 1))
    deep = [row["status"] for row in rows if "deep" in row or "too deeply" in str(row["error"])]
    assert deep == ["passed"] * 10 + ["invalid"] * 10 + ["passed"] + ["invalid"] * 7
    assert rows[-1]["status"] == "passed"


# Columns


def test_columns_are_named_and_others_are_kept(run, lines) -> None:
    """As they came, under a name of their own where a field of the result has that name."""
    row = {"uid": "a", "prompt": "to ann@example.com", "label": 1, "meta": {"x": [1]}, "status": "old", "text": "other"}
    ran = run("run", "guards.py:guard", "-", "--text", "prompt", "--id", "uid", stdin=lines(row))
    result = ran.rows[0]
    assert (result["id"], result["text"], result["status"]) == ("a", "to [EMAIL]", "edited")
    assert (result["label"], result["meta"]) == (1, {"x": [1]})
    assert (result["input_status"], result["input_text"]) == ("old", "other")
    assert "prompt" not in result
    few = run("run", "guards.py:guard", "-", "--text", "prompt", "--keep", "label", "--keep", "none", stdin=lines(row))
    assert few.rows[0].keys() & {"label", "meta", "uid", "input_status", "prompt"} == {"label"}


@pytest.mark.rest
@pytest.mark.parametrize("options", [(), ("-j", "2"), ("-f", "csv", "-o", "out.csv")])
def test_a_kept_column_that_no_row_has_is_told_at_the_end(run, lines, options) -> None:
    """One that some rows have is not, and the exit code says what it said."""
    rows = [{"text": "x"}, {"text": "y", "some": 1}, {"text": "z"}, "a string"]
    ran = run("run", "guards.py:guard", "-", "--keep", "some", "--keep", "none", *options, stdin=lines(*rows))
    assert ran.code == 0
    assert ran.err.endswith("penstock: no row has the column 'none', which --keep names\n")
    ran = run("run", "guards.py:guard", "-", "--keep", "some", *options, stdin=lines(*rows))
    assert "--keep" not in ran.err


def test_a_kept_column_that_a_table_does_not_have_is_an_error(run, world: Path) -> None:
    """Its columns are known before anything runs; of several tables one is enough."""
    (world / "a.csv").write_text("text,n\nx,1\n")
    (world / "b.csv").write_text("text,m\ny,2\n")
    ran = run("run", "guards.py:guard", "-i", "a.csv", "--keep", "m")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "penstock: the input has no column 'm', which --keep names; it has 'text', 'n'\n"
    both = run("run", "guards.py:guard", "-i", "a.csv", "-i", "b.csv", "--keep", "m")
    assert (both.code, [row.get("m") for row in both.rows]) == (0, [None, "2"])


@pytest.mark.parametrize(
    ("name", "options", "cure"),
    [
        ("guard", (), "use --jobs 2 or more"),
        ("guard", ("-j", "1"), "use --jobs 2 or more"),
        ("slow", ("-j", "2"), "give its async steps a timeout"),
    ],
)
def test_a_row_timeout_without_processes_says_that_it_does_nothing(run, lines, name, options, cure) -> None:
    """It is no promise that nobody keeps."""
    ran = run("run", f"guards.py:{name}", "-", "--row-timeout", "2", *options, stdin=lines("x"))
    told = "penstock: --row-timeout is ignored: it can only end processes, and this run has none; "
    assert (ran.code, ran.err.splitlines()[0]) == (0, told + cure)
    assert "--row-timeout" not in run("run", f"guards.py:{name}", "-", *options, stdin=lines("x")).err
    if name == "guard":
        assert (
            "--row-timeout"
            not in run("run", "guards.py:guard", "-", "-j", "2", "--row-timeout", "9", stdin=lines("x")).err
        )


def test_no_two_kept_columns_get_one_name(run, lines) -> None:
    """A column may be named as one that was renamed."""
    row = {"text": "x", "status": 1, "input_status": 2, "input_input_status": 3, "input_x": 4, "input": 5}
    result = run("run", "guards.py:guard", "-", stdin=lines(row)).rows[0]
    assert [result[name] for name in ("input_status", "input_input_status", "input_input_input_status")] == [1, 2, 3]
    assert (result["input_x"], result["input_input"], result["status"]) == (4, 5, "passed")


def test_labels_of_texts_and_conversations_are_kept_and_fields_of_a_message_are_its_own(run, lines) -> None:
    """What belongs to a message comes back in it, where guards have read it."""
    rows = (
        {"text": "x", "label": 1},
        {"messages": [{"role": "user", "content": "x"}], "label": 2},
        {"role": "user", "content": "x", "label": 3},
    )
    ran = run("run", "guards.py:guard", "-", stdin=lines(*rows))
    assert [row.get("label") for row in ran.rows] == [1, 2, None]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"text": "x"}, "it has no column 'prompt'"),
        ("x", "it has no column 'prompt'"),
        ({"prompt": None}, "prompt: it is null"),
        ({"prompt": 3}, "a row is a string, an object or a list of messages, not a number"),
    ],
)
def test_a_row_without_the_column_is_invalid(run, lines, row, problem) -> None:
    """And says why."""
    ran = run("run", "guards.py:guard", "-", "--text", "prompt", stdin=lines(row))
    assert ran.rows[0]["status"] == "invalid"
    assert problem in ran.rows[0]["error"]["message"]


def test_without_times_two_runs_write_the_same(run, lines) -> None:
    """Times are in no row and no record."""
    stdin = lines("fine", "to ann@example.com", "bomb", "crash", 3)
    first, second = (run("run", "guards.py:guard", "-", "--no-times", stdin=stdin) for _ in range(2))
    assert first.out == second.out
    assert '"ms"' not in first.out


def test_an_engine_needs_files_and_is_named(world: Path, run) -> None:
    """Before anything is started; Ray itself is not needed for that."""
    for arguments in (("a text",), ("-",)):
        ran = run("run", "guards.py:guard", *arguments, "--engine", "ray", stdin=b"x\n")
        assert (ran.code, ran.out) == (2, "")
        assert "--engine ray reads files, which all its machines can see; give --input FILE" in ran.err
    ran = run("run", "guards.py:guard", "a text", "--address", "127.0.0.1:6379")
    assert (ran.code, ran.out) == (2, "")
    assert "add --engine ray" in ran.err


def test_one_file_by_two_names_is_refused_for_two_outputs(world: Path, run) -> None:
    """The one would overwrite the other, also where a link stands for a file that is not there yet."""
    (world / "link.json").symlink_to("out.jsonl")
    ran = run("run", "guards.py:guard", "-i", written(world, 5), "-o", "out.jsonl", "--report", "link.json")
    assert (ran.code, "link.json is given twice" in ran.err) == (2, True)
    assert not (world / "out.jsonl").exists()


@pytest.mark.parametrize("closed", [2, 0])
@pytest.mark.rest
def test_a_closed_stream_stops_nothing(world: Path, closed) -> None:
    """As of a service: the output does not take its place."""
    name = written(world, 5)
    command = f"{sys.executable} -m penstock run guards.py:guard -i {name} -j 2 -o out.jsonl {closed}>&-"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(["sh", "-c", command], cwd=world, env=env, check=False).returncode == 3  # noqa: S607
    assert len([json.loads(line) for line in (world / "out.jsonl").read_text("utf-8").splitlines()]) == 7


def test_results_for_a_closed_stdout_are_an_error(world: Path) -> None:
    """They would be lost."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["sh", "-c", f"{sys.executable} -m penstock run guards.py:guard -i {written(world, 5)} >&-"]
    ran = subprocess.run(command, cwd=world, env=env, check=False, stderr=subprocess.PIPE)
    assert (ran.returncode, b"Bad file descriptor" in ran.stderr) == (2, True)
