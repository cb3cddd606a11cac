"""Scenarios with a memory: what is remembered, where it stands, and what is written of a request that was blocked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock import InMemoryStorage, Memory, Message
from penstock.engine.values.stored import StoredMessage
from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Start, Talk, World, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.shapes import entry_of, lines
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import STOPS

THREAD = {"thread_id": "t", "resource_id": "r"}


class Watched(InMemoryStorage):
    """A store that notes what is written.

    Attributes:
        written: the messages of every write.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Message] = []

    async def save_messages(self, messages: Sequence[Message]) -> tuple[StoredMessage, ...]:
        """Note them, and keep them."""
        self.written += messages
        return await super().save_messages(messages)


def remembering(world: World, memory: Memory, *processors: Any, **options: Any) -> Start:
    """Return what an agent with a memory is made with, for a request in a thread."""
    return world.start(*processors, memory=memory, request_context=dict(THREAD), **options)


async def saved(memory: Memory) -> list[Any]:
    """Return what is stored of the thread, as the oracle writes it."""
    if await memory.storage.thread("t") is None:
        return []
    page = await memory.storage.messages("t", oldest_first=True)
    return [entry_of(row.message) for row in page.items]


@scenario(
    "B18",
    {
        "processOutput*/*/saved": Better(rules.an_accepted_question_is_kept),
        "processOutputStep/*/text": STOPS,
        "processOutputStream/stream/text": STOPS,
        "processOutputResult/generate/text": STOPS,
        "*/*/*": SAME,
    },
)
async def nothing_blocked_is_saved(world: Any, given: Any) -> Any:
    """Whatever stage gives a verdict, what it is about is not saved."""

    async def play(stage: str, mode: Mode) -> Any:
        memory = Memory(InMemoryStorage())
        talk = Talk(remembering(world, memory, *_guards(stage, mode)), given["model_turns"], mode=mode)
        await talk.play(conversation("Hi"))
        ended = talk.ended()
        return {"tripwire": ended["tripwire"], "text": ended["text"], "saved": await saved(memory)}

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

    memory = Memory(InMemoryStorage())
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
    return {"text": talk.text, "saved": await saved(memory)}


@scenario(
    "G03",
    {
        "log/*/1": Better(rules.the_working_memory_is_shown_as_data),
        "log/*/*": SAME,
        **dict.fromkeys(("*_chain", "saved"), SAME),
    },
    overrules="DESIGN §5: which messages a stage shows is the stage's; at the input, what the caller said",
)
async def memory_around_the_others(world: Any, given: Any) -> Any:
    """Memory's processors come before the user's at the input, and behind them at the output."""
    del given
    memory = Memory(InMemoryStorage(), working_memory=True)
    log: list[Any] = []

    def look(ctx: Any) -> None:
        own = len(ctx.system_messages)
        everything = ctx.message_list
        shown = [
            re.sub(r"(?s)^(user:).*<working_memory_data>.*", r"\1(working memory)", it)
            for it in lines(everything.conversation)
        ]
        told = {"messages": lines(ctx.messages), "all": shown, "untagged_system": own}
        log.append(["U", {**told, "all_system": len(everything.system)}])

    def sign(ctx: Any) -> Any:
        return ctx.message_list.map_text(lambda text: f"{text} [V]", ctx.messages)

    processors = [Hooks("U", process_input=look), Hooks("V", process_output_result=sign)]
    talks = [
        await Talk(remembering(world, memory, *processors), [{"text": answer}], records=True).play(conversation(text))
        for text, answer in (("first", "answer one"), ("second", "answer two"))
    ]
    return {
        "input_chain": [called(talks[0], "process_input")],
        "output_chain": [called(talks[0], "process_output_result")],
        "log": log,
        "saved": await saved(memory),
    }


def called(talk: Talk, stage: str) -> list[str]:
    """Return the processors that a stage ran, in order; of both halves of a processor its own name."""
    records = () if talk.came is None else talk.came.records
    ids = [record.step for record in records if record.stage == stage]
    return [f"processor:{re.sub('-(?:loader|saver)$', '', id)}" for id in ids]


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
        store = Watched()
        talk = Talk(remembering(world, Memory(store), item), [{"text": "ok 1"}], mode="stream")
        await talk.play(conversation(raw))
        kept = lines(store.written)
        writes = [{"contains_raw_ssn": True} for line in kept if raw in line]
        found[case] = {"processor_workflow_writes": writes if kept else "nothing was kept", "text": talk.text}
    return found
