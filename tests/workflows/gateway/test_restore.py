"""Personal data hidden from the provider and put back for the client: over turns, in calls of tools, in streams."""

from __future__ import annotations

import json
from typing import Any

from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.presets import privacy
from tests.workflows.gateway.exchanges import Got, Scripted, event, run_exchange

CHAT = ChatCompletions()
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], end: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": end}
    return event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


async def turn(messages: list[dict[str, Any]], *chunks: bytes) -> tuple[Any, Got]:
    """Send a turn through guards that restore; return what the provider got, and the reply."""
    upstream = Scripted([*chunks, DONE])
    body = {"model": "m", "stream": True, "messages": messages}
    got = await run_exchange(CHAT, body, upstream, privacy(restore=True))
    note, *sent = upstream.got["messages"]
    assert note["role"] == "system"  # what tokens are
    return sent, got


def said(got: Got) -> str:
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in got.events)


ASK = {"role": "user", "content": "Write to ann@example.com and to bob@example.com."}


async def test_a_token_that_is_cut_over_events_is_put_back():
    sent, got = await turn(
        [ASK], chunk({"content": "I write to [EMA"}), chunk({"content": "IL_2] now."}), chunk({}, "stop")
    )
    assert sent == [{"role": "user", "content": "Write to [EMAIL_1] and to [EMAIL_2]."}]
    assert said(got) == "I write to bob@example.com now."


async def test_a_call_gets_the_values_that_it_is_for():
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "mail", "arguments": '{"to": "[EMAIL_1]"}'},
    }
    _, got = await turn([ASK], chunk({"tool_calls": [call]}), chunk({}, "tool_calls"))
    made = [one["choices"][0]["delta"].get("tool_calls") for one in got.events]
    assert json.loads(made[0][0]["function"]["arguments"]) == {"to": "ann@example.com"}


async def test_the_next_turn_hides_the_same_values_under_the_same_tokens():
    """So the provider finds the beginning of the prompt in its cache."""
    first, got = await turn([ASK], chunk({"content": "[EMAIL_1] has it, and so has zed."}), chunk({}, "stop"))
    history = [ASK, {"role": "assistant", "content": said(got)}, {"role": "user", "content": "And carl@example.com?"}]
    second, _ = await turn(history, chunk({"content": "Yes."}), chunk({}, "stop"))
    assert second[:2] == [*first, {"role": "assistant", "content": "[EMAIL_1] has it, and so has zed."}]
    assert second[2]["content"] == "And [EMAIL_3]?"
    assert (await turn(history, chunk({}, "stop")))[0] == second


async def test_results_of_tools_are_hidden_too():
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"who": "ann@example.com"}'}}
    history = [
        ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Found ann@example.com and dora@example.com"},
    ]
    sent, got = await turn(history, chunk({"content": "It is [EMAIL_3]."}), chunk({}, "stop"))
    assert "@" not in json.dumps(sent)
    assert said(got) == "It is dora@example.com."
