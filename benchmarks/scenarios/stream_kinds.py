"""Streams of other kinds of text than prose through `safety()`, in chunks of 5 characters, against as much prose.

Both sides are Penstock; the floor is prose, so the ratio says what a kind costs beyond it. The target is that no kind
costs more than two and a half times prose. The texts are random, from one seed; the Chinese one is of ``texts.json``.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

from harness import Contest, Timed, Work
from scenarios.stream_built_in import answered
from scenarios.stream_texts import TEXTS
from streaming import english, pieces

from penstock.workflows.presets import safety

COUNT, SIZE, TARGET = 1_000, 5, 2.5
_RANDOM = random.Random(38)  # noqa: S311 - texts to measure
_WORDS = ("order", "item", "status", "open", "shipped", "garden", "bridge", "council", "report", "invoice")


def _one(row: int) -> dict[str, object]:
    price = round(_RANDOM.random() * 100, 2)
    return {"id": row, "name": _RANDOM.choice(_WORDS), "price": price, "tags": _RANDOM.choices(_WORDS, k=2)}


def _csv(row: int) -> str:
    return f"{row},{_RANDOM.randint(1000, 99_999)},{_RANDOM.randint(100_000, 999_999)},{_RANDOM.random():.3f}\n"


def _log(row: int) -> str:
    time = f"{row // 60 % 24:02}:{row % 60:02}:{_RANDOM.randint(0, 59):02}.{_RANDOM.randint(0, 999):03}"
    request = f"{_RANDOM.getrandbits(32):08x} GET /api/v1/{_RANDOM.choice(_WORDS)}/{_RANDOM.randint(1, 9999)}"
    return f"2026-11-28 {time} INFO [worker-{row % 9}] request {request} 200 {_RANDOM.randint(1, 400)}ms\n"


def _rows(of: Callable[[int], str]) -> str:
    return "".join(of(row) for row in range(100))


KINDS = {
    "JSON": json.dumps([_one(row) for row in range(50)], indent=1),
    "rows of CSV": _rows(_csv),
    "Chinese": json.loads(TEXTS.read_text(encoding="utf-8"))["Chinese"],
    "logs": _rows(_log),
    "base64": base64.b64encode(_RANDOM.randbytes(3_750)).decode(),
}


async def contests() -> list[Contest]:
    """Return a contest for each kind of text."""
    prose = _through(english())
    return [
        Contest(
            f"stream, a chunk of {SIZE} of {kind} through safety()",
            f"a chunk of {SIZE} of English prose, likewise",
            _through(text),
            prose,
            TARGET,
            per=COUNT,
        )
        for kind, text in KINDS.items()
    ]


def _through(text: str) -> Work:
    """Return the work on a text; it gives nothing, since the texts differ."""
    work = answered(safety(), pieces(COUNT, SIZE, text))

    async def through(times: int) -> None:
        await work(times)

    return through


SCENARIO = Timed("stream_kinds", contests)
