"""Portkey's webhook: bodies of requests and of answers, whole. An error would count as a passed check there."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from penstock.workflows.gateway.checks import portkey
from tests.workflows.gateway.checks.served import BLOCKS, HIDES, Checks, breaks, hangs, places, planted, policy

MAIL = "ann@example.com"
CHAT: dict[str, Any] = {
    "model": "gpt-4o-2024-08-06",
    "messages": [{"role": "system", "content": "Be nice"}, {"role": "user", "content": "Hello there"}],
    "temperature": 0.5,
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "send",
                "description": "Sends a mail",
                "parameters": {"type": "object", "properties": {"to": {"type": "string"}}},
            },
        }
    ],
    "stop": ["END"],
    "metadata": {"team": "sales"},
    "user": "u-1",
}
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-B9SAAj7zd4mq12omkeEImYvYnjbOr",
    "object": "chat.completion",
    "created": 1741592910,
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi! How are you?", "refusal": None, "annotations": []},
            "logprobs": {"content": [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 18, "completion_tokens": 10, "total_tokens": 28},
    "service_tier": "default",
    "system_fingerprint": "fp_06737a9306",
}


def hook(side: str, body: Any) -> dict[str, Any]:
    """Return a call of the webhook."""
    sides: dict[str, Any] = {
        "request": {"json": CHAT, "text": "Hello"},
        "response": {"json": {}, "text": "", "statusCode": None},
    }
    sides[side] = {**sides[side], "json": body}
    event = {"request": "beforeRequestHook", "response": "afterRequestHook"}[side]
    return {**sides, "provider": "openai", "requestType": "chatComplete", "metadata": {}, "eventType": event}


async def ask(checks: Checks, side: str, body: Any) -> dict[str, Any]:
    """Return the reply about a body."""
    reply: dict[str, Any] = await checks.ask("/portkey", hook(side, body))
    return reply


async def test_clean_bodies_pass_untouched(checks: Checks) -> None:
    """No false alarm for names of models, ids and schemas."""
    checks.policy = policy(HIDES, BLOCKS)
    assert await ask(checks, "request", CHAT) == {"verdict": True}
    assert await ask(checks, "response", ANSWER) == {"verdict": True}


@pytest.mark.parametrize("side", ["request", "response"])
async def test_a_secret_in_any_field_never_comes_back(checks: Checks, side: str) -> None:
    """Each text of the body in turn: it is edited, or the verdict is false."""
    checks.policy = policy(HIDES)
    body = CHAT if side == "request" else ANSWER
    for path in places(body):
        if "logprobs" in path:  # copies of the answer, token by token: they go where it is changed
            continue
        reply = await ask(checks, side, planted(body, path, f"to {MAIL} now"))
        left = json.dumps(reply.get("transformedData", {}))
        assert MAIL not in json.dumps(reply), path
        assert not reply["verdict"] or "[EMAIL]" in left, path


async def test_keys_are_texts_too(checks: Checks) -> None:
    """In parameters, schemas, metadata."""
    checks.policy = policy(HIDES)
    for body in ({**CHAT, MAIL: 1}, {**CHAT, "metadata": {MAIL: "x"}}, {**CHAT, "odd": [[{MAIL: None}]]}):
        reply = await ask(checks, "request", body)
        assert MAIL not in json.dumps(reply)
        assert reply["verdict"] is False or "transformedData" in reply


async def test_tokens_go_where_the_answer_was_changed(checks: Checks) -> None:
    """They would spell what was hidden."""
    checks.policy = policy(HIDES)
    body = planted(ANSWER, ("choices", 0, "message", "content"), f"It is {MAIL}.")
    body["choices"][0]["logprobs"]["content"] = [
        {"token": "ann@", "logprob": 0},
        {"token": "example.com", "logprob": 0},
    ]
    left = (await ask(checks, "response", body))["transformedData"]["response"]
    assert left["text"] == left["json"]["choices"][0]["message"]["content"] == "It is [EMAIL]."
    assert left["json"]["choices"][0]["logprobs"] is None
    assert left["json"]["id"] == ANSWER["id"]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "prompt": f"Mail {MAIL} please"},
        {"model": "m", "prompt": ["Hi", f"Mail {MAIL} please"]},
        {"model": "m", "input": f"Mail {MAIL} please"},
        {"model": "m", "input": ["Hi", f"Mail {MAIL} please"]},
        {"model": "m", "input": [{"role": "user", "content": [{"type": "input_text", "text": f"Mail {MAIL} please"}]}]},
        {"model": "m", "input": "Hello", "instructions": f"Tell {MAIL} all"},
        {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "system": f"Tell {MAIL} all"},
        {"model": "m", "messages": [], "system": [{"type": "text", "text": f"Tell {MAIL} all"}], "max_tokens": 3},
        {
            "model": "m",
            "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": MAIL}]}],
        },
    ],
)
async def test_all_kinds_of_requests_are_edited_in_place(checks: Checks, body: dict[str, Any]) -> None:
    """Completions, embeddings, responses, Anthropic's messages: each keeps its form."""
    checks.policy = policy(HIDES)
    reply = await ask(checks, "request", body)
    assert reply["transformedData"]["request"]["json"] == json.loads(json.dumps(body).replace(MAIL, "[EMAIL]"))


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"text": f"It is {MAIL}.", "index": 0}]},
        {"role": "assistant", "content": [{"type": "text", "text": f"It is {MAIL}."}], "type": "message"},
        {
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"{MAIL} it is."}]}
            ]
        },
        {"object": "list", "odd": {"says": f"It is {MAIL}."}},
    ],
)
async def test_all_kinds_of_answers_are_edited_in_place(checks: Checks, body: dict[str, Any]) -> None:
    """Also one in no known form."""
    checks.policy = policy(HIDES)
    reply = await ask(checks, "response", body)
    assert MAIL not in json.dumps(reply)
    assert "[EMAIL]" in json.dumps(reply["transformedData"]["response"]["json"])


async def test_embeddings_pass(checks: Checks) -> None:
    """Numbers are no text."""
    body = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.1] * 500}], "model": "m"}
    assert await ask(checks, "response", body) == {"verdict": True}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        json.dumps({"eventType": "duringRequestHook"}).encode(),
        json.dumps({"eventType": "beforeRequestHook"}).encode(),
        json.dumps(hook("request", {"input": [1, 2, 3]})).encode(),
        json.dumps(hook("request", {"messages": [{"role": 1}]})).encode(),
        json.dumps(hook("response", {"choices": [{"delta": {"content": "x"}}]})).encode(),
        b"x" * 1_000_001,
    ],
)
async def test_what_cannot_be_read_is_a_false_verdict_with_the_status_200(checks: Checks, body: bytes) -> None:
    """With the reason."""
    reply = await checks.ask("/portkey", body)
    assert reply["verdict"] is False
    assert reply["data"]["reason"]


async def test_verdicts_and_failures_are_false_verdicts(checks: Checks) -> None:
    """With the name of the guard."""
    checks.policy = policy(BLOCKS)
    assert (await ask(checks, "request", planted(CHAT, ("messages", 1, "content"), "about Globex"))) == {
        "verdict": False,
        "data": {"reason": "blocked by rivals"},
    }
    assert not (await ask(checks, "response", planted(ANSWER, ("choices", 0, "message", "content"), "Globex")))[
        "verdict"
    ]
    checks.policy = policy(breaks)
    assert not (await ask(checks, "request", CHAT))["verdict"]


async def test_guards_that_take_too_long_are_a_false_verdict(checks: Checks) -> None:
    """Before Portkey counts the check as passed."""
    checks.policy = policy(hangs)
    contract = replace(portkey.CONTRACT, paths=("/soon",), seconds=0.05)
    app = Starlette(routes=list(contract.routes(lambda: checks.policy)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://checks") as client:
        reply = (await client.post("/soon", json=hook("request", CHAT))).json()
    assert reply["verdict"] is False
    assert portkey.CONTRACT.seconds < 3  # type: ignore[operator]
