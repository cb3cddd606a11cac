"""`penstock run`: rows in, verdicts out, and what the shell is told."""

import json
from pathlib import Path

import pytest

ADDRESS = "ann@example.com"
SCHEMA = {"line", "id", "status", "text", "flagged", "tripwire", "error", "ms", "records"}
RECORD = {"step", "processor", "status", "shadow", "ms", "edits"}


def test_each_row_is_a_line_of_json_in_a_documented_shape(run, lines) -> None:
    """The same fields for every status."""
    ran = run("run", "guards.py:guard", "-", stdin=lines("fine", f"to {ADDRESS}", "bomb", "crash", 3))
    assert [row["status"] for row in ran.rows] == ["passed", "edited", "blocked", "failed", "invalid"]
    assert all(set(row) == SCHEMA for row in ran.rows)
    assert all(set(record) >= RECORD for row in ran.rows for record in row["records"])
    assert [row["text"] for row in ran.rows] == ["fine", "to [EMAIL]", None, None, None]


def test_an_edit_tells_place_and_new_text(run, lines) -> None:
    """Positions are those of the text that the step saw."""
    record = run("run", "guards.py:guard", "-", stdin=lines(f"to {ADDRESS}")).rows[0]["records"][0]
    assert record["edits"] == [
        {"message": "line-1-1", "part": 0, "field": "text", "start": 3, "end": 18, "kind": "redact", "text": "[EMAIL]"}
    ]


def test_a_verdict_tells_who_and_why(run, lines) -> None:
    """With the metadata of the processor."""
    row = run("run", "guards.py:guard", "-", stdin=lines("bomb")).rows[0]
    assert row["tripwire"] == {
        "reason": "no bombs",
        "processor_id": "judge",
        "stage": "process_input",
        "retry": False,
        "metadata": {"count": 1},
    }
    assert row["records"][1]["reason"] == "no bombs"


def test_ids_and_line_numbers_are_kept(run) -> None:
    """Empty lines count as lines, but are no rows."""
    stdin = b'{"id": "a", "text": "x"}\n\n   \n{"id": 7, "text": "y"}\n{"id": {}, "text": "z"}\n'
    assert [(row["line"], row["id"]) for row in run("run", "guards.py:guard", "-", stdin=stdin).rows] == [
        (1, "a"),
        (4, 7),
        (5, None),
    ]


@pytest.mark.parametrize(
    "row",
    [
        f"{ADDRESS}",
        {"text": ADDRESS},
        {"content": ADDRESS, "id": 1},
        {"role": "user", "content": ADDRESS, "id": 1},
        {"messages": [{"role": "user", "content": ADDRESS}]},
        [{"role": "user", "content": [{"type": "text", "text": ADDRESS}]}],
        {"content": [{"type": "text", "text": ADDRESS}]},
        {"role": "user", "parts": [{"type": "text", "text": ADDRESS}]},
    ],
)
def test_a_row_may_have_many_forms(run, lines, row) -> None:
    """All of them are judged alike."""
    ran = run("run", "guards.py:guard", "-", "--input-format", "jsonl", stdin=lines(row))
    assert (ran.rows[0]["status"], ran.rows[0]["text"]) == ("edited", "[EMAIL]")


def test_a_conversation_comes_back_as_messages(run, lines) -> None:
    """In the chat format, or the one asked for; a plain text needs none."""
    row = {"messages": [{"role": "user", "content": ADDRESS}, {"role": "assistant", "content": "Hm."}]}
    after = run("run", "guards.py:guard", "-", stdin=lines(row)).rows[0]["messages"]
    assert after == [{"role": "user", "content": "[EMAIL]"}, {"role": "assistant", "content": "Hm."}]
    again = run("run", "guards.py:guard", "-", "--messages-format", "ai-sdk-ui", stdin=lines(row)).rows[0]["messages"]
    assert again[0]["parts"] == [{"type": "text", "text": "[EMAIL]"}]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{oops", "it is not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        (b"12", "a row is a string, an object or a list of messages, not a number"),
        (b"null", "not null"),
        (b'{"txt": "x"}', "it has none of 'text', 'messages', 'content', 'parts'"),
        (b'{"text": 5}', "text: expected a string, not a number"),
        (b'{"text": "x", "messages": []}', "give one of them"),
        (b'{"messages": []}', "messages: the list is empty"),
        (b'{"messages": [{"role": "user"}, 3]}', "messages["),
        (b'"\xff"', "it is not valid UTF-8, at byte 2 of the line"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5_000, "too many digits"),
    ],
)
def test_a_bad_line_is_told_by_its_number_and_stops_nothing(run, line, problem) -> None:
    """On stderr for people, as a row for programs; the exit code says that not all were judged."""
    ran = run("run", "guards.py:guard", "-", "--input-format", "jsonl", stdin=b'"a"\n' + line + b'\n"b"\n')
    assert [row["status"] for row in ran.rows] == ["passed", "invalid", "passed"]
    assert problem in ran.rows[1]["error"]["message"]
    assert f"penstock: line 2: invalid: {ran.rows[1]['error']['message']}" in ran.err
    assert ran.code == 3


def test_a_first_line_of_json_makes_stdin_jsonl(run) -> None:
    """From there on a broken line is a bad row, never a text that is judged as it stands."""
    ran = run("run", "guards.py:guard", "-", stdin=b'"a"\n{"text": "b"\n')
    assert [row["status"] for row in ran.rows] == ["passed", "invalid"]


def test_any_other_first_line_makes_stdin_text(run) -> None:
    """A line is a text, whatever it looks like; CRLF and a byte-order mark are no part of it."""
    ran = run("run", "guards.py:guard", "-", stdin=b'\xef\xbb\xbfhello\r\n{"text": "b"}\r\n')
    assert [row["text"] for row in ran.rows] == ["hello", '{"text": "b"}']


def test_jsonl_may_have_a_byte_order_mark_and_windows_line_ends(run) -> None:
    """As editors on Windows write it."""
    ran = run("run", "guards.py:guard", "-", stdin=b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n')
    assert [row["text"] for row in ran.rows] == ["a", "b"]


def test_utf16_is_refused_with_the_cure(run) -> None:
    """Every line of it would be a bad row otherwise."""
    ran = run("run", "guards.py:guard", "-", stdin='"a"\n'.encode("utf-16"))
    assert ran.code == 2
    assert "iconv" in ran.err


def test_a_line_beyond_the_limit_is_a_bad_row(run, monkeypatch) -> None:
    """It is never held as a whole."""
    monkeypatch.setattr("penstock.workflows.rows.reading.MAX_LINE", 1000)
    ran = run("run", "guards.py:guard", "-", stdin=b'"a"\n"' + b"x" * 5000 + b'"\n"b"\n"' + b"y" * 3000)
    assert [(row["line"], row["status"]) for row in ran.rows] == [
        (1, "passed"),
        (2, "invalid"),
        (3, "passed"),
        (4, "invalid"),
    ]


def test_half_a_surrogate_pair_survives(run) -> None:
    """JSON can say it, and UTF-8 cannot."""
    row = run("run", "guards.py:guard", "-", stdin=b'"x \\ud83d y"\n').rows[0]
    assert row["text"] == "x \ud83d y"


def test_nothing_at_all_is_no_error(run) -> None:
    """An empty file has been judged; people are told that it was empty."""
    assert run("run", "guards.py:guard", "-") == (0, "", "penstock: the input has no rows\n")


def test_the_name_of_a_file_is_run_as_a_text_with_a_note(run, world: Path) -> None:
    """It may be meant as a text, but most often its rows are."""
    (world / "my rows.jsonl").write_bytes(b'"bomb"\n')
    ran = run("run", "guards.py:guard", "my rows.jsonl")
    assert ran.rows[0]["text"] == "my rows.jsonl"
    cure = "for its rows use --input 'my rows.jsonl'"
    assert ran.err == f"penstock: 'my rows.jsonl' is a file, but was checked as a text; {cure}\n"
    assert run("run", "guards.py:guard", "x" * 5_000).err == ""


def test_a_file_is_jsonl_unless_its_name_says_text(run, world: Path) -> None:
    """And --input-format has the last word."""
    (world / "a.jsonl").write_bytes(b"plain\n")
    (world / "a.txt").write_bytes(b'"quoted"\n')
    assert run("run", "guards.py:guard", "-i", "a.jsonl").rows[0]["status"] == "invalid"
    assert run("run", "guards.py:guard", "-i", "a.txt").rows[0]["text"] == '"quoted"'
    assert run("run", "guards.py:guard", "-i", "a.jsonl", "--input-format", "text").rows[0]["text"] == "plain"


def test_hidden_text_is_nowhere_unless_it_is_asked_for(run, lines) -> None:
    """Neither in rows nor in errors; --show-input is asking."""
    stdin = lines(f"to {ADDRESS}", f"bomb {ADDRESS}", f"crash {ADDRESS}", {"text": [ADDRESS]}, {ADDRESS: ADDRESS})
    for form in ("jsonl", "table"):
        ran = run("run", "guards.py:guard", "-", "-f", form, "--show-text", stdin=stdin)
        assert ADDRESS not in ran.out + ran.err
    shown = run("run", "guards.py:guard", "-", "--show-input", stdin=stdin)
    assert [ADDRESS in line for line in shown.out.splitlines()] == [True] * 5
    assert ADDRESS not in shown.err


def test_the_ids_of_messages_of_a_refused_row_are_numbers(run, lines) -> None:
    """An address in one may be what was refused."""

    def row(word: str) -> dict[str, object]:
        return {"messages": [{"role": "user", "id": ADDRESS, "content": f"{word} to b@example.org"}]}

    ran = run("run", "guards.py:guard", "-", "--trace", stdin=lines(row("write"), row("bomb"), row("crash")))
    assert [ADDRESS in line for line in ran.out.splitlines()] == [True, False, False]
    assert [one["records"][0]["edits"][0]["message"] for one in ran.rows] == [ADDRESS, "message-1", "message-1"]


def test_the_keys_of_a_tools_result_are_not_told_as_places(run, lines) -> None:
    """A key is text as well, and may be what was hidden."""
    ran = run("run", "guards.py:tools", "-", "--stage", "process_tool_result", stdin=lines({"result": {ADDRESS: 1}}))
    assert ran.rows[0]["result"] == {"found": "[EMAIL]"}
    assert ADDRESS not in ran.out


def test_a_tools_stage_needs_its_value(run, lines) -> None:
    """The row's other fields are the tool's name and the call's id."""
    ran = run("run", "guards.py:tools", "-", "--stage", "process_tool_result", stdin=lines({"text": "x"}))
    assert ran.rows[0]["error"]["message"] == "it has no 'result', which this stage needs"


def test_the_stage_is_the_one_asked_for(run, lines) -> None:
    """Text is an answer there."""
    ran = run("run", "guards.py:guard", "-", "--stage", "process_output_step", stdin=lines(f"bomb {ADDRESS}"))
    assert ran.rows[0]["text"] == "bomb [EMAIL]"


def test_a_stage_that_the_workflow_lacks_is_refused(run) -> None:
    """Nothing would have been judged."""
    ran = run("run", "guards.py:guard", "x", "--stage", "process_tool_call")
    assert ran.code == 2
    assert "no step has process_tool_call" in ran.err


def test_the_request_context_is_fresh_for_each_row(run, lines) -> None:
    """Steps may write into it."""
    ran = run("run", "guards.py:guard", "-", "--context", '{"tenant": "acme"}', stdin=lines("a", "b"))
    assert [row["records"][1]["details"] for row in ran.rows] == [{"tenant": "acme"}] * 2


def test_async_steps_give_the_same_rows(run, lines) -> None:
    """In the order of the input, however many are under way."""
    stdin = lines(*[f"{'x' * (n % 7)} {ADDRESS}" for n in range(30)], "bomb", "crash")
    one, other = (run("run", f"guards.py:{name}", "-", "-j", "5", stdin=stdin) for name in ("guard", "slow"))
    assert [(row["line"], row["status"], row["text"]) for row in one.rows] == [
        (row["line"], row["status"], row["text"]) for row in other.rows
    ]
    assert one.code == other.code == 3


def test_a_limit_ends_it(run, lines) -> None:
    """Rows beyond it are not read."""
    assert len(run("run", "guards.py:guard", "-", "--limit", "2", stdin=lines("a", "b", "c")).rows) == 2


def test_what_user_code_prints_stays_out_of_the_rows(run, world: Path, lines) -> None:
    """Whether it is printed while it is loaded or while it runs."""
    (world / "loud.py").write_text(
        "from penstock import InputContext, Workflow, processor\n"
        "print('loading')\n"
        "@processor\n"
        "def loud(ctx: InputContext):\n    print('running')\n"
        "guard = Workflow('loud').then(loud)\n"
    )
    ran = run("run", "loud.py:guard", "-", stdin=lines("a"))
    assert len(ran.rows) == 1
    assert "loading\nrunning\n" in ran.err


def test_the_result_may_go_to_a_file(run, world: Path, lines) -> None:
    """As JSONL, with nothing on stdout."""
    ran = run("run", "guards.py:guard", "-", "-o", "out.jsonl", stdin=lines("grüße \u2028", "b"))
    assert ran.out == ""
    rows = [json.loads(line) for line in (world / "out.jsonl").read_bytes().split(b"\n") if line]
    assert [row["text"] for row in rows] == ["grüße \u2028", "b"]


def test_the_input_is_never_written_over(run, world: Path, lines) -> None:
    """It would be empty before it is read."""
    (world / "rows.jsonl").write_bytes(lines("a"))
    ran = run("run", "guards.py:guard", "-i", "rows.jsonl", "-o", "./rows.jsonl")
    assert ran.code == 2
    assert (world / "rows.jsonl").read_bytes() == lines("a")


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "guards.py:guard", "-i", "rows.jsonl", "-o", "./guards.py"],
        ["run", "guards.py:guard", "-i", "rows.jsonl", "-o", "link.html"],
        ["run", "guards.py:guard", "-i", "rows.jsonl", "--report", "link.html"],
        ["run", "guards.py:guard", "-i", "rows.jsonl", "--dead-letters", "guards.py"],
        ["draw", "guards.py:guard", "-f", "text", "-o", "guards.py"],
        ["diff", "guards.py:guard", "hygiene", "-f", "text", "-o", "guards.py"],
    ],
)
def test_the_code_of_a_workflow_is_never_written_over(run, world: Path, lines, argv) -> None:
    """Under whatever name it is given."""
    (world / "rows.jsonl").write_bytes(lines("a"))
    (world / "link.html").symlink_to(world / "guards.py")
    code = (world / "guards.py").read_text()
    ran = run(*argv)
    assert (ran.code, "code that was loaded" in ran.err) == (2, True)
    assert (world / "guards.py").read_text() == code


@pytest.mark.parametrize("output", ["out.jsonl", "out.csv", "out.parquet"])
@pytest.mark.parametrize("report", ["report.html", "report.md", "report.json"])
def test_a_verdict_that_json_cannot_write_ends_no_run(run, world: Path, lines, output, report) -> None:
    """Numbers of too many digits, and a value in itself."""
    (world / "odd.py").write_text(
        "from penstock import Workflow, processor, InputContext\n"
        "@processor(edits='nothing')\n"
        "def odd(ctx: InputContext):\n"
        "    if 'big' in ctx.text: ctx.abort('no', metadata={'n': 10**6000, 'all': [[10**6000]]})\n"
        "w = Workflow('w').then(odd)\n"
    )
    (world / "rows.jsonl").write_bytes(lines("a", "big", "b"))
    ran = run("run", "odd.py:w", "-i", "rows.jsonl", "-o", output, "--report", report, "--trace", "-j", "1")
    assert (ran.code, "1 blocked" in ran.err) == (0, True)
    if output == "out.jsonl":
        rows = [json.loads(line) for line in (world / output).read_text().splitlines()]
        assert [row["status"] for row in rows] == ["passed", "blocked", "passed"]
        assert rows[1]["tripwire"]["metadata"] == {"n": "int", "all": [["int"]]}


@pytest.mark.parametrize(
    ("argv", "rows", "code"),
    [
        ([], ["a"], 0),
        ([], ["bomb"], 0),
        (["--fail-on", "blocked"], ["bomb", "a"], 1),
        (["--fail-on", "blocked"], [ADDRESS], 0),
        (["--fail-on", "edited"], [ADDRESS], 1),
        (["--fail-on", "edited"], ["bomb"], 1),
        (["--fail-on", "blocked"], ["bomb", 3], 3),
        ([], ["crash"], 3),
    ],
)
def test_the_exit_code_says_how_it_went(run, lines, argv, rows, code) -> None:
    """A verdict is no failure, unless it is asked to be one; what could not be judged always is."""
    assert run("run", "guards.py:guard", "-", *argv, stdin=lines(*rows)).code == code


def test_a_row_that_is_blocked_because_a_step_broke_was_not_judged(run, lines) -> None:
    """Its status says blocked, the exit code says that something is wrong."""
    ran = run("run", "guards.py:closed", "-", stdin=lines("crash"))
    assert ran.rows[0]["status"] == "blocked"
    assert ran.rows[0]["tripwire"]["metadata"] == {"failed": True, "error": "ValueError"}
    assert ran.code == 3


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run", "guards.py:guard", "x", "--input", "y"], "give one of them"),
        (["run", "guards.py:guard", "--input", "none.jsonl"], "cannot read none.jsonl: No such file or directory"),
        (["run", "guards.py:guard", "x", "-o", "no/such/folder.jsonl"], "cannot write no/such/folder.jsonl"),
        (["run", "nowhere", "x"], "no preset or module of that name"),
        (["run", "guards.py:guard", "x", "--stage", "process_output_stream"], "invalid choice"),
        (["run", "guards.py:guard", "x", "--context", "3"], "expected a JSON object"),
        (["run", "guards.py:guard", "x", "--limit", "0"], "less than 1"),
        (["run"], "the following arguments are required: WORKFLOW"),
        ([], "the following arguments are required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
    ],
)
def test_wrong_usage_is_told_in_a_sentence(run, argv, said) -> None:
    """Exit code 2, nothing on stdout, and no traceback."""
    ran = run(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "guards.py:guard", "-", "--limit", "1"],
        ["run", "guards.py:guard", "--limit", "1", "-"],
        ["run", "--limit", "1", "guards.py:guard", "-"],
        ["run", "guards.py:guard", "--limit=1", "-i", "-"],
        ["run", "guards.py:guard", "--limit", "1"],
    ],
)
def test_options_may_stand_anywhere(run, lines, argv) -> None:
    """And stdin is read where nothing else is named and it is no terminal."""
    assert [row["text"] for row in run(*argv, stdin=lines("a", "b")).rows] == ["a"]


def test_a_text_that_looks_like_an_option_stands_behind_two_dashes(run) -> None:
    """Otherwise it is told as one that there is not."""
    assert run("run", "guards.py:guard", "--", "-x").rows[0]["text"] == "-x"
    assert "unrecognized arguments: --wrong" in run("run", "guards.py:guard", "x", "--wrong").err
    assert "unrecognized arguments: y" in run("run", "guards.py:guard", "x", "y").err


def test_debug_shows_where_an_error_was_raised(run, world: Path) -> None:
    """Without it there is a hint."""
    (world / "r.py").write_text("raise RuntimeError('no database')\n")
    assert "--debug" in run("run", "r.py:guard", "x").err
    assert "Traceback" in run("run", "r.py:guard", "x", "--debug").err


@pytest.mark.parametrize("name", ["guard", "closed", "slow"])
@pytest.mark.parametrize("form", ["jsonl", "table"])
def test_debug_shows_where_a_step_broke_and_nothing_of_the_text(run, name, form) -> None:
    """Whatever the step's policy makes of it; without --debug there is no traceback."""
    argv = ("run", f"guards.py:{name}", "crash at dawn", "--format", form)
    assert "Traceback" not in run(*argv).err
    shown = run(*argv, "--debug").err
    assert "guards.py" in shown
    assert "raise ValueError(ctx.text)" in shown
    assert shown.endswith("ValueError\n")
    assert "at dawn" not in shown


def test_debug_has_nothing_to_add_where_no_step_broke(run, lines) -> None:
    """A verdict is no failure, and a malformed row no step's."""
    assert "Traceback" not in run("run", "guards.py:guard", "-", "--debug", stdin=lines("fine", "bomb", 3)).err


def test_a_defect_in_the_graph_is_told_before_anything_runs(run, world: Path, lines) -> None:
    """All of it at once."""
    (world / "w.py").write_text(
        "from guards import *\nbad = Workflow('bad').then(Mail(), id='a').then(Judge(), id='a')\n", "utf-8"
    )
    ran = run("run", "w.py:bad", "-", stdin=lines("a"))
    assert (ran.code, ran.out) == (2, "")
    assert "2 steps have the id 'a'" in ran.err


def test_somebody_who_pipes_the_output_is_told_why_it_is_jsonl(run, monkeypatch) -> None:
    """Only if a person reads stderr, and did not ask for it."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    told = "the output is JSONL, because it does not go to a terminal; --format table writes a table"
    assert told in run("run", "hygiene", "hello", "--no-progress").err
    assert told not in run("run", "hygiene", "hello", "--no-progress", "--format", "jsonl").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    assert told not in run("run", "hygiene", "hello").err
