"""Scenarios E: sequences, branches and nested workflows as processors."""

from __future__ import annotations

from typing import Any

from penstock import Message, Retry, TextPart, Workflow
from penstock.engine import Overrides
from tests.conformance.runtime import rules
from tests.conformance.runtime.carriers import NAME
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.lifecycle import kind_of
from tests.conformance.runtime.parallels import JOINS, SPANS, appending, breaking, passing, play, suffix
from tests.conformance.runtime.shapes import lines, shown, told_error

INPUTS = Neutral("the shape of what a condition is given")


@scenario("E01", {"step_id_of_A": Neutral("the reference's wrapper"), "*": SAME})
async def sequence(world: Any, given: Any) -> Any:
    """Edits chain."""
    log: list[Any] = []

    def lower(ctx: Any) -> Any:
        log.append(["A", lines(ctx.messages)])
        return ctx.message_list.map_text(str.lower, ctx.messages)

    workflow = chain(Hooks("A", process_input=lower), suffix("B", log, "!"))
    return {"log": log, **await play(world, workflow, given["input"])}


# Branches


@scenario(
    "E07",
    {
        "*/condition_inputs": INPUTS,
        "both/with_map": Better(rules.every_arm_that_holds_counts),
        "A throws, B true/with_map": Better(rules.a_condition_that_raises_is_a_failure),
        "A throws, B true/no_map": Better(rules.a_condition_that_raises_is_a_failure),
        "*/no_map": JOINS,
        "*/with_map/*": SAME,
    },
)
async def which_arms_are_taken(world: Any, given: Any) -> Any:
    """None, one, several; a condition that raises is a failure."""

    def bug(_ctx: Any) -> bool:
        raise ValueError("cond bug")

    cases: dict[str, Any] = {
        "none": (never, never),
        "only A": (always, never),
        "both": (always, always),
        "A throws, B true": (bug, always),
    }
    found = {}
    for case in given["variants"]:
        name = case.replace("A condition throws", "A throws")
        a, b = cases[name]
        workflow = Workflow("w").branch((a, suffix("A")), (b, suffix("B")), match="all")
        talk = await Talk(world.start(workflow)).play(conversation("Hi"))
        found[name] = {"with_map": _taken(talk), "no_map": _taken(talk)}
    return found


def always(_ctx: Any) -> bool:
    """Hold."""
    return True


def never(_ctx: Any) -> bool:
    """Do not hold."""
    return False


def _taken(talk: Talk) -> Any:
    if talk.error is None:
        ended = talk.result()
        return {key: ended[key] for key in ("prompt", "text", "finishReason", "tripwire")}
    told = told_error(talk.error)
    return {"prompt": talk.prompt, "threw": {"error": told["error"], "cause": told["cause"]}}


@scenario("E08", {"*/*": SAME})
async def routing_by_content(world: Any, given: Any) -> Any:
    """If, else."""
    redact = Hooks("Redact", claims=SPANS)
    redact.process_input = lambda ctx: ctx.message_list.map_text(
        lambda text: text.replace("a@b.c", "[EMAIL]"), ctx.messages
    )
    workflow = Workflow("w").branch(
        (lambda ctx: "email" in ctx.text, redact), (lambda _ctx: True, suffix("Tag", text=" [tag]"))
    )
    return {text: await play(world, workflow, text) for text in given["inputs"]}


@scenario("E09", {"*/*/*": SAME})
async def nested(world: Any, given: Any) -> Any:
    """A workflow as a step: edits chain through it, a verdict comes out of it."""
    del given
    found: dict[str, Any] = {}
    for text in ("fine", "bad"):
        found[text] = {}
        for name, first, last in (("nested", "A", "C"), ("in_array", "X", "Y")):
            log: list[Any] = []
            inner = Workflow("inner").then(_picky(log))
            ends = [suffix(id, log, id) for id in (first, last)]
            played = await play(world, chain(ends[0], inner, ends[1]), text)
            found[text][name] = {"log": log, **played}
    return found


def _picky(log: list[Any]) -> Hooks:
    def judge(ctx: Any) -> Any:
        log.append(["B", lines(ctx.messages)])
        if "bad" in ctx.text:
            ctx.abort("B blocked", metadata={"m": 1})
        return ctx.message_list.map_text(lambda text: text + "B", ctx.messages)

    return Hooks("B", process_input=judge)


# Errors, overrides, hooks


@scenario(
    "E13",
    {
        "input: map returns changed messages array/prompt": Better(rules.a_list_returned_at_the_end_counts),
        "outputStream: step throws": Better(rules.a_check_that_broke_has_not_passed),
        "outputResult: step throws/*": SAME,
        "input: */*": SAME,
    },
)
async def errors_in_a_workflow(world: Any, given: Any) -> Any:
    """Errors and wrong values come out; nothing returned is nothing changed."""
    del given

    def change(ctx: Any) -> Any:
        return [message.with_parts([TextPart("CHANGED IN MAP")]) for message in ctx.messages]

    hooks: dict[str, Any] = {
        "input: step throws": breaking("boom"),
        "input: map returns {foo:1}": lambda _ctx: {"foo": 1},
        "input: map returns undefined": lambda _ctx: None,
        "input: map returns changed messages array": change,
    }
    found: dict[str, Any] = {
        case: await play(world, chain(passing("P"), Hooks("A", process_input=hook))) for case, hook in hooks.items()
    }
    workflow = chain(Hooks("A", process_input=change), passing("P"))
    found["input: map changes messages, then processor"] = await play(world, workflow)
    talk = Talk(world.start(chain(Hooks("A", process_output_result=breaking("boom")))))
    await talk.play(conversation("Hi"))
    threw = told_error(talk.error) if talk.error else None
    found["outputStream: step throws"] = await _broken_stream(world)
    reason = talk.ended()["finishReason"]
    found["outputResult: step throws"] = {"text": talk.result()["text"], "finishReason": reason, "error": threw}
    return found


async def _broken_stream(world: Any) -> Any:
    def broken(chunk: Any, _ctx: Any) -> Any:
        return breaking("boom")(chunk) if chunk.type == "text-delta" else chunk

    run = world.start(chain(passing("P"), Hooks("A", process_output_stream=broken)))
    talk = await Talk(run, [{"deltas": ["a", "b"]}], mode="stream").play(conversation("Hi"))
    return {"chunks": talk.chunks, "error": told_error(talk.error) if talk.error else None}


@scenario(
    "E15",
    {
        "call/method": Neutral("one way to call a model"),
        "call/tools": Better(rules.overrides_of_all_branches_merge),
        "call/*": SAME,
        "text": SAME,
        "threw": SAME,
    },
)
async def overrides_in_parallel(world: Any, given: Any) -> Any:
    """What two branches override and add is all there."""
    del given

    def a(ctx: Any) -> Any:
        return Overrides(model_settings={"temperature": 0.1}, messages=[*ctx.messages, Message.user("from A")])

    def b(ctx: Any) -> Any:
        added = ctx.message_list.add([Message.system("B-sys"), Message.user("from B")])
        return Overrides(tool_choice="none", messages=added)

    hooks = [Hooks(id, process_input_step=hook) for id, hook in (("A", a), ("B", b))]
    talk = Talk(world.start(Workflow("w").parallel(*hooks, merge="first")))
    await talk.play(conversation("Hi"))
    [call] = talk.calls
    shown = {"model": NAME, "prompt": talk.prompt, "tools": [tool.name for tool in call.tools]}
    rest = {"toolChoice": call.tool_choice, "temperature": call.settings["temperature"]}
    return {"call": {**shown, **rest}, "text": talk.result()["text"], "threw": None}


RUNS = Better(rules.every_hook_runs_in_a_workflow)


@scenario(
    "E16",
    {
        "hooks_called": RUNS,
        "abort_in_workflow/onViolation_called": RUNS,
        "abort_in_workflow/tripwire": SAME,
        "error_processor_workflow/prompt": RUNS,
        "error_processor_workflow/threw": RUNS,
        "error_processor_workflow/tripwire": SAME,
    },
)
async def every_hook_in_a_workflow(world: Any, given: Any) -> Any:
    """A nested processor has every stage, and observers are told of its verdict."""
    del given
    called: list[str] = []

    def note(name: str) -> Any:
        return lambda _ctx: called.append(name)

    a = Hooks("A", process_input=note("processInput"), process_llm_request=note("processLLMRequest"))
    a.process_llm_response = note("processLLMResponse")
    await Talk(world.start(chain(Workflow("inner").then(a)))).play(conversation("Hi"))
    told: list[Any] = []

    class Listener:
        def on_record(self, record: Any) -> None:
            told.append(record)

    v = Hooks("V", process_input=lambda ctx: ctx.abort("x"))
    run = world.start(chain(Workflow("inner").then(v)), observers=[Listener()])
    talk = await Talk(run).play(conversation("Hi"))
    violated = any(record.status == "tripped" and record.processor_id == "V" for record in told)
    found = {"hooks_called": called, "abort_in_workflow": {"onViolation_called": violated, **talk.result()}}
    again = Workflow("errors").then(Hooks("E", process_api_error=lambda _ctx: Retry()))
    turns = [{"error": {"status": 400, "message": "bad"}}, {"text": "ok"}]
    talk = await Talk(world.start(error_processors=[again]), turns).play(conversation("Hi"))
    mended = {"threw": None if talk.error is None else told_error(talk.error), "tripwire": shown(talk.tripwire)}
    return {**found, "error_processor_workflow": {**mended, "prompt": talk.prompts}}


@scenario(
    "E19",
    {
        "list + void": Better(rules.what_is_no_message_is_refused),
        "list + return list": Better(rules.every_processor_sees_the_same_scope),
        "*": SAME,
    },
)
async def what_the_next_one_sees(world: Any, given: Any) -> Any:
    """A processor sees what its predecessor left, in the scope of the stage."""
    del given

    def add(ctx: Any) -> Any:
        return ctx.message_list.add(Message.user("added by A"))

    def forget(ctx: Any) -> None:
        add(ctx)

    hooks: dict[str, Any] = {"returns array": appending("!"), "list + void": forget, "list + return list": add}
    found: dict[str, Any] = {}
    for case, hook in hooks.items():
        log: list[Any] = []

        def a(ctx: Any, hook: Any = hook, log: list[Any] = log) -> Any:
            log.append(["A sees", lines(ctx.messages)])
            return hook(ctx)

        def b(ctx: Any, log: list[Any] = log) -> None:
            log.append(["B sees messages", lines(ctx.messages), "list", lines(ctx.message_list.conversation)])

        workflow = chain(Hooks("A", process_input=a), Hooks("B", process_input=b))
        talk = await Talk(world.start(workflow)).play(conversation("Hi", context=["older context"]))
        found[case] = log if talk.error is None else {"prompt": talk.prompt, "threw": kind_of(talk.error)}
    return found


@scenario("E25", {"*/*": SAME})
async def retry_out_of_a_workflow(world: Any, given: Any) -> Any:
    """A request for a retry, with its metadata, comes out of sequences, parallels and nested workflows."""

    def judge(ctx: Any) -> None:
        if ctx.text == "bad":
            ctx.abort("no bad", retry=True, metadata={"rc": ctx.retry_count})

    guard = Hooks("A", claims={"edits": "nothing"}, process_output_step=judge)
    beside = Hooks("B", claims={"edits": "nothing"}, process_output_step=lambda _ctx: None)
    workflows = {
        "then": Workflow("w").then(guard),
        "parallel": Workflow("w").parallel(guard, beside),
        "nested in array": chain(passing("X"), Workflow("inner").then(guard)),
    }
    found = {}
    for case, workflow in workflows.items():
        run = world.start(workflow, max_processor_retries=given["maxProcessorRetries"])
        talk = await Talk(run, given["model_turns"]).play(conversation("Hi"))
        ended = talk.result()
        second = talk.prompts[1] if len(talk.prompts) > 1 else None
        found[case] = {"text": ended["text"], "steps": ended["steps"], "second_prompt": second}
    return found


@scenario("E26", {"*": SAME})
async def the_same_in_sequence(world: Any, given: Any) -> Any:
    """Two editors one after the other, each of one message."""
    hooks = [Hooks(id, process_input=appending(f" [{id}]", only)) for id, only in (("A", "first"), ("B", "second"))]
    return {"prompt": (await play(world, chain(*hooks), *given["input"]))["prompt"]}
