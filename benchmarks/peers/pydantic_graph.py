"""pydantic-graph: a graph from its `GraphBuilder`, built once; a join sums up, a decision matches on a literal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Literal

from peers.work import STEPS, WAYS, Request
from pydantic_graph import GraphBuilder, StepContext, TypeExpression, reduce_sum


async def adds(ctx: StepContext[None, None, int]) -> int:
    """Add one."""
    return ctx.inputs + 1


async def finds(_ctx: StepContext[None, None, int]) -> int:
    """Find one."""
    return 1


def _builder() -> GraphBuilder[None, None, int, int]:
    return GraphBuilder(input_type=int, output_type=int)


def _request(builder: GraphBuilder[None, None, int, int]) -> Request:
    graph = builder.build()

    async def request(n: int) -> int:
        return await graph.run(inputs=n)

    return request


def chain() -> Request:
    """Return a request that adds one ten times."""
    builder = _builder()
    steps = [builder.step(adds, node_id=f"step{number}") for number in range(STEPS)]
    nodes = [builder.start_node, *steps, builder.end_node]
    for before, after in pairwise(nodes):
        builder.add(builder.edge_from(before).to(after))
    return _request(builder)


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    builder = _builder()
    steps = [builder.step(finds, node_id=f"step{number}") for number in range(WAYS)]
    total = builder.join(reduce_sum, initial=0)
    builder.add(
        builder.edge_from(builder.start_node).to(*steps),
        builder.edge_from(*steps).to(total),
        builder.edge_from(total).to(builder.end_node),
    )
    return _request(builder)


def branch() -> Request:
    """Return a request that takes one of three arms."""
    builder = _builder()
    arms = [builder.step(_sets(number), node_id=f"arm{number}") for number in range(3)]
    decision = (
        builder.decision()
        .branch(builder.match(TypeExpression[Literal[0]]).to(arms[0]))
        .branch(builder.match(TypeExpression[Literal[1]]).to(arms[1]))
        .branch(builder.match(TypeExpression[Literal[2]]).to(arms[2]))
    )
    builder.add(builder.edge_from(builder.start_node).to(decision), builder.edge_from(*arms).to(builder.end_node))
    return _request(builder)


def _sets(arm: int) -> Callable[[StepContext[None, None, int]], Awaitable[int]]:
    async def sets(_ctx: StepContext[None, None, int]) -> int:
        return arm

    return sets
