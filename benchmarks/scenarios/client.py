"""An answer of 2,000 events over HTTP: read by `OpenAICompatibleModel`, by hand with httpx, and by OpenAI's SDK.

The fake provider answers on 127.0.0.1, in a process of its own, so that its time is not in the figures. By hand:
httpx's lines, the JSON of each, and the text in it. Nothing else is read, and no error is noticed.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import metadata
from itertools import cycle, islice
from pathlib import Path

import httpx
from harness import Contest, Timed, Work

from penstock import Message, OpenAICompatibleModel
from penstock.engine import ModelRequest
from penstock.testing.provider import FakeProvider, Reply

EVENTS = 2_000
WORDS = ("Water ", "comes ", "from ", "the ", "lake ", "above, ", "and ", "turns ", "the ", "wheel ", "below", ". ")
PEER = "openai"
ROOT = str(Path(__file__).parents[2])
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
SERVE = "import sys; sys.path[:0] = sys.argv[1:]; from scenarios.client import serve; serve()"


def body() -> str:
    """Return the events of an answer, with the fields that OpenAI sends."""
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": "gpt-5-2025-08-07",
        "service_tier": "default",
        "system_fingerprint": None,
    }
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": word} for word in islice(cycle(WORDS), EVENTS)]
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
    choices += [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    frames = [{**frame, "choices": [choice], "usage": None, "obfuscation": "aBcDeFg"} for choice in choices]
    usage = {"prompt_tokens": 9, "completion_tokens": EVENTS, "total_tokens": EVENTS + 9}
    frames += [{**frame, "choices": [], "usage": usage}]
    written = [json.dumps(event, separators=(",", ":")) for event in frames]
    return "".join(f"data: {data}\n\n" for data in [*written, "[DONE]"])


def serve() -> None:
    """Answer until the other side closes the input; the first line of the output is the address."""
    with FakeProvider([Reply(body())], repeat_last=True) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def address() -> str:
    """Return the address of a provider in a process of its own, which ends with this one."""
    places = [str(Path(__file__).parents[1]), ROOT]
    process = subprocess.Popen(  # noqa: S603 - the statement stands above
        [sys.executable, "-c", SERVE, *places], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)
    return process.stdout.readline().strip() if process.stdout else ""


async def contests() -> list[Contest]:
    """Return the contest."""
    url = address()
    peers = {} if version() is None else {PEER: streamed(sdk(url))}
    floor_is = "httpx's lines, the JSON of each, its text"
    name = f"an event of a streamed answer of {EVENTS:,}"
    return [Contest(name, floor_is, streamed(ours(url)), streamed(by_hand(url)), 1.6, peers, EVENTS)]


def streamed(request: Callable[[], Awaitable[str]]) -> Work:
    """Return a contestant that makes one request after another."""

    async def work(times: int) -> str:
        text = ""
        for _ in range(times):
            text = await request()
        return text

    return work


def ours(url: str) -> Callable[[], Awaitable[str]]:
    """Return a request through our client."""
    model = OpenAICompatibleModel("m", base_url=url)
    asked = ModelRequest((Message.user("Hi"),))

    async def request() -> str:
        return "".join([chunk.text async for chunk in model.stream(asked) if chunk.type == "text-delta"])

    return request


def by_hand(url: str) -> Callable[[], Awaitable[str]]:
    """Return the same request as one would write it with httpx."""
    client = httpx.AsyncClient()

    async def request() -> str:
        texts: list[str] = []
        async with client.stream("POST", f"{url}/chat/completions", json=ASKED) as answer:
            async for line in answer.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                event = json.loads(line[6:])
                texts += [choice["delta"].get("content") or "" for choice in event["choices"]]
        return "".join(texts)

    return request


def sdk(url: str) -> Callable[[], Awaitable[str]]:
    """Return the same request as OpenAI's documentation writes it."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="any")

    async def request() -> str:
        events = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        return "".join([choice.delta.content or "" async for event in events for choice in event.choices])

    return request


def version() -> str | None:
    """Return the version of the peer; None if it is not installed."""
    try:
        return metadata.version(PEER)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Client(Timed):
    """The scenario; it says which version of the peer there is."""

    @property
    def notes(self) -> list[str]:
        """What to know about the figures."""
        return [f"Client: {PEER} {version() or 'is not installed'}."]


SCENARIO = Client("client", contests)
