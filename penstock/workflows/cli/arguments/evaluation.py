"""The arguments of `penstock eval`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.cli.arguments.building import (
    WORKFLOW,
    Subcommands,
    add_engine,
    add_input_format,
    add_profile,
    add_stage,
    command,
)
from penstock.workflows.cli.arguments.values import above_zero, json_object, natural, part, positive

if TYPE_CHECKING:
    import argparse

_EVAL = """\
Runs the workflow on labelled rows, and shows how often it and each of its steps are right: recall, precision and false
alarms with 95 % intervals, thresholds, slices, spans, times. ROWS are files, globs or `-`, as for `penstock run
--input`; documents of promptfoo, pydantic-evals and Presidio are read, too.

A label is true or false, 1 or 0, yes or no, or a category (none, ok, safe and benign: nothing to find). Columns that
are not named: `label`, `spans`, `wanted`, or those of the shape of the rows.
"""

_EVAL_EXAMPLES = """\
examples:
  penstock eval safety labelled.jsonl --label harmful --by lang
  penstock eval guards.py:guard rows.csv --text body --label moderation=toxic --label prompt-injection=attack
  penstock eval guards.py:guard spans.json                           spans of personal data, as Presidio writes them
  penstock eval guard.py rows.jsonl --traffic 20000 --base-rate .001   false alarms and misses a day
  penstock eval guard.py rows.jsonl --baseline old.py --fail-if 'recall.low < 0.9' --fail-if 'worse > 3'
  penstock eval guard.py rows.jsonl --set moderation.threshold=.7      compared with the workflow as it is
  penstock eval guard.py chats.jsonl --rate .001 --undecided to-label.jsonl   rows without labels
  penstock eval judge.py rows.jsonl --resume judge.part                goes on where an interrupted one ended
  penstock eval judge.py rows.jsonl --judge-cache judge.db             asks the judge once about a text
  penstock eval guard.py rows.jsonl -o report.html                   or .md, .json, .xml (JUnit)

exit codes: 0 no condition of --fail-if holds, 1 one does, 2 wrong usage, 3 some rows could not be evaluated, 130
interrupted
"""


def add_eval(commands: Subcommands) -> None:
    """Add ``penstock eval``."""
    from penstock.workflows.batch import TEXT_STAGES
    from penstock.workflows.streamed import PIECE

    made = command(
        commands,
        "eval",
        "WORKFLOW ROWS ...",
        "show how often a workflow is right on labelled rows",
        _EVAL,
        _EVAL_EXAMPLES,
    )
    made.add_argument("workflow", metavar="WORKFLOW", help=WORKFLOW)
    add_profile(made)
    made.add_argument("rows", metavar="ROWS", nargs="+", help="files with labelled rows, globs, or `-` for stdin")
    add_input_format(made)
    _add_labels(made)
    stage = (
        "the stage to run (default: process_input; for answers: output_step or output_stream; for tools: tool_result)"
    )
    add_stage(made, stage, TEXT_STAGES, "process_input")
    made.add_argument(
        "--piece",
        type=positive,
        default=PIECE,
        metavar="N",
        help=f"with --stage output_stream: how many characters of an answer come at once (default: {PIECE})",
    )
    made.add_argument(
        "--context", type=json_object, default={}, metavar="JSON", help="the request context, as a JSON object"
    )
    add_engine(made)
    made.add_argument("-n", "--limit", type=positive, metavar="N", help="stop after N rows")
    _add_questions(made)
    _add_evaluation_output(made)


def _add_labels(made: argparse.ArgumentParser) -> None:
    made.add_argument("--text", dest="column", metavar="COLUMN", help="the column that holds the text to check")
    made.add_argument("--id", metavar="COLUMN", help="the column that holds the row's id (default: id)")
    made.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="[STEP=]COLUMN",
        help="the column with the label, or with that of a step; may be repeated for steps",
    )
    made.add_argument(
        "--negative", action="append", default=[], metavar="NAME", help="a category that says: nothing to find"
    )
    made.add_argument("--spans", metavar="COLUMN", help="the column with spans: a list of {start, end, type}")
    made.add_argument(
        "--type", action="append", default=[], metavar="LABEL=TYPE", help="the name here of a type of labelled spans"
    )
    made.add_argument("--wanted", metavar="COLUMN", help="the column with the text that should leave")
    made.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="COLUMN",
        help="figures for each value of a column; may be repeated",
    )
    made.add_argument(
        "--shape",
        choices=("rows", "openai-guardrails", "presidio", "inspect", "pydantic-evals"),
        help="the shape of the rows (default: found by their columns)",
    )


def _add_questions(made: argparse.ArgumentParser) -> None:
    made.add_argument("--baseline", metavar="WORKFLOW", help="compare with this workflow, row by row")
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="STEP.OPTION=VALUE",
        help="change an option of a step, and compare with the workflow as it is; may be repeated",
    )
    made.add_argument(
        "--repeat", type=positive, default=1, metavar="N", help="check each row N times: do verdicts differ?"
    )
    made.add_argument(
        "--judge-cache",
        metavar="FILE",
        help="keep judges' answers in this file, so that later evaluations do not ask again; --repeat does",
    )
    made.add_argument("--traffic", type=positive, metavar="N", help="rows a day: shows false alarms and misses a day")
    made.add_argument("--base-rate", type=part, metavar="PART", help="the part of the traffic with something to find")
    made.add_argument(
        "--rate",
        type=part,
        metavar="PART",
        help="recommend thresholds for this part of false alarms; without labels, of flagged rows (default: 0.01)",
    )
    made.add_argument(
        "--alarms-a-day", type=above_zero, metavar="N", help="recommend thresholds for so many false alarms a day"
    )
    made.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="MODEL=READ/WRITTEN",
        help="the price of a judge's million tokens; may be repeated (default: list prices, with the extra `prices`)",
    )
    made.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 1 if it holds: 'recall.low < 0.9', 'slice(lang=de).false_alarms > 3/1000'; may be repeated",
    )


def _add_evaluation_output(made: argparse.ArgumentParser) -> None:
    from penstock.workflows.evaluation.tally import EXAMPLES

    made.add_argument(
        "-f",
        "--format",
        choices=("table", "markdown", "json", "junit", "html"),
        help="default: by the extension of FILE, else table",
    )
    made.add_argument("-o", "--output", metavar="FILE", help="write the evaluation to this file")
    made.add_argument("--texts", action="store_true", help="show the beginnings of texts, including hidden stretches")
    made.add_argument(
        "--examples",
        type=natural,
        default=EXAMPLES,
        metavar="N",
        help=f"keep N rows of each kind for the page and the JSON (default: {EXAMPLES})",
    )
    made.add_argument(
        "--undecided", metavar="FILE", help="write the rows without a label that decide most, as they came (JSONL)"
    )
    made.add_argument(
        "--resume",
        metavar="FILE",
        help="keep the verdicts in this file, so that the same command goes on where an interrupted one ended",
    )
    made.add_argument("--no-progress", action="store_true", help="show no progress bar")
