"""Whether clients in JavaScript read our streams: the AI SDK's own parser, and the official `openai` library."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock import Agent, Chunk, Context, TextGuard, Tool
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    AGUIEncoder,
    ChatCompletionsEncoder,
    ReleasedLog,
    ResponsesEncoder,
    ResumableResponse,
    ResumedResponse,
    StreamedResponse,
    UIMessagesEncoder,
    ag_ui,
    chat_completions,
    responses,
    ui_messages,
)
from tests.npm import installed
from tests.workflows.web.answers import TOLD, VERDICT, call, finish, guarded_agent, text
from tests.workflows.web.servers import on_uvicorn

HOUSE = Path(__file__).parents[2] / "web_clients"
SDKS = ("ai-v5", "ai-v6", "ai")
FORMATS = {
    "v1/chat/completions": (chat_completions, ChatCompletionsEncoder),
    "v1/responses": (responses, ResponsesEncoder),
    "ui": (ui_messages, UIMessagesEncoder),
    "ag_ui": (ag_ui, AGUIEncoder),
}

each_sdk = pytest.mark.parametrize("sdk", SDKS)
pytestmark = pytest.mark.rest


@pytest.fixture(scope="module")
def script() -> Path:
    """The script that asks, beside its packages."""
    return installed(HOUSE, "read.mjs", "clients in JavaScript cannot be asked")


@contextmanager
def served(source: Agent | list[Chunk], **options: object) -> Iterator[str]:
    """A service of all formats; it sends the answers of an agent, or these chunks."""

    async def chunks(made: list[Chunk]):
        for chunk in made:
            yield chunk

    def endpoint(path: str):
        module, encoder = FORMATS[path]

        async def ask(request: Request) -> StreamedResponse:
            asked = module.read_request(await request.body())
            answer = chunks(source) if isinstance(source, list) else source.stream(asked.messages)
            if path == "ag_ui":
                return StreamedResponse(ag_ui.stream(answer, AGUIEncoder.answering(asked)), ag_ui.HEADERS)
            writer = encoder(**({} if path == "ui" else {"model": "m"}), **options)
            return StreamedResponse(module.stream(answer, writer), module.HEADERS)

        return ask

    with on_uvicorn(Starlette(routes=[Route(f"/{path}", endpoint(path), methods=["POST"]) for path in FORMATS])) as url:
        yield url


def ask(script: Path, client: str, url: str, *more: str) -> dict[str, Any]:
    """What a client in JavaScript understood."""
    command = ["node", str(script), client, url, "Hi", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FULL = [
    Chunk("start"),
    Chunk("step-start"),
    *[Chunk("reasoning-start", id="r"), Chunk("reasoning-delta", "Hm.", "r"), Chunk("reasoning-end", id="r")],
    *text("One ", "moment."),
    *call('{"city"', ':"Oslo"}', arguments={"city": "Oslo"}),
    Chunk("tool-result", id="c1", payload={"call_id": "c1", "name": "weather", "result": {"degrees": 4}}),
    Chunk("step-finish", payload={"reason": "tool-calls", "is_continued": True}),
    Chunk("step-start"),
    *text("It is ", "cold."),
    Chunk("source", payload={"id": "s1", "url": "https://a.example", "title": "A"}),
    Chunk("file", payload={"media_type": "image/png", "data": "aGk="}),
    Chunk("data-mood", id="d1", payload={"data": {"mood": "calm"}}),
    Chunk("data-progress", payload={"data": 1}, transient=True),
    Chunk("step-finish", payload={"reason": "stop"}),
    finish(input_tokens=3, output_tokens=5),
]


@each_sdk
def test_the_ai_sdk_reads_every_part(script: Path, sdk: str) -> None:
    """With its transport, its schema and its own assembly of the message."""
    with served(FULL) as url:
        seen = ask(script, sdk, url)
    assert seen["error"] is None
    parts = seen["message"]["parts"]
    assert [part["type"] for part in parts] == [
        *("step-start", "reasoning", "text", "tool-weather"),
        *("step-start", "text", "source-url", "file", "data-mood"),
    ]
    assert [part["text"] for part in parts if part["type"] == "text"] == ["One moment.", "It is cold."]
    assert {part["state"] for part in parts if part["type"] in ("text", "reasoning")} == {"done"}
    assert (parts[3]["state"], parts[3]["input"], parts[3]["output"]) == (
        "output-available",
        {"city": "Oslo"},
        {"degrees": 4},
    )
    assert parts[7]["url"] == "data:image/png;base64,aGk="
    assert seen["chunks"][-1] == {"type": "finish", "finishReason": "stop"}


@each_sdk
def test_a_verdict_tells_the_ai_sdk_nothing(script: Path, sdk: str) -> None:
    """It ends with its finish reason, after a text if there is one to say."""
    with served([Chunk("start"), VERDICT], refusal="I cannot answer that.") as url:
        seen = ask(script, sdk, url)
    assert [part["text"] for part in seen["message"]["parts"]] == ["I cannot answer that."]
    assert seen["chunks"][-1] == {"type": "finish", "finishReason": "content-filter"}
    assert not [word for word in TOLD if word in json.dumps(seen)]


@each_sdk
def test_the_ai_sdk_asks_for_the_approval_of_a_call(script: Path, sdk: str) -> None:
    """From version 6 on; version 5 knows no approvals, so it gets the call alone."""

    def pay(amount: int) -> str:
        """Pay."""
        return f"{amount} paid"

    called = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "pay", "args": {"amount": 5}}]}])
    with served(Agent(called, tools=[Tool(pay, approval=True)]), approvals=sdk != "ai-v5") as url:
        seen = ask(script, sdk, url)
    assert seen["error"] is None
    part = seen["message"]["parts"][-1]
    asked = ("input-available", None) if sdk == "ai-v5" else ("approval-requested", {"id": "c1"})
    assert (part["type"], part["state"], part.get("approval")) == ("tool-pay", *asked)


class NoHerons(TextGuard):
    """Rejects what names a heron, and asks for another answer."""

    reach = 6

    def find(self, text: str, ctx: Context, *, final: bool) -> list[object]:
        """Reject."""
        if "heron" in text:
            ctx.abort("the codename heron was named", retry=True)
        return []


@each_sdk
def test_a_retracted_text_is_named_by_its_place(script: Path, sdk: str) -> None:
    """So that a page can leave it out of the SDK's message."""
    model = ScriptedModel([{"deltas": ["It is a very long story about ", "a heron."]}, "It is a duck."])
    with served(Agent(model, processors=[NoHerons()])) as url:
        seen = ask(script, sdk, url)
    (retracted,) = [chunk for chunk in seen["chunks"] if chunk["type"] == "data-retract"]
    assert retracted["transient"] is True
    shown = [part for place, part in enumerate(seen["message"]["parts"]) if place not in retracted["data"]["parts"]]
    assert [part["text"] for part in shown if part["type"] == "text"] == ["It is a duck."]
    assert [part["text"] for part in seen["message"]["parts"] if part["type"] == "text"] != ["It is a duck."]
    assert "heron" not in json.dumps(seen)


@each_sdk
def test_an_error_is_neutral_to_the_ai_sdk(script: Path, sdk: str) -> None:
    """Its `onError` gets a sentence of ours."""
    with served([*text("Hi"), Chunk("error", payload={"message": "host db-7 refused"})]) as url:
        seen = ask(script, sdk, url)
    assert seen["error"] == "The request failed. Please try again."
    assert "db-7" not in json.dumps(seen)


def test_the_openai_library_reads_a_completion(script: Path) -> None:
    """Text, a call in pieces, usage, and the reason."""
    chunks = [
        *text("Ask ", "[EMAIL]"),
        *call('{"to":', '"x"}', arguments={"to": "x"}),
        finish("tool-calls", input_tokens=3),
    ]
    with served(chunks) as url:
        completion = ask(script, "openai-chat", url)["completion"]
    message = completion["choices"][0]["message"]
    assert (message["content"], completion["choices"][0]["finish_reason"]) == ("Ask [EMAIL]", "tool_calls")
    assert message["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"to":"x"}'}


def test_the_openai_library_reads_a_response(script: Path) -> None:
    """A message and a call, from the agent, with the secrets hidden."""
    with served(guarded_agent()) as url:
        seen = ask(script, "openai-responses", url)
    assert seen["types"][0] == "response.created"
    assert seen["types"][-1] == "response.completed"
    message, mail = seen["response"]["output"]
    assert message["content"][0]["text"] == "Ask [EMAIL]"
    assert json.loads(mail["arguments"]) == {"to": "[EMAIL]"}


@pytest.mark.parametrize("client", ["openai-chat", "openai-responses"])
def test_the_openai_library_learns_nothing_of_a_verdict(script: Path, client: str) -> None:
    """It sees that a filter ended the answer."""
    with served([*text("Hi"), VERDICT]) as url:
        seen = ask(script, client, url)
    assert not [word for word in TOLD if word in json.dumps(seen)]
    assert "content_filter" in json.dumps(seen) or "content filter" in json.dumps(seen)


def test_the_client_of_ag_ui_reads_every_event(script: Path) -> None:
    """It checks their form and their order, and makes messages of them."""
    with served(FULL) as url:
        seen = ask(script, "ag-ui", url)
    assert seen["errors"] == []
    assert [message["role"] for message in seen["messages"]] == ["user", "reasoning", "assistant", "tool", "assistant"]
    _, thought, first, result, last = seen["messages"]
    assert (thought["content"], first["content"], last["content"]) == ("Hm.", "One moment.", "It is cold.")
    assert first["toolCalls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Oslo"}'}
    assert result["content"] == '{"degrees":4}'
    assert [event["name"] for event in seen["events"] if event["type"] == "CUSTOM"] == [
        *("source", "file", "mood", "progress"),
    ]


def test_the_client_of_ag_ui_reads_a_verdict_as_an_error(script: Path) -> None:
    """It says nothing of itself."""
    with served([Chunk("step-start"), *text("Ask "), VERDICT]) as url:
        seen = ask(script, "ag-ui", url)
    last = seen["events"][-1]
    assert (last["type"], last["message"], last["code"]) == ("RUN_ERROR", "The answer was blocked.", "content_filter")
    assert not [word for word in TOLD if word in json.dumps(seen)]


def test_the_client_of_ag_ui_answers_an_interrupt(script: Path) -> None:
    """A second run brings the answer, and the tool's result."""
    ran: list[int] = []

    def refund(order: int) -> str:
        ran.append(order)
        return f"refunded {order}"

    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "refund", "args": {"order": 7}}]}, "Done."])
    answer = [{"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}]
    with served(Agent(model, tools=[Tool(refund, approval=True)])) as url:
        seen = ask(script, "ag-ui", url, json.dumps(answer))
    assert (seen["errors"], ran) == ([], [7])
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in seen["messages"][2:]] == ["refunded 7", "Done."]


@pytest.mark.parametrize("sdk", ["ai-v6", "ai"])
@pytest.mark.parametrize("approved", [True, False])
def test_the_ai_sdk_decides_about_a_call(script: Path, sdk: str, approved: bool) -> None:
    """Its message holds the call, the decision, and the result or the denial. Version 5 knows no approvals."""
    ran: list[int] = []

    def refund(order: int) -> str:
        ran.append(order)
        return f"refunded {order}"

    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "refund", "args": {"order": 7}}]}, "Done."])
    agent = Agent(model, tools=[Tool(refund, approval=True)])

    async def run(request: Request) -> StreamedResponse:
        asked = ui_messages.read_request(await request.body())
        answer = agent.stream(asked.messages)
        return StreamedResponse(ui_messages.stream(answer, UIMessagesEncoder.answering(asked)), ui_messages.HEADERS)

    with on_uvicorn(Starlette(routes=[Route("/ui", run, methods=["POST"])])) as url:
        seen = ask(script, sdk, url, json.dumps({"approved": approved, "reason": "not today"}))
    assert (seen["asked"]["error"], seen["error"], ran) == (None, None, [7] if approved else [])
    [call] = [part for part in seen["message"]["parts"] if part["type"] == "tool-refund"]
    assert call["state"] == ("output-available" if approved else "output-denied")
    assert call.get("output") == ("refunded 7" if approved else None)
    assert seen["message"]["parts"][-1]["text"] == "Done."


@each_sdk
def test_the_ai_sdk_comes_back_for_the_rest(script: Path, sdk: str) -> None:
    """With `resume: true`: it gets the whole answer, and no content once the stream has ended."""
    log, streams = ReleasedLog(grace=30), dict[str, str]()

    async def chunks() -> AsyncIterator[Chunk]:
        for chunk in FULL:
            yield chunk
            await anyio.sleep(0.05)

    async def run(request: Request) -> ResumableResponse:
        asked = ui_messages.read_request(await request.body())
        encoder = UIMessagesEncoder.answering(asked)
        response = ResumableResponse(ui_messages.stream(chunks(), encoder), ui_messages.HEADERS, log)
        streams[asked.id] = response.stream_id
        return response

    async def back(request: Request) -> ResumedResponse | Response:
        stream_id = streams.pop(request.path_params["id"], None)
        return Response(status_code=204) if stream_id is None else ResumedResponse(log, stream_id)

    routes = [Route("/ui", run, methods=["POST"]), Route("/ui/{id}/stream", back, methods=["GET"])]
    with on_uvicorn(Starlette(routes=routes)) as url:
        seen = ask(script, sdk, url, "resume")
    assert (seen["error"], seen["again"]) == (None, None)
    assert "finish" not in [chunk["type"] for chunk in seen["before"]]
    texts = [part["text"] for part in seen["message"]["parts"] if part["type"] == "text"]
    assert texts == ["One moment.", "It is cold."]
