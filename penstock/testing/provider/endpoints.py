"""What a provider's endpoints answer: chat completions by script; embeddings, moderations and models by themselves.

It knows requests and answers as values, no socket. What is wrong with a request is said as OpenAI says it.
"""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from typing import TYPE_CHECKING

from penstock.testing.provider.chat import CREATED
from penstock.testing.provider.reading import items, mapping, objects
from penstock.testing.provider.wire import Reply, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.engine.values.frozen import Value, Values
    from penstock.testing.provider.received import Received

CATEGORIES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""What OpenAI's moderation endpoint looks for."""

DIMENSIONS = 32
"""How long a vector is, unless the request says otherwise."""

FLAGGED_FROM = 0.5
"""The score from which on the moderation endpoint flags a category."""


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a text's vector, of length one; each word has its direction, so texts that share words are near."""
    sums = [0.0] * dimensions
    for word in text.lower().split() or [""]:
        digest = hashlib.shake_128(word.encode()).digest(dimensions)
        sums = [total + byte - 127.5 for total, byte in zip(sums, digest, strict=True)]
    length = math.hypot(*sums) or 1.0
    return [total / length for total in sums]


def embeddings(request: Received, known: Callable[[str], Sequence[float]] | None) -> Reply:
    """Answer a request for embeddings; ``known`` gives a text's vector."""
    body = request.fields
    texts = list(_inputs(body.get("input")))
    if not texts:
        return _refused("'input' is missing or empty")
    packed = body.get("encoding_format") == "base64"
    length = body.get("dimensions") or DIMENSIONS
    vectors = [list(known(text) if known else embed(text, length)) for text in texts]
    data = [
        {"object": "embedding", "index": index, "embedding": _packed(vector) if packed else vector}
        for index, vector in enumerate(vectors)
    ]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Reply({"object": "list", "data": data, "model": body.get("model", "fake-1"), "usage": usage})


def moderations(request: Received, moderate: Callable[[str], Mapping[str, float]] | None) -> Reply:
    """Answer a request for moderation; ``moderate`` gives a text's scores by category, 0 to 1."""
    body = request.fields
    texts = list(_inputs(body.get("input")))
    if not texts:
        return _refused("'input' is missing or empty")
    results = [_moderated(moderate(text) if moderate else {}) for text in texts]
    return Reply({"id": "modr-1", "model": body.get("model", "omni-moderation-latest"), "results": results})


def models(names: Sequence[str]) -> Reply:
    """Answer which models there are."""
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "penstock"} for name in names]
    return Reply({"object": "list", "data": data})


def problem_with_chat(request: Received) -> Reply | None:
    """Return the 400 that a malformed request for a chat completion gets; None if it is well-formed."""
    messages = items(request.fields.get("messages"))
    if not messages:
        return _refused("'messages' is missing or empty")
    if not all(isinstance(mapping(message).get("role"), str) for message in messages):
        return _refused("each message is an object with a role")
    return _unanswered(messages)


def problem_with_body(request: Received, *, needs_model: bool) -> Reply | None:
    """Return the 400 that a body gets that is no JSON object, or names no model."""
    if not isinstance(request.json, dict):
        return _refused("the body is no JSON object")
    if needs_model and not isinstance(request.fields.get("model"), str):
        return _refused("you must provide a model parameter")
    return None


def _unanswered(messages: Sequence[Values]) -> Reply | None:
    """Refuse tool calls without results, and results without calls, as OpenAI does."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return _refused("a message of role 'tool' must be a response to a preceding message with 'tool_calls'")
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            break
        else:
            open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    return _refused("'tool_calls' must be followed by tool messages responding to each of them") if open_calls else None


def _refused(problem: str) -> Reply:
    return Reply(error(problem), 400)


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _inputs(given: Value) -> Iterator[str]:
    """Yield the texts of an input: a text, a list of texts, tokens, a list of tokens, or parts of one message."""
    if isinstance(given, str):
        yield given
    elif objects(given):
        yield "\n".join(part.get("text", "") for part in objects(given))
    elif all(isinstance(item, int) for item in items(given)):
        yield from [" ".join(map(str, items(given)))] if given else []
    else:
        yield from (item if isinstance(item, str) else " ".join(map(str, items(item))) for item in items(given))


def _moderated(scores: Mapping[str, float]) -> Values:
    every = {**dict.fromkeys(CATEGORIES, 0.0), **scores}
    flags = {name: score >= FLAGGED_FROM for name, score in every.items()}
    inputs = {name: ["text"] if flag else [] for name, flag in flags.items()}
    return {
        "flagged": any(flags.values()),
        "categories": flags,
        "category_scores": every,
        "category_applied_input_types": inputs,
    }
