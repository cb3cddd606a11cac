"""Rows on a Ray cluster of two nodes: the results are those of one machine, whatever dies meanwhile."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from penstock.workflows.cli import main
from penstock.workflows.rows import WorkflowBatches, splits
from tests.workflows.rows import deadly, poisonous

ray: Any = pytest.importorskip("ray", reason="Ray is not installed: `make engines` runs these tests")

from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("default"),  # of Ray
]

STORE = 100 * 1024 * 1024
GUARD = f"{poisonous.__file__}:guard"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, with a core each."""
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
    )
    made.add_node(num_cpus=1, object_store_memory=STORE)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many splits of a small file."""
    monkeypatch.setattr(splits.splits_of, "__defaults__", (16 * 1024,))


def run(folder: Path, names: str, engine: str, *options: str, workflow: str = GUARD) -> tuple[int, str, str]:
    """Run the command on files, and return its exit code and what it has written."""
    out, dead = folder / f"{engine}.jsonl", folder / f"{engine}.dead.jsonl"
    inputs = [each for name in names.split() for each in ("-i", str(folder / name))]
    code = main(["run", workflow, *inputs, "-o", str(out), "--dead-letters", str(dead), "--no-times", *options])
    return code, out.read_text("utf-8"), dead.read_text("utf-8")


def on(cluster: Any) -> tuple[str, ...]:
    """Return the options that run rows there."""
    return ("--engine", "ray", "--address", cluster.address)


def rows(count: int) -> bytes:
    """Return rows of all kinds as JSONL."""
    texts = ["fine", "bomb", "text with more words", 3, {"a": 1}]
    return b"".join(
        json.dumps({"id": at, "text": texts[at % 5], "label": at % 3}).encode() + b"\n" for at in range(count)
    )


@contextmanager
def killing(name: str, seconds: float) -> Iterator[list[int]]:
    """Kill one of the processes whose command begins so, again and again."""
    stop, killed = threading.Event(), list[int]()

    def kill() -> None:
        while not stop.wait(seconds):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    if path.read_bytes().startswith(name.encode()):
                        os.kill(int(path.parent.name), signal.SIGKILL)
                        killed.append(int(path.parent.name))
                        break

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


def test_rows_that_nobody_expected_are_as_on_one_machine(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results, dead letters, exit code, and what is said, to the byte."""
    monkeypatch.setattr(splits.splits_of, "__defaults__", (2 * 1024 * 1024,))
    odd = [
        b"\xef\xbb\xbf" + json.dumps({"text": "first", "id": 1}).encode(),
        b'{"text": "a\\u0000b"}',
        b'"\xc3',
        b"[" * 10_000 + b"]" * 10_000,
        b'{"text": "twice", "id": 1}',
        b'{"text": "ok", "label": {"a": [1, "x", null]}}',
        b'{"text": "ok", "label": "word"}',
        b'{"text": "half \\ud83d"}',
        b'{"text": "' + b"x" * (65 * 1024 * 1024) + b'"}',
        b"",
        b"no json",
        b'{"text": NaN}',
        b"\xff\xfe",
        b'"' + "é".encode() * 40_000 + b'"',
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(odd) + b"\r\n" + rows(2000) + b'"the last one has no line end"')
    alone = run(tmp_path, "rows.jsonl", "local", "--jobs", "1")
    said = capsys.readouterr().err.rpartition(" in ")[0]
    assert run(tmp_path, "rows.jsonl", "ray", *on(cluster)) == alone
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("penstock: ")]
    assert "\n".join(told).rpartition(" in ")[0] == said
    assert alone[0] == 3
    limited = run(tmp_path, "rows.jsonl", "ray", *on(cluster), "--limit", "20")
    assert limited[1].splitlines() == alone[1].splitlines()[:20]


def test_files_of_all_formats_are_as_on_one_machine(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], small_splits: None
) -> None:
    """Plain ones by lines, Parquet by row groups, others whole; a damaged one is a row that says so."""
    plain = rows(900)
    (tmp_path / "a.jsonl").write_bytes(plain)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(plain)[:-50])
    (tmp_path / "d.txt").write_bytes(b"bomb\nfine\n\nkill" + b"\n" + b"x" * 40_000)
    table = pa.table(
        {"id": range(3000), "text": ["bomb", "fine", None] * 1000, "at": pa.array(range(3000), pa.date32())}
    )
    parquet.write_table(table, tmp_path / "e.parquet", row_group_size=170)
    csv.write_csv(table, tmp_path / "f.csv")
    for names in ("a.jsonl b.jsonl.gz c.jsonl.gz d.txt", "e.parquet", "f.csv"):
        alone = run(tmp_path, names, "local", "--jobs", "2")
        said = capsys.readouterr().err.rpartition(" in ")[0]
        assert run(tmp_path, names, "ray", *on(cluster)) == alone
        told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("penstock: ")]
        assert "\n".join(told).rpartition(" in ")[0] == said


@pytest.mark.parametrize("done", [1, 700, 1500])
def test_an_interrupted_run_is_gone_on_with(cluster: Any, tmp_path: Path, small_splits: None, done: int) -> None:
    """Behind the results that are there, in the first file or in a later one; what is done is not done again."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(rows(1000))
    table = pa.table({"id": range(800), "text": ["bomb", "fine"] * 400})
    parquet.write_table(table, tmp_path / "c.parquet", row_group_size=100)
    names = "a.jsonl b.jsonl" if done != 700 else "c.parquet"
    alone = run(tmp_path, names, "local", "--jobs", "1")
    run(tmp_path, names, "ray", "--jobs", "1", "--limit", str(done))
    assert run(tmp_path, names, "ray", *on(cluster), "--resume") == alone


def test_workers_killed_again_and_again(cluster: Any, tmp_path: Path, small_splits: None) -> None:
    """Every id exactly once, in order, with the result that it has on one machine."""
    (tmp_path / "rows.jsonl").write_bytes(rows(40_000))
    alone = run(tmp_path, "rows.jsonl", "local", "--jobs", "2")
    with killing("ray::MapWorker", 5.0) as killed:
        made = run(tmp_path, "rows.jsonl", "ray", *on(cluster))
    assert len(killed) > 1
    assert made[1] == alone[1]
    assert made == alone


def test_poisonous_rows_fail_alone(cluster: Any, tmp_path: Path, small_splits: None) -> None:
    """One that kills its process, one that hangs, as on one machine; they are dead letters."""
    lines = rows(300).splitlines()
    lines[20], lines[21], lines[200] = b'{"id": 20, "text": "kill"}', b'{"id": 21, "text": "kill"}', b'{"text": "hang"}'
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    alone = run(tmp_path, "rows.jsonl", "local", "--jobs", "2", "--row-timeout", "3")
    made = run(tmp_path, "rows.jsonl", "ray", *on(cluster), "--row-timeout", "3")
    assert made == alone
    letters = [json.loads(line) for line in made[2].splitlines()]
    assert [letter["line"] for letter in letters if letter["error"]["type"] == "RowLostError"] == [21, 22, 201]


def test_a_row_that_kills_its_worker_in_an_async_step(cluster: Any, tmp_path: Path, small_splits: None) -> None:
    """Nobody knows at first which of the rows at work it was; the worker finds out."""
    lines = rows(600).splitlines()
    lines[50] = lines[400] = b'{"text": "kill"}'
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    code, out, dead = run(tmp_path, "rows.jsonl", "ray", *on(cluster), workflow=f"{deadly.__file__}:guard")
    assert code == 3
    made = [json.loads(line) for line in out.splitlines()]
    assert [row["line"] for row in made] == list(range(1, 601))
    assert [row["line"] for row in made if row["status"] == "failed"] == [51, 401]
    assert Counter(row["status"] for row in made)["blocked"] == len([at for at in range(600) if at % 5 == 1])
    assert '"error":{"type":"RowLostError"' in dead


def test_batches_in_ray_data(cluster: Any, tmp_path: Path) -> None:
    """In tables of Arrow, and in the dicts that Ray hands out by default; as on this machine."""
    ray.init(address=cluster.address, logging_level="ERROR")
    try:
        items = [{"id": at, "t": f"text {at}" if at % 7 else "bomb", "tags": ["a"] * (at % 3)} for at in range(500)]
        settings = {"workflow": GUARD, "text": "t", "times": False}
        expected = WorkflowBatches(**settings)({name: [item[name] for item in items] for name in items[0]})
        for batch_format in ("pyarrow", "pandas"):
            made = ray.data.from_items(items, override_num_blocks=7).map_batches(
                WorkflowBatches, fn_constructor_kwargs=settings, batch_format=batch_format, concurrency=2, batch_size=50
            )
            found = {row["id"]: row for row in made.take_all()}
            assert sorted(found) == list(range(500))
            for at in range(500):
                assert found[at]["status"] == expected["status"][at]
                assert list(found[at]["tags"]) == items[at]["tags"]
        named = ray.data.from_items(items).map_batches(WorkflowBatches(**settings), batch_format="pyarrow")
        assert Counter(row["status"] for row in named.take_all()) == Counter(expected["status"])
    finally:
        ray.shutdown()


def test_a_node_that_is_lost(cluster: Any, tmp_path: Path, small_splits: None) -> None:
    """Its splits are checked by the others."""
    node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    (tmp_path / "rows.jsonl").write_bytes(rows(12_000))
    alone = run(tmp_path, "rows.jsonl", "local", "--jobs", "1")
    lost = threading.Timer(6.0, lambda: cluster.remove_node(node, allow_graceful=False))
    lost.start()
    made = run(tmp_path, "rows.jsonl", "ray", *on(cluster))
    lost.join()
    assert made[1] == alone[1]


def test_without_an_address_a_run_has_a_cluster_of_its_own(cluster: Any, tmp_path: Path) -> None:
    """Also on a machine on which another one runs, whose settings are not ours."""
    (tmp_path / "rows.jsonl").write_bytes(rows(10))
    alone = run(tmp_path, "rows.jsonl", "local")
    arguments = ["run", GUARD, "-i", "rows.jsonl", "-o", "own.jsonl", "--no-times", "--engine", "ray"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "penstock", *arguments]  # in this process, Ray Data failed afterwards
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, (tmp_path / "own.jsonl").read_text("utf-8")) == alone[:2], ran.stderr


def test_a_cluster_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At once: Ray itself would try for minutes."""
    (tmp_path / "rows.jsonl").write_bytes(rows(1))
    arguments = ["run", GUARD, "-i", str(tmp_path / "rows.jsonl"), "--engine", "ray", "--address", "127.0.0.1:1"]
    assert main(arguments) == 2
    assert "cannot connect to the Ray cluster of the address 127.0.0.1:1: Connection refused" in capsys.readouterr().err


def test_an_evaluation_is_as_on_one_machine(cluster: Any, tmp_path: Path, small_splits: None) -> None:
    """All figures and named rows, but for times; slices too."""
    labelled = [json.loads(line) for line in rows(3000).splitlines()]
    made = [json.dumps({**row, "bad": row["text"] == "bomb", "text": str(row["text"])}) for row in labelled]
    (tmp_path / "rows.jsonl").write_text("\n".join(made), "utf-8")
    figures: list[dict[str, Any]] = []
    for engine in ((), on(cluster)):
        asked = ["eval", GUARD, str(tmp_path / "rows.jsonl"), "--label", "bad", "--by", "label", "--no-progress"]
        assert main([*asked, "-o", str(tmp_path / "out.json"), "--format", "json", *engine]) == 0
        figures.append(json.loads((tmp_path / "out.json").read_text("utf-8")))
    for one in (figure for made in figures for figure in (made["whole"], *made["steps"])):
        del one["latency"]
    assert figures[0] == figures[1]
    assert figures[0]["whole"]["verdicts"]["right"] == 600
