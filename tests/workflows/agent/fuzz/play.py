"""Makes the request of a random world, as a caller would, and gives it up as the case says. It knows no law."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import anyio

from penstock import Chunk
from penstock.workflows import AgentResult
from tests.workflows.agent.fuzz.world import Case, World, case


@dataclass
class Seen:
    """What a caller has seen of a request.

    Attributes:
        world: where it was made.
        chunks: what came.
        result: the result, if the stream told one.
        error: what was raised.
        told: what the caller's own functions were told.
        released: when chunks may leave.
        mode: how the request was given up.
        given_up: whether that came to pass.
    """

    world: World
    release: str
    mode: str
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    result: AgentResult[Any] | None = None
    error: Exception | None = None
    told: list[AgentResult[Any]] = field(default_factory=list[AgentResult[Any]])
    given_up: bool = False


async def generated(seed: int) -> Seen:
    """Make the request of a seed by `Agent.generate`, to its end."""
    one = case(seed)
    one.world.stuck_at = 0
    seen = Seen(one.world, one.release, "none")
    try:
        seen.result = await one.agent.generate("Hi", on_finish=seen.told.append)
    except Exception as error:  # noqa: BLE001 - it is one of the ways to end
        seen.error = error
    return seen


async def streamed(seed: int, mode: str | None = None) -> Seen:
    """Make the request of a seed by `Agent.stream`, and give it up as the seed says."""
    one = case(seed)
    seen = Seen(one.world, one.release, one.mode if mode is None else mode)
    if seen.mode in ("none", "leave", "cancel"):
        one.world.stuck_at = 0
    async with anyio.create_task_group() as group:
        if seen.mode == "task":
            group.start_soon(_when_reached, one, seen, group.cancel_scope.cancel)
        await _request(one, seen)
        group.cancel_scope.cancel()
    return seen


async def _when_reached(one: Case, seen: Seen | None, do: Any) -> None:
    await one.world.reached.wait()
    if seen is not None:
        seen.given_up = True
    do()


async def _request(one: Case, seen: Seen) -> None:
    stream: Any = one.agent.stream("Hi", on_finish=seen.told.append)
    try:
        async with stream, anyio.create_task_group() as group:
            if seen.mode == "cancel-waiting":
                group.start_soon(_when_reached, one, seen, stream.cancel)
            try:
                await _read(one, seen, stream)
            except Exception as error:  # noqa: BLE001 - see above
                seen.error = error
            group.cancel_scope.cancel()
    finally:
        seen.result = stream._result  # also of one that nobody read to its end


async def _read(one: Case, seen: Seen, stream: Any) -> None:
    if seen.mode == "field":
        await _impatient(one, seen, stream.result)
    chunks = stream.full_stream
    while True:
        try:
            chunk = await (_impatient(one, seen, chunks.__anext__()) if seen.mode == "pull" else chunks.__anext__())
        except StopAsyncIteration:
            return
        if chunk is None:
            continue
        seen.chunks.append(chunk)
        if len(seen.chunks) == one.at and seen.mode == "leave":
            seen.given_up = True
            return
        if len(seen.chunks) == one.at and seen.mode == "cancel":
            seen.given_up = True
            stream.cancel()


async def _impatient(one: Case, seen: Seen, what: Any) -> Any:
    """Wait for something, until the world is stuck; what is asked for after that must come by itself."""
    if seen.given_up:
        return await what
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_when_reached, one, None, group.cancel_scope.cancel)
        try:
            return await what
        except Exception as error:  # noqa: BLE001 - a group would wrap it
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    seen.given_up = True
    return None


def quiet() -> None:
    """Keep what processors are made to do out of the log."""
    logging.disable(logging.CRITICAL)
