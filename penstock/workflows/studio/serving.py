"""Serve a studio until it is interrupted."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
import webbrowser
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import uvicorn

from penstock.workflows.studio.app import Studio
from penstock.workflows.studio.listening import IPV6, listening
from penstock.workflows.studio.settings import Settings, address_of, is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 2  # seconds for open connections at the end; then they are cut


def serve(settings: Settings, say: Callable[[str], None], *, browser: bool = False) -> None:
    """Serve a studio until Ctrl-C.

    Args:
        settings: its settings. Beyond loopback, a token is made if there is none.
        say: prints a line.
        browser: whether to open a browser.

    Raises:
        UsageError: the address cannot be listened on.
    """
    if settings.token is None and not is_loopback(settings.host):
        settings = replace(settings, token=secrets.token_urlsafe(32))
    studio = Studio(settings)
    with contextlib.closing(listening(settings.host, settings.port)) as listener:
        url = url_of(settings, listener.getsockname()[1])
        say(f"Penstock studio: {url}")
        say("Press Ctrl-C to stop.")
        if browser:
            threading.Timer(0.5, webbrowser.open, (url,)).start()
        config = uvicorn.Config(
            studio.app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
        )
        server = Server(config, studio)
        end_on_hangup(server)
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that ends its streams of events before it waits for open connections."""

    def __init__(self, config: uvicorn.Config, studio: Studio) -> None:
        super().__init__(config)
        self._studio = studio

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down."""
        self._studio.say_bye()
        await super().shutdown(sockets)


def end_on_hangup(server: uvicorn.Server) -> None:
    """Let the studio end as with Ctrl-C when its terminal is closed; with ``nohup`` it goes on."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is not signal.SIG_DFL:
        return

    def end(_number: int, _frame: object) -> None:
        server.should_exit = True

    signal.signal(hangup, end)


def url_of(settings: Settings, port: int) -> str:
    """Return the address to open, with the token if there is one."""
    address = address_of(settings.host)
    host = settings.host
    if address is not None and address.is_unspecified:
        host = socket.gethostname() if settings.allowed_hosts else "127.0.0.1"
    elif address is not None and address.version == IPV6:
        host = f"[{address}]"
    asked = {"token": settings.token, "review": None if settings.review is None else "1"}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return f"http://{host}:{port}/{f'?{query}' if query else ''}"
