"""A stream of one chunk: opened, read and closed, against the same by hand.

Each stream starts from nothing: a run and the contexts of its hooks are made for it. What can be built once was built
before.
"""

from __future__ import annotations

from contextlib import aclosing

from harness import Contest, Timed, Work
from streaming import STAGE, Keeps, called, pieces, row_of, source, through

from penstock import MessageList, OutputStreamContext, Workflow
from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.payload import Payload
from penstock.engine.processor.stages import STAGES
from penstock.engine.processor.state import RunState, StageCall
from penstock.engine.values.frozen import EMPTY

FLOOR_IS = "an async generator that calls the hooks, closed at its end; their contexts made for it"


def opened_by_hand(workflow: Workflow) -> Work:
    """Return the hand-written contestant."""
    steps = list(plan_steps(workflow.plans.stage(STAGE)))
    hooks = [getattr(step.processor, STAGE) for step in steps]
    chunks = pieces(1)

    async def floor(times: int) -> str:
        texts: list[str] = []
        for _ in range(times):
            call = StageCall(RunState("by hand", {}), STAGES[STAGE], EMPTY, frozenset())
            payload = Payload(MessageList())
            contexts = [OutputStreamContext(call, step, payload) for step in steps]
            texts = []
            async with aclosing(called(list(zip(hooks, contexts, strict=True)), source(chunks))) as leaving:
                async for chunk in leaving:
                    texts.append(chunk.text)
        return "".join(texts)

    return floor


async def contests() -> list[Contest]:
    """Return the contests."""
    rows = {f"{count} hook{'s' * (count != 1)}": row_of(Keeps, count) for count in (0, 1, 3)}
    return [
        Contest(f"a stream of one chunk, {name}", FLOOR_IS, through(row, pieces(1)), opened_by_hand(row))
        for name, row in rows.items()
    ]


SCENARIO = Timed("stream_opening", contests)
