"""The report of a run over rows: what it keeps, what it leaves out and says so, and what it never holds."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from penstock import Workflow
from penstock.workflows.batch import Call, check_each
from penstock.workflows.report import kept_rows
from penstock.workflows.report.kept_rows import Limits
from penstock.workflows.report.run_report import RunReport
from penstock.workflows.report.summaries import ReportSource
from penstock.workflows.rows.reading import InputRow, call_of
from penstock.workflows.rows.results import RunCounts, result_of
from tests.workflows.report.judging import Judge

ADDRESS = "ann@example.com"


GUARD = Workflow("guard").then(Judge())


class Read:
    """A report as its page reads it."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', text, re.DOTALL)
        self.blocks = {name: json.loads(value) for name, value in found}
        self.data: dict[str, Any] = self.blocks.pop("data")
        self.rows: list[dict[str, Any]] = self.data["rows"]

    def traces(self, block: str) -> list[Any]:
        """Unpack a block."""
        return json.loads(gzip.decompress(b64decode(self.blocks[block])))

    def trace(self, line: int) -> Any:
        """Return the trace of a row, or None."""
        row = next(one for one in self.rows if one["line"] == line)
        return self.traces(row["block"])[row["index"]]["trace"] if "block" in row else None

    @property
    def whole(self) -> str:
        """Everything in it, unpacked."""
        return self.text + "".join(json.dumps(self.traces(block), ensure_ascii=False) for block in self.blocks)


def reported(*values: Any, limits: Limits | None = None, texts: bool = False, interrupted: bool = False) -> Read:
    """Run rows, and read their report."""
    counts, out = RunCounts(), StringIO()
    rows = [InputRow(number, value) for number, value in enumerate(values, 1)]

    def call(row: InputRow) -> Call:
        made = call_of(row, "process_input", {})
        return Call(made.messages, made.details, {**made.options, "texts": texts})

    with RunReport(GUARD, ReportSource("guard", "rows.jsonl", "process_input", texts=texts), out, limits) as report:
        make = report.form.maker(GUARD)
        for checked in check_each(GUARD, rows, as_call=call):
            counts.add(result_of(checked))
            report.add(make(checked))
        report.write(counts, 1.5, interrupted=interrupted)
    return Read(out.getvalue())


def test_every_row_is_listed_with_its_verdict_and_its_trace() -> None:
    """Broken ones are shown as errors; only one that is malformed has no trace, because nothing ran."""
    read = reported("fine", "a bomb", "crash", 3, {"id": "x", "text": "a knife"})
    assert [row["status"] for row in read.rows] == ["passed", "blocked", "failed", "invalid", "passed"]
    assert [row.get("reason", "") for row in read.rows][1] == "no bombs"
    assert "judge" in read.rows[2]["reason"]
    assert "a row is a string" in read.rows[3]["reason"]
    assert read.rows[1]["steps"] == {"judge": "tripped"}
    assert (read.rows[4]["id"], read.rows[4]["flagged"]) == ("x", ["knife"])
    assert [read.trace(line) and read.trace(line)["status"] for line in range(1, 6)] == [
        "passed",
        "blocked",
        "failed",
        None,
        "passed",
    ]
    assert read.data["counts"]["statuses"] == {"passed": 2, "blocked": 1, "failed": 1, "invalid": 1}
    assert read.data["counts"]["steps"][0] | {"seconds": 0, "slowest": 0} == {
        "path": "judge",
        "shadow": False,
        "ran": 4,
        "statuses": {"passed": 2, "tripped": 1, "failed": 1},
        "edits": 0,
        "flagged": 1,
        "seconds": 0,
        "slowest": 0,
    }


def test_no_text_of_a_row_is_in_it_unless_asked_for() -> None:
    """Not in the list, not in a trace, not in an error; and it says which."""
    rows = (f"fine {ADDRESS}", f"bomb {ADDRESS}", f"crash {ADDRESS}")
    without, with_texts = reported(*rows), reported(*rows, texts=True)
    assert ADDRESS not in without.whole
    assert without.data["source"]["texts"] is False
    assert with_texts.rows[0]["text"] == f"fine {ADDRESS}"
    assert ADDRESS in json.dumps(with_texts.trace(1))
    assert with_texts.data["source"]["texts"] is True


def test_a_text_is_that_of_the_row_in_any_form_and_is_cut() -> None:
    """A conversation is shown as a transcript."""
    read = reported("x" * 1000, {"text": "y"}, {"messages": [{"role": "user", "content": "z"}]}, texts=True)
    assert [len(read.rows[0]["text"]), read.rows[1]["text"]] == [300, "y"]
    assert read.rows[2]["text"] == "user: z"


def test_rows_that_passed_take_no_place_of_others() -> None:
    """Each kind has its limit; the counts are of all rows."""
    read = reported(*["fine"] * 20, *["bomb"] * 20, limits=Limits(rows=10))
    listed = [row["line"] for row in read.rows]
    assert {*range(1, 11), *range(21, 31)} <= set(listed)
    assert len(listed) <= 30  # the slowest are listed, too
    assert read.data["counts"]["rows"] == 40


def test_the_slowest_rows_are_kept_whatever_the_limits() -> None:
    """They are listed, in order, and can be opened."""
    out = StringIO()
    counts = RunCounts()
    with RunReport(GUARD, ReportSource("guard", "-", "process_input"), out, Limits(rows=2, chars=0)) as report:
        make = report.form.maker(GUARD)
        for line, checked in enumerate(check_each(GUARD, ["fine"] * 30), 1):
            row = replace(checked, item=InputRow(line, "fine"), seconds=line / 10)
            counts.add(result_of(row))
            report.add(make(row))
        report.write(counts, 1)
    read = Read(out.getvalue())
    assert [read.rows[place]["line"] for place in read.data["slowest"]] == list(range(30, 20, -1))
    assert [row["line"] for row in read.rows] == [1, 2, *range(21, 31)]
    assert [read.trace(line) is not None for line in (1, 2, 21, 30)] == [False, False, True, True]


def test_traces_are_kept_up_to_a_limit_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row can be opened with is bounded, too; each block is small enough to be unpacked for one row."""
    monkeypatch.setattr(kept_rows, "BLOCK_ROWS", 4)
    read = reported(*["bomb"] * 40, limits=Limits(chars=1500))
    opened = [row["line"] for row in read.rows if "block" in row]
    assert 4 <= len(opened) < 40
    assert all(read.trace(line)["run_id"] == f"line-{line}" for line in opened)
    assert all(len(read.traces(block)) <= 10 for block in read.blocks)
    assert len([block for block in read.blocks if block.startswith("traces-e")]) > 1


def test_a_trace_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is listed."""
    monkeypatch.setattr(kept_rows, "LONGEST_TRACE", 10)
    read = reported("bomb")
    assert [row["status"] for row in read.rows] == ["blocked"]
    assert "block" not in read.rows[0]


def test_a_long_block_is_closed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one of long texts does not grow without end."""
    monkeypatch.setattr(kept_rows, "BLOCK_CHARS", 1)
    assert len(reported("bomb", "bomb").blocks) == 3


def test_hostile_ids_reasons_and_texts_are_data() -> None:
    """The file has the same blocks as for harmless ones."""
    nasty = "</script><!--<script>\u2028\x1b[31m\ud800"
    read = reported({"id": nasty, "text": f"bomb {nasty}"}, texts=True)
    assert read.rows[0]["id"] == nasty
    assert nasty not in read.text
    assert read.text.count("</script>") == read.text.count("<script") == 5
    assert nasty in read.trace(1)["spans"][1]["texts"][0]["before"]


def test_an_interrupted_run_says_so() -> None:
    """A file that looks complete would mislead."""
    assert reported("fine", interrupted=True).data["source"]["interrupted"] is True


# The command


def test_the_command_writes_the_report_beside_the_results(run, lines, tmp_path: Path) -> None:
    """The results are those without it."""
    rows = lines("fine", f"to {ADDRESS}", "bomb", "crash", 3)
    ran = run("run", "guards.py:guard", "-", "--report", "out.html", stdin=rows)
    assert [row["status"] for row in ran.rows] == ["passed", "edited", "blocked", "failed", "invalid"]
    read = Read((tmp_path / "out.html").read_text())
    assert [row["status"] for row in read.rows] == [row["status"] for row in ran.rows]
    assert read.trace(2)["spans"][-1]["name"] == "judge"
    assert ADDRESS not in read.whole
    assert read.data["source"] == {"input": "stdin", "texts": False, "interrupted": False}


def test_the_command_keeps_texts_if_told(run, lines, tmp_path: Path) -> None:
    """And says so on stderr."""
    ran = run("run", "guards.py:guard", "-", "--report", "out.html", "--texts", stdin=lines(f"to {ADDRESS}"))
    assert "everything that was hidden" in ran.err
    assert ADDRESS in Read((tmp_path / "out.html").read_text()).whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--report", "x.md", "-o", "x.md"], "given twice"),
        (["--report", "rows.jsonl"], "is the input"),
        (["--texts"], "add --trace or --report"),
        (["--report", "no/folder/x.html"], "cannot write"),
    ],
)
def test_a_report_that_cannot_be_written_stops_before_anything_runs(run, lines, tmp_path, arguments, message) -> None:
    """Not after an hour of work."""
    (tmp_path / "rows.jsonl").write_bytes(lines("fine"))
    ran = run("run", "guards.py:guard", "--input", "rows.jsonl", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert not ran.out
