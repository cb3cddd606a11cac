"""`penstock run` over a file of short rows, against a loop by hand around `check_sync`: what the command itself costs.

By hand: the JSON of each line, a verdict, and a line of JSON with the text; no records, counts, limits or bad rows.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import logging
import shutil
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from harness import Contest, Timed, Work
from shared import LooksSync

from penstock import Workflow
from penstock.workflows.cli import main
from penstock.workflows.presets import safety

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "messages.jsonl"
LONGEST = 100
ROWS, GUARDED = 5_000, 500
FLOOR_IS = "each line's JSON read, check_sync, a line of JSON written"

noop = Workflow("noop").then(LooksSync())


async def contests() -> list[Contest]:
    """Return the contests: the command alone, and with a preset."""
    logging.disable(logging.WARNING)  # what guards find is logged, which is not what is measured
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    many, few = written(folder / "many.jsonl", ROWS), written(folder / "few.jsonl", GUARDED)
    name = f"a row of at most {LONGEST} characters through"
    return [
        Contest(
            f"{name} a step that does nothing",
            FLOOR_IS,
            ours(f"{__file__}:noop", many),
            by_hand(noop, many),
            1.6,
            per=ROWS,
        ),
        Contest(f"{name} safety()", FLOOR_IS, ours("safety", few), by_hand(safety(), few), 1.2, per=GUARDED),
    ]


def written(file: Path, count: int) -> Path:
    """Write so many rows of real texts, and return the file."""
    texts = [json.loads(line)["text"][:LONGEST] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    with file.open("w", encoding="utf-8") as lines:
        for number, text in enumerate(islice(cycle(texts), count)):
            lines.write(json.dumps({"id": f"r{number}", "text": text}) + "\n")
    return file


def ours(workflow: str, rows: Path) -> Work:
    """Return a contestant that runs the command, and returns how many rows were blocked."""
    out = rows.with_suffix(".ours")

    async def work(times: int) -> int:
        places = [*sys.path]  # the command adds the folder of its workflow, where scenarios have the names of packages
        for _ in range(times):
            with contextlib.redirect_stderr(io.StringIO()):
                main(["run", workflow, "--input", str(rows), "--output", str(out)])
        sys.path[:] = places
        return blocked(out)

    return work


def by_hand(workflow: Workflow, rows: Path) -> Work:
    """Return a contestant that loops over the rows, and returns how many were blocked."""
    out = rows.with_suffix(".hand")

    async def work(times: int) -> int:
        for _ in range(times):
            with rows.open("rb") as lines, out.open("w", encoding="utf-8") as results:
                for line in lines:
                    row = json.loads(line)
                    outcome = workflow.check_sync(row["text"])
                    status = "blocked" if outcome.blocked else "passed"
                    result = {"id": row["id"], "status": status, "text": outcome.text}
                    results.write(json.dumps(result, separators=(",", ":")) + "\n")
        return blocked(out)

    return work


def blocked(out: Path) -> int:
    """Return how many results say that the row was blocked."""
    return out.read_bytes().count(b'"status":"blocked"')


SCENARIO = Timed("rows", contests)
