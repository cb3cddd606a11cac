"""Whether chunks as chat completions are what clients expect, and never more than what left the guards."""

from __future__ import annotations

import json
from collections.abc import Iterable

import httpx
import openai
import pytest

from penstock.engine.values.answer_builder import collected
from penstock.engine.values.chunks import Chunk
from penstock.models.openai.reading import AnswerReader
from penstock.workflows.web import ChatCompletionsEncoder
from tests.workflows.web.answers import CALL, TOLD, VERDICT, call, finish, guarded_agent, text


def encoded(chunks: Iterable[Chunk], **options: object) -> list[dict]:
    """The objects for chunks, to the end."""
    encoder = ChatCompletionsEncoder("gpt-x", id="chatcmpl-1", created=7, **options)
    made = [event for chunk in chunks for event in encoder.events(chunk)]
    return [*made, *encoder.end()]


def deltas(events: Iterable[dict]) -> list[dict]:
    """The deltas of objects, without those that say nothing."""
    return [event["choices"][0]["delta"] for event in events if event.get("choices") and event["choices"][0]["delta"]]


def reasons(events: Iterable[dict]) -> list[str]:
    """The finish reasons."""
    said = (event["choices"][0]["finish_reason"] for event in events if event.get("choices"))
    return [reason for reason in said if reason]


def read_by_client(events: Iterable[dict]) -> list[openai.types.chat.ChatCompletionChunk]:
    """What the official client reads."""
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text=body, headers=headers))
    with openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=transport)) as client:
        return list(client.chat.completions.create(model="m", messages=[], stream=True))


def test_a_text_is_one_object_a_delta() -> None:
    """The first names the role, the last the reason."""
    events = encoded([Chunk("start"), Chunk("step-start"), *text("Hel", "lo"), finish()])
    assert events[1] == {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "gpt-x",
        "choices": [{"index": 0, "delta": {"content": "lo"}, "logprobs": None, "finish_reason": None}],
    }
    assert deltas(events) == [{"role": "assistant", "content": "Hel"}, {"content": "lo"}]
    assert reasons(events) == ["stop"]
    assert len(events) == 3


def test_the_official_client_reads_text_calls_and_usage() -> None:
    """Arguments arrive in pieces; parallel calls are told apart by their index."""
    calls = [*call('{"city"', ':"Oslo"}', arguments={"city": "Oslo"}), *call(arguments={}, call_id="c2", name="time")]
    chunks = [*text("One moment."), *calls, finish("tool-calls", input_tokens=3, output_tokens=5, cached_tokens=1)]
    read = read_by_client(encoded(chunks, include_usage=True))
    pieces = [piece for chunk in read for choice in chunk.choices for piece in choice.delta.tool_calls or ()]
    assert [(piece.index, piece.id) for piece in pieces if piece.id] == [(0, "c1"), (1, "c2")]
    assert [piece.function.name for piece in pieces if piece.id] == ["weather", "time"]
    assert "".join(piece.function.arguments for piece in pieces if piece.index == 0) == '{"city":"Oslo"}'
    assert "".join(piece.function.arguments for piece in pieces if piece.index == 1) == "{}"
    assert read[-2].choices[0].finish_reason == "tool_calls"
    assert (read[-1].choices, read[-1].usage.total_tokens) == ([], 8)
    assert read[-1].usage.prompt_tokens_details.cached_tokens == 1


@pytest.mark.parametrize(
    ("reason", "written"),
    [("stop", "stop"), ("length", "length"), ("content-filter", "content_filter"), ("other", "stop")],
)
def test_finish_reasons_are_mapped(reason: str, written: str) -> None:
    """Those that the format lacks end as ``stop``."""
    assert reasons(encoded([*text("Hi"), finish(reason)])) == [written]


async def test_what_we_write_we_read() -> None:
    """The package's own client reads the same chunks back."""
    chunks = [
        *[Chunk("reasoning-delta", "Hm.", "r"), *text("One ", "moment.")],
        *call('{"city":', '"Oslo"}', arguments={"city": "Oslo"}),
        finish("tool-calls", input_tokens=3, output_tokens=5),
    ]
    reader = AnswerReader()

    async def read():
        for event in encoded(chunks, include_usage=True, reasoning="reasoning_content"):
            for chunk in reader.read(event):
                yield chunk
        for chunk in reader.end():
            yield chunk

    answer = await collected(read())
    assert [part.type for part in answer.message.parts] == ["reasoning", "text", "tool"]
    assert (answer.message.parts[0].text, answer.text) == ("Hm.", "One moment.")
    assert answer.message.parts[2].arguments == {"city": "Oslo"}
    assert (answer.finish_reason, answer.usage.input_tokens, answer.usage.output_tokens) == ("tool-calls", 3, 5)


def test_a_verdict_tells_the_client_nothing() -> None:
    """Only that a filter ended the answer."""
    events = encoded([*text("Hi"), VERDICT, *text("more"), finish()])
    assert reasons(events) == ["content_filter"]
    assert "more" not in json.dumps(events)
    assert not [word for word in TOLD if word in json.dumps(events)]


def test_a_refusal_may_be_said() -> None:
    """In the field that clients show for it."""
    events = encoded([VERDICT], refusal="I cannot answer that.")
    assert deltas(events) == [{"role": "assistant", "refusal": "I cannot answer that."}]


def test_a_retracted_text_ends_the_answer() -> None:
    """The format cannot take it back, so nothing is appended to it."""
    retry = Chunk("step-finish", payload={"reason": "retry", "retry_reason": "has a codename"})
    chunks = [*text("Hi"), Chunk("retract", payload={"blocks": ("t",)}), retry, *text("Again", id="u"), finish()]
    events = encoded(chunks)
    assert (deltas(events), reasons(events)) == ([{"role": "assistant", "content": "Hi"}], ["content_filter"])


def test_a_retracted_text_that_was_not_sent_ends_nothing() -> None:
    """Reasoning that the client does not get, or a text of an earlier step with the same id."""
    chunks = [Chunk("reasoning-delta", "Hm", "r"), Chunk("retract", payload={"blocks": ("r",)})]
    retry = Chunk("step-finish", payload={"reason": "retry"})
    events = encoded([*chunks, retry, Chunk("step-start"), *text("Hi"), finish()])
    assert (deltas(events), reasons(events)) == ([{"role": "assistant", "content": "Hi"}], ["stop"])


@pytest.mark.parametrize(
    "chunks",
    [
        [*call('{"city":"Oslo"}', arguments={"city": "Oslo"})[:-1], finish("tool-calls")],
        [*call('{"city":"Oslo"}', arguments={"city": "[PLACE]"}), finish("tool-calls")],
        [Chunk("step-start"), *call(arguments={}), Chunk("step-finish", payload={"reason": "retry"})],
    ],
    ids=["dropped", "changed", "rejected"],
)
def test_a_call_that_no_longer_holds_ends_the_answer(chunks: list[Chunk]) -> None:
    """The client must not run it."""
    assert reasons(encoded(chunks)) == ["content_filter"]


def test_a_call_that_the_length_cut_off_ends_with_length() -> None:
    """That is the model's doing, and no guard's."""
    assert reasons(encoded([*call('{"city', arguments={})[:-2], finish("length")])) == ["length"]


def test_tools_of_the_agent_stay_inside() -> None:
    """The client gets only calls that it is to run."""
    own = call(arguments={"q": "x"}, call_id="c9", name="search")
    result = Chunk("tool-result", id="c9", payload={"call_id": "c9", "name": "search", "result": "secret"})
    step = Chunk("step-finish", payload={"reason": "tool-calls", "is_continued": True})
    events = encoded(
        [Chunk("step-start"), *own, result, step, Chunk("step-start"), *text("Hi"), finish()], client_tools=()
    )
    assert (deltas(events), reasons(events)) == ([{"role": "assistant", "content": "Hi"}], ["stop"])


def test_answered_calls_are_not_asked_for() -> None:
    """If calls of the agent are sent, the reason says that there is nothing to run."""
    result = Chunk("tool-result", id="c1", payload={**CALL, "result": 1})
    assert reasons(encoded([*call(arguments={}), result, finish("tool-calls")])) == ["stop"]


def test_usage_is_that_of_all_steps() -> None:
    """Also where no chunk has the sum."""
    step = Chunk("step-finish", payload={"reason": "stop", "usage": {"input_tokens": 2, "output_tokens": 1}})
    events = encoded([*text("Hi"), step, *text("Ho"), step], include_usage=True)
    assert events[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    assert [event["usage"] for event in events[:-1]] == [None] * 3


@pytest.mark.parametrize("type", ["error", "abort"])
def test_an_error_says_nothing_internal(type: str) -> None:
    """The official client raises it."""
    events = encoded([*text("Hi"), Chunk(type, payload={"message": "host db-7 refused", "error": "ModelError"})])
    assert "db-7" not in json.dumps(events)
    assert "ModelError" not in json.dumps(events)
    with pytest.raises(openai.APIError, match="request"):
        read_by_client(events)


def test_a_failure_without_a_chunk_is_told_once() -> None:
    """`fail` is for an exception; after another end it changes nothing."""
    encoder = ChatCompletionsEncoder("m")
    encoder.fail()
    assert encoder.done
    assert [list(event) for event in encoder.end()] == [["error"]]
    assert list(encoder.end()) == []
    blocked = ChatCompletionsEncoder("m")
    blocked.events(VERDICT)
    blocked.fail()
    assert reasons(blocked.end()) == ["content_filter"]


def test_nothing_but_the_answer_is_sent() -> None:
    """No raw data, no metadata of a provider, no data of the application."""
    hidden = {"provider_metadata": {"openai-chat": {"secret": 1}}, "metadata": {"secret": 2}}
    chunks = [
        Chunk("response-metadata", payload={"id": "secret", "model": "secret"}),
        Chunk("raw", payload={"provider_part": {"secret": 1}}),
        Chunk("data-secret", payload={"data": "secret"}),
        Chunk("text-start", id="t"),
        Chunk("text-delta", "Hi", "t", payload=hidden),
        Chunk("text-end", id="t", payload=hidden),
        Chunk("finish", payload={"reason": "stop", "raw_reason": "secret", **hidden}),
    ]
    assert "secret" not in json.dumps(encoded(chunks, include_usage=True, reasoning="reasoning"))


def test_a_source_is_a_citation() -> None:
    """With its address and its title."""
    events = encoded([*text("Hi"), Chunk("source", payload={"url": "https://a.example", "title": "A", "id": "s"})])
    (cited,) = deltas(events)[1]["annotations"]
    assert cited["url_citation"] == {"url": "https://a.example", "title": "A", "start_index": 0, "end_index": 0}


async def test_a_redacted_secret_reaches_no_client() -> None:
    """A guarded agent's stream, with the secret cut in two, in a text and in a tool call."""
    agent = guarded_agent()
    encoder = ChatCompletionsEncoder("m", client_tools={"mail"})
    async with agent.stream("Hi") as stream:
        events = [event async for chunk in stream for event in encoder.events(chunk)]
    events += encoder.end()
    assert "ada@" not in json.dumps(events)
    arguments = "".join(piece["function"]["arguments"] for d in deltas(events) for piece in d.get("tool_calls", ()))
    assert json.loads(arguments) == {"to": "[EMAIL]"}
    assert reasons(events) == ["tool_calls"]
