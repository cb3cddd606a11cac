"""Ten sync steps in a chain: the sync form of `process_input` of a started run, against a loop of ten calls."""

from __future__ import annotations

from harness import Contest, Timed, Work
from shared import STEPS, TEXT, LooksSync, chain, hand, text_of, turned

from penstock import InputContext, MessageList, Processor, Workflow
from penstock.engine.processor.payload import Payload


class Derives(Processor):
    """Turns the text round, and returns a list derived from the context's."""

    def process_input(self, ctx: InputContext) -> MessageList:
        """Edit."""
        return ctx.message_list.replace(*[turned(message) for message in ctx.messages])


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled and their runs started."""
    return [_looking(), _editing(), _whole()]


def _looking() -> Contest:
    workflow = chain(LooksSync)
    hooks = [LooksSync().process_input for _ in range(STEPS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        call, payload = held.call, held.payload
        for _ in range(times):
            for hook, step in zip(hooks, held.steps, strict=True):
                hook(InputContext(call, step, payload))
        return text_of(payload)

    return Contest("10 sync steps, no-op", "ten calls, a context made for each", ours_of(workflow), floor, 2.2)


def _editing() -> Contest:
    workflow = chain(Derives)
    hooks = [Derives().process_input for _ in range(STEPS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        payload = held.payload
        for _ in range(times):
            for hook, step in zip(hooks, held.steps, strict=True):
                payload = Payload(hook(InputContext(held.call, step, payload)))
        return text_of(payload)

    floor_is = "ten calls, a context made for each, the edit put into the list"
    return Contest("10 sync steps, editing", floor_is, ours_of(workflow), floor, 2.5)


def _whole() -> Contest:
    workflow = chain(LooksSync)
    hooks = [LooksSync().process_input for _ in range(STEPS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        payload = held.payload
        for _ in range(times):
            payload = Payload(MessageList(TEXT))
            for hook, step in zip(hooks, held.steps, strict=True):
                hook(InputContext(held.call, step, payload))
        return text_of(payload)

    outcome = workflow.check_sync(TEXT, records=False)

    async def ours(times: int) -> str:
        nonlocal outcome
        for _ in range(times):
            outcome = workflow.check_sync(TEXT, records=False)
        return outcome.text

    return Contest("check_sync of a str, 10 sync steps", "a MessageList made, then ten calls", ours, floor)


def ours_of(workflow: Workflow) -> Work:
    """Return a contestant that runs `process_input` of a started run, which has its message, without awaiting."""
    run = workflow.start_sync()
    outcome = run.process_input(TEXT)

    async def ours(times: int) -> str:
        nonlocal outcome
        for _ in range(times):
            outcome = run.process_input()
        return outcome.text

    return ours


SCENARIO = Timed("chain_sync", contests)
