"""What repeats an answer beside its text: tokens, pieces, signatures. It goes with a text that was changed."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from penstock import Agent, Chunk, Message, OutputResultContext, PIIDetector, processor
from penstock.engine.values.messages import ReasoningPart
from penstock.models import OpenAICompatibleModel
from penstock.testing import run_stage, run_stream

SECRET = "ada@example.com"
TOKENS = ["Write to ", "ada", "@", "example", ".com", " now."]


def model(tokens: list[str]) -> OpenAICompatibleModel:
    """Return a model whose provider sends tokens with their probabilities."""

    def answer(_: httpx.Request) -> httpx.Response:
        choices: list[Any] = [
            {"delta": {"content": token}, "logprobs": {"content": [{"token": token, "bytes": [*token.encode()]}]}}
            for token in tokens
        ]
        choices.append({"delta": {}, "finish_reason": "stop", "token_ids": [1, 2]})
        events = [{"id": "x", "model": "m", "odd": tokens, "choices": [choice]} for choice in choices]
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return OpenAICompatibleModel("m", base_url="http://provider/v1", api_key="k", client=client)


@processor("output_result", edits="anything")
def late(ctx: OutputResultContext) -> list[Message]:
    """Hide a text in the last stage."""
    return [Message.assistant("hidden", id=one.id) if one.role == "assistant" else one for one in ctx.messages]


@pytest.mark.parametrize("release", ["live", "step", "result"])
@pytest.mark.parametrize("guard", [PIIDetector(), late])
async def test_no_report_repeats_a_text_that_was_changed(guard: Any, release: str) -> None:
    """In whichever stage; ids, models and times stay."""
    result = await Agent(model(TOKENS), processors=[guard]).generate("hi", release=release)
    assert SECRET not in result.text
    for report in (result.response.metadata, result.steps[0].metadata):
        assert not {"logprobs", "token_ids", "odd"} & {*report}
        assert (report["id"], report["model"]) == ("x", "m")


async def test_a_report_of_an_answer_that_was_not_changed_is_whole() -> None:
    """Guards that find nothing cost nothing."""
    result = await Agent(model(["Hello", " there"]), processors=[PIIDetector()]).generate("hi")
    assert [entry["token"] for entry in result.response.metadata["logprobs"]["content"]] == ["Hello", " there"]


PIECES: list[dict[str, Any]] = [
    {"logprobs": [{"token": "ada"}, {"token": "@example"}, {"token": ".com"}]},
    {"spelled": ["ada", "@exam", "ple.com"]},
    {"alternatives": {"words": [{"w": "ada@"}, {"w": "example.com"}]}},
]


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize(
    "place", ["text-start", "text-delta", "text-end", "reasoning-end", "finish", "before", "after"]
)
def test_no_chunk_spells_a_text_that_was_changed(pieces: dict[str, Any], place: str) -> None:
    """Wherever a payload stands beside the text, or behind it."""
    source = [
        Chunk("text-start", id="t"),
        Chunk("text-delta", "I ", "t", {"odd": 1, **(pieces if place == "before" else {})}),
        Chunk("text-delta", SECRET, "t"),
        Chunk("text-delta", " say", "t", pieces if place == "after" else {}),
        Chunk("text-end", id="t"),
        Chunk("reasoning-start", id="r"),
        Chunk("reasoning-delta", "so", "r"),
        Chunk("reasoning-end", id="r"),
        Chunk("finish", payload={"reason": "stop"}),
    ]
    source = [
        Chunk(one.type, one.text, one.id, {**one.payload, **(pieces if one.type == place else {})}) for one in source
    ]
    left, _ = run_stream(PIIDetector(), source)
    spelled = repr([dict(chunk.payload) for chunk in left])
    assert not [piece for piece in ("ada", "example.com", "ple.com") if piece in spelled]
    assert left[-1].payload["reason"] == "stop"


def test_pieces_beside_a_text_that_stays_stay() -> None:
    """Tags of an application are no copies."""
    source = [Chunk("text-delta", "Hello", "t", {"tags": ["a", "b"]}), Chunk("finish", payload={"reason": "stop"})]
    assert run_stream(PIIDetector(), source)[0] == source


@pytest.mark.parametrize("key", ["signature", "thoughtSignature", "encrypted_content"])
def test_a_signature_goes_with_the_text_that_it_signs(key: str) -> None:
    """In streams and in messages; the signature of another text stays."""
    notes = {"provider_metadata": {"x": {key: "sealed", "field": "reasoning"}}}
    source = [
        Chunk(f"reasoning-{what}", text, id, notes if what == "end" else {})
        for id, said in (("a", f"I ask {SECRET}"), ("b", "so be it"))
        for what, text in (("start", ""), ("delta", said), ("end", ""))
    ]
    left, _ = run_stream(PIIDetector(), source)
    ends = [dict(chunk.payload["provider_metadata"]["x"]) for chunk in left if chunk.type == "reasoning-end"]
    assert ends == [{"field": "reasoning"}, {key: "sealed", "field": "reasoning"}]
    parts = [ReasoningPart(text, {"x": {key: "sealed", "n": 1}}) for text in (f"I ask {SECRET}", "so be it")]
    outcome = run_stage(PIIDetector(), "process_output_result", [Message.assistant(parts)])
    kept = [dict(part.metadata["x"]) for part in outcome.messages[-1].parts]
    assert kept == [{"n": 1}, {key: "sealed", "n": 1}]
