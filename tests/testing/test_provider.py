"""The fake provider: what it sends, byte by byte, what it keeps of requests, and that it ends."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
from collections.abc import AsyncIterator

import anyio
import anyio.to_thread
import httpx
import pytest

from penstock.engine.values.errors import UsageError
from penstock.testing import FakeProvider, Gate, Reply, Sent, Wire, recorded

HI = {"model": "m-1", "messages": [{"role": "user", "content": "Hi there"}]}
LIVE = HI | {"stream": True}


def post(server: FakeProvider, body: object = HI, path: str = "/chat/completions", **options: object) -> httpx.Response:
    """Ask once, over a connection of its own."""
    return httpx.post(server.url + path, json=body, timeout=5, **options)


def raw(server: FakeProvider, body: object = LIVE) -> bytes:
    """Ask once, and return all bytes that come, whatever ends them."""
    port = int(server.url.split(":")[2].split("/")[0])
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
    got = b""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(head.encode() + data)
        try:
            while piece := connection.recv(65536):
                got += piece
        except ConnectionResetError:
            got += b"<reset>"
    return got


def test_a_cut_falls_on_its_byte_anywhere_in_an_answer() -> None:
    """Head, framing and body: so many bytes come, then a reset, or an end."""
    with FakeProvider(["Hi"]) as server:
        whole = raw(server)
    places = range(1, len(whole), 7)
    for ending, mark in (("reset", b"<reset>"), ("close", b"")):
        with FakeProvider([Sent("Hi", Wire(cut_at=place, ending=ending)) for place in places]) as server:
            assert [numbered(raw(server)) for _ in places] == [numbered(whole[:place] + mark) for place in places]


def numbered(data: bytes) -> bytes:
    """The bytes, with nought for the number of the answer: all numbers are of one length."""
    return re.sub(rb"(?<=chatcmpl-)\d+", lambda found: b"0" * len(found[0]), data)


def test_a_cut_of_the_body_leaves_the_head_whole() -> None:
    """The first bytes of the body, and no end."""
    with FakeProvider([Sent("Hi", Wire(cut_body_at=10, framing="close", ending="close"))]) as server:
        head, _, body = raw(server).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert body == b'data: {"id'


@pytest.mark.parametrize(
    ("wire", "begins"),
    [
        (Wire(), b'data: {"id"'),
        (Wire(space=""), b'data:{"id"'),
        (Wire(bom=True), b"\xef\xbb\xbfdata: "),
        (Wire(comments=True), b": keep-alive\n\ndata: "),
        (Wire(split_data=True), b'data: {\ndata:  "id"'),
        (Wire(split_data=True, newline="\r"), b'data: {\rdata:  "id"'),
    ],
)
def test_events_look_as_the_wire_says(wire: Wire, begins: bytes) -> None:
    """Each oddity is one that the standard allows."""
    with FakeProvider([Sent("Hi", wire)]) as server:
        answer = post(server, LIVE)
    assert answer.content.startswith(begins)
    assert answer.content.endswith(b"data:" + wire.space.encode() + b"[DONE]" + wire.newline.encode() * 2)


def test_an_event_may_be_broken_and_the_end_be_missing() -> None:
    """Half of one event's JSON; no ``[DONE]``; an error behind it all."""
    with FakeProvider([Sent("Hi", Wire(break_event=1, done=False, error_event={"error": "x"}))]) as server:
        events = post(server, LIVE).text.removesuffix("\n\n").split("\n\n")
    whole = [is_json(event.removeprefix("data: ")) for event in events]
    assert whole == [True, False, True, True]
    assert events[-1] == 'data: {"error": "x"}'


def is_json(text: str) -> bool:
    """Whether a text is JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_an_answer_that_is_not_streamed_may_be_broken_too() -> None:
    """Half of its JSON."""
    with FakeProvider([Sent("Hi", Wire(break_event=0))]) as server:
        assert not is_json(post(server).text)


def test_the_form_may_be_another_than_the_one_asked_for() -> None:
    """Events for one who wants JSON, JSON for one who wants events, and a type that is neither."""
    script = [Sent("Hi", Wire(stream=True)), Sent("Hi", Wire(stream=False)), Sent("Hi", Wire(content_type="text/html"))]
    with FakeProvider(script) as server:
        answers = [post(server), post(server, LIVE), post(server, LIVE)]
    types = [answer.headers["content-type"] for answer in answers]
    assert types == ["text/event-stream; charset=utf-8", "application/json", "text/html"]
    assert is_json(answers[1].text)


@pytest.mark.parametrize("body", [HI, LIVE], ids=["json", "events"])
def test_a_compressed_answer_is_compressed(body) -> None:
    """All of it, as one gzip file."""
    with FakeProvider([Sent("Hi", Wire(gzip=True, framing="close"))]) as server:
        head, _, data = raw(server, body).partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head
    assert b"Hi" in gzip.decompress(data)


@pytest.mark.parametrize(
    "body",
    [b"\x00\xff", "data: {}\n\ndata: [DONE]\n\n", {"choices": []}, {"choices": [{"message": {"content": None}}]}],
    ids=["bytes", "events", "no-choices", "no-content"],
)
def test_a_reply_is_sent_as_it_stands(body) -> None:
    """Bytes, a text, or JSON; with its own status and headers."""
    with FakeProvider([Reply(body, 207, {"X-Own": "1"})]) as server:
        answer = post(server)
    assert (answer.status_code, answer.headers["x-own"]) == (207, "1")
    assert answer.content == Reply(body).data


def test_a_recorded_answer_is_replayed() -> None:
    """Type, status and every byte; and it can be cut and sliced like any other."""
    events = ': PROCESSING\n\ndata: {"é": 1}\n\ndata: [DONE]\n\n'
    exchange = {"status": 200, "content_type": "text/event-stream", "response": events, "request": {}}
    with FakeProvider([recorded(exchange), Sent(recorded(exchange), Wire(piece=1))]) as server:
        assert [post(server).text for _ in range(2)] == [events, events]


def test_a_request_is_kept_without_its_keys() -> None:
    """Method, path, headers, body; keys are masked wherever they stand."""
    with FakeProvider(["Hi"]) as server:
        post(server, headers={"authorization": "Bearer sk-1", "api-key": "sk-2"})
    (request,) = server.requests
    assert (request.method, request.path, request.json, request.text) == (
        "POST",
        "/v1/chat/completions",
        HI,
        "Hi there",
    )
    assert (request.headers["authorization"], request.headers["api-key"]) == ("***", "***")
    assert [request.has_key(key) for key in ("sk-1", "sk-2", "sk-3")] == [True, True, False]
    assert "sk-" not in repr(request)


def test_a_key_in_the_query_is_masked() -> None:
    """Some providers want it there."""
    with FakeProvider(["Hi"]) as server:
        post(server, HI, "/chat/completions?key=sk-1&x=1")
    assert server.requests[0].target == "/v1/chat/completions?key=***&x=1"


def test_a_callable_answers_by_what_is_asked() -> None:
    """An oracle: what it says depends on the text it is shown."""
    with FakeProvider(lambda request: {"object": {"rude": "damn" in request.all_text}}) as server:
        told = [post(server, HI | {"messages": [{"role": "user", "content": text}]}).text for text in ("damn", "hello")]
    assert ["true" in text for text in told] == [True, False]


def test_what_a_callable_raises_comes_out_of_the_server() -> None:
    """A failed assertion in it fails the test; the request gets a 500."""

    def broken(request: object) -> str:
        raise AssertionError("not what was expected")

    with pytest.raises(AssertionError, match="not what was expected"), FakeProvider(broken) as server:
        assert post(server).status_code == 500


def test_a_turn_that_cannot_be_sent_is_the_scripts_fault() -> None:
    """The error comes out of the server, streamed or not."""
    with pytest.raises(KeyError, match="name"), FakeProvider([{"tool_calls": [{"args": {}}]}] * 2) as server:
        assert [post(server, body).status_code for body in (HI, LIVE)] == [500, 500]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/nowhere", 404),
        ("GET", "/chat/completions", 405),
        ("POST", "/models", 405),
        ("POST", "/embeddings", 400),
    ],
)
def test_requests_that_lead_nowhere_are_refused(method: str, path: str, status: int) -> None:
    """As OpenAI says it; the script loses nothing."""
    with FakeProvider(["Hi"]) as server:
        answer = httpx.request(method, server.url + path)
        assert (answer.status_code, "message" in answer.json()["error"]) == (status, True)
        assert post(server).status_code == 200


def test_a_request_beyond_the_script_is_refused_unless_the_last_answer_repeats() -> None:
    """The error says what to do."""
    with FakeProvider(["Hi"]) as server:
        assert [post(server).status_code for _ in range(2)] == [200, 400]
    with FakeProvider(["Hi"], repeat_last=True) as server:
        assert [post(server).status_code for _ in range(3)] == [200, 200, 200]


def test_the_other_endpoints_can_fail_too() -> None:
    """None answers as usual, and so does the script's end."""
    body = {"model": "e-1", "input": "x"}
    with FakeProvider(embeddings=[None, Reply(status=503)], moderations=[Sent(None, Wire(break_event=0))]) as server:
        assert [post(server, body, "/embeddings").status_code for _ in range(3)] == [200, 503, 200]
        assert [is_json(post(server, body, "/moderations").text) for _ in range(2)] == [False, True]


@pytest.mark.rest
def test_paths_of_other_providers_lead_to_the_same_endpoints() -> None:
    """Azure names the deployment in the path, and no model in the body."""
    with FakeProvider(["Hi"]) as server:
        answer = post(server, {"messages": HI["messages"]}, "/../openai/deployments/d/chat/completions?api-version=1")
        assert answer.status_code == 200


def test_a_connection_is_used_again_and_can_be_told_apart() -> None:
    """HTTP/1.1 keeps it; two answers may come over one."""
    with FakeProvider(["a", "b"]) as server, httpx.Client() as client:
        for _ in range(2):
            client.post(server.url + "/chat/completions", json=LIVE)
        assert ([request.connection for request in server.requests], server.connections) == ([0, 0], 1)
        assert server.open_connections == 1
        client.close()
        assert server.wait_until_idle()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of the event loop's."""
    async with httpx.AsyncClient(timeout=5) as made:
        yield made


async def test_a_gate_lets_one_event_pass_at_a_time(client) -> None:
    """A slow drip, without a clock: nothing comes before it may."""
    gate = Gate()
    with FakeProvider([Sent({"deltas": ["a", "b"]}, Wire(gate=gate))]) as server, anyio.fail_after(60):
        async with client.stream("POST", server.url + "/chat/completions", json=LIVE) as answer:
            lines = answer.aiter_lines()
            for text in ("", "a", "b"):
                gate.let()
                event = json.loads((await anext(lines)).removeprefix("data: "))
                assert event["choices"][0]["delta"]["content"] == text
                assert await anext(lines) == ""
                assert not server.requests[0].answered.is_set()
            gate.open()
            assert [line async for line in lines][-2] == "data: [DONE]"


@pytest.mark.parametrize("endless", ["silence", "events", "comments"])
@pytest.mark.parametrize("body", [HI, LIVE], ids=["json", "events"])
async def test_an_answer_without_an_end_ends_when_the_client_hangs_up(client, endless, body) -> None:
    """And the server knows that it did."""
    with FakeProvider([Sent("Hi", Wire(endless=endless))]) as server, anyio.fail_after(60):
        async with client.stream("POST", server.url + "/chat/completions", json=body) as answer:
            assert answer.status_code == 200  # and its body is not read: httpx leaves generators open on trio
        assert await anyio.to_thread.run_sync(server.requests[0].hung_up.wait, 60)
        assert await anyio.to_thread.run_sync(server.wait_until_idle)


def test_a_client_that_hangs_up_at_a_shut_gate_is_noticed() -> None:
    """The answer ends there."""
    with FakeProvider([Sent("Hi", Wire(gate=Gate()))]) as server:
        with httpx.stream("POST", server.url + "/chat/completions", json=LIVE):
            pass
        assert server.requests[0].hung_up.wait(60)


@pytest.mark.parametrize("wire", [Wire(endless="silence"), Wire(gate=Gate())], ids=["endless", "gate"])
def test_a_server_that_closes_leaves_no_thread_behind(wire: Wire) -> None:
    """Whatever it is sending."""
    before = threading.active_count()
    with httpx.Client() as client, FakeProvider([Sent("Hi", wire)]) as server:
        request = client.build_request("POST", server.url + "/chat/completions", json=LIVE)
        answer = client.send(request, stream=True)
        server.close()
        answer.close()
    assert threading.active_count() == before
    assert server.open_connections == 0


def test_a_server_has_an_address_only_while_it_serves() -> None:
    """The error says how."""
    with pytest.raises(UsageError, match="with FakeProvider"):
        assert FakeProvider(["Hi"]).url
