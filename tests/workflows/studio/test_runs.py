"""Runs through the API: every kind of input, every stage, live events, and what a hostile workflow may do."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import httpx
import pytest

EMAIL = "mail ann@example.com now"


def kinds(events):
    return [name for _, name, _ in events]


@pytest.mark.rest
def test_a_text_is_run_and_told_live(served):
    id = served.start("guard", {"kind": "text", "text": EMAIL})
    events = served.events(f"/api/runs/{id}/events")
    assert [number for number, *_ in events] == list(range(1, len(events) + 1))
    assert kinds(events)[:3] == ["state", "state", "state"]
    assert kinds(events)[-1] == "end"
    spans = [data for _, name, data in events if name == "span"]
    step = next(span for span in spans if span["kind"] == "step")
    assert (step["path"], step["status"], len(step["edits"])) == ("pii-detector", "edited", 1)
    assert step["marks"]["step:pii-detector"]["words"][0].startswith("1 edit")
    assert [span["kind"] for span in spans][-1] == "run"
    run = served.ended(id)
    assert run["status"] == "edited"
    assert run["output"]["text"] == "mail a*n@*******.com now"
    assert run["trace"]["texts"] is True
    assert [span["kind"] for span in run["trace"]["spans"]] == ["run", "stage", "step"]
    assert run["svg"].startswith("<svg")
    assert set(run["marks"]) == {"", "process_input"}
    assert [ends[:2] for ends in run["marks"][""]["wires"]] == [
        ["start", "step:pii-detector"],
        ["step:pii-detector", "end"],
    ]
    assert run["title"] == EMAIL
    assert run["workflow"]["name"] == "guard"


def test_a_conversation_comes_back_as_messages(served):
    messages = [
        {"role": "user", "content": EMAIL},
        {"role": "assistant", "content": "Why?"},
        {"role": "user", "content": "So."},
    ]
    run = served.run("guard", {"kind": "conversation", "messages": messages})
    assert run["output"]["messages"][0]["content"] == "mail a*n@*******.com now"
    assert len(run["output"]["messages"]) == 3


def test_a_verdict_is_a_result(served):
    run = served.run("odd_flow", "block")
    assert run["status"] == "blocked"
    assert run["output"]["tripwire"]["reason"] == "because"
    assert run["output"]["text"] is None
    assert run["trace"]["status"] == "blocked"


def test_a_stream_is_run_in_pieces(served):
    given = {"kind": "chunks", "chunks": ["mail ann@exa", "mple.com now. ", "Bye then."], "delay": 0.01}
    id = served.start("guard", given, stage="process_output_stream")
    events = served.events(f"/api/runs/{id}/events")
    assert "held" in kinds(events)
    run = served.ended(id)
    assert "".join(run["output"]["chunks"]) == "mail a*n@*******.com now. Bye then."
    stage = next(span for span in run["trace"]["spans"] if span["kind"] == "stage")
    assert stage["chunks"][0]["in"] == "mail ann@exa"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b'{"workflow": "w1"}', "input"),
        (b'{"workflow": "w1", "input": {"kind": "nope"}}', "input"),
        (b'{"workflow": "w1", "input": {"kind": "text"}}', "input.text.text"),
        (b'{"workflow": "w1", "input": {"kind": "text", "text": 1}}', "input.text.text"),
        (b'{"workflow": "w1", "input": {"kind": "text", "text": "x"}, "stage": "nope"}', "stage"),
        (b'{"workflow": "w1", "input": {"kind": "text", "text": "x"}, "extra": 1}', "extra"),
        (b'{"workflow": "w1", "input": {"kind": "text", "text": "x"}, "seconds": -1}', "seconds"),
        (b'{"workflow": "w1", "input": {"kind": "conversation", "messages": []}}', "input.conversation.messages"),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_malformed_body_is_refused_with_its_place(served, body, field):
    answer = served.http.post("/api/runs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field


def test_a_body_that_is_too_large_names_the_option(served):
    body = {"workflow": "w1", "input": {"kind": "text", "text": "x" * 1024 * 1024}}
    answer = served.http.post("/api/runs", json=body)
    assert answer.status_code == 413
    assert "--max-text" in answer.json()["error"]["message"]
    assert answer.json()["error"]["limit"] == 1024 * 1024


def test_unknown_things_are_not_found(served):
    body = {"workflow": "nope", "input": {"kind": "text", "text": "x"}}
    assert served.http.post("/api/runs", json=body).status_code == 404
    body = {"workflow": "w1", "version": 99, "input": {"kind": "text", "text": "x"}}
    assert served.http.post("/api/runs", json=body).status_code == 404
    body = {"workflow": "w1", "input": {"kind": "file", "file": "nope"}}
    assert served.http.post("/api/runs", json=body).status_code == 404
    for path in ("/api/runs/nope", "/api/runs/nope/events", "/api/compare/nope", "/api/workflows/nope"):
        assert served.http.get(path).status_code == 404
    assert served.http.post("/api/runs/nope/cancel", json={}).status_code == 404
    assert served.http.delete("/api/runs/nope").status_code == 404


# Agents


@pytest.mark.rest
def test_an_agent_is_followed_step_by_step(served):
    id = served.start("agent", {"kind": "text", "text": "How is the weather in Bern?"})
    events = served.events(f"/api/runs/{id}/events")
    spans = [data for _, name, data in events if name == "span"]
    assert {"run", "model_step", "model", "tool", "step", "stage"} <= {span["kind"] for span in spans}
    started = {data["key"] for _, name, data in events if name == "start"}
    assert {span["key"] for span in spans if "key" in span} == started
    text = "".join(data["text"] for _, name, data in events if name == "chunk" and data["type"] == "text-delta")
    assert text == "It is sunny. Write to a*n@*******.com for more, whenever you want to."
    assert max(data["held"] for _, name, data in events if name == "held") > 0
    run = served.ended(id)
    assert run["status"] == "edited"
    assert run["agent"]["tool_calls"][0]["result"] == "sunny in Bern"
    assert run["agent"]["steps"] == 2
    assert run["stage"] is None
    assert {"tool", "model"} <= {span["kind"] for span in run["trace"]["spans"]}
    boxes = {id for span in spans for id in span.get("marks", {})} & set(run["marks"][""]["shapes"])
    assert boxes == {id for id in run["marks"][""]["shapes"] if id.startswith("step:")}
    assert "model" in run["marks"][""]["shapes"]


@pytest.mark.rest
def test_each_run_starts_anew_so_a_script_begins_again(served):
    first, second = (served.run("agent", "Hi")["output"]["text"] for _ in range(2))
    assert first == second


# What a workflow may do to the studio


def test_what_user_code_prints_is_a_log_and_breaks_nothing(served):
    id = served.start("odd_flow", {"kind": "text", "text": "print"})
    events = served.events(f"/api/runs/{id}/events")
    run = served.ended(id)
    assert run["status"] == "passed"
    assert '{"done": {}}' in run["logs"]
    assert "raw bytes \\xff" in run["logs"]
    assert "to stderr" in run["logs"]
    assert "log" in kinds(events)


@pytest.mark.rest
def test_all_that_was_printed_is_in_the_log_when_a_run_has_ended(served):
    """The log comes through a pipe of its own, which may be read later than the result."""
    for _ in range(8):
        logs = served.run("odd_flow", "print")["logs"]
        assert "to stderr" in logs
        assert "\0" not in logs


@pytest.mark.rest
def test_what_is_printed_is_bounded(served):
    logs = served.run("odd_flow", "flood")["logs"]
    assert 60_000 < len(logs) < 70_000
    assert logs.endswith("… more was printed, and is left out\n")


@pytest.mark.rest
def test_user_code_cannot_read_the_requests(served):
    assert "read: ''" in served.run("odd_flow", "read")["logs"]


@pytest.mark.rest
def test_an_error_of_a_step_is_shown_with_file_and_line(served):
    run = served.run("odd_flow", "raise")
    assert run["status"] == "failed"
    error = run["error"]
    assert error["kind"] == "step"
    assert error["file"].endswith("odd.py")
    assert error["source"].startswith('if text == "raise": raise ValueError')
    assert "ValueError: <b>broken</b>" in error["traceback"]
    assert run["trace"]["status"] == "failed"


@pytest.mark.rest
@pytest.mark.parametrize(("text", "how"), [("crash", "exit code 3"), ("abort", "killed by SIGABRT")])
def test_a_crash_is_an_error_and_the_studio_lives(served, text, how):
    run = served.run("odd_flow", text)
    assert run["status"] == "failed"
    assert run["error"]["kind"] == "crash"
    assert how in run["error"]["message"]
    assert served.run("odd_flow", "fine")["status"] == "passed"


@pytest.mark.rest
def test_a_message_without_end_is_cut(served):
    error = served.run("odd.py:odd_flow", "words")["error"]
    assert len(error["traceback"]) < 100_000
    assert "characters are left out" in error["traceback"]


@pytest.mark.rest
def test_large_runs_are_not_all_held_in_memory(tmp_path, serving_studio, monkeypatch):
    monkeypatch.setattr("penstock.workflows.studio.runs._MOST_BYTES", 10_000)
    with serving_studio(tmp_path) as served:
        ids = [served.start("hygiene", {"kind": "text", "text": f"{number} " * 2_000}) for number in range(4)]
        for id in ids:
            assert served.ended(id)["status"] == "passed"
        wait_for(lambda: sum(served.studio.runs.live(id) is not None for id in ids) == 1)
        for number, id in enumerate(ids):
            assert served.get(f"/api/runs/{id}")["title"].startswith(str(number))
            assert served.http.get(f"/api/runs/{id}/events").status_code in (200, 204)


@pytest.mark.rest
def test_a_copy_that_user_code_forks_does_not_answer_for_it(served):
    assert served.run("odd.py:odd_flow", "copy")["status"] == "passed"


@pytest.mark.rest
def test_a_step_that_hangs_is_stopped_and_said_where(served):
    started = time.monotonic()
    run = served.run("odd_flow", "hang", seconds=0.7)
    assert time.monotonic() - started < 60
    assert run["status"] == "failed"
    assert run["error"]["kind"] == "timeout"
    assert run["error"]["source"].startswith("while True")
    assert run["error"]["file"].endswith("odd.py")


def test_a_run_is_cancelled_with_all_that_it_started(served):
    id = served.start("odd_flow", {"kind": "text", "text": "fork"})
    if sys.platform == "linux":
        wait_for(grandchildren)
    assert served.http.post(f"/api/runs/{id}/cancel", json={}).status_code == 202
    run = served.ended(id)
    assert run["status"] == "cancelled"
    assert run["error"]["kind"] == "cancelled"
    if sys.platform == "linux":
        wait_for(lambda: not grandchildren())
    assert served.http.post(f"/api/runs/{id}/cancel", json={}).json() == {"state": "done"}


def wait_for(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def grandchildren() -> list[str]:
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and b"penstock-grandchild" in (each / "cmdline").read_bytes() and not zombie(each):
                found.append(each.name)
        except OSError:
            continue
    return found


def zombie(process: Path) -> bool:
    return ") Z " in (process / "stat").read_text()


@pytest.mark.rest
def test_text_with_html_and_escape_codes_stays_text(served):
    text = "<script>alert(1)</script> </style> \x1b[31m \u202e \x00"
    run = served.run("guard", text)
    assert run["output"]["text"] == text
    assert "<script>" not in run["svg"]
    answer = served.http.get(f"/api/runs/{run['id']}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.content.isascii()


# Events again


@pytest.mark.rest
def test_events_go_on_where_a_reader_left_off(served):
    id = served.start("guard", {"kind": "text", "text": EMAIL})
    every = served.events(f"/api/runs/{id}/events")
    half = every[len(every) // 2][0]
    rest = served.events(f"/api/runs/{id}/events", headers={"last-event-id": str(half)})
    assert rest == every[half:]
    assert served.events(f"/api/runs/{id}/events?after={half}") == every[half:]
    last = served.http.get(f"/api/runs/{id}/events", headers={"last-event-id": str(every[-1][0])})
    assert last.status_code == 204
    assert served.events(f"/api/runs/{id}/events", headers={"last-event-id": "nonsense"}) == every


def test_ten_tabs_see_the_same(served):
    from concurrent.futures import ThreadPoolExecutor

    id = served.start("agent", {"kind": "text", "text": "Hi"})

    def read(_: int):
        with (
            httpx.Client(base_url=served.url, timeout=15) as http,
            http.stream("GET", f"/api/runs/{id}/events") as answer,
        ):
            return "".join(answer.iter_text())

    with ThreadPoolExecutor(10) as pool:
        seen = [*pool.map(read, range(10))]
    assert len({text.partition("id: 1\n")[2] for text in seen}) == 1


@pytest.mark.rest
def test_a_reader_that_leaves_does_not_end_the_run(served):
    id = served.start("agent", {"kind": "text", "text": "Hi"})
    with served.http.stream("GET", f"/api/runs/{id}/events") as answer:
        next(answer.iter_lines())
    assert served.ended(id)["status"] == "edited"


# The last runs


def test_runs_are_listed_and_deleted(served):
    id = served.run("guard", "to be deleted")["id"]
    listed = served.get("/api/runs", limit=5)
    assert listed["runs"][0]["id"] == id
    assert listed["runs"][0]["title"] == "to be deleted"
    assert "trace" not in listed["runs"][0]
    before = listed["runs"][0]["created"]
    assert id not in [run["id"] for run in served.get("/api/runs", before=before)["runs"]]
    assert served.http.delete(f"/api/runs/{id}").status_code == 204
    assert served.http.get(f"/api/runs/{id}").status_code == 404
    assert id not in [run["id"] for run in served.get("/api/runs")["runs"]]


@pytest.mark.parametrize("query", [{"limit": "x"}, {"before": "x"}, {"limit": "-1"}])
def test_a_wrong_question_for_runs_is_refused(served, query):
    assert served.http.get("/api/runs", params=query).status_code == 400


def test_deleting_a_run_at_work_cancels_it(served):
    id = served.start("odd_flow", {"kind": "text", "text": "hang"})
    assert served.http.delete(f"/api/runs/{id}").status_code == 204
    assert served.http.get(f"/api/runs/{id}").status_code == 404


@pytest.mark.rest
def test_runs_survive_a_restart(tmp_path, serving_studio):
    history = tmp_path / "deep" / "studio.db"
    with serving_studio(tmp_path, history=history) as made:
        run = made.run("hygiene", "hello")
        assert run["workflow"]["kind"] == "preset"
        if os.name == "posix":
            assert history.stat().st_mode & 0o077 == 0
    with serving_studio(tmp_path, history=history) as made:
        again = made.get(f"/api/runs/{run['id']}")
        assert again == run
        assert made.http.get(f"/api/runs/{run['id']}/events").status_code == 204
        assert made.get(f"/api/runs/{run['id']}/trace.json") == run["trace"]
        assert made.http.delete("/api/runs").status_code == 204
        assert made.get("/api/runs") == {"runs": [], "more": False}


@pytest.mark.rest
def test_a_wait_for_room_is_bounded(tmp_path, serving_studio):
    (tmp_path / "slow.py").write_text(
        "import time\nfrom penstock import Workflow, processor, InputContext\n"
        "@processor\ndef slow(ctx: InputContext) -> None: time.sleep(30)\nslow_flow = Workflow('slow').then(slow)\n"
    )
    with serving_studio(tmp_path, "slow.py:slow_flow", processes=1) as made:
        body = {"workflow": made.id("slow_flow"), "input": {"kind": "text", "text": "x"}}
        codes = [made.http.post("/api/runs", json=body).status_code for _ in range(110)]
        assert codes[:50] == [202] * 50
        assert codes[-1] == 429
        assert made.http.delete("/api/runs").status_code == 204
