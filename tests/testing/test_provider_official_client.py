"""Whether the fake provider is honest: the official `openai` client asks it, and understands each answer."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime

import openai
import pytest
from pydantic import BaseModel

from penstock.testing import FakeProvider, Sent, Wire, failing, rate_limited

HI = [{"role": "user", "content": "How do you do?"}]
WEB = {"type": "function", "function": {"name": "web", "parameters": {"type": "object", "properties": {}}}}


class Verdict(BaseModel):
    """What a judge might say."""

    safe: bool
    why: str


def client_of(server: FakeProvider, *, key: str = "sk-made-up", retries: int = 0) -> openai.OpenAI:
    """The official client, pointed at the server."""
    return openai.OpenAI(base_url=server.url, api_key=key, max_retries=retries, timeout=5)


@pytest.fixture
def asked() -> Iterator[object]:
    """Ask a server with this script for one chat completion; clean up at the end."""
    clients: list[openai.OpenAI] = []

    def ask(server: FakeProvider, **options: object):
        clients.append(client_of(server))
        return clients[-1].chat.completions.create(model="m-1", messages=HI, **options)

    yield ask
    for client in clients:
        client.close()


def test_a_text_is_understood(asked) -> None:
    """With who said it, why it ended, and what it took."""
    with FakeProvider(["Very well, thank you"]) as server:
        answer = asked(server)
    assert answer.choices[0].message.content == "Very well, thank you"
    assert (answer.model, answer.choices[0].finish_reason) == ("m-1", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (4, 4, 8)


@pytest.mark.parametrize("length", [None, 1, 7])
@pytest.mark.parametrize(
    "wire",
    [
        Wire(),
        Wire(comments=True, newline="\r\n"),
        Wire(newline="\r", space=""),
        Wire(gzip=True),
        Wire(framing="close", done=False),
        Wire(framing="length", split_data=True),
    ],
    ids=["plain", "comments", "cr", "gzip", "no-done", "split-data"],
)
def test_a_stream_is_understood(asked, wire: Wire, length: int | None) -> None:
    """In every form that the standards allow, however small its pieces."""
    with FakeProvider([Sent({"deltas": ["Very ", "wéll"]}, Wire(**fields(wire) | {"piece": length}))]) as server:
        events = list(asked(server, stream=True, stream_options={"include_usage": True}))
    texts = [event.choices[0].delta.content for event in events if event.choices]
    assert texts == ["", "Very ", "wéll", None]
    assert events[-2].choices[0].finish_reason == "stop"
    assert (events[-1].choices, events[-1].usage.completion_tokens) == ([], 2)


def fields(wire: Wire) -> dict[str, object]:
    """The fields of a wire."""
    return {name: getattr(wire, name) for name in Wire.__slots__}


def test_usage_is_streamed_only_if_it_is_asked_for(asked) -> None:
    """As OpenAI does it."""
    with FakeProvider(["Well"]) as server:
        events = list(asked(server, stream=True))
    assert all(event.usage is None and event.choices for event in events)


def test_tool_calls_are_understood(asked) -> None:
    """Whole and streamed; the client's own helper puts the pieces together."""
    turn = {"tool_calls": [{"name": "web", "args": {"q": "x"}}, {"id": "c9", "name": "web", "args": {}}]}
    with FakeProvider([turn, {**turn, "stream_tool_input": True}]) as server, client_of(server) as client:
        whole = asked(server).choices[0]
        with client.chat.completions.stream(model="m-1", messages=HI, tools=[WEB]) as stream:
            streamed = stream.get_final_completion().choices[0]
    for choice in (whole, streamed):
        calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls]
        assert calls == [("call-1", "web", '{"q": "x"}'), ("c9", "web", "{}")]
        assert choice.finish_reason == "tool_calls"


def test_structured_output_is_understood() -> None:
    """The client parses it into the type it asked for."""
    with FakeProvider([{"object": {"safe": False, "why": "rude"}}]) as server, client_of(server) as client:
        answer = client.chat.completions.parse(model="m-1", messages=HI, response_format=Verdict)
    assert answer.choices[0].message.parsed == Verdict(safe=False, why="rude")
    assert server.requests[0].json["response_format"]["type"] == "json_schema"


def test_refusals_and_reasoning_are_understood(asked) -> None:
    """Whole and streamed."""
    turn = {"refusal": "I will not", "reasoning": ["Hm", "!"]}
    with FakeProvider([turn, Sent(turn, Wire(reasoning="reasoning"))]) as server:
        message = asked(server).choices[0].message
        deltas = [event.choices[0].delta for event in asked(server, stream=True)]
    assert (message.content, message.refusal, message.reasoning_content) == (None, "I will not", "Hm!")
    assert [delta.reasoning for delta in deltas if hasattr(delta, "reasoning")] == ["Hm", "!"]
    assert [delta.refusal for delta in deltas if delta.refusal] == ["I will not"]


def test_embeddings_are_understood() -> None:
    """Texts that share words are near; the client asks for them packed, and may ask for another length."""
    with FakeProvider() as server, client_of(server) as client:
        made = client.embeddings.create(model="e-1", input=["red apple", "green apple", "a lorry"], dimensions=64)
        plain = client.embeddings.create(model="e-1", input="red apple", dimensions=64, encoding_format="float")
    red, green, lorry = (item.embedding for item in made.data)
    assert [len(red), made.usage.total_tokens, server.requests[0].json["encoding_format"]] == [64, 6, "base64"]
    assert dot(red, green) > dot(red, lorry)
    assert plain.data[0].embedding == pytest.approx(red, abs=1e-6)


def test_an_own_embedding_is_sent_as_it_is() -> None:
    """Here: how long the text is."""
    with FakeProvider(embed=lambda text: [float(len(text))]) as server, client_of(server) as client:
        made = client.embeddings.with_raw_response.create(model="e-1", input=["a", "bb"], encoding_format="base64")
    packed = [base64.b64decode(item["embedding"]) for item in made.http_response.json()["data"]]
    assert [struct.unpack("<f", item) for item in packed] == [(1.0,), (2.0,)]


def dot(one: list[float], other: list[float]) -> float:
    """How near two vectors of length one are."""
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_moderations_are_understood() -> None:
    """One result a text; flagged from one half."""
    with (
        FakeProvider(moderate=lambda text: {"violence": 0.9 * ("kill" in text)}) as server,
        client_of(server) as client,
    ):
        good, bad = client.moderations.create(model="omni-moderation-latest", input=["hello", "kill"]).results
    assert (good.flagged, bad.flagged, bad.categories.violence, bad.categories.hate) == (False, True, True, False)
    assert bad.category_scores.violence == 0.9


def test_models_are_listed() -> None:
    """By name."""
    with FakeProvider(models=["a", "b"]) as server, client_of(server) as client:
        assert [model.id for model in client.models.list()] == ["a", "b"]


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (rate_limited(), openai.RateLimitError),
        (failing(), openai.InternalServerError),
        (failing(503), openai.InternalServerError),
        (failing(400, "no", code="context_length_exceeded"), openai.BadRequestError),
        ({"error": {"status": 404, "message": "no such model"}}, openai.NotFoundError),
        ({"error": "boom"}, openai.InternalServerError),
        ({"plain_error": True}, openai.APIConnectionError),
        (Sent("x", Wire(cut_at=0)), openai.APIConnectionError),
        (Sent("x", Wire(cut_at=40)), openai.APIConnectionError),
        (Sent("x", Wire(cut_body_at=40)), openai.APIConnectionError),
        (Sent("x", Wire(cut_body_at=40, ending="close")), openai.APIConnectionError),
    ],
    ids=lambda case: case.__name__ if isinstance(case, type) else "",
)
def test_failures_are_the_clients_own(asked, item: object, kind: type[Exception]) -> None:
    """Each status has its exception, and so has a connection that breaks."""
    with FakeProvider([item]) as server, pytest.raises(kind):
        asked(server)


def test_an_error_within_a_stream_is_the_clients_own(asked) -> None:
    """Behind what was said before it."""
    with FakeProvider([{"deltas": ["a", "b"], "stream_error": {"message": "overloaded"}}]) as server:
        seen: list[str | None] = []
        with pytest.raises(openai.APIError, match="overloaded"):
            seen.extend(event.choices[0].delta.content for event in asked(server, stream=True))


@pytest.mark.parametrize("wait", [0.01, datetime(2020, 1, 1, tzinfo=UTC)], ids=["seconds", "date"])
def test_the_client_tries_again_as_it_is_told(wait) -> None:
    """It understands both forms of retry-after."""
    with FakeProvider([rate_limited(wait), "Well"]) as server, client_of(server, retries=1) as client:
        assert client.chat.completions.create(model="m-1", messages=HI).choices[0].message.content == "Well"
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1"]


def test_a_wrong_key_is_refused() -> None:
    """And the right one is not; neither is shown."""
    with FakeProvider(["Well"], key="sk-right") as server:
        with client_of(server, key="sk-wrong") as client, pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="m-1", messages=HI)
        with client_of(server, key="sk-right") as client:
            client.chat.completions.create(model="m-1", messages=HI)
    assert [request.has_key("sk-right") for request in server.requests] == [False, True]
    assert "sk-" not in repr(server.requests)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"content": "who says so?"}],
        [{"role": "tool", "tool_call_id": "c1", "content": "x"}],
        [{"role": "assistant", "tool_calls": [{"id": "c1"}]}, *HI],
        [{"role": "assistant", "tool_calls": [{"id": "c1"}]}, {"role": "tool", "tool_call_id": "c2", "content": ""}],
    ],
    ids=["none", "no-role", "result-without-call", "call-without-result", "result-of-another-call"],
)
def test_prompts_that_openai_refuses_are_refused(messages) -> None:
    """A fake that takes everything would hide mistakes."""
    with FakeProvider(["Well"]) as server, client_of(server) as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="m-1", messages=messages)
