"""What OpenTelemetry costs: ten steps, a stream and an agent's request, traced, against the same without anybody.

Spans are made and ended, and then dropped: what sending them costs is the same for everybody. Peers run the same work
with and without their own tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from harness import Contest, Timed, Work
from scenarios.agent import LENGTH, Hooks, Says, one_by_one, ours
from scenarios.records import FLOOR_IS
from shared import TEXT, Looks, chain
from streaming import CHUNKS, Keeps, pieces, row_of

from penstock import Agent, Workflow

STEPS = "a request of 10 steps"
AGENT = f"a streamed request of {LENGTH} chunks, 5 hooks"


class Recorder:
    """An observer that keeps nothing, as one of our own would be."""

    def on_record(self, record: object) -> None:
        """Look at the record."""

    def on_event(self, event: object) -> None:
        """Look at the event."""


def observers() -> dict[str, Sequence[Any]]:
    """Return who may listen, by a name; OpenTelemetry where its SDK is installed."""
    found: dict[str, Sequence[Any]] = {"an observer": [Recorder()]}
    if is_there("opentelemetry.sdk"):
        from peers.dropped_spans import providers

        from penstock.workflows.telemetry import OpenTelemetryObserver

        found["OpenTelemetry"] = [OpenTelemetryObserver(*providers())]
    return found


async def contests() -> list[Contest]:
    """Return the contests: each kind of work, with each who may listen."""
    workflow, streamed = chain(Looks), Workflow("stream").then(row_of(Keeps, 5))
    made: list[Contest] = []
    for who, listening in observers().items():
        theirs = who == "OpenTelemetry"
        made += [
            Contest(
                f"{STEPS}, with {who}",
                FLOOR_IS,
                checks(workflow, listening),
                checks(workflow, ()),
                peers=langgraph() if theirs else {},
            ),
            Contest(
                f"stream, a chunk through 5 sync hooks, with {who}",
                FLOOR_IS,
                streams(streamed, listening),
                streams(streamed, ()),
                per=CHUNKS,
            ),
            Contest(
                f"{AGENT}, with {who}",
                FLOOR_IS,
                one_by_one(ours(agent(listening))),
                one_by_one(ours(agent(()))),
                peers=pydantic_ai() if theirs else {},
            ),
        ]
    return made


def checks(workflow: Workflow, listening: Sequence[Any]) -> Work:
    """Return a contestant that checks a text, in a run of its own each time."""

    async def work(times: int) -> str:
        text = ""
        for _ in range(times):
            text = (await workflow.check(TEXT, records=False, observers=listening)).text
        return text

    return work


def streams(workflow: Workflow, listening: Sequence[Any]) -> Work:
    """Return a contestant that reads a stream to its end."""
    chunks = pieces()

    async def work(times: int) -> int:
        count = 0
        for _ in range(times):
            async with (
                workflow.start(observers=listening) as run,
                run.process_output_stream(chunks, release="live") as out,
            ):
                count = len([chunk async for chunk in out])
        return count

    return work


def agent(listening: Sequence[Any]) -> Agent:
    """Return our agent with five hooks."""
    return Agent(Says(), processors=[Hooks()], release="live", observers=listening)


def langgraph() -> dict[str, Work]:
    """Return LangGraph's chain of ten steps, without and with its tracer, where it is installed."""
    if not is_there("langgraph"):
        return {}
    peer = import_module("peers.langgraph")
    return {"langgraph": counted(peer.chain()), "langgraph traced": counted(peer.traced_chain())}


def counted(request: Callable[[int], Any]) -> Work:
    """Return a contestant that counts to ten, and gives what the others do."""

    async def work(times: int) -> str:
        for _ in range(times):
            await request(0)
        return TEXT

    return work


def pydantic_ai() -> dict[str, Work]:
    """Return pydantic-ai's agent, without and with its instrumentation, where it is installed."""
    if not is_there("pydantic_ai"):
        return {}
    peer = import_module("peers.pydantic_ai_agent")
    texts = [chunk.text for chunk in pieces(LENGTH)]
    return {
        "pydantic-ai": one_by_one(peer.request(texts)),
        "pydantic-ai traced": one_by_one(peer.traced_request(texts)),
    }


@dataclass(frozen=True, slots=True)
class Traced(Timed):
    """The scenario, and what is missing in it."""

    @property
    def notes(self) -> list[str]:
        """What to know about the figures."""
        known = {"opentelemetry.sdk": "OpenTelemetry's SDK", "langgraph": "LangGraph", "pydantic_ai": "pydantic-ai"}
        missing = [name for module, name in known.items() if not is_there(module)]
        return [f"Telemetry: not installed: {', '.join(missing)}."] if missing else []


def is_there(module: str) -> bool:
    """Return whether a module can be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


SCENARIO = Traced("telemetry", contests)
