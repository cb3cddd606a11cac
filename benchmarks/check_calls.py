"""What a check over HTTP costs beside the same guards called directly: ``python benchmarks/check_calls.py``.

One client asks a server in a process of its own, one request after another, on one connection. Interleaved with the
requests, the guards are called in this process, and a bare endpoint of the same server reads and writes the same JSON.
Each text is a new one, since guards know texts that they have read.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from penstock.engine.values.messages import Message
from penstock.workflows.presets import hygiene

SERVER = """
import asyncio, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from penstock.workflows.gateway.checks import check_routes
from penstock.workflows.presets import hygiene

guards = hygiene()

async def bare(request):
    return JSONResponse(await request.json())

app = Starlette(routes=[Route("/bare", bare, methods=["POST"]), *check_routes(lambda: guards)])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run([listener])
"""
WORDS = (
    "order",
    "last",
    "week",
    "was late and",
    "we",
    "would like to know",
    "when it",
    "comes",
    "to our office",
    "today",
)
_WARM_UP = 20  # rounds that compile and load
LITELLM = "/beta/litellm_basic_guardrail_api"

Ask = Callable[[str, object], Awaitable[Any]]


def text(length: int) -> str:
    """Return a text that no guard has read, with one address to hide."""
    words = [random.choice(WORDS) for _ in range(length // 5)]  # noqa: S311 - no secret
    return f"{' '.join(words)[:length]} {random.random()} ann@example.com."  # noqa: S311


class Case:
    """A kind of request, and the direct call of the same guards."""

    def __init__(
        self, name: str, path: str, body: Callable[[], Any], direct: Callable[[Any], Awaitable[object]]
    ) -> None:
        self.name, self.path, self.body, self.direct = name, path, body, direct
        self.times: dict[str, list[float]] = {"direct": [], "bare": [], "check": []}

    async def round(self, ask: Ask) -> None:
        """Time each of the three once."""
        for name, call in (
            ("direct", self.direct),
            ("bare", lambda body: ask("/bare", body)),
            ("check", lambda body: ask(self.path, body)),
        ):
            body = self.body()
            begun = time.perf_counter()
            await call(body)
            self.times[name].append((time.perf_counter() - begun) * 1e6)

    def shown(self) -> str:
        """Return a row of the table, medians in microseconds."""
        direct, bare, check = (sorted(times)[len(times) // 2] for times in self.times.values())
        return f"{self.name:34}{direct:9.0f}{bare:9.0f}{check:9.0f}{check / direct:9.2f}{check - direct - bare:9.0f}"


def cases() -> list[Case]:
    """Return the kinds of requests."""
    guards = hygiene()

    async def inputs(body: Any) -> object:
        return await guards.check(body.get("messages") or body.get("text") or body["texts"][0], records=False)

    async def answer(body: Any) -> object:
        run = guards.start()
        async with run:
            async with run.process_output_stream([body.get("text") or body["texts"][0]], last=False) as chunks:
                async for _ in chunks:
                    pass
                message = chunks.message
            await run.process_output_step(Message("assistant", message.parts))
            return await run.process_output_result()

    def turns() -> list[dict[str, str]]:
        return [{"role": ("user", "assistant")[number % 2], "content": text(200)} for number in range(10)]

    return [
        Case("/v1/check, 200 characters", "/v1/check", lambda: {"text": text(200)}, inputs),
        Case("/v1/check, 4,000 characters", "/v1/check", lambda: {"text": text(4_000)}, inputs),
        Case("/v1/check, ten messages", "/v1/check", lambda: {"messages": turns()}, inputs),
        Case("/v1/check, answer", "/v1/check", lambda: {"text": text(200), "channel": "answer"}, answer),
        Case(
            "/v1/moderations, 200 characters",
            "/v1/moderations",
            lambda: {"input": text(200), "text": "x"},
            _moderated(inputs),
        ),
        Case("LiteLLM, request", LITELLM, lambda: {"input_type": "request", "texts": [text(200)]}, inputs),
        Case("LiteLLM, answer", LITELLM, lambda: {"input_type": "response", "texts": [text(200)]}, answer),
    ]


def _moderated(inputs: Callable[[Any], Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
    async def call(body: Any) -> object:
        return await inputs({"text": body["input"]})

    return call


async def measured(rounds: int, port: int) -> list[Case]:
    """Return the cases with their times."""
    made = cases()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def ask(path: str, body: object) -> Any:
            async with session.post(path, json=body) as response:
                response.raise_for_status()
                return await response.json()

        for number in range(rounds + _WARM_UP):
            for case in made:
                await case.round(ask)
                if number < _WARM_UP:
                    case.times = {name: [] for name in case.times}
    return made


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    given = parser.parse_args()
    command = [sys.executable, "-c", SERVER]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    try:
        port = server.stdout.readline() if server.stdout is not None else ""
        made = asyncio.run(measured(given.rounds, int(port)))
    finally:
        server.terminate()
        server.wait()
    print(f"{'µs, medians':34}{'direct':>9}{'bare':>9}{'check':>9}{'ratio':>9}{'added':>9}")
    for case in made:
        print(case.shown())


if __name__ == "__main__":
    main()
