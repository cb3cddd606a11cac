"""The scripted model: whether it says what its script says, and keeps what it was asked."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from penstock import Chunk, Message
from penstock.engine.values.answer_builder import collected
from penstock.engine.values.errors import ModelError, UsageError
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.engine.values.model import ModelAnswer, ModelRequest, Usage
from penstock.engine.values.protocols import Model
from penstock.testing import ScriptedModel, Turn

ORACLE = Path(__file__).parents[1] / "conformance" / "oracle" / "runtime"
ASKED = ModelRequest((Message.user("How do you do?"),))


async def answer(model: ScriptedModel) -> ModelAnswer:
    """Ask once, and return the whole answer."""
    return await collected(model.stream(ASKED))


async def types(model: ScriptedModel) -> list[str]:
    """Ask once, and return the types of the chunks."""
    return [chunk.type for chunk in (await answer(model)).chunks]


async def test_turns_are_said_in_order_and_requests_kept() -> None:
    """A str, a mapping, a value and a callable."""
    model = ScriptedModel(["one", {"text": "two"}, Turn(text="three"), lambda asked: asked.messages[0].text])
    assert isinstance(model, Model)
    assert [(await answer(model)).text for _ in range(4)] == ["one", "two", "three", "How do you do?"]
    assert model.requests == [ASKED] * 4
    with pytest.raises(UsageError, match="has 4 turns, and this is one more request"):
        await answer(model)


async def test_the_last_turn_repeats_if_it_is_to() -> None:
    """As some of the oracle's scenarios say of theirs."""
    model = ScriptedModel(["one", "two"], repeat_last=True)
    assert [(await answer(model)).text for _ in range(4)] == ["one", "two", "two", "two"]


async def test_one_callable_answers_everything() -> None:
    """It is the whole script."""
    model = ScriptedModel(lambda asked: {"object": {"words": len(asked.messages[0].text.split())}})
    assert [(await answer(model)).text for _ in range(2)] == ['{"words": 4}'] * 2


async def test_an_async_callable_may_take_its_time() -> None:
    """A model that is slow for as long as the test wants."""
    may = anyio.Event()

    async def slow(asked: ModelRequest) -> str:
        await may.wait()
        return "at last"

    model = ScriptedModel([slow])
    async with anyio.create_task_group() as tasks:
        told: list[str] = []
        tasks.start_soon(note_answer, told, model)
        await anyio.wait_all_tasks_blocked()
        assert (told, model.streaming) == ([], 1)
        may.set()
    assert (told, model.streaming) == (["at last"], 0)


async def note_answer(told: list[str], model: ScriptedModel) -> None:
    """Ask once, and note the text."""
    told.append((await answer(model)).text)


async def test_deltas_come_one_by_one() -> None:
    """Empty ones do not come."""
    told = (await answer(ScriptedModel([{"deltas": ["He", "", "llo"]}]))).chunks
    assert [chunk.text for chunk in told if chunk.type == "text-delta"] == ["He", "llo"]


@pytest.mark.parametrize("said", ["", {"text": ""}, {"deltas": []}, {}])
async def test_a_turn_without_text_begins_none(said) -> None:
    """Neither start nor end."""
    assert await types(ScriptedModel([said])) == ["response-metadata", "finish"]


async def test_a_whole_turn_becomes_a_whole_message() -> None:
    """Thoughts, text and calls, in this order; a token a word."""
    said = {"text": "I look.", "reasoning": ["Hm, ", "well."], "tool_calls": [{"name": "web", "args": {"q": "x"}}]}
    told = await answer(ScriptedModel([said]))
    call = ToolPart("call-1", "web", {"q": "x"})
    assert told.message.parts == (ReasoningPart("Hm, well."), TextPart("I look."), call)
    assert (told.finish_reason, told.usage) == ("tool-calls", Usage(4, 6))


async def test_a_turn_may_say_why_it_ends_and_what_it_took() -> None:
    """What it does not say is counted."""
    told = await answer(ScriptedModel([{"text": "a b", "finish_reason": "length", "usage": {"cached_tokens": 3}}]))
    assert (told.finish_reason, told.usage) == ("length", Usage(4, 2, cached_tokens=3))


async def test_a_refusal_is_told_as_one() -> None:
    """The words are text all the same."""
    told = await answer(ScriptedModel([{"refusal": "I will not."}]))
    assert (told.refused, told.text) == (True, "I will not.")


async def test_streamed_arguments_come_in_pieces_before_the_call() -> None:
    """The pieces make the arguments."""
    said = {"tool_calls": [{"id": "c1", "name": "web", "args": {"q": "orig"}}], "stream_tool_input": True}
    told = (await answer(ScriptedModel([said]))).chunks
    pieces = [chunk.text for chunk in told if chunk.type == "tool-input-delta"]
    assert len(pieces) > 1
    assert json.loads("".join(pieces)) == {"q": "orig"}
    assert [chunk.type for chunk in told if chunk.type != "tool-input-delta"] == [
        "response-metadata",
        "tool-input-start",
        "tool-input-end",
        "tool-call",
        "finish",
    ]


async def test_arguments_that_are_no_json_are_told_as_such() -> None:
    """A model may write anything."""
    told = (await answer(ScriptedModel([{"tool_calls": [{"name": "web", "args": '{"q": '}]}]))).chunks
    call = next(chunk for chunk in told if chunk.type == "tool-call")
    assert (call.payload["arguments"], call.payload["invalid"]) == ('{"q": ', True)


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (429, True), (500, True), (None, False)])
async def test_an_error_is_the_ports_own(status, retryable) -> None:
    """Its status says whether it is worth another try."""
    model = ScriptedModel([{"error": {"status": status, "message": "e1", "code": "c", "retry_after": 2}}])
    with pytest.raises(ModelError, match="e1") as caught:
        await answer(model)
    error = caught.value
    assert (error.status, error.code, error.retry_after, error.retryable) == (status, "c", 2, retryable)


async def test_an_error_may_be_just_a_message() -> None:
    """As the scripts of the built-ins' vectors have it."""
    with pytest.raises(ModelError, match="boom"):
        await answer(ScriptedModel([{"error": "boom"}]))


@pytest.mark.parametrize("told", ["bang", {"message": "bang"}])
async def test_a_plain_error_is_none_of_the_ports(told) -> None:
    """A model that breaks its contract."""
    with pytest.raises(RuntimeError, match="bang"):
        await answer(ScriptedModel([{"plain_error": told}]))


async def test_a_stream_error_comes_behind_what_was_said() -> None:
    """So much had left by then."""
    seen: list[Chunk] = []
    with pytest.raises(ModelError, match="lost"):
        await read_into(seen, ScriptedModel([{"deltas": ["a", "b"], "stream_error": "lost"}]))
    assert "".join(chunk.text for chunk in seen) == "ab"
    assert seen[-1].type == "text-end"


async def read_into(seen: list[Chunk], model: ScriptedModel) -> None:
    """Ask once, and keep each chunk as it comes."""
    async for chunk in model.stream(ASKED):
        seen.append(chunk)  # noqa: PERF401 - a comprehension would keep nothing of a stream that breaks


async def test_the_same_script_gives_the_same_chunks() -> None:
    """Ids included; but no two answers share one."""
    models = [ScriptedModel(["one", "two"]) for _ in range(2)]
    first, second = [[(await answer(model)).chunks for _ in range(2)] for model in models]
    assert first == second
    assert first[0][0].payload["id"] != first[1][0].payload["id"]


async def test_an_answer_that_is_closed_early_is_over() -> None:
    """Nothing is being read any more."""
    model = ScriptedModel([{"deltas": ["a", "b", "c"]}])
    stream = model.stream(ASKED)
    await anext(stream)
    assert model.streaming == 1
    await stream.aclose()
    assert model.streaming == 0


def test_a_misspelt_turn_is_refused() -> None:
    """The error says what there is; a str is no script of its letters."""
    with pytest.raises(UsageError, match="a turn has no txet; its keys are text, deltas"):
        anext_of(ScriptedModel([{"txet": "x"}]))
    with pytest.raises(UsageError, match="a turn has no None, txet; its keys are"):
        anext_of(ScriptedModel([{None: 1, "txet": "x"}]))
    with pytest.raises(UsageError, match="a script is a list"):
        ScriptedModel("hello")


def anext_of(model: ScriptedModel) -> None:
    """Ask once, without an event loop: a scripted model waits for nothing."""
    with pytest.raises(StopIteration):
        model.stream(ASKED).__anext__().send(None)


@pytest.mark.parametrize("path", sorted(ORACLE.glob("*.json")), ids=lambda path: path.stem)
async def test_every_scenario_of_the_oracle_can_be_said(path: Path) -> None:
    """Its ``model_turns``, as they stand."""
    for turns in turns_of(path):
        model = ScriptedModel(turns)
        for said in turns:
            if "error" in said:
                with pytest.raises(ModelError):
                    await answer(model)
            else:
                told = await answer(model)
                assert told.text == "".join(said.get("deltas") or [said.get("text") or ""])
                calls = [part.call_id for part in told.message.parts if isinstance(part, ToolPart)]
                assert calls == [call["id"] for call in said.get("tool_calls", ())]


def turns_of(path: Path) -> list[list[dict]]:
    """The scripts of a scenario."""
    return all_turns(json.loads(path.read_text("utf-8"))["given"])


def all_turns(given: object) -> list[list[dict]]:
    """Every list of ``model_turns`` in a scenario, however deep."""
    if isinstance(given, list):
        return [turns for item in given for turns in all_turns(item)]
    if not isinstance(given, dict):
        return []
    own = [given["model_turns"]] if "model_turns" in given else []
    return own + [turns for key, value in given.items() if key != "model_turns" for turns in all_turns(value)]
