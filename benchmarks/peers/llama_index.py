"""LlamaIndex workflows: a `Workflow` of steps from event to event; parallel steps are collected by `collect_events`."""

from __future__ import annotations

from typing import Any

from peers.work import ARMS, STEPS, WAYS, Request
from workflows.events import Event, StartEvent, StopEvent

from workflows import Context, Workflow, step

HOPS: list[type[Event]] = [type(f"Hop{number}", (Event,), {}) for number in range(STEPS - 1)]
WAY_EVENTS: list[type[Event]] = [type(f"Way{number}", (Event,), {}) for number in range(WAYS)]
ARM_EVENTS: list[type[Event]] = [type(f"Arm{number}", (Event,), {}) for number in range(ARMS)]


class Found(Event):
    """What one of the parallel steps found."""

    n: int


def _step(name: str, function: Any, **annotations: Any) -> Any:
    """Return a step made of a function; steps are told apart by name, and routed by what they are annotated with."""
    function.__name__, function.__qualname__ = name, f"Work.{name}"  # by its dot, a method is told from a function
    function.__annotations__ = annotations
    return step(function)


def _request(steps: dict[str, Any]) -> Request:
    workflow = type("Work", (Workflow,), steps)(timeout=None)

    async def request(n: int) -> int:
        return await workflow.run(n=n)

    return request


def chain() -> Request:
    """Return a request that adds one ten times."""
    events: list[type[Event]] = [StartEvent, *HOPS]
    steps = {f"hop{number}": _adds(number, event) for number, event in enumerate(events)}
    return _request(steps)


def _adds(number: int, event: type[Event]) -> Any:
    last = number == STEPS - 1
    gives = StopEvent if last else HOPS[number]

    async def hop(_self: Workflow, ev: Any) -> Any:
        return StopEvent(result=ev.n + 1) if last else gives(n=ev.n + 1)

    return _step(f"hop{number}", hop, ev=event, **{"return": gives})


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    union: Any = WAY_EVENTS[0]
    for event in WAY_EVENTS[1:]:
        union = union | event

    async def send(_self: Workflow, ctx: Any, ev: Any) -> Any:
        await ctx.store.set("n", ev.n)
        for event in WAY_EVENTS:
            ctx.send_event(event())

    async def total(_self: Workflow, ctx: Any, ev: Any) -> Any:
        found = ctx.collect_events(ev, [Found] * WAYS)
        return None if found is None else StopEvent(result=await ctx.store.get("n") + sum(each.n for each in found))

    steps = {f"way{number}": _finds(number, event) for number, event in enumerate(WAY_EVENTS)}
    steps["send"] = _step("send", send, ctx=Context, ev=StartEvent, **{"return": union | None})
    steps["total"] = _step("total", total, ctx=Context, ev=Found, **{"return": StopEvent | None})
    return _request(steps)


def _finds(number: int, event: type[Event]) -> Any:
    async def way(_self: Workflow, _ev: Any) -> Any:
        return Found(n=1)

    return _step(f"way{number}", way, _ev=event, **{"return": Found})


def branch() -> Request:
    """Return a request that takes one of three arms."""

    async def choose(_self: Workflow, ev: Any) -> Any:
        return ARM_EVENTS[ev.n]()

    union: Any = ARM_EVENTS[0] | ARM_EVENTS[1] | ARM_EVENTS[2]
    steps = {f"arm{number}": _sets(number, event) for number, event in enumerate(ARM_EVENTS)}
    steps["choose"] = _step("choose", choose, ev=StartEvent, **{"return": union})
    return _request(steps)


def _sets(number: int, event: type[Event]) -> Any:
    async def arm(_self: Workflow, _ev: Any) -> Any:
        return StopEvent(result=number)

    return _step(f"arm{number}", arm, _ev=event, **{"return": StopEvent})
