"""Whether a broken answer is a clear error or a whole answer: never a hang, a leak, or a key in a text."""

import gzip
import json
import logging
import re
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint

from penstock import Chunk, Message, ModelError, OpenAICompatibleModel, OptionError
from penstock.engine import AudioPart, ModelAnswer, ModelRequest
from penstock.models import TimeLimits
from penstock.testing.provider import FakeProvider, Gate, Received, Reply, Sent, Wire, failing, rate_limited, recorded
from tests.models.clients.conftest import KEY, Making, everything_in
from tests.models.clients.exchanges import OWN, exchanges, said

STREAMS = {
    "text": exchanges(OWN / "models__openrouter__cassettes__test_cache__test_openrouter_cache_streaming_e2e.json")[-1],
    "tools": exchanges(OWN / "test_openai__test_run_stream_sync_streams_real_model.json")[0],
}
HI = ModelRequest("hi")  # type: ignore[arg-type]


async def asked(model: OpenAICompatibleModel) -> ModelAnswer | ModelError:
    """Return an answer, or the error that there was; whatever else happens is a mistake."""
    with anyio.fail_after(60):
        try:
            return await model.ask("hi")
        except ModelError as error:
            found = error
    assert KEY not in everything_in(found)
    assert found.problem
    return found


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("ending", ["reset", pytest.param("close", marks=pytest.mark.rest)])
@pytest.mark.parametrize("framing", ["chunked", pytest.param("close", marks=pytest.mark.rest)])
@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_cut_at_any_byte_is_whole_or_an_error(
    name: str, framing: Any, ending: Any, asking: Making
) -> None:
    """Whoever cuts it, and however its end is told; what is whole is the same, and what is not may be asked again."""
    exchange = STREAMS[name]
    size = len(exchange["response"].encode())
    # The places are the same in all, so they are sampled in all but one, which is left to `make test-rest`.
    step = 1 if (name, framing, ending) == ("text", "chunked", "close") else 7
    wires = [Wire(framing=framing, ending=ending, cut_body_at=at) for at in range(0, size, step)]
    whole = 0
    with FakeProvider([Sent(recorded(exchange), wire) for wire in wires]) as server:
        async with asking(server) as model:
            for _ in wires:
                found = await asked(model)
                if isinstance(found, ModelError):
                    assert found.retryable
                else:
                    whole += 1
                    assert found.text == said(exchange["response"]).text
        assert server.wait_until_idle()
    assert whole < len(wires) / 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_answer_cut_in_its_head_is_an_error(asking: Making) -> None:
    """Before anything of the body has come."""
    wires = [Wire(cut_at=at) for at in range(0, 120, 5)]
    with FakeProvider([Sent("Hello", wire) for wire in wires]) as server:
        async with asking(server) as model:
            for _ in wires:
                found = await asked(model)
                assert isinstance(found, ModelError)
                assert found.retryable
        assert server.wait_until_idle()


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize(
    "wire",
    [
        Wire(piece=1),
        Wire(newline="\r\n", bom=True, comments=True),
        Wire(newline="\r", space=""),
        Wire(gzip=True, piece=3),
        Wire(framing="length"),
        Wire(framing="close"),
    ],
    ids=str,
)
async def test_the_same_stream_is_the_same_answer_however_it_is_sent(name: str, wire: Wire, asking: Making) -> None:
    """In pieces of a byte, compressed, with other line ends, comments, marks and framings."""
    exchange = STREAMS[name]
    with FakeProvider([recorded(exchange), Sent(recorded(exchange), wire)]) as server:
        async with asking(server) as model:
            plain, odd = await model.ask("hi"), await model.ask("hi")
    assert plain.message == odd.message
    assert (plain.usage, plain.finish_reason) == (odd.usage, odd.finish_reason)


@pytest.mark.parametrize(
    "wire", [Wire(), Wire(stream=False), Wire(comments=True, split_data=True), Wire(done=False)], ids=str
)
async def test_a_stream_and_a_whole_answer_are_read_alike(wire: Wire, asking: Making) -> None:
    """A provider may answer at once though it was asked for a stream."""
    turn = {"text": "Grüße", "tool_calls": [{"name": "look", "args": {"at": [1]}}]}
    with FakeProvider([Sent(turn, wire)]) as server:
        async with asking(server) as model:
            answer = await model.ask("hi")
    assert answer.text == "Grüße"
    assert answer.finish_reason == "tool-calls"
    assert [(p.name, p.arguments) for p in answer.message.parts if p.type == "tool"] == [("look", {"at": (1,)})]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (rate_limited(2), {"status": 429, "code": "rate_limit_exceeded", "retry_after": 2.0, "retryable": True}),
        (failing(500), {"status": 500, "retryable": True}),
        (failing(503, "overloaded"), {"status": 503, "retryable": True}),
        (failing(408), {"status": 408, "retryable": True}),
        (failing(409), {"status": 409, "retryable": True}),
        (failing(400, "bad", code="context_length_exceeded"), {"status": 400, "code": "context_length_exceeded"}),
        (failing(401), {"status": 401, "retryable": False}),
        (Reply("<html>Bad gateway</html>", 502, content_type="text/html"), {"status": 502, "retryable": True}),
        (Reply("", 404), {"status": 404, "retryable": False}),
        (Reply("", 302, {"location": "http://127.0.0.1:1/"}), {"status": 302, "retryable": False}),
        (Reply({"error": {"message": "busy", "code": 503}}), {"status": 503, "code": "503", "retryable": True}),
        (Reply({"error": "no such thing"}), {"status": 200, "problem": "the provider says: no such thing"}),
        (Reply('data: {"error": {"message": "late", "code": "rate_limit_exceeded"}}\n\n'), {"retryable": True}),
        (Reply('data: {"choices": [{"error": {"message": "no", "code": 403}}]}\n\n'), {"status": 403}),
        (Reply('event: error\ndata: {"message": "late", "code": 502}\n\n'), {"status": 502, "retryable": True}),
        (Reply('{"error": {"message": "no"}}', content_type="text/event-stream"), {"problem": "the provider says: no"}),
        (Reply({"choices": []}), {"problem": "the answer is empty: it has no choices", "retryable": True}),
        (Reply("data: [DONE]\n\n"), {"problem": "the answer is empty: it has no choices", "retryable": True}),
        (Reply("data: {broken\n\n"), {"problem": "the stream holds something that is not a JSON object"}),
        (Reply('data: {"choices": [{"delta": {"content": "He"}}]}\n\n'), {"retryable": True}),
        (Reply("hello", content_type="text/plain"), {"problem": "the answer is neither JSON nor an event stream"}),
        (Reply({"hello": 1}), {"problem": "the answer is not a chat completion; check the address"}),
        (Reply([{"error": {"message": "listed", "status": "INVALID"}}], 400), {"code": "INVALID"}),
        (Reply({"detail": "not here"}, 422), {"problem": "the provider says: not here"}),
    ],
)
async def test_what_a_provider_says_no_with_is_kept(reply: Reply, expected: dict[str, Any], asking: Making) -> None:
    """Its status, code and wait, and whether asking again may help."""
    with FakeProvider([reply]) as server:
        async with asking(server) as model:
            error = await asked(model)
    assert isinstance(error, ModelError)
    assert {name: getattr(error, name) for name in expected} == expected


async def test_a_wait_may_be_a_date_or_milliseconds(asking: Making) -> None:
    """It is told in seconds from now, and never less than none."""
    later = datetime.now(UTC) + timedelta(seconds=30)
    soon = Reply({}, 429, {"retry-after-ms": "250", "retry-after": "9"})
    past, odd = (
        Reply({}, 429, {"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}),
        Reply({}, 429, {"retry-after": "soon"}),
    )
    with FakeProvider([rate_limited(later), soon, past, odd]) as server:
        async with asking(server) as model:
            waits = [getattr(await asked(model), "retry_after") for _ in range(4)]  # noqa: B009
    assert 20 < waits[0] <= 30
    assert waits[1:] == [0.25, 0.0, None]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}]}, 13.0),
        ({"details": [{"retryDelay": "0.250s"}]}, 0.25),
        ({"details": [{"retryDelay": {"seconds": 13, "nanos": 0}}]}, 13.0),
        ({"metadata": {"raw": json.dumps({"error": {"details": [{"retryDelay": "34.07s"}]}})}}, 34.07),
        ({"retry_after": 7}, 7.0),
        ({"retry_after_ms": 250}, 0.25),
        ({"message": "Rate limit reached. Please try again in 1m20s."}, 80.0),
        ({"message": "Please retry in 34.07s."}, 34.07),
        ({"message": "Please retry after 26 seconds."}, 26.0),
        ({"message": "Please try again later."}, None),
        ({"details": [{"retryDelay": "soon"}]}, None),
    ],
)
@pytest.mark.parametrize("form", ["status", "list", "stream"])
async def test_a_wait_may_stand_in_the_body(error: object, seconds: float | None, form: str, asking: Making) -> None:
    """Gemini sends no header; a header counts first."""
    body = {"error": error}
    streamed = Reply(f"data: {json.dumps(body)}\n\n")
    replies = {"status": Reply(body, 429), "list": Reply([body], 429), "stream": streamed}
    with FakeProvider([replies[form], Reply(body, 429, {"retry-after": "2"})]) as server:
        async with asking(server) as model:
            waits = [getattr(await asked(model), "retry_after") for _ in range(2)]  # noqa: B009
    assert waits == [seconds, 2.0]


async def test_headers_worth_keeping_are_kept(asking: Making) -> None:
    """Of errors and of answers: request ids and rate limits, and no cookie."""
    headers = {"x-request-id": f"r1{KEY}", "x-ratelimit-remaining-tokens": "9", "set-cookie": "a=b"}
    fine = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
    with FakeProvider([Reply({}, 429, headers), Reply(fine, headers=headers)]) as server:
        async with asking(server) as model:
            error, answer = await asked(model), await model.ask("hi")
    assert isinstance(error, ModelError)
    for kept in (error.headers, answer.metadata["provider_headers"]):
        assert (kept["x-request-id"], kept["x-ratelimit-remaining-tokens"], "set-cookie" in kept) == (
            "r1[key]",
            "9",
            False,
        )


@pytest.mark.parametrize("limits", [TimeLimits(between=0.9), TimeLimits(whole=0.9)], ids=str)
@pytest.mark.parametrize("endless", ["silence", "events", "comments"])
async def test_an_answer_that_never_ends_runs_into_a_time_limit(
    limits: TimeLimits, endless: Any, asking: Making
) -> None:
    """Silence into either, noise into that of the whole answer; the connection is closed."""
    if limits.whole is None and endless != "silence":
        pytest.skip("noise is no silence")
    with FakeProvider(["warm", Sent("Hello", Wire(endless=endless))]) as server:
        async with asking(server, timeout=limits) as model:
            await asked(model)  # the first request makes the client, which may take as long as the limit
            error = await asked(model)
        assert server.wait_until_idle()
    assert isinstance(error, ModelError)
    assert error.retryable
    assert "time limit" in error.problem or "within 0.9 seconds" in error.problem


async def test_a_request_may_bring_a_time_limit_of_its_own(asking: Making) -> None:
    """In the setting ``timeout``, which is not sent."""
    with FakeProvider(["warm", Sent("Hello", Wire(endless="silence"))]) as server:
        async with asking(server) as model:
            await model.ask("hi")
            with pytest.raises(ModelError, match=r"within 0.2 seconds"), anyio.fail_after(60):
                await model.ask(ModelRequest((Message.user("hi"),), settings={"timeout": 0.2}))  # type: ignore[arg-type]
    assert "timeout" not in server.requests[1].fields


async def test_closing_an_answer_closes_its_connection(asking: Making) -> None:
    """In the middle of it, and the server sees it."""
    with FakeProvider([Sent("Hello world", Wire(endless="events"))]) as server:
        async with asking(server) as model:
            chunks = model.stream(HI)
            async for chunk in chunks:
                if chunk.type == "text-delta":
                    break
            await chunks.aclose()
            assert server.wait_until_idle()


async def test_cancelling_a_request_closes_its_connection(asking: Making) -> None:
    """Before its head has come, and behind it; a model goes on after it."""
    gate = Gate()
    with FakeProvider([Sent("Hello", Wire(gate=gate)), Sent("Hello", Wire(endless="silence")), "Bye"]) as server:
        async with asking(server) as model:
            for request in range(2):
                got: list[Chunk] = []
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_gather, model, got)
                    while len(server.requests) <= request or (request == 1 and not got):
                        await checkpoint()
                    tasks.cancel_scope.cancel()
                assert server.wait_until_idle()
            assert (await model.ask("hi")).text == "Bye"


async def _gather(model: OpenAICompatibleModel, got: list[Chunk]) -> None:
    async for chunk in model.stream(HI):
        got.append(chunk)  # noqa: PERF401 - the test looks on


async def test_connections_are_used_again(asking: Making) -> None:
    """Streams and whole answers, one after the other; closing the model closes them."""
    with FakeProvider(["one", Sent("two", Wire(stream=False)), failing(500), "three"]) as server:
        async with asking(server) as model:
            for _ in range(4):
                await asked(model)
            assert server.connections == 1
        assert server.wait_until_idle()


def test_a_model_may_be_asked_from_one_event_loop_after_another(asking: Making) -> None:
    """Each has connections of its own."""
    with FakeProvider(["one", "two", "three"]) as server:
        model = asking(server)

        async def ask() -> str:
            async with model:
                return (await model.ask("hi")).text

        assert [anyio.run(ask, backend=name) for name in ("asyncio", "trio", "asyncio")] == ["one", "two", "three"]


async def test_a_server_that_is_not_there_is_an_error_worth_a_retry(asking: Making) -> None:
    """It names the address's failure, and no key."""
    with FakeProvider() as server:
        url = server.url
    async with OpenAICompatibleModel("m", base_url=url, api_key=KEY) as model:
        error = await asked(model)
    assert isinstance(error, ModelError)
    assert error.retryable
    assert "ConnectError" in error.problem


async def test_the_cause_of_an_error_carries_no_key(asking: Making) -> None:
    """Httpx keeps the request with its error, and masks but one header."""
    with FakeProvider([Sent("Hello", Wire(cut_body_at=9))]) as server:
        async with asking(server, provider="azure") as model:
            error = await asked(model)
    assert isinstance(error, ModelError)
    cause: Any = error.__cause__
    assert KEY not in str(cause.request.headers.raw)


async def test_many_may_ask_at_once(asking: Making) -> None:
    """Over as many connections as it takes; all are closed with the model."""
    answers: dict[int, str] = {}

    async def ask(index: int) -> None:
        answers[index] = (await model.ask(str(index))).text

    with FakeProvider(lambda request: f"you said {request.text}") as server:
        async with asking(server) as model, anyio.create_task_group() as tasks:
            for index in range(40):
                tasks.start_soon(ask, index)
        assert server.wait_until_idle()
    assert answers == {index: f"you said {index}" for index in range(40)}


async def test_an_event_may_not_be_endless(asking: Making) -> None:
    """Memory is bounded, in streams and in whole answers."""
    with FakeProvider(["x" * 5000, Sent("x" * 5000, Wire(stream=False))]) as server:
        async with asking(server, most_of_an_event=2000) as model:
            errors = [await asked(model) for _ in range(2)]
    assert all("has more than 2000 bytes" in str(error) for error in errors)


async def test_no_text_of_ours_holds_a_key(asking: Making, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the provider repeats it: neither errors, nor what a model is printed as, nor logs."""
    caplog.set_level(logging.DEBUG)
    echo = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": f"x{KEY}"}}
    with FakeProvider([Reply(echo, 401), Reply(f"no json {KEY}"), "fine"]) as server:
        async with asking(server, headers={"X-Api-Token": "other-secret-9"}) as model:
            errors = [await asked(model) for _ in range(2)]
            answer = await model.ask("hi")
            texts = [repr(model), str(model), repr(answer), repr(model.body(HI)), caplog.text]
            texts += [everything_in(error) for error in errors if isinstance(error, ModelError)]
    assert "[key]" in str(errors[0])
    assert not [text for text in texts if KEY in text or "other-secret-9" in text]


@pytest.mark.parametrize("key", ["sk-with blank", "sk-with\nline", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    """An error of httpx would show it."""
    with pytest.raises(OptionError) as caught:
        OpenAICompatibleModel("m", base_url="http://127.0.0.1", api_key=key)
    assert key not in everything_in(caught.value)


def test_an_address_with_a_password_is_refused() -> None:
    """It would stand in every log."""
    for url in ("http://me:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret"):
        with pytest.raises(OptionError) as caught:
            OpenAICompatibleModel("m", base_url=url)
        assert "secret" not in everything_in(caught.value)


def test_the_body_alone_is_what_a_model_shows(asking: Making) -> None:
    """What would be sent can be looked at."""
    model = OpenAICompatibleModel("m", base_url="http://127.0.0.1", api_key=KEY, settings={"temperature": 0})
    assert json.loads(json.dumps(model.body(HI)))["temperature"] == 0


async def _read_request(stream: SocketStream) -> None:
    """Read all of a request: a connection that is closed with something unread is reset, and its answer lost."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += await stream.receive()
    headers, _, content = request.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", headers.lower())
    while length is not None and len(content) < int(length[1]):
        content += await stream.receive()


async def answered(body: bytes, head: str = "content-type: text/event-stream", **options: Any) -> Any:
    """Return the answer, or the error, to a request that a server answers with these bytes, before it hangs up."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await _read_request(stream)
            await stream.send(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode() + body)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's
        options = {"base_url": f"http://127.0.0.1:{port}/v1", **options}
        async with OpenAICompatibleModel("m", **options) as model:
            try:
                return await model.ask("hi")
            except ModelError as error:
                return error
            finally:
                tasks.cancel_scope.cancel()


def event(delta: Any, reason: str | None = None) -> bytes:
    """Return an event of a stream."""
    return f"data: {json.dumps({'choices': [{'delta': delta, 'finish_reason': reason}]})}\n\n".encode()


async def test_a_stream_that_breaks_behind_its_finish_reason_is_whole() -> None:
    """Nothing of the answer is lost; before it, the answer is."""
    head = "content-type: text/event-stream\r\ncontent-length: 100000"
    assert (await answered(event({"content": "hi"}, "stop"), head)).text == "hi"
    error = await answered(event({"content": "hi"}), head)
    assert error.retryable


ONE_EVENT = event({"content": "x" * 300_000}, "stop") + b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (gzip.compress(ONE_EVENT), "gzip"),
        (gzip.compress(ONE_EVENT[:9]) + gzip.compress(ONE_EVENT[9:]), "GZIP"),
        (zlib.compress(ONE_EVENT), "deflate"),
        (zlib.compress(ONE_EVENT)[2:-4], "deflate"),
        (ONE_EVENT, "identity"),
        (gzip.compress(ONE_EVENT), "identity, gzip"),
    ],
)
async def test_an_answer_may_be_compressed_once(packed: bytes, encoding: str) -> None:
    """In the ways that are asked for, also without the header of the format, and as several files."""
    head = f"content-type: text/event-stream\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(packed)}"
    assert (await answered(packed, head)).text == "x" * 300_000


@pytest.mark.parametrize(
    ("encoding", "problem"),
    [
        ("gzip, gzip", "compressed 2 times"),
        ("deflate,gzip", "compressed 2 times"),
        ("gzip\r\ncontent-encoding: gzip", "compressed 2 times"),
        ("br", "not asked for"),
        ("gzip", "broken"),
        ("deflate", "broken"),
    ],
)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_an_answer_that_is_compressed_otherwise_is_refused(encoding: str, problem: str, kind: str) -> None:
    """Layers could unpack to a thousand times the memory that is allowed."""
    head = f"content-type: {kind}\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(ONE_EVENT)}"
    error = await answered(ONE_EVENT, head)
    assert isinstance(error, ModelError)
    assert problem in error.problem


@pytest.mark.rest
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("size", [100_000_000])
async def test_a_small_answer_does_not_unpack_to_a_large_one(kind: str, size: int) -> None:
    """It is unpacked piece by piece, up to the limit."""
    packed = gzip.compress(b"x" * size, 1)
    head = f"content-type: {kind}\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}"
    tracemalloc.start()
    try:
        error = await answered(packed, head, most_of_an_event=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "most_of_an_event" in error.problem
    assert peak < 5_000_000 + len(packed)


async def test_a_stream_has_a_limit_for_all_of_its_events() -> None:
    """However small each is, comments included."""
    for piece in (event({"content": "x" * 90}), b": " + b"x" * 100 + b"\n\n"):
        error = await answered(piece * 100, most_of_an_answer=5_000)
        assert "most_of_an_answer" in error.problem
    assert (await answered(event({"content": "x"}, "stop"), most_of_an_answer=5_000)).text == "x"
    for option in ("most_of_an_answer", "most_of_an_event"):
        with pytest.raises(OptionError, match=option):
            OpenAICompatibleModel("m", base_url="http://x/v1", **{option: 0})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"detail": [{"loc": ["body", "x"], "msg": "field required", "type": "missing"}]}, "body.x: field required"),
        ({"detail": [{"loc": ["body", 0], "msg": "a"}, {"msg": "b"}, "c"]}, "body.0: a; b; c"),
        ({"detail": "no such model"}, "no such model"),
        ({"detail": {"error": {"message": "inside"}}}, "inside"),
        ({"detail": {"message": "said so"}}, "said so"),
        ({"errors": [{"message": "first"}]}, "first"),
        ([{"error": {"message": "listed"}}], "listed"),
        ("upstream is down\nmore", "upstream is down"),
    ],
)
async def test_what_is_wrong_with_a_request_is_said_in_each_dialect(body: Any, message: str, asking: Making) -> None:
    """FastAPI's servers list each place that is wrong."""
    with FakeProvider([Reply(body, 422, content_type="text/plain" if isinstance(body, str) else None)]) as server:
        async with asking(server) as model:
            error = await asked(model)
    assert isinstance(error, ModelError)
    assert error.problem == f"the provider says: {message}"


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ({"code": "insufficient_quota", "type": "insufficient_quota"}, False),
        ({"code": 429, "type": "insufficient_quota"}, False),
        ({"code": "billing_hard_limit_reached"}, False),
        ({"code": "rate_limit_exceeded", "type": "requests"}, True),
        ({"code": 429, "status": "RESOURCE_EXHAUSTED"}, True),
    ],
)
async def test_a_spent_account_is_no_reason_to_ask_again(said: Any, again: bool, asking: Making) -> None:
    """Waiting does not help, other than with too many requests; wherever the error stands."""
    failed = {"error": {"message": "no", **said}}
    body = f"data: {json.dumps(failed)}\n\n"
    with FakeProvider([Reply(failed, 429), Reply(body)]) as server:
        async with asking(server) as model:
            for _ in range(2):
                error = await asked(model)
                assert isinstance(error, ModelError)
                assert error.retryable == again or (again and "code" in said and said["code"] == 429)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_key_may_come_from_a_function(asynchronous: bool, asking: Making) -> None:
    """It is called for each request, and no error shows what it returned."""
    named = ["first-Secret-1", "second-Secret-2"]
    keys, seen = iter(named), iter(named)

    async def later() -> str:
        return next(keys)

    def refused(request: Received) -> Reply:
        key = next(seen)
        assert request.has_key(key)
        return Reply({"error": {"message": f"no {key} here"}}, 401)

    with FakeProvider(refused) as server:
        async with asking(server, api_key=later if asynchronous else lambda: next(keys)) as model:
            for _ in named:
                error = await asked(model)
                assert isinstance(error, ModelError)
                assert (error.status, "Secret" in everything_in(error)) == (401, False)
            assert "Secret" not in repr(model)


@pytest.mark.parametrize("function", [lambda: 1 / 0, lambda: "two words", lambda: None])
async def test_a_function_that_returns_no_key_is_an_error_of_the_model(function: Any, asking: Making) -> None:
    """Nothing is sent."""
    with FakeProvider(["Hello"]) as server:
        async with asking(server, api_key=function) as model:
            assert isinstance(await asked(model), ModelError)
        assert not server.requests


async def test_a_request_may_bring_headers_of_its_own(asking: Making) -> None:
    """They win over those of the model, are no part of the body, and secrets among them are not shown."""
    headers = {"X-Tenant": "acme", "X-Token": "Secret-9"}
    with FakeProvider(["Hello", Reply({"error": "no Secret-9 here"}, 400)]) as server:
        async with asking(server, headers={"X-Tenant": "other"}) as model:
            await model.ask(ModelRequest((Message.user("hi"),), settings={"extra_headers": headers}))
            with pytest.raises(ModelError) as raised:
                await model.ask(ModelRequest((Message.user("hi"),), settings={"extra_headers": headers}))
            with pytest.raises(OptionError, match="extra_headers"):
                await model.ask(ModelRequest((Message.user("hi"),), settings={"extra_headers": {"a": "two\nlines"}}))
        first = server.requests[0]
    assert (first.headers["x-tenant"], "extra_headers" in first.fields) == ("acme", False)
    assert "Secret" not in everything_in(raised.value)
    settings = {"extra_headers": headers}
    with_headers = OpenAICompatibleModel("m", base_url="http://x/v1", settings=settings)
    assert "Secret" not in str(with_headers.identity)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("stream", {"message": "Unsupported value", "param": "stream", "code": "unsupported_value"}),
        ("stream", {"message": "This model does not support streaming"}),
        ("stream_options", {"message": "Unrecognized request argument supplied: stream_options"}),
    ],
)
async def test_a_model_that_cannot_stream_is_asked_for_whole_answers(field: str, said: Any, asking: Making) -> None:
    """Once it has said so; later requests begin that way, and those that were under way are made again too."""

    def answer(request: Received) -> Any:
        return Reply({"error": said}, 400) if request.fields.get(field) else "Hello"

    with FakeProvider(answer) as server:
        async with asking(server) as model:
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(model.ask, "hi")
            assert (await model.ask("hi")).text == "Hello"
        assert [bool(request.fields.get(field)) for request in server.requests].count(True) <= 2
        assert not server.requests[-1].fields.get(field)


async def test_another_error_is_no_reason_to_ask_for_a_whole_answer(asking: Making) -> None:
    """It is raised as it came."""
    with FakeProvider(lambda _: failing(400, "the upstream is invalid")) as server:
        async with asking(server) as model:
            assert isinstance(await asked(model), ModelError)
        assert len(server.requests) == 1


async def test_audio_has_the_media_type_of_the_format_that_was_asked_for(asking: Making) -> None:
    """The answer does not name it."""
    body = event({"audio": {"id": "a", "data": "AAAA", "transcript": "hi"}}, "stop").decode()
    with FakeProvider(lambda _: Reply(body)) as server:
        async with asking(server) as model:
            for name, kind in (("mp3", "audio/mpeg"), ("opus", "audio/ogg"), ("wav", "audio/wav")):
                options = {"audio": {"voice": "alloy", "format": name}}
                answer = await model.ask(ModelRequest((Message.user("hi"),), provider_options=options))
                assert [part.media_type for part in answer.message.parts if isinstance(part, AudioPart)] == [kind]


DEEP = "[" * 900 + "]" * 900
ODD = (
    '{"error": "deep"}',
    '{"choices": [{"error": "deep"}]}',
    '{"choices": [{"delta": "deep"}]}',
    '{"choices": [{"delta": {"content": "a", "x": "deep"}, "finish_reason": "stop"}]}',
    '{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": NaN, "x": NaN}}',
    '{"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1e999}}',
    '{"choices": [{"delta": {"tool_calls": [{"function": {"name": {}, "arguments": "deep"}}]}}]}',
    '{"choices": [{"delta": {"tool_calls": [{"index": 1000000000000000000000000000000, "id": [], "function": 3}]}}]}',
    '{"choices": [{"finish_reason": {}, "index": []}]}',
    '{"choices": {}}',
    "[" * 100_000,
    "NaN",
    '"\\ud800"',
)


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_whatever_a_server_sends_is_an_answer_or_an_error_of_the_model(odd: str, kind: str) -> None:
    """No other exception, whatever the JSON holds."""
    odd = odd.replace('"deep"', DEEP)
    body = f"data: {odd}\n\ndata: [DONE]\n\n" if kind == "text/event-stream" else odd
    head = f"content-type: {kind}\r\ncontent-length: {len(body)}"
    found = await answered(body.encode(), head)
    assert isinstance(found, (ModelError, ModelAnswer))
