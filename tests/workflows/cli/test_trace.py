"""What ``--trace`` shows: a timeline of one text, or of each listed row; and the whole trace in JSON lines."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
from rich.console import Console
from rich.text import Text

from penstock import Trace, Tripwire
from penstock.engine import Span
from penstock.pictures.timeline import as_text
from penstock.workflows.cli.table import print_timeline

ADDRESS = "ann@example.com"
GUARD = "guards.py:guard"


def traced(out: str) -> list[Any]:
    """The traces in JSON lines."""
    return [json.loads(line)["trace"] for line in out.splitlines()]


def test_one_text_is_shown_as_a_timeline(run) -> None:
    """In place of the table of its steps, with the text that is left."""
    out = run("run", GUARD, f"to {ADDRESS}", "-f", "table", "--trace").out
    lines = out.splitlines()
    assert lines[0].startswith("guard: edited in ")
    assert any(line.startswith("├─ ✎ mail") and "1 edit: [EMAIL]" in line and "━" in line for line in lines)
    assert any(line.startswith("└─ ✓ judge") for line in lines)
    assert lines[-1] == "text: to [EMAIL]"
    assert ADDRESS not in out


def test_a_blocked_text_is_explained_once(run) -> None:
    """At the end of the timeline."""
    out = run("run", GUARD, f"bomb {ADDRESS}", "-f", "table", "--trace").out
    assert out.endswith("\n\nblocked by judge in process_input: no bombs\n")
    assert out.count("no bombs") == 1


def test_a_failure_says_what_the_timeline_does_not(run) -> None:
    """Where it was raised, and why the row has no result."""
    ran = run("run", GUARD, "crash", "-f", "table", "--trace")
    assert "! judge" in ran.out
    assert "failed: ValueError" in ran.out
    assert "step 'judge' failed in process_input" in ran.out
    assert ran.code == 3


def test_texts_are_in_a_trace_if_asked_for_and_it_says_so(run) -> None:
    """On stderr, too, where a pipe does not hide it."""
    ran = run("run", GUARD, f"to {ADDRESS}", "-f", "table", "--trace", "--texts")
    assert f"before to {ADDRESS}" in ran.out
    assert "after  to [EMAIL]" in ran.out
    assert "The trace holds the texts of the request" in ran.out
    assert ran.err == "penstock: the traces hold the texts of the rows, including everything that was hidden\n"


def test_texts_without_a_trace_are_refused(run) -> None:
    """They would be kept nowhere."""
    ran = run("run", GUARD, "a", "--texts")
    assert ran.code == 2
    assert "add --trace or --report FILE" in ran.err


def test_rows_have_their_traces_in_json_lines(run, lines) -> None:
    """Whatever became of them; one that is malformed has none."""
    ran = run("run", GUARD, "-", "--trace", stdin=lines("fine", f"to {ADDRESS}", "bomb", "crash", 3))
    *good, bad = traced(ran.out)
    assert [trace["status"] for trace in good] == ["passed", "edited", "blocked", "failed"]
    assert bad is None
    for trace in good:
        jsonschema.validate(trace, Trace.json_schema())
        assert trace["texts"] is False
        assert Trace.from_json(trace).to_json() == trace
    assert ADDRESS not in ran.out
    assert "trace" not in json.loads(run("run", GUARD, "-", stdin=lines("a")).out)


def test_rows_have_texts_in_their_traces_if_asked_for(run, lines) -> None:
    """Of async steps, too."""
    for workflow in (GUARD, "guards.py:slow"):
        [trace] = traced(run("run", workflow, "-", "--trace", "--texts", stdin=lines(f"to {ADDRESS}")).out)
        assert trace["texts"] is True
        assert any(text["before"] == f"to {ADDRESS}" for span in trace["spans"] for text in span.get("texts", ()))
        jsonschema.validate(trace, Trace.json_schema())


def test_a_table_of_rows_shows_the_timelines_of_those_that_it_lists(run, lines) -> None:
    """By the number of the line; rows that passed are only counted."""
    out = run("run", GUARD, "-", "-f", "table", "--trace", stdin=lines("fine", ADDRESS, "bomb", 3)).out
    told = out.splitlines()
    assert [line for line in told if line in ("line 1", "line 2", "line 3", "line 4")] == ["line 2", "line 3"]
    assert told[told.index("line 2") + 1].startswith("guard: edited in ")
    assert "4 rows: 1 passed, 1 edited, 1 blocked, 1 invalid" in out


def coloured(width: int, trace: Trace) -> str:
    """What a terminal gets."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard", markup=False, emoji=False)
    print_timeline(console, trace)
    return out.getvalue()


BAD = "\x1b[2J[red]\n:smile:\u202e"
SPANS = (
    Span(0, None, "run", "w", seconds=1.0),
    Span(1, 0, "stage", BAD, stage=BAD, seconds=1.0, status="tripped"),
    Span(2, 1, "step", BAD, BAD, BAD, seconds=1.0, status="failed", error=BAD, flagged=(BAD,)),
)
HOSTILE = Trace("r", BAD, "blocked", SPANS, 0.0, 1.0, tripwire=Tripwire(BAD, BAD, BAD))


def test_colours_come_from_us_only() -> None:
    """What a text holds is neither a control character, nor markup, nor an emoji."""
    out = coloured(80, HOSTILE)
    assert "\x1b[1;31m" in out
    assert "\x1b[2J" not in out
    assert "\u202e" not in out
    assert "[red]" in out
    assert ":smile:" in out


def test_without_colours_there_are_no_codes(run) -> None:
    """Signs and words say the same."""
    out = run("run", GUARD, "bomb", "-f", "table", "--trace").out
    assert "\x1b" not in out
    assert "✗ judge" in out


def test_a_terminal_that_is_too_narrow_loses_nothing() -> None:
    """It breaks the lines itself."""
    assert Text.from_ansi(coloured(20, HOSTILE)).plain.rstrip() == as_text(HOSTILE, 20)
