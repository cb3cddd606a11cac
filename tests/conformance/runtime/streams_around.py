"""Scenarios around the stream: what its hooks are told, state, workflows, verdicts at each place, a failed model."""

from __future__ import annotations

import json
from typing import Any

import anyio
import anyio.lowlevel

from penstock import Chunk, Message, Retry, Workflow
from tests.conformance.runtime import rules_streams as rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, scenario
from tests.conformance.runtime.lifecycle import LOOKS_ON
from tests.conformance.runtime.shapes import camel, entry_of, lines, problem_of
from tests.conformance.runtime.streaming import RESULTS, played, streaming, upper
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import ALL_STAGES, EVERY, SPENT

STOPPED = Better(rules.a_stopped_stream_leaves_nothing)
TAKEN_BACK = Better(rules.what_was_out_is_taken_back)
LATE = ("text-end", "finish", "step-finish")


@scenario(
    "B12",
    {
        "step-finish/log": SAME,
        "*/log": STOPPED,
        "text-delta/chunks": STOPPED,
        **{f"{place}/chunks": TAKEN_BACK for place in LATE},
        **{f"{place}/{key}": STOPPED for place in LATE for key in ("text_promise", "messages_after")},
        **{f"{place}/generate/messages": STOPPED for place in LATE},
        "*/generate/steps": EVERY,
        "*/steps": EVERY,
        **{f"{place}/generate/usage": SPENT for place in ("finish", "step-finish")},
        "*/generate/*": SAME,
        **{f"*/{key}": SAME for key in ("chunks", "text_promise", "finishReason_promise")},
        **{f"*/{key}": SAME for key in ("tripwire_property", "messages_after")},
    },
)
async def a_verdict_at_each_place(world: Any, given: Any) -> Any:
    """Aborts on each type of chunk."""
    found = {}
    for place in given["abort_on"]:
        log: list[Any] = []
        stream = await _stopped_on(place, world, given, "stream", log)
        generate = await _stopped_on(place, world, given, "generate", [])
        ended = stream.result()
        ended["steps"] = ended.pop("steps_promise")
        found[place] = {"log": log, **ended, "generate": {**generate.result(), "messages": generate.messages}}
    return found


async def _stopped_on(place: str, world: Any, given: Any, mode: Mode, log: list[Any]) -> Talk:
    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == place:
            ctx.abort(f"no {place}")
        return chunk

    def step(ctx: Any) -> None:
        told = {"text": ctx.text, "finishReason": ctx.finish_reason}
        log.append(["processOutputStep", {**told, "messages": [entry_of(message) for message in ctx.messages]}])

    def result(_ctx: Any) -> None:
        log.append(["processOutputResult"])

    z = Hooks("Z", claims=LOOKS_ON, process_output_step=step, process_output_result=result)
    return await played(world, given, Hooks("A", process_output_stream=guard), z, mode=mode)


@scenario("D06", {"*/writer_defined/processInput": Better(rules.every_hook_may_write), "*/writer_defined/*": SAME})
async def who_may_write(world: Any, given: Any) -> Any:
    """Every hook has a writer."""
    del given
    call = {"id": "c1", "name": "lookup", "args": {}}
    turns = [{"error": {"message": "down"}}, {"tool_calls": [call]}, {"text": "ok"}]

    async def play(mode: Mode) -> Any:
        found: dict[str, bool] = {}

        def look(stage: str) -> Any:
            def hook(*told: Any) -> Any:
                found[camel(stage)] = callable(told[-1].writer.write)
                return Retry() if stage == "process_api_error" else None

            return hook

        def stream(chunk: Chunk, ctx: Any) -> Chunk:
            look("process_output_stream")(ctx)
            return chunk

        hooks = {stage: look(stage) for stage in (*ALL_STAGES, "process_api_error")}
        await played(world, {"model_turns": turns}, Hooks("A", **{**hooks, "process_output_stream": stream}), mode=mode)
        return {"writer_defined": found}

    return await in_both(play)


@scenario("D09", {"log": Better(rules.the_attempt_is_told_everywhere), "text": SAME})
async def what_stream_hooks_are_told(world: Any, given: Any) -> Any:
    """Retry count, conversation and request context in the stream of a rejected and of an accepted attempt."""
    log: list[Any] = []

    def told(id: str) -> Hooks:
        def note(chunk: Chunk, ctx: Any) -> Chunk:
            if chunk.type == "text-delta":
                has_messages = bool(ctx.message_list.conversation)
                there = {"messageList": has_messages, "requestContext": ctx.request_context is not None}
                log.append([id, {"text": chunk.text, "retryCount": ctx.retry_count, **there}])
            return chunk

        return Hooks(id, process_output_stream=note)

    def judge(ctx: Any) -> None:
        log.append(["B.step", ctx.retry_count])
        if ctx.text == "bad":
            ctx.abort("x", retry=True)

    b = Hooks("B", process_output_step=judge)
    b.process_output_result = lambda ctx: log.append(["B.result", {"retryCount": ctx.retry_count}])  # type: ignore[attr-defined]
    run = world.start(chain(told("A"), b, told("C")), max_processor_retries=given["maxProcessorRetries"])
    talk = await Talk(run, given["model_turns"], mode="stream").play(conversation("Hi"))
    return {"log": log, "text": talk.text}


# Workflows, state


@scenario("E10", {"workflow/log": Better(rules.state_is_kept_between_chunks), "*/*": SAME})
async def a_workflow_in_the_stream(world: Any, given: Any) -> Any:
    """State between chunks, alone and nested."""
    found = {}
    for case in ("workflow", "workflow validateInputs=false", "plain", "array [plain X, workflow]"):
        log: list[Any] = []
        counting = _counting(log)
        inner = Workflow("inner").then(counting)
        plain = streaming("X", lambda chunk: chunk)
        workflow = {"plain": chain(counting), "array [plain X, workflow]": chain(plain, inner)}.get(case, chain(inner))
        talk = Talk(world.start(workflow), given["model_turns"], mode="stream")
        await talk.play(conversation("Hi"))
        types = [chunk.type for chunk in talk.sent]
        told = {"text": talk.text, "text_deltas": talk.deltas, "error": talk.error, "chunk_types": types}
        found[case] = {"log": log, **told}
    return found


def _counting(log: list[Any]) -> Hooks:
    def stream(chunk: Chunk, ctx: Any) -> Chunk:
        ctx.state["seen"] = ctx.state.get("seen", 0) + 1
        if chunk.type != "text-delta":
            return chunk
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        log.append({"n": ctx.state["n"], "streamParts": ctx.state["seen"]})
        return upper(chunk)

    result = {"process_output_result": lambda ctx: log.append({"result_sees_n": ctx.state.get("n")})}
    return Hooks("A", process_output_stream=stream, **result)


@scenario("E11", {"*": SAME})
async def every_output_stage_of_a_workflow(world: Any, given: Any) -> Any:
    """A step runs in the stages that it has, chunk by chunk in the stream."""
    log: list[Any] = []
    stages = {"outputStep": "process_output_step", "outputResult": "process_output_result"}

    def full(id: str, *, types: bool) -> Hooks:
        def stream(chunk: Chunk, _ctx: Any) -> Chunk:
            log.append([id, "outputStream", *([chunk.type] if types else [])])
            return chunk

        late = {stage: (lambda _ctx, name=name: log.append([id, name])) for name, stage in stages.items()}
        return Hooks(id, process_output_stream=stream, **late)

    b = Hooks("B", claims=LOOKS_ON, process_output_result=lambda _ctx: log.append(["B", "outputResult"]))
    workflow = Workflow("w").then(full("A", types=True)).then(full("P", types=False)).then(b)
    talk = await Talk(world.start(chain(workflow)), given["model_turns"], mode="stream").play(conversation("Hi"))
    types = [chunk.type for chunk in talk.sent]
    return {"log": log, "text": talk.text, "error": talk.error, "chunks": types}


@scenario("G05", {"*": SAME})
async def two_requests_at_once(world: Any, given: Any) -> Any:
    """Each request has its own state, though their chunks come in turns."""
    del given

    async def count(chunk: Chunk, ctx: Any) -> Chunk:
        await anyio.lowlevel.checkpoint()
        if chunk.type == "text-delta":
            ctx.request_context["n"] = ctx.state["n"] = ctx.state.get("n", 0) + 1
        return chunk

    workflow = chain(Hooks("A", process_output_stream=count))
    talks = [Talk(world.start(workflow), [{"deltas": list(text)}], mode="stream") for text in ("abc", "de")]
    async with anyio.create_task_group() as group:
        for talk in talks:
            group.start_soon(talk.play, conversation("Hi"))
    return {"texts": [talk.text for talk in talks], "n": [talk.start.request_context.get("n") for talk in talks]}


# Errors of the model


@scenario("C14", {"*/log": SAME, "*/model_calls": SAME, "*/prompts": SAME, **RESULTS})
async def a_failed_call_is_made_again(world: Any, given: Any) -> Any:
    """The handler's changes are seen by the call that is made again; here one step changes, and the next one asks."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []

        def mend(ctx: Any) -> Any:
            told = {"retryCount": ctx.retry_count, "error": problem_of(ctx.error), "status": ctx.error.status}
            shown = {"stepNumber": ctx.step_number, "messages": lines(ctx.messages), "state": json.dumps(ctx.state)}
            log.append(["E", {**told, **shown}])
            return [*ctx.messages, Message.user("fixed")]

        hooks = (Hooks("E", process_api_error=mend), Hooks("R", process_api_error=lambda _ctx: Retry()))
        talk = await played(world, given, *hooks, mode=mode)
        return {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": talk.result()}

    return await in_both(play)
