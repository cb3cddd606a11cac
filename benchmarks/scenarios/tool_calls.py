"""The tool calls of one answer, read and put together, against four answers with a quarter of them each.

The ratio is above 1, since the garbage collector looks through what is alive; work that is quadratic makes it 4.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness import Contest, Timed, Work

from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.frozen import Values
from penstock.models.openai.reading import AnswerReader

CALLS = 4_000
PARTS = 4


async def contests() -> list[Contest]:
    """Return the contests: calls that are told apart by their index, and by their id."""
    floor_is = f"{PARTS} answers of {CALLS // PARTS:,} calls"
    return [
        Contest(
            f"one answer of {CALLS:,} tool calls, told apart by {told}",
            floor_is,
            _work([event(CALLS, indexed=indexed)]),
            _work([event(CALLS // PARTS, indexed=indexed)] * PARTS),
            target=2.5,
        )
        for told, indexed in (("index", True), ("id", False))
    ]


def event(count: int, *, indexed: bool) -> Values:
    """Return an event with so many whole calls."""
    calls = [
        {**({"index": place} if indexed else {}), "id": f"c{place}", "function": {"name": "f", "arguments": "{}"}}
        for place in range(count)
    ]
    return {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}


def _work(answers: Iterable[Values]) -> Work:
    async def work(times: int) -> str:
        calls = 0
        for _ in range(times):
            calls = sum(_read(answer) for answer in answers)
        return str(calls)

    return work


def _read(answer: Values) -> int:
    reader, made = AnswerReader(), Assembly()
    for chunk in (*reader.read(dict(answer)), *reader.end()):
        made.add(chunk)
    return len(made.message.parts)


SCENARIO = Timed("tool_calls", contests)
