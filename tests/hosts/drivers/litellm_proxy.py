"""LiteLLM's proxy: a client that speaks OpenAI's protocol with it, over HTTP, and runs tools itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.hosts.drivers.litellm import PROVIDER, spec  # isort: skip - sets what litellm reads when it is imported

import httpx
import litellm
import uvicorn
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

from penstock.workflows.adapters.litellm import as_guardrail
from tests.hosts import cases, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.contract import Job, Seen, strings

NAME = "LiteLLM's proxy"
PACKAGE = "litellm"
EXTRA = "litellm"
ADAPTER = "litellm"
REQUIRES = ("litellm[proxy]",)

_ONCE = "a guardrail has no place to request an answer again"
_ALONE = "to a gateway, each model call is a request of its own"
_CLIENT = "the client runs the tools"
LACKS: dict[str, str] = {
    "retry with feedback": _ONCE,
    "retries used up": _ONCE,
    "retry after a tool": _ONCE,
    "tools of a rejected answer": _ONCE,
    "error of the model repeated": _ONCE,
    "state kept": _ALONE,
    "step changed for the model": _ALONE,
    "answer in the tool's place": _CLIENT,
}

CONFIG = """
model_list: [{model_name: "scripted/*", litellm_params: {model: "scripted/*"}}]
general_settings: {cancel_on_disconnect: true}
router_settings: {num_retries: 0}
"""
for name in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
    logging.getLogger(name).setLevel(logging.CRITICAL)


class Failures(CustomLogger):
    """Notes the error of each request, as the proxy tells it to the callbacks of whoever runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, Exception] = {}

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, *args: Any, **kwargs: Any
    ) -> None:
        """Note it."""
        self.errors[request_data["model"]] = original_exception


FAILURES = Failures()


_configured: list[str] = []


async def configure(config: str = CONFIG, folder: Path | None = None) -> None:
    """Give the proxy of this process a configuration, unless it has it already."""
    if _configured == [config]:
        return
    with TemporaryDirectory() as made:
        path = Path(folder or made) / "config.yaml"
        path.write_text(config, "utf-8")
        await proxy_server.initialize(config=str(path))
    _configured[:] = [config]


@asynccontextmanager
async def proxy(config: str = CONFIG, folder: Path | None = None) -> AsyncIterator[str]:
    """Run the proxy in this event loop, and give its address."""
    await configure(config, folder)
    options = uvicorn.Config(
        proxy_server.app, "127.0.0.1", 0, lifespan="off", log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(options)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for that
            await asyncio.sleep(0)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await asyncio.wait([running, *server.server_state.tasks])


async def run(job: Job) -> Seen:
    """Run one request."""
    seen, messages = Seen(), [*(job.earlier or ()), {"role": "user", "content": job.text}]
    key = str(id(seen))
    PROVIDER.jobs[key] = (job, seen, iter(job.script))
    guards = [as_guardrail(*job.guards, **job.options)(guardrail_name=key, default_on=False)] if job.guards else []
    litellm.callbacks += [FAILURES, *guards] if FAILURES not in litellm.callbacks else guards
    asked: dict[str, Any] = {"model": f"scripted/{key}", "stream": job.streamed}
    if job.tools:
        asked["tools"] = [spec(function) for function in job.tools]
    if job.output_type is not None:
        schema = {"name": "answer", "schema": job.output_type.model_json_schema()}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    if guards:
        asked["guardrails"] = [key]
    try:
        async with proxy() as address, httpx.AsyncClient(base_url=address, timeout=10) as client:
            text = await loop(job, seen, client, asked, messages)
    except Exception as error:  # noqa: BLE001 - what the user gets
        seen.error, seen.memory = error, messages
        told = FAILURES.errors.pop(asked["model"], None)
        error.__cause__ = told  # what the proxy tells to whoever runs it
        seen.tripwire = getattr(told, "tripwire", None)
        return seen
    finally:
        litellm.callbacks = [each for each in litellm.callbacks if each not in guards]
        del PROVIDER.jobs[key]
    seen.output = text if job.output_type is None else job.output_type(**json.loads(text))
    seen.memory = messages
    return seen


async def loop(job: Job, seen: Seen, client: httpx.AsyncClient, asked: dict[str, Any], messages: list[Any]) -> str:
    """Call the proxy and the tools until it answers without a call. The history is what the client got to store."""
    tools = {function.__name__: function for function in job.tools}
    while True:
        message = await answer(seen, client, {**asked, "messages": messages})
        messages.append(message)
        seen.history += strings(message)
        if not message.get("tool_calls"):
            return str(message.get("content") or "")
        for call in message["tool_calls"]:
            said = tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


async def answer(seen: Seen, client: httpx.AsyncClient, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the message of one answer."""
    if not asked["stream"]:
        response = await client.post("/chat/completions", json=asked)
        response.raise_for_status()
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return {name: value for name, value in message.items() if value is not None}
    message = {"role": "assistant", "content": ""}
    async with client.stream("POST", "/chat/completions", json=asked) as response:
        async for line in response.aiter_lines():
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    raise httpx.HTTPStatusError(line, request=response.request, response=response)
                for choice in event["choices"]:
                    add(seen, message, choice["delta"])
            elif line.startswith("{"):
                raise httpx.HTTPStatusError(line, request=response.request, response=response)
        response.raise_for_status()
    return message


def add(seen: Seen, message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece to a message."""
    if delta.get("content"):
        seen.shown.append(delta["content"])
        message["content"] += delta["content"]
    seen.events += strings({**delta, "content": ""})
    for call in delta.get("tool_calls") or ():
        calls = message.setdefault("tool_calls", [])
        if call["index"] == len(calls):
            calls.append({"id": call["id"], "type": "function", "function": {**call["function"]}})
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
