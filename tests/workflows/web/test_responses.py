"""Whether chunks as events of the Responses API are what clients expect, and never more than what left the guards."""

from __future__ import annotations

import json
from collections.abc import Iterable

import httpx
import openai
import pytest

from penstock.engine.values.chunks import Chunk
from penstock.workflows.web import ResponsesEncoder
from tests.workflows.web.answers import CALL, TOLD, VERDICT, call, finish, guarded_agent, text

LAST = ("response.completed", "response.incomplete", "response.failed")


def encoded(chunks: Iterable[Chunk], **options: object) -> list[dict]:
    """The events for chunks, to the end; their numbers count from 0, and only the last one ends the response."""
    encoder = ResponsesEncoder("gpt-x", id="resp_1", created_at=7, **options)
    events = [event for chunk in chunks for event in encoder.events(chunk)]
    events += encoder.end()
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] in LAST for event in events] == [False] * (len(events) - 1) + [True]
    return events


def types(events: Iterable[dict]) -> list[str]:
    """The types, without the common beginning."""
    return [event["type"].removeprefix("response.") for event in events]


def asking(events: Iterable[dict]) -> openai.OpenAI:
    """The official client, which gets these events."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=body, headers=headers))
    return openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=transport))


def test_a_text_is_a_message_with_one_part() -> None:
    """It is added, written, and done; the last event has it whole."""
    events = encoded([Chunk("start"), *text("Hel", "lo"), finish(input_tokens=3, output_tokens=5)])
    assert types(events) == [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    assert [event["delta"] for event in events if "delta" in event] == ["Hel", "lo"]
    last = events[-1]["response"]
    assert (last["status"], last["id"], last["model"], last["created_at"]) == ("completed", "resp_1", "gpt-x", 7)
    assert last["output"][0]["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    assert last["usage"]["total_tokens"] == 8
    assert events[0]["response"]["output"] == []


@pytest.mark.rest
def test_the_official_client_assembles_the_same_response() -> None:
    """From the events alone, beside the whole response at the end."""
    calls = [*call('{"city"', ':"Oslo"}', arguments={"city": "Oslo"}), *call(arguments={}, call_id="c2", name="time")]
    chunks = [Chunk("reasoning-delta", "Hm.", "r"), *text("One ", "moment."), *calls, finish("tool-calls")]
    events = encoded(chunks, reasoning=True)
    with asking(events) as client, client.responses.stream(model="m", input="Hi") as stream:
        seen = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.delta" in seen
    assert final.output_text == "One moment."
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.output[0].summary[0].text == "Hm."
    assert [(item.call_id, item.name, item.arguments) for item in final.output[2:]] == [
        ("c1", "weather", '{"city":"Oslo"}'),
        ("c2", "time", "{}"),
    ]
    assert {item.status for item in final.output[1:]} == {"completed"}


def test_parallel_calls_may_interleave() -> None:
    """Each keeps its place."""
    one, two = call('{"a":', "1}", arguments={"a": 1}), call('{"b":2}', arguments={"b": 2}, call_id="c2", name="time")
    mixed = [one[0], two[0], one[1], two[1], one[2], *two[2:], *one[3:], finish("tool-calls")]
    output = encoded(mixed)[-1]["response"]["output"]
    assert [(item["call_id"], item["arguments"]) for item in output] == [("c1", '{"a":1}'), ("c2", '{"b":2}')]


def test_an_answer_that_is_too_long_is_incomplete() -> None:
    """With what there is of it."""
    last = encoded([*text("Hel")[:-1], *call('{"ci', arguments={})[:-2], finish("length")])[-1]["response"]
    assert (last["status"], last["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert last["output"][0]["content"][0]["text"] == "Hel"
    assert (last["output"][1]["arguments"], last["output"][1]["status"]) == ('{"ci', "incomplete")


def test_a_verdict_tells_the_client_nothing() -> None:
    """The whole response has no output: what was sent no longer holds."""
    events = encoded([*text("Hi"), VERDICT, *text("more"), finish()])
    assert events[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}
    assert events[-1]["response"]["output"] == []
    assert not [word for word in (*TOLD, "more") if word in json.dumps(events)]
    with asking(events) as client, client.responses.create(model="m", input="Hi", stream=True) as stream:
        assert [event.type for event in stream][-1] == "response.incomplete"


def test_a_refusal_may_be_said() -> None:
    """It is the only output at the end, also after a text."""
    for chunks in ([VERDICT], [*text("Hi")[:-1], VERDICT]):
        last = encoded(chunks, refusal="I cannot answer that.")[-1]["response"]
        assert [item["content"] for item in last["output"]] == [
            [{"type": "refusal", "refusal": "I cannot answer that."}]
        ]
        assert last["incomplete_details"] == {"reason": "content_filter"}


def test_a_refusal_of_the_model_is_one_here() -> None:
    """As a part of its own kind."""
    chunks = [Chunk("text-start", id="t", payload={"refusal": True}), *text("I will ", "not.")[1:], finish()]
    events = encoded(chunks)
    assert types(events)[4:7] == ["refusal.delta", "refusal.delta", "refusal.done"]
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "refusal", "refusal": "I will not."}]


@pytest.mark.parametrize(
    "chunks",
    [
        [*text("Hi"), Chunk("retract", payload={"blocks": ("t",)}), *text("Again", id="u"), finish()],
        [*call('{"city":"Oslo"}', arguments={"city": "Oslo"})[:-1], finish("tool-calls")],
        [*call('{"city":"Oslo"}', arguments={"city": "[PLACE]"}), finish("tool-calls")],
    ],
    ids=["retracted", "dropped", "changed"],
)
def test_what_no_longer_holds_ends_the_response(chunks: list[Chunk]) -> None:
    """The client must not keep or run it."""
    last = encoded(chunks)[-1]["response"]
    assert (last["status"], last["output"]) == ("incomplete", [])


def test_texts_of_two_steps_with_one_id_are_two_messages() -> None:
    """Ids of texts are unique within a step only."""
    step = [Chunk("step-start"), *text("Hi")[:-1]]
    output = encoded([*step, *step, finish()])[-1]["response"]["output"]
    assert [item["content"][0]["text"] for item in output] == ["Hi", "Hi"]
    assert output[0]["id"] != output[1]["id"]


def test_tools_of_the_agent_stay_inside() -> None:
    """The client gets only calls that it is to run."""
    result = Chunk("tool-result", id="c1", payload={**CALL, "result": "secret"})
    events = encoded(
        [*call('{"city":"Oslo"}', arguments={"city": "Oslo"}), result, *text("Hi"), finish()], client_tools=()
    )
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
    assert not [word for word in ("secret", "Oslo", "weather") if word in json.dumps(events)]


@pytest.mark.parametrize("type", ["error", "abort"])
def test_an_error_says_nothing_internal(type: str) -> None:
    """The response has failed, and has no output."""
    events = encoded([*text("Hi"), Chunk(type, payload={"message": "host db-7 refused", "error": "ModelError"})])
    assert events[-1]["type"] == "response.failed"
    assert (events[-1]["response"]["status"], events[-1]["response"]["output"]) == ("failed", [])
    assert not [word for word in ("db-7", "ModelError") if word in json.dumps(events)]


def test_an_answer_without_chunks_is_whole_too() -> None:
    """A request that failed at once has a beginning and an end."""
    encoder = ResponsesEncoder("m")
    encoder.fail()
    assert types(encoder.end()) == ["created", "in_progress", "failed"]
    assert list(encoder.end()) == []


def test_fields_of_the_request_are_repeated() -> None:
    """As the protocol wants; never the id or the output."""
    events = encoded([finish()], fields={"temperature": 0.5, "metadata": {"a": "b"}})
    assert (events[0]["response"]["temperature"], events[-1]["response"]["metadata"]) == (0.5, {"a": "b"})


def test_nothing_but_the_answer_is_sent() -> None:
    """No raw data, no metadata of a provider, no data of the application."""
    hidden = {"provider_metadata": {"openai-responses": {"secret": 1}}, "metadata": {"secret": 2}}
    chunks = [
        Chunk("response-metadata", payload={"id": "secret", "model": "secret"}),
        Chunk("raw", payload={"provider_sealed": "secret"}),
        Chunk("data-secret", payload={"data": "secret"}),
        Chunk("reasoning-delta", "secret", "r"),
        Chunk("text-start", id="t", payload=hidden),
        Chunk("text-delta", "Hi", "t", payload=hidden),
        Chunk("text-end", id="t", payload=hidden),
        Chunk("finish", payload={"reason": "stop", "raw_reason": "secret", **hidden}),
    ]
    assert "secret" not in json.dumps(encoded(chunks))


async def test_a_redacted_secret_reaches_no_client() -> None:
    """A guarded agent's stream, with the secret cut in two, in a text and in a tool call."""
    encoder = ResponsesEncoder("m", client_tools={"mail"})
    async with guarded_agent().stream("Hi") as stream:
        events = [event async for chunk in stream for event in encoder.events(chunk)]
    events += encoder.end()
    assert "ada@" not in json.dumps(events)
    message, mail = events[-1]["response"]["output"]
    assert message["content"][0]["text"] == "Ask [EMAIL]"
    assert json.loads(mail["arguments"]) == {"to": "[EMAIL]"}
