"""The stated rules of scenarios that are kept back: streams (A03, B06, B13, B22, C12, C20, D08, D12, D14, E12, E23)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Chunk, Retry, Tripwire, Workflow
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, chain, conversation
from tests.conformance.runtime.shapes import shown
from tests.conformance.runtime.streaming import streaming, upper
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import ALL_STAGES, spy

DELTAS = ["one ", "two ", "three"]
CALL = {"id": "c1", "name": "lookup", "args": {"q": "x"}}
TOOL = [{"text": "let me see", "tool_calls": [CALL]}, {"text": "done"}]
MODES: tuple[Mode, ...] = ("generate", "stream")


async def play(workflow: Workflow, turns: Any, mode: Mode = "stream", tools: Any = None, **options: Any) -> Talk:
    """Play a request."""
    talk = Talk(HONEST.start(workflow, **options), turns, mode=mode, tools=tools)
    return await talk.play(conversation("Hi"))


def types(talk: Talk) -> list[str]:
    """Return the types of the chunks that the client was sent."""
    return [chunk.type for chunk in talk.sent]


# What is seen


@pytest.mark.parametrize("mode", MODES)
async def test_every_hook_sees_every_chunk_in_its_turn(mode: Mode) -> None:
    """A03: two hooks, a tool loop; the model's metadata and finish are seen and not sent, start and finish not seen."""
    seen: list[Any] = []
    hooks = [streaming(id, lambda chunk, id=id: seen.append((id, chunk.type)) or chunk) for id in "AB"]
    talk = await play(chain(*hooks), TOOL, mode)
    assert [id for id, _ in seen] == ["A", "B"] * (len(seen) // 2)
    shown = [type for id, type in seen if id == "B"]
    announced = ["tool-input-start", "tool-input-delta", "tool-input-end"] if mode == "generate" else []
    text = ["step-start", "response-metadata", "text-start", "text-delta", "text-end"]
    assert shown == [*text, *announced, "tool-call", "tool-result", "step-finish", *text, "finish", "step-finish"]
    assert types(talk)[0] == "start"
    assert types(talk)[-1] == "finish"
    assert [type for type in shown if type not in ("response-metadata", "finish")] == types(talk)[1:-1]


@pytest.mark.parametrize("change", [upper, lambda chunk: None if chunk.text == "two " else chunk])
async def test_history_text_and_client_agree(change: Any) -> None:
    """A03, D01: whatever a hook makes of the text, there is one text."""
    talk = await play(chain(streaming("A", change)), [{"deltas": DELTAS}])
    assert "".join(talk.deltas) == talk.text == talk.history[-1].text


# Verdicts


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("at", range(4))
async def test_nothing_leaves_after_a_verdict_in_the_stream(at: int, nested: bool) -> None:
    """B06: what was before it is out, and in no result; no later hook runs; one tripwire."""
    log: list[Any] = []
    pieces = [*DELTAS, ""]

    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        if (at == 3 and chunk.type == "text-end") or (at < 3 and chunk.text == pieces[at]):
            ctx.abort("no", metadata={"at": at})
        return chunk

    a = Hooks("A", process_output_stream=guard)
    workflow = chain(Workflow("inner").then(a) if nested else a, spy("Z", log, *ALL_STAGES[4:]))
    talk = await play(workflow, [{"deltas": DELTAS}])
    assert talk.deltas == DELTAS[:at]
    assert types(talk).count("tripwire") == 1
    assert types(talk)[-1] == "tripwire"
    assert log == []
    ended = talk.ended()
    tripwire = Tripwire("no", "A", "process_output_stream", metadata={"at": at})
    assert (ended["text"], ended["finishReason"], talk.tripwire) == ("", "other", tripwire)
    assert ended["steps"] == [{"text": "", "finishReason": "other", "tripwire": shown(tripwire)}]
    assert [message.text for message in talk.history] == ["Hi"]


async def test_a_verdict_in_the_stream_cannot_be_swallowed() -> None:
    """B22: nor by a bare except, in whatever chunk."""

    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        try:
            if chunk.text == "two ":
                ctx.abort("no")
        except BaseException:  # noqa: BLE001, S110 - what a careless hook does
            pass
        return chunk

    talk = await play(chain(Hooks("A", process_output_stream=guard)), [{"deltas": DELTAS}])
    assert talk.deltas == ["one "]
    assert talk.tripwire is not None


async def test_a_verdict_before_the_stream_lets_nothing_in() -> None:
    """B13: a stopped run's stream reads nothing, calls nothing, and says its verdict once."""
    called: list[str] = []
    stop = Hooks("stop", process_input=lambda ctx: ctx.abort("first"))
    run = chain(stop, streaming("late", lambda chunk: called.append(chunk.type) or chunk)).start()
    await run.process_input("Hi")
    async with run.process_output_stream(["text"]) as chunks:
        left = [chunk async for chunk in chunks]
    assert (called, [chunk.type for chunk in left]) == ([], ["tripwire"])
    assert run.tripwire == Tripwire("first", "stop", "process_input")


# Retries


def picky(**options: Any) -> Hooks:
    """Return a guard that rejects what begins badly as soon as its second piece is there."""

    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        ctx.state["text"] = ctx.state.get("text", "") + chunk.text
        if chunk.type == "step-start":
            ctx.state["text"] = ""
        if ctx.state["text"].startswith("bad t"):
            ctx.abort("mind your words", retry=True, **options)
        return chunk

    return Hooks("A", process_output_stream=guard)


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_stream_can_ask_for_another_attempt(limit: int) -> None:
    """C12, Q10: what is out is taken back, the model is told why, and with the budget's end it is a verdict."""
    turns = [{"deltas": ["bad ", "thing"]}, {"deltas": ["bad ", "twin"]}, {"deltas": ["good"]}]
    talk = await play(chain(picky(metadata={"score": 1})), turns, max_processor_retries=limit)
    rejected = ["step-start", "text-start", "text-delta", "retract", "step-finish"]
    assert types(talk)[1:6] == rejected
    assert talk.sent[4].payload["blocks"] == ("text-1",)
    told = talk.chunks[5]
    assert (told["reason"], told["retryReason"], told["retryMetadata"]) == ("retry", "mind your words", {"score": 1})
    assert ["mind your words" in prompt[1]["text"] for prompt in talk.prompts] == [False, True, True][: limit + 1]
    assert not [text for prompt in talk.prompts for entry in prompt if "bad" in (text := entry["text"])]
    if limit == 1:
        assert types(talk)[-1] == "tripwire"
        assert talk.ended()["text"] == ""
    else:
        assert types(talk)[6:] == [*rejected, *rejected[:3], "text-end", "step-finish", "finish"]
        assert talk.ended()["text"] == "good"
        assert [step["finishReason"] for step in talk.steps] == ["retry", "retry", "stop"]


@pytest.mark.parametrize("limit", [None, 0])
async def test_without_a_budget_a_stream_gets_no_other_attempt(limit: int | None) -> None:
    """C12: the verdict carries the flag, and what was out is taken back."""
    talk = await play(chain(picky()), [{"deltas": ["bad ", "thing"]}], max_processor_retries=limit)
    assert talk.tripwire is not None
    assert talk.tripwire.retry
    assert len(talk.calls) == 1
    assert types(talk)[-2:] == ["retract", "tripwire"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_held_answer_is_judged_with_all_that_is_known(mode: Mode) -> None:
    """C07: a guard of the answer is told its calls, its reason to finish and the steps before, held or not."""
    told: list[Any] = []

    def judge(ctx: Any) -> None:
        calls = [(part.call_id, part.name, dict(part.arguments)) for part in ctx.tool_calls or ()]
        told.append((calls, ctx.finish_reason, len(ctx.steps), ctx.text))
        if ctx.text == "let me see" and ctx.retry_count == 0:
            ctx.abort("no tools", retry=True, metadata={"score": 2})

    guard = Hooks("A", process_output_step=judge)
    talk = await play(chain(guard), [TOOL[0], *TOOL], mode, max_processor_retries=1)
    first = ([("c1", "lookup", {"q": "x"})], "tool-calls")
    assert told == [(*first, 0, "let me see"), (*first, 1, "let me see"), ([], "stop", 2, "done")]
    assert talk.chunks[1]["retryMetadata"] == {"score": 2}
    assert talk.deltas == ["let me see", "done"]  # once: what was rejected never left


# When chunks leave


async def test_a_guard_of_the_result_holds_the_whole_run() -> None:
    """Nothing leaves before it has judged; then all steps leave in their order, as it left them."""
    guard = Hooks("A", process_output_result=lambda ctx: ctx.message_list.map_text(str.upper, ctx.messages))
    sent: list[int] = []
    talk = Talk(HONEST.start(guard), TOOL, mode="stream", tools={"lookup": lambda **_: sent.append(len(talk.sent))})
    await talk.play(conversation("Hi"))
    assert sent in ([0], [1])  # at most the start: on trio the agent's loop has a task of its own
    text = ["text-start", "text-delta", "text-end"]
    step = ["step-start", *text, "tool-call", "tool-result", "step-finish"]
    assert types(talk) == ["start", *step, "step-start", *text, "step-finish", "finish"]
    assert "".join(talk.deltas) == talk.text == "LET ME SEEDONE"


async def test_a_rejected_result_leaves_nothing_at_all() -> None:
    """B10: the verdict of the last stage; of a run of several steps the client sees its tripwire."""
    talk = await play(chain(Hooks("A", process_output_result=lambda ctx: ctx.abort("no"))), TOOL)
    assert types(talk) == ["start", "tripwire"]
    assert talk.text == ""
    assert [message.text for message in talk.history] == ["Hi"]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("stage", ["process_tool_call", "process_tool_result"])
async def test_what_is_out_of_a_blocked_step_is_taken_back(stage: str, held: bool) -> None:
    """B08, B09: its text had left, at once or after its guard; the call is not made, or its result not shown."""
    used: list[Any] = []
    guard = Hooks("A", **{stage: lambda ctx: ctx.abort("no")})
    late = [Hooks("G", process_output_step=lambda _ctx: None)] if held else []
    talk = await play(chain(guard, *late), TOOL, tools={"lookup": lambda **_: used.append(1)})
    assert types(talk)[-2:] == ["retract", "tripwire"]
    assert talk.sent[-2].payload["blocks"] == ("text-1",)
    assert len(used) == int(stage == "process_tool_result")
    assert "tool-result" not in types(talk)
    assert len(talk.calls) == 1


@pytest.mark.parametrize("late", [None, "process_output_step", "process_output_result"])
@pytest.mark.parametrize("text", ["", "so "])
async def test_a_rejected_call_takes_back_its_own_step_only(text: str, late: str | None) -> None:
    """C07, Q10: what earlier steps said stays with the client, or is still to come; the rejected step's does not."""
    second = {"text": text, "tool_calls": [{"id": "c2", "name": "lookup", "args": {"q": "bad"}}]}

    def judge(ctx: Any) -> None:
        if ctx.arguments["q"] == "bad":
            ctx.abort("not that", retry=True)

    guards = [] if late is None else [Hooks("G", **{late: lambda _ctx: None})]
    workflow = chain(Hooks("A", process_tool_call=judge), *guards)
    talk = await play(workflow, [TOOL[0], second, TOOL[1]], max_processor_retries=1)
    assert talk.text == "let me seedone"
    taken = [chunk.payload["blocks"] for chunk in talk.sent if chunk.type == "retract"]
    out = bool(text) and late != "process_output_result"
    assert taken == ([("text-2",)] if out else [])
    assert talk.deltas == ["let me see", *([text] if out else []), "done"]
    assert [step["finishReason"] for step in talk.steps] == ["tool-calls", "retry", "stop"]


@pytest.mark.parametrize("text", ["", "so "])
async def test_a_rejected_result_takes_back_what_its_step_said(text: str) -> None:
    """C12, D08: asked for on its way to the client, another attempt begins without the step's text."""

    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == "tool-result" and len(talk.calls) == 2:
            ctx.abort("not that", retry=True)
        return chunk

    second = {**TOOL[0], "text": text}
    start = HONEST.start(Hooks("A", process_output_stream=guard), max_processor_retries=1)
    talk = Talk(start, [TOOL[0], second, TOOL[1]], mode="stream")
    await talk.play(conversation("Hi"))
    assert [chunk.payload["blocks"] for chunk in talk.sent if chunk.type == "retract"] == [("text-2",)] * bool(text)
    assert talk.text == "let me seedone"


@pytest.mark.parametrize("late", [None, "process_llm_response", "process_output_step"])
async def test_an_answer_of_which_nothing_is_left_is_judged_as_nothing(late: str | None) -> None:
    """D13: a dropped call is neither made nor remembered, and no guard judges the answer before in its place."""
    texts: list[str] = []
    drop = streaming("A", lambda chunk: None if chunk.type == "tool-call" else chunk)
    guards = [] if late is None else [Hooks("G", **{late: lambda ctx: texts.append(ctx.text)})]
    turns = [TOOL[0], {"tool_calls": [CALL]}, {"text": "done"}]
    talk = await play(chain(drop, *guards), turns, tools={"lookup": lambda **_: pytest.fail("it was made")})
    assert talk.error is None
    history = [(message.role, message.text) for message in talk.history]
    assert history == [("user", "Hi"), ("assistant", "let me see"), ("assistant", "done")]
    assert texts == (["let me see", "", "done"] if late else [])


# A model that fails, tools that tell


@pytest.mark.parametrize("held", [False, True])
async def test_what_a_failed_attempt_said_is_nowhere(held: bool) -> None:
    """C20, Q14: neither in the next prompt nor in text or history; a held piece of it does not even leave."""
    handler = Hooks("E", process_api_error=lambda _ctx: Retry())
    late = [Hooks("G", process_output_step=lambda _ctx: None)] if held else []
    turns = [{"deltas": ["partial "], "stream_error": "down"}, {"deltas": ["full ", "answer"]}]
    talk = await play(chain(handler, *late), turns)
    assert talk.text == "full answer"
    assert [message.text for message in talk.history] == ["Hi", "full answer"]
    assert talk.prompts[1] == talk.prompts[0]
    assert talk.deltas == ([] if held else ["partial "]) + ["full ", "answer"]


async def test_an_error_nobody_mends_follows_what_was_said() -> None:
    """C13, C22: it comes out as it is; what had left had left."""
    talk = await play(chain(streaming("A", upper)), [{"deltas": ["so "], "stream_error": "down"}])
    assert type(talk.error).__name__ == "ModelError"
    ends = ["error", "step-finish", "finish"]
    assert types(talk) == ["start", "step-start", "text-start", "text-delta", *ends]
    assert (talk.text, [step["finishReason"] for step in talk.steps]) == ("", ["error"])
    assert talk.deltas == ["SO "]


async def test_a_verdict_on_a_tools_data_stops_everything() -> None:
    """D08: its result is never judged, and the model is not called again."""
    log: list[Any] = []

    def tool(write: Any, **_: Any) -> Any:
        write(Chunk("data-progress", payload={"data": 1}))
        return {"answer": 42}

    def guard(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.is_data:
            ctx.abort("no data")
        return chunk

    tool.writes = True  # type: ignore[attr-defined]
    a = Hooks("A", process_output_stream=guard, process_tool_result=lambda _ctx: log.append("result"))
    talk = await play(chain(a), TOOL, tools={"lookup": tool})
    assert (log, len(talk.calls), types(talk)[-1]) == ([], 1, "tripwire")
    assert talk.text == ""
    assert "data-progress" not in types(talk)


@pytest.mark.parametrize("stage", ["process_tool_result", "process_output_stream"])
async def test_what_is_edited_of_a_tools_result(stage: str) -> None:
    """D12, D14: its own stage edits what everybody sees; the stream's hooks edit what the client sees."""

    def edit(chunk: Chunk, _ctx: Any) -> Chunk:
        return chunk.with_payload({**chunk.payload, "result": "[X]"}) if chunk.type == "tool-result" else chunk

    hooks: dict[str, Any] = {"process_tool_result": lambda _ctx: "[X]", "process_output_stream": edit}
    talk = await play(chain(Hooks("A", **{stage: hooks[stage]})), TOOL, tools={"lookup": lambda **_: "secret"})
    [shown] = [chunk for chunk in talk.sent if chunk.type == "tool-result"]
    assert shown.payload["result"] == "[X]"
    assert ("secret" in repr(talk.prompts[1])) is (stage == "process_output_stream")
