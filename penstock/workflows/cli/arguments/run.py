"""The arguments of `penstock run`."""

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
from penstock.workflows.cli.arguments.values import json_object, natural, positive

if TYPE_CHECKING:
    import argparse

ROWS = 50
"""How many rows that were blocked, edited, failed or invalid a table shows by default: a few screens."""

_RUN = """\
Input: TEXT, or rows from files or stdin. A row of JSONL is a string, {"text": ...}, {"messages": [...]}, a chat
message ({"role": ..., "content": ...}), or a list of messages; an "id" is copied to the result. The name of a file says
its format: .csv, .tsv, .parquet, .txt, .md or .log (each line is a text), else JSONL; .gz and .zst are decompressed. On
stdin the first line decides: if it is JSON, the input is JSONL, else each line is a text.

Output: a table on a terminal, and JSONL elsewhere; the name of -o FILE may say CSV or Parquet. Blocked and redacted
text is never written, unless you pass --show-input.
"""

_RUN_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"
  penstock run hygiene --input chats.jsonl -o cleaned.jsonl
  cat prompts.txt | penstock run guards.py:guard - --format table
  penstock run myapp.guards:output --stage process_output_step --input answers.jsonl
  penstock run hygiene --input chats.jsonl --report report.html
  penstock run hygiene --input chats.jsonl -o cleaned.jsonl --report -
  penstock run hygiene "Write to ann@example.com" --trace         a timeline of the steps
  penstock run hygiene --input pull.jsonl --fail-on blocked     exit code 1 if a row is blocked
  penstock run hygiene --input 'data/*.csv.gz' --text body -o out.parquet
  penstock run hygiene --input chats.jsonl -o out.jsonl --resume   go on where an interrupted run ended

exit codes: 0 every row was checked, 1 --fail-on found a row, 2 wrong usage, 3 some rows could not be checked (they are
malformed, or a step failed), 130 interrupted, 141 the reader of the output has closed it
"""


def add_run(commands: Subcommands) -> None:
    """Add ``penstock run``."""
    from penstock.formats import FORMATS
    from penstock.workflows.batch import CHECKED_STAGES

    run = command(
        commands, "run", "WORKFLOW [TEXT | -]", "run a workflow on a text, a file or stdin", _RUN, _RUN_EXAMPLES
    )
    run.add_argument("workflow", metavar="WORKFLOW", help=WORKFLOW)
    run.add_argument("text", metavar="TEXT", nargs="?", help="one text; `-` for stdin (the default in a pipe)")
    add_profile(run)
    _add_files(run)
    run.add_argument(
        "--messages-format",
        choices=FORMATS,
        default="openai-chat",
        metavar="FORMAT",
        help=f"the format of conversations in the results: {', '.join(FORMATS)} (default: openai-chat)",
    )
    stage = "the stage to run (default: process_input; for answers: process_output_step; `penstock list` shows all)"
    add_stage(run, stage, CHECKED_STAGES, "process_input")
    run.add_argument(
        "--context", type=json_object, default={}, metavar="JSON", help="the request context, as a JSON object"
    )
    add_engine(run)
    run.add_argument("-n", "--limit", type=positive, metavar="N", help="stop after N rows")
    _add_columns(run)
    run.add_argument(
        "--dead-letters",
        metavar="FILE",
        help="write each row that could not be checked to this file, as it came, with its error (JSONL)",
    )
    run.add_argument(
        "--no-times", action="store_true", help="leave times out of the results, so that every run writes the same"
    )
    run.add_argument(
        "--rows", type=natural, default=ROWS, metavar="N", help=f"show at most N rows in a table (default: {ROWS})"
    )
    run.add_argument("--show-text", action="store_true", help="show the resulting texts in a table, too")
    run.add_argument(
        "--show-input", action="store_true", help="show the original rows, including everything that was hidden"
    )
    _add_trace(run)
    run.add_argument(
        "--fail-on",
        choices=("blocked", "edited", "flagged"),
        help="exit with 1 if a row is blocked (edited: if one is edited or blocked; flagged: or flagged)",
    )
    run.add_argument("--no-progress", action="store_true", help="show no progress bar")


def _add_files(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "-i",
        "--input",
        action="append",
        metavar="FILE",
        help="read rows from this file, URL or glob ('data/*.jsonl.gz'); `-` for stdin; may be repeated",
    )
    add_input_format(run)
    run.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the results to this file or URL, in the format of its name (.csv, .parquet; else JSONL), "
        "compressed if it ends with .gz or .zst",
    )
    run.add_argument(
        "-f",
        "--format",
        choices=("table", "jsonl", "csv", "parquet"),
        help="default: that of the name of the output; table on a terminal, else jsonl",
    )
    run.add_argument(
        "--resume", action="store_true", help="go on where an interrupted run with the same -o FILE and input ended"
    )


def _add_columns(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--text",
        dest="column",
        metavar="COLUMN",
        help="the column (field of a JSON object) that holds the text to check",
    )
    run.add_argument("--id", default="id", metavar="COLUMN", help="the column that holds the row's id (default: id)")
    run.add_argument(
        "--keep",
        action="append",
        metavar="COLUMN",
        help="keep this column in the results, as it came; may be repeated (default: all that were not checked)",
    )


def _add_trace(run: argparse.ArgumentParser) -> None:
    from penstock.workflows.report import SAMPLES

    run.add_argument(
        "--trace",
        action="store_true",
        help="show a timeline of the steps and their edits; in JSONL, add the field `trace`",
    )
    run.add_argument(
        "--report",
        metavar="FILE",
        help="write a report: FILE.html is a page with every trace; FILE.md, FILE.json and - (on stdout) are short",
    )
    run.add_argument(
        "--samples",
        type=natural,
        default=SAMPLES,
        metavar="N",
        help=f"show N rows of each verdict and step in a short report (default: {SAMPLES})",
    )
    run.add_argument(
        "--texts",
        action="store_true",
        help="keep texts in the trace and the report, including everything that was hidden",
    )
