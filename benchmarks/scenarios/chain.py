"""Ten async steps in a chain: `process_input` of a started run, against ten awaits of the same hooks."""

from __future__ import annotations

import asyncio

from harness import Contest, Timed, Work
from shared import STEPS, TEXT, Hand, Looks, chain, hand, text_of, turned

from penstock import InputContext, Message, MessageList, Processor, Workflow
from penstock.engine.processor.payload import Payload
from penstock.engine.values.message_list import Entry

LOOKING = "ten awaits, a context made for each"
EDITING = "ten awaits, a context made for each, the edit put into the list"
SHARED = "ten awaits on one context made before"


class Waits(Processor):
    """Gives way to other tasks once."""

    async def process_input(self, _ctx: InputContext) -> None:
        """Wait."""
        await asyncio.sleep(0)


class Returns(Processor):
    """Turns the text round, and returns messages."""

    async def process_input(self, ctx: InputContext) -> list[Message]:
        """Edit."""
        return [turned(message) for message in ctx.messages]


class Derives(Processor):
    """Turns the text round, and returns a list derived from the context's."""

    async def process_input(self, ctx: InputContext) -> MessageList:
        """Edit."""
        return ctx.message_list.replace(*[turned(message) for message in ctx.messages])


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled and their runs started."""
    return [
        await _looking("10 async steps, no-op", Looks, 2.2),
        await _looking("10 async steps, suspending", Waits, 1.15),
        await _editing("10 async steps, editing, returns messages", Returns),
        await _editing("10 async steps, editing, returns a derived list", Derives),
        await _shared("10 async steps, no-op"),
    ]


async def _looking(name: str, kind: type[Looks | Waits], target: float) -> Contest:
    workflow = chain(kind)
    hooks = [kind().process_input for _ in range(STEPS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        call, payload = held.call, held.payload
        for _ in range(times):
            for hook, step in zip(hooks, held.steps, strict=True):
                await hook(InputContext(call, step, payload))
        return text_of(payload)

    return Contest(name, LOOKING, await ours_of(workflow), floor, target)


async def _shared(name: str) -> Contest:
    workflow = chain(Looks)
    hooks = [Looks().process_input for _ in range(STEPS)]
    held = hand(workflow)
    ctx: InputContext = InputContext(held.call, held.steps[0], held.payload)

    async def floor(times: int) -> str:
        for _ in range(times):
            for hook in hooks:
                await hook(ctx)
        return text_of(held.payload)

    return Contest(name, SHARED, await ours_of(workflow), floor)


async def _editing(name: str, kind: type[Returns | Derives]) -> Contest:
    workflow = chain(kind)
    hooks = [kind().process_input for _ in range(STEPS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        payload = held.payload
        for _ in range(times):
            for hook, step in zip(hooks, held.steps, strict=True):
                payload = applied(held, payload, await hook(InputContext(held.call, step, payload)))
        return text_of(payload)

    return Contest(name, EDITING, await ours_of(workflow), floor, 2.5)


def applied(held: Hand, payload: Payload, result: MessageList | list[Message]) -> Payload:
    """Return the payload with a hook's result in it, as one would write it for this very chain."""
    if isinstance(result, list):
        result = payload.message_list.with_entries([Entry(message, "input") for message in result])
    return Payload(result, held.payload.facts)


async def ours_of(workflow: Workflow) -> Work:
    """Return a contestant that runs `process_input` of a started run, which has its message."""
    run = workflow.start()
    outcome = await run.process_input(TEXT)

    async def ours(times: int) -> str:
        nonlocal outcome
        for _ in range(times):
            outcome = await run.process_input()
        return outcome.text

    return ours


SCENARIO = Timed("chain", contests)
