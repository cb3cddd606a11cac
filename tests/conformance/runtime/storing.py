"""Scenarios with a memory: what is remembered, where it stands, and what is written of a request that was blocked."""

from __future__ import annotations

import re
from typing import Any

from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Start, Talk, World, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.memory import Memory
from tests.conformance.runtime.shapes import entry_of, lines
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import STOPS

THREAD = {"thread_id": "t", "resource_id": "r"}


def remembering(world: World, memory: Memory, *processors: Any, **options: Any) -> Start:
    """Return what an agent with a memory is made with, for a request in a thread."""
    return world.start(*processors, memory=memory, request_context=dict(THREAD), **options)


def saved(memory: Memory) -> list[Any]:
    """Return what is stored of the thread, as the oracle writes it."""
    return [entry_of(message) for message in memory.saved["t"]]


@scenario(
    "B18",
    {
        "processOutputStep/*/text": STOPS,
        "processOutputStep/*/saved": STOPS,
        "processOutputStream/stream/text": STOPS,
        "processOutputResult/generate/text": STOPS,
        "*/*/*": SAME,
    },
)
async def nothing_blocked_is_saved(world: Any, given: Any) -> Any:
    """Whatever stage gives a verdict, neither question nor answer is saved."""

    async def play(stage: str, mode: Mode) -> Any:
        memory = Memory()
        talk = Talk(remembering(world, memory, *_guards(stage, mode)), given["model_turns"], mode=mode)
        await talk.play(conversation("Hi"))
        ended = talk.ended()
        return {"tripwire": ended["tripwire"], "text": ended["text"], "saved": saved(memory)}

    stages = ["none", *(name.split(" ")[0] for name in given["abort_stages"][1:])]
    return {stage: await in_both(lambda mode, stage=stage: play(stage, mode)) for stage in stages}


def _guards(stage: str, mode: Mode) -> list[Hooks]:
    """Return the guard of a case: one that aborts at that stage, if it is one."""
    if stage == "processOutputStream":

        def second(chunk: Any, ctx: Any) -> Any:
            ctx.state["n"] = ctx.state.get("n", 0) + (chunk.type == "text-delta")
            if ctx.state["n"] == (1 if mode == "generate" else 2):
                ctx.abort("no")
            return chunk

        return [Hooks("A", process_output_stream=second)]
    name = re.sub(r"([A-Z])", r"_\1", stage).lower()
    return [] if stage == "none" else [Hooks("A", **{name: lambda ctx: ctx.abort("no")})]


@scenario("M06", {"*": SAME})
async def a_rejected_answer_is_not_kept(world: Any, given: Any) -> Any:
    """Neither the rejected answer nor the feedback is saved."""

    def judge(ctx: Any) -> None:
        if ctx.text == "bad":
            ctx.abort("no", retry=True)

    memory = Memory()
    start = remembering(
        world,
        memory,
        Hooks("A", process_output_step=judge),
        max_processor_retries=given["maxProcessorRetries"],
    )
    talk = await Talk(start, given["model_turns"]).play(conversation("Hi"))
    assert talk.came is not None
    system = talk.came.message_list
    assert lines(system.system) == lines(system.tagged(None))  # no feedback is left
    return {"text": talk.text, "saved": saved(memory)}


@scenario(
    "G03",
    {"log/1/1": Better(rules.memory_is_no_input), "log/*/*": SAME, **dict.fromkeys(("*_chain", "saved"), SAME)},
    overrules="DESIGN §5: which messages a stage shows is the stage's; at the input, what the caller said",
)
async def memory_around_the_others(world: Any, given: Any) -> Any:
    """Memory's processors come before the user's at the input, and behind them at the output."""
    del given
    memory = Memory(working=True)
    log: list[Any] = []

    def look(ctx: Any) -> None:
        memory.called.append("U")
        own = len(ctx.system_messages)
        everything = ctx.message_list
        told = {"messages": lines(ctx.messages), "all": lines(everything.all), "untagged_system": own}
        log.append(["U", {**told, "all_system": len(everything.system)}])

    def sign(ctx: Any) -> Any:
        memory.called.append("V")
        return ctx.message_list.map_text(lambda text: f"{text} [V]", ctx.messages)

    processors = [Hooks("U", process_input=look), Hooks("V", process_output_result=sign)]
    for text, answer in (("first", "answer one"), ("second", "answer two")):
        await Talk(remembering(world, memory, *processors), [{"text": answer}]).play(conversation(text))
    chain_of_one = [f"processor:{id}" for id in memory.called[:6]]
    return {"input_chain": [chain_of_one[:4]], "output_chain": [chain_of_one[4:]], "log": log, "saved": saved(memory)}


@scenario(
    "E30",
    {
        "*/other_writes": Neutral("what the reference writes of a request for itself"),
        "plain array/*": SAME,
        "*/processor_workflow_writes": Better(rules.a_run_writes_nothing),
        "*/text": SAME,
    },
)
async def what_is_written_while_processors_run(world: Any, given: Any) -> Any:
    """Nothing but what the memory saves, which is what the guards left."""
    raw = given["input"]

    def redact(ctx: Any) -> Any:
        return ctx.message_list.map_text(lambda text: re.sub(r"\d", "#", text), ctx.messages)

    def in_stream(chunk: Any, _ctx: Any) -> Any:
        return chunk.with_text(re.sub(r"\d", "x", chunk.text))

    a = Hooks("A", process_input=redact, process_output_stream=in_stream)
    workflow = chain(a).named("pw")
    found = {}
    for case, item in (("plain array", a), ("workflow input", workflow), ("workflow output", workflow)):
        memory = Memory()
        talk = Talk(remembering(world, memory, item), [{"text": "ok 1"}], mode="stream")
        await talk.play(conversation(raw))
        writes = [
            {"by": by, "contains_raw_ssn": raw in lines(messages)[0]}
            for by, messages in memory.writes
            if by != "message-history" or raw in lines(messages)[0]
        ]
        found[case] = {"processor_workflow_writes": writes, "text": talk.text}
    return found
