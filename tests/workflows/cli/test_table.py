"""What people see: which rows were blocked or edited, by which step, why, in how many ms."""

import io

import pytest

from penstock import Tripwire
from penstock.engine import Record
from penstock.workflows.cli.formatting import LONGEST_VALUE, plain, why

ADDRESS = "ann@example.com"


def test_rows_that_passed_are_counted_and_others_are_told(run, lines) -> None:
    """By line, id, status, step and reason."""
    rows = ["fine", {"id": "b7", "text": f"to {ADDRESS} and {ADDRESS}"}, "bomb", "crash", 3]
    out = run("run", "guards.py:guard", "-", "-f", "table", stdin=lines(*rows)).out
    told = [line.split() for line in out.splitlines()]
    assert ["2", "b7", "edited", "mail", "[EMAIL]", "×2"] in [words[:6] for words in told]
    assert ["3", "blocked", "judge", "no", "bombs"] in [words[:5] for words in told]
    assert ["4", "failed", "judge", "ValueError", "was", "raised"] in [words[:6] for words in told]
    assert "5 rows: 1 passed, 1 edited, 1 blocked, 1 failed, 1 invalid" in out
    assert not any(words[:1] == ["1"] for words in told)


def test_each_step_is_summed_up(run, lines) -> None:
    """How often it passed, edited, tripped, failed."""
    out = run("run", "guards.py:guard", "-", "-f", "table", stdin=lines("a", ADDRESS, "bomb")).out
    steps = {words[0]: words[1:7] for line in out.splitlines() if (words := line.split())}
    assert steps["step"] == ["passed", "edited", "tripped", "edits", "ms", "max"]
    assert steps["mail"][:4] == ["2", "1", "·", "1"]
    assert steps["judge"][:4] == ["2", "·", "1", "·"]


def test_a_table_holds_so_many_rows_and_counts_the_rest(run, lines) -> None:
    """So that no input is too long for it."""
    ran = run("run", "guards.py:guard", "-", "-f", "table", "--rows", "3", stdin=lines(*[ADDRESS] * 10))
    assert sum("mail" in line and "[EMAIL]" in line for line in ran.out.splitlines()) == 3
    assert "… and 7 more" in ran.out


def test_texts_are_shown_when_asked_for(run, lines) -> None:
    """What is left, or what came in."""
    stdin = lines(f"to {ADDRESS}", "fine")
    left = run("run", "guards.py:guard", "-", "-f", "table", "--show-text", stdin=stdin).out
    assert "to [EMAIL]" in left
    assert "fine" in left
    assert f"to {ADDRESS}" in run("run", "guards.py:guard", "-", "-f", "table", "--show-input", stdin=stdin).out


def test_one_text_is_shown_step_by_step_with_what_is_left(run) -> None:
    """As somebody who tries a guard wants to see it."""
    out = run("run", "guards.py:guard", f"to {ADDRESS}", "-f", "table").out
    assert ["mail", "edited", "[EMAIL]"] in [line.split()[:3] for line in out.splitlines()]
    assert out.endswith("text: to [EMAIL]\n")
    blocked = run("run", "guards.py:guard", f"bomb {ADDRESS}", "-f", "table").out
    assert "by judge: no bombs" in blocked
    assert "text:" not in blocked


def test_a_shadow_tells_what_it_would_have_done(run, lines) -> None:
    """The row passed all the same."""
    ran = run("run", "guards.py:shadowed", "-", "-f", "table", stdin=lines("bomb"))
    assert "would trip: no bombs" in ran.out
    assert "judge (shadow)" in ran.out
    assert "1 passed" in ran.out


def test_no_text_steers_the_terminal(run) -> None:
    """Escapes, carriage returns and direction marks become visible signs, in reasons, ids and texts."""
    stdin = b'{"id": "a\\u001b[2Jb", "text": "\\u001b]0;title\\u0007 \\u202e x@y.z \\r \\u009b1m"}\n'
    out = run("run", "guards.py:guard", "-", "-f", "table", "--show-text", "--show-input", stdin=stdin).out
    assert not any(sign in out for sign in ("\x1b", "\x07", "\u202e", "\r", "\x9b"))
    assert "a␛[2Jb" in out


def test_markup_in_a_text_is_text(run) -> None:
    """Square brackets mean nothing."""
    assert "text: [bold red]x[/] [/]" in run("run", "guards.py:guard", "[bold red]x[/] [/]", "-f", "table").out


@pytest.mark.parametrize(("force", "coloured"), [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_colours_are_for_terminals_that_want_them(run, lines, monkeypatch, force, coloured) -> None:
    """NO_COLOR and FORCE_COLOR are heeded."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(force, "1")
    out = run("run", "guards.py:guard", "-", "-f", "table", stdin=lines("bomb")).out
    assert ("\x1b[" in out) is coloured


def test_nothing_is_cut_off_in_a_narrow_terminal(run, lines, monkeypatch) -> None:
    """Reasons and steps are folded."""
    monkeypatch.setenv("COLUMNS", "50")
    out = run("run", "guards.py:guard", "-", "-f", "table", stdin=lines("bomb", ADDRESS)).out
    assert max(len(line) for line in out.splitlines() if line.strip().startswith("2")) <= 50
    assert "no bombs" in out


def test_a_terminal_gets_a_table_and_a_pipe_gets_rows(run, monkeypatch, lines) -> None:
    """Unless --format says else."""
    assert run("run", "guards.py:guard", "-", stdin=lines("a")).rows[0]["text"] == "a"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    run("run", "guards.py:guard", "-", stdin=lines("a"))
    assert "1 row: 1 passed" in terminal.getvalue()


def record(status: str, **fields: object) -> Record:
    """Return a record of a step."""
    return Record("step", "step", "process_input", status, **fields)


def test_the_reason_is_what_the_record_says() -> None:
    """A verdict's reason, the kind of error, the details that the processor told."""
    tripwire = Tripwire("too long", "step", "process_input")
    assert why(record("tripped", tripwire=tripwire)) == "too long"
    assert why(record("failed", error="TimeoutError")) == "TimeoutError was raised"
    assert why(record("failed", tripwire=tripwire, error="OSError")) == "too long (OSError)"
    assert why(record("edited")) == "changed messages"
    assert why(record("passed", details={"language": "de", "scores": {"a": 1}})) == 'language: de, scores: "a": 1'


def test_a_long_reason_is_cut() -> None:
    """A table is no place for an essay."""
    assert len(plain("x" * 1000)) == LONGEST_VALUE


def test_what_passes_with_a_warning_is_shown_for_its_row(run, lines) -> None:
    """In the table, in the counts, in JSON, and in the exit code if that is asked for."""
    stdin = lines("fine", "a bomb, a knife, a bomb")
    out = run("run", "guards.py:flagging", "-", "-f", "table", stdin=stdin).out
    told = [line.split() for line in out.splitlines()]
    assert ["2", "flagged", "flagger", "flagged:", "bomb,", "knife"] in [words[:6] for words in told]
    assert ["flagger", "2", "1"] in [words[:3] for words in told]
    assert "2 rows: 2 passed; 1 flagged in " in out
    rows = run("run", "guards.py:flagging", "-", stdin=stdin).rows
    assert [(row["status"], row["flagged"]) for row in rows] == [("passed", []), ("passed", ["bomb", "knife"])]
    assert rows[1]["records"][0]["flagged"] == ["bomb", "knife"]
    codes = [
        run("run", f"guards.py:{name}", "-", "--fail-on", "flagged", stdin=stdin).code for name in ("flagging", "guard")
    ]
    assert codes == [1, 1]
    assert run("run", "guards.py:flagging", "-", "--fail-on", "edited", stdin=stdin).code == 0


def test_one_text_that_passes_with_a_warning_is_shown_as_flagged(run) -> None:
    """In the line below its steps."""
    assert "flagged in " in run("run", "guards.py:flagging", "a bomb", "-f", "table").out


@pytest.mark.parametrize("width", ["20", "40", "71"])
def test_no_word_is_broken_on_a_narrow_terminal(run, lines, monkeypatch, width) -> None:
    """Where a table would have no room, there are lines."""
    monkeypatch.setenv("COLUMNS", width)
    stdin = lines("fine", ADDRESS, "a bomb", {"id": "b7", "text": "crash"})
    out = run("run", "guards.py:guard", "-", "-f", "table", stdin=stdin).out
    for word in ("passed", "edited", "blocked", "[EMAIL]", "ValueError", "mail", "judge"):
        assert word in out
    assert max(map(len, out.splitlines())) <= int(width)
    alone = run("run", "guards.py:guard", f"to {ADDRESS}", "-f", "table").out
    assert alone.startswith("mail  edited")
