"""Scenarios G, and others about what an agent is made with: arrays, entries, callbacks, contexts, executors."""

from __future__ import annotations

import re
from typing import Any

from penstock import Chunk, Message, Workflow
from penstock.engine.graph.nodes import Step
from tests.conformance.runtime import rules_agent as rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.lifecycle import LOOKS_ON, kind_of
from tests.conformance.runtime.shapes import camel, chunk_of
from tests.conformance.runtime.turns import Mode


@scenario("G01", {"*/log": Better(rules.a_function_is_evaluated_once), "*/text": SAME})
async def arrays_as_functions(world: Any, given: Any) -> Any:
    """An array that is a function is evaluated once a request, and what it makes serves all its stages."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []

        def array(name: str, processor: Any) -> Any:
            def evaluated(context: Any) -> Any:
                log.append([name, "evaluated", context["tenant"]])
                return [processor()]

            return evaluated

        def remembering() -> Hooks:
            x = Hooks("X", process_output_stream=lambda chunk, ctx: ctx.state.update(x=1) or chunk)
            x.process_output_result = lambda ctx: log.append(["processOutputResult sees x", ctx.state.get("x")])
            return x

        arrays = {
            "input_processors": array("input", lambda: Hooks("I", process_input=lambda _ctx: None)),
            "output_processors": array("output", remembering),
            "error_processors": array("error", lambda: Hooks("E", process_api_error=lambda _ctx: None)),
        }
        start = world.start(**arrays, request_context={"tenant": "acme"})
        talk = await Talk(start, given["model_turns"], mode=mode).play(conversation("Hi"))
        return {"log": log, "text": talk.text}

    return await in_both(play)


@scenario("G02", {"hooks_called/*": SAME})
async def arrays_of_a_call(world: Any, given: Any) -> Any:
    """A call's array replaces the agent's of its kind, for that call."""
    called: list[str] = []

    def of(id: str, stage: str) -> Hooks:
        return Hooks(id, **{stage: lambda _ctx: called.append(f"{id}.{camel(stage)}")})

    mine = {"input_processors": [of("I", "process_input")], "output_processors": [of("O", "process_output_result")]}
    calls: dict[str, Any] = {
        "none": {},
        "inputProcessors:[X]": {"input_processors": [of("X", "process_input")]},
        "outputProcessors:[Y]": {"output_processors": [of("Y", "process_output_result")]},
        "inputProcessors:[]": {"input_processors": []},
        "outputProcessors:[]": {"output_processors": []},
        "none again": {},
    }
    found = {}
    start = world.start(**mine)
    for call in given["calls"]:
        called.clear()
        await Talk(start, **calls[call]).play(conversation("Hi"))
        found[call] = list(called)
    return {"hooks_called": found}


REFUSED = Better(rules.what_is_no_processor_is_refused)


@scenario("G04", {**dict.fromkeys(("nohooks", "* hook in * array", "missing id"), REFUSED), "llm hooks only/*": SAME})
async def entries_that_cannot_be_meant(world: Any, given: Any) -> Any:
    """What has no hook, no id, or none of its array's hooks, is refused when the agent is made."""
    del given

    class NoHooks:
        id = "nohooks"

    class NoId:
        def process_input(self, _ctx: Any) -> None:
            called.append("NoId.processInput")

    called: list[str] = []

    def note(id: str, stage: str) -> Hooks:
        return Hooks(id, **{stage: lambda _ctx: called.append(f"{id}.{camel(stage)}")})

    cases: dict[str, Any] = {
        "nohooks": {"input_processors": [NoHooks()]},
        "output hook in input array": {"input_processors": [note("A", "process_output_result")]},
        "input hook in output array": {"output_processors": [note("A", "process_input")]},
        "missing id": {"input_processors": [NoId()]},
        "llm hooks only": {"input_processors": [note("L", "process_llm_request")]},
    }
    found = {}
    for case, arrays in cases.items():
        called.clear()
        talk = await Talk(world.start(**arrays)).play(conversation("Hi"))
        threw = None if talk.error is None else type(talk.error).__name__
        found[case] = {
            "hooks_called": list(called),
            "text": talk.text if talk.came is not None else None,
            "threw": threw,
        }
    return found


WHOLE = Better(rules.a_workflow_is_always_whole)


@scenario(
    "G10",
    {"[[]createStep(A)]/threw": WHOLE, "[[]createStep(A)]/*": SAME, "*/*": WHOLE},
)
async def steps_and_workflows_in_arrays(world: Any, given: Any) -> Any:
    """A bare step is no entry of an array, alone or beside others; a workflow is one as soon as it is there."""
    del given

    def say(ctx: Any) -> Any:
        return [Message.user("by A") for _ in ctx.messages]

    a, x = Hooks("A", process_input=say), Hooks("X", process_input=lambda _ctx: None)
    workflow = Workflow("w").then(a)
    cases: dict[str, list[Any]] = {
        "[createStep(A)]": [Step(a)],
        "[X, createStep(A)]": [x, Step(a)],
        "[uncommitted workflow]": [workflow],
        "[X, uncommitted workflow]": [x, workflow],
    }
    found = {}
    for case, array in cases.items():
        talk = await Talk(world.start(input_processors=array)).play(conversation("Hi"))
        threw = None if talk.error is None else type(talk.error).__name__
        text = talk.prompt[-1]["text"] if talk.prompt else None
        found[case] = {"user_text": text, "text": talk.text if talk.came is not None else None, "threw": threw}
    return found


@scenario("M05", {"none": SAME, "*": Better(rules.the_end_is_told_once)})
async def who_is_told_what(world: Any, given: Any) -> Any:
    """The caller's functions are told of each end once, and never of a text that was blocked."""
    found = {}
    for name in given["stages"]:
        log: list[Any] = []
        stage = re.sub(r"([A-Z])", r"_\1", name).lower()

        def abort(*told: Any) -> Any:
            if len(told) == 1 or told[0].type == "text-delta":
                told[-1].abort("x")
            return told[0]

        guards = [] if name == "none" else [Hooks("A", **{stage: abort})]
        talk = Talk(world.start(*guards), mode="stream", **_callbacks(log))
        await talk.play(conversation("Hi"))
        found[name] = log
    return found


def _callbacks(log: list[Any]) -> dict[str, Any]:
    def chunk(one: Chunk) -> None:
        if one.type == "text-delta":
            log.append(["onChunk", one.type])

    return {
        "on_chunk": chunk,
        "on_step_finish": lambda step: log.append(["onStepFinish", step.finish_reason, step.text]),
        "on_finish": lambda result: log.append(["onFinish", result.finish_reason, result.text]),
        "on_error": lambda error: log.append(["onError", type(error).__name__]),
    }


@scenario(
    "D10",
    {
        **{
            f"defined/*/*/{key}": Neutral("cancellation and the agent are not the context's")
            for key in ("agent", "abortSignal")
        },
        "defined/*/processInput/writer": Better(rules.one_context_for_all),
        "defined/*/*/*": SAME,
    },
)
async def what_a_context_has(world: Any, given: Any) -> Any:
    """Each hook of each processor is told the same."""
    found: dict[str, Any] = {}

    def look(id: str, *stages: str) -> Hooks:
        def hook(stage: str) -> Any:
            def seen(*told: Any) -> Any:
                there = {"requestContext": told[-1].request_context is not None}
                found.setdefault(id, {})[camel(stage)] = {**there, "writer": callable(told[-1].writer.write)}
                return told[0] if len(told) > 1 else None

            return seen

        return Hooks(id, **{stage: hook(stage) for stage in stages})

    inputs = [look(id, "process_input", "process_input_step") for id in given["inputProcessors"]]
    late = ("process_output_stream", "process_output_step", "process_output_result")
    outputs = [look(id, *late) for id in given["outputProcessors"]]
    await Talk(world.start(input_processors=inputs, output_processors=outputs)).play(conversation("Hi"))
    return {"defined": found}


@scenario("D16", {"*": SAME})
async def one_more_chunk(world: Any, given: Any) -> Any:
    """A hook that kept a text sends it before the text's end; what comes behind sees it as any other."""
    del given
    log: list[Any] = []
    kept: list[Chunk] = []

    def keep(chunk: Chunk, _ctx: Any) -> Chunk | None:
        if chunk.type != "text-delta":
            return chunk
        kept.append(chunk)
        return None

    def flush(_ctx: Any) -> Chunk | None:
        if not kept:
            return None
        made = kept[-1].with_text("".join(chunk.text for chunk in kept))
        kept.clear()
        return made

    a = Hooks("A", process_output_stream=keep, flush=flush)
    logs = Hooks("L", claims=LOOKS_ON, process_output_stream=lambda chunk, _ctx: log.append(_entry(chunk)))
    talk = await Talk(world.start(a, logs), [{"deltas": ["ab", "cd"]}], mode="stream").play(conversation("Hi"))
    return {"L_log": log, "text": talk.text, "chunks": [chunk.type for chunk in talk.sent]}


def _entry(chunk: Chunk) -> dict[str, Any]:
    entry = chunk_of(chunk)
    if chunk.type == "finish":
        entry.pop("isContinued", None)
    return entry


@scenario("E29", {"*/*": Better(rules.there_is_one_executor)})
async def alone_and_in_an_agent(world: Any, given: Any) -> Any:
    """The same hooks see and leave the same, whether a run is started by hand or by an agent."""
    del given
    deltas = ["a", "b", "secret1", "z"]
    log: list[Any] = []
    start = world.start(*_row(log))
    talk = await Talk(start, [{"deltas": deltas}], mode="stream").play(conversation("Hi"))
    agent = {"log": list(log), "emitted": _emitted(talk.sent, talk.error)}
    log.clear()
    run = chain(*start.arrays.get("processors", ())).start()
    left: list[Chunk] = []
    error: Exception | None = None
    try:
        await run.process_input("Hi")
        async with run.process_output_stream(deltas) as chunks:
            async for chunk in chunks:
                left.append(chunk)  # noqa: PERF401 - what came before an error counts
    except Exception as raised:  # noqa: BLE001 - the scenario looks at it
        error = raised
    return {"direct_runner": {"log": list(log), "emitted": _emitted(left, error)}, "agent_path": agent}


def _row(log: list[Any]) -> list[Hooks]:
    def change(chunk: Chunk, _ctx: Any) -> Chunk | None:
        return None if chunk.text == "b" else chunk.with_text(re.sub(r"\d", "#", chunk.text.upper()))

    def crash(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == "text-delta":
            ctx.state["seen"] = [*ctx.state.get("seen", []), chunk.text]
            log.append(["B streamParts", ctx.state["seen"]])
        if "SECRET" in chunk.text:
            raise ValueError("boom")
        return chunk

    def stop(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.text == "Z":
            ctx.abort()
        return chunk

    hooks = {"A": change, "B": crash, "V": stop}
    return [Hooks(id, process_output_stream=hook) for id, hook in hooks.items()]


def _emitted(sent: list[Chunk], error: Exception | None) -> list[Any]:
    texts = [chunk_of(chunk) for chunk in sent if chunk.type == "text-delta"]
    return texts if error is None else [*texts, {"threw": kind_of(error)}]
