"""Run one stage of a workflow on one input, and send events while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio

from penstock.engine.processor.stages import STAGES, full_name
from penstock.engine.tracing.span import tripwire_json
from penstock.engine.values.errors import ModelError, PenstockError, UsageError
from penstock.engine.values.frozen import thaw
from penstock.workflows.rows.reading import InputRow, call_of, is_object
from penstock.workflows.studio.worker.problems import problem_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.workflow import Workflow
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.live import Live

_PIECE = 12  # characters of a text that is streamed


async def run_workflow(workflow: Workflow, request: Json, live: Live) -> Json:
    """Run a stage, and return the result as data. An error of a step is a result, too.

    Raises:
        PenstockError: the graph has problems, the stage is not served, or the input cannot be read.
    """
    stage = full_name(str(request["stage"]))
    check_served(workflow, stage)
    given = cast("dict[str, Any]", request["input"])
    context: dict[str, Any] = dict(cast("dict[str, Any]", request.get("context") or {}))
    run = workflow.start(records=True, texts=True, observers=[live], request_context=context)
    outcome: Outcome | None = None
    chunks: list[str] | None = None
    error: Exception | None = None
    try:
        async with run:
            if STAGES[stage].streams:
                chunks = await _streamed(run, stage, given, live)
            else:
                outcome = await _called(run, stage, given, context)
    except Exception as raised:
        if not run.records:  # nothing ran: the input is at fault, not a step
            raise
        error = raised
    failure = error or (None if outcome is None else outcome.failure)
    edited = any(record.status == "edited" and not record.shadow for record in run.records)
    status = "failed" if error else "blocked" if run.tripwire is not None else "edited" if edited else "passed"
    return {
        "status": status,
        "output": {**_output(run, stage, outcome), "chunks": chunks},
        "error": None if failure is None else problem_of(failure, "step"),
        "trace": trace_json(run),
    }


def trace_json(ran: Run | AgentResult[Any]) -> Json | None:
    """Return the trace of a run or result; None if it ended before any step ran."""
    try:
        return cast("Json", ran.trace.to_json())
    except UsageError:
        return None


def check_served(workflow: Workflow, stage: str) -> None:
    """Refuse a stage that no step has.

    Raises:
        WorkflowError: no step has it, or the graph has other problems.
        UsageError: there is no such stage.
    """
    if stage not in STAGES:
        raise UsageError(f"unknown stage {stage!r}; the stages are {', '.join(STAGES)}")
    workflow.validate(stage if workflow.root.nodes else None)


async def _called(run: Run, stage: str, given: dict[str, Any], context: dict[str, Any]) -> Outcome:
    if given["kind"] == "error":
        status = cast("int | None", given.get("status"))
        error = ModelError("the model", str(given["message"]), status=status, retryable=bool(given.get("retryable")))
        return await run.stage(stage, error)
    call = call_of(InputRow(1, row_of(given, stage)), stage, context)
    return await run.stage(stage, call.messages, **call.details)


def row_of(given: dict[str, Any], stage: str) -> Any:
    """Return an input as the value of a row.

    Raises:
        UsageError: this stage takes no such input.
    """
    kind = given["kind"]
    field = STAGES[stage].value
    if field and kind in ("value", "text"):
        details = {key: given[key] for key in ("tool_name", "call_id") if isinstance(given.get(key), str)}
        return {field: given["value"] if kind == "value" else given["text"], **details}
    if kind == "text" and stage != "process_api_error":
        return given["text"]
    if kind == "conversation" and not field and stage != "process_api_error":
        return given["messages"]
    if kind == "row":
        return given["value"]
    wanted = "value" if field else "error" if stage == "process_api_error" else "text or conversation"
    raise UsageError(f"{stage} takes an input of the kind {wanted}, not {kind}")


def text_of(value: Any) -> str:
    """Return the text of an input that is streamed.

    Raises:
        UsageError: it has none.
    """
    if is_object(value):
        value = value.get("text", value.get("content"))
    if isinstance(value, str):
        return value
    raise UsageError("process_output_stream takes a text, or chunks of one")


async def _streamed(run: Run, stage: str, given: dict[str, Any], live: Live) -> list[str]:
    """Run the stage of streams on pieces of a text, and return the released pieces."""
    if given["kind"] == "chunks":
        pieces = [str(piece) for piece in given["chunks"]]
    else:
        text = text_of(given["text"] if given["kind"] == "text" else given.get("value"))
        size = max(1, int(given.get("size") or _PIECE))
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
    delay = float(given.get("delay") or 0)

    async def source() -> AsyncIterator[str]:
        for piece in pieces:
            live.came_in(len(piece))
            yield piece
            await anyio.sleep(delay)

    left: list[str] = []
    async with getattr(run, stage)(source()) as stream:
        async for chunk in stream:
            live.chunk(chunk)
            if chunk.type == "text-delta":
                left.append(chunk.text)
    live.flush()
    return [] if run.tripwire is not None else left


def _output(run: Run, stage: str, outcome: Outcome | None) -> Json:
    tripwire = run.tripwire
    made: Json = {
        "text": None,
        "messages": None,
        "value": None,
        "tripwire": None if tripwire is None else tripwire_json(tripwire),
    }
    if outcome is None or outcome.blocked:
        return made
    made["text"] = outcome.text
    if STAGES[stage].value:
        made["value"] = thaw(outcome.overrides.get(STAGES[stage].value))
    elif outcome.messages:
        made["messages"] = dumped(outcome.messages)
    return made


def dumped(messages: Any) -> object:
    """Return messages in the format of OpenAI's chat; None if they cannot be written in it."""
    from penstock.formats import dump_messages

    try:
        return dump_messages(messages, "openai-chat")
    except PenstockError:
        return None
