"""Eight async steps beside each other and their join, against an anyio task group by hand, on asyncio and trio."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.lowlevel
import sniffio
from harness import Contest, Timed, Work
from shared import TEXT, Looks, hand, text_of

from penstock import Edit, InputContext, Key, MessageList, Processor, Workflow
from penstock.engine import TextPlace
from penstock.engine.processor.payload import Payload
from penstock.engine.values import edits as edit_ops

WAYS = 8
WORD = 10
"""The characters that each of the editing steps answers for."""

LOOKING = "an anyio task group, a context made for each"
PUTTING = "an anyio task group, a context made for each, all facts put into one dict at the end"
EDITING = "an anyio task group, a context made for each, all edits put into one list at the end"


class Waits(Processor):
    """Gives way to other tasks once."""

    edits = "nothing"

    async def process_input(self, _ctx: InputContext) -> None:
        """Wait."""
        await anyio.lowlevel.checkpoint()


class Hides(Processor):
    """Redacts a stretch of its own."""

    edits = "spans"

    def __init__(self, number: int) -> None:
        self.edit = Edit(number * WORD, number * WORD + 4, "****", "redact")

    async def process_input(self, ctx: InputContext) -> MessageList:
        """Edit."""
        return ctx.message_list.edit_text({TextPlace(ctx.messages[0].id, 0): [self.edit]})


class Puts(Processor):
    """Puts a fact of its own."""

    edits = "nothing"

    def __init__(self, number: int) -> None:
        self.key: Key[int] = Key(f"fact-{number}")
        self.provides = {self.key}

    async def process_input(self, ctx: InputContext) -> None:
        """Put it."""
        ctx.put(self.key, 1)


async def contests() -> list[Contest]:
    """Return the contests, their workflows compiled and their runs started."""
    target = 0.4 if sniffio.current_async_library() == "asyncio" else 1.1
    return [
        await _looking("no-op", Looks, target),
        await _looking("suspending", Waits, target),
        await _editing(round(target * 1.15, 3)),
        _putting(0.6 if target < 1 else None),
    ]


def _title(what: str) -> str:
    return f"parallel of 8 async steps, {what}, {sniffio.current_async_library()}"


async def _looking(what: str, kind: type[Looks | Waits], target: float) -> Contest:
    workflow = Workflow("parallel").parallel(*[kind() for _ in range(WAYS)])
    hooks = [kind().process_input for _ in range(WAYS)]
    held = hand(workflow)

    async def floor(times: int) -> str:
        for _ in range(times):
            async with anyio.create_task_group() as group:
                for hook, step in zip(hooks, held.steps, strict=True):
                    group.start_soon(hook, InputContext(held.call, step, held.payload))
        return text_of(held.payload)

    return Contest(_title(what), LOOKING, await ours_of(workflow), floor, target)


async def _editing(target: float) -> Contest:
    workflow = Workflow("parallel").parallel(*[Hides(number) for number in range(WAYS)])
    hooks = [Hides(number).process_input for number in range(WAYS)]
    held = hand(workflow)

    async def run(found: list[MessageList | None], number: int) -> None:
        found[number] = await hooks[number](InputContext(held.call, held.steps[number], held.payload))

    async def floor(times: int) -> str:
        payload = held.payload
        for _ in range(times):
            found: list[MessageList | None] = [None] * WAYS
            async with anyio.create_task_group() as group:
                for number in range(WAYS):
                    group.start_soon(partial(run, found, number))
            payload = joined(held.payload, found)
        return text_of(payload)

    return Contest(_title("editing"), EDITING, await ours_of(workflow, fresh=True), floor, target)


def _putting(target: float | None) -> Contest:
    workflow = Workflow("parallel").parallel(*[Puts(number) for number in range(WAYS)])
    steps = [Puts(number) for number in range(WAYS)]
    held = hand(workflow)

    async def ours(times: int) -> int:
        facts = 0
        for _ in range(times):
            facts = len((await workflow.start().process_input("hi")).facts)
        return facts

    async def floor(times: int) -> int:
        facts: dict[object, object] = {}
        for _ in range(times):
            contexts = [InputContext(held.call, step, held.payload) for step in held.steps]
            async with anyio.create_task_group() as group:
                for step, ctx in zip(steps, contexts, strict=True):
                    group.start_soon(step.process_input, ctx)
            facts = {}
            for ctx in contexts:
                facts.update(ctx.effects.facts if ctx.effects is not None and ctx.effects.facts is not None else {})
        return len(facts)

    return Contest(_title("a fact each, a whole request"), PUTTING, ours, floor, target)


def joined(payload: Payload, found: list[MessageList | None]) -> Payload:
    """Return the payload with the edits of all: they are known not to overlap, so they need only be in order."""
    changes: dict[TextPlace, list[Edit]] = {}
    for messages in found:
        if messages is not None:
            for place, edits in messages.known_edits.texts.items():
                changes.setdefault(place, []).extend(edits)
    merged = {place: edit_ops.in_order(edits) for place, edits in changes.items()}
    return Payload(payload.message_list.edit_text(merged))


async def ours_of(workflow: Workflow, *, fresh: bool = False) -> Work:
    """Return a contestant that runs `process_input` of a started run, which has its message.

    ``fresh``: the run is handed the list as it was each time, since what it holds after an edit is the edited one.
    """
    run = workflow.start()
    given = MessageList(TEXT)
    outcome = await run.process_input(given)
    messages = given if fresh else None

    async def ours(times: int) -> str:
        nonlocal outcome
        for _ in range(times):
            outcome = await run.process_input(messages)
        return outcome.text

    return ours


SCENARIO = Timed("parallel", contests, ("asyncio", "trio"))
