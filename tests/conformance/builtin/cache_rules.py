"""What is better on purpose of a cache of answers, and how the reference's goes, so that only the better is changed.

`session` plays calls against a cache as the reference does; each rule is one thing that is done otherwise. No processor
is known here.
"""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.builtin.frame import Fields

MODEL = {"provider": "openai", "modelId": "gpt-4o", "specificationVersion": "v2"}
SAID = [
    {"type": "text-delta", "payload": {"id": "t", "text": "hi"}},
    {"type": "finish", "payload": {"finishReason": "stop"}},
]
OPTIONS = ("agent_id", "bust", "key", "scope", "ttl")
KEPT = ("stop", "length", "tool-calls")
CALL = frozenset({"prompt", "model", "step", "resource", "override", "chunks", "wait_ms"})
"""What a call says that is no parameter of its request, but the prompt and the model."""


def complete(options: Fields) -> Fields:
    """Return the options with the reference's defaults; no scope is the resource of each call."""
    return {"ttl": 300, "bust": False, "agent_id": "mastra-response-cache", **options}


# What is better on purpose


def a_key_of_ones_own_stays_within_its_scope(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A fixed key, and one that a function makes, tells calls apart within agent and scope; it is hashed."""
    return changed(options, given, expected, frozenset(), {"own"})


def all_of_a_request_is_in_its_key(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Settings, tools, the choice of tools and the form of the answer tell calls apart, too."""
    return changed(options, given, expected, {"own"}, {"own", "whole"})


def what_could_never_be_a_hit_is_not_written(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An answer without chunks is not kept."""
    return changed(options, given, expected, {"own", "whole"}, {"own", "whole", "nothing"})


def calls_of_tools_are_not_given_again(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An answer that calls tools is not kept."""
    return changed(options, given, expected, {"own", "whole", "nothing"}, {"own", "whole", "nothing", "calls"})


def a_kept_answer_says_so(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """A hit's metadata has ``cached``, and its end a usage of nothing."""
    if "calls" not in expected:
        return None
    calls = [{**call, "chunks": marked(call["chunks"])} if "chunks" in call else call for call in expected["calls"]]
    return {**expected, "calls": calls}


def what_is_empty_or_over_at_once_is_refused(options: Fields, given: Fields, _expected: Fields) -> Fields | None:
    """A time of nothing, and a key, scope or agent without a name, are errors when the cache is made."""
    empty = [name for name in ("agent_id", "key", "scope") if options.get(name) == ""]
    over = ["ttl"] if options["ttl"] is not None and options["ttl"] <= 0 else []
    return {"error": " ".join((empty + over)[:1])} if empty + over and given["method"] == "cache_session" else None


# What the rules share


def changed(
    options: Fields, given: Fields, expected: Fields, before: set[str] | frozenset[str], after: set[str]
) -> Fields | None:
    """Return what is expected where doing one more thing otherwise makes a difference."""
    if given["method"] != "cache_session" or "calls" not in expected:
        return None
    new = session(options, given, after)
    return new if new != session(options, given, before) else None


def session(options: Fields, given: Fields, better: set[str] | frozenset[str]) -> Fields:
    """Return what comes of the calls of a session, one after the other."""
    if given.get("cache_fails_on") == "get":
        failed = {"hit": False, "ttl_seconds": None, "stored": False, "key_index": None}
        return {"calls": [dict(failed) for _ in given["calls"]], "key_shape": [], "set_ttl_ms": []}
    kept: dict[str, Any] = {}
    keys = [key_of(options, call, better) for call in given["calls"]]
    seen = [*dict.fromkeys(key for key, _ in keys)]
    calls = [
        {**called(options, call, kept, key, better, given), "key_index": seen.index(key)}
        for call, (key, _) in zip(given["calls"], keys, strict=True)
    ]
    times = [call.pop("written") for call in calls]
    return {"calls": calls, "key_shape": [shape for _, shape in keys], "set_ttl_ms": [one for one in times if one]}


def called(
    options: Fields, call: Fields, kept: dict[str, Any], key: str, better: set[str] | frozenset[str], given: Fields
) -> Fields:
    """Return what comes of one call; keep its answer."""
    chunks = call.get("chunks", SAID)
    if kept.get(key) and not said(options, call, "bust"):
        return {"hit": True, "ttl_seconds": None, "stored": True, "chunks": kept[key], "written": None}
    writes = is_kept(chunks, better) and given.get("cache_fails_on") != "set"
    if writes:
        kept[key] = chunks
    ttl = options["ttl"]  # seconds
    return {"hit": False, "ttl_seconds": ttl, "stored": key in kept, "written": ttl * 1000 if writes else None}


def key_of(options: Fields, call: Fields, better: set[str] | frozenset[str]) -> tuple[str, str]:
    """Return what tells a call apart, and the shape of its key."""
    scope = said(options, call, "scope", call.get("resource"))
    own = said(options, call, "key") or from_function(options, call, scope)
    agent = options["agent_id"]
    if own and "own" not in better:
        return own, own
    prompt = bare(call["prompt"])
    whole = rest_of(call) if "whole" in better else {}
    request = own or [call.get("step", 0), call.get("model", MODEL), prompt, whole]
    key = json.dumps([agent, scope, request], sort_keys=True)
    return key, f"mastra:agent-response:{agent}:{'' if scope is None else '<sha256/8>:'}<sha256/32>"


def said(options: Fields, call: Fields, name: str, default: Any = None) -> Any:
    """Return an option, the call's own going first."""
    override = call.get("override") or {}
    return override[name] if name in override else options.get(name, default)


def from_function(options: Fields, call: Fields, scope: Any) -> str | None:
    """Return the key that the function makes; None if there is none, or it raises."""
    template = options.get("key_fn")
    if not template or template == "raises":
        return None
    model = call.get("model", MODEL)
    text: str = template.format(step=call.get("step", 0), scope=scope, agent=options["agent_id"], model=model)
    return text


def is_kept(chunks: list[Fields], better: set[str] | frozenset[str]) -> bool:
    """Whether an answer is kept."""
    kinds = {row["type"] for row in chunks}
    reasons = [row["payload"].get("finishReason") for row in chunks if row["type"] == "finish"]
    if "calls" in better and any(kind.startswith("tool-") for kind in kinds):
        return False
    if not chunks:
        return "nothing" not in better
    return kinds.isdisjoint({"error", "tripwire"}) and all(reason in KEPT for reason in reasons)


def rest_of(call: Fields) -> Fields:
    """Return what a call says of its request besides prompt and model."""
    return {name: value for name, value in call.items() if name not in CALL}


def bare(value: Any) -> Any:
    """Return a prompt without what the framework notes among its provider options."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    inside = {name: bare(item) for name, item in value.items() if name != "mastra"}
    return {name: item for name, item in inside.items() if item != {} or value[name] == {}}


def marked(chunks: list[Fields]) -> list[Fields]:
    """Return a kept answer as it is given again."""
    found = chunks if any(row["type"] == "response-metadata" for row in chunks) else [{"type": "response-metadata"}]
    found = found if found is chunks else [*found, *chunks]
    return [again(row) for row in found]


def again(row: Fields) -> Fields:
    """Return a chunk of a kept answer as it is given again."""
    payload = row.get("payload", {})
    if row["type"] == "response-metadata":
        return {**row, "payload": {**payload, "cached": True}}
    if row["type"] == "finish" and "usage" in payload:
        nothing = {"input_tokens": 0, "output_tokens": 0, "requests": 0}
        terms = {**payload.get("provider_terms", {}), "cached_usage": payload["usage"]}
        return {**row, "payload": {**payload, "usage": nothing, "provider_terms": terms}}
    return row
