"""Completions and embeddings through the gateway: texts are guarded, tokens refused, vectors pass as they came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types import Completion, CreateEmbeddingResponse

from penstock import PIIDetector, Processor
from penstock.workflows.gateway.endpoints.completions import Completions
from penstock.workflows.gateway.endpoints.embeddings import Embeddings
from tests.workflows.gateway.exchanges import Got, Scripted, event, run_exchange

MAIL = "ann@example.com"
HIDDEN = "a*n@*******.com"
DONE = b"data: [DONE]\n\n"
ASK: dict[str, Any] = {"model": "m", "prompt": "Once", "stream": True}
FOUND = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}],
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}


def chunk(text: str, end: str | None = None, index: int = 0, logprobs: Any = None) -> bytes:
    choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": end}
    return event({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]})


def said(got: Got, index: int = 0) -> str:
    found = [choice["text"] for one in got.events for choice in one["choices"] if choice["index"] == index]
    return "".join(found)


async def completed(*raw: bytes, guard: Processor | None = None, **more: Any) -> Got:
    return await run_exchange(Completions(), {**ASK, **more}, Scripted(raw), guard or PIIDetector(strategy="redact"))


async def embedded(given: Any, guard: Processor | None = None) -> tuple[Got, Scripted]:
    upstream = Scripted([json.dumps(FOUND).encode()], "application/json")
    body = {"model": "m", "input": given}
    return await run_exchange(Embeddings(), body, upstream, guard or PIIDetector(strategy="redact")), upstream


async def test_each_choice_is_hidden_in_place():
    raw = [
        chunk("Ask ann"),
        chunk("Fine", index=1),
        chunk("@example.com."),
        chunk("", "stop"),
        chunk(" day", "stop", 1),
    ]
    got = await completed(*raw, DONE, n=2)
    assert (said(got), said(got, 1)) == (f"Ask {HIDDEN}.", "Fine day")
    clean = [chunk("Once upon", logprobs={"tokens": ["Once", " upon"], "top_logprobs": None}), chunk("", "stop"), DONE]
    assert (await completed(*clean)).body == b"".join(clean)


async def test_words_beside_the_text_that_the_model_did_not_choose_do_not_leave():
    others = {"tokens": ["Once"], "token_logprobs": [-0.1], "top_logprobs": [{"Once": -0.1, MAIL: -3.0}]}
    got = await completed(chunk("Once", logprobs=others), chunk("", "stop"), DONE)
    assert (said(got), got.events[0]["choices"][0]["logprobs"]) == ("Once", None)


async def test_prompts_and_the_text_behind_them_are_hidden_where_they_stand():
    body = {"model": "m", "prompt": ["One", f"Ask {MAIL}"], "suffix": f"or {MAIL}."}
    answer = {"object": "text_completion", "choices": [{"index": 0, "text": "Fine", "finish_reason": "stop"}]}
    upstream = Scripted([json.dumps(answer).encode()], "application/json")
    await run_exchange(Completions(), body, upstream, PIIDetector(strategy="redact"))
    assert upstream.got == {"model": "m", "prompt": ["One", f"Ask {HIDDEN}"], "suffix": f"or {HIDDEN}."}


async def test_a_verdict_ends_a_completion():
    got = await completed(chunk("A long beginning. "), chunk(f"Ask {MAIL} "), DONE, guard=PIIDetector(strategy="block"))
    assert (got.events[-1]["choices"][0]["finish_reason"], got.body.endswith(DONE)) == ("content_filter", True)
    assert said(got).endswith("I can't help with that request.")
    got = await run_exchange(Completions(), {"model": "m", "prompt": MAIL}, Scripted([]), PIIDetector(strategy="block"))
    assert (got.status, got.json["object"], got.json["choices"][0]["finish_reason"]) == (
        200,
        "text_completion",
        "content_filter",
    )


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2], [3]], ["a", 5], {"text": "a"}, 5, [None], [{"text": MAIL}]])
async def test_tokens_are_refused_since_nobody_can_read_them(tokens):
    for endpoint, name in ((Completions(), "prompt"), (Completions(), "suffix"), (Embeddings(), "input")):
        upstream = Scripted([])
        got = await run_exchange(
            endpoint, {"model": "m", "prompt": "a", "input": "a", name: tokens}, upstream, strict=False
        )
        assert (got.status, upstream.asked) == (400, [])
        assert f"{name}: holds tokens" in got.json["error"]["message"]


async def test_inputs_are_hidden_and_vectors_leave_as_they_came():
    got, upstream = await embedded([f"Ask {MAIL}", "", "Fine"])
    assert upstream.got["input"] == [f"Ask {HIDDEN}", "", "Fine"]
    assert got.body == upstream.sends[0]
    assert got.ended.usage == (3, 0)
    _, upstream = await embedded(MAIL)
    assert upstream.got["input"] == HIDDEN


async def test_a_verdict_on_an_input_is_an_error():
    got, upstream = await embedded(MAIL, PIIDetector(strategy="block"))
    assert (got.status, got.json["error"]["code"], upstream.asked) == (400, "content_filter", [])


class Forgets(Processor):
    """Removes messages that say so."""

    id = "forgets"

    def process_input(self, ctx):
        return [message for message in ctx.messages if "forget" not in message.text]


async def test_no_text_is_left_out_since_the_answer_counts_them():
    got, upstream = await embedded(["One", "forget me", "Two"], Forgets())
    assert (got.status, got.json["error"]["code"], upstream.asked) == (500, "guard_failed", [])


async def test_openai_s_types_read_what_leaves():
    streamed = await completed(chunk(f"Ask {MAIL} "), DONE, guard=PIIDetector(strategy="block"))
    assert Completion.model_validate(streamed.events[-1], strict=True).choices[0].text.startswith("I can't")
    refused = await run_exchange(
        Completions(), {"model": "m", "prompt": MAIL}, Scripted([]), PIIDetector(strategy="block")
    )
    assert Completion.model_validate(refused.json, strict=True).choices[0].finish_reason == "content_filter"
    got, _ = await embedded(MAIL)
    assert CreateEmbeddingResponse.model_validate(got.json, strict=True).data[0].embedding == [0.1, -0.2]
