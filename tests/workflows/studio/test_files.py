"""Uploaded files: large ones, broken ones, and runs over their rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
import socket

import anyio
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.workflows.studio import app
from penstock.workflows.studio.settings import MIB
from tests.workflows.studio.served import until

ROWS = [
    json.dumps({"id": "a", "text": "mail ann@example.com"}),
    json.dumps("plain"),
    '{"text": "cut off',
    "",
    json.dumps({"messages": [{"role": "user", "content": "bob@example.com"}]}),
    json.dumps({"nothing": 1}),
    "\ud83d\ude00",
]


@pytest.mark.rest
def test_rows_are_run_and_broken_lines_reported_by_number(served):
    upload = served.upload("\n".join(ROWS[:-1]).encode() + b"\n\xff\xfe\n", name="../../etc/<b>rows\x1b.jsonl")
    assert upload["name"] == "<b>rows.jsonl"
    assert upload["rows"] == 6
    assert [each["line"] for each in upload["problems"]] == [3, 7]
    assert "not valid JSON" in upload["problems"][0]["problem"]
    assert "UTF-8" in upload["problems"][1]["problem"]
    assert upload["preview"][0] == {"line": 1, "text": ROWS[0]}
    check_run(served, upload)


def check_run(served, upload):
    id = served.start("guards.py:guard", {"kind": "file", "file": upload["id"]})
    events = served.events(f"/api/runs/{id}/events")
    rows = [row for _, name, data in events if name == "rows" for row in data["rows"]]
    assert [row["line"] for row in rows] == [1, 2, 3, 5, 6, 7]
    run = served.ended(id)
    assert run["status"] == "done"
    file = run["file"]
    assert file["counts"] == {"edited": 2, "passed": 1, "invalid": 3}
    assert file["total"] == file["done"] == 6
    assert file["left_out"] == 0
    assert [row["status"] for row in file["rows"]] == ["edited", "passed", "invalid", "edited", "invalid", "invalid"]
    assert file["rows"][0]["id"] == "a"
    assert [row["text"] for row in file["rows"][:4]] == [
        "mail ann@example.com",
        "plain",
        '{"text": "cut off',
        "user: bob@example.com",
    ]
    assert file["rows"][0]["edits"] == {"pii-detector": 1}
    assert file["steps"]["pii-detector"]["runs"] == 3
    assert len(file["slowest"]) == 6
    assert run["title"] == "<b>rows.jsonl"
    results = served.http.get(f"/api/runs/{id}/results.jsonl")
    assert [json.loads(line)["line"] for line in results.text.splitlines()] == [1, 2, 3, 5, 6, 7]
    assert "ann@example.com" not in results.text
    look_at_rows(served, id, upload)


def look_at_rows(served, id, upload):
    shown = served.get(f"/api/runs/{id}/input", line=1)
    assert (shown["text"], shown["value"]["id"]) == (ROWS[0], "a")
    assert "not valid JSON" in served.get(f"/api/runs/{id}/input", line=3)["problem"]
    for line in ("4", "99", "x", ""):
        assert served.http.get(f"/api/runs/{id}/input", params={"line": line}).status_code in (400, 404)
    one = served.run("guards.py:guard", {"kind": "file", "file": upload["id"], "line": 5})
    assert one["trace"]["status"] == "edited"
    assert one["title"] == "<b>rows.jsonl, line 5"
    assert one["row"] == json.loads(ROWS[4])
    broken = served.run("guards.py:guard", {"kind": "file", "file": upload["id"], "line": 3})
    assert "not valid JSON" in broken["error"]["message"]
    assert broken["row"] == ROWS[2]
    body = {"workflow": served.id("app.py:agent"), "input": {"kind": "file", "file": upload["id"]}}
    assert served.http.post("/api/runs", json=body).status_code == 400
    assert served.run("app.py:agent", {"kind": "file", "file": upload["id"], "line": 2})["agent"]["steps"] == 2


def test_a_file_of_50_mib_is_taken(served):
    row = json.dumps({"text": "x" * 10_000}).encode() + b"\n"
    count = 50 * MIB // len(row)
    upload = served.upload(row * count)
    assert upload["rows"] == count
    assert upload["bytes"] > 49 * MIB
    assert served.http.delete(f"/api/files/{upload['id']}").status_code == 204


@pytest.mark.rest
def test_a_file_beyond_the_limit_is_refused_while_it_comes(served):
    def pieces():
        for _ in range(70):
            yield b'"' + b"x" * (MIB - 3) + b'"\n'

    headers = {"content-type": "application/x-ndjson"}
    answer = served.http.post("/api/files", content=pieces(), headers=headers)
    assert answer.status_code == 413
    error = answer.json()["error"]
    assert error["limit"] == 60 * MIB
    assert "--max-upload" in error["message"]
    announced = served.http.post("/api/files", content=bytes(61 * MIB), headers=headers)
    assert announced.status_code == 413
    kept = [one for one in served.studio.uploads.folder.iterdir() if ".results." not in one.name]
    assert len(kept) == len(served.get("/api/files")["files"])


def test_a_file_in_utf_16_is_refused_with_what_to_do(served):
    headers = {"content-type": "application/jsonl"}
    answer = served.http.post("/api/files", content="{}".encode("utf-16"), headers=headers)
    assert answer.status_code == 400
    assert "UTF-16" in answer.json()["error"]["message"]


def as_parquet(rows):
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def as_csv(rows):
    sink = io.StringIO()
    writer = csv.DictWriter(sink, ["id", "text"])
    writer.writeheader()
    writer.writerows(rows)
    return sink.getvalue().encode()


TABLE = [{"id": "a", "text": "mail ann@example.com"}, {"id": "b", "text": "plain, with\na line feed"}]


@pytest.mark.rest
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", as_csv(TABLE)),
        ("rows.csv.gz", gzip.compress(as_csv(TABLE))),
        ("Rows.Parquet", as_parquet(TABLE)),
        ("rows.jsonl.gz", gzip.compress("\n".join(map(json.dumps, TABLE)).encode())),
    ],
)
def test_every_format_of_penstock_run_is_read(served, name, content):
    upload = served.upload(content, name=name)
    assert (upload["name"], upload["rows"], upload["problem_count"]) == (name, 2, 0)
    assert "ann@example.com" in upload["preview"][0]["text"]
    run = served.run("guards.py:guard", {"kind": "file", "file": upload["id"]})
    assert run["file"]["counts"] == {"edited": 1, "passed": 1}
    assert [(row["id"], row["text"]) for row in run["file"]["rows"]] == [(row["id"], row["text"]) for row in TABLE]
    line = run["file"]["rows"][1]["line"]
    one = served.run("guards.py:guard", {"kind": "file", "file": upload["id"], "line": line})
    assert one["row"] == TABLE[1]
    assert one["status"] == "passed"


def test_lines_of_a_text_file_are_rows(served):
    upload = served.upload(b"mail ann@example.com\n{not JSON\n", name="notes.txt")
    run = served.run("guards.py:guard", {"kind": "file", "file": upload["id"]})
    assert run["file"]["counts"] == {"edited": 1, "passed": 1}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.csv", b"id,question\n1,hi\n", "rename the one to check to 'text'"),
        ("rows.parquet", b"PAR1 but no more", "rows.parquet"),
    ],
)
def test_a_table_that_cannot_be_read_says_why_and_nothing_of_it_stays(served, name, content, says):
    before = {*served.studio.uploads.folder.iterdir()}
    answer = served.http.post(
        "/api/files", params={"name": name}, content=content, headers={"content-type": "application/jsonl"}
    )
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert says in message
    assert str(served.studio.uploads.folder) not in message
    assert {*served.studio.uploads.folder.iterdir()} == before


@pytest.mark.parametrize("name", ["x.jsonl/../../etc/passwd", "a.exe", "noending", "..", "x.csv.exe.gz", ""])
def test_the_name_of_a_file_never_says_where_it_is_stored(served, name):
    upload = served.upload(b'"text"\n', name=name)
    path = served.studio.uploads.get(upload["id"]).path
    assert path.parent == served.studio.uploads.folder
    assert path.name == f"{upload['id']}.jsonl"


def test_an_empty_file_has_no_rows(served):
    upload = served.upload("")
    assert upload["rows"] == 0
    run = served.run("guards.py:guard", {"kind": "file", "file": upload["id"]})
    assert run["file"]["counts"] == {}


@pytest.mark.parametrize("stage", ["process_output_stream", "process_api_error"])
def test_a_stage_of_one_input_takes_no_file(served, stage):
    body = {"workflow": "w1", "input": {"kind": "file", "file": "x"}, "stage": stage}
    answer = served.http.post("/api/runs", json=body)
    assert answer.status_code == 400
    assert "not on a file" in answer.json()["error"]["message"]


def test_a_file_that_a_run_reads_stays_until_the_run_has_ended(served):
    upload = served.upload(json.dumps("hang"))
    id = served.start("odd_flow", {"kind": "file", "file": upload["id"]})
    answer = served.http.delete(f"/api/files/{upload['id']}")
    assert answer.status_code == 409
    served.http.post(f"/api/runs/{id}/cancel", json={})
    assert served.ended(id)["status"] == "cancelled"
    assert served.http.delete(f"/api/files/{upload['id']}").status_code == 204
    assert served.http.delete(f"/api/files/{upload['id']}").status_code == 404


def test_only_the_latest_files_are_kept(tmp_path, serving_studio):
    with serving_studio(tmp_path) as made:
        ids = [made.upload('"x"')["id"] for _ in range(22)]
        kept = [each["id"] for each in made.get("/api/files")["files"]]
        assert kept == [*reversed(ids[2:])]
        folder = made.studio.uploads.folder
        assert len([*folder.iterdir()]) == 20
    until(folder.exists, lambda exists: not exists)


async def test_results_are_whole_lines_up_to_where_the_run_is(tmp_path, monkeypatch):
    """However the file is cut into pieces, and although it grows."""
    path = tmp_path / "results.jsonl"
    lines = b"".join(b'{"line":%d}\n' % number for number in range(40))
    for size in (1, 7, 1000):
        monkeypatch.setattr(app, "_PIECE", size)
        path.write_bytes(lines + b'{"li')
        read = b""
        async for piece in app._whole_lines(anyio.Path(path)):
            read += piece
            with path.open("ab") as file:
                file.write(b'ne":99}\n')
        assert read == lines


@pytest.mark.rest
@pytest.mark.parametrize("path", ["/api/runs", "/api/files?name=x"])
def test_a_client_that_leaves_within_a_body_is_no_fault(served, path, caplog):
    """A closed tab leaves no traceback, and the studio goes on."""
    host, port = served.http.base_url.host, served.http.base_url.port
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"
    with socket.create_connection((host, port)) as client:
        client.sendall(head.encode())
    assert served.http.get("/api/files").status_code == 200
    assert served.run("hygiene", "hi")["status"] == "passed"
    assert not [record for record in caplog.records if record.exc_info]
