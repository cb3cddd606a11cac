"""Sessions with a cache as others may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.builtin.cache_rules import MODEL, SAID, complete, session
from tests.conformance.builtin.frame import Fields, Given, Row

CALLS = [
    {"type": "tool-call", "payload": {"toolCallId": "c1", "toolName": "pay", "args": {"sum": 10}}},
    {"type": "finish", "payload": {"finishReason": "tool-calls"}},
]
TOLD = [
    {"type": "response-metadata", "payload": {"id": "r1", "modelId": "gpt-4o"}},
    {"type": "text-delta", "payload": {"id": "t", "text": "Hel"}},
    {"type": "text-delta", "payload": {"id": "t", "text": "lo"}},
    {"type": "finish", "payload": {"finishReason": "stop", "usage": {"input_tokens": 3, "output_tokens": 1}}},
]


def call(text: str = "hello", **more: Any) -> Fields:
    """Return a call."""
    return {"prompt": [{"role": "user", "content": [{"type": "text", "text": text}]}], **more}


def noted(**options: Any) -> Fields:
    """Return a call whose message has options for providers."""
    part = {"type": "text", "text": "hello"}
    return {"prompt": [{"role": "user", "content": [part], "providerOptions": options}]}


SESSIONS: dict[str, tuple[Fields, list[Fields], Fields]] = {
    "the same twice": ({}, [call(), call()], {}),
    "another prompt": ({}, [call(), call("hello!")], {}),
    "another scope": ({}, [call(resource="u1"), call(resource="u2"), call(resource="u1")], {}),
    "a scope of one's own": ({"scope": "team"}, [call(resource="u1"), call(resource="u2")], {}),
    "a call's own scope": ({}, [call(resource="u1"), call(resource="u2", override={"scope": "u1"})], {}),
    "a call's own scope is none": ({"scope": "team"}, [call(), call(override={"scope": None})], {}),
    "a call's own bust": ({}, [call(), call(override={"bust": True}), call()], {}),
    "a fixed key": ({"key": "pinned"}, [call(), call("hello!", step=2)], {}),
    "a fixed key, two users": ({"key": "pinned"}, [call(resource="u1"), call(resource="u2")], {}),
    "a call's key beats the function": ({"key_fn": "k-{step}"}, [call(override={"key": "mine"}), call()], {}),
    "a function of the step, two prompts": ({"key_fn": "k-{step}"}, [call(), call("hello!")], {}),
    "a function, two users": ({"key_fn": "k-{step}"}, [call(resource="u1"), call(resource="u2")], {}),
    "another temperature": ({}, [call(modelSettings={"temperature": 0}), call(modelSettings={"temperature": 1})], {}),
    "other tools": ({}, [call(tools={"a": {}}), call(tools={"b": {}}), call(tools={"a": {}})], {}),
    "another form": ({}, [call(responseFormat={"type": "json"}), call()], {}),
    "another choice of tools": ({}, [call(toolChoice="auto"), call(toolChoice="required")], {}),
    "another provider": ({}, [call(), call(model={**MODEL, "provider": "azure"})], {}),
    "a call of a tool": ({}, [call(chunks=CALLS), call(chunks=CALLS)], {}),
    "nothing, thrice": ({}, [call(chunks=[]), call(chunks=[]), call(chunks=[])], {}),
    "a usage": ({}, [call(chunks=TOLD), call()], {}),
    "an error behind a text": ({}, [call(chunks=[*SAID, {"type": "error", "payload": {}}]), call()], {}),
    "a framework's notes": ({}, [noted(mastra={"a": 1}), noted(mastra={"a": 2}), noted(openai={"a": 1})], {}),
    "no time": ({"ttl": 0}, [call(), call()], {}),
    "a scope without a name": ({"scope": ""}, [call(), call()], {}),
    "a cache that cannot be read, twice": ({}, [call(), call()], {"cache_fails_on": "get"}),
    "a cache that cannot be written, two users": ({}, [call(resource="u1"), call()], {"cache_fails_on": "set"}),
}


def rows() -> list[Row]:
    """Return the sessions with what the reference makes of them."""
    return [
        Row("response_cache", name, Given(complete(options), given), session(complete(options), given, set()))
        for name, (options, calls, more) in SESSIONS.items()
        for given in [{"method": "cache_session", "calls": calls, **more}]
    ]
