"""Burr: a graph built once, and an application for each request, since that is what carries the state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from itertools import pairwise
from typing import Any

from burr.core import ApplicationBuilder, ApplicationContext, State, action, expr
from burr.core.graph import Graph, GraphBuilder
from burr.core.parallelism import MapActions
from peers.work import ARMS, STEPS, WAYS, Request


@action(reads=["n"], writes=["n"])
async def adds(state: State) -> State:
    """Add one."""
    return state.update(n=state["n"] + 1)


@action(reads=[], writes=["found"])
async def finds(state: State) -> State:
    """Find one."""
    return state.update(found=1)


@action(reads=["n"], writes=[])
async def begins(state: State) -> State:
    """Begin."""
    return state


class Finds(MapActions):
    """Eight beside each other, and their sum."""

    def actions(self, state: State, context: ApplicationContext, inputs: dict[str, Any]) -> Generator[Any, None, None]:  # noqa: ARG002
        """Yield the eight."""
        for _ in range(WAYS):
            yield finds

    async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> State:
        """Sum up."""
        total = state["n"]
        async for each in states:
            total += each["found"]
        return state.update(n=total)

    def is_async(self) -> bool:
        """Tell that it is."""
        return True

    @property
    def reads(self) -> list[str]:
        """What it reads."""
        return ["n"]

    @property
    def writes(self) -> list[str]:
        """What it writes."""
        return ["n"]


def _request(graph: Graph, first: str, *last: str) -> Request:
    async def request(n: int) -> int:
        app = ApplicationBuilder().with_graph(graph).with_entrypoint(first).with_state(n=n).build()
        _, _, state = await app.arun(halt_after=list(last))
        return state["n"]

    return request


def chain() -> Request:
    """Return a request that adds one ten times."""
    names = [f"step{number}" for number in range(STEPS)]
    graph = GraphBuilder().with_actions(**dict.fromkeys(names, adds))
    graph = graph.with_transitions(*pairwise(names))
    return _request(graph.build(), names[0], names[-1])


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    return _request(GraphBuilder().with_actions(finds=Finds()).build(), "finds", "finds")


def branch() -> Request:
    """Return a request that takes one of three arms."""
    names = [f"arm{number}" for number in range(ARMS)]
    graph = (
        GraphBuilder()
        .with_actions(begin=begins, **{name: _sets(number) for number, name in enumerate(names)})
        .with_transitions(*[("begin", name, expr(f"n == {number}")) for number, name in enumerate(names)])
    )
    return _request(graph.build(), "begin", *names)


def _sets(arm: int) -> Any:
    @action(reads=[], writes=["n"])
    async def sets(state: State) -> State:
        return state.update(n=arm)

    return sets
