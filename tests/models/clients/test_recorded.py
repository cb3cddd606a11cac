"""Whether what real providers said is read whole, and what they were asked can be asked; over real sockets.

The exchanges are recorded; those in `recorded/` come with the tests, the others are looked for in ../shared.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock import ModelError
from penstock.engine import ModelRequest
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.frozen import thaw
from penstock.models.openai.reading import AnswerReader
from penstock.models.openai.requests import body_of
from penstock.testing.provider import FakeProvider, recorded
from tests.models.clients.conftest import KEY, Making, everything_in
from tests.models.clients.exchanges import OWN, SHARED, exchanges, failed, files, said
from tests.models.clients.projection import normalised, projected, provider_of

FILES = files(SHARED) or files(OWN)
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[-60:])
REASONS = {"stop", "length", "tool-calls", "content-filter", "other"}


@pytest.mark.skipif(bool(files(SHARED)), reason="they are there")
def test_the_recorded_exchanges_beside_the_repository_are_read() -> None:
    """Says so where they are absent, and only the few that come with the tests are."""
    pytest.skip(f"there are no recorded exchanges in {SHARED}")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@each_file
async def test_every_recorded_answer_is_read_whole(path: Path, asking: Making) -> None:
    """Text, thoughts, calls, reason and usage; or an error that says what it was."""
    found = exchanges(path)
    with FakeProvider([recorded(exchange) for exchange in found]) as server:
        async with asking(server) as model:
            for exchange in found:
                if failed(exchange):
                    with pytest.raises(ModelError) as caught:
                        await model.ask("hi")
                    assert caught.value.body
                    assert caught.value.retryable is (exchange["status"] == 429)
                    assert KEY not in everything_in(caught.value)
                    continue
                answer = await model.ask("hi")
                told = said(exchange["response"])
                assert "".join(c.text for c in answer.chunks if c.type == "text-delta") == told.text
                assert "".join(c.text for c in answer.chunks if c.type == "reasoning-delta") == told.thoughts
                calls = [c.payload for c in answer.chunks if c.type == "tool-call"]
                assert [(call["name"], thaw(call["arguments"])) for call in calls] == told.calls
                assert all(call["call_id"] for call in calls)
                assert answer.finish_reason in REASONS
                assert (answer.usage.input_tokens if answer.usage else None) == told.tokens


@each_file
def test_every_recorded_request_can_be_asked(path: Path) -> None:
    """Read back into a `ModelRequest`, it becomes the same body; what counts as the same is said in the projection."""
    for exchange in exchanges(path):
        asked = exchange["request"]
        made = body_of(projected(asked), asked["model"], provider_of(exchange["host"]))
        assert normalised(json.loads(json.dumps(made))) == normalised(asked)


SENT_OTHERWISE = {
    "prefix": "Mistral's own client says that an answer is no beginning of one; so does leaving it out",
    "index": "that client repeats the index of a call, which stands in its order",
    "extra_content": "Gemini's signature of its thoughts, which pydantic-ai forgot",
    "thought_signature": "the same",
}


@each_file
def test_what_was_answered_goes_back_as_it_was_sent_back(path: Path) -> None:
    """An answer that we read and send again is the message that was sent, but for what is listed."""
    found = [exchange for exchange in exchanges(path) if not failed(exchange)]
    for exchange, later in pairwise(found):
        sent, before = (_spoken(item["request"]["messages"]) for item in (later, exchange))
        if len(sent) > len(before) and "<think>" not in str(exchange["response"]):
            theirs = sent[len(before)]
            named = "pyd_ai_" not in str(theirs)  # which is how pydantic-ai names a call to which nobody gave an id
            assert _comparable(_sent_back(exchange, later), ids=named) == _comparable(theirs, ids=named)


def _spoken(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message for message in messages if message["role"] == "assistant"]


def _sent_back(exchange: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    reader, answer = AnswerReader(), Assembly()
    responses = exchange["response"]
    items = [responses] if isinstance(responses, dict) else _events(responses)
    for chunk in [*(chunk for item in items for chunk in reader.read(item)), *reader.end()]:
        answer.add(chunk)
    body = body_of(ModelRequest((answer.message,)), "m", provider_of(later["host"]))
    (message,) = body["messages"]
    return message


def _events(text: str) -> list[dict[str, Any]]:
    lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _comparable(message: dict[str, Any], *, ids: bool) -> dict[str, Any]:
    made = {key: item for key, item in message.items() if item not in (None, []) and key not in SENT_OTHERWISE}
    match made.get("content"):
        case [{"type": "text", "text": only}]:
            made["content"] = only
    made["tool_calls"] = [
        {
            "id": call["id"] if ids else None,
            "name": call["function"]["name"],
            "arguments": json.loads(call["function"]["arguments"] or "{}"),
        }
        for call in made.get("tool_calls", [])
    ]
    return made
