"""Scenarios D: what stream hooks see, change, drop, keep back and write; what becomes of tool calls on their way."""

from __future__ import annotations

import re
from typing import Any

from penstock import Chunk
from tests.conformance.runtime import rules_streams as rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation, in_both
from tests.conformance.runtime.frame import SAME, Better, scenario
from tests.conformance.runtime.lifecycle import LOOKS_ON
from tests.conformance.runtime.shapes import chunk_of
from tests.conformance.runtime.turns import Mode
from tests.conformance.runtime.verdicts import EVERY

RESULTS = {"*/result/*": SAME, "result/*": SAME}
OWN = Better(rules.a_hook_sees_what_it_was_given)


def streaming(id: str, change: Any, **more: Any) -> Hooks:
    """Return a processor whose stream hook gives back what ``change`` makes of a chunk; None drops it."""
    return Hooks(id, process_output_stream=lambda chunk, _ctx: change(chunk), **more)


def upper(chunk: Chunk) -> Chunk:
    """Return the chunk with its text in capitals."""
    return chunk.with_text(chunk.text.upper())


def without(text: str) -> Any:
    """Return a change that drops a piece of text, and writes the others in capitals."""
    return lambda chunk: None if chunk.text == text else upper(chunk)


async def played(world: Any, given: Any, *hooks: Hooks, mode: Mode = "stream", **options: Any) -> Talk:
    """Play a request whose workflow has those processors, one after the other."""
    talk = Talk(world.start(chain(*hooks)), given["model_turns"], mode=mode, **options)
    return await talk.play(conversation("Hi"))


def noting(log: list[Any], seen: list[str], *, at: str = "") -> Any:
    """Return a stream hook that keeps what it is given, and logs it: with each chunk, or ``at`` one type."""

    def note(chunk: Chunk) -> Chunk:
        seen.append(f"{chunk.type}:{chunk.text}" if chunk.type == "text-delta" else chunk.type)
        if not at:
            log.append({"part": chunk_of(chunk), "streamParts": list(seen)})
        elif chunk.type == at:
            log.append(list(seen))
        return chunk

    return note


@scenario("D01", {"*/B_log": OWN, **RESULTS}, overrules="DESIGN §5: a hook sees what it was given, and nothing else")
async def drop_and_change(world: Any, given: Any) -> Any:
    """What is dropped is gone for later hooks, text, history and client; what is changed is changed for them."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        c = streaming("C", lambda chunk: None if chunk.type == "text-end" else chunk)
        hooks = (streaming("A", without("two ")), streaming("B", noting(log, [])), c)
        talk = await played(world, given, *hooks, mode=mode)
        return {"B_log": log, "result": talk.result()}

    return await in_both(play)


@scenario("D02", {"log": OWN})
async def what_was_given(world: Any, given: Any) -> Any:
    """Each hook's own account of the stream."""
    raw: list[Any] = []
    own: list[Any] = []
    first, change = noting(raw, [], at="finish"), without("b")
    a = streaming("A", lambda chunk: change(first(chunk)))
    await played(world, given, a, streaming("B", noting(own, [], at="finish")))
    return {"log": [["A", *raw], ["B", *own]]}


STAY = Better(rules.control_chunks_stay)


@scenario(
    "D03",
    {
        "step-start/stream/chunks": STAY,
        **{f"{case}/*": STAY for case in ("finish", "step-finish", "NOT text-delta", "ALL")},
        "*/*/*": SAME,
    },
)
async def dropped_control_chunks(world: Any, given: Any) -> Any:
    """Hooks that drop a type of chunks, all but text, or all."""

    def dropping(case: str) -> Any:
        kept = {"NOT text-delta": lambda type: type == "text-delta", "ALL": lambda _type: False}
        keeps = kept.get(case, lambda type: type != case)
        return lambda chunk: chunk if keeps(chunk.type) else None

    def play(case: str) -> Any:
        async def played_in(mode: Mode) -> Any:
            talk = await played(world, given, streaming("A", dropping(case)), mode=mode)
            ended = {"model_calls": len(talk.calls), **talk.ended(), "messages": talk.messages}
            for name in ("tripwire", "status", *(["usage"] if mode == "stream" else [])):
                del ended[name]
            return {**ended, "chunks": [chunk.type for chunk in talk.sent]} if mode == "stream" else ended

        return played_in

    cases = (*given["cases"][:6], "NOT text-delta", "ALL")
    return {case: await in_both(play(case)) for case in cases}


@scenario("D04", {"*": Better(rules.a_crash_undoes_no_edit)})
async def a_crash_behind_a_redaction(world: Any, given: Any) -> Any:
    """A redacts, B crashes on what A left, C comes behind."""
    log: list[Any] = []

    def crash(chunk: Chunk) -> Chunk:
        if "secret" in chunk.text:
            raise ValueError("boom")
        return chunk

    def last(chunk: Chunk) -> Chunk:
        if chunk.text:
            log.append(f"C saw {chunk.text}")
        return upper(chunk)

    a = streaming("A", lambda chunk: chunk.with_text(re.sub(r"\d", "#", chunk.text)))
    talk = await played(world, given, a, streaming("B", crash), streaming("C", last))
    ended = talk.result()
    return {"log": log, "result": {key: ended[key] for key in ("chunks", "threw")}}


# Data chunks

ONE_PATH = Better(rules.data_takes_one_path)


@scenario(
    "D05",
    {
        "*/log": ONE_PATH,
        "stream/result/chunks": ONE_PATH,
        **RESULTS,
    },
)
async def data_from_every_hook(world: Any, given: Any) -> Any:
    """Where data chunks come out, and who sees them."""

    async def play(mode: Mode) -> Any:
        log: list[Any] = []
        s = streaming("S", lambda chunk: chunk.is_data or log.append(["S", chunk.type]), claims=LOOKS_ON)
        t = streaming("T", lambda chunk: log.append(["T", chunk.type, *_data(chunk)]), claims=LOOKS_ON)
        return {"log": log, "result": (await played(world, given, _writing(log), s, t, mode=mode)).result()}

    return await in_both(play)


def _data(chunk: Chunk) -> list[Any]:
    return [chunk_of(chunk)["data"]] if chunk.is_data else []


def _writing(log: list[Any]) -> Hooks:
    def write(ctx: Any, source: str, name: str = "data-w", *, transient: bool = False) -> None:
        ctx.writer.write(Chunk(name, payload={"data": {"from": source}}, transient=transient))

    def stream(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == "text-start":
            write(ctx, "stream")
            write(ctx, "stream-transient", "data-t", transient=True)
        return chunk

    def late(name: str, source: str) -> Any:
        def hook(ctx: Any) -> None:
            write(ctx, source)
            log.append([f"W.{name} writer", True])

        return hook

    step, result = late("processOutputStep", "step"), late("processOutputResult", "result")
    return Hooks("W", process_output_stream=stream, process_output_step=step, process_output_result=result)


@scenario("D07", {"log": SAME, **RESULTS})
async def data_from_a_tool(world: Any, given: Any) -> Any:
    """A tool's data chunks can be seen, changed and dropped."""
    log: list[Any] = []

    def tool(write: Any, **_: Any) -> Any:
        for number in (1, 2, 3):
            write(Chunk("data-progress", payload={"data": {"n": number}}))
        return {"ok": True}

    def inspect(chunk: Chunk) -> Chunk | None:
        if not chunk.is_data:
            return chunk
        log.append(["T", *_data(chunk)])
        number = chunk.payload["data"]["n"]
        return {2: None, 3: chunk.with_payload({"data": {"n": 30}})}.get(number, chunk)

    tool.writes = True  # type: ignore[attr-defined]
    turns = [{"tool_calls": [{"id": "c1", "name": "lookup", "args": {"q": "x"}}]}, {"text": "ok"}]
    talk = await played(world, {**given, "model_turns": turns}, streaming("T", inspect), tools={"lookup": tool})
    return {"log": log, "result": talk.result()}


# Edits, calls, what is kept back


@scenario("D11", {"streamParts_text": SAME, **RESULTS})
async def changed_text(world: Any, given: Any) -> Any:
    """What the next hook sees of a changed chunk."""
    log: list[Any] = []
    hooks = (streaming("A", upper), streaming("B", noting(log, [], at="finish")))
    talk = await played(world, given, *hooks)
    texts = [[one.removeprefix("text-delta:") for one in seen if "text-delta:" in one] for seen in log]
    return {"streamParts_text": texts, "result": talk.result()}


def _on_calls(case: str) -> Any:
    """Return what a case does with a tool call."""

    def change(chunk: Chunk, ctx: Any) -> Chunk | None:
        if case == "drop_all_tool_chunks" and chunk.type.startswith("tool-"):
            return None
        if chunk.type != "tool-call" or case == "observe":
            return chunk
        if case == "abort":
            ctx.abort("no tools")
        return None if case == "drop" else chunk.with_payload({**chunk.payload, "arguments": {"q": "edited"}})

    return change


async def _called(world: Any, given: Any, case: str, mode: Mode) -> tuple[list[Any], Talk]:
    log: list[Any] = []

    def hook(chunk: Chunk, ctx: Any) -> Any:
        if case == "observe":
            log.append(chunk.type)
        return _on_calls(case)(chunk, ctx)

    def tool(q: str) -> Any:
        log.append(["tool executed with", q])
        return {"answer": 42}

    talk = await played(world, given, Hooks("A", process_output_stream=hook), mode=mode, tools={"lookup": tool})
    return log, talk


MADE = Better(rules.the_call_that_leaves_is_the_call_that_is_made)


@scenario(
    "D13",
    {
        **{f"{case}/generate/log": MADE for case in ("drop", "edit", "abort")},
        "abort/*/steps": EVERY,
        **{f"drop/generate/{key}": MADE for key in ("second_prompt", "steps", "messages")},
        "edit/generate/second_prompt": MADE,
        "abort/generate/messages": MADE,
        "*/*/*": SAME,
    },
)
async def calls_on_their_way(world: Any, given: Any) -> Any:
    """What becomes of a call that a hook drops, edits or aborts on: the same at once and streamed."""

    def play(case: str) -> Any:
        async def called(mode: Mode) -> Any:
            log, talk = await _called(world, given, case, mode)
            second = {"second_prompt": talk.prompts[1]} if len(talk.prompts) > 1 else {}
            return {"log": log, "model_calls": len(talk.calls), **second, **talk.ended(), "messages": talk.messages}

        return called

    return {case: await in_both(play(case)) for case in given["cases"]}


@scenario(
    "D17",
    {
        **{f"drop/{key}": MADE for key in ("log", "chunks", "messages")},
        "edit/log": MADE,
        **{f"abort/{key}": MADE for key in ("log", "chunks", "messages")},
        "*/*": SAME,
    },
)
async def calls_whose_input_streams(world: Any, given: Any) -> Any:
    """The same where the call's input was streamed before it."""
    found = {}
    for case in given["cases"]:
        log, talk = await _called(world, given, case, "stream")
        ended = {key: value for key, value in talk.ended().items() if key in ("text", "tripwire")}
        types = [chunk.type for chunk in talk.sent]
        found[case] = {"log": log, "model_calls": len(talk.calls), "chunks": types, **ended, "messages": talk.messages}
    return found


@scenario("D15", {"*": Better(rules.what_is_kept_is_flushed)})
async def sentence_by_sentence(world: Any, given: Any) -> Any:
    """Text is kept back until its sentence is complete, or the text ends."""
    kept: list[Chunk] = []

    def buffer(chunk: Chunk) -> Any:
        if chunk.type != "text-delta":
            return chunk
        kept.append(chunk)
        return _out(kept) if chunk.text.endswith(". ") else None

    b = streaming("B", buffer, flush=lambda _ctx: _out(kept))
    talk = await played(world, given, b)
    return {"text": talk.text, "chunks": talk.chunks, "messages_after": talk.messages}


def _out(kept: list[Chunk]) -> Chunk | None:
    if not kept:
        return None
    made = kept[-1].with_text("".join(chunk.text for chunk in kept))
    kept.clear()
    return made
