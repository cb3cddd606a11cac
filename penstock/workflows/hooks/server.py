"""The warm server of hooks: ``python -m penstock.workflows.hooks.server``, or ``penstock hook --serve``.

It listens on a Unix socket that only its user can open, holds the loaded policies and the sessions, and ends when no
hook has called for a while.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream

from penstock.workflows.hooks.answering import PRODUCTS, answer
from penstock.workflows.hooks.client import LIMIT, VERSION, socket_path
from penstock.workflows.hooks.cold import checked
from penstock.workflows.hooks.decisions import HookAnswer, HookInputError
from penstock.workflows.hooks.policies import HookPolicies

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus


IDLE = 3600.0
"""Seconds without a call after which the server ends by default."""

_LONGEST_HEAD = 65_536
_LOOK = 60.0  # seconds
_FIELDS = 8
_log = logging.getLogger(__name__)


def serve(*, idle: float = IDLE, announce: Callable[[str], object] | None = None) -> bool:
    """Serve until no hook has called for a while, or until a signal; return whether this process was the server.

    Args:
        idle: seconds without a call after which it ends; 0: never.
        announce: is called with the path of the socket once it listens.

    Raises:
        ClientError: the folder of the socket is not private.
    """
    path = Path(socket_path())
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        path.unlink(missing_ok=True)
        try:
            anyio.run(_Server(idle).run, path, announce)
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)
    return True


class _Server:
    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._policies = HookPolicies()
        self._last = 0.0
        self._busy = 0

    async def run(self, path: Path, announce: Callable[[str], object] | None) -> None:
        """Listen, and answer calls."""
        self._last = anyio.current_time()
        before = os.umask(0o177)  # the file is made by bind, which takes no mode
        try:
            listener = await anyio.create_unix_listener(path, mode=0o600)
        finally:
            os.umask(before)
        if announce is not None:
            announce(str(path))
        async with listener, anyio.create_task_group() as group:
            await group.start(_end_on_signal, group.cancel_scope)
            group.start_soon(self._end_when_idle, path, group.cancel_scope)
            await listener.serve(self._serve, group)

    async def _end_when_idle(self, path: Path, scope: anyio.CancelScope) -> None:
        """End when no hook has called for a while, or when none can any more, because the socket was removed."""
        while True:
            left = self._last + self._idle - anyio.current_time() if self._idle else _LOOK
            gone = not await anyio.to_thread.run_sync(path.exists)
            if (left <= 0 or gone) and not self._busy:
                scope.cancel()
            await anyio.sleep(min(max(left, 0.1), _LOOK))

    async def _serve(self, stream: SocketStream) -> None:
        self._last = anyio.current_time()
        self._busy += 1
        try:
            async with stream:
                if not _is_own(stream):
                    return
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ValueError):
                    made = await self._answer(*await _received(stream))
                    sizes = f"{made.code} {len(made.out)} {len(made.err)}\n".encode()
                    await stream.send(sizes + made.out + made.err)
        finally:
            self._busy -= 1
            self._last = anyio.current_time()

    async def _answer(self, fields: list[str], payload: bytes) -> HookAnswer:
        _, product, reference, on_failure, folder, profile, unread, hold = fields

        async def check() -> HookAnswer:
            if product not in PRODUCTS:
                raise HookInputError(f"there is no product {product}")
            guard = self._policies.guard(product, reference, folder=folder, profile=profile, unread=unread)
            return await answer(PRODUCTS[product], payload, guard, holds_output=bool(hold))

        made = await checked(product, payload, fails_open=on_failure == "open", check=check)
        if made.err:
            _log.info("%s: %s", product, made.err.decode("utf-8", "replace").strip())
        return made


async def _received(stream: SocketStream) -> tuple[list[str], bytes]:
    """Return the fields and the JSON of a call.

    Raises:
        ValueError: it is no call of a client of this version.
        EndOfStream: the client has gone.
    """
    got = bytearray()
    while b"\n" not in got:
        got += await stream.receive()
        if len(got) > _LONGEST_HEAD and b"\n" not in got[:_LONGEST_HEAD]:
            raise ValueError
    line, _, rest = bytes(got).partition(b"\n")
    head, size = map(int, line.split())
    if not 0 <= head <= _LONGEST_HEAD or not 0 <= size <= LIMIT:
        raise ValueError
    parts, length = [rest], len(rest)
    while length < head + size:
        parts.append(await stream.receive(1 << 20))
        length += len(parts[-1])
    whole = b"".join(parts)
    fields = whole[:head].decode("utf-8", "surrogateescape").split("\0")
    if len(fields) != _FIELDS or fields[0] != VERSION:
        raise ValueError
    return fields, whole[head : head + size]


def _is_own(stream: SocketStream) -> bool:
    """Return whether the client is a process of this user, as far as the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the mode of the socket keeps others out
    own = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - this is no query of Django
    found = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", found)
    return bool(user == os.getuid())


async def _end_on_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    serve()
    sys.exit(0)
