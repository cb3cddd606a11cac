"""The gateway over real sockets: routes, keys, limits, verdicts, clients that vanish or do not read, and its edge."""

import asyncio
import contextlib
import gzip
import json
import logging
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest

from penstock.testing.provider import FakeProvider, Gate, Reply, Sent, Wire
from penstock.workflows.gateway.config.client_keys import line_of_key, new_key
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway

POLICY = """\
penstock: 1
steps:
  - {use: pii-detector, with: {strategy: redact, redaction_method: placeholder}}
  - {use: regex-filter, with: {rules: [{name: forbidden, pattern: forbidden}]}}
"""
PATH = "/v1/chat/completions"
KEY = "sk-planted-0123456789"


def asked(text="Hello", **fields):
    """The body of a chat completion."""
    return {"model": "fake-1", "messages": [{"role": "user", "content": text}], **fields}


@pytest.fixture
def gateway(tmp_path, serving):
    """Serves a gateway in front of a provider; yields its URL, the gateway, and the records of its requests."""

    @asynccontextmanager
    async def run(url, more="", upstream="", log="{format: none}", **options):
        (tmp_path / "guard.yaml").write_text(POLICY)
        text = f"gateway: 1\npolicy: guard.yaml\nlog: {log}\nupstreams: {{up: {{url: '{url}'{upstream}}}}}\n{more}"
        (tmp_path / "gateway.yaml").write_text(text)
        records = []
        made = Gateway(
            lambda: read_gateway(tmp_path / "gateway.yaml", environment={"KEY": KEY}),
            on_served=records.append,
            look_after=0.02,
            **options,
        )
        async with serving(made) as (base, server):
            made.server = server
            yield base, made, records

    return run


async def post(base, body, path=PATH, headers=None):
    """Status, headers and text of a reply."""
    async with aiohttp.ClientSession() as session, session.post(base + path, json=body, headers=headers) as reply:
        return reply.status, reply.headers, await reply.text()


async def recorded(records, count=1):
    """The records, once there are so many."""
    with anyio.fail_after(60):
        while len(records) < count:  # noqa: ASYNC110 - as below
            await anyio.sleep(0.005)
    return records


async def test_an_answer_passes_through_the_guards(gateway) -> None:
    """In both directions; the record tells what happened, and no text."""
    with FakeProvider(["Write to ann@example.com"]) as provider:
        async with gateway(provider.url) as (base, _, records):
            status, headers, text = await post(base, asked("I am bob@example.com"))
            (record,) = await recorded(records)
        sent = provider.requests[0].all_text

    assert status == 200
    assert "bob@example.com" not in sent
    assert "ann@example.com" not in text
    assert headers["x-penstock-request-id"] == record.request_id
    assert (record.outcome, record.route, record.model, record.upstream) == ("ok", "all", "fake-1", "up")
    assert (record.edited, record.attempts, record.status) == (True, 1, 200)
    assert record.bytes_out == len(text)
    assert "example.com" not in record.as_json() + record.as_text()


async def test_a_stream_passes_through_the_guards(gateway) -> None:
    """Event by event."""
    with FakeProvider([{"deltas": ["Mail ", "ann@exam", "ple.com", " now"]}]) as provider:
        async with gateway(provider.url) as (base, _, records):
            status, headers, text = await post(base, asked(stream=True))
            (record,) = await recorded(records)

    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert text.endswith("data: [DONE]\n\n")
    assert "exam" not in text
    assert (record.streamed, record.outcome) == (True, "ok")


async def test_a_verdict_is_told_without_its_reason(gateway) -> None:
    """The operator's record has it."""
    with FakeProvider(["never"]) as provider:
        async with gateway(provider.url, "routes: [{verdict: {status: 403, text: Not here.}}]\n") as (base, _, records):
            status, _, text = await post(base, asked("this is forbidden"))
            (record,) = await recorded(records)
        assert not provider.requests

    assert (status, json.loads(text)["error"]["message"]) == (403, "Not here.")
    assert (record.outcome, record.step, record.stage) == ("blocked", "regex-filter", "process_input")
    assert record.reason


async def test_a_request_that_is_refused_is_no_error_of_the_gateway(gateway) -> None:
    """Whoever watches errors does not want to be woken by it."""
    with FakeProvider() as provider:
        async with gateway(provider.url) as (base, _, records):
            status, _, _ = await post(base, asked(unknown_field="x"))
            (record,) = await recorded(records)

    assert (status, record.outcome, record.error) == (400, "refused", "unguarded_field")


# Routes and keys


async def test_routes_go_by_model(gateway, tmp_path) -> None:
    """A model without a route is told so, with the models that have one."""
    more = "routes: [{name: one, models: fake-1}, {name: rest, models: [b-*, c]}]\n"
    with FakeProvider(["a", "b"]) as provider:
        async with gateway(provider.url, more) as (base, _, records):
            await post(base, asked())
            await post(base, asked(model="b-2"))
            status, _, text = await post(base, asked(model="other"))
            routes = [one.route for one in await recorded(records, 3)]
            ambiguous = '{"model": "fake-1", "model": "c", "messages": []}'
            async with aiohttp.ClientSession() as session, session.post(base + PATH, data=ambiguous) as reply:
                assert reply.status == 400

    assert routes == ["one", "rest", ""]
    assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")
    assert "fake-1, b-*, c" in text


async def test_clients_need_a_key_of_the_gateway(gateway, tmp_path) -> None:
    """It never reaches the provider, which gets its own."""
    key = new_key()
    (tmp_path / "keys.txt").write_text(line_of_key("team-a", key) + "\n" + line_of_key("team-b", new_key()) + "\n")
    more = "keys: keys.txt\nroutes: [{keys: team-a}]\n"
    with FakeProvider(["Hi", "Hi"], key=KEY) as provider:
        async with gateway(provider.url, more, ", key_env: KEY") as (base, _, records):
            replies = [
                await post(base, asked(), headers=headers)
                for headers in (
                    {},
                    {"authorization": "Bearer wrong"},
                    {"authorization": f"Bearer {key}"},
                    {"x-api-key": key},
                )
            ]
            await recorded(records, 4)
        assert all(key not in str(one.headers) for one in provider.requests)

    assert [reply[0] for reply in replies] == [401, 401, 200, 200]
    assert json.loads(replies[0][2])["error"]["code"] == "invalid_api_key"
    assert [one.client for one in records] == ["", "", "team-a", "team-a"]
    assert not any(one in str(records) for one in (key, "wrong", KEY))


async def test_what_is_no_endpoint_is_refused(gateway) -> None:
    """No side door."""
    with FakeProvider() as provider:
        async with gateway(provider.url) as (base, _, _), aiohttp.ClientSession() as session:
            statuses = []
            for method, path in (
                ("POST", "/v1/responses/x"), ("GET", PATH), ("POST", "/v1/../v1/files"), ("GET", "/"),
                ("POST", "/v1/realtime"), ("POST", PATH + "/"), ("POST", "//v1/chat/completions"),
            ):  # fmt: skip
                async with session.request(method, base + path, json={}) as reply:
                    statuses.append(reply.status)
        assert not provider.requests

    assert statuses == [404, 405, 404, 404, 404, 404, 404]


# Limits


async def test_a_body_is_bounded_and_decompressed(gateway) -> None:
    """Too long, a bomb, an unknown compression, a wrong one."""
    whole = json.dumps(asked()).encode()
    cases = [
        (gzip.compress(whole), "gzip", 200),
        (b"x" * 2_000, "identity", 413),
        (gzip.compress(b"x" * 1_000_000), "gzip", 413),
        (whole, "br", 415),
        (whole, "gzip", 400),
        (gzip.compress(whole)[:-4], "gzip", 400),
        (gzip.compress(whole) + b"more", "gzip", 400),
    ]
    with FakeProvider(["Hi"]) as provider:
        async with gateway(provider.url, "limits: {body: 1kB}\n") as (base, _, _), aiohttp.ClientSession() as session:
            for body, encoding, expected in cases:
                async with session.post(base + PATH, data=body, headers={"content-encoding": encoding}) as reply:
                    assert (reply.status, encoding) == (expected, encoding)


async def test_a_client_may_send_so_many_requests(gateway) -> None:
    """Then it is told when to come again."""
    with FakeProvider(["a"], repeat_last=True) as provider:
        async with gateway(provider.url, "routes: [{rate: {requests: 2, per: 1h}}]\n") as (base, _, _):
            replies = [await post(base, asked()) for _ in range(3)]

    assert [reply[0] for reply in replies] == [200, 200, 429]
    assert int(replies[2][1]["retry-after"]) > 1000


async def test_so_many_requests_run_at_once(gateway) -> None:
    """One runs, one waits, one is refused."""
    gate = Gate()
    with FakeProvider([Sent("a", Wire(gate=gate)), "b"]) as provider:
        more = "routes: [{concurrency: {most: 1, queue: 1, wait: 30s}}]\n"
        async with gateway(provider.url, more) as (base, made, _):
            first = asyncio.ensure_future(post(base, asked()))
            await _until(lambda: len(provider.requests) == 1)
            second = asyncio.ensure_future(post(base, asked()))
            await _until(lambda: made.counts.open == 2)
            third = await post(base, asked())
            gate.open()
            statuses = [(await first)[0], (await second)[0], third[0]]

    assert statuses == [200, 200, 429]


async def _until(holds):
    with anyio.fail_after(60):
        while not holds():  # noqa: ASYNC110 - of a thread, or a server
            await anyio.sleep(0.005)


# Clients


async def connect(base):
    """A raw connection."""
    return await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))


def head(length, *lines):
    """The head of a request."""
    return "\r\n".join([f"POST {PATH} HTTP/1.1", "host: x", f"content-length: {length}", *lines, "", ""]).encode()


@pytest.mark.parametrize("size", [5, 300_000])
async def test_the_upstream_ends_with_a_client_that_leaves_before_the_first_token(gateway, raw_server, size) -> None:
    """Nobody would read what the provider writes. A long body pauses reading."""
    asked_for, gone = anyio.Event(), anyio.Event()

    async def think(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        asked_for.set()
        while await reader.read(1000):
            pass
        gone.set()
        writer.close()

    async with raw_server(think) as url, gateway(url + "/v1") as (base, _, records):
        _, writer = await connect(base)
        body = json.dumps(asked("x" * size, stream=True)).encode()
        writer.write(head(len(body)) + body)
        await asked_for.wait()
        writer.close()
        with anyio.fail_after(60):
            await gone.wait()
        (record,) = await recorded(records)

    assert (record.outcome, record.status) == ("gone", 0)


async def test_the_upstream_ends_with_a_client_that_leaves_within_a_stream(gateway) -> None:
    """However much was sent."""
    with FakeProvider([Sent("a b c", Wire(endless="events"))]) as provider:
        async with gateway(provider.url) as (base, _, records):
            reader, writer = await connect(base)
            body = json.dumps(asked(stream=True)).encode()
            writer.write(head(len(body)) + body)
            await reader.readuntil(b"data: ")
            writer.close()
            assert await asyncio.to_thread(provider.requests[0].hung_up.wait, 60)
            (record,) = await recorded(records)

    assert record.outcome == "gone"


async def test_nothing_is_left_of_many_clients_that_vanish(gateway) -> None:
    """Each at another moment: no request, no connection to the provider, no connection of a client."""
    with FakeProvider([Sent("a b c", Wire(endless="silence"))], repeat_last=True) as provider:
        async with gateway(provider.url) as (base, made, records):
            body = json.dumps(asked(stream=True)).encode()
            sent = head(len(body)) + body

            async def vanish(number):
                reader, writer = await connect(base)
                writer.write(sent[: 20 + 37 * number])
                if number > len(sent) // 37:
                    await reader.read(20 * number)
                writer.close()

            async with anyio.create_task_group() as tasks:
                for number in range(40):
                    tasks.start_soon(vanish, number)
            await _until(lambda: not made.counts.open and not made.server.server_state.connections)
            assert await asyncio.to_thread(provider.wait_until_idle, 10)

    assert {one.outcome for one in records} == {"gone"}


@pytest.mark.rest
async def test_a_client_that_does_not_read_is_cut(gateway, raw_server) -> None:
    """Nothing waits for it in memory."""

    async def flood(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        event = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1"}
        line = f"data: {json.dumps({**event, 'choices': [{'index': 0, 'delta': {'content': 'x ' * 2000}}]})}\n\n"
        try:
            while True:
                writer.write(line.encode())
                await writer.drain()
        except ConnectionError:
            writer.close()

    async with raw_server(flood) as url, gateway(url + "/v1", "limits: {idle: 200ms}\n") as (base, made, records):
        _, writer = await connect(base)
        body = json.dumps(asked(stream=True)).encode()
        writer.write(head(len(body)) + body)
        (record,) = await recorded(records)
        await _until(lambda: not made.server.server_state.connections)
        writer.close()

    assert record.outcome == "stalled"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (head(1000) + b"{", b"408"),
        (b"POST / HT", b"408"),
        (b"POST / HTTP/1.1\r\nx: " + b"a" * 15_000, b"431"),
        (f"POST {PATH} HTTP/1.1\r\nhost: x\r\nx: {'a' * 9000}\r\ncontent-length: 0\r\n\r\n".encode(), b"431"),
        (head(10**18), b"413"),
        (b"\x16\x03\x01 hello\r\n\r\n", b"400"),
    ],
    ids=["a body that never comes", "half a head", "a head without end", "a long head", "a huge length", "garbage"],
)
async def test_a_client_that_sends_slowly_or_too_much_is_refused(gateway, sent, expected) -> None:
    """With the status of its fault, and the connection ends."""
    with FakeProvider() as provider:
        async with gateway(provider.url, "limits: {receive: 300ms, headers: 4kB}\n") as (base, _, _):
            reader, writer = await connect(base)
            with anyio.fail_after(60):
                for at in range(0, len(sent), 10_000):
                    with contextlib.suppress(ConnectionError):
                        writer.write(sent[at : at + 10_000])
                        await writer.drain()
                    await asyncio.sleep(0.01)
                assert (await reader.readline()).split()[1] == expected
                assert b"model" not in await reader.read()
            writer.close()
        assert not provider.requests


async def test_a_connection_without_a_request_ends(gateway) -> None:
    """It asked nothing, and gets no answer."""
    with FakeProvider() as provider:
        async with gateway(provider.url, "limits: {receive: 100ms}\n") as (base, _, _):
            reader, writer = await connect(base)
            with anyio.fail_after(60):
                assert await reader.read() == b""
            writer.close()


async def test_a_request_that_takes_too_long_gets_504(gateway) -> None:
    """In the language of its protocol."""
    with FakeProvider([Sent("a", Wire(gate=Gate()))]) as provider:
        async with gateway(provider.url, "limits: {total: 200ms}\n") as (base, _, records):
            status, _, text = await post(base, asked())
            (record,) = await recorded(records)

    assert (status, json.loads(text)["error"]["code"], record.outcome) == (504, "timeout", "timeout")


async def test_a_stream_that_is_held_shows_signs_of_life(gateway) -> None:
    """Comments, which clients skip."""
    gate = Gate()
    with FakeProvider([Sent("a b", Wire(gate=gate))]) as provider:
        async with gateway(provider.url, "limits: {keep_alive: 50ms}\n") as (base, _, _):
            reader, writer = await connect(base)
            body = json.dumps(asked(stream=True)).encode()
            writer.write(head(len(body)) + body)
            gate.let(1)
            with anyio.fail_after(60):
                await reader.readuntil(b": keep-alive\n\n")
                await reader.readuntil(b": keep-alive\n\n")
                gate.open()
                await reader.readuntil(b"[DONE]\n\n")
            writer.close()


# Providers


@pytest.mark.parametrize(
    ("item", "stream", "status"),
    [
        (Sent("a", Wire(cut_at=0)), False, 502),
        (Sent("a b c", Wire(cut_body_at=20)), False, 502),
        (Reply("no json", content_type="application/json"), False, 502),
        (Reply("<html>", content_type="text/html"), False, 502),
        (Reply({"error": {"message": "no", "type": "x", "code": None}}, 400), False, 400),
        (Sent("a b c", Wire(cut_body_at=300)), True, 200),
        (Sent("a b c", Wire(break_event=1)), True, 200),
    ],
)
async def test_a_provider_that_breaks_ends_in_an_error_of_the_protocol(gateway, item, stream, status) -> None:
    """The client can read it, and the record names it."""
    with FakeProvider([item], repeat_last=True) as provider:
        more = "routes: [{retries: {attempts: 2, first_wait: 1ms}}]\n"
        async with gateway(provider.url, more) as (base, _, records):
            got, _, text = await post(base, asked(stream=stream))
            (record,) = await recorded(records)

    assert got == status
    assert '"error"' in text
    assert record.outcome == "error"


# Cache


async def test_an_equal_request_gets_the_released_answer_again(gateway) -> None:
    """Byte for byte, without asking the provider; a blocked one is not answered from it."""
    with FakeProvider(["Mail ann@example.com", "second"]) as provider:
        async with gateway(provider.url, "routes: [{cache: {keep: 10m}}]\n") as (base, _, records):
            replies = [await post(base, asked(stream=True)) for _ in range(2)]
            other = await post(base, asked("I am bob@example.com", stream=True))
            await recorded(records, 3)
        assert len(provider.requests) == 2

    assert replies[0][2] == replies[1][2]
    assert "second" in other[2]
    assert [one.cached for one in records] == [False, True, False]


async def test_equal_prompts_behind_the_guards_do_not_share_an_answer(gateway) -> None:
    """What was hidden in them differs, and an answer may restore it."""
    with FakeProvider(["one", "two"]) as provider:
        async with gateway(provider.url, "routes: [{cache: {keep: 10m, shared: true}}]\n") as (base, _, _):
            replies = [await post(base, asked(f"I am {name}@example.com")) for name in ("ann", "bob")]
        assert provider.requests[0].all_text == provider.requests[1].all_text

    assert ["one" in replies[0][2], "two" in replies[1][2]] == [True, True]


# The edge


async def test_the_edge_tells_health_metrics_and_models(gateway) -> None:
    """Metrics have the names of the operator only."""
    with FakeProvider(["Hi", "never"], models=["fake-1", "other"]) as provider:
        async with gateway(provider.url, "routes: [{models: fake-*}]\n") as (base, _, records):
            await post(base, asked())
            await post(base, asked("forbidden"))
            await recorded(records, 2)
            async with aiohttp.ClientSession() as session:
                pages = {}
                for path in ("/healthz", "/readyz", "/metrics", "/v1/models"):
                    async with session.get(base + path) as reply:
                        assert reply.status == 200
                        pages[path] = await reply.text()

    assert json.loads(pages["/readyz"])["status"] == "ready"
    assert [one["id"] for one in json.loads(pages["/v1/models"])["data"]] == ["fake-1"]
    metrics = pages["/metrics"]
    name = "penstock_gateway_"
    assert f'{name}requests_total{{route="route-1",endpoint="openai-chat",status="200",outcome="ok"}} 1' in metrics
    assert f'{name}verdicts_total{{route="route-1",step="regex-filter",stage="process_input"}} 1' in metrics
    assert f'{name}request_seconds_count{{route="route-1",endpoint="openai-chat"}} 2' in metrics
    assert f"{name}ready 1" in metrics


async def test_a_model_is_told_with_words_of_its_provider_only(gateway, raw_server) -> None:
    listed = [
        {"id": "claude-1", "type": "model", "display_name": "Claude One 1.5", "note": "x", "created_at": "2026-01-01"},
        {"id": "org/claude-2", "owned_by": "ann@example.com", "display_name": "Call ann@example.com"},
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"data": listed}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with (
        raw_server(serve) as url,
        gateway(url, "routes: [{}]\n") as (base, _, _),
        aiohttp.ClientSession() as session,
    ):
        told = {}
        for name in ("claude-1", "org/claude-2", "other"):
            async with session.get(f"{base}/v1/models/{name}") as reply:
                told[name] = reply.status, await reply.json()
    first = {key: value for key, value in listed[0].items() if key != "note"}
    assert told["claude-1"] == (200, first)
    assert told["org/claude-2"] == (200, {"id": "org/claude-2"})
    assert (told["other"][0], told["other"][1]["error"]["code"]) == (404, "model_not_found")


# Nothing of keys, nothing of texts


async def test_no_key_and_no_text_is_logged(gateway, caplog, tmp_path) -> None:
    """At any level, by anybody in this process; nor in records, errors and metrics."""
    caplog.set_level(logging.DEBUG)
    mine, text = new_key(), "the-planted-text"
    (tmp_path / "keys.txt").write_text(line_of_key("team-a", mine) + "\n")
    with FakeProvider(["fine", Reply(f"{text} {KEY}", 500), "never"], repeat_last=True) as provider:
        more = "keys: keys.txt\nroutes: [{retries: {attempts: 1}}]\n"
        log = f"{{format: text, records: '{tmp_path / 'records.jsonl'}'}}"
        async with gateway(provider.url, more, ", key_env: KEY", log=log) as (base, made, records):
            headers = {"authorization": f"Bearer {mine}"}
            for content in (f"{text} one", f"{text} two", f"{text} forbidden"):
                await post(base, asked(content), headers=headers)
            await post(base, asked(text), headers={"authorization": f"Bearer {mine}x"})
            await recorded(records, 4)
            shown = [caplog.text, repr(made.routes), repr(records), made.metrics.page().decode()]
        shown.append((tmp_path / "records.jsonl").read_text())

    assert shown[-1].count("\n") == 4
    assert [one.status for one in records] == [200, 500, 200, 401]
    for secret in (mine, KEY, text):
        assert not any(secret in one for one in shown)
