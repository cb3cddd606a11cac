"""Short reports: what their samples show and never show, that parts can be merged, and that hostile rows are text."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from penstock import Workflow
from penstock.processors.text import RegexFilterProcessor, UnicodeNormalizer
from penstock.workflows.batch import Call, check_each
from penstock.workflows.cli.report_tables import PrintedReport
from penstock.workflows.report.markdown import as_markdown, code
from penstock.workflows.report.run_report import RunReport
from penstock.workflows.report.short_report import ShortReport, ShortRows, WrittenReport, json_text
from penstock.workflows.report.summaries import TEXT_CHARS, ReportSource
from penstock.workflows.rows.reading import InputRow, RawRow, call_of, parse_json
from penstock.workflows.rows.results import RowChecked, RunCounts, result_of
from tests.laws import examples
from tests.workflows.report.judging import Judge

ADDRESS = "ann@example.com"
PHONE = "+1 415-555-0132"


GUARD = (
    Workflow("guard")
    .then(UnicodeNormalizer(form="NFKC"))
    .then(RegexFilterProcessor(presets=["pii"], strategy="redact", id="personal"))
    .then(Judge())
    .then(RegexFilterProcessor(presets=["urls"], strategy="redact", id="links"), mode="shadow")
)


def results(*values: Any, texts: bool = False, file: str | None = None) -> list[RowChecked]:
    """Check rows; a row of bytes is a line of JSON that may be broken."""
    rows = [
        replace(parse_json(RawRow(number, value)), file=file)
        if isinstance(value, bytes)
        else InputRow(number, value, file=file)
        for number, value in enumerate(values, 1)
    ]

    def call(row: InputRow) -> Call:
        made = call_of(row, "process_input", {})
        return Call(made.messages, made.details, {**made.options, "texts": texts})

    return list(check_each(GUARD, rows, as_call=call))


def source(*, texts: bool = False) -> ReportSource:
    """Return what was run."""
    return ReportSource("guard", "rows.jsonl", "process_input", texts=texts)


def filled(report: Any, checked: list[RowChecked]) -> RunCounts:
    """Give results to a report, and return their counts."""
    make, counts = report.form.maker(GUARD), RunCounts()
    for one in checked:
        counts.add(result_of(one))
        report.add(pickle.loads(pickle.dumps(make(one))))  # noqa: S301 - as it crosses to another process
    return counts


def reported(*values: Any, texts: bool = False, samples: int = 3) -> dict[str, Any]:
    """Run rows, and return their report."""
    report = ShortReport(source(texts=texts), samples)
    counts = filled(report, results(*values, texts=texts))
    return json.loads(json_text(report.as_json(counts, 1.5)))


def sampled(report: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the samples by verdict and step."""
    return {(kind["verdict"], kind["step"]): kind["rows"] for kind in report["samples"]}


def every_report(checked: list[RowChecked]) -> dict[str, str]:
    """Return the text of each report, by its name."""
    outs = {name: StringIO() for name in ("html", "json", "md", "terminal")}
    with RunReport(GUARD, source(), outs["html"]) as page:
        reports: dict[str, Any] = {
            "html": page,
            "json": WrittenReport(source(), outs["json"], json_text),
            "md": WrittenReport(source(), outs["md"], as_markdown),
            "terminal": PrintedReport(source(), outs["terminal"], 3),
        }
        for report in reports.values():
            report.write(filled(report, checked), 1.5)
    return {name: out.getvalue() for name, out in outs.items()}


# What samples show


def test_each_verdict_of_a_step_has_samples_that_say_why() -> None:
    """Rows that passed have none; an edit in a row that was refused is none."""
    found = sampled(
        reported(
            "fine",
            {"id": "x", "text": f"write to {ADDRESS} soon"},
            f"a bomb for {ADDRESS}",
            "crash",
            3,
            b"{broken",
            "a knife",
            "see https://example.com/a",
        )
    )
    assert {kind: [row["line"] for row in rows] for kind, rows in found.items()} == {
        ("blocked", "judge"): [3],
        ("failed", "judge"): [4],
        ("invalid", ""): [5, 6],
        ("flagged", "judge"): [7],
        ("edited", "personal"): [2],
        ("would edit", "links"): [8],
    }
    edited = found["edited", "personal"][0]
    assert (edited["id"], edited["result"], edited["edit_count"]) == ("x", "write to [EMAIL] soon", 1)
    assert [edited["edits"][0][name] for name in ("kind", "start", "end")] == ["redact", 9, 24]
    assert found["blocked", "judge"][0]["reason"] == "no bombs"
    assert "judge" in found["failed", "judge"][0]["reason"]
    assert "not valid JSON" in found["invalid", ""][1]["reason"]
    assert found["flagged", "judge"][0]["flagged"] == ["knife"]
    assert "result" not in found["would edit", "links"][0]


def test_a_result_is_cut_around_the_edit() -> None:
    """Also if an earlier edit has moved it, in any message, and if the same placeholder stands elsewhere."""
    far = "[EMAIL] " + "word " * 200
    messages = [{"role": "user", "content": "first"}, {"role": "user", "content": f"{far}{PHONE}"}]
    found = sampled(reported(f"{far}ﬁ {ADDRESS} end", {"messages": messages}))
    first, second = (row["result"] for row in found["edited", "personal"])
    assert first.startswith("…")
    assert first.endswith("word fi [EMAIL] end")
    assert second.endswith("word [PHONE]")
    assert max(map(len, (first, second))) <= TEXT_CHARS


def test_text_around_edits_is_not_shown_where_something_was_let_pass() -> None:
    """What was flagged would stand beside the placeholder; with --texts it may."""
    row = f"a knife for {ADDRESS}"
    assert "result" not in sampled(reported(row))["edited", "personal"][0]
    with_texts = sampled(reported(row, texts=True))["edited", "personal"][0]
    assert (with_texts["result"], with_texts["text"]) == ("a knife for [EMAIL]", row)


def test_a_row_that_was_lost_is_a_failed_one() -> None:
    """No step has a record of it."""
    lost = replace(results("fine")[0], outcome=None, error=OSError("gone"), records=())
    report = ShortReport(source())
    counts = filled(report, [lost])
    assert sampled(report.as_json(counts, 1))["failed", ""][0]["reason"] == "OSError was raised"


# What they never show

WORDS = st.sampled_from(["fine", "a", "bomb", "crash", "knife", "ﬁ", "`", "|", "\n", "https://example.com/a"])


@st.composite
def rows_with_secrets(draw: st.DrawFn) -> tuple[Any, str]:
    """Return a row in some form, and the secret in it."""
    name = draw(st.text("abcdefghij", min_size=8, max_size=8))
    secret = f"{name}@example.com"
    told = draw(st.sampled_from([secret, secret.translate({ord(one): ord(one) + 0xFEE0 for one in name})]))
    text = " ".join([*draw(st.lists(WORDS, max_size=5)), told, *draw(st.lists(WORDS, max_size=5))])
    forms: list[Any] = [
        text,
        {"id": draw(st.integers()), "text": text},
        {"messages": [{"role": "user", "content": text}, {"role": "user", "content": f"and {told}"}]},
        [text],
        {"nothing": text},
        json.dumps(text).encode()[:-1],
    ]
    return draw(st.sampled_from(forms)), name


@settings(max_examples=examples(60))
@given(st.lists(rows_with_secrets(), min_size=1, max_size=8))
def test_no_report_holds_what_was_hidden(rows: list[tuple[Any, str]]) -> None:
    """Whatever became of the row: edited, blocked, flagged, failed or invalid; also in disguise, or in an error."""
    checked = results(*[row for row, _ in rows])
    for name, text in every_report(checked).items():
        for _, secret in rows:
            assert secret not in text, name


def test_no_report_holds_an_id_of_a_refused_message() -> None:
    """A row chooses the ids of its messages, so one could be what was refused."""
    row = {"messages": [{"role": "user", "id": f"m-{ADDRESS}", "content": "a bomb"}]}
    assert all(ADDRESS not in text for text in every_report(results(row)).values())


# The choice of rows


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(["fine", "bomb", "knife", ADDRESS, 3, "crash"]), max_size=40), st.data())
def test_any_number_of_processes_gives_the_report_of_one(values: list[Any], data: st.DataObject) -> None:
    """However the rows are dealt out: each process sees its part only, and samples depend on the rows only."""
    checked = [replace(one, seconds=one.item.line % 7 / 100) for one in results(*values)]
    form = ShortRows(source(), 2)
    alone, processes = form.maker(GUARD), [form.maker(GUARD) for _ in range(3)]
    whole, dealt = ShortReport(source(), 2), ShortReport(source(), 2)
    for one in checked:
        whole.add(alone(one))
        dealt.add(data.draw(st.sampled_from(processes))(one))
    assert dealt.samples.as_json() == whole.samples.as_json()
    assert dealt.slowest.rows() == whole.slowest.rows()


def test_few_rows_are_kept_of_many_and_they_are_spread() -> None:
    """What a process hands over does not grow with the rows; samples are not only the first ones."""
    bomb = results("bomb")[0]
    report = ShortReport(source(), 4)
    make = report.form.maker(GUARD)
    sizes: list[int] = []
    for line in range(1, 5001):
        made = make(replace(bomb, item=InputRow(line, "bomb"), seconds=1.0))
        sizes.append(len(pickle.dumps(made)))
        report.add(made)
    lines = [row["line"] for row in sampled(report.as_json(RunCounts(), 1))["blocked", "judge"]]
    assert len(lines) == 4
    assert lines == sorted(lines)
    assert max(lines) > 1000
    assert sum(size > 100 for size in sizes) < 100


def test_rows_of_several_files_are_told_apart() -> None:
    """They may have the same lines, and take as long."""
    checked = [replace(one, seconds=1.0) for name in ("a", "b") for one in results("bomb", file=f"{name}.jsonl")]
    report = ShortReport(source())
    found = report.as_json(filled(report, checked), 1)
    assert [row["file"] for row in sampled(found)["blocked", "judge"]] == ["a.jsonl", "b.jsonl"]
    assert len(found["slowest"]) == 2
    assert "`a.jsonl`, line 1" in as_markdown(found)
    assert every_report(checked)["html"].count('"b.jsonl"') == 1


def test_no_samples_can_be_asked_for() -> None:
    """The counts and the slowest rows stay."""
    found = reported("bomb", samples=0)
    assert found["samples"] == []
    assert [row["line"] for row in found["slowest"]] == [1]


# Hostile rows

HOSTILE = "`` ` <b>|</b> ](http://x.example) @ann #1 \x1b[31m\u202e\n# head\n| a |"


def test_what_rows_say_is_code_in_markdown() -> None:
    """No link, no HTML, no mention, no heading, no cell of its own."""
    found = reported({"id": HOSTILE, "text": f"bomb {HOSTILE}"}, texts=True)
    found["counts"]["steps"][0]["path"] = HOSTILE
    tokens = MarkdownIt("commonmark").enable("table").parse(as_markdown(found))
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"link_open", "html_inline", "html_block", "image", "fence", "code_block"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2", "h2", "h3"]
    told = [child.content for child in inline if child.type == "code_inline" and "http://x" in child.content]
    assert len(told) == 4  # in the table of steps, the slowest rows, and the name and the text of the sample
    assert not any("http://x" in child.content for child in inline if child.type == "text")


@given(st.text())
def test_a_code_span_holds_any_text(text: str) -> None:
    """It begins and ends where it should."""
    inline = MarkdownIt().parse(f"a {code(text)} b")[1].children or []
    assert [child.content for child in inline if child.type == "text"] == (["a ", " b"] if text else ["a  b"])


def test_nothing_that_rows_say_controls_a_terminal() -> None:
    """Neither on the terminal nor in a file that is printed."""
    checked = results({"id": HOSTILE, "text": f"bomb {HOSTILE}"}, f"{ADDRESS} {HOSTILE}")
    for name, text in every_report(checked).items():
        if name != "html":
            assert text.replace("\n", "").isprintable(), name


# The command


@pytest.mark.parametrize(
    ("name", "start"),
    [("out.md", "# Report: `guard`"), ("out.json", "{"), ("out.html", "<!"), ("-", "blocked by judge")],
)
def test_the_ending_of_the_name_chooses_the_report(run, lines, tmp_path: Path, name: str, start: str) -> None:
    """Results are the same with each of them."""
    rows = lines(f"to {ADDRESS}", "bomb", "crash", 3)
    ran = run("run", "guards.py:guard", "-", "-o", "out.jsonl", "--report", name, stdin=rows)
    text = ran.out if name == "-" else (tmp_path / name).read_text()
    assert text.startswith(start)
    assert ADDRESS not in text
    if name != "out.html":
        assert "to [EMAIL]" in text
    statuses = [json.loads(line)["status"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert statuses == ["edited", "blocked", "failed", "invalid"]


def test_the_number_of_samples_can_be_chosen(run, lines, tmp_path: Path) -> None:
    """Three by default."""
    rows = lines(*["bomb"] * 10)
    for more, count in (((), 3), (("--samples", "5"), 5), (("--samples", "0"), 0)):
        run("run", "guards.py:guard", "-", "-o", "out.jsonl", "--report", "out.json", *more, stdin=rows)
        found = json.loads((tmp_path / "out.json").read_text())
        assert sum(len(kind["rows"]) for kind in found["samples"]) == count


@pytest.mark.rest
def test_the_samples_are_the_same_by_one_process_and_by_two(run, lines, tmp_path: Path) -> None:
    """Only times differ."""
    rows = lines(*[f"{number} {word} {ADDRESS}" for number in range(40) for word in ("fine", "bomb", "crash")])
    found: list[Any] = []
    for jobs in ("1", "2"):
        run("run", "guards.py:guard", "-", "-o", "out", "--report", "out.json", "--jobs", jobs, stdin=rows)
        report = json.loads((tmp_path / "out.json").read_text())
        untimed = [{**row, "seconds": 0} for kind in report["samples"] for row in kind["rows"]]
        found.append((untimed, report["counts"]["statuses"], [kind["verdict"] for kind in report["samples"]]))
    assert found[0] == found[1]
    assert found[0][2] == ["blocked", "failed", "edited"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--report", "-"], "write them to a file: -o FILE"),
        (["--report", "-", "-o", "-"], "write them to a file: -o FILE"),
        (["--report", "x.txt", "-o", "y"], "takes FILE.html, FILE.md, FILE.json or -"),
    ],
)
def test_a_report_without_a_format_or_a_place_is_an_error(run, lines, arguments, message) -> None:
    """Before anything runs."""
    ran = run("run", "guards.py:guard", "-", *arguments, stdin=lines("fine"))
    assert ran.code == 2
    assert message in ran.err
