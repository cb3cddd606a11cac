"""Two workflows, versions, option sets or runs beside each other."""

from __future__ import annotations

import pytest

from tests.workflows.studio.served import until

EMAIL = {"kind": "text", "text": "mail ann@example.com"}


def two(id, changes):
    return {"left": {"workflow": id}, "right": {"workflow": id, "changes": changes}, "input": EMAIL}


def compared(served, body):
    answer = served.http.post("/api/compare", json=body)
    assert answer.status_code == 202, answer.text
    made = until(lambda: served.get(f"/api/compare/{answer.json()['id']}"), lambda each: each["state"] == "done")
    return made, [served.get(f"/api/runs/{id}") for id in made["runs"]]


@pytest.mark.rest
def test_two_option_sets_are_compared(served):
    id = served.id("guards.py:guard")
    changes = {"pii-detector": {"options": {"strategy": "block"}}}
    made, runs = compared(served, two(id, changes))
    assert [run["status"] for run in runs] == ["edited", "blocked"]
    assert made["diff"]["same"] is False
    assert "redact" in made["diff"]["text"]
    assert "block" in made["diff"]["text"]
    assert made["diff"]["svg"].startswith("<svg")
    assert made["trace"]["same"] is False
    assert "status" in made["trace"]["text"]
    assert made["output"] == {"same": False}
    again, _ = compared(served, {"runs": made["runs"]})
    assert {name: again[name] for name in ("diff", "trace", "output")} == {
        name: made[name] for name in ("diff", "trace", "output")
    }


@pytest.mark.rest
def test_the_same_twice_is_the_same(served):
    side = {"workflow": served.id("guards.py:guard")}
    made, _ = compared(served, {"left": side, "right": side, "input": EMAIL})
    assert made["diff"]["same"] is True
    assert made["trace"]["same"] is True
    assert made["output"]["same"] is True


@pytest.mark.rest
def test_two_workflows_are_compared(served):
    sides = {"left": {"workflow": served.id("guards.py:guard")}, "right": {"workflow": served.id("hygiene")}}
    made, runs = compared(served, {**sides, "input": EMAIL})
    assert [run["workflow"]["name"] for run in runs] == ["guard", "hygiene"]
    assert made["diff"]["same"] is False


@pytest.mark.rest
def test_an_agent_is_compared_with_changed_options(served):
    id = served.id("app.py:agent")
    changes = {"pii-detector": {"options": {"redaction_method": "placeholder"}}}
    made, _ = compared(served, two(id, changes))
    assert made["diff"]["same"] is False
    assert made["output"]["same"] is False


@pytest.mark.rest
def test_two_versions_of_a_file_are_compared(tmp_path, serving_studio):
    code = (
        "from penstock import Workflow\nfrom penstock.processors.guards import PIIDetector\n"
        "from words import STRATEGY\nguard = Workflow('guard').then(PIIDetector(strategy=STRATEGY))\n"
    )
    (tmp_path / "guards.py").write_text(code)
    (tmp_path / "words.py").write_text("STRATEGY = 'redact'\n")
    with serving_studio(tmp_path, "guards.py:guard") as made:
        id = made.id("guard")
        assert made.get(f"/api/workflows/{id}")["version"] == 1
        made.write("words.py", "STRATEGY = 'block'\n")
        until(lambda: made.get("/api/workflows")["workflows"][0]["version"], lambda version: version == 2)
        sides = {"left": {"workflow": id, "version": 1}, "right": {"workflow": id, "version": 2}}
        found, runs = compared(made, {**sides, "input": EMAIL})
        assert [run["status"] for run in runs] == ["edited", "blocked"]
        assert "strategy" in found["diff"]["text"]


def test_what_is_compared_must_be_named_one_way(served):
    side = {"workflow": served.id("guards.py:guard")}
    for body in ({}, {"left": side, "right": side}, {"left": side, "right": side, "input": EMAIL, "runs": ["a", "b"]}):
        answer = served.http.post("/api/compare", json=body)
        assert answer.status_code == 400
        assert "left, right and input" in answer.json()["error"]["message"]
    for body in ({"runs": ["a", "b"]}, {"left": side, "right": {"workflow": "nope"}, "input": EMAIL}):
        assert served.http.post("/api/compare", json=body).status_code == 404


@pytest.mark.rest
def test_a_comparison_that_breaks_does_not_end_the_studio(tmp_path, serving_studio, monkeypatch):
    def broken(_wholes: object) -> None:
        raise RuntimeError("no traces today")

    monkeypatch.setattr("penstock.workflows.studio.comparisons._trace_diff", broken)
    with serving_studio(tmp_path) as served:
        side = {"workflow": served.id("hygiene")}
        body = {"left": side, "right": side, "input": {"kind": "text", "text": "hi"}}
        id = served.http.post("/api/compare", json=body).json()["id"]
        made = until(lambda: served.get(f"/api/compare/{id}"), lambda made: made["state"] == "done")
        assert "no traces today" in made["error"]
        assert served.run("hygiene", "hi")["status"] == "passed"
