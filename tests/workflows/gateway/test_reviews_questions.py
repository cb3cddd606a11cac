"""Questions about results of tools and about answers wait in each protocol, and count as a person has decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import PIIDetector
from penstock.processors.tools import HumanReview, ToolPolicy
from tests.workflows.gateway.desk import SECRET, Desk, chat, messages, responses
from tests.workflows.review.schema_check import stored_runs_fit_the_schema  # noqa: F401 - checks each run that is stored

PII = PIIDetector(redaction_method="placeholder")
RESULTS = (HumanReview(["tool_result"]), PII)
ANSWERS = (PII, HumanReview(["output"]))


def chat_results(*results: str) -> tuple[str, Any, list[bytes]]:
    """Return a request with results of tools, and what the provider sends."""
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        for number, _ in enumerate(results)
    ]
    said = [{"role": "tool", "tool_call_id": f"c{number}", "content": one} for number, one in enumerate(results)]
    asked = {"role": "user", "content": "Look it up"}
    body = {"model": "m", "messages": [asked, {"role": "assistant", "content": None, "tool_calls": calls}, *said]}
    message = {"role": "assistant", "content": "Found."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    whole = {"id": "x", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice]}
    return "/v1/chat/completions", {**body, "stream": False}, [json.dumps(whole).encode()]


def messages_result(result: str) -> tuple[str, Any, list[bytes]]:
    """Return the same of Anthropic's messages."""
    use = {"type": "tool_use", "id": "c0", "name": "look_up", "input": {}}
    given = {"type": "tool_result", "tool_use_id": "c0", "content": result}
    turns = [("user", "Look it up"), ("assistant", [use]), ("user", [given])]
    body = {
        "model": "m", "max_tokens": 9, "stream": False,
        "messages": [{"role": role, "content": content} for role, content in turns],
    }  # fmt: skip
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 3, "output_tokens": 5}
    whole = {**frame, "stop_sequence": None, "usage": usage, "content": [{"type": "text", "text": "Found."}]}
    return "/v1/messages", body, [json.dumps(whole).encode()]


def responses_result(result: str) -> tuple[str, Any, list[bytes]]:
    """Return the same of OpenAI's responses."""
    _, body, sends = responses(streams=False)
    call = {"type": "function_call", "call_id": "c0", "name": "look_up", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "c0", "output": result}
    return "/v1/responses", {**body, "input": [{"role": "user", "content": "Look it up"}, call, given]}, sends


def answered_with(sends: list[bytes], text: str) -> list[bytes]:
    """Return an answer with another text."""
    whole = json.loads(sends[0])
    whole["choices"][0]["message"]["content"] = text
    return [json.dumps(whole).encode()]


@pytest.mark.parametrize("request_of", [chat_results, messages_result, responses_result])
async def test_a_result_waits_and_counts_in_later_turns_too(request_of: Any) -> None:
    """The person sees it as the guards left it; another result is asked about anew."""
    desk = Desk()
    path, body, sends = request_of(f"It is {SECRET}")
    got = await desk.send(path, body, sends, *RESULTS, asked=0)
    assert got.ended.standing == "waiting"
    waiting = await desk.waits()
    assert waiting["question"] == "Look it up"
    assert waiting["calls"][0]["arguments"]["result"] == "It is [EMAIL]"
    assert SECRET not in json.dumps(waiting)
    await desk.reviews.approve(waiting["run_id"], by="eve")
    got = await desk.send(path, body, sends, *RESULTS)
    assert (got.ended.standing, got.ended.review) == ("", waiting["run_id"])
    turns = "input" if path.endswith("responses") else "messages"
    later = {
        **body,
        turns: [*body[turns], {"role": "assistant", "content": "Found."}, {"role": "user", "content": "?"}],
    }
    assert (await desk.send(path, later, sends, *RESULTS)).ended.standing == ""
    _, other, _ = request_of("It is gone")
    assert (await desk.send(path, other, sends, *RESULTS, asked=0)).ended.standing == "waiting"


async def test_results_are_asked_about_together() -> None:
    """The client is told of the first; one that a person writes in the place of another is judged by the guards."""
    desk = Desk()
    path, body, sends = chat_results("One", "Two")
    await desk.send(path, body, sends, *RESULTS, asked=0)
    first, second = [run.run_id for run in (await desk.reviews.runs()).items]
    call = (await desk.reviews.run(first)).calls[0].call_id
    await desk.reviews.answer(first, call, {"decision": "approve", "text": f"Ask {SECRET}"})
    assert (await desk.send(path, body, sends, *RESULTS, asked=0)).ended.review == second
    await desk.reviews.approve(second)
    await desk.send(path, body, sends, *RESULTS)
    assert [one["content"] for one in desk.got["messages"][2:]] == ["Ask [EMAIL]", "Two"]


async def test_a_refused_result_reaches_no_provider() -> None:
    """The client reads the reason; an answer that says no is a verdict."""
    for said in ("reject", "answer"):
        desk = Desk()
        path, body, sends = chat_results("One")
        await desk.send(path, body, sends, *RESULTS, asked=0)
        run = (await desk.reviews.runs()).items[0]
        if said == "reject":
            await desk.reviews.reject(run.run_id, reason="not that")
        else:
            await desk.reviews.answer(run.run_id, run.calls[0].call_id, {"decision": "reject"})
        got = await desk.send(path, body, sends, *RESULTS, asked=0)
        assert (got.ended.standing == "rejected", got.ended.verdict is None) == ((said == "reject"),) * 2
        assert (said == "reject") == ("not that" in got.body.decode())


async def test_a_verdict_about_a_result_spares_the_question_about_another() -> None:
    """Nothing is stored."""
    desk = Desk()
    path, body, sends = chat_results("One", f"It is {SECRET}")
    steps = (HumanReview(["tool_result"]), PIIDetector(strategy="block"))
    assert (await desk.send(path, body, sends, *steps, asked=0)).ended.verdict is not None
    assert (await desk.reviews.runs(status=None)).items == ()


async def test_results_of_calls_with_the_same_id_wait_one_after_another() -> None:
    """As of a provider that numbers the calls of each turn."""
    desk = Desk()
    path, body, sends = chat_results("One", "Two")
    for call in (*body["messages"][1]["tool_calls"], *body["messages"][2:]):
        call["tool_call_id" if "role" in call else "id"] = "c0"
    for _ in range(2):
        assert (await desk.send(path, body, sends, *RESULTS, asked=0)).ended.standing == "waiting"
        for run in (await desk.reviews.runs()).items:
            if run.undecided:
                await desk.reviews.approve(run.run_id)
    assert (await desk.send(path, body, sends, *RESULTS)).ended.standing == ""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", [chat, messages, responses])
async def test_an_answer_waits_and_leaves_when_it_is_approved(protocol: Any, streams: bool) -> None:
    """As it would have left without the question, to the byte; the provider is not asked again."""
    desk = Desk()
    path, body, sends = protocol(streams=streams)
    sends = [one.replace(b"I will refund it.", f"I write to {SECRET}.".encode()) for one in sends]
    first = await desk.send(path, body, sends, *ANSWERS)
    waiting = await desk.waits()
    assert (first.ended.standing, first.ended.review) == ("waiting", waiting["run_id"])
    assert waiting["run_id"] in first.body.decode()
    assert b"I w" not in first.body
    assert b'refund"' not in first.body.replace(b"\\", b"")
    assert waiting["calls"][0]["arguments"]["text"] == waiting["text"]
    assert SECRET not in json.dumps(waiting)
    assert (await desk.send(path, body, sends, *ANSWERS, asked=0)).ended.standing == "waiting"
    await desk.reviews.approve(waiting["run_id"], by="eve")
    let = await desk.send(path, body, sends, *ANSWERS, asked=0)
    assert let.body == (await desk.send(path, body, sends, PII)).body
    assert (let.ended.review, let.ended.standing, let.ended.usage) == (waiting["run_id"], "", (0, 0))
    assert (await desk.send(path, body, sends, *ANSWERS)).ended.standing == "waiting"


@pytest.mark.parametrize("streams", [False, True])
async def test_of_answers_that_are_held_nobody_is_warned_that_they_leave(streams: bool, caplog: Any) -> None:
    """Nothing of them does before their last stage."""
    path, body, sends = chat(streams=streams)
    await Desk().send(path, body, sends, *ANSWERS)
    assert caplog.text == ""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("protocol", [chat, messages, responses])
async def test_a_text_in_place_of_an_answer_is_judged_and_leaves(protocol: Any, streams: bool) -> None:
    """The guards read it like any other."""
    desk = Desk()
    path, body, sends = protocol(streams=streams)
    await desk.send(path, body, sends, *ANSWERS)
    waiting = await desk.waits()
    value = {"decision": "approve", "text": f"Ask {SECRET}"}
    await desk.reviews.answer(waiting["run_id"], waiting["calls"][0]["call_id"], value)
    let = await desk.send(path, body, sends, *ANSWERS, asked=0)
    assert "Ask [EMAIL]" in let.body.decode()
    assert b"I w" not in let.body


async def test_a_refused_answer_never_leaves() -> None:
    """Neither with a reason for the client, nor as a verdict."""
    for said in ("reject", "answer"):
        desk = Desk()
        path, body, sends = chat(streams=False)
        await desk.send(path, body, sends, *ANSWERS)
        waiting = await desk.waits()
        if said == "reject":
            await desk.reviews.reject(waiting["run_id"], reason="too kind")
        else:
            await desk.reviews.answer(waiting["run_id"], waiting["calls"][0]["call_id"], {"decision": "reject"})
        for _ in range(2):
            got = await desk.send(path, body, sends, *ANSWERS, asked=0)
            assert b"I will" not in got.body
            assert (said == "reject") == ("too kind" in got.body.decode())


@pytest.mark.parametrize("streams", [False, True])
async def test_an_answer_and_its_calls_are_asked_about_at_once(streams: bool) -> None:
    """Both must be approved."""
    desk = Desk()
    path, body, sends = chat(streams=streams)
    steps = (*ANSWERS, ToolPolicy(ask=["refund"]))
    await desk.send(path, body, sends, *steps)
    waiting = await desk.waits()
    assert [call["kind"] for call in waiting["calls"]] == ["approval", "question"]
    call, question = [call["call_id"] for call in waiting["calls"]]
    await desk.reviews.approve(waiting["run_id"], question)
    assert (await desk.send(path, body, sends, *steps, asked=0)).ended.standing == "waiting"
    await desk.reviews.approve(waiting["run_id"], call, arguments={"order": 9})
    let = await desk.send(path, body, sends, *steps, asked=0)
    assert "refund it." in let.body.decode()
    assert b'order\\":9' in let.body.replace(b": ", b":")
    assert {run.status for run in (await desk.reviews.runs(status=None)).items} == {"ended"}


async def test_an_input_that_was_approved_counts_until_the_answer_is_decided() -> None:
    """It is not asked about a second time in between."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    steps = (HumanReview(["input", "output"]), PII)
    await desk.send(path, body, sends, *steps, asked=0)
    await desk.reviews.approve((await desk.waits())["run_id"])
    await desk.send(path, body, sends, *steps)
    (undecided,) = [run for run in (await desk.reviews.runs()).items if run.undecided]
    await desk.reviews.approve(undecided.run_id)
    assert (await desk.send(path, body, sends, *steps, asked=0)).ended.standing == ""
    assert {run.status for run in (await desk.reviews.runs(status=None)).items} == {"ended"}


@pytest.mark.parametrize("first", [False, True])
async def test_a_stored_answer_is_for_a_request_of_the_same_kind(first: bool) -> None:
    """A client that wants a stream is not sent a whole answer, and the other way round."""
    desk = Desk()
    path, body, sends = chat(streams=first)
    await desk.send(path, body, sends, *ANSWERS)
    await desk.reviews.approve((await desk.waits())["run_id"])
    path, body, sends = chat(streams=not first)
    got = await desk.send(path, body, sends, *ANSWERS)
    assert got.ended.standing == ""
    assert got.body.startswith(b"{" if first else b"data:")


@pytest.mark.parametrize("asks_about_calls", [False, True])
async def test_the_approval_of_an_answer_is_for_its_text(asks_about_calls: bool) -> None:
    """Its reasoning is no part of it; its calls are only if a guard asks about them."""
    desk = Desk()
    steps = (*ANSWERS, ToolPolicy(ask=["refund"])) if asks_about_calls else ANSWERS
    path, body, sends = chat(streams=True)  # the provider is asked again: the stored answer is no whole one
    await desk.send(path, body, sends, *steps)
    waiting = await desk.waits()
    for call in waiting["calls"]:
        await desk.reviews.approve(waiting["run_id"], call["call_id"])
    path, body, sends = chat(streams=False)
    whole = json.loads(sends[0])
    message = whole["choices"][0]["message"]
    message["reasoning_content"] = "Nobody has seen this."
    message["tool_calls"][0]["function"]["arguments"] = '{"order": 8}'
    got = await desk.send(path, body, [json.dumps(whole).encode()], *steps)
    assert got.ended.standing == ("waiting" if asks_about_calls else "")
    assert (b"Nobody has seen this." in got.body) is not asks_about_calls


async def test_another_answer_than_the_approved_one_is_asked_about_anew() -> None:
    """As of a provider that is asked again because the answer was too long to be stored."""
    desk = Desk()
    path, body, sends = chat(streams=False)
    long = answered_with(sends, "word " * 250_000)
    await desk.send(path, body, long, *ANSWERS)
    await desk.reviews.approve((await desk.waits())["run_id"])
    assert (await desk.send(path, body, answered_with(sends, "No."), *ANSWERS)).ended.standing == "waiting"
