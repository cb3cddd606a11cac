"""Run an agent on one input, and send events while it runs: deltas, steps, calls of tools, text that is held."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import anyio

from penstock.engine.tracing.span import tripwire_json
from penstock.engine.values.plain import plain
from penstock.engine.values.protocols import Model
from penstock.engine.values.usage import usage_payload
from penstock.workflows.rows.reading import InputRow, call_of
from penstock.workflows.studio.worker.constructor_arguments import arguments_of
from penstock.workflows.studio.worker.problems import problem_of
from penstock.workflows.studio.worker.running import dumped, row_of, trace_json
from penstock.workflows.studio.worker.tool_log import ToolLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.agent import Agent
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.agent.stream import AgentStream
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.live import Live


class WatchedModel:
    """A model that counts the characters it says, and notes its tool calls; in all else it is the model itself."""

    def __init__(self, model: Model, live: Live, tools: ToolLog) -> None:
        self._model = model
        self._live = live
        self._tools = tools

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._model.name

    def __getattr__(self, name: str) -> Any:
        """Return whatever else the model has."""
        return getattr(self._model, name)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the answer of the model."""
        async with aclosing(cast("Any", self._model.stream(request))) as chunks:
            async for chunk in chunks:
                if chunk.type == "text-delta":
                    self._live.came_in(len(chunk.text))
                self._tools.said(chunk)
                yield chunk


async def run_agent(agent: Agent, request: Json, live: Live) -> Json:
    """Run a request to its end, or until it waits for a person, and return the result as data.

    An error of a step or the model is a result, too. An input of the kind ``suspended`` names a request that was
    decided about, and the agent goes on with it.

    Raises:
        PenstockError: the input cannot be read.
        ReviewError: the agent cannot go on with that request.
    """
    given = cast("dict[str, Any]", request["input"])
    context: dict[str, Any] = dict(cast("dict[str, Any]", request.get("context") or {}))
    options: dict[str, Any] = {"records": True, "texts": True, "request_context": context}
    tools = ToolLog()
    observers = cast("Iterable[object]", (arguments_of(agent) or {}).get("observers") or ())
    options["observers"] = [*observers, live, tools]
    if isinstance(agent.model, Model):
        options["model"] = WatchedModel(agent.model, live, tools)
    if given["kind"] == "suspended":
        stream = agent.resume_stream(str(given["run"]), **options)
    else:
        call = call_of(InputRow(1, row_of(given, "process_input")), "process_input", context)
        stream = agent.stream(call.messages, **options)
    made: Json = {}
    async with stream, anyio.create_task_group() as tasks:  # an error of the start is no group
        tasks.start_soon(live.keep_flushing)
        try:
            result, error = await _read(stream, live)
        finally:
            tasks.cancel_scope.cancel()
        live.flush()
        made |= _told(result, error or result.error, tools)
    return made


async def _read(stream: AgentStream[Any], live: Live) -> tuple[AgentResult[Any], Exception | None]:
    """Read a stream to its end; return its result, and the error that ended it."""
    error: Exception | None = None
    try:
        async for chunk in stream:
            live.chunk(chunk)
    except Exception as raised:  # noqa: BLE001 - how the request ended; the result says the rest
        error = raised
    return await stream.result, error


def _told(result: AgentResult[Any], error: Exception | None, tools: ToolLog) -> Json:
    edited = any(record.status == "edited" and not record.shadow for record in result.records)
    status = "passed" if result.status == "success" else result.status
    tripwire = result.tripwire
    return {
        "status": "edited" if status == "passed" and edited else status,
        "output": {
            "text": result.text,
            "messages": dumped(result.messages),
            "value": None,
            "tripwire": None if tripwire is None else tripwire_json(tripwire),
            "chunks": None,
        },
        "agent": {
            "text": result.text,
            "steps": len(result.steps),
            "finish_reason": result.finish_reason,
            "usage": plain(usage_payload(result.usage)),
            "run_id": result.run_id,
            "tool_calls": tools.calls(each for step in result.steps for each in step.tool_calls),
        },
        "error": None if error is None else problem_of(error, "step"),
        "trace": trace_json(result),
    }
