"""The work of peers/ in Penstock: the counter is in the request context, and facts carry what parallel steps found."""

from __future__ import annotations

from collections.abc import Callable

from peers.work import ARMS, STEPS, WAYS, Request

from penstock import InputContext, Key, Processor, Workflow
from penstock.engine import View

MESSAGE = "hi"


class Adds(Processor):
    """Adds one to the counter."""

    async def process_input(self, ctx: InputContext) -> None:
        """Add."""
        ctx.request_context["n"] += 1


class Finds(Processor):
    """Finds one."""

    edits = "nothing"

    def __init__(self, number: int) -> None:
        self.found: Key[int] = Key(f"found {number}")
        self.provides = (self.found,)

    async def process_input(self, ctx: InputContext) -> None:
        """Tell."""
        ctx.put(self.found, 1)


class Sets(Processor):
    """Notes which arm was taken."""

    def __init__(self, arm: int) -> None:
        self.arm = arm

    async def process_input(self, ctx: InputContext) -> None:
        """Note."""
        ctx.request_context["taken"] = self.arm


def chain() -> Request:
    """Return a request that adds one ten times."""
    workflow = Workflow("chain")
    for _ in range(STEPS):
        workflow = workflow.then(Adds())

    async def request(n: int) -> int:
        context = {"n": n}
        await workflow.start(request_context=context).process_input(MESSAGE)
        return context["n"]

    return request


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    workflow = Workflow("parallel").parallel(*[Finds(number) for number in range(WAYS)])

    async def request(n: int) -> int:
        outcome = await workflow.start().process_input(MESSAGE)
        return n + sum(outcome.facts.values())

    return request


def branch() -> Request:
    """Return a request that takes one of three arms."""
    arms = [(_is(number), Sets(number)) for number in range(ARMS - 1)]
    workflow = Workflow("branch").branch(*arms, otherwise=Sets(ARMS - 1))

    async def request(n: int) -> int:
        context = {"n": n}
        await workflow.start(request_context=context).process_input(MESSAGE)
        return context["taken"]

    return request


def _is(number: int) -> Callable[[View], bool]:
    def condition(view: View) -> bool:
        return bool(view.request_context["n"] == number)

    return condition
