"""Serve a gateway with uvicorn: limits for headers, drain at SIGTERM, reload at SIGHUP."""

from __future__ import annotations

import gc
import logging
import signal
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import uvicorn

from penstock.workflows.gateway.serving.protocol import GatewayProtocol
from penstock.workflows.studio.listening import listening

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from penstock.workflows.gateway.serving.gateway import Gateway

_LOG = logging.getLogger("penstock.gateway")

_LEAST_DRAIN = 0.3  # seconds in which new requests are told that the gateway shuts down, even if none is at work
_CUTTING = 1.0  # seconds in which streams that are cut get their last event


def serve(gateway: Gateway, say: Callable[[str], None]) -> None:
    """Serve a gateway until SIGTERM or Ctrl-C.

    Args:
        gateway: the gateway. Its file says where it listens.
        say: prints a line.

    Raises:
        UsageError: the address cannot be listened on.
    """
    section = gateway.routes.section
    listen = section.listen
    with closing(listening(listen.host, listen.port)) as listener:
        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        server = server_of(gateway)
        _read_at_hangup(gateway)  # before anybody knows the address: the signal would end the process
        _keep_started()
        say(f"Penstock gateway: http://{host}:{listener.getsockname()[1]}")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])


def _keep_started() -> None:
    """Exclude the objects of the start from garbage collection: they stay, and a full collection took 30 ms.

    The process serves the gateway and nothing else. An application that holds one decides this itself. Looking for
    garbage less often would spare a request 3 % of its time, but an open stream then took 6 to 13 kB more.
    """
    gc.collect()
    gc.freeze()


def _read_at_hangup(gateway: Gateway) -> None:
    """Read the files again at SIGHUP."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None:
        signal.signal(hangup, lambda _number, _frame: gateway.files.ask())


def server_of(gateway: Gateway) -> DrainingServer:
    """Return the server of a gateway, with the limits of its file."""
    limits = gateway.routes.section.limits
    config = uvicorn.Config(
        gateway,
        http=_protocol(limits.headers, limits.receive),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )
    return DrainingServer(config, gateway)


def _protocol(most: int, seconds: float) -> type[GatewayProtocol]:
    class Limited(GatewayProtocol):
        """The protocol with the limits of one gateway."""

        header_bytes = most
        header_seconds = seconds

    return Limited


class DrainingServer(uvicorn.Server):
    """A server that ends at SIGTERM without losing a request.

    New requests get 503 and `/readyz` says so, while those at work go on until they end, or until the limit ``drain``.
    A second signal ends it at once.

    Args:
        config: the options of uvicorn.
        gateway: the gateway.
    """

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._since: float | None = None
        self._is_over = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        if self._since is not None:
            super().handle_exit(sig, frame)
            return
        self._since = time.monotonic()
        self._gateway.counts.draining = True
        _LOG.info("the gateway drains: %d requests are at work", self._gateway.counts.open)

    async def on_tick(self, counter: int) -> bool:
        """Return whether the server ends now."""
        if self._since is not None:
            waited = time.monotonic() - self._since
            counts, limit = self._gateway.counts, self._gateway.routes.section.limits.drain
            if waited > limit and not self._is_over:
                self._is_over = True
                if counts.open:
                    _LOG.warning("%d requests did not end in time, and are cut", counts.open)
                for side in list(counts.sides):
                    side.shut()
            if (not counts.open and waited > _LEAST_DRAIN) or waited > limit + _CUTTING:
                self.should_exit = True
        return await super().on_tick(counter)
