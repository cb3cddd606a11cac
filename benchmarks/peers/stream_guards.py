"""Guards of streams in other libraries, of those that are installed, each with the same rules.

A guard plays one stream: it gets the pieces of an answer and yields what leaves. What its framework's events need is
made before, so that only the guard itself is timed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import IO, Any, NamedTuple, cast

RULES: Mapping[str, str] = {
    "email": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}",
    "phone": r"(?<!\d)(?:\+\d{1,3}[ .-])?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\d)",
    "card": r"(?<!\d)\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}(?!\d)",
}
"""Regular expressions that Python's `re`, the library `regex` and JavaScript read alike."""

NODE_FOLDER = "BENCH_NODE"
"""The variable that names a folder in which ``npm install @mastra/core`` was run."""

MASTRA = "@mastra/core"
SCRIPT = Path(__file__).with_name("mastra_regex_filter.mjs")


class Played(NamedTuple):
    """A stream that was played.

    Attributes:
        seconds: the CPU time it took.
        left: what left, each text with the index of the last piece that had arrived by then.
    """

    seconds: float
    left: Sequence[tuple[int, str]]

    @property
    def text(self) -> str:
        """All that left."""
        return "".join(text for _, text in self.left)


Guarding = Callable[[AsyncIterator[Any]], AsyncIterator[str]]
"""Yields the texts that leave for the events that arrive."""

Opened = tuple[Sequence[Any], Guarding]
"""A stream that can be played: its events, the first of which are its pieces in order, and its guard."""

Open = Callable[[Sequence[str]], Awaitable[Opened]]
Play = Callable[[Sequence[str]], Coroutine[Any, Any, Played]]


def timed_here(opened: Open) -> Play:
    """Return what plays streams in this process."""

    async def play(pieces: Sequence[str]) -> Played:
        events, guarding = await opened(pieces)
        arrived = 0

        async def source() -> AsyncIterator[Any]:
            nonlocal arrived
            for arrived, event in enumerate(events):  # noqa: B007 - the guard is asked what it has let go by then
                yield event

        left: list[tuple[int, str]] = []
        start = process_time()
        async for text in guarding(source()):
            left.append((arrived, text))  # noqa: PERF401 - a comprehension would read `arrived` alike, and hide it
        seconds = process_time() - start
        return Played(seconds, [(min(index, len(pieces) - 1), text) for index, text in left])

    return play


def langchain() -> Open:
    """Return what `PIIMiddleware` does to an agent's stream, one for each rule, one after another.

    Its transformers are called as LangGraph calls them, without LangGraph. What they hold at the end leaves with the
    event that ends the text and carries all of it.
    """
    from langchain.agents.middleware import PIIMiddleware

    made = [PIIMiddleware(name, detector=rule, apply_to_output=True) for name, rule in RULES.items()]

    def event(payload: Mapping[str, object]) -> dict[str, Any]:
        return {"method": "messages", "params": {"data": (payload, {"run_id": "1"})}}

    async def opened(pieces: Sequence[str]) -> Opened:
        transformers = [build() for each in made for build in each.transformers]
        deltas = [{"type": "text-delta", "text": piece} for piece in pieces]
        events = [event({"event": "content-block-delta", "index": 0, "delta": delta}) for delta in deltas]
        whole = {"type": "text", "text": "".join(pieces)}
        events.append(event({"event": "content-block-finish", "index": 0, "content": whole}))

        async def guarding(source: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
            last = ""
            async for each in source:
                for transformer in transformers:
                    transformer.process(each)
                payload = each["params"]["data"][0]
                if "delta" in payload:
                    if text := payload["delta"]["text"]:
                        last = (last + text)[-40:]
                        yield text
                else:
                    yield payload["content"]["text"].rpartition(last)[2]

        return events, guarding

    return opened


def litellm() -> Open:
    """Return the hook of streams of `ContentFilterGuardrail`, as the proxy calls it."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.proxy.guardrails.guardrail_hooks.litellm_content_filter.content_filter import ContentFilterGuardrail
    from litellm.types.guardrails import ContentFilterAction, ContentFilterPattern
    from litellm.types.utils import ModelResponseStream

    mask = ContentFilterAction.MASK
    patterns = [
        ContentFilterPattern(pattern_type="regex", name=name, pattern=rule, action=mask) for name, rule in RULES.items()
    ]
    guard = ContentFilterGuardrail(guardrail_name="filter", patterns=patterns)
    key = UserAPIKeyAuth()

    async def opened(pieces: Sequence[str]) -> Opened:
        choices = [{"index": 0, "delta": {"content": piece}} for piece in pieces]
        choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        events = [ModelResponseStream(choices=[choice]) for choice in choices]

        async def guarding(source: AsyncIterator[Any]) -> AsyncIterator[str]:
            async for each in guard.async_post_call_streaming_iterator_hook(key, source, {"metadata": {}}):
                if text := each.choices[0].delta.content:
                    yield text

        return events, guarding

    return opened


def nemoguardrails(*, stream_first: bool) -> Open:
    """Return the rail `regex check output` behind the buffer of streams, with its default sizes.

    ``stream_first`` is its option of that name, on by default: what is in the buffer leaves before it is checked.
    """
    from nemoguardrails import LLMRails, RailsConfig

    config = {
        "models": [],
        "rails": {
            "output": {
                "flows": ["regex check output"],
                "streaming": {"enabled": True, "stream_first": stream_first},
            },
            "config": {"regex_detection": {"output": {"patterns": list(RULES.values())}}},
        },
    }
    rails = LLMRails(RailsConfig.from_content(config=config))

    async def opened(pieces: Sequence[str]) -> Opened:
        async def guarding(source: AsyncIterator[str]) -> AsyncIterator[str]:
            messages = [{"role": "user", "content": "Hello"}]
            async for text in rails.stream_async(messages=messages, generator=source):
                if not text.startswith('{"error"'):  # what says that the stream is blocked, in place of more text
                    yield text

        return pieces, guarding

    return opened


def mastra(strategy: str) -> Play:
    """Return the reference's `RegexFilterProcessor`, which a process of Node.js plays streams through.

    Raises:
        ImportError: there is no Node.js, or no folder with the package.
    """
    folder, node = os.environ.get(NODE_FOLDER), shutil.which("node")
    if node is None or folder is None or not (Path(folder) / "node_modules" / MASTRA).exists():
        raise ImportError(f"{NODE_FOLDER} names no folder with {MASTRA}, or there is no Node.js")
    given = json.dumps({"rules": RULES, "strategy": strategy})
    process = subprocess.Popen(  # noqa: S603 - our own script
        [node, str(SCRIPT), folder, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    writes, reads = cast("IO[str]", process.stdin), cast("IO[str]", process.stdout)

    async def play(pieces: Sequence[str]) -> Played:
        writes.write(json.dumps(pieces) + "\n")
        writes.flush()
        played = json.loads(reads.readline())
        return Played(played["seconds"], [(index, text) for index, text in played["left"]])

    return play


PEERS: Mapping[str, Callable[[], Play]] = {
    "langchain": lambda: timed_here(langchain()),
    "litellm": lambda: timed_here(litellm()),
    "nemoguardrails": lambda: timed_here(nemoguardrails(stream_first=False)),
    "nemoguardrails, stream_first": lambda: timed_here(nemoguardrails(stream_first=True)),
    f"{MASTRA}, redact": lambda: mastra("redact"),
    f"{MASTRA}, block": lambda: mastra("block"),
}
"""What builds each, by library; it raises `ImportError` where that is not installed."""
