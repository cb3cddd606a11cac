"""A request leaves nothing that only Python's garbage collector finds, since a server would pay for it in pauses."""

import asyncio
import gc
import json
import signal

from penstock import RegexFilterProcessor
from penstock.testing.provider import FakeProvider
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.serving.gateway import Gateway
from penstock.workflows.gateway.serving.server import DrainingServer, serve
from tests.garbage import garbage_of
from tests.workflows.gateway.exchanges import Scripted, event, run_exchange

POLICY = "penstock: 1\nsteps: [{use: regex-filter, with: {rules: [{name: word, pattern: forbidden}]}}]\n"
PATH = "/v1/chat/completions"
BODY = {"model": "fake-1", "messages": [{"role": "user", "content": "Hello"}]}
FRAME = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake-1"}


def delta(text, reason=None):
    """An event of a stream."""
    return event({**FRAME, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]})


async def test_a_stream_through_the_guards_leaves_no_garbage() -> None:
    """Its blocks know the events that they stand in, and these their blocks, until it ends."""
    sends = [*map(delta, ["a", " b", " c", " d"]), delta("", "stop"), b"data: [DONE]\n\n"]

    async def request():
        got = await run_exchange(
            ENDPOINTS[PATH], {**BODY, "stream": True}, Scripted(sends), RegexFilterProcessor(banned_words=["secret"])
        )
        assert b"".join(piece for piece, _ in got.pieces) == b"".join(sends)

    assert await garbage_of(request) == 0


async def test_a_request_leaves_no_garbage(tmp_path) -> None:
    """Also where a task waits for the client to leave."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    raw = json.dumps(BODY).encode()

    async def request():
        got, sent = [{"type": "http.request", "body": raw, "more_body": False}], []

        async def receive():
            if not got:
                await asyncio.get_running_loop().create_future()
            return got.pop()

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": []}
        await gateway(scope, receive, send)
        await asyncio.sleep(0)  # the task that waits is cancelled
        assert sent[0]["status"] == 200

    with FakeProvider(["Hello"], repeat_last=True) as provider:
        text = f"gateway: 1\npolicy: guard.yaml\nlog: {{format: none}}\nupstreams: {{up: {{url: '{provider.url}'}}}}\n"
        (tmp_path / "gateway.yaml").write_text(text)
        gateway = Gateway(lambda: read_gateway(tmp_path / "gateway.yaml"))
        async with gateway.running():
            assert await garbage_of(request) == 0


def test_the_collector_does_not_search_what_is_there_at_the_start(tmp_path, monkeypatch) -> None:
    """`penstock serve` leaves it out, since it stays; before anybody knows the address."""
    did = []
    monkeypatch.setattr(gc, "freeze", lambda: did.append("frozen"))
    monkeypatch.setattr(DrainingServer, "run", lambda _, sockets: did.append("served"))
    (tmp_path / "guard.yaml").write_text(POLICY)
    (tmp_path / "gateway.yaml").write_text("gateway: 1\nchecks: guard.yaml\nlisten: {port: 0}\n")
    before = signal.getsignal(signal.SIGHUP)
    try:
        serve(Gateway(lambda: read_gateway(tmp_path / "gateway.yaml")), lambda _: did.append("said"))
    finally:
        signal.signal(signal.SIGHUP, before)

    assert did == ["frozen", "said", "served"]
