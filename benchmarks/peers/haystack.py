"""Haystack: a `Pipeline` of components with `run_async`, built once; a variadic input joins, a router chooses.

It reads the annotations of components as objects, so they are not postponed in this file.
"""

import os
from itertools import pairwise

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")  # read when haystack is imported

from haystack import Pipeline, component
from haystack.components.routers import ConditionalRouter
from haystack.core.component.types import Variadic
from peers.work import ARMS, STEPS, WAYS, Request


@component
class Adds:
    """Adds one."""

    @component.output_types(n=int)
    def run(self, n: int) -> dict[str, int]:
        """Add."""
        return {"n": n + 1}

    @component.output_types(n=int)
    async def run_async(self, n: int) -> dict[str, int]:
        """Add."""
        return {"n": n + 1}


@component
class Gives:
    """Gives a number of its own."""

    def __init__(self, number: int) -> None:
        self.number = number

    @component.output_types(n=int)
    def run(self, n: int) -> dict[str, int]:  # noqa: ARG002 - the socket by which it is started
        """Give."""
        return {"n": self.number}

    @component.output_types(n=int)
    async def run_async(self, n: int) -> dict[str, int]:  # noqa: ARG002
        """Give."""
        return {"n": self.number}


@component
class Sums:
    """Sums up whatever arrives."""

    @component.output_types(n=int)
    def run(self, n: Variadic[int]) -> dict[str, int]:
        """Sum up."""
        return {"n": sum(n)}

    @component.output_types(n=int)
    async def run_async(self, n: Variadic[int]) -> dict[str, int]:
        """Sum up."""
        return {"n": sum(n)}


def chain() -> Request:
    """Return a request that adds one ten times."""
    pipeline = Pipeline()
    names = [f"step{number}" for number in range(STEPS)]
    for name in names:
        pipeline.add_component(name, Adds())
    for before, after in pairwise(names):
        pipeline.connect(f"{before}.n", f"{after}.n")

    async def request(n: int) -> int:
        return (await pipeline.run_async({names[0]: {"n": n}}))[names[-1]]["n"]

    return request


def parallel() -> Request:
    """Return a request in which eight find one each, and their sum is taken."""
    pipeline = Pipeline()
    pipeline.add_component("sum", Sums())
    names = [f"way{number}" for number in range(WAYS)]
    for name in names:
        pipeline.add_component(name, Gives(1))
        pipeline.connect(f"{name}.n", "sum.n")

    async def request(n: int) -> int:
        found = await pipeline.run_async({name: {"n": n} for name in names}, concurrency_limit=WAYS)
        return n + found["sum"]["n"]

    return request


def branch() -> Request:
    """Return a request that takes one of three arms."""
    routes = [
        {"condition": f"{{{{n == {arm}}}}}", "output": "{{n}}", "output_name": f"to{arm}", "output_type": int}
        for arm in range(ARMS)
    ]
    pipeline = Pipeline()
    pipeline.add_component("choose", ConditionalRouter(routes))
    for arm in range(ARMS):
        pipeline.add_component(f"arm{arm}", Gives(arm))
        pipeline.connect(f"choose.to{arm}", f"arm{arm}.n")

    async def request(n: int) -> int:
        (found,) = (await pipeline.run_async({"choose": {"n": n}})).values()
        return found["n"]

    return request
