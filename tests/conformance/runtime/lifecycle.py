"""Scenarios A: which hooks run, what they see, what they may return, and what of it lasts. G06: the request context."""

from __future__ import annotations

from typing import Any

from penstock import Message
from penstock.engine import ModelRequest
from tests.conformance.runtime import rules
from tests.conformance.runtime.carriers import NAME
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.shapes import call_of, camel, lines, plain, prompt, told_error, usage_of
from tests.conformance.runtime.turns import Mode

STAGES_OF = {
    "input": ("process_input", "process_input_step", "process_llm_request", "process_llm_response"),
    "output": ("process_output_stream", "process_output_step", "process_output_result"),
}
LOOKS_ON = {"role": "observer", "edits": "nothing"}


def logger(id: str, log: list[Any], array: str) -> Hooks:
    """Return a processor that logs every hook it is called for."""

    def noting(stage: str) -> Any:
        def note(*given: Any) -> Any:
            log.append([id, stage, *[chunk.type for chunk in given[:-1]]])

        return note

    return Hooks(id, claims=LOOKS_ON, **{stage: noting(stage) for stage in STAGES_OF[array]})


@scenario("A01", {"*/log": SAME, "*/result/*": SAME})
async def single_step(world: Any, given: Any) -> Any:
    """Hooks in the order of the request's life, and within a stage in declared order."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        workflow = chain(*[logger(id, log, "input") for id in "AB"], *[logger(id, log, "output") for id in "CD"])
        talk = await Talk(world.start(workflow), given["model_turns"], mode=mode).play(
            conversation(given["input"], system=given["instructions"])
        )
        return {"log": log, "result": {"text": talk.text, "finishReason": talk.ended()["finishReason"]}}

    return await in_both(play)


def _told(ctx: Any, *names: str) -> dict[str, Any]:
    """Return what a hook was told, in the oracle's words; what is None was not."""
    words = {
        "tools": lambda: list(ctx.tools),
        "toolCalls": lambda: ctx.tool_calls and [call_of(call) for call in ctx.tool_calls],
        "text": lambda: ctx.text,
    }
    words |= {"finishReason": lambda: ctx.finish_reason, "toolChoice": lambda: ctx.tool_choice}
    words |= {
        "activeTools": lambda: ctx.active_tools,
        "model": lambda: ctx.model.name,
        "toolName": lambda: ctx.tool_name,
    }
    words |= {
        "toolCallId": lambda: ctx.call_id,
        "args": lambda: dict(ctx.arguments),
        "result": lambda: dict(ctx.result),
    }
    words |= {"usage": lambda: usage_of(ctx.usage)}
    words |= {"stepNumber": lambda: ctx.step_number, "steps_len": lambda: len(ctx.steps)}
    found = {name: words[name]() for name in names}
    told = {name: value for name, value in found.items() if value is not None or name == "activeTools"}
    return {"retryCount": ctx.retry_count, "messages": _joined(lines(ctx.messages)), **told}


def _joined(shown: list[str]) -> list[str]:
    """Join the answers of one run, which the reference keeps in one message."""
    made: list[str] = []
    for line in shown:
        if made and line.startswith("assistant:") and made[-1].startswith("assistant:"):
            made[-1] += "|" + line.removeprefix("assistant:")
        else:
            made.append(line)
    return made


@scenario(
    "A02",
    {
        "*/log/4": Better(rules.a_tool_result_belongs_to_its_step),
        "*/log/*": SAME,
        "*/model_calls/*/method": Neutral("one way to call a model"),
        "*/model_calls/*/*": SAME,
        "stream/result/text_promise": Better(rules.one_text_for_both),
        "*/result/*": SAME,
    },
)
async def tool_loop(world: Any, given: Any) -> Any:
    """What each hook is told over two model steps with a tool call between them."""
    return await in_both(lambda mode: _tool_loop(mode, world, given))


async def _tool_loop(mode: Mode, world: Any, given: Any) -> Any:
    log: list[Any] = []

    def use(q: str) -> Any:
        log.append(["tool", "execute", q])
        return {"answer": 42}

    def note(id: str, stage: str, *names: str) -> Any:
        return {stage: lambda ctx: log.append([id, stage, _told(ctx, *names)])}

    before = ("stepNumber", "steps_len", "tools", "toolChoice", "activeTools", "model")
    after = ("stepNumber", "steps_len", "finishReason", "text", "toolCalls", "usage")
    got = ("stepNumber", "toolName", "toolCallId", "args", "result")
    a = Hooks("A", claims=LOOKS_ON, **note("A", "process_input"), **note("A", "process_input_step", *before))
    c = Hooks("C", claims=LOOKS_ON, **note("C", "process_output_step", *after), **_result_hook(log, got))
    talk = Talk(world.start(chain(a, c)), given["model_turns"], mode=mode, tools={"lookup": use})
    await talk.play(conversation(given["input"], system="Be nice."))
    return {"log": log, "model_calls": [_call(call) for call in talk.calls], "result": talk.result()}


def _result_hook(log: list[Any], names: tuple[str, ...]) -> Any:
    return {
        "process_tool_result": lambda ctx: log.append(["C", "processToolResult", _told(ctx, *names)]),
        "process_output_result": lambda ctx: log.append(["C", "processOutputResult", _told_at_the_end(ctx)]),
    }


def _told_at_the_end(ctx: Any) -> dict[str, Any]:
    steps = [
        {
            "text": step.text,
            "finishReason": step.finish_reason,
            "toolCalls": [call.name for call in step.tool_calls],
            "toolResults": [plain(call.result) for call in step.tool_results],
        }
        for step in ctx.steps
    ]
    result = {"text": ctx.text, "finishReason": ctx.finish_reason, "usage": usage_of(ctx.usage), "steps": steps}
    return {"retryCount": ctx.retry_count, "messages": _joined(lines(ctx.messages)), "result": result}


def _call(call: ModelRequest) -> dict[str, Any]:
    return {
        "model": NAME,
        "prompt": prompt(call.messages),
        "tools": [tool.name for tool in call.tools],
        "toolChoice": call.tool_choice,
    }


REFUSED = Better(rules.what_is_no_message_is_refused)


@scenario(
    "A05",
    {
        "empty_array": Better(rules.an_empty_list_is_refused),
        "inplace_void": REFUSED,
        "list_void": REFUSED,
        "messages_only_object": REFUSED,
        "string/prompt": SAME,
        "string/threw": SAME,
        "*/*": SAME,
    },
)
async def what_process_input_may_return(world: Any, given: Any) -> Any:
    """Every kind of return value of `process_input`."""

    def in_place(ctx: Any) -> None:
        ctx.messages[0].parts[0].text = "MUTATED"

    def add(ctx: Any) -> Any:
        return ctx.message_list.add(Message.user("via list"))

    def forget(ctx: Any) -> None:
        add(ctx)

    hooks: dict[str, Any] = {
        "void": lambda _ctx: None,
        "null": lambda _ctx: None,
        "empty_array": lambda _ctx: [],
        "same_array": lambda ctx: ctx.messages,
        "inplace_void": in_place,
        "list_same": add,
        "list_void": forget,
        "with_system": lambda ctx: ctx.message_list.replace_system(f"REPLACED (was {ctx.system_messages[0].text})"),
        "messages_only_object": lambda _ctx: {"messages": [Message.user("changed")]},
        "system_in_array": lambda ctx: [*ctx.messages, Message.system("extra sys")],
        "string": lambda _ctx: "hello",
    }
    return {case: await _returned(world, hooks[case], given["input"]) for case in given["cases"]}


async def _returned(world: Any, hook: Any, text: str) -> Any:
    talk = await Talk(world.start(chain(Hooks("A", process_input=hook)))).play(conversation(text))
    if talk.error is None:
        return talk.result()
    return {"prompt": talk.prompt, "threw": kind_of(talk.error)}


def kind_of(error: BaseException) -> dict[str, Any]:
    """Return what an error tells, with the kind of the original in place of its words."""
    told = told_error(error)
    return {**told, "cause": (told["cause"] or "").split(":")[0]}


@scenario("A07", {"*": SAME})
async def system_messages_of_a_step_live_for_the_step(world: Any, given: Any) -> Any:
    """Untagged system messages fall back to what process_input left; tagged ones stay."""
    log: list[Any] = []

    def step(id: str, text: str, tag: str | None = None) -> Hooks:
        def hook(ctx: Any) -> Any:
            log.append([id, ctx.step_number, [message.text for message in ctx.system_messages]])
            return ctx.message_list.add(Message.system(text), tag=tag) if ctx.step_number == 0 else None

        return Hooks(id, process_input_step=hook)

    a = Hooks("A", process_input=lambda ctx: ctx.message_list.add(Message.system("FROM-INPUT")))
    steps = (step("B", "FROM-STEP0"), step("C", "UNTAGGED-ADD"), step("D", "TAGGED-ADD", "my-tag"))
    talk = await Talk(world.start(chain(a, *steps)), given["model_turns"]).play(conversation("Hi"))
    by_step = [[entry["text"] for entry in prompt if entry["role"] == "system"] for prompt in talk.prompts]
    return {"log": log, "system_by_step": by_step, "text": talk.result()["text"]}


@scenario(
    "A09",
    {
        "runs/*/last_state_seen_by_hook/*/*": SAME,
        "runs/*/request": SAME,
        "runs/*/mode": Neutral("one way to run"),
    },
)
async def state_lives_as_long_as_the_request(world: Any, given: Any) -> Any:
    """One state object a processor and request, the same in every hook."""
    del given
    stages = [*STAGES_OF["input"], *STAGES_OF["output"]]
    y = ["process_output_stream", "process_output_result"]
    workflow = chain(_remembering("X", stages), _remembering("Y", y))
    modes: tuple[Mode, ...] = ("generate", "stream")
    runs = []
    for mode in modes:
        for request in (1, 2):
            run = world.start(workflow)
            await Talk(run, mode=mode).play(conversation("Hi"))
            seen = {id: dict(run.request_context.get(id, {})) for id in "XY"}
            runs.append({"mode": mode, "request": request, "last_state_seen_by_hook": seen})
    return {"runs": runs}


def _remembering(id: str, stages: list[str]) -> Hooks:
    """Return a processor whose hooks append their names to its state, and tell what they found there."""

    def hook(stage: str) -> Any:
        def remember(*given: Any) -> Any:
            ctx = given[-1]
            seen = ctx.state.setdefault("seen", [])
            if stage not in seen:
                seen.append(stage)
            ctx.request_context.setdefault(id, {})[camel(stage)] = f"seen seen={'>'.join(seen)}"
            return given[0] if len(given) > 1 else None

        return remember

    return Hooks(id, **{stage: hook(stage) for stage in stages})


@scenario(
    "A11",
    {
        "empty_array/*": Better(rules.an_empty_list_is_refused),
        "void/stream/text_deltas": SAME,
        "*/stream/text_deltas": Better(rules.what_leaves_is_what_was_judged),
        "*/*/*": SAME,
    },
)
async def edits_of_the_result(world: Any, given: Any) -> Any:
    """What `process_output_result` returns is what the history and the result hold."""
    upper: Any = str.upper
    hooks: dict[str, Any] = {
        "array": lambda ctx: [
            m.with_parts(p.__class__(p.text.upper()) for p in m.parts).with_metadata(k=1) for m in ctx.messages
        ],
        "void": lambda _ctx: None,
        "empty_array": lambda _ctx: [],
        "inplace": lambda ctx: ctx.message_list.map_text(upper, ctx.messages),
        "drop_text": lambda ctx: [m.with_parts([m.parts[0].__class__("")]) for m in ctx.messages],
    }

    def play(hook: Any) -> Any:
        return lambda mode: _edited(mode, world, hook, given["model_turns"])

    return {case: await in_both(play(hooks[case])) for case in given["cases"]}


async def _edited(mode: Mode, world: Any, hook: Any, turns: Any) -> Any:
    seen: list[Any] = []

    def note(ctx: Any) -> Any:
        told = {"result_text": ctx.text, "finishReason": ctx.finish_reason, "retryCount": ctx.retry_count}
        seen.append({"messages": lines(ctx.messages), **told})
        return hook(ctx)

    run = world.start(chain(Hooks("A", process_output_result=note)))
    talk = await Talk(run, turns, mode=mode).play(conversation("Hi"))
    if talk.error is not None:
        return {"seen": seen, "threw": kind_of(talk.error)}
    ended = talk.result()
    return {"seen": seen, **ended, "steps": talk.ended()["steps"], "text_deltas": talk.deltas}


@scenario("G06", {"*": SAME})
async def one_request_context(world: Any, given: Any) -> Any:
    """What one hook puts into the request context, every later one sees; there always is one."""
    del given
    log: list[Any] = []

    def read(name: str) -> Any:
        return lambda ctx: log.append([name, ctx.request_context.get("k")])

    a = Hooks("A", process_input=lambda ctx: ctx.request_context.update(k=1))
    a.process_input_step = read("inputStep")

    def stream(chunk: Any, ctx: Any) -> Any:
        if chunk.type == "text-delta":
            read("outputStream")(ctx)
        return chunk

    b = Hooks("B", process_output_step=read("outputStep"), process_output_result=read("outputResult"))
    b.process_output_stream = stream
    there = lambda ctx: log.append(["there", ctx.request_context is not None])  # noqa: E731
    await Talk(world.start(chain(a, b))).play(conversation("Hi"))
    seen = list(log)
    await Talk(world.start(Hooks("C", process_input=there)), request_context=None).play(conversation("Hi"))
    return {"log": seen, "defined_when_not_passed": [there for name, there in log if name == "there"]}
