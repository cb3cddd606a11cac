"""Labelled rows: what is read from files, and what is said of what cannot be."""

import json
from pathlib import Path

import pytest

from benchmarks.quality import pools
from benchmarks.quality.rows import DataError, DataSet, Row, RowError, load, row_of
from penstock.detection.spans import Span

pytestmark = pytest.mark.rest


def written(folder: Path, name: str, *rows: object, split: str = "dev") -> None:
    """Write rows to `folder/name/split.jsonl`; a str as it is."""
    (folder / name).mkdir(exist_ok=True)
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / name / f"{split}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def test_rows_are_read_whatever_the_folder_is_called(tmp_path: Path) -> None:
    """One with spans, one with labels, one with a language."""
    written(tmp_path, "b", {"id": "1", "text": "a@b.de", "spans": [{"start": 0, "end": 6, "type": "email"}]})
    written(tmp_path, "a", {"id": 2, "text": "hi", "labels": {"injection": 0}}, {"id": "3", "text": "x", "lang": "en"})
    data = load(tmp_path, "dev")
    assert [(each.name, len(each.rows)) for each in data.sets] == [("a", 2), ("b", 1)]
    assert data.sets[1].rows[0].spans == (Span(0, 6, "email"),)
    assert data.sets[0].rows[0].flag("injection") is False
    assert data.sets[0].rows[1].lang == "en"
    assert data.notes == ()


def test_a_line_that_is_no_row_is_left_out_and_named(tmp_path: Path) -> None:
    """By its file and line, without its text."""
    written(tmp_path, "a", "{broken", {"id": "1"}, "", {"id": "2", "text": "fine"}, {"text": "s", "spans": [{}]})
    data = load(tmp_path, "dev")
    assert [row.id for row in data.sets[0].rows] == ["2"]
    assert [note.split(" is left out")[0] for note in data.notes] == [
        "a/dev.jsonl, line 1,",
        "a/dev.jsonl, line 2,",
        "a/dev.jsonl, line 5,",
    ]


@pytest.mark.parametrize("missing", ["folder", "split", "rows"])
def test_nothing_to_measure_is_an_error_that_says_so(tmp_path: Path, missing: str) -> None:
    """No folder, no such split, or files without rows."""
    if missing != "folder":
        written(tmp_path, "a", *([] if missing == "rows" else [{"id": "1", "text": "x"}]))
    folder = tmp_path / "none" if missing == "folder" else tmp_path
    with pytest.raises(DataError, match="There is no folder" if missing == "folder" else "heldout.jsonl"):
        load(folder, "heldout")


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"text": 1},
        {"text": "x", "labels": []},
        {"text": "x", "spans": {}},
        {"text": "x", "spans": [{"start": 0, "end": 2, "type": "email"}]},
        {"text": "x", "spans": [{"start": 0, "end": 1}]},
    ],
)
def test_what_is_no_row_is_refused(given: object) -> None:
    """Each for its own reason; none quotes the text."""
    with pytest.raises(RowError):
        row_of(given)


def test_a_missing_label_is_unknown_and_not_nought() -> None:
    """A word is no yes or no either."""
    row = Row("1", "x", labels={"hate": 1, "kind": "a"})
    assert (row.flag("hate"), row.flag("violence"), row.flag("kind")) == (True, None, None)


def test_pools_are_made_by_labels_and_the_sets_that_goals_name(tmp_path: Path) -> None:
    """Personas are no ordinary prompts; some sets give their attacks only, some their benign rows, some neither."""
    bad, good = {"text": "x", "labels": {"injection": 1}}, {"text": "x", "labels": {"injection": 0}}
    for name in ("inj_any", "inj_notinject", "inj_spikee", "inj_bipia_email"):
        written(tmp_path, name, bad, good)
    written(tmp_path, "ben_people", good, {"text": "x", "labels": {"injection": 0, "kind": "act-as"}})
    data = load(tmp_path, "dev")
    assert {each.name for each in pools.attacks(data)} == {"inj_any", "inj_spikee"}
    assert {each.name for each in pools.harmless(data)} == {"ben_people", "inj_any", "inj_notinject"}
    assert [len(each.rows) for each in pools.benign_prompts(data)] == [1]
    assert [len(each.rows) for each in pools.personas(data)] == [1]


def test_a_set_without_such_rows_is_not_among_those_chosen() -> None:
    """And keeps its own rows."""
    rows = DataSet("a", (Row("1", "x", lang="en"), Row("2", "y")))
    assert len(rows.where(lambda row: row.lang is not None).rows) == 1
    assert len(rows.rows) == 2
