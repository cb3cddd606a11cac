"""Requests to providers: keys, headers, limits of time and size, retries, weights, fallbacks, circuits."""

import gzip
import logging
from contextlib import asynccontextmanager

import anyio
import pytest

from penstock.processors.recovery.pacing import Backoff, CircuitBreaker
from penstock.testing.provider import FakeProvider, Reply, Sent, Wire, rate_limited
from penstock.workflows.gateway.http import HttpRequest, UpstreamError
from penstock.workflows.gateway.secret import Secret
from penstock.workflows.gateway.upstreams.client import Client
from penstock.workflows.gateway.upstreams.pool import Choice, Pool, Trip
from penstock.workflows.gateway.upstreams.provider import Timeouts, UpstreamProvider

BODY = b'{"model": "fake-1", "messages": [{"role": "user", "content": "Hello"}]}'
KEY = "sk-planted-0123456789"


def request(*headers, body=BODY):
    """A chat completion that a client asks for."""
    given = (("content-type", "application/json"), *headers)
    return HttpRequest("POST", "/v1/chat/completions", given, body)


@asynccontextmanager
async def opened():
    """A client while it is open."""
    client = Client()
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def read(provider, sent=None, **options):
    """Status and body of the answer of one provider."""
    async with opened() as client, Pool(client, [Choice(provider)], **options).send(sent or request(), Trip()) as reply:
        return reply.status, b"".join([piece async for piece in reply.pieces()])


QUICK = Backoff(first=0, most=0)


@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        ("https://api.openai.com/v1", "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://a.example/anthropic/", "/v1/messages", "https://a.example/anthropic/v1/messages"),
        ("https://g.example/v1beta/openai", "/v1/embeddings", "https://g.example/v1beta/openai/embeddings"),
        ("https://z.example/v1?api-version=3", "/v1/models", "https://z.example/v1/models?api-version=3"),
    ],
)
def test_the_address_of_an_endpoint_is_made_of_the_base_url(url, path, expected) -> None:
    """As the clients of the provider make it."""
    assert UpstreamProvider("p", url).url_of(path, "") == expected


async def test_the_key_of_the_gateway_replaces_that_of_the_client() -> None:
    """And what tells who the client is stays here."""
    mine = (("authorization", "Bearer theirs"), ("cookie", "a=b"), ("x-forwarded-for", "10.0.0.1"), ("x-custom", "1"))
    with FakeProvider(["Hi"], key=KEY) as server:
        status, _ = await read(UpstreamProvider("p", server.url, key=Secret(KEY)), request(*mine))
        seen = server.requests[0].headers

    assert status == 200
    assert seen["x-custom"] == "1"
    assert not {"cookie", "x-forwarded-for"} & seen.keys()
    assert "theirs" not in str(seen)


async def test_a_client_s_key_goes_only_to_a_provider_that_takes_it(raw_server, read_request) -> None:
    """A fallback at another address must not get it."""
    heads = []

    async def serve(reader, writer):
        heads.append((await read_request(reader))[0])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        writer.close()

    theirs = request(("authorization", f"Bearer {KEY}"))
    async with raw_server(serve) as url:
        await read(UpstreamProvider("own", url), theirs)
        await read(UpstreamProvider("theirs", url, passes_keys=True), theirs)

    assert [KEY in head for head in heads] == [False, True]


async def test_a_redirect_is_not_followed(raw_server, read_request) -> None:
    """It would carry the key away."""
    asked = []

    async def serve(reader, writer):
        asked.append(await read_request(reader))
        writer.write(b"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with raw_server(serve) as url:
        with pytest.raises(UpstreamError, match="redirect") as caught:
            await read(UpstreamProvider("p", url, key=Secret(KEY)))

    assert (caught.value.kind, caught.value.status, len(asked)) == ("malformed", 502, 1)


async def _nothing(reader, writer):
    await reader.read()
    writer.close()


async def _garbage(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"\x00\xff garbage\r\n\r\n")
    writer.close()


async def _long_header(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 100_000 + b"\r\n\r\n")
    writer.close()


async def _short(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nshort")
    writer.close()


async def _no_gzip(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain")
    writer.close()


async def _bomb(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    body = gzip.compress(b"0" * 50_000_000)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    writer.close()


async def _flood(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        while True:
            writer.write(b"data: {}\n\n" * 1000)
            await writer.drain()
    except ConnectionError:
        writer.close()


async def _stall(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n")
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("serve", "kind"),
    [
        (_nothing, "timeout"),
        (_garbage, "malformed"),
        (_long_header, "malformed"),
        (_short, "broken"),
        (_no_gzip, "broken"),
        (_bomb, "too_large"),
        (_flood, "too_large"),
        (_stall, "timeout"),
    ],
)
async def test_a_provider_that_misbehaves_ends_in_an_error_of_its_kind(raw_server, serve, kind) -> None:
    """The error names neither key nor text, and holds no other error that might."""
    waits = Timeouts(first=0.3, idle=0.3)
    async with raw_server(serve) as url:
        provider = UpstreamProvider("odd", url, key=Secret(KEY), timeouts=waits, most_bytes=1_000_000)
        with pytest.raises(UpstreamError) as caught:
            await read(provider, attempts=1)

    assert caught.value.kind == kind
    assert KEY not in f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r} {provider!r}"


async def test_a_body_that_is_left_ends_the_connection(raw_server) -> None:
    """The provider must not write an answer that nobody reads."""
    gone = anyio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(BODY))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n")
        assert await reader.read() == b""
        gone.set()
        writer.close()

    async with raw_server(serve) as url, opened() as client:
        async with Pool(client, [Choice(UpstreamProvider("p", url))]).send(request(), Trip()) as reply:
            async for _ in reply.pieces():
                break
        with anyio.fail_after(60):
            await gone.wait()


async def test_connections_are_used_again() -> None:
    """A whole body gives its connection back."""
    with FakeProvider(["One", "Two"]) as server:
        async with opened() as client:
            pool = Pool(client, [Choice(UpstreamProvider("p", server.url))])
            for _ in range(2):
                async with pool.send(request(), Trip()) as reply:
                    assert [piece async for piece in reply.pieces()]
        assert server.connections == 1


async def test_a_failure_that_passes_is_tried_again() -> None:
    """And the record tells so."""
    trip = Trip()
    with FakeProvider([Reply("busy", 503), Sent("Hi", Wire(cut_at=1)), "Hello"]) as server:
        async with opened() as client:
            pool = Pool(client, [Choice(UpstreamProvider("p", server.url))], backoff=QUICK)
            async with pool.send(request(), trip) as reply:
                body = b"".join([piece async for piece in reply.pieces()])

    assert b"Hello" in body
    assert (trip.attempts, trip.failures) == (3, ["overloaded", "broken"])


async def test_a_refusal_is_handed_on() -> None:
    """The same request would be refused again."""
    with FakeProvider([Reply({"error": "no"}, 400)]) as server:
        assert (await read(UpstreamProvider("p", server.url)))[0] == 400
        assert len(server.requests) == 1


async def test_the_last_failure_of_a_provider_reaches_the_client() -> None:
    """With its own status and body."""
    with FakeProvider([rate_limited(0)], repeat_last=True) as server:
        status, _ = await read(UpstreamProvider("p", server.url), attempts=2, backoff=QUICK)
        assert (status, len(server.requests)) == (429, 2)


async def test_a_long_wait_is_the_client_s() -> None:
    """The gateway hands the answer on, with its retry-after."""
    with FakeProvider([rate_limited(3600)], repeat_last=True) as server:
        assert (await read(UpstreamProvider("p", server.url)))[0] == 429
        assert len(server.requests) == 1


async def test_another_provider_takes_over_at_once() -> None:
    """First the other choice, then the fallback; none of them after a wait."""
    with FakeProvider([Reply("", 500)], repeat_last=True) as broken, FakeProvider(["Hi"]) as good:
        async with opened() as client:
            choices = [Choice(UpstreamProvider("a", broken.url)), Choice(UpstreamProvider("b", "http://127.0.0.1:9"))]
            trip = Trip()
            pool = Pool(client, choices, [UpstreamProvider("c", good.url)], backoff=Backoff(first=1e6, most=1e6))
            with anyio.fail_after(60):
                async with pool.send(request(), trip) as reply:
                    assert reply.status == 200

    assert (trip.provider, sorted(trip.failures)) == ("c", ["connect", "server"])


async def test_weights_share_the_requests() -> None:
    """Three to one, drawn by the random numbers."""
    drawn = iter([0.1, 0.5, 0.74, 0.76])
    with FakeProvider(["Hi"], repeat_last=True) as server:
        async with opened() as client:
            choices = [Choice(UpstreamProvider("a", server.url), 3), Choice(UpstreamProvider("b", server.url), 1)]
            pool = Pool(client, choices, random=lambda: next(drawn))
            names = []
            for _ in range(4):
                trip = Trip()
                async with pool.send(request(), trip):
                    names.append(trip.provider)

    assert names == ["a", "a", "a", "b"]


class _Clock:
    """A clock that a test moves."""

    def __init__(self):
        from datetime import UTC, datetime

        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time

    def move(self, seconds):
        from datetime import timedelta

        self.time += timedelta(seconds=seconds)


async def test_an_open_circuit_spares_the_provider_until_its_pause_is_over() -> None:
    """Then one request tries it."""
    clock = _Clock()
    breaker = CircuitBreaker(failures=2, pause=30, clock=clock)
    with FakeProvider([Reply("", 500), Reply("", 500), "Hi"]) as server:
        async with opened() as client:
            choices = [Choice(UpstreamProvider("a", server.url))]
            pool = Pool(client, choices, attempts=5, backoff=QUICK, breaker=breaker, clock=clock)
            async with pool.send(request(), Trip()) as reply:
                assert reply.status == 500
            with pytest.raises(UpstreamError) as caught:
                async with pool.send(request(), Trip()):
                    pass
            asked = len(server.requests)
            clock.move(31)
            async with pool.send(request(), Trip()) as reply:
                assert reply.status == 200

    assert (asked, caught.value.kind, caught.value.status, caught.value.retry_after) == (2, "circuit_open", 503, 30)
    assert not breaker.is_open("a")


async def test_no_log_holds_a_key(caplog) -> None:
    """Not even those of the client library."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(UpstreamError):
        await read(UpstreamProvider("p", "http://127.0.0.1:9", key=Secret(KEY)), attempts=1)

    assert KEY not in caplog.text
