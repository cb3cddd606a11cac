"""Random requests and answers of each protocol, with a secret in any text of them, cut anywhere.

They are made of the types of the official clients, not of the gateway's own tables: a field that the tables forget is
found here. `python -m tests.workflows.gateway.random_exchanges 10000 SEED [NAME…]` tries so many of each protocol.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import sys
import time
import types
from collections import Counter
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel
from typing_extensions import is_typeddict

from penstock import PIIDetector
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from tests.workflows.gateway.exchanges import Got, Scripted, cut, event, run_exchange
from tests.workflows.gateway.planting import SECRET, at, holds_secret, places, with_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

REDACTING = PIIDetector(strategy="redact")
WORDS = ("Good", "day", "café", "你好", "order", "7", 'a "quote"', "back\\slash", "{json:", "\n", "https://a.example/x")
DEEPEST = 9
FEW, MANY = 0.08, 0.5  # how often a field that may be missing is there


class Text(str):
    """A text that a type leaves to its writer: the places of a secret."""

    __slots__ = ()


# Values of types


def value_of(kind: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return a random value of a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        return value_of(inner[0], chance, depth)
    if origin in (Union, types.UnionType):
        return value_of(chance.choice(inner), chance, depth)
    if origin is Literal:
        return chance.choice(inner)
    fields = _fields(kind)
    if fields is not None:
        return _object(fields, chance, depth)
    if origin is dict:
        return {"key": value_of(inner[1], chance, depth + 1)}
    if inner:  # some kind of list
        return [value_of(inner[0], chance, depth + 1) for _ in range(chance.randint(depth < DEEPEST, 2))]
    return _plain(kind, chance)


def _plain(kind: Any, chance: random.Random) -> Any:
    if isinstance(kind, str) or kind is type(None):  # a type that names itself
        return None
    if kind in (int, float, bool):
        return {int: chance.randint(0, 3), float: 0.5, bool: chance.random() < 0.5}[kind]
    if kind in (object, Any):
        return chance.choice([{"a": Text("word")}, [Text("word")], Text("word"), 1])
    return Text(" ".join(chance.choices(WORDS, k=chance.randint(1, 3))))


def _fields(kind: Any) -> dict[str, tuple[Any, bool]] | None:
    """Return the fields of a type of objects, each with whether it must be there; None if it is another type."""
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        return {one.alias or name: (one.annotation, one.is_required()) for name, one in kind.model_fields.items()}
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        return {name: (one, name in kind.__required_keys__) for name, one in hints.items()}
    return None


def _object(fields: dict[str, tuple[Any, bool]], chance: random.Random, depth: int) -> dict[str, Any]:
    often = chance.choice([0.0, FEW, MANY if depth else FEW]) if depth < DEEPEST else 0.0
    return {
        name: value_of(kind, chance, depth + 1)
        for name, (kind, required) in fields.items()
        if required or chance.random() < often
    }


def fit(value: Any) -> Any:
    """Return a value without the fields that a type allows to be null and a provider leaves out."""
    if isinstance(value, dict):
        return {key: fit(one) for key, one in value.items() if one is not None}
    return [fit(one) for one in value] if isinstance(value, list) else value


def apart(value: Any) -> Any:
    """Return a value whose texts begin with a space: of ``….comhttps`` no guard knows where the address ends."""
    if isinstance(value, dict):
        return {key: apart(one) for key, one in value.items()}
    if isinstance(value, list):
        return [apart(one) for one in value]
    return Text(f" {value}") if isinstance(value, Text) else value


# Where the secret is


def texts_in(value: Any) -> list[tuple[str | int, ...]]:
    """Return the places of the texts that a type leaves to its writer."""
    return [path for path in places(value) if isinstance(at(value, path), Text)]


def hidden(text: str, chance: random.Random, *, more: bool) -> str:
    """Return a text with the secret in it: alone, within other words, or within a JSON text.

    Args:
        text: the words.
        chance: chooses.
        more: whether words may follow without a space.
    """
    how = chance.randrange(4)
    if how == 0:
        return f"{SECRET} " if more else SECRET
    if how == 1:
        return json.dumps({"to": [SECRET], "note": text})
    return f"{text} {SECRET} {text}" if how == 2 else f"{text}\n<{SECRET}>"


def planted(value: Any, chance: random.Random, *, more: bool = False) -> tuple[Any, tuple[str | int, ...] | None]:
    """Return a value with the secret in one of its texts, or in a field more, and the place; none if it has no text."""
    if isinstance(value, dict) and chance.random() < 0.1:
        path = chance.choice([path for path in places(value) if isinstance(at(value, path), dict)])
        extra: dict[str, Any] = chance.choice([{SECRET: 1}, {"surprise": SECRET}, {"surprise": [{"a": SECRET}]}])
        return with_value(value, path, {**at(value, path), **extra}), path
    found = texts_in(value)
    if not found:
        return value, None
    path = chance.choice(found)
    return with_value(value, path, hidden(at(value, path), chance, more=more)), path


def written(value: Any, chance: random.Random) -> bytes:
    """Return a value as JSON, now and then with the secret's letters as escapes."""
    text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.2:
        text = text.replace(SECRET, "".join(f"\\u{ord(one):04x}" if chance.random() < 0.5 else one for one in SECRET))
    return text.encode("utf-8", "surrogatepass")


# The protocols


@dataclass(frozen=True)
class Protocol:
    """A protocol: the types of its requests, answers and events, and a stream as a provider would send it."""

    path: str
    request: Any
    answer: Any
    event: Any = None
    base: Callable[[], dict[str, Any]] = dict
    said: Callable[[Sequence[str]], list[Any]] | None = None
    end: bytes = b""
    kinds: bool = False  # whether an event's type stands in front of it, too


def _chat(pieces: Sequence[str]) -> list[Any]:
    def chunk(delta: Any, end: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": one}) for one in pieces),
        chunk({}, "stop"),
    ]


def _completions(pieces: Sequence[str]) -> list[Any]:
    def chunk(text: str, end: str | None = None) -> Any:
        choice = {"index": 0, "text": text, "finish_reason": end, "logprobs": None}
        return {"id": "x", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}

    return [*(chunk(one) for one in pieces), chunk("", "stop")]


def _messages(pieces: Sequence[str]) -> list[Any]:
    usage = {"input_tokens": 3, "output_tokens": 1}
    begun = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    made: list[Any] = [{"type": "message_start", "message": {**begun, "stop_reason": None, "stop_sequence": None}}]
    made.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    deltas = ({"type": "text_delta", "text": one} for one in pieces)
    made.extend({"type": "content_block_delta", "index": 0, "delta": one} for one in deltas)
    made.append({"type": "content_block_stop", "index": 0})
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return [*made, {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]


def _responses(pieces: Sequence[str]) -> list[Any]:
    from tests.workflows.gateway.responses_stream import message, response, stream_of

    whole = response([message("".join(pieces))])
    return [data for _, data in stream_of(whole, lambda _: list(pieces))]


def _ask(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"model": "m", **more}


def protocols() -> dict[str, Protocol]:
    """Return the protocols by name; those of a client that is not installed are left out."""
    from openai.types import Completion, CreateEmbeddingResponse, completion_create_params, embedding_create_params
    from openai.types.chat import ChatCompletion, ChatCompletionChunk, completion_create_params as chat
    from openai.types.responses import Response, ResponseStreamEvent, response_create_params

    said = [{"role": "user", "content": "Hi"}]
    done = b"data: [DONE]\n\n"
    found = {
        "chat": Protocol(
            "/v1/chat/completions", chat.CompletionCreateParamsBase, ChatCompletion, ChatCompletionChunk,
            _ask(messages=said), _chat, done,
        ),
        "responses": Protocol(
            "/v1/responses", response_create_params.ResponseCreateParamsBase, Response, ResponseStreamEvent,
            _ask(input="Hi"), _responses, b"", kinds=True,
        ),
        "completions": Protocol(
            "/v1/completions", completion_create_params.CompletionCreateParamsBase, Completion, Completion,
            _ask(prompt="Hi"), _completions, done,
        ),
        "embeddings": Protocol(
            "/v1/embeddings", embedding_create_params.EmbeddingCreateParams, CreateEmbeddingResponse,
            base=_ask(input="Hi"),
        ),
    }  # fmt: skip
    try:
        from anthropic.types import (
            Message,
            MessageCountTokensParams,
            MessageTokensCount,
            RawMessageStreamEvent,
            message_create_params,
        )
    except ImportError:
        return found
    asked = _ask(messages=said, max_tokens=9)
    found["messages"] = Protocol(
        "/v1/messages", message_create_params.MessageCreateParamsBase, Message, RawMessageStreamEvent,
        asked, _messages, b"", kinds=True,
    )  # fmt: skip
    found["count_tokens"] = Protocol(
        "/v1/messages/count_tokens", MessageCountTokensParams, MessageTokensCount, base=_ask(messages=said)
    )
    return found


# One exchange


@dataclass
class Tried:
    """What came of the exchanges of a protocol: how they ended, and each that is at fault."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def note(self, seed: str, what: str, got: Got, fault: str) -> None:
        """Count an exchange."""
        self.ends[f"{what}: {got.ended.error or ('blocked' if got.ended.verdict else got.status)}"] += 1
        if not fault and (got.status in (500, 503, 504) or got.ended.error == "guard_failed"):
            fault = f"failed with {got.status}, {got.ended.error}: {got.ended.cause!r} {got.ended.reason}"
        if not fault and any(SECRET in one for one in (*got.headers.values(), repr(got.ended), str(got.ended.unknown))):
            fault = "the secret is in a header or in the record"
        if fault:
            self.faults.append(f"{seed} {what}: {fault}")


async def of_request(protocol: Protocol, chance: random.Random, seed: str, tried: Tried) -> None:
    """Send a random request with the secret to a provider that must not get it."""
    body: Any = fit({**value_of(protocol.request, chance), **_some(protocol.base(), chance)})
    streamed = protocol.event is not None and chance.random() < 0.5
    body |= {"stream": True} if streamed else {}
    body, path = planted(body, chance)
    upstream = _provider(protocol, list(_stream(protocol, ["Good ", "day"], chance)), streamed=streamed)
    strict = chance.random() < 0.5
    got = await run_exchange(ENDPOINTS[protocol.path], written(body, chance), upstream, REDACTING, strict=strict)
    passed = path is not None and any(holds_secret(asked.body) for asked in upstream.asked)
    back = path is not None and holds_secret(got.body) and not upstream.asked
    tried.note(seed, "request", got, f"{path} passed" if passed else f"{path} came back" if back else "")


def _some(base: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return the fields that a request needs, as plain ones or, more often, as random ones."""
    return base if chance.random() < 0.3 else {"model": base["model"]}


async def of_answer(protocol: Protocol, chance: random.Random, seed: str, tried: Tried) -> None:
    """Let a provider send a random answer with the secret to a client that must not get it."""
    body, path = planted(fit(value_of(protocol.answer, chance)), chance)
    upstream = Scripted(_cut(written(body, chance), chance), "application/json")
    strict = chance.random() < 0.5
    got = await run_exchange(ENDPOINTS[protocol.path], protocol.base(), upstream, REDACTING, strict=strict)
    tried.note(seed, "answer", got, f"{path} passed" if path is not None and holds_secret(got.body) else "")


async def of_stream(protocol: Protocol, chance: random.Random, seed: str, tried: Tried) -> None:
    """Let a provider send a stream whose text spells the secret, with random events in between, cut anywhere."""
    text = hidden(" ".join(chance.choices(WORDS, k=3)), chance, more=True)
    ends = sorted({chance.randint(1, len(text)) for _ in range(chance.choice([1, 4, len(text)]))} | {len(text)})
    said = protocol.said if protocol.said is not None and chance.random() < 0.8 else lambda _: []
    data: list[Any] = said([text[start:end] for start, end in zip([0, *ends], ends, strict=False)])
    found: list[Any] = []
    for _ in range(chance.choice([0, 0, 1, 2]) if data else chance.randint(1, 9)):
        one, path = planted(apart(fit(value_of(protocol.event, chance))), chance, more=True)
        data.insert(chance.randint(0, len(data)), one)
        found.append((one.get("type"), path))
    frames = b"".join(_framed(protocol, one, chance) for one in data) + protocol.end
    upstream = Scripted(_cut(frames, chance), "text/event-stream")
    body = {**protocol.base(), "stream": True}
    strict = chance.random() < 0.5
    got = await run_exchange(
        ENDPOINTS[protocol.path], body, upstream, REDACTING, strict=strict, direct=chance.random() < 0.5
    )
    fault = f"text or {found} passed" if holds_secret(got.body) or _is_spelled(got.events) else ""
    tried.note(seed, "stream", got, fault)


def _is_spelled(events: Iterable[Any]) -> bool:
    """Return whether texts at the same place of events spell the secret together, as a client puts them together."""
    texts: dict[Any, str] = {}
    for one in events:
        choices = one.get("choices")
        parts = [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else [one]
        for part in parts:
            where = tuple(part.get(key) for key in _WHERE)
            for path in places(part):
                said = at(part, path)
                if isinstance(said, str):
                    texts[where, path] = texts.get((where, path), "") + said
    return any(SECRET in text for text in texts.values())


_WHERE = ("index", "output_index", "content_index", "summary_index")


def _stream(protocol: Protocol, pieces: Sequence[str], chance: random.Random) -> Iterable[bytes]:
    if protocol.said is not None:
        yield from (_framed(protocol, one, chance) for one in protocol.said(pieces))
        yield protocol.end


def _framed(protocol: Protocol, data: Any, chance: random.Random) -> bytes:
    text = written(data, chance)
    head = f"event: {data.get('type')}\n".encode() if protocol.kinds else b""
    return head + b"data: " + text + b"\n\n" if text.isascii() else event(data, data.get("type", ""))


def _provider(protocol: Protocol, sent: list[bytes], *, streamed: bool) -> Scripted:
    if streamed:
        return Scripted(sent, "text/event-stream")
    chance = random.Random(1)  # noqa: S311
    return Scripted([json.dumps(fit(value_of(protocol.answer, chance))).encode()], "application/json")


def _cut(raw: bytes, chance: random.Random) -> list[bytes]:
    return cut(raw, [chance.randint(1, len(raw)) for _ in range(chance.choice([0, 1, 9, 60]))])


# Many


async def tried(name: str, count: int, seed: int) -> Tried:
    """Try so many exchanges of a protocol, a third of each kind."""
    protocol = protocols()[name]
    kinds = [of_request, of_answer, *([of_stream] if protocol.said is not None else [])]
    made = Tried()
    for number in range(count):
        own = f"{name} {seed} {number}"
        await kinds[number % len(kinds)](protocol, random.Random(own), own, made)  # noqa: S311
    return made


def main(arguments: Sequence[str]) -> int:
    """Try so many of each protocol, and show how they ended and what is at fault."""
    count, seed, *names = arguments
    wrong = 0
    for name in names or sorted(protocols()):
        began = time.process_time()
        made = asyncio.run(tried(name, int(count), int(seed)))
        took = f"{time.process_time() - began:.0f} s of CPU"
        told = [f"{name}: {count} in {took}; {dict(sorted(made.ends.items()))}", *made.faults[:20]]
        sys.stdout.write("\n".join([*told, f"{len(made.faults)} at fault", ""]))
        sys.stdout.flush()
        wrong += len(made.faults)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
