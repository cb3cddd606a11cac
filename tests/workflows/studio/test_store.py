"""The file of the last runs: bounded, shared, and refused where it cannot be used."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.engine.values.errors import UsageError
from penstock.workflows.studio import store as module
from penstock.workflows.studio.store import RunHistory


def filled(store: RunHistory, count: int, size: int = 10) -> None:
    for number in range(count):
        store.add(f"r{number}", float(number), {"id": f"r{number}"}, {"id": f"r{number}", "text": "x" * size})


@pytest.fixture(params=["file", "memory"])
def path(request, tmp_path):
    return tmp_path / "studio.db" if request.param == "file" else None


def test_the_newest_runs_are_kept(path):
    store = RunHistory(path, keep=3)
    filled(store, 5)
    assert [run["id"] for run in store.latest(10)] == ["r4", "r3", "r2"]
    assert [run["id"] for run in store.latest(1, before=4.0)] == ["r3"]
    assert store.get("r0") is None
    assert store.get("r4") == {"id": "r4", "text": "x" * 10}
    store.close()


def test_their_size_is_bounded_but_the_last_one_stays(path):
    store = RunHistory(path, keep=100, most_bytes=5_000)
    filled(store, 4, size=2_000)
    assert [run["id"] for run in store.latest(10)] == ["r3", "r2"]
    store.add("big", 10.0, {"id": "big"}, {"id": "big", "text": "x" * 10_000})
    assert [run["id"] for run in store.latest(10)] == ["big"]
    store.close()


def test_one_that_is_too_large_is_kept_without_its_trace(path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES_A_RUN", 100)
    store = RunHistory(path, keep=3)
    store.add("r", 1.0, {}, {"id": "r", "trace": "x" * 200, "output": {}})
    left_out = {"trace": None, "marks": None, "output": None}
    assert store.get("r") == {"id": "r", **left_out, "cut": "the run is too large to be kept whole"}
    store.close()


def test_runs_are_deleted_one_by_one_and_all_at_once(path):
    store = RunHistory(path, keep=10)
    filled(store, 3)
    assert store.delete("r1") is True
    assert store.delete("r1") is False
    assert [run["id"] for run in store.latest(10)] == ["r2", "r0"]
    assert store.delete(None) is True
    assert store.latest(10) == []
    store.close()


@pytest.mark.parametrize("id", ["secret", None])
def test_a_deleted_run_is_not_left_in_the_file(tmp_path, monkeypatch, id):
    """Also with a SQLite that is not built so, while another connection keeps the log open."""
    connect = sqlite3.connect

    def insecure(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA secure_delete = OFF").fetchone()
        return connection

    monkeypatch.setattr(sqlite3, "connect", insecure)
    store = RunHistory(tmp_path / "studio.db", keep=10)
    filled(store, 3)
    other = connect(tmp_path / "studio.db")
    other.execute("SELECT count(*) FROM studio_runs").fetchall()
    store.add("secret", 9.0, {}, {"text": "DELETEDMARK " * 400})
    store.delete(id)
    assert not [file.name for file in tmp_path.glob("studio.db*") if b"DELETEDMARK" in file.read_bytes()]
    other.close()


def test_two_studios_write_into_one_file(tmp_path):
    stores = [RunHistory(tmp_path / "studio.db", keep=1000) for _ in range(2)]

    def add(number: int) -> None:
        stores[number % 2].add(f"r{number}", float(number), {"id": f"r{number}"}, {"id": f"r{number}"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(60)))
    assert len(stores[0].latest(100)) == len(stores[1].latest(100)) == 60


def test_a_file_that_is_no_history_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    with pytest.raises(UsageError, match="--history"):
        RunHistory(path, keep=3)
    assert path.read_text().startswith("dear diary")


def test_a_file_of_another_version_is_refused(tmp_path):
    path = tmp_path / "studio.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(UsageError, match="another version"):
        RunHistory(path, keep=3)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be used"):
        RunHistory(tmp_path / "file" / "studio.db", keep=3)


@pytest.mark.rest
def test_a_history_that_breaks_while_the_studio_runs_is_said(tmp_path, serving_studio):
    path = tmp_path / "studio.db"
    with serving_studio(tmp_path, history=path) as served:
        for each in tmp_path.glob("studio.db*"):
            each.unlink()
        path.write_bytes(b"no database, " * 500)
        answer = served.http.get("/api/runs")
        assert answer.status_code == 500
        assert answer.json()["error"]["kind"] == "internal"
        assert "--history" in answer.json()["error"]["message"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert served.run("hygiene", "hi")["status"] == "passed"
