"""Whether the handlers of docs/web.md work: real servers, real HTTP, and the official client."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import httpx
import openai
import pytest

from penstock import Agent, Chunk, Context, TextGuard
from penstock.engine.values.errors import ModelError
from penstock.testing import ScriptedModel
from tests.workflows.web.answers import guarded_agent
from tests.workflows.web.servers import PATH, SERVERS, served

HI = [{"role": "user", "content": "Hi"}]
MAIL = {"type": "function", "function": {"name": "mail", "parameters": {"type": "object", "properties": {}}}}
each_framework = pytest.mark.parametrize("framework", SERVERS)
each_async = pytest.mark.parametrize("framework", [name for name in SERVERS if name != "Flask"])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are on this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Waiting:
    """A model that says one word, then nothing, or one word after the other; it tells when it is begun and closed."""

    name = "waiting"

    def __init__(self, *, silent: bool) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()
        self._silent = silent

    async def stream(self, request: object) -> AsyncIterator[Chunk]:
        """Stream the answer, which does not end."""
        self.begun.set()
        try:
            yield Chunk("text-delta", "Hello. ", "1")
            while self._silent:
                await anyio.sleep_forever()
            while True:
                await anyio.lowlevel.checkpoint()
                yield Chunk("text-delta", "And so on. " * 100, "1")
        finally:
            self.closed.set()


class Failing:
    """A model whose provider fails after the first word."""

    name = "internal-model-7"

    def __init__(self, *, late: bool) -> None:
        self._late = late

    async def stream(self, request: object) -> AsyncIterator[Chunk]:
        """Fail."""
        if self._late:
            yield Chunk("text-delta", "Hello. ", "1")
        raise ModelError(self.name, "host db-7 refused the key sk-123", status=500, body="secret body")


class NoHerons(TextGuard):
    """Blocks what names a heron."""

    reach = 6

    def find(self, text: str, ctx: Context, *, final: bool) -> list[object]:
        """Block, with a reason that says too much."""
        if "heron" in text:
            ctx.abort("the codename heron was named", metadata={"rule": "codenames-12"})
        return []


@each_framework
def test_the_official_client_gets_streamed_and_whole_answers(framework: str) -> None:
    """With a tool of its own; the secrets in text and arguments are hidden."""
    for streamed in (True, False):
        with served(framework, guarded_agent()) as url, openai.OpenAI(api_key="k", base_url=f"{url}/v1") as client:
            if streamed:
                with client.chat.completions.stream(model="m", messages=HI, tools=[MAIL]) as stream:
                    answer = stream.get_final_completion()
            else:
                answer = client.chat.completions.create(model="m", messages=HI, tools=[MAIL])
        choice = answer.choices[0]
        assert (choice.message.content, choice.finish_reason, answer.model) == ("Ask [EMAIL]", "tool_calls", "m")
        assert json.loads(choice.message.tool_calls[0].function.arguments) == {"to": "[EMAIL]"}


@each_framework
def test_a_malformed_request_is_the_clients_fault(framework: str) -> None:
    """It gets to know where and why."""
    body = {"model": "m", "messages": [{"role": "wizard", "content": "Hi"}]}
    with served(framework, guarded_agent()) as url:
        told = httpx.post(f"{url}/{PATH}", json=body, trust_env=False)
    assert told.status_code == 400
    assert told.json()["error"]["message"].startswith("messages[0].role")
    assert "wizard" not in told.text


@each_framework
def test_a_verdict_tells_an_attacker_nothing(framework: str) -> None:
    """Whether it comes before, within or without a stream."""
    for model, question in ((["A he", "ron."], "Hi"), (["Hi."], "What is a heron?")):
        agent = Agent(ScriptedModel([{"deltas": model}], repeat_last=True), processors=[NoHerons()])
        with served(framework, agent) as url:
            for streamed in (True, False):
                body = {"model": "m", "stream": streamed, "messages": [{"role": "user", "content": question}]}
                told = httpx.post(f"{url}/{PATH}", json=body, trust_env=False)
                assert told.status_code == 200
                assert "content_filter" in told.text
                assert not [word for word in ("heron", "rule", "codename", "Heron", "tripwire") if word in told.text]


@each_framework
@pytest.mark.parametrize("late", [True, False])
def test_an_error_of_the_model_tells_nothing_internal(
    framework: str, caplog: pytest.LogCaptureFixture, *, late: bool
) -> None:
    """It is in the log of the service."""
    with served(framework, Agent(Failing(late=late))) as url:
        body = {"model": "m", "messages": HI}
        with caplog.at_level(logging.ERROR):
            told = httpx.post(f"{url}/{PATH}", json={**body, "stream": True}, trust_env=False)
        assert '"error"' in told.text
        [logged] = [record.getMessage() for record in caplog.records if record.name == "penstock.web"]
        assert "ModelError" in logged
        assert not [word for word in ("db-7", "sk-123") if word in logged]
        caplog.clear()
        whole = httpx.post(f"{url}/{PATH}", json=body, trust_env=False)
        assert whole.status_code == 500
    for text in (told.text, whole.text):
        assert not [word for word in ("db-7", "sk-123", "secret", "internal-model", "ModelError") if word in text]


@each_async
def test_a_client_that_leaves_ends_a_silent_request(framework: str) -> None:
    """The stream of the model is closed."""
    model = Waiting(silent=True)
    with served(framework, Agent(model)) as url:
        _read_one_event(url)
        assert model.closed.wait(60)


@each_framework
def test_a_client_that_leaves_ends_a_busy_request(framework: str) -> None:
    """The stream of the model is closed, also while the server is sending."""
    model = Waiting(silent=False)
    with served(framework, Agent(model)) as url:
        _read_one_event(url)
        assert model.closed.wait(60)


@each_async
def test_a_client_that_leaves_ends_a_whole_request(framework: str) -> None:
    """Of which nothing was sent yet."""
    model = Waiting(silent=True)
    with served(framework, Agent(model)) as url:
        body = json.dumps({"model": "m", "messages": HI}).encode()
        head = f"POST /{PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port)) as connection:
            connection.sendall(head + body)
            assert model.begun.wait(60)
        assert model.closed.wait(60)


def _read_one_event(url: str) -> None:
    body = {"model": "m", "messages": HI, "stream": True}
    with httpx.stream("POST", f"{url}/{PATH}", json=body, trust_env=False) as response:
        first = next(line for line in response.iter_lines() if line.startswith("data:"))
    assert json.loads(first.removeprefix("data:"))["choices"][0]["delta"]["content"] == "Hello. "
