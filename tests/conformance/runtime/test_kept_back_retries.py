"""The stated rules of scenarios that are kept back, on the agent: budgets, and models that fail (C)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock import Chunk, Message, ModelError, Retry
from tests.conformance.runtime.driver import HONEST, Hooks, Talk, conversation
from tests.conformance.runtime.shapes import lines
from tests.conformance.runtime.test_kept_back_streams import CALL, MODES, TOOL, types
from tests.conformance.runtime.turns import Mode

DOWN = {"error": {"status": 500, "message": "down"}}


def rejecting(*bad: str) -> Hooks:
    """Return a guard that rejects answers that begin so."""

    def judge(ctx: Any) -> None:
        if ctx.text.startswith(bad):
            ctx.abort("not good", retry=True)

    return Hooks("A", process_output_step=judge)


async def ask(*processors: Any, turns: Any, mode: Mode = "generate", call: Any = None, **options: Any) -> Talk:
    """Play a request to an agent with those processors."""
    talk = Talk(HONEST.start(*processors, **options), turns, mode=mode, **(call or {}))
    return await talk.play(conversation("Hi"))


# Answers that are rejected


@pytest.mark.parametrize(
    ("mine", "calls", "attempts"),
    [(None, {}, 1), (2, {}, 3), (None, {"max_processor_retries": 2}, 3), (2, {"max_processor_retries": 0}, 1)],
)
async def test_a_calls_budget_stands_before_the_agents(mine: int | None, calls: Any, attempts: int) -> None:
    """C03, C05: unset and 0 are none; a call's own counts for that call."""
    talk = await ask(rejecting("bad"), turns=[{"text": "bad"}], max_processor_retries=mine, call=calls)
    assert (len(talk.calls), talk.text, talk.tripwire is None) == (attempts, "", False)


async def test_retries_use_up_no_steps() -> None:
    """C09: with five steps and nine retries, the seventh attempt is reached."""
    turns = [*[{"text": f"bad {number}"} for number in range(6)], {"text": "good"}]
    talk = await ask(rejecting("bad"), turns=turns, max_processor_retries=9)
    assert (len(talk.calls), talk.text, talk.tripwire) == (7, "good", None)
    assert [step["finishReason"] for step in talk.steps] == [*["retry"] * 6, "stop"]


async def test_feedback_ends_with_the_accepted_answer() -> None:
    """C08: the step behind it is asked without, and the tool steps before stay."""
    turns = [TOOL[0], {"text": "bad", "tool_calls": [{**CALL, "id": "c2"}]}, {**TOOL[0], "text": "well"}, TOOL[1]]
    talk = await ask(rejecting("bad"), turns=turns, max_processor_retries=1)
    feedback = [[entry["text"] for entry in prompt if entry["role"] == "system"][1:] for prompt in talk.prompts]
    assert [len(told) for told in feedback] == [0, 0, 1, 0]
    assert talk.text == "let me seewelldone"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("stage", "granted"),
    [
        ("process_input", False),
        ("process_input_step", False),
        ("process_llm_request", False),
        ("process_llm_response", False),
        ("process_output_stream", True),
        ("process_output_step", True),
        ("process_tool_call", True),
        ("process_tool_result", False),
        ("process_output_result", False),
    ],
)
async def test_which_stages_may_ask_for_another_attempt(stage: str, granted: bool, mode: Mode) -> None:
    """C12: where it cannot be had, the verdict carries the wish."""
    asked: list[str] = []

    def once(*told: Any) -> Any:
        if not asked and (len(told) == 1 or told[0].type == "text-delta"):
            asked.append(stage)
            told[-1].abort("again", retry=True)
        return told[0] if len(told) > 1 else None

    talk = await ask(Hooks("A", **{stage: once}), turns=[TOOL[0], *TOOL], mode=mode, max_processor_retries=2)
    assert asked == [stage]
    if granted:
        assert (talk.tripwire, talk.text) == (None, "let me seedone")
        assert "tripwire" not in types(talk)
    else:
        assert talk.tripwire.retry
        assert (talk.text, types(talk).count("tripwire")) == ("", 1)


# Models that fail


async def test_error_retries_end_after_three_by_default() -> None:
    """C15: the handler is asked a fourth time, in vain; its state lives on, and the error comes out."""
    seen: list[Any] = []

    def handle(ctx: Any) -> Retry:
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        seen.append((ctx.retry_count, ctx.step_number, ctx.state["n"], len(ctx.steps)))
        return Retry()

    talk = await ask(turns=[DOWN], error_processors=[Hooks("E", process_api_error=handle)])
    assert seen == [(0, 0, 1, 0), (1, 0, 2, 1), (2, 0, 3, 2), (3, 0, 4, 3)]
    assert isinstance(talk.error, ModelError)
    assert (talk.error.status, len(talk.calls)) == (500, 4)
    assert [step["finishReason"] for step in talk.steps] == ["retry", "retry", "retry", "error"]


async def test_the_first_handler_that_wants_a_retry_wins() -> None:
    """C17: those before it pass, those behind are not asked; what they changed is seen by the next call."""
    asked: list[str] = []

    def handler(id: str, act: Any) -> Hooks:
        return Hooks(id, process_api_error=lambda ctx: asked.append(id) or act(ctx))

    handlers = [
        handler("passes", lambda _ctx: None),
        handler("mends", lambda ctx: [*ctx.messages, Message.user("mended")]),
        handler("retries", lambda _ctx: Retry()),
        handler("late", lambda _ctx: Retry()),
    ]
    talk = await ask(turns=[DOWN, {"text": "ok"}], error_processors=handlers)
    assert (asked, talk.text) == (["passes", "mends", "retries"], "ok")
    assert [entry["text"] for entry in talk.prompts[1]] == ["Sys", "Hi", "mended"]


@pytest.mark.parametrize("policy", ["allow", "raise", "block"])
async def test_a_handler_that_breaks_does_as_its_policy_says(policy: str, caplog: Any) -> None:
    """C17: it leaves the rest to the next, and the log tells; unless its failure blocks."""

    def broken(_ctx: Any) -> None:
        raise ValueError("bug")

    first = Hooks("first", claims={"on_error": policy}, process_api_error=broken)
    second = Hooks("second", process_api_error=lambda _ctx: Retry())
    with caplog.at_level(logging.WARNING, "penstock"):
        talk = await ask(turns=[DOWN, {"text": "ok"}], error_processors=[first, second])
    if policy != "block":
        assert (talk.text, talk.error) == ("ok", None)
        assert "first" in caplog.text
    else:
        assert (talk.error, talk.came.status) == (None, "blocked")  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fault",
    [
        {"error": {"status": 400, "message": "bad request"}},
        {"error": {"status": 429, "message": "slow down"}},
        DOWN,
        {"error": {"message": "no connection"}},
        {"plain_error": "bug in the model"},
        {"deltas": ["partial "], "stream_error": "broke off"},
    ],
    ids=["400", "429", "500", "no status", "plain", "in the stream"],
)
async def test_whatever_a_model_fails_with_reaches_the_handlers(fault: Any, mode: Mode) -> None:
    """C20, C22, C23: every status, plain exceptions, and what breaks off; of the failed attempt nothing is kept."""
    seen: list[str] = []
    handler = Hooks("E", process_api_error=lambda ctx: seen.append(type(ctx.error).__name__) or Retry())
    talk = await ask(turns=[fault, {"deltas": ["full ", "answer"]}], mode=mode, error_processors=[handler])
    assert seen == ["RuntimeError" if "plain_error" in fault else "ModelError"]
    assert (talk.text, lines(talk.history)) == ("full answer", ["user:Hi", "assistant:full answer"])
    assert talk.prompts[0] == talk.prompts[1]


async def test_an_error_of_a_guard_is_no_error_of_the_model() -> None:
    """C23: what breaks in process_llm_response is that processor's failure, and no handler is asked about it."""
    asked: list[str] = []

    def broken(_ctx: Any) -> None:
        raise ValueError("bug")

    handler = Hooks("E", process_api_error=lambda _ctx: asked.append("E") or Retry())
    talk = await ask(Hooks("A", process_llm_response=broken), turns=[{"text": "ok"}], error_processors=[handler])
    assert (asked, type(talk.error).__name__, len(talk.calls)) == ([], "StepFailedError", 1)


async def test_what_a_client_saw_of_a_failed_attempt_is_taken_back() -> None:
    """C20: it is retracted before the next attempt begins."""
    handler = Hooks("E", process_api_error=lambda _ctx: Retry())
    turns = [{"deltas": ["partial "], "stream_error": "broke off"}, {"text": "full answer"}]
    talk = await ask(turns=turns, mode="stream", error_processors=[handler])
    first = types(talk).index("retract")
    assert types(talk)[: first + 2] == ["start", "step-start", "text-start", "text-delta", "retract", "step-finish"]
    assert talk.sent[first].payload["blocks"] == ("text-1",)


# Callbacks


@pytest.mark.parametrize("stage", ["process_output_step", "process_tool_call", "process_output_result"])
async def test_no_listener_is_told_of_a_text_that_is_blocked(stage: str) -> None:
    """M05: not of the step that it is in, and not when the end is told."""
    told: list[Any] = []
    guard = Hooks("A", **{stage: lambda ctx: ctx.abort("no")})
    call = {
        "on_step_finish": lambda step: told.append(step.text),
        "on_finish": lambda result: told.append((result.status, result.text, [step.text for step in result.steps])),
    }
    talk = await ask(guard, turns=TOOL, mode="stream", call=call)
    assert told == [("blocked", "", [""] * len(talk.steps))]


async def test_listeners_are_told_of_each_step_as_it_ended() -> None:
    """M05: where the whole is judged at the end, then; with the text as it was left."""
    told: list[str] = []
    guard = Hooks("A", process_output_result=lambda ctx: ctx.message_list.map_text(str.upper, ctx.messages))
    await ask(guard, turns=TOOL, call={"on_step_finish": lambda step: told.append(step.text)})
    assert told == ["LET ME SEE", "DONE"]


async def test_data_that_hooks_write_is_kept_with_the_answer() -> None:
    """D05: before, in and behind it, whatever the stage, unless it is only to be shown."""

    def write(name: str) -> Any:
        def hook(*told: Any) -> Any:
            if len(told) == 1 or told[0].type == "text-start":
                told[-1].writer.write(Chunk("data-w", payload={"data": name}))
                told[-1].writer.write(Chunk("data-t", payload={"data": name}, transient=True))
            return told[0] if len(told) > 1 else None

        return hook

    early = ("process_input", "process_input_step", "process_llm_request")
    late = ("process_output_step", "process_output_result")
    hooks = {stage: write(stage) for stage in (*early, "process_output_stream", *late)}
    talk = await ask(Hooks("A", **hooks), turns=[{"text": "ok"}], mode="stream")
    [answer] = talk.history[1:]
    kept = [getattr(part, "data", getattr(part, "text", None)) for part in answer.parts]
    assert kept == [*early, "process_output_stream", "ok", *late]
