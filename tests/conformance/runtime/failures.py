"""Scenarios C, models that fail: who is asked, how often, what is told, and what is left of the failed attempts."""

from __future__ import annotations

import json
from typing import Any

from penstock import Retry
from tests.conformance.runtime import rules_agent as rules
from tests.conformance.runtime.driver import Hooks, Talk, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, scenario
from tests.conformance.runtime.lifecycle import LOOKS_ON
from tests.conformance.runtime.projection import project
from tests.conformance.runtime.retries import EXHAUSTED, RETRIED, strict
from tests.conformance.runtime.shapes import lines, problem_of
from tests.conformance.runtime.turns import Mode


@scenario("C11", {**EXHAUSTED, **RETRIED})
async def handlers_of_errors_grant_no_retries(world: Any, given: Any) -> Any:
    """That there are error processors gives answers that are rejected no budget."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        handler = Hooks("E", process_api_error=lambda _ctx: None)
        start = world.start(strict(log, [given["reason"]] * 9), error_processors=[handler], **given["agentOptions"])
        talk = await Talk(start, given["model_turns"], mode=mode).play(conversation(given["input"]))
        return {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": talk.result()}

    return await in_both(play)


NO_PART = Better(rules.an_error_is_no_message)


@scenario(
    "C13",
    {"*/log": Better(rules.a_failed_call_is_the_end), "stream/result/messages_after": NO_PART, "*/result/*": SAME},
)
async def nobody_mends_it(world: Any, given: Any) -> Any:
    """A call that failed is the end, and the error comes out as it is."""

    async def play(mode: Mode) -> Any:
        log: list[str] = []
        o = Hooks("O", claims=LOOKS_ON, process_output_stream=lambda chunk, _ctx: log.append(chunk.type))
        o.process_output_step = lambda _ctx: log.append("processOutputStep")
        o.process_output_result = lambda ctx: log.append(f"processOutputResult finishReason={ctx.finish_reason}")
        talk = Talk(world.start(o), given["model_turns"], mode=mode)
        await talk.play(conversation("Hi"))
        return {"log": log, "result": talk.result()}

    return await in_both(play)


def asking(log: list[Any], act: Any) -> Hooks:
    """Return a processor that logs what it is told of a failure, counts in its state, and does something."""

    def asked(ctx: Any) -> Any:
        told = {"retryCount": ctx.retry_count, "error": problem_of(ctx.error), "status": ctx.error.status}
        shown = {
            "stepNumber": ctx.step_number,
            "messages": lines(ctx.messages),
            "state": json.dumps(ctx.state, separators=(",", ":")),
        }
        log.append(["E", {**told, **shown}])
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        return act(ctx)

    return Hooks("E", process_api_error=asked)


TOLD = ("log", "model_calls", "prompts")


def _again(_ctx: Any) -> Retry:
    return Retry()


@scenario(
    "C16",
    {"stream/result/messages_after": NO_PART, "*/result/*": SAME, **{f"*/{key}": SAME for key in TOLD}},
    overrules="DESIGN §4: no part of a message is an error; §6: of a failed attempt nothing is kept",
)
async def a_budget_of_one(world: Any, given: Any) -> Any:
    """At the end of the budget the handler is asked once more, and its answer ignored."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        limit = given["maxProcessorRetries"]
        start = world.start(error_processors=[asking(log, _again)], max_processor_retries=limit)
        talk = await Talk(start, given["model_turns"], mode=mode).play(conversation("Hi"))
        return {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": talk.result()}

    return await in_both(play)


REFUSED = Better(rules.a_misplaced_processor_is_refused)


@scenario("C18", {"*/log": SAME, "*/model_calls": REFUSED, "*/prompts": REFUSED, "*/result": REFUSED})
async def handlers_in_the_wrong_arrays(world: Any, given: Any) -> Any:
    """A handler of errors among the input's or output's processors is no agent."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        arrays = {"input_processors": [asking(log, _again)], "output_processors": [asking(log, _again)]}
        start = world.start(**arrays, max_processor_retries=given["maxProcessorRetries"])
        talk = await Talk(start, given["model_turns"], mode=mode).play(conversation("Hi"))
        result = {"threw": type(talk.error).__name__}
        return {"log": log, "model_calls": len(talk.calls), "prompts": talk.prompts, "result": result}

    return await in_both(play)


VERDICT = Better(rules.a_verdict_on_an_error_is_one)


@scenario(
    "C19",
    {
        "generate/result": VERDICT,
        "stream/result/messages_after": SAME,
        "stream/result/*": VERDICT,
        **{f"*/{key}": SAME for key in TOLD},
    },
)
async def abort_on_an_error(world: Any, given: Any) -> Any:
    """A verdict about a failure is a verdict like any other."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        guard = asking(log, lambda ctx: ctx.abort("giving up", metadata={"k": 1}))
        talk = Talk(world.start(error_processors=[guard]), given["model_turns"], mode=mode)
        result = (await talk.play(conversation("Hi"))).result()
        if mode == "generate":
            result = {key: result[key] for key in ("text", "finishReason", "tripwire", "threw")}
        return {"log": log, "model_calls": len(talk.calls), "prompts": project(talk.prompts), "result": result}

    return await in_both(play)


OWN = Better(rules.budgets_of_their_own)


@scenario(
    "C21",
    {
        "generate/result": OWN,
        "stream/result/tripwire_property": SAME,
        "stream/result/*": OWN,
        **{f"*/{key}": OWN for key in TOLD},
    },
)
async def two_budgets(world: Any, given: Any) -> Any:
    """Calls that failed and answers that were rejected are counted apart."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []

        def judge(ctx: Any) -> None:
            log.append(["A", {"retryCount": ctx.retry_count, "text": ctx.text}])
            if ctx.text.startswith("bad"):
                ctx.abort("not good", retry=True)

        limit = given["maxProcessorRetries"]
        guard = Hooks("A", process_output_step=judge)
        start = world.start(guard, error_processors=[asking(log, _again)], max_processor_retries=limit)
        talk = await Talk(start, given["model_turns"], mode=mode).play(conversation("Hi"))
        result = (
            {**talk.result(), "error_property": talk.error}
            if mode == "stream"
            else {"text": talk.text, "threw": talk.error}
        )
        return {"log": log, "model_calls": len(talk.calls), "prompts": project(talk.prompts), "result": result}

    return await in_both(play)
