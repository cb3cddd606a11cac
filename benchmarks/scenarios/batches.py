"""`WorkflowBatches` on tables of Arrow, against a function by hand, as one would write for `map_batches`.

By hand: a column that says whether anything was found, by the detectors alone or by `check_sync`; no records, edits,
limits or rows that are malformed. What an engine needs to hand batches around is the same for both, and not measured.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import count, cycle, islice
from typing import Any

import pyarrow as pa
from harness import Contest, Timed, Work
from scenarios.rows import LONGEST, MESSAGES
from scenarios.safety import PROMPT, all_three

from penstock import ModerationProcessor, PIIDetector, PromptInjectionDetector, Workflow
from penstock.workflows.rows import WorkflowBatches

guard = Workflow("guard").parallel(PIIDetector(), ModerationProcessor(), PromptInjectionDetector())

ROWS = 200
DETECTORS = "the detectors alone, in a function by hand"
CHECKS = "check_sync, in a function by hand"
TARGET = 1.11  # at least .9 of the throughput


async def contests() -> list[Contest]:
    """Return contests for short texts and for longer ones, none of which comes twice."""
    logging.disable(logging.WARNING)  # what guards find is logged, which is not what is measured
    short = [json.loads(line)["text"][:LONGEST] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    sizes = {f"at most {LONGEST}": short, "300": [PROMPT], "3,000": [PROMPT * 10]}
    return [
        Contest(
            f"a row of {size} characters in a table of {ROWS}, three guards",
            floor_is,
            ours(texts),
            by_hand(texts, finds),
            TARGET,
            per=ROWS,
        )
        for size, texts in sizes.items()
        for floor_is, finds in ((DETECTORS, all_three), (CHECKS, is_changed))
    ]


def is_changed(text: str) -> bool:
    """Return whether the guards do anything to a text."""
    outcome = guard.check_sync(text)
    return outcome.blocked or outcome.text != text


def tables(texts: list[str]) -> Any:
    """Yield tables of texts without end, each text new."""
    numbers = count()
    while True:
        batch = [f"{text} {next(numbers)}?" for text in islice(cycle(texts), ROWS)]
        yield pa.table({"id": pa.array(range(ROWS)), "text": batch})


def ours(texts: list[str]) -> Work:
    """Return a contestant that counts the rows in which a guard found something."""
    batches, given = WorkflowBatches(guard, text="text"), tables(texts)

    async def work(times: int) -> int:
        found = 0
        for _ in range(times):
            made = batches(next(given))
            found = ROWS - made["status"].to_pylist().count("passed")
        return found

    return work


def by_hand(texts: list[str], finds: Callable[[str], bool]) -> Work:
    """Return a contestant that counts the rows in which something was found."""
    given = tables(texts)

    def detect(table: Any) -> Any:
        values = table["text"].to_pylist()
        return table.append_column("found", pa.array([finds(text) for text in values]))

    async def work(times: int) -> int:
        found = 0
        for _ in range(times):
            found = detect(next(given))["found"].to_pylist().count(True)
        return found

    return work


SCENARIO = Timed("batches", contests)
