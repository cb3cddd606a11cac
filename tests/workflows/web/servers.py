"""The handlers of docs/web.md on real servers, with an agent of the test's own."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Agent

PAGE = Path(__file__).parents[3] / "docs" / "web.md"
PATH = "v1/chat/completions"


def handler(framework: str) -> dict[str, Any]:
    """The names of the page's handler for a framework; skips if the framework is missing."""
    blocks = [block.partition("```")[0] for block in PAGE.read_text("utf-8").split("```python\n")[1:]]
    own = next(block for block in blocks if f"# With {framework}\n" in block)
    code = f"{blocks[0]}\n{own}" if own.startswith("# Continues") else own
    names: dict[str, Any] = {"__name__": "__page__"}
    exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    return names


@contextmanager
def on_uvicorn(app: Callable[..., object]) -> Iterator[str]:
    """An ASGI application on a port of its own."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def _starlette(names: dict[str, Any]) -> AbstractContextManager[str]:
    return on_uvicorn(names["app"])


def _django(names: dict[str, Any]) -> AbstractContextManager[str]:
    import django
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.core.handlers.asgi import ASGIHandler
    from django.urls import clear_url_caches, path, set_urlconf

    urls = sys.modules["penstock_test_urls"] = types.ModuleType("penstock_test_urls")
    urls.urlpatterns = [path(PATH, names["chat"])]  # type: ignore[attr-defined]
    if not settings.configured:
        settings.configure(ROOT_URLCONF="penstock_test_urls", ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None)
        django.setup()
    clear_url_caches()
    set_urlconf(None)
    app: ASGIHandler = get_asgi_application()
    return on_uvicorn(app)


@contextmanager
def _aiohttp(names: dict[str, Any]) -> Iterator[str]:
    from aiohttp import web

    loop, begun, addresses = asyncio.new_event_loop(), threading.Event(), list[str]()
    stop = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(names["app"], handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        addresses.append("http://{}:{}".format(*runner.addresses[0][:2]))
        begun.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    begun.wait(10)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


@contextmanager
def _flask(names: dict[str, Any]) -> Iterator[str]:
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        """Writes no log."""

        def log(self, *args: object) -> None:
            """Do nothing."""

    server = make_server("127.0.0.1", 0, names["app"], threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


SERVERS: dict[str, tuple[str, Callable[[dict[str, Any]], AbstractContextManager[str]]]] = {
    "Starlette": ("starlette", _starlette),
    "FastAPI": ("fastapi", _starlette),
    "Django": ("django", _django),
    "aiohttp": ("aiohttp", _aiohttp),
    "Flask": ("flask", _flask),
}
"""For each framework its package, and how its handler is served."""


@contextmanager
def served(framework: str, agent: Agent) -> Iterator[str]:
    """The address of the page's service, with this agent."""
    package, serve = SERVERS[framework]
    pytest.importorskip(package, reason=f"the handler for {framework} is not tested: {package} is not installed")
    names = handler(framework)
    names["agent"] = agent
    with serve(names) as url:
        yield url
