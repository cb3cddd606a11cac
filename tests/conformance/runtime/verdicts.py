"""Scenarios B: verdicts, ordinary errors and wrong returns at each stage."""

from __future__ import annotations

from typing import Any, get_args

from penstock import Message, MessageList
from penstock.engine import Overrides
from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.lifecycle import LOOKS_ON, kind_of
from tests.conformance.runtime.projection import snake
from tests.conformance.runtime.shapes import camel, shown, told_error
from tests.conformance.runtime.turns import Mode

STOPS = Better(rules.everything_stops_at_a_verdict)
ALL_STAGES = (
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_output_stream",
    "process_llm_response",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
)
STREAM_AND_LATER = ("process_output_stream", *ALL_STAGES[5:])


def spy(id: str, log: list[Any], *stages: str, abort: dict[str, Any] | None = None, from_step: int = 0) -> Hooks:
    """Return a processor that logs its hooks; an observer, unless it aborts in one of them."""

    def hook(stage: str) -> Any:
        def called(*given: Any) -> None:
            ctx = given[-1]
            log.append(f"{id}.{stage}" if len(given) == 1 else f"{id}.{stage}:{given[0].type}")
            if abort is not None and snake(abort["stage"]) == stage and ctx.step_number >= from_step:
                ctx.abort(abort["reason"], **abort["options"])

        if stage == "process_output_stream":
            return lambda chunk, ctx: called(chunk, ctx) or chunk
        return called

    claims = LOOKS_ON if abort is None else {}
    return Hooks(id, claims=claims, **{stage: hook(stage) for stage in stages})


async def _aborted(world: Any, given: Any, *, from_step: int = 0) -> Any:
    """Play what B01–B10 have in common: A aborts, Z comes behind it, O is an output processor."""
    return await in_both(lambda mode: _aborted_in(mode, world, given, from_step))


async def _aborted_in(mode: Mode, world: Any, given: Any, from_step: int) -> Any:
    log: list[Any] = []
    stage = snake(given["abort"]["stage"])
    output = "outputProcessors" in given
    z = STREAM_AND_LATER if output else (*ALL_STAGES[:3], "process_llm_response")
    items = [spy("A", log, stage, abort=given["abort"], from_step=from_step), spy("Z", log, *z)]
    workflow = chain(*items) if output else chain(*items, spy("O", log, *STREAM_AND_LATER))

    def tool(**_: Any) -> Any:
        log.append("tool executed")
        return {"answer": 42}

    talk = Talk(world.start(workflow), given["model_turns"], mode=mode, tools={"lookup": tool})
    await talk.play(conversation(given["input"]))
    calls = {"model_calls_when_result_returned": len(talk.calls), "model_calls_after_settling": len(talk.calls)}
    return {"log": log, **calls, "prompts_after_first": talk.prompts[1:], "result": talk.result()}


ONE = Better(rules.one_outcome_for_every_stage)
STATUS = "DESIGN §6: status is blocked, the same at every stage"
AS_RECORDED = {
    "*/result/status": ONE,
    "*/result/*": SAME,
    "*/log": SAME,
    "*/model_calls_*": SAME,
    "*/prompts_after_first": SAME,
}


@scenario(
    "B01",
    {"*/result/messages*": STOPS, **AS_RECORDED},
    overrules=f"{STATUS}; and nothing of what was blocked is kept: here, the input",
)
async def abort_in_process_input(world: Any, given: Any) -> Any:
    """The model is never called."""
    return await _aborted(world, given)


@scenario("B03", AS_RECORDED, overrules=STATUS)
async def abort_in_a_later_input_step(world: Any, given: Any) -> Any:
    """What was accepted before stays."""
    return await _aborted(world, given, from_step=1)


@scenario("B04", AS_RECORDED, overrules=STATUS)
async def abort_in_llm_request(world: Any, given: Any) -> Any:
    """The model is never called."""
    return await _aborted(world, given)


EVERY = Better(rules.every_attempt_is_a_step)
SPENT = Better(rules.what_was_spent_is_told)
COUNTED = {"*/result/steps": EVERY, "*/result/steps_promise": EVERY, "*/result/usage": SPENT}


@scenario(
    "B05",
    {
        **{f"*/result/{key}": STOPS for key in ("messages", "chunks", "text_promise", "messages_after")},
        **COUNTED,
        **AS_RECORDED,
    },
)
async def abort_in_llm_response(world: Any, given: Any) -> Any:
    """The answer is gone from the history too."""
    return await _aborted(world, given)


LEAKING = ("text", "finishReason", "steps", "text_promise", "finishReason_promise", "steps_promise")
GONE = ("chunks", "messages", "messages_after")
LEAKS = {
    **{f"*/result/{key}": STOPS for key in (*LEAKING, *GONE)},
    "*/log": STOPS,
    **{pattern: how for pattern, how in AS_RECORDED.items() if pattern != "*/log"},
}


@scenario("B07", LEAKS)
async def abort_in_output_step(world: Any, given: Any) -> Any:
    """The blocked answer is nowhere, and no further hook runs."""
    return await _aborted(world, given)


@scenario(
    "B09",
    {
        "*/log": STOPS,
        "*/model_calls_after_settling": STOPS,
        "*/prompts_after_first": STOPS,
        **{f"*/result/{key}": STOPS for key in (*GONE, "text_promise")},
        **COUNTED,
        **{pattern: how for pattern, how in AS_RECORDED.items() if pattern not in ("*/log", "*/prompts_after_first")},
    },
)
async def abort_in_tool_result(world: Any, given: Any) -> Any:
    """Nothing goes on in the background, and the step that called the tool is blocked as a whole."""
    return await _aborted(world, given)


@scenario(
    "B17",
    {
        **{f"*/{key}": STOPS for key in (*LEAKING, *GONE)},
        "*/status": ONE,
        "*/*": SAME,
    },
)
async def the_smallest_leak(world: Any, given: Any) -> Any:
    """A single guard after the model: its verdict empties the text, and nothing has left."""
    a = Hooks("A", process_output_step=lambda ctx: ctx.abort("blocked"))

    async def play(mode: Mode) -> Any:
        talk = Talk(world.start(chain(a)), given["model_turns"], mode=mode)
        return (await talk.play(conversation("Hi"))).result()

    return await in_both(play)


async def _stopped_at(world: Any, stage: str, *guards: Any, mode: Mode = "generate") -> Talk:
    """Play a request whose workflow has those hooks at one stage."""
    hooks = [Hooks(id, **at_stage(stage, hook)) for id, hook in zip("ABC", guards, strict=False)]
    return await Talk(world.start(chain(*hooks)), [{"text": "hi"}], mode=mode).play(conversation("Hi"))


def at_stage(stage: str, hook: Any) -> dict[str, Any]:
    """Return a hook of a context as one of that stage; in the stream it gives each chunk back."""
    return {stage: (lambda chunk, ctx: hook(ctx) or chunk) if stage == "process_output_stream" else hook}


@scenario("B11", {"*": SAME})
async def the_default_reason(world: Any, given: Any) -> Any:
    """Without a reason, the reason names the processor."""
    del given
    stages = [stage for stage in ALL_STAGES if stage != "process_tool_result"]
    talks = {stage: await _stopped_at(world, stage, lambda ctx: ctx.abort()) for stage in stages}
    return {camel(stage): shown(talk.tripwire) for stage, talk in talks.items()}


CAUSE = Better(rules.the_original_error_is_the_cause)


@scenario(
    "B14",
    {
        "processOutputStream/*/*": Better(rules.a_check_that_broke_has_not_passed),
        "*/*/log": SAME,
        "*/*/result": CAUSE,
    },
)
async def an_ordinary_error(world: Any, given: Any) -> Any:
    """An error at any stage stops the request, and its original is the cause; nothing leaves that was not judged."""
    turns = [
        {"text": "let me see", "tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]},
        {"text": "done"},
    ]

    async def play(stage: str, mode: Mode) -> Any:
        log: list[Any] = []
        workflow = chain(Hooks("A", **{stage: _broken_at(stage)}), spy("Z", log, stage))
        script = turns if stage == "process_tool_result" else given["model_turns_text"]
        talk = await Talk(world.start(workflow), script, mode=mode).play(conversation("Hi"))
        kept = ("threw", "chunks") if talk.error is not None else tuple(talk.result())
        return {"log": log, "result": {key: value for key, value in talk.result().items() if key in kept}}

    return {camel(stage): await in_both(lambda mode, stage=stage: play(stage, mode)) for stage in ALL_STAGES}


def _broken_at(stage: str) -> Any:
    """Return a hook that raises; in the stream, where the text begins."""

    def broken(ctx: Any) -> None:
        raise ValueError("boom")

    def broken_at_text(chunk: Any, _ctx: Any) -> Any:
        if chunk.type == "text-delta":
            raise ValueError("boom")
        return chunk

    return broken_at_text if stage == "process_output_stream" else broken


LOST = Better(rules.an_error_is_the_end)


@scenario(
    "B15",
    {
        "processInput/stream/threw": SAME,
        "*/stream/threw": LOST,
        "processOutputStep/stream/chunks": LOST,
        "processOutputResult/stream/error": SAME,
        "processOutputResult/stream/*": LOST,
        "processInput/stream/error": Neutral("the property of a stream that the reference does not give"),
        "*/*/*": SAME,
    },
    overrules="DESIGN §9: what a later guard is to judge does not leave before; §6: a check that broke has not passed",
)
async def a_foreign_list(world: Any, given: Any) -> Any:
    """A list that does not derive from the context's is refused wherever messages are taken."""
    del given
    other = MessageList([Message.user("foreign")])
    both = {"messages": other, "message_list": other}
    hooks: dict[str, tuple[str, Any]] = {
        "processInput": ("process_input", lambda _ctx: other),
        "processInputStep": ("process_input_step", lambda _ctx: other),
        "processInputStep.object": ("process_input_step", lambda _ctx: Overrides(messages=other)),
        "processInputStep.both": ("process_input_step", lambda _ctx: Overrides(**both)),
        "processOutputStep": ("process_output_step", lambda _ctx: other),
        "processOutputResult": ("process_output_result", lambda _ctx: other),
    }
    found = {}
    for case, (stage, hook) in hooks.items():
        talk = await _stopped_at(world, stage, hook)
        told = told_error(talk.error) if talk.error else {}
        threw = told if told.get("processor") == "A" else None
        found[case] = {"generate": {"threw": threw, "error": None}}
        talk = await _stopped_at(world, stage, hook, mode="stream")
        threw = None if talk.error is None else kind_of(talk.error)
        lost = {key: {"rejected": threw} for key in ("text", "finishReason")}
        found[case]["stream"] = {
            **lost,
            "error": threw,
            "threw": threw,
            "chunks": [chunk["type"] for chunk in talk.chunks],
        }
    return found


@scenario(
    "B19",
    {
        "processOutputStream/called": STOPS,
        "processOutputStep/text": STOPS,
        "processOutputStep/finishReason": STOPS,
        "processOutputResult/text": STOPS,
        "*/*": SAME,
    },
    overrules="DESIGN §6: text of the blocked step is empty everywhere, and the reason to finish is always other",
)
async def the_first_of_two_aborts(world: Any, given: Any) -> Any:
    """In a sequence the first to abort wins, and the second is not called."""
    del given
    found = {}
    for stage in ("process_input", "process_input_step", *STREAM_AND_LATER):
        if stage == "process_tool_result":
            continue
        called: list[str] = []

        def guard(id: str, called: list[str] = called) -> Any:
            def abort(ctx: Any) -> None:
                called.append(id)
                ctx.abort(f"from {id}")

            return abort

        talk = await _stopped_at(world, stage, guard("A"), guard("B"))
        found[camel(stage)] = {"called": called, **talk.result()}
    return found


@scenario(
    "B20",
    {
        "variants/*/options": Neutral("what was given"),
        "variants/*/keys": Neutral("how its fields are spelled"),
        "variants/*/*": SAME,
    },
)
async def the_fields_of_a_tripwire(world: Any, given: Any) -> Any:
    """Reason, retry and metadata come out as they were given."""
    found = []
    for options in given["variants"]:
        talk = await _stopped_at(world, "process_input", lambda ctx, options=options: ctx.abort("r", **options))
        found.append(talk.result())
    return {"variants": found}


LATE = ("processOutputStep", "processOutputResult")


@scenario(
    "B24",
    {
        "table/*/stream_status": ONE,
        "table/processOutputStep/*_finishReason": ONE,
        **{f"table/{stage}/generate_text": ONE for stage in LATE},
        **{f"table/{stage}/stream_emits_tripwire_chunk": ONE for stage in LATE},
        **{f"table/{stage}/chunk_has_runId_from": ONE for stage in ("processOutputStream", *LATE)},
        "table/processOutputStep/stream_text": ONE,
        "table/*/*": SAME,
    },
)
async def one_outcome(world: Any, given: Any) -> Any:
    """What a caller and a client are told of a verdict is the same at every stage."""
    del given
    table = {}
    for stage in ("process_input", "process_input_step", "process_output_stream", *map(snake, LATE)):
        talks = {mode: await _stopped_at(world, stage, _says_x, mode=mode) for mode in get_args(Mode)}
        told = [chunk for chunk in talks["stream"].sent if chunk.type == "tripwire"]
        found: dict[str, Any] = {"generate_throws": talks["generate"].error is not None}
        for mode, talk in talks.items():
            ended = talk.ended()
            found |= {f"{mode}_{name}": ended[name] for name in ("finishReason", "text", "status")}
        by = [(chunk.payload["processor_id"], chunk.payload["stage"]) for chunk in told]
        found |= {"stream_emits_tripwire_chunk": by == [("A", stage)]}
        found |= {"chunk_has_runId_from": [chunk.run_id for chunk in told] == [talks["stream"].came.run_id]}
        table[camel(stage)] = found
    return {"table": table}


def _says_x(ctx: Any) -> None:
    ctx.abort("x")
