"""`penstock studio --review`: rows are labelled with one key each, and `penstock eval` reads the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import PIIDetector, Workflow
from penstock.workflows.evaluation import UndecidedRows, evaluate
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.review import MOST_ROWS, ReviewFile

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "Write to ann@example.com ☃", "lang": "en", "label": None, "review": {"flagged": True}},
    {
        "id": "b",
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ["x"]}],
        "label": None,
    },
    {"result": {"to": 1}, "label": None},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of rows."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n", "utf-8")
    return path


def test_each_row_is_shown_with_its_texts_and_the_reason(file: Path) -> None:
    shown = ReviewFile(file).to_json()["rows"]
    assert [row["texts"] for row in shown] == [
        [{"role": "", "text": "Write to ann@example.com ☃"}],
        [{"role": "user", "text": "hi"}, {"role": "assistant", "text": '[\n  "x"\n]'}],
        [{"role": "", "text": '{\n  "to": 1\n}'}],
    ]
    assert [row["review"] for row in shown] == [{"flagged": True}, {}, {}]


def test_a_label_is_in_the_file_at_once_and_all_else_stays(file: Path) -> None:
    review = ReviewFile(file)
    assert review.label(0, "a", label=True) == {"left": 2}
    assert review.label(2, None, label=False) == {"left": 1}
    assert [json.loads(line) for line in file.read_text("utf-8").splitlines()] == [
        {**ROWS[0], "label": True},
        ROWS[1],
        {**ROWS[2], "label": False},
    ]
    assert review.label(0, "a", label=None) == {"left": 2}
    assert list(file.parent.iterdir()) == [file]


def test_undecided_rows_that_were_labelled_are_evaluated(tmp_path: Path) -> None:
    guard = Workflow("guard").then(PIIDetector(strategy="block"))
    undecided = UndecidedRows()
    evaluate(guard, [{"id": 1, "text": "ann@example.com"}, {"id": 2, "text": "bob@example.com"}], undecided=undecided)
    file = tmp_path / "rows.jsonl"
    file.write_text(undecided.lines(), "utf-8")
    review = ReviewFile(file)
    for number, row in enumerate(review.to_json()["rows"]):
        review.label(number, row["id"], label=row["id"] == 1)
    verdicts = evaluate(guard, str(file)).whole.verdicts
    assert (verdicts.right, verdicts.wrong) == (1, 1)


def test_a_file_that_has_changed_on_disk_is_not_overwritten(file: Path) -> None:
    review = ReviewFile(file)
    file.write_text(json.dumps({"id": "z", "text": "new"}) + "\n", "utf-8")
    for number, id in ((0, "a"), (2, None), (-1, "z")):
        with pytest.raises(StudioError, match="has changed on disk"):
            review.label(number, id, label=True)
    assert json.loads(file.read_text("utf-8")) == {"id": "z", "text": "new"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[1]\n", "row 1 of"),
        (b"{\n", "row 1 of"),
        (b"\xff\n", "cannot be read"),
        (b"{}\n" * (MOST_ROWS + 1), "more than"),
    ],
)
def test_a_file_that_cannot_be_labelled_is_refused_at_the_start(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(StudioError, match=told):
        ReviewFile(tmp_path / "rows.jsonl")
    with pytest.raises(StudioError, match="cannot be read"):
        ReviewFile(tmp_path / "missing.jsonl")


def test_the_page_reads_and_labels_rows(file: Path, serving_studio) -> None:
    with serving_studio(file.parent, review=file) as served:
        assert "<title>Label rows" in served.http.get("/?review=1").text
        assert "<title>Label rows" not in served.http.get("/").text
        assert len(served.get("/api/review")["rows"]) == len(ROWS)
        answer = served.http.post("/api/review", json={"number": 1, "id": "b", "label": True})
        assert (answer.status_code, answer.json()) == (200, {"left": 2})
        for wrong in ({"number": 1, "id": "b", "label": "yes"}, {"number": -1, "label": True}, {"label": True}):
            assert served.http.post("/api/review", json=wrong).status_code == 400
        assert served.http.post("/api/review", json={"number": 1, "id": "c", "label": True}).status_code == 409
    assert json.loads(file.read_text("utf-8").splitlines()[1])["label"] is True


def test_without_a_file_the_page_says_what_to_do(served) -> None:
    answer = served.http.get("/api/review")
    assert answer.status_code == 404
    assert "start the studio with --review FILE" in answer.text


@pytest.mark.rest
def test_a_key_labels_a_row_in_the_browser(file: Path, serving_studio, chromium) -> None:
    """And the next one without a label is shown."""
    with serving_studio(file.parent, review=file) as served:
        page = chromium.new_page()
        page.goto(f"{served.url}/?review=1")
        page.get_by_text("Write to ann@example.com").wait_for()
        page.keyboard.press("y")
        page.get_by_text("1 of 3 labelled").wait_for()
        page.keyboard.press("n")
        page.get_by_text("2 of 3 labelled").wait_for()
        page.keyboard.press("u")
        page.get_by_role("button", name="No, nothing").and_(page.locator("[aria-pressed=true]")).wait_for()
    assert [json.loads(line)["label"] for line in file.read_text("utf-8").splitlines()] == [True, False, None]
