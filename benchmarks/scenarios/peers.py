"""The same work in Penstock, by hand, and in whichever peers are installed: chain, parallel, branch, 1,000 at once.

Each request starts from nothing: ours starts a run and takes in a message. What can be built once was built before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata

from harness import Contest, Timed, Work
from peers import by_hand, ours
from peers.work import ARMS, STEPS, WAYS, Peer, Request

REQUESTS = 1_000

FILES = {
    "langgraph": "langgraph",
    "pydantic-graph": "pydantic_graph",
    "llama-index-workflows": "llama_index",
    "haystack-ai": "haystack",
    "burr": "burr",
}
"""The file of peers/ that uses a distribution."""


def versions() -> dict[str, str | None]:
    """Return the versions of the peers; None for one that is not installed."""
    found: dict[str, str | None] = {}
    for distribution in FILES:
        try:
            found[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[distribution] = None
    return found


def installed() -> dict[str, Peer]:
    """Return the peers that are installed, by the names of their distributions."""
    names = [name for name, version in versions().items() if version]
    peers: dict[str, Peer] = {name: import_module(f"peers.{FILES[name]}") for name in names}
    logging.disable(logging.INFO)  # Haystack logs each component it runs
    return peers


async def contests() -> list[Contest]:
    """Return the contests, every graph built."""
    peers = installed()

    def contest(name: str, build: Callable[[Peer], Request], work: Callable[[Request], Work], per: int = 1) -> Contest:
        others = {other: work(build(peer)) for other, peer in peers.items()}
        return Contest(name, "awaits", work(build(ours)), work(build(by_hand)), None, others, per)

    return [
        contest(f"chain of {STEPS} async steps", lambda peer: peer.chain(), one_by_one),
        contest(f"parallel of {WAYS} and join", lambda peer: peer.parallel(), one_by_one),
        contest(f"branch of {ARMS}, the first taken", lambda peer: peer.branch(), one_by_one),
        contest(f"{REQUESTS:,} chains of {STEPS} at once, each", lambda peer: peer.chain(), all_at_once, REQUESTS),
    ]


def one_by_one(request: Request) -> Work:
    """Return the work of one request after another."""

    async def work(times: int) -> int:
        found = 0
        for _ in range(times):
            found = await request(0)
        return found

    return work


def all_at_once(request: Request) -> Work:
    """Return the work of many requests at once."""

    async def work(times: int) -> list[int]:
        found: list[int] = []
        for _ in range(times):
            found = await asyncio.gather(*[request(0) for _ in range(REQUESTS)])
        return found

    return work


@dataclass(frozen=True, slots=True)
class Peers(Timed):
    """The scenario; it says which versions there are, and which peers are missing."""

    @property
    def notes(self) -> list[str]:
        """What to know about the figures."""
        told = [f"{name} {version or 'is not installed'}" for name, version in versions().items()]
        return [f"Peers: {', '.join(told)}."]


SCENARIO = Peers("peers", contests)
