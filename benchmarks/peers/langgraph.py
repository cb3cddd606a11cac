"""LangGraph: a `StateGraph`, compiled once; parallel nodes write to a channel with a reducer."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from peers.work import ARMS, STEPS, WAYS, Request


class Counter(TypedDict):
    """One number, replaced by each step."""

    n: int


class Total(TypedDict):
    """One number, to which each step adds."""

    n: Annotated[int, operator.add]


async def adds(state: Counter) -> Counter:
    """Add one."""
    return {"n": state["n"] + 1}


async def finds(_state: Total) -> Total:
    """Find one."""
    return {"n": 1}


def _request(graph: StateGraph, config: Callable[[], dict[str, Any]] = dict) -> Request:
    compiled = graph.compile()

    async def request(n: int) -> int:
        return (await compiled.ainvoke({"n": n}, config()))["n"]

    return request


def chain(config: Callable[[], dict[str, Any]] = dict) -> Request:
    """Return a request that adds one ten times."""
    graph = StateGraph(Counter)
    names = [f"step {number}" for number in range(STEPS)]
    for name in names:
        graph.add_node(name, adds)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return _request(graph, config)


def traced_chain() -> Request:
    """Return the same request with LangChain's tracer, which keeps a record of each node; they are dropped."""
    from langchain_core.tracers.run_collector import RunCollectorCallbackHandler

    return chain(lambda: {"callbacks": [RunCollectorCallbackHandler()]})


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    graph = StateGraph(Total)
    for name in [f"step {number}" for number in range(WAYS)]:
        graph.add_node(name, finds)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return _request(graph)


def branch() -> Request:
    """Return a request that takes one of three arms."""
    graph = StateGraph(Counter)
    names = {number: f"arm {number}" for number in range(ARMS)}
    for number, name in names.items():
        graph.add_node(name, _sets(number))
        graph.add_edge(name, END)
    graph.add_conditional_edges(START, lambda state: state["n"], names)
    return _request(graph)


def _sets(arm: int) -> Callable[[Counter], Awaitable[Counter]]:
    async def sets(_state: Counter) -> Counter:
        return {"n": arm}

    return sets
