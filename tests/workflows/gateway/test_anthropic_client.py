"""Anthropic's own client, in an environment of its own, in front of a gateway in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import venv
from typing import TYPE_CHECKING, Any

import pytest

from tests.workflows.gateway.samples_messages import answer
from tests.workflows.gateway.test_clients import gateway
from tests.workflows.gateway.test_messages import call, end, start, text, thought

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.rest

VERSION = "2.14.0"

CLIENT = """
import json, sys
import anthropic

told = {}
with anthropic.Anthropic(base_url=sys.argv[1], api_key="k", max_retries=0) as client:
    ask = dict(model="claude-opus-4-8", max_tokens=9, messages=[{"role": "user", "content": "I am bob@example.com"}])
    with client.messages.stream(**ask) as stream:
        told["stream"] = stream.get_final_message().model_dump(mode="json")
    told["whole"] = client.messages.create(**ask).model_dump(mode="json")
    told["beta"] = client.beta.messages.create(**ask).model_dump(mode="json")
    told["tokens"] = client.messages.count_tokens(model=ask["model"], messages=ask["messages"]).input_tokens
    try:
        client.messages.create(**ask, tools=[{"type": "web_search_20250305", "name": "web_search"}])
    except anthropic.BadRequestError as error:
        told["error"] = error.body
    refused = dict(ask, messages=[{"role": "user", "content": "refuse, please"}])
    with client.messages.stream(**refused) as stream:
        told["refused"] = stream.get_final_message().model_dump(mode="json")
print(json.dumps(told))
"""

STREAM = [
    start(),
    *thought(0, "It is ann@example.com."),
    *thought(1, "It is Tuesday."),
    *text(2, "Write to ann@exam", "ple.com, please."),
    *call(3, '{"city": "Par', 'is"}', name="weather"),
    *end("tool_use"),
]


async def run(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, errors = await process.communicate()
    if process.returncode:
        raise OSError(errors.decode()[-500:])
    return out


async def installed(folder: Path) -> str:
    """A Python that has the client; without a registry the test is skipped."""
    await asyncio.to_thread(venv.create, folder, with_pip=True)
    python = str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    try:
        await run(python, "-m", "pip", "install", "-q", f"anthropic=={VERSION}")
    except OSError as error:
        pytest.skip(f"NOT TESTED: anthropic {VERSION} cannot be installed here: {error}")
    return python


class Provider:
    """Speaks Anthropic's messages; keeps the bodies that it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lengths = [line.partition(":")[2] for line in head.split("\r\n") if line.lower().startswith("content-length")]
        body = json.loads(await reader.readexactly(int(lengths[0])))
        path = head.split(" ")[1]
        self.got.append((path, body))
        kind, pieces = self._answer(path, body)
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        writer.close()

    @staticmethod
    def _answer(path: str, body: Any) -> tuple[str, Sequence[bytes]]:
        if path.startswith("/v1/messages/count_tokens"):
            return "application/json", [b'{"input_tokens": 12}']
        if not body.get("stream"):
            return "application/json", [json.dumps(answer()).encode()]
        if "refuse" in body["messages"][0]["content"]:
            return "text/event-stream", [*STREAM[:-2], *call(4, '{"command": "mail ann@example.com"}'), *STREAM[-2:]]
        return "text/event-stream", STREAM


async def test_anthropic_s_client_reads_what_leaves(tmp_path):
    python = await installed(tmp_path / "client")
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with gateway(url) as base:
            told = json.loads(await run(python, "-c", CLIENT, base.removesuffix("/v1")))
    streamed = told["stream"]["content"]
    assert [one.get("thinking") for one in streamed[:2]] == ["It is [EMAIL].", "It is Tuesday."]
    assert [one.get("signature") for one in streamed[:2]] == ["penstock-edited", "c2lnbmVk"]
    assert streamed[2]["text"] == "Write to [EMAIL], please."
    assert (streamed[3]["name"], streamed[3]["input"]) == ("weather", {"city": "Paris"})
    assert told["stream"]["usage"]["output_tokens"] == 12
    assert [one["type"] for one in told["beta"]["content"]] == [one["type"] for one in answer()["content"]]
    assert told["whole"]["content"][2]["text"] == "Good day"
    assert told["tokens"] == 12
    assert told["error"]["error"]["type"] == "invalid_request_error"
    assert (told["refused"]["stop_reason"], told["refused"]["content"][-1]["text"]) == (
        "refusal",
        "I can't help with that request.",
    )
    assert all("bob@" not in json.dumps(body) for _, body in provider.got)
    assert [path.partition("?")[0] for path, _ in provider.got] == [
        *["/v1/messages"] * 3,
        "/v1/messages/count_tokens",
        "/v1/messages",
    ]
