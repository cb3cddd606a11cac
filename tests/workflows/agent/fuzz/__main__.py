"""``python -m tests.workflows.agent.fuzz N FIRST``: random agents, random requests, and what must hold of them.

Says which seeds break a law, and ends with 1 if any does. ``--trio`` runs them on trio; ``--show`` tells more of each.
"""

from __future__ import annotations

import argparse
import gc
import sys
import warnings
from collections import Counter
from typing import Any

import anyio

from tests.workflows.agent.fuzz.laws import broken, differ
from tests.workflows.agent.fuzz.play import generated, quiet, streamed

SECONDS = 10
EVERY = 50


async def problems(seed: int) -> list[str]:
    """Return what is wrong with the request of a seed, as it comes of all the ways to make it."""
    found: list[str] = []
    try:
        with anyio.fail_after(SECONDS):
            seen, whole, plain = await streamed(seed), await generated(seed), await streamed(seed, "none")
    except TimeoutError:
        return ["it hangs"]
    except BaseExceptionGroup as error:
        return [f"it breaks: {inner!r}" for inner in error.exceptions]
    found += [f"{seen.mode}: {what}" for what in broken(seen)]
    found += [f"to its end: {what}" for what in broken(plain)]
    found += [f"generate: {what}" for what in broken(whole)]
    found += [f"stream and generate: {what}" for what in differ(whole, plain)]
    COUNTS[f"{seen.mode}: {'?' if seen.result is None else seen.result.status}"] += 1
    return found


COUNTS: Counter[str] = Counter()


async def run(seeds: range, *, show: bool) -> int:
    """Make all requests; return how many are wrong."""
    wrong = 0
    for seed in seeds:
        found = await problems(seed)
        if seed % EVERY == 0:
            gc.collect()
        if found:
            wrong += 1
            print(seed, *(found if show else found[:1]), sep="\n    ")  # noqa: T201 - a program
    gc.collect()
    return wrong


def main() -> int:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.workflows.agent.fuzz", description=__doc__)
    parser.add_argument("cases", type=int, nargs="?", default=1000)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("--trio", action="store_true")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    quiet()
    warnings.simplefilter("error")
    unraisable: list[Any] = []
    sys.unraisablehook = unraisable.append
    seeds = range(given.first, given.first + given.cases)

    async def all_of_them() -> int:
        return await run(seeds, show=given.show)

    wrong = anyio.run(all_of_them, backend="trio" if given.trio else "asyncio")
    for one in unraisable[:5]:
        print("left over:", one.exc_value, one.object)  # noqa: T201
    print(f"{len(seeds)} cases, {wrong} wrong, {len(unraisable)} left over", dict(sorted(COUNTS.items())))  # noqa: T201
    return 1 if wrong or unraisable else 0


if __name__ == "__main__":
    sys.exit(main())
