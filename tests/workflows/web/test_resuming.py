"""Clients that lose their connection and come back: real servers, real HTTP, every event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from penstock import Agent, Chunk, Context, TextGuard
from penstock.testing import ScriptedModel
from penstock.workflows.web import (
    AGUIEncoder,
    ChatCompletionsEncoder,
    ReleasedLog,
    ResponsesEncoder,
    ResumableResponse,
    ResumedResponse,
    UIMessagesEncoder,
    ag_ui,
    chat_completions,
    responses,
    ui_messages,
)
from penstock.workflows.web.sse import HEADERS
from tests.listening import listening
from tests.workflows.web.answers import guarded_agent

pytestmark = pytest.mark.anyio
ENCODERS: dict[str, tuple[ModuleType, Callable[[], Any]]] = {
    "chat completions": (chat_completions, lambda: ChatCompletionsEncoder("guarded")),
    "responses": (responses, lambda: ResponsesEncoder("guarded")),
    "AI SDK": (ui_messages, UIMessagesEncoder),
    "AG-UI": (ag_ui, AGUIEncoder),
}


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are on this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def anyio_backend() -> str:
    """The server is uvicorn, which is asyncio's."""
    return "asyncio"


class Gated:
    """An answer of events that the test lets go one by one, and which tells when it is closed."""

    def __init__(self) -> None:
        self.closed = anyio.Event()
        self._send, self._receive = anyio.create_memory_object_stream[bytes](100)

    def say(self, *events: str) -> None:
        """Let events go."""
        for event in events:
            self._send.send_nowait(f"data: {event}\n\n".encode())

    def end(self) -> None:
        """End the answer."""
        self._send.close()

    async def body(self) -> AsyncGenerator[bytes]:
        """The answer."""
        try:
            async for piece in self._receive:
                yield piece
        finally:
            self.closed.set()
            self._receive.close()
            self._send.close()


@asynccontextmanager
async def service(
    log: ReleasedLog, answer: Callable[[], tuple[AsyncGenerator[bytes], Any]]
) -> AsyncIterator[httpx.AsyncClient]:
    """A service with a resumable answer at ``/chat``; clients come back by GET there, or to ``/chat/streams/ID``."""

    async def chat(request: Request) -> ResumableResponse | ResumedResponse:
        owner = request.headers.get("x-user", "")
        if request.method == "GET":
            return ResumedResponse(log, request.path_params.get("id", ""), owner=owner)
        return ResumableResponse(*answer(), log, owner=owner)

    app = Starlette(
        routes=[Route("/chat", chat, methods=["GET", "POST"]), Route("/chat/streams/{id}", chat, methods=["GET"])]
    )
    async with (
        listening(app) as url,
        httpx.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=10, trust_env=False) as client,
    ):
        yield client


async def events_of(response: httpx.Response, most: int = 1_000) -> list[str]:
    """The events of a response, up to a count of them."""
    got: list[str] = []
    held = ""
    async for text in response.aiter_text():
        *whole, held = (held + text).split("\n\n")
        got += whole
        if len(got) >= most:
            return got[:most]
    assert not held
    return got


def last_id(events: list[str]) -> str:
    """The id of the last event."""
    return events[-1].rpartition("\nid: ")[2]


async def rest(client: httpx.AsyncClient, after: str, **headers: str) -> list[str]:
    """The events behind an event."""
    response = await client.get("/chat", headers={"Last-Event-ID": after, **headers})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return response.text.split("\n\n")[:-1]


@pytest.mark.rest
@pytest.mark.parametrize(("form", "step"), [("AI SDK", 1), ("AG-UI", 2), ("chat completions", 2), ("responses", 4)])
async def test_a_client_that_is_cut_at_any_event_gets_the_rest(form: str, step: int):
    module, encoder = ENCODERS[form]

    def answer() -> tuple[AsyncGenerator[bytes], Any]:
        return module.stream(guarded_agent().stream("Hi"), encoder()), module.HEADERS

    async with service(ReleasedLog(), answer) as client:
        count, cut = 0, 0
        while cut <= count:
            async with client.stream("POST", "/chat") as first:
                stream = first.headers["x-penstock-stream"]
                got = await events_of(first, cut) if cut else []
            whole = (await client.get(f"/chat/streams/{stream}")).text.split("\n\n")[:-1]
            count = len(whole)
            if cut < count:
                got += await rest(client, last_id(got) if got else f"{stream}/0")
            assert got == whole
            assert [event.rpartition("/")[2] for event in whole] == [str(number) for number in range(1, count + 1)]
            assert "ada@" not in "".join(whole)
            cut += step
        assert count > 5


async def test_a_client_follows_the_stream_live_after_what_it_missed():
    answer = Gated()
    async with service(ReleasedLog(), lambda: (answer.body(), HEADERS)) as client:
        answer.say("1")
        async with client.stream("POST", "/chat") as first:
            got = await events_of(first, 1)
        answer.say("2")
        async with (
            client.stream("GET", "/chat", headers={"Last-Event-ID": last_id(got)}) as second,
            client.stream("GET", "/chat", params={"after": last_id(got)}) as third,
        ):
            pieces = second.aiter_text()
            assert (await anext(pieces)).startswith("data: 2\n")
            answer.say("3")
            assert (await anext(pieces)).startswith("data: 3\n")
            answer.end()
            assert [piece async for piece in pieces] == []
            assert [event[:7] for event in await events_of(third)] == ["data: 2", "data: 3"]


async def test_the_request_ends_when_nobody_comes_back_within_the_grace():
    answer = Gated()
    async with service(ReleasedLog(grace=0.01), lambda: (answer.body(), HEADERS)) as client:
        answer.say("1")
        async with client.stream("POST", "/chat") as first:
            got = await events_of(first, 1)
        with anyio.fail_after(60):
            await answer.closed.wait()
        gone = await client.get("/chat", headers={"Last-Event-ID": last_id(got)})
        assert gone.status_code == 410
        assert gone.json()["error"]["code"] == "stream_gone"


async def test_only_the_owner_may_come_back():
    answer = Gated()
    answer.say("1")
    answer.end()
    async with service(ReleasedLog(), lambda: (answer.body(), HEADERS)) as client:
        first = await client.post("/chat", headers={"x-user": "ada"})
        stream = first.headers["x-penstock-stream"]
        assert (await client.get(f"/chat/streams/{stream}", headers={"x-user": "bob"})).status_code == 404
        assert await rest(client, f"{stream}/0", **{"x-user": "ada"}) == [f"data: 1\nid: {stream}/1"]
        done = await client.get(f"/chat/streams/{stream}", params={"after": 1}, headers={"x-user": "ada"})
        assert (done.status_code, done.content) == (204, b"")


async def test_an_unknown_stream_is_404():
    async with service(ReleasedLog(), _no_answer) as client:
        for after in ("", "nonsense", "never/1", "never/²"):
            unknown = await client.get("/chat", params={"after": after})
            assert unknown.status_code == 404
            assert "send the request again" in unknown.json()["error"]["message"]


def _no_answer() -> tuple[AsyncGenerator[bytes], Any]:
    raise AssertionError("nobody asked")


class NoHerons(TextGuard):
    """Blocks what names a heron."""

    reach = 6

    def find(self, text: str, ctx: Context, *, final: bool) -> list[object]:
        """Block."""
        if "heron" in text:
            ctx.abort("has a codename")
        return []


async def test_the_log_holds_what_was_sent_and_its_retraction_and_nothing_that_was_blocked():
    agent = Agent(ScriptedModel([{"deltas": ["All is well here. ", "The her", "on lands."]}]), processors=[NoHerons()])

    def answer() -> tuple[AsyncGenerator[bytes], Any]:
        return ui_messages.stream(agent.stream("Hi"), UIMessagesEncoder()), ui_messages.HEADERS

    async with service(ReleasedLog(), answer) as client:
        first = await client.post("/chat")
        again = await client.get(f"/chat/streams/{first.headers['x-penstock-stream']}")
    assert again.text == first.text
    assert "All is well" in again.text
    assert "data-retract" in again.text
    assert "content-filter" in again.text
    assert "her" not in again.text.replace("here", "").replace("other", "")
    assert again.headers["x-vercel-ai-ui-message-stream"] == "v1"


async def test_a_failing_answer_leaves_its_neutral_error_to_those_who_come_back():
    async def failing() -> AsyncGenerator[Chunk]:
        yield Chunk("text-delta", "Hello", "1")
        raise OSError("host db-7")

    def answer() -> tuple[AsyncGenerator[bytes], Any]:
        return chat_completions.stream(failing(), ChatCompletionsEncoder("guarded")), chat_completions.HEADERS

    async with service(ReleasedLog(), answer) as client:
        first = await client.post("/chat")
        again = await client.get("/chat", params={"after": first.headers["x-penstock-stream"] + "/1"})
    assert "The request failed" in again.text
    assert "db-7" not in again.text


@pytest.mark.rest
async def test_openai_s_client_reads_a_resumable_stream():
    import openai

    agent = guarded_agent()

    def answer() -> tuple[AsyncGenerator[bytes], Any]:
        return chat_completions.stream(agent.stream("Hi"), ChatCompletionsEncoder("guarded")), chat_completions.HEADERS

    log = ReleasedLog()

    async def chat(request: Request) -> ResumableResponse:
        return ResumableResponse(*answer(), log)

    app = Starlette(routes=[Route("/chat/completions", chat, methods=["POST"])])
    async with (
        listening(app) as url,
        openai.AsyncOpenAI(base_url=url.removesuffix("/mcp"), api_key="k", max_retries=0) as client,
    ):
        stream = await client.chat.completions.create(
            model="guarded", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text == "Ask [EMAIL]"
