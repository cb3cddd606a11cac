"""The stated rules of scenarios that are kept back, on the agent: what steps ask, see and may change (A, B, G, M)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import Agent, Answer, Chunk, Message, OptionError, Tripwire, Workflow, WorkflowError
from penstock.engine import Overrides, UsageError
from penstock.engine.values.tripwire import TripwireSignal
from penstock.testing import ScriptedModel
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, conversation
from tests.conformance.runtime.lifecycle import LOOKS_ON
from tests.conformance.runtime.shapes import lines
from tests.conformance.runtime.test_kept_back_streams import CALL, MODES, TOOL, types
from tests.conformance.runtime.turns import Mode

TWO_STEPS = [{"tool_calls": [CALL]}, {"text": "done"}]


async def ask(*processors: Any, turns: Any = TOOL, mode: Mode = "generate", **options: Any) -> Talk:
    """Play a request to an agent with those processors; options for the call begin with ``call_``."""
    call = {name.removeprefix("call_"): options.pop(name) for name in list(options) if name.startswith("call_")}
    talk = Talk(HONEST.start(*processors, **options), turns, mode=mode, **call)
    return await talk.play(conversation("Hi"))


# What a step asks


async def test_overrides_go_through_the_chain_and_prepare_step_is_last() -> None:
    """A06: each sees what its predecessors left, settings merge key by key, and the last writer of a field wins."""
    seen: list[Any] = []

    def look(ctx: Any) -> None:
        seen.append((dict(ctx.model_settings), ctx.tool_choice))

    def prepare(ctx: Any) -> Overrides:
        look(ctx)
        return Overrides(model_settings={"seed": 2}, tool_choice="required")

    a = Hooks("A", process_input_step=lambda _ctx: Overrides(model_settings={"temperature": 0.1, "seed": 1}))
    b = Hooks("B", process_input_step=lambda ctx: look(ctx) or Overrides(model_settings={"top_p": 0.5}))
    talk = await ask(a, b, turns=[{"text": "ok"}], prepare_step=prepare, settings={"max_tokens": 9})
    own = {"max_tokens": 9, "temperature": 0.1, "seed": 1}
    assert seen == [(own, "auto"), ({**own, "top_p": 0.5}, "auto")]
    [call] = talk.calls
    assert (dict(call.settings), call.tool_choice) == ({**own, "seed": 2, "top_p": 0.5}, "required")


@pytest.mark.parametrize("change", [Overrides(tool_choice="none"), Overrides(active_tools=[]), Overrides(tools={})])
async def test_a_step_can_do_without_tools(change: Overrides) -> None:
    """A06: the choice of none, none of them active and none at all send the model no tool; the next step has them."""

    def first_only(ctx: Any) -> Any:
        return change if ctx.step_number == 0 else None

    talk = await ask(Hooks("A", process_input_step=first_only), turns=TWO_STEPS)
    assert [[tool.name for tool in call.tools] for call in talk.calls] == [[], ["lookup"]]
    [told] = [chunk.payload["error"] for chunk in talk.sent if chunk.type == "tool-error"]
    assert "lookup" not in told.split(";")[-1] or "none" in told  # it called what it was not offered


async def test_overrides_live_for_a_step_and_their_tools_are_those_that_run() -> None:
    """G08: every step starts from the request's own settings; a tool that a step put in is called."""
    used: list[str] = []
    other = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "other", "args": {}}]}], name="other")

    def swap(ctx: Any) -> Any:
        seen.append((ctx.model.name, sorted(ctx.tools)))
        tools = {"other": lambda: used.append("other") or "fine"}
        return Overrides(model=other, tools=tools) if ctx.step_number == 0 else None

    seen: list[Any] = []
    talk = await ask(Hooks("A", process_input_step=swap), turns=[{"text": "done"}])
    assert seen == [("mock-1", ["lookup"]), ("mock-1", ["lookup"])]
    assert (used, [tool.name for tool in talk.calls[0].tools], talk.text) == (["other"], ["lookup"], "done")
    assert [step.model for step in talk.came.steps] == ["other", "mock-1"]  # type: ignore[union-attr]


async def test_messages_of_a_step_stay_and_every_processor_sees_them_as_they_are() -> None:
    """A08: what one adds, the next one sees in the same step, and the model in all steps that follow."""
    seen: list[Any] = []

    def add(ctx: Any) -> Any:
        return ctx.message_list.add(Message.user("added")) if ctx.step_number == 0 else None

    b = Hooks("B", process_input_step=lambda ctx: seen.append(lines(ctx.messages)))
    talk = await ask(Hooks("A", process_input_step=add), b)
    assert seen[0] == ["user:Hi", "user:added"]
    assert seen[1] == [*seen[0], "assistant:let me see"]
    assert [[entry["text"] for entry in prompt[:3]] for prompt in talk.prompts] == [["Sys", "Hi", "added"]] * 2


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_in_the_models_place_goes_the_way_of_any_other(mode: Mode) -> None:
    """G07: the first answer counts, later processors see the prompt, no model is asked; all stages judge it."""
    log: list[str] = []
    stages = ("process_llm_request", "process_llm_response", "process_output_step", "process_output_result")
    cached = (Chunk("text-start", id="t"), Chunk("text-delta", "from cache", "t"), Chunk("text-end", id="t"))
    a = Hooks("A", process_llm_request=lambda _ctx: Answer((*cached, Chunk("finish", payload={"reason": "stop"}))))
    b = Hooks("B", process_llm_request=lambda _ctx: Answer("too late"))
    z = Hooks("Z", claims=LOOKS_ON, **{stage: (lambda _ctx, stage=stage: log.append(stage)) for stage in stages})
    z.process_llm_response = lambda ctx: log.append(f"from cache: {ctx.from_cache}")
    z.process_output_stream = lambda chunk, _ctx: log.append(chunk.type)
    talk = await ask(a, b, z, mode=mode)
    assert (talk.text, len(talk.calls), types(talk)[-1]) == ("from cache", 0, "finish")
    streamed = ["step-start", "text-start", "text-delta", "text-end", "finish"]
    late = ["process_output_step", "step-finish", "process_output_result"]
    assert log == ["process_llm_request", *streamed, "from cache: True", *late]
    assert talk.came is not None
    assert [(step.from_cache, step.usage) for step in talk.came.steps] == [(True, None)]


@pytest.mark.parametrize("mode", MODES)
async def test_the_text_of_a_request_is_one_in_both_modes(mode: Mode) -> None:
    """G09: the text of all accepted steps, as hooks of the result are told it, and as the client was sent it."""
    told: list[str] = []
    look = Hooks("A", claims=LOOKS_ON, process_output_result=lambda ctx: told.append(ctx.text))
    talk = await ask(look, mode=mode)
    assert talk.text == told[0] == "".join(talk.deltas) == "let me seedone"


# What hooks see


async def test_hooks_of_the_result_see_the_answers_alone() -> None:
    """M02: input and step hooks see as the stage says, and the list always has the whole, by source."""
    seen: dict[str, Any] = {}

    def note(name: str) -> Any:
        def hook(ctx: Any) -> None:
            whole = ctx.message_list
            sources = {source: lines(whole.of(source)) for source in ("context", "input", "response")}
            seen[name] = (lines(ctx.messages), sources)

        return hook

    stages = ("process_input", "process_input_step", "process_output_step", "process_output_result")
    look = Hooks("A", claims=LOOKS_ON, **{stage: note(stage) for stage in stages})
    talk = Talk(HONEST.start(look), [{"text": "ok"}])
    await talk.play(conversation("Hi", context=["older"]))
    before = {"context": ["user:older"], "input": ["user:Hi"], "response": []}
    after = {**before, "response": ["assistant:ok"]}
    assert seen == {
        "process_input": (["user:Hi"], before),
        "process_input_step": (["user:older", "user:Hi"], before),
        "process_output_step": (["user:older", "user:Hi", "assistant:ok"], after),
        "process_output_result": (["assistant:ok"], after),
    }


async def test_system_messages_that_hooks_see_are_the_untagged_ones() -> None:
    """M07: what the call brings is one of them, unlike in the reference (docs/differences.md)."""
    seen: list[Any] = []

    def replace(ctx: Any) -> Any:
        seen.append([message.text for message in ctx.system_messages])
        return ctx.message_list.replace_system("New")

    talk = Talk(HONEST.start(Hooks("A", process_input=replace)), [{"text": "ok"}])
    await talk.play(conversation("Hi", tagged={"user-provided": "of the call"}))
    assert seen == [["Sys", "of the call"]]
    assert [entry["text"] for entry in talk.prompt] == ["New", "Hi"]


async def test_equal_ids_are_refused_when_the_agent_is_made() -> None:
    """A10: set by somebody, in one array or two; the same object may stand in several arrays, and has one state."""
    looks = {"process_input": lambda _ctx: None, "process_output_result": lambda _ctx: None}
    one, other = Hooks("A", **looks), Hooks("A", **looks)
    for arrays in ({"processors": [one, other]}, {"input_processors": [one], "output_processors": [other]}):
        with pytest.raises((OptionError, WorkflowError), match="'A'"):
            Agent(ScriptedModel(["ok"]), **arrays)
    states: list[int] = []
    both = Hooks("A", process_input=lambda ctx: states.append(id(ctx.state)))
    both.process_output_result = lambda ctx: states.append(id(ctx.state))
    await ask(input_processors=[both], output_processors=[both])
    assert len(states) == 2
    assert len(set(states)) == 1


# What is refused


@pytest.mark.parametrize(
    "stage", ["process_input", "process_input_step", "process_output_step", "process_output_result"]
)
async def test_no_empty_list_wipes_a_conversation(stage: str) -> None:
    """A12: it is refused at every stage, and the error says how to empty on purpose."""
    talk = await ask(Hooks("A", **{stage: lambda _ctx: []}), turns=[{"text": "ok"}])
    assert "clear" in str(talk.error)
    assert lines(talk.history)[:1] == ([] if stage == "process_input" else ["user:Hi"])


@pytest.mark.parametrize("emptied", [False, True])
async def test_a_model_is_asked_about_nothing_only_on_purpose(emptied: bool) -> None:
    """B16: an empty input, or one that processors removed, is an error that says how to allow it."""
    clear = Hooks("A", process_input=lambda ctx: ctx.message_list.clear("input") if emptied else None)
    messages = conversation("Hi") if emptied else conversation()
    talk = await Talk(HONEST.start(clear), [{"text": "ok"}]).play(messages)
    assert isinstance(talk.error, UsageError)
    assert "allow_empty" in str(talk.error)
    allowed = await Talk(HONEST.start(clear, allow_empty=True), [{"text": "ok"}]).play(messages)
    assert (allowed.text, allowed.prompts) == ("ok", [[{"role": "system", "text": "Sys"}]])


# Verdicts


@pytest.mark.parametrize("mode", MODES)
async def test_a_verdict_in_the_first_step_asks_no_model(mode: Mode) -> None:
    """B02: the client is told that it began, and of the verdict."""
    a = Hooks("A", process_input_step=lambda ctx: ctx.abort("no", metadata={"k": 1}))
    talk = await ask(a, mode=mode)
    assert (types(talk), talk.calls, talk.steps) == (["start", "tripwire"], [], [])
    assert talk.tripwire == Tripwire("no", "A", "process_input_step", metadata={"k": 1})
    assert lines(talk.history) == ["user:Hi"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_rejected_answer_calls_no_tool(mode: Mode) -> None:
    """B08: all is judged before the first tool runs."""
    used: list[str] = []
    guard = Hooks("A", process_output_step=lambda ctx: ctx.abort("no"))
    talk = Talk(HONEST.start(guard), TOOL, mode=mode, tools={"lookup": lambda **_: used.append("lookup")})
    await talk.play(conversation("Hi"))
    assert (used, types(talk), talk.text) == ([], ["start", "tripwire"], "")


async def test_after_a_verdict_in_the_stream_nobody_is_asked_for_a_retry() -> None:
    """B13: a later stage that would reject with retry is not called, and no second attempt runs."""
    called: list[str] = []

    def stop(chunk: Chunk, ctx: Any) -> Chunk:
        if chunk.type == "text-delta":
            ctx.abort("first")
        return chunk

    def again(ctx: Any) -> None:
        called.append("again")
        ctx.abort("again", retry=True)

    hooks = (Hooks("A", process_output_stream=stop), Hooks("B", process_output_step=again))
    talk = await ask(*hooks, mode="stream", max_processor_retries=3)
    assert (called, len(talk.calls), talk.tripwire) == ([], 1, Tripwire("first", "A", "process_output_stream"))


async def test_a_verdict_that_is_raised_by_hand_is_one() -> None:
    """B21: in the agent as alone."""
    given = Tripwire("from inside", "inner", "process_input")

    def signal(_ctx: Any) -> None:
        raise TripwireSignal(given)

    talk = await ask(Hooks("A", process_input=signal))
    assert (talk.tripwire, talk.calls, talk.error) == (given, [], None)


@pytest.mark.parametrize(
    "stage", ["process_input", "process_input_step", "process_output_step", "process_output_result"]
)
async def test_a_verdict_in_an_agent_cannot_be_swallowed(stage: str) -> None:
    """B22: whatever a hook catches."""

    async def swallow(ctx: Any) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.lowlevel.checkpoint)
                ctx.abort("no")
        except BaseException:  # noqa: BLE001, S110 - what a careless hook does
            pass

    talk = await ask(Hooks("A", **{stage: swallow}))
    assert (talk.tripwire, talk.text) == (Tripwire("no", "A", stage), "")


async def test_a_caller_who_cancels_ends_the_request_cleanly() -> None:
    """B23: one abort chunk, no hook afterwards, nothing doubled in the history, and a status of its own."""
    late: list[str] = []
    stages = ("process_output_step", "process_output_result")
    look = Hooks("A", claims=LOOKS_ON, **{stage: (lambda _ctx, stage=stage: late.append(stage)) for stage in stages})
    agent = Agent(ScriptedModel([{"deltas": ["one ", "two ", "three"]}]), processors=[look])
    seen: list[str] = []
    async with agent.stream("Hi") as stream:
        async for chunk in stream:
            seen.append(chunk.type)
            if chunk.type == "text-delta":
                stream.cancel()
        result = await stream.result
    assert seen == ["start", "step-start", "text-start", "text-delta", "abort"]
    assert (late, result.status, result.finish_reason, result.tripwire) == ([], "cancelled", "aborted", None)
    assert lines(result.messages) == ["user:Hi"]


# Tools


async def test_a_tool_that_fails_is_told_to_the_model_through_every_workflow() -> None:
    """E21, D12: its error is in the history, nested workflows let it pass, and its own stage is told that it failed."""
    told: list[Any] = []

    def broken(**_: Any) -> Any:
        raise ValueError("no such thing")

    guard = Hooks("A", process_input_step=lambda ctx: ctx.messages)
    guard.process_tool_result = lambda ctx: told.append((ctx.tool_name, ctx.is_error))
    inner = Workflow("outer").then(Workflow("inner").then(guard))
    talk = Talk(HONEST.start(inner), TWO_STEPS, tools={"lookup": broken})
    await talk.play(conversation("Hi"))
    assert (told, talk.text, talk.error) == ([("lookup", True)], "done", None)
    assert [part.state for part in talk.calls[1].messages[-1].parts] == ["error"]  # type: ignore[union-attr]


async def test_what_a_nested_processor_is_told_of_a_tool_is_all_there() -> None:
    """E22: tool, call, arguments, result, step and steps, in a workflow as in an array."""
    told: list[Any] = []
    hooks = Hooks("A", claims=LOOKS_ON)
    hooks.process_tool_result = lambda ctx: told.append(
        (ctx.tool_name, ctx.call_id, dict(ctx.arguments), dict(ctx.result), ctx.step_number)
    )
    hooks.process_output_step = lambda ctx: told.append((ctx.finish_reason, len(ctx.steps)))
    await ask(Workflow("outer").then(Workflow("inner").then(hooks)))
    call = ("lookup", "c1", {"q": "x"}, {"answer": 42}, 0)
    assert told == [("tool-calls", 0), call, ("stop", 1)]


@pytest.mark.parametrize("nested", [False, True])
async def test_state_is_one_through_all_stages_steps_and_attempts(nested: bool) -> None:
    """E18, E20, E23: for each request anew; nesting a workflow changes nothing about it."""
    seen: list[int] = []

    def count(ctx: Any) -> None:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        seen.append(ctx.state["n"])
        if ctx.stage == "process_output_step" and ctx.state["n"] == 3:
            ctx.abort("again", retry=True)

    stages = (
        "process_input",
        "process_input_step",
        "process_output_step",
        "process_tool_result",
        "process_output_result",
    )
    inner = Workflow("inner").then(Hooks("A", **dict.fromkeys(stages, count)))
    before = inner.named("inner")
    for _ in range(2):
        seen.clear()
        await ask(
            Workflow("outer").then(inner) if nested else inner, turns=[{"text": "bad"}, *TOOL], max_processor_retries=1
        )
        assert seen == list(range(1, 10))
    assert inner == before
