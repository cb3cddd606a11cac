"""Whether a whole answer is what its stream would have been, in every format; and how streams are framed and closed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import Agent, Message, RegexFilterProcessor, SQLiteStorage, Tool, Workflow
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.messages import ReasoningPart, TextPart, ToolPart
from penstock.processors.tools import HumanReview
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    AGUIEncoder,
    ChatCompletionsEncoder,
    PlainTextEncoder,
    ResponsesEncoder,
    UIMessagesEncoder,
    WholeResponse,
    ag_ui,
    chat_completions,
    plain_text,
    responses,
    ui_messages,
)
from tests.workflows.web.answers import VERDICT, call, finish, guarded_agent, text

FORMATS = {
    "chat": (chat_completions, lambda **options: ChatCompletionsEncoder("m", **options)),
    "responses": (responses, lambda **options: ResponsesEncoder("m", **options)),
    "ui": (ui_messages, UIMessagesEncoder),
    "ag_ui": (ag_ui, AGUIEncoder),
    "plain": (plain_text, PlainTextEncoder),
}
each_format = pytest.mark.parametrize("name", FORMATS)
CALLS = Message.assistant(
    [ReasoningPart("Hm."), TextPart("One"), TextPart("moment."), ToolPart("c1", "weather", {"city": "Oslo"})]
)


def told(name: str, answer: object) -> str:
    """A whole answer as text."""
    return answer if isinstance(answer, str) else json.dumps(answer)


@each_format
async def test_an_answer_that_waits_for_a_person_says_so(name: str, tmp_path: Path) -> None:
    """Streamed and whole; nothing of the question is told."""
    module, encoder = FORMATS[name]
    async with SQLiteStorage(tmp_path / "runs.db") as store:
        agent = Agent(ScriptedModel(["Hello."], repeat_last=True), processors=[HumanReview(["input"])], reviews=store)
        streamed = b"".join([piece async for piece in module.stream(agent.stream("My number is 7"), encoder())])
        result = await agent.generate("My number is 7")
    assert result.status == "suspended"
    for sent in (streamed.decode(), told(name, module.answer(result, encoder()))):
        assert "A person has to review this request." in sent
        assert "Is this allowed" not in sent
        assert "number is 7" not in sent


@each_format
async def test_an_answer_that_waits_for_the_calls_of_an_inner_agent_says_so(name: str, tmp_path: Path) -> None:
    """Whole as streamed; no client is told to run the outer call."""
    module, encoder = FORMATS[name]
    refund = {"tool_calls": [{"name": "refund", "args": {"order": 7}}]}
    ask = {"tool_calls": [{"name": "clerk", "args": {"prompt": "Refund it"}}]}
    inner = Agent(
        ScriptedModel([refund], repeat_last=True), id="clerk", tools=[Tool(refunded, name="refund", approval=True)]
    )
    async with SQLiteStorage(tmp_path / "runs.db") as store:
        agent = Agent(ScriptedModel([ask], repeat_last=True), tools=[inner.as_tool()], reviews=store)
        streamed = b"".join([piece async for piece in module.stream(agent.stream("Go"), encoder())])
        result = await agent.generate("Go")
    assert result.status == "suspended"
    for sent in (streamed.decode(), told(name, module.answer(result, encoder()))):
        assert "A person has to review this request." in sent
        assert "pendingToolCallIds" not in sent


def refunded(order: int) -> str:
    """Refund an order."""
    return f"order {order} is refunded"


async def test_a_completion_of_a_result() -> None:
    """The tokens are told, and the call that the client is to run."""
    result = await guarded_agent().generate("Hi")
    answer = chat_completions.answer(result, ChatCompletionsEncoder("m", id="chatcmpl-1", created=7))
    assert answer["object"] == "chat.completion"
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Ask [EMAIL]", "tool_calls")
    (mail,) = choice["message"]["tool_calls"]
    assert (mail["id"], mail["function"]) == ("call-1", {"name": "mail", "arguments": '{"to":"[EMAIL]"}'})
    assert answer["usage"] == {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}


def test_a_completion_of_a_message() -> None:
    """All its texts are one content; reasoning is told where it is wanted."""
    answer = chat_completions.answer(CALLS, ChatCompletionsEncoder("m", reasoning="reasoning"))
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["message"]["reasoning"]) == ("Onemoment.", "Hm.")
    assert (choice["finish_reason"], answer["usage"]) == ("tool_calls", None)


async def test_a_response_of_a_result() -> None:
    """It is the response at the end of the stream."""
    result = await guarded_agent().generate("Hi")
    answer = responses.answer(result, ResponsesEncoder("m"))
    assert (answer["status"], [item["type"] for item in answer["output"]]) == (
        "completed",
        ["message", "function_call"],
    )
    assert answer["usage"]["total_tokens"] == 5


def test_an_answer_of_the_ai_sdk_is_the_parts_of_its_stream() -> None:
    """From the start to the finish."""
    answer = ui_messages.answer(CALLS, UIMessagesEncoder(message_id="m-1", reasoning=False))
    assert answer[0] == {"type": "start", "messageId": "m-1"}
    assert [part["delta"] for part in answer if part["type"] == "text-delta"] == ["One", "moment."]
    assert "Hm." not in json.dumps(answer)
    assert answer[-1] == {"type": "finish", "finishReason": "tool-calls"}


def test_plain_text_of_a_message() -> None:
    """A line for each text."""
    assert plain_text.answer(CALLS, PlainTextEncoder()) == "One\nmoment."


@each_format
async def test_a_blocked_result_says_only_the_refusal(name: str) -> None:
    """Nothing of the answer, the question or the verdict."""
    module, encoder = FORMATS[name]
    guard = Workflow("guard").then(RegexFilterProcessor(presets=["pii"], strategy="block"))
    result = await Agent(ScriptedModel(["Ask ada@example.com"]), processors=[guard]).generate("Hi")
    assert result.blocked
    answer = told(name, module.answer(result, encoder(refusal="I cannot answer that.")))
    assert "I cannot answer that." in answer
    assert not [word for word in ("ada@", "regex", "pii", "guard", "Ask") if word in answer]


@each_format
async def test_a_whole_response_is_sent_at_once(name: str) -> None:
    """As JSON, or as text if the format is text."""
    module, encoder = FORMATS[name]
    sent, forever = list[dict[str, Any]](), anyio.Event()

    async def receive() -> dict[str, Any]:
        await forever.wait()
        return {}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    await WholeResponse(guarded_agent().generate("Hi"), module.answer, encoder())({}, receive, send)
    start, body = sent
    headers = dict(start["headers"])
    assert headers[b"content-type"].startswith(b"text/plain" if name == "plain" else b"application/json")
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert b"[EMAIL]" in body["body"]


@each_format
async def test_a_stream_closes_its_source(name: str) -> None:
    """At once, when its reader leaves; and when the answer ends early."""
    module, encoder = FORMATS[name]
    closed: list[str] = []

    async def source(chunks: list[Chunk]) -> AsyncIterator[Chunk]:
        try:
            for chunk in chunks:
                yield chunk
        finally:
            closed.append("closed")

    pieces = module.stream(source([*text("Hi", "Ho"), finish()]), encoder())
    await anext(pieces)
    await pieces.aclose()
    assert closed == ["closed"]
    left = [piece async for piece in module.stream(source([VERDICT, *text("later")]), encoder())]
    assert closed == ["closed", "closed"]
    assert b"later" not in b"".join(left)


@each_format
async def test_a_stream_enters_an_agents_stream(name: str) -> None:
    """What is sent is the guarded text; without `await` too."""
    module, encoder = FORMATS[name]
    pieces = [piece async for piece in module.stream(guarded_agent().stream("Hi"), encoder())]
    assert b"[EMAIL]" in b"".join(pieces)
    assert b"ada@" not in b"".join(pieces)


@each_format
@pytest.mark.parametrize("strategy", ["redact", "block"])
async def test_a_stream_of_a_run_is_sent_too(name: str, strategy: str) -> None:
    """For services that call their model themselves; a verdict is as silent as an agent's."""
    module, encoder = FORMATS[name]
    guard = Workflow("guard").then(RegexFilterProcessor(presets=["pii"], strategy=strategy))
    async with guard.start() as run:
        answer = run.process_output_stream(text("Write to ada@exa", "mple.com"))
        body = b"".join([piece async for piece in module.stream(answer, encoder(refusal="No more."))])
    assert (b"[EMAIL]" in body, b"No more." in body) == (strategy == "redact", strategy == "block")
    assert not [word for word in (b"ada@", b"regex", b"pii", b"tripwire") if word in body]


@each_format
def test_a_sync_stream_is_the_same(name: str) -> None:
    """From `agent.stream_sync`."""
    module, encoder = FORMATS[name]
    pieces = list(module.stream_sync(guarded_agent().stream_sync("Hi"), encoder()))
    assert b"[EMAIL]" in b"".join(pieces)
    assert b"ada@" not in b"".join(pieces)


@each_format
def test_an_exception_becomes_a_neutral_end(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the stream ends as its format ends."""
    module, encoder = FORMATS[name]

    def source() -> Iterator[Chunk]:
        yield from text("Hi")
        raise RuntimeError("db-7 is down")

    body = b"".join(module.stream_sync(source(), encoder())).decode()
    assert "The request failed. Please try again." in body
    assert "db-7" not in body
    [record] = caplog.records
    assert record.name == "penstock.web"
    assert "RuntimeError" in caplog.text
    assert "in source" in caplog.text
    assert "db-7" not in caplog.text


def test_events_are_framed_as_the_standard_says() -> None:
    """A line break within a text breaks no event."""
    body = b"".join(chat_completions.stream_sync(iter([*text("a\n\nb\u2028"), finish()]), ChatCompletionsEncoder("m")))
    events = body.decode().split("\n\n")
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "a\n\nb\u2028"
    assert events[-2:] == ["data: [DONE]", ""]
    named = b"".join(responses.stream_sync(iter([finish()]), ResponsesEncoder("m"))).decode().split("\n\n")
    assert named[0].startswith("event: response.created\ndata: {")


def test_a_stream_of_the_ai_sdk_starts_texts_that_have_no_start() -> None:
    """The SDK refuses a delta without one, and an id that is empty is none."""
    encoder = UIMessagesEncoder()
    events = [event for chunk in [Chunk("text-delta", "Hi"), finish()] for event in encoder.events(chunk)]
    events += encoder.end()
    assert [event["type"] for event in events] == ["start", "text-start", "text-delta", "text-end", "finish"]
    assert {event["id"] for event in events if "id" in event} == {"text"}


def test_a_call_with_invalid_arguments_is_an_error_in_the_ai_sdk() -> None:
    """With a neutral text; a tool that failed has one too."""
    chunks = [
        *call("{oops", arguments="{oops"),
        Chunk("tool-error", id="c1", payload={"call_id": "c1", "error": "db-7"}),
    ]
    chunks[-2] = chunks[-2].with_payload({**chunks[-2].payload, "invalid": True})
    encoder = UIMessagesEncoder()
    events = [event for chunk in chunks for event in encoder.events(chunk)]
    assert [event["type"] for event in events[-2:]] == ["tool-input-error", "tool-output-error"]
    assert {event["errorText"] for event in events[-2:]} == {"The tool failed."}
    assert "db-7" not in json.dumps(events)


def test_results_of_unknown_calls_are_not_sent_to_the_ai_sdk() -> None:
    """It would stop reading; those of the message that is continued are."""
    result = Chunk("tool-result", id="c1", payload={"call_id": "c1", "result": 1})
    assert [event["type"] for event in UIMessagesEncoder().events(result)] == ["start"]
    part = {"type": "tool-mail", "toolCallId": "c1", "state": "input-available", "input": {}}
    asked = ui_messages.read_request({"messages": [{"id": "a", "role": "assistant", "parts": [part]}]})
    events = UIMessagesEncoder.answering(asked).events(result)
    assert [event["type"] for event in events] == ["start", "tool-output-available"]


def test_a_rejected_call_is_taken_back_from_the_ai_sdk() -> None:
    """By its place, and the client has nothing to run."""
    retry = Chunk("step-finish", payload={"reason": "retry", "retry_reason": "secret"})
    chunks = [Chunk("step-start"), *call(arguments={}), retry, Chunk("step-start"), *text("Hi"), finish()]
    encoder = UIMessagesEncoder()
    events = [*(event for chunk in chunks for event in encoder.events(chunk)), *encoder.end()]
    (retracted,) = [event for event in events if event["type"] == "data-retract"]
    assert retracted["data"] == {"blocks": [], "parts": [1]}
    assert events[-1]["finishReason"] == "stop"
    assert "secret" not in json.dumps(events)


def test_plain_text_ends_where_it_is_retracted() -> None:
    """It cannot be taken back."""
    chunks = [*text("Hi"), Chunk("retract", payload={"blocks": ("t",)}), *text("later", id="u"), finish()]
    body = b"".join(plain_text.stream_sync(iter(chunks), PlainTextEncoder(refusal="No more.")))
    assert body == b"Hi\nNo more."
