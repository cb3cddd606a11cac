"""What a request costs that is no stream: its set-up, a further step, and a text that no step looks at."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from harness import Contest, Timed
from shared import Looks, hand

from penstock import InputContext, Message, TextPart, Workflow

MANY = 100
"""The steps over which the set-up is spread, where a further step is timed."""

LONG = (
    "Please move 250 euros to the account of my landlord before the end of the week, and tell me when it has arrived"
    " there, because I would like to write him a short note about the repairs, too. Thanks"
)


async def contests() -> list[Contest]:
    """Return the contests."""
    return [_request(), await _further_step(), _nothing()]


def _request() -> Contest:
    workflow = Workflow("request").then(Looks())
    held = hand(workflow)
    hook = Looks().process_input

    async def ours(times: int) -> bool:
        blocked = True
        for _ in range(times):
            blocked = (await workflow.start().process_input("hi")).blocked
        return blocked

    async def floor(times: int) -> bool:
        for _ in range(times):
            await hook(InputContext(held.call, held.steps[0], held.payload))
        return False

    return Contest("start() and process_input('hi'), one no-op step", "a context made and an await", ours, floor)


async def _further_step() -> Contest:
    workflow = Workflow("many")
    for _ in range(MANY):
        workflow = workflow.then(Looks())
    hooks = [Looks().process_input for _ in range(MANY)]
    held = hand(workflow)
    ctx: InputContext = InputContext(held.call, held.steps[0], held.payload)
    run = workflow.start()
    await run.process_input("hi")

    async def ours(times: int) -> bool:
        blocked = True
        for _ in range(times):
            blocked = (await run.process_input()).blocked
        return blocked

    async def floor(times: int) -> bool:
        for _ in range(times):
            for hook in hooks:
                await hook(ctx)
        return False

    name = f"a further async step, no-op ({MANY} in a chain, each)"
    return Contest(name, "an await on one context made before", ours, floor, 2.5, per=MANY)


def _nothing() -> Contest:
    workflow = Workflow("nothing")

    async def ours(times: int) -> str:
        text = ""
        for _ in range(times):
            text = workflow.check_sync(LONG, records=False).text
        return text

    async def floor(times: int) -> str:
        text = ""
        for _ in range(times):
            text = Message("user", (TextPart(LONG),), os.urandom(12).hex(), datetime.now(UTC)).text
        return text

    name = f"an empty workflow, check_sync of {len(LONG)} characters, no records"
    return Contest(name, "the message made, with an id and a time", ours, floor)


SCENARIO = Timed("requests", contests)
