"""Answers of the fake provider to each request: chat completions by a script, embeddings, moderations, models, errors.

Errors in requests are reported as OpenAI reports them.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import Values
from penstock.formats.openai_moderations import CATEGORIES
from penstock.testing.provider.received import Received, items, mapping, objects
from penstock.testing.provider.wire import Reply, Sent, Wire, encoded, error, failing
from penstock.testing.turns import Script, Turn, arguments, call_id, failure, turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.testing.provider.wire import Encoded


CREATED = 1_767_225_600
"""When every answer was made: the first second of 2026, in UTC."""

_REASONS = {"tool-calls": "tool_calls", "content-filter": "content_filter"}


def completion(turn: Turn, request: Received, wire: Wire, id: str) -> Values:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Value] = {"role": "assistant", "content": "".join(turn.pieces) or None, "refusal": turn.refusal}
    if turn.reasoning_pieces:
        message[wire.reasoning] = "".join(turn.reasoning_pieces)
    if turn.tool_calls:
        message["tool_calls"] = [_call(call, index) for index, call in enumerate(turn.tool_calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(turn)}
    return _frame("chat.completion", request, id) | {"choices": [choice], "usage": usage(turn, request)}


def events(turn: Turn, request: Received, wire: Wire, id: str) -> Iterator[Values]:
    """Yield the JSON of the events of a streamed answer, without ``[DONE]``."""
    frame = _frame("chat.completion.chunk", request, id)
    options = mapping(request.fields.get("stream_options"))
    counted = {"usage": None} if options.get("include_usage") else {}
    yield frame | {"choices": [_choice({"role": "assistant", "content": ""})]} | counted
    for delta in _deltas(turn, wire):
        yield frame | {"choices": [_choice(delta)]} | counted
    if turn.stream_error is not None:
        yield _broken(turn)
        return
    yield frame | {"choices": [_choice({}, _reason(turn))]} | counted
    if counted:
        yield frame | {"choices": [], "usage": usage(turn, request)}


def usage(turn: Turn, request: Received) -> Values:
    """Return the usage of an answer: a token for each word, unless the turn says otherwise."""
    tokens: Mapping[str, int] = turn.usage or {}
    asked, said = tokens.get("input_tokens", len(request.all_text.split())), tokens.get("output_tokens", turn.words)
    thought = tokens.get("reasoning_tokens", len("".join(turn.reasoning_pieces).split()))
    return {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": tokens.get("cached_tokens", 0)},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _frame(kind: str, request: Received, id: str) -> dict[str, Value]:
    return {"id": id, "object": kind, "created": CREATED, "model": request.fields.get("model", "fake-1")}


def _choice(delta: Values, reason: str | None = None) -> Values:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _reason(turn: Turn) -> str:
    return _REASONS.get(turn.reason, turn.reason)


def _deltas(turn: Turn, wire: Wire) -> Iterator[Values]:
    yield from ({wire.reasoning: piece} for piece in turn.reasoning_pieces)
    yield from ({"content": piece} for piece in turn.pieces)
    if turn.refusal is not None:
        yield {"refusal": turn.refusal}
    for index, call in enumerate(turn.tool_calls):
        yield from _streamed_call(turn, call, index)


def _streamed_call(turn: Turn, call: Values, index: int) -> Iterator[Values]:
    """Yield a call's name, then its arguments: as a whole, or in pieces of four characters."""
    made = _call(call, index)
    written = made["function"]["arguments"]
    yield {"tool_calls": [{"index": index, **made, "function": {**made["function"], "arguments": ""}}]}
    length = 4 if turn.stream_tool_input else max(len(written), 1)
    for start in range(0, len(written), length):
        piece = {"arguments": written[start : start + length]}
        yield {"tool_calls": [{"index": index, "function": piece}]}


def _call(call: Values, index: int) -> dict[str, Value]:
    function = {"name": call["name"], "arguments": arguments(call)}
    return {"id": call_id(call, index), "type": "function", "function": function}


def _broken(turn: Turn) -> Values:
    failed = failure(turn.stream_error)
    return {
        "error": {
            "message": failed.message,
            "type": "server_error",
            "param": None,
            "code": failed.code or failed.status,
        }
    }


DIMENSIONS = 32
"""The length of vectors, unless the request asks for another."""

FLAGGED_FROM = 0.5
"""The score from which the moderation endpoint flags a category."""


def embed(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a text's vector, of length 1. Each word has a direction, so texts that share words are near each other."""
    sums = [0.0] * dimensions
    for word in text.lower().split() or [""]:
        digest = hashlib.shake_128(word.encode()).digest(dimensions)
        sums = [total + byte - 127.5 for total, byte in zip(sums, digest, strict=True)]
    length = math.hypot(*sums) or 1.0
    return [total / length for total in sums]


def answer_embeddings(request: Received, known: Callable[[str], Sequence[float]] | None) -> Reply:
    """Answer a request for embeddings; ``known`` returns the vector of a text."""
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


def answer_moderations(request: Received, moderate: Callable[[str], Mapping[str, float]] | None) -> Reply:
    """Answer a request for moderation; ``moderate`` returns a text's scores by category, 0 to 1."""
    body = request.fields
    texts = list(_inputs(body.get("input")))
    if not texts:
        return _refused("'input' is missing or empty")
    results = [_moderated(moderate(text) if moderate else {}) for text in texts]
    return Reply({"id": "modr-1", "model": body.get("model", "omni-moderation-latest"), "results": results})


def answer_models(names: Sequence[str]) -> Reply:
    """Answer a request for the list of models."""
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "penstock"} for name in names]
    return Reply({"object": "list", "data": data})


def problem_with_chat(request: Received) -> Reply | None:
    """Return the error 400 for a malformed chat request; None if it is well-formed."""
    messages = items(request.fields.get("messages"))
    if not messages:
        return _refused("'messages' is missing or empty")
    if not all(isinstance(mapping(message).get("role"), str) for message in messages):
        return _refused("each message is an object with a role")
    # Tool calls without results, and results without calls, are refused as OpenAI does.
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return _refused("a message of role 'tool' must be a response to a preceding message with 'tool_calls'")
            open_calls.discard(message["tool_call_id"])
        elif open_calls:
            break
        else:
            calls = message.get("tool_calls") or ()
            if not all(isinstance(call.get("id"), str) for call in calls):
                return _refused("each of 'tool_calls' must have an id")
            open_calls = {call["id"] for call in calls}
    return _refused("'tool_calls' must be followed by tool messages responding to each of them") if open_calls else None


def _refused(problem: str) -> Reply:
    return Reply(error(problem), 400)


def _packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _inputs(given: Value) -> Iterator[str]:
    """Yield the texts of an input: a text, a list of texts, tokens, a list of tokens, or parts of a message."""
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


Item: TypeAlias = str | Values | Turn | Reply | Sent | None
"""What a script gives for a request: what the model says (a str, a turn), what the server answers (a `Reply`, a
`Sent`), or None: the answer without a script."""

ScriptItems: TypeAlias = Sequence[Item | Callable[[Received], Item]] | Callable[[Received], Item]

_ENDPOINTS = ("/chat/completions", "/embeddings", "/moderations", "/models")
"""The known endpoints, by the end of their paths: providers have them at different places."""

_PLAIN = Wire()


@dataclass(frozen=True, slots=True)
class Routing:
    """The answer of the provider.

    Attributes:
        script: the answers to chat requests.
        numbers: the numbers of answers.
        others: the answers to requests at other endpoints, by the end of the path.
        embed: returns the vector of a text.
        moderate: returns the scores of a text.
        models: the names of the models.
        key: the key that requests must have; None: any, or none.
    """

    script: Script[Received, Item]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    others: Mapping[str, Script[Received, Item]] = field(default_factory=dict[str, "Script[Received, Item]"])
    embed: Callable[[str], Sequence[float]] | None = None
    moderate: Callable[[str], Mapping[str, float]] | None = None
    models: Sequence[str] = ()
    key: str | None = None

    def answer(self, request: Received) -> tuple[Encoded, Wire]:
        """Return the answer to a request, and how it is sent."""
        endpoint = next((end for end in _ENDPOINTS if request.path.rstrip("/").endswith(end)), None)
        problem = self._problem(request, endpoint)
        if problem is not None or endpoint is None:
            return encoded(problem or Reply(status=404), _PLAIN), _PLAIN
        item = self._item(request, endpoint)
        wire = item.wire if isinstance(item, Sent) else _PLAIN
        said = item.item if isinstance(item, Sent) else item
        if said is None:
            made: Reply | Iterable[Values] = self._usual(request, endpoint)
        elif isinstance(said, Reply):
            made = said
        else:
            scripted = turn(said)
            wire = replace(wire, cut_at=0) if scripted.plain_error is not None else wire
            made = problem_with_chat(request) or self._said(scripted, request, wire)
        return encoded(made, wire), wire

    def _problem(self, request: Received, endpoint: str | None) -> Reply | None:
        """Return the error for a request that no endpoint accepts."""
        if endpoint is None:
            return Reply(error(f"Unknown request URL: {request.method} {request.path}", code="unknown_url"), 404)
        if request.method != ("GET" if endpoint == "/models" else "POST"):
            return Reply(error(f"Not allowed to {request.method} here", code="method_not_supported"), 405)
        if self.key is not None and not request.has_key(self.key):
            return Reply(error("Incorrect API key provided", code="invalid_api_key"), 401)
        if endpoint == "/models":
            return None
        if not isinstance(request.json, dict):
            return _refused("the body is not a JSON object")
        needs_model = endpoint != "/moderations" and "/deployments/" not in request.path
        if needs_model and not isinstance(request.fields.get("model"), str):
            return _refused("you must provide a model parameter")
        return None

    def _item(self, request: Received, endpoint: str) -> Item:
        chat = endpoint == "/chat/completions"
        script = self.script if chat else self.others.get(endpoint)
        try:
            return None if script is None else script.take(request)
        except IndexError:
            return _exhausted(len(self.script)) if chat else None

    def _usual(self, request: Received, endpoint: str) -> Reply:
        if endpoint == "/embeddings":
            return answer_embeddings(request, self.embed)
        if endpoint == "/moderations":
            return answer_moderations(request, self.moderate)
        return answer_models(self.models) if endpoint == "/models" else _exhausted(len(self.script))

    def _said(self, scripted: Turn, request: Received, wire: Wire) -> Reply | Iterable[Values]:
        """Return a turn as the answer to a chat request."""
        streamed = request.streamed if wire.stream is None else wire.stream
        broken = scripted.error if scripted.error is not None or streamed else scripted.stream_error
        if broken is not None:
            return _failed(broken)
        id = f"chatcmpl-{next(self.numbers):06}"
        if streamed:
            return list(
                events(scripted, request, wire, id)
            )  # at once, so that errors in a turn are reported as errors of the script
        return Reply(completion(scripted, request, wire, id))


def _failed(given: object) -> Reply:
    what = failure(given)
    reply = failing(what.status or 500, what.message, code=what.code)
    headers = {} if what.retry_after is None else {"retry-after": format(what.retry_after, "g")}
    return replace(reply, headers=headers)


def _exhausted(length: int) -> Reply:
    text = f"the script has {length} answers, and this is one more request; repeat_last=True repeats the last"
    return Reply(error(text, code="script_exhausted"), 400)
