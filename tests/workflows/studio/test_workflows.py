"""Workflows through the API: descriptions, forms, changed options, reloading, and errors of a file in place."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.workflows.studio.served import events_in, until

GUARD = """
from penstock import Workflow
from penstock.processors.guards import PIIDetector
guard = Workflow("guard").then(PIIDetector(strategy={strategy!r}, detection_types=["email"]))
"""


def step(described, path):
    return next(each for each in described["steps"] if each["path"] == path)


def field(described, path, name):
    return next(each for each in step(described, path)["options"] if each["name"] == name)


def test_presets_and_given_workflows_are_listed(served):
    listed = served.get("/api/workflows")
    by_reference = {each["reference"].rpartition("/")[2]: each for each in listed["workflows"]}
    assert {"guards.py:guard", "app.py:agent", "odd.py:odd_flow", "hygiene", "safety"} <= set(by_reference)
    assert by_reference["hygiene"]["kind"] == "preset"
    assert by_reference["hygiene"]["doc"]
    assert next(each["name"] for each in listed["stages"]) == "process_input"
    assert all(each["doc"] for each in listed["stages"])
    assert listed["limits"]["text"] == 1024 * 1024


@pytest.mark.rest
def test_a_workflow_is_described_with_picture_steps_and_forms(served):
    id = served.id("guards.py:guard")
    described = served.get(f"/api/workflows/{id}", detail="full")
    assert described["name"] == "guard"
    assert described["kind"] == "workflow"
    assert described["svg"].startswith("<svg")
    assert described["graph"]["nodes"]
    assert "pii-detector" in described["text"]
    assert described["shown"] == described["version"] == 1
    assert "process_input" in described["stages"]
    pii = step(described, "pii-detector")
    assert pii["doc"].startswith("Finds personal data")
    assert pii["role"] == "guard"
    assert pii["file"].endswith("pii_detector.py")
    strategy = field(described, "pii-detector", "strategy")
    assert strategy["kind"] == "choice"
    assert strategy["choices"] == ["redact", "block", "warn", "filter"]
    assert (strategy["value"], strategy["default"], strategy["set"]) == ("redact", "redact", True)
    assert "block`` stops the run" in strategy["doc"]
    assert field(described, "pii-detector", "detection_types")["value"] == ["email"]
    history = field(described, "pii-detector", "history")
    assert (history["kind"], history["set"]) == ("bool", False)
    assert "again before each" in history["doc"]
    assert field(described, "pii-detector", "on_detection")["kind"] == "fixed"
    assert [each["name"] for each in pii["policy_form"]] == ["timeout", "on_error", "mode", "retries", "retry_delay"]


def test_an_agent_is_described(served):
    described = served.get(f"/api/workflows/{served.id('app.py:agent')}")
    assert described["kind"] == "agent"
    assert described["svg"].startswith("<svg")
    assert step(described, "pii-detector")["options"]


def test_a_function_has_no_form(served):
    odd = step(served.get(f"/api/workflows/{served.id('odd_flow')}"), "odd")
    assert odd["options"] == []
    assert "function" in odd["why_not"]
    assert odd["doc"] == "Does what the text says."
    assert odd["file"].endswith("odd.py")
    assert odd["line"] > 1


@pytest.mark.parametrize("query", [{"stage": "nope"}, {"detail": "nope"}, {"version": "x"}])
def test_a_wrong_question_is_refused(served, query):
    assert served.http.get(f"/api/workflows/{served.id('guards.py:guard')}", params=query).status_code == 400


@pytest.mark.rest
def test_changed_options_are_previewed_and_run(served):
    id = served.id("guards.py:guard")
    changes = {
        "pii-detector": {
            "options": {"strategy": "block", "detection_types": ["email", "phone"]},
            "policy": {"timeout": 2.5},
        }
    }
    answer = served.http.post(f"/api/workflows/{id}/preview", json={"changes": changes})
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert field(shown, "pii-detector", "strategy")["value"] == "block"
    assert field(shown, "pii-detector", "detection_types")["value"] == ["email", "phone"]
    assert step(shown, "pii-detector")["policy"]["timeout"] == 2.5
    assert shown["diff"]["same"] is False
    assert "strategy" in shown["diff"]["text"]
    assert shown["diff"]["svg"].startswith("<svg")
    run = served.run("guards.py:guard", "mail ann@example.com", changes=changes)
    assert run["status"] == "blocked"
    assert run["changes"]["pii-detector"]["options"]["strategy"] == "block"
    assert served.run("guards.py:guard", "mail ann@example.com")["status"] == "edited"


@pytest.mark.parametrize(
    ("changes", "path", "option", "words"),
    [
        ({"pii-detector": {"options": {"strategy": "explode"}}}, "pii-detector", "strategy", "must be one of"),
        ({"pii-detector": {"options": {"detection_types": ["nose"]}}}, "pii-detector", "detection_types", "nose"),
        ({"pii-detector": {"options": {"nothing": 1}}}, "pii-detector", "nothing", "no such option"),
        ({"pii-detector": {"options": {"on_detection": 1}}}, "pii-detector", "on_detection", "cannot be changed here"),
        ({"pii-detector": {"policy": {"timeout": -1}}}, "pii-detector", "timeout", "above 0"),
        ({"pii-detector": {"policy": {"merge": "first"}}}, "pii-detector", "merge", "these can be changed"),
        ({"pii-detektor": {"options": {}}}, "pii-detektor", None, "did you mean 'pii-detector'"),
    ],
)
def test_what_a_constructor_refuses_is_shown_in_place(served, changes, path, option, words):
    id = served.id("guards.py:guard")
    answer = served.http.post(f"/api/workflows/{id}/preview", json={"changes": changes})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert (error["kind"], error["path"], error["option"]) == ("options", path, option)
    assert words in error["message"]


def test_a_run_with_options_that_are_refused_says_so(served):
    run = served.run("guards.py:guard", "x", changes={"pii-detector": {"options": {"strategy": "explode"}}})
    assert run["status"] == "failed"
    assert run["error"]["kind"] == "options"
    assert run["error"]["option"] == "strategy"


def test_the_options_of_an_agents_processor_are_changed(served):
    changes = {"pii-detector": {"options": {"redaction_method": "placeholder"}}}
    run = served.run("app.py:agent", "Hi", changes=changes)
    assert "Write to [EMAIL] for more" in run["output"]["text"]


@pytest.mark.rest
def test_a_graph_with_problems_is_shown_with_them(tmp_path, serving_studio):
    (tmp_path / "twice.py").write_text(
        "from penstock import Workflow\nfrom penstock.processors.guards import PIIDetector\n"
        "bad = Workflow('bad').then(PIIDetector(id='x')).then(PIIDetector(id='x'))\n"
    )
    with serving_studio(tmp_path, "twice.py:bad") as made:
        described = made.get(f"/api/workflows/{made.id('bad')}")
        assert "problem" in described["graph_problem"]
        assert made.run("bad", "x")["error"]["kind"] == "graph"


class TestReloading:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "guards.py").write_text(GUARD.format(strategy="redact"))
        return tmp_path

    @pytest.mark.rest
    def test_a_changed_file_is_a_new_version_and_the_old_one_still_runs(self, folder, serving_studio):
        with serving_studio(folder, "guards.py:guard") as made:
            id = made.id("guard")
            made.run("guard", "x")
            made.write("guards.py", GUARD.format(strategy="block"))
            summary = until(lambda: entry(made, id), lambda each: each["version"] == 2)
            assert [each["version"] for each in summary["versions"]] == [1, 2]
            assert made.run("guard", "ann@example.com")["status"] == "blocked"
            old = made.run("guard", "ann@example.com", version=1)
            assert old["status"] == "edited"
            assert old["workflow"]["version"] == 1
            assert field(made.get(f"/api/workflows/{id}", version=1), "pii-detector", "strategy")["value"] == "redact"
            names = [name for _, name, _ in first_events(made, 8)]
            assert names[0] == "hello"
            assert "workflow" in names

    @pytest.mark.rest
    def test_an_error_is_shown_in_place_and_the_last_good_version_stays(self, folder, serving_studio):
        with serving_studio(folder, "guards.py:guard") as made:
            id = made.id("guard")
            made.run("guard", "x")
            made.write("guards.py", "def broken(:\n    pass\n")
            summary = until(lambda: entry(made, id), lambda each: each["state"] == "failed")
            problem = summary["problem"]
            assert (problem["kind"], problem["line"]) == ("load", 1)
            assert problem["file"].endswith("guards.py")
            assert problem["source"] == "def broken(:"
            assert "SyntaxError" in problem["traceback"]
            assert made.run("guard", "ann@example.com")["status"] == "edited"
            made.write("guards.py", "import os\n\ndef make():\n    return {}['<b>']\n\nguard = make()\n")
            problem = until(
                lambda: entry(made, id)["problem"], lambda each: each is not None and "KeyError" in each["message"]
            )
            assert (problem["line"], problem["source"]) == (4, "return {}['<b>']")
            assert [each["line"] for each in problem["frames"]] == [6, 4]
            made.write("guards.py", GUARD.format(strategy="redact"))
            summary = until(lambda: entry(made, id), lambda each: each["state"] == "ready")
            assert summary["problem"] is None
            assert summary["version"] == 1

    @pytest.mark.rest
    def test_a_module_that_the_file_imports_is_watched_too(self, folder, serving_studio):
        (folder / "words.py").write_text("NAME = 'one'\n")
        (folder / "guards.py").write_text(
            "from penstock import Workflow\nfrom words import NAME\nguard = Workflow(NAME)\n"
        )
        with serving_studio(folder, "guards.py:guard") as made:
            id = made.id("guard")
            until(lambda: entry(made, id), lambda each: each["name"] == "one")
            (folder / "words.py").write_text("NAME = 'two'\n")
            until(lambda: entry(made, id), lambda each: each["name"] == "two")
            assert made.get(f"/api/workflows/{id}", version=1)["steps"] == []

    @pytest.mark.parametrize(
        ("reference", "words"), [("two.py", "two.py:b"), ("two.py:d", "no 'd'"), ("two.py:c", "c is an int")]
    )
    @pytest.mark.rest
    def test_a_file_without_what_was_asked_for_is_the_place_of_the_error(
        self, tmp_path, serving_studio, reference, words
    ):
        """The loader raises the error, but its own source says nothing to the reader."""
        (tmp_path / "two.py").write_text("from penstock import Workflow\na = Workflow('a')\nb = Workflow('b')\nc = 3\n")
        with serving_studio(tmp_path, reference) as made:
            problem = until(lambda: entry(made, made.id(reference))["problem"], lambda each: each is not None)
            assert words in problem["message"]
            assert problem["file"] == str(tmp_path / "two.py")
            assert (problem["line"], problem["source"], problem["frames"]) == (None, None, [])

    @pytest.mark.rest
    def test_an_error_about_no_file_has_no_place(self, tmp_path, serving_studio):
        with serving_studio(tmp_path, "nowhere.py:x") as made:
            problem = until(lambda: entry(made, made.id("nowhere.py:x"))["problem"], lambda each: each is not None)
            assert (problem["file"], problem["line"], problem["frames"]) == (None, None, [])

    @pytest.mark.rest
    def test_a_file_that_appears_is_loaded(self, tmp_path, serving_studio):
        with serving_studio(tmp_path, "guards.py:guard") as made:
            id = made.id("guard")
            problem = until(lambda: entry(made, id)["problem"], lambda each: each is not None)
            assert "there is no file" in problem["message"]
            answer = made.http.get(f"/api/workflows/{id}")
            assert answer.status_code == 409
            assert answer.json()["error"]["problem"] == problem
            body = {"workflow": id, "input": {"kind": "text", "text": "x"}}
            assert made.http.post("/api/runs", json=body).status_code == 409
            made.write("guards.py", GUARD.format(strategy="redact"))
            until(lambda: entry(made, id), lambda each: each["state"] == "ready")

    @pytest.mark.rest
    def test_an_import_that_hangs_is_stopped_and_said_where(self, tmp_path, serving_studio):
        (tmp_path / "slow.py").write_text("import time\n\nwhile True:\n    time.sleep(0.01)\n")
        with serving_studio(tmp_path, "slow.py:x", load_seconds=3) as made:
            problem = until(lambda: entry(made, made.id("slow.py:x"))["problem"], lambda each: each is not None)
            assert problem["kind"] == "hang"
            assert problem["file"].endswith("slow.py")
            assert problem["line"] in (3, 4)
            assert "--load-timeout" in problem["message"]

    @pytest.mark.parametrize(
        ("code", "kind", "words"),
        [
            ("import os; os._exit(7)", "crash", "exit code 7"),
            ("raise SystemExit(1)", "load", "ends the program"),
            ("raise KeyboardInterrupt", "load", "KeyboardInterrupt"),
        ],
    )
    @pytest.mark.rest
    def test_an_import_that_ends_the_process_is_an_error(self, tmp_path, serving_studio, code, kind, words):
        (tmp_path / "ends.py").write_text(code)
        with serving_studio(tmp_path, "ends.py:x") as made:
            problem = until(lambda: entry(made, made.id("ends.py:x"))["problem"], lambda each: each is not None)
            assert problem["kind"] == kind
            assert words in problem["message"]

    @pytest.mark.rest
    def test_an_import_that_forks_is_loaded_once(self, folder, serving_studio):
        (folder / "fork.py").write_text("import os\nos.fork()\nfrom guards import guard\n")
        with serving_studio(folder, "fork.py:guard") as served:
            assert served.run("fork.py:guard", "hi")["status"] == "passed"

    @pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
    @pytest.mark.rest
    def test_what_a_waiting_process_has_started_ends_with_it(self, folder, serving_studio):
        (folder / "brief.py").write_text(
            "import os, subprocess, sys, threading\n"
            "first = not os.path.exists(f'{__file__}.pids')\n"
            "process = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(120)'])\n"
            "with open(f'{__file__}.pids', 'a') as file: file.write(f'{process.pid}\\n')\n"
            "def end(): open(f'{__file__}.end').read(); os._exit(0)\n"
            "if first: threading.Thread(target=end, daemon=True).start()\n"
            "from guards import guard\n"
        )
        os.mkfifo(end := folder / "brief.py.end")
        with serving_studio(folder, "brief.py:guard") as served:
            until(lambda: entry(served, served.id("brief.py:guard")), lambda entry: entry["state"] == "ready")
            catalog = served.studio.catalog
            key = catalog.entry(served.id("brief.py:guard")).key
            assert catalog._spares.has(key)
            end.write_text("now")
            until(lambda: catalog._spares.has(key), lambda waits: not waits)
            assert served.run("brief.py:guard", "hi")["status"] == "passed"
        started = (folder / "brief.py.pids").read_text().split()
        until(lambda: [pid for pid in started if lives(pid)], lambda seen: not seen)

    @pytest.mark.rest
    def test_a_process_that_cannot_be_started_is_an_error(self, folder, serving_studio, monkeypatch):
        with serving_studio(folder, "guards.py:guard") as served:
            id = served.id("guards.py:guard")
            until(lambda: entry(served, id), lambda entry: entry["state"] == "ready")
            monkeypatch.setattr(sys, "executable", "/nowhere/python")
            (folder / "guards.py").write_text(GUARD.format(strategy="block"))
            found = until(lambda: entry(served, id), lambda entry: entry["state"] == "failed")
            assert found["problem"]["message"].startswith("no process can be started")
            monkeypatch.undo()
            served.http.post(f"/api/workflows/{id}/reload", json={})
            assert entry(served, id)["version"] == 2

    @pytest.mark.rest
    def test_reloading_by_hand_loads_again(self, folder, serving_studio):
        with serving_studio(folder, "guards.py:guard") as made:
            answer = made.http.post(f"/api/workflows/{made.id('guard')}/reload", json={})
            assert answer.json()["state"] == "ready"
            assert answer.json()["version"] == 1


def lives(pid):
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended before or while it was read
        return False


def entry(made, id):
    return next(each for each in made.get("/api/workflows")["workflows"] if each["id"] == id)


def first_events(made, most):
    found = []
    end = time.monotonic() + 30
    with made.http.stream("GET", "/api/events") as answer:
        for event in events_in(answer.iter_lines()):
            found.append(event)
            if len(found) == most or time.monotonic() > end or event[1] == "runs":
                return found
    return found


POLICY = """\
penstock: 1
include: [words.yaml]
steps:
  - {{use: pii-detector, with: {{strategy: {strategy}}}}}
"""


class TestPolicyFiles:
    @pytest.mark.rest
    def test_a_policy_file_is_shown_watched_and_run_in_each_version(self, tmp_path, serving_studio):
        (tmp_path / "words.yaml").write_text("penstock: 1\nsteps: [unicode-normalizer]\n")
        (tmp_path / "policy.yaml").write_text(POLICY.format(strategy="redact"))
        with serving_studio(tmp_path, f"{tmp_path}/policy.yaml") as made:
            id = made.id("policy.yaml")
            assert made.run("policy.yaml", "ann@example.com")["status"] == "edited"
            made.write("policy.yaml", POLICY.format(strategy="block"))
            until(lambda: entry(made, id), lambda each: each["version"] == 2)
            assert made.run("policy.yaml", "ann@example.com")["status"] == "blocked"
            assert made.run("policy.yaml", "ann@example.com", version=1)["status"] == "edited"
            made.write("words.yaml", "penstock: 1\nsteps: [nobody]\n")
            problem = until(lambda: entry(made, id)["problem"], lambda each: each is not None)
            assert (Path(problem["file"]).name, problem["line"]) == ("words.yaml", 2)
            assert "unknown processor nobody" in problem["message"]
            assert made.run("policy.yaml", "ann@example.com")["status"] == "blocked"
            made.write("words.yaml", "penstock: 1\nsteps: []\n")
            until(lambda: entry(made, id), lambda each: each["state"] == "ready")


@pytest.mark.rest
def test_a_workflow_is_described_with_its_coverage(served) -> None:
    """The table of `penstock coverage`, of workflows and of agents."""
    for reference, path in (("guards.py:guard", "pii-detector"), ("app.py:agent", "pii-detector")):
        found = served.get(f"/api/workflows/{served.id(reference)}")["coverage"]
        (reader,) = [one for one in found["steps"] if one["path"].endswith(path)]
        assert reader["cells"]["user_text"]["reads"] == "hides"
        assert {"channels", "gaps"} <= found.keys()
