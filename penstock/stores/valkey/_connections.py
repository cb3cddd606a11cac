"""Connections to Valkey: checked addresses, what errors mean, one pool for each event loop, scripts, and attempts.

This is the only module that imports valkey, and so asyncio. No error quotes the server's words: they may hold a key, an
argument or an address.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from importlib.util import find_spec
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import anyio

from penstock.engine.values.errors import MissingExtraError, OptionError, StorageError, UsageError
from penstock.stores.checks import HIDDEN

_IS_INSTALLED = find_spec("valkey") is not None

if TYPE_CHECKING or _IS_INSTALLED:
    from valkey import asyncio as client, exceptions as errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value, Values

SCHEMES = frozenset({"valkey", "valkeys", "redis", "rediss", "unix"})
"""The beginnings of addresses: with an ``s`` by TLS; ``unix`` for a socket."""

FIRST_WAIT = 0.02
LONGEST_WAIT = 1.0
"""The longest wait between two attempts, in seconds: waits double up to it, and are shortened by up to a half at
random."""


def check_url(owner: str, url: object) -> str:
    """Return the address of a server.

    Raises:
        OptionError: it is none. The error does not show it, since any part of it may be a password.
    """
    if isinstance(url, str):
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            parts = None
        if parts is not None and parts.scheme in SCHEMES and (parts.hostname or parts.path) and "@" not in parts.path:
            return url
    allowed = "a URL such as valkey://user:password@host:6379/0, its password percent-encoded"
    raise OptionError(owner, "url", HIDDEN, allowed)


class ServerScript:
    """A script for the server, run as one step. It reads the server's clock alone.

    Args:
        text: the script, in Lua.
    """

    __slots__ = ("digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class ValkeyServer:
    """Connections to one server, opened when needed, up to a limit for each event loop.

    Args:
        label: names the store in errors, without its address.
        url: the address.
        most: the largest number of connections.
        timeout: seconds to open a connection, to wait for a free one, and for one answer.
        retry_for: seconds after the first attempt in which new attempts begin.
        options: further options of `valkey.asyncio.Valkey`: ``ssl_ca_certs``, ``username`` …

    Raises:
        MissingExtraError: valkey is not installed.
    """

    def __init__(self, label: str, url: str, *, most: int, timeout: float, retry_for: float, options: Values) -> None:
        if not _IS_INSTALLED:
            raise MissingExtraError(label, "valkey")
        self._label = label
        self._url = url
        self._most = most
        self._timeout = timeout
        self._retry_for = retry_for
        self._options = options
        self._clients: dict[asyncio.AbstractEventLoop, client.Valkey] = {}

    async def run(self, script: ServerScript, keys: Sequence[str], *args: str | float | bytes) -> Value:
        """Return the answer of a script. It is run again if an answer was lost, so it must allow that.

        Raises:
            StorageError: it failed, or could not be run in time.
        """
        until = anyio.current_time() + self._retry_for
        wait = FIRST_WAIT
        while True:
            try:
                with anyio.fail_after(self._timeout):
                    return await self._attempt(script, keys, args)
            except (errors.ValkeyError, OSError, EOFError) as error:
                if anyio.current_time() + wait > until or not _is_temporary(error):
                    self._fail(error)
            await anyio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311 - so that waiting tasks do not retry at the same time
            wait = min(wait * 2, LONGEST_WAIT)

    async def _attempt(self, script: ServerScript, keys: Sequence[str], args: Sequence[str | float | bytes]) -> Value:
        server: Value = self._client()  # its own types know no bytes, and no awaitable
        try:
            return await server.evalsha(script.digest, len(keys), *keys, *args)
        except errors.NoScriptError:  # the server was started anew
            return await server.eval(script.text, len(keys), *keys, *args)

    def _client(self) -> client.Valkey:
        """Return the client of the running event loop; drop those of closed loops.

        Raises:
            UsageError: the event loop is not asyncio's.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(f"{self._label} runs on asyncio alone, like its driver, not on trio") from None
        found = self._clients.get(loop)
        if found is None:
            self._clients = {each: one for each, one in self._clients.items() if not each.is_closed()}
            options: dict[str, Value] = {
                "socket_timeout": self._timeout,
                "socket_connect_timeout": self._timeout,
                "client_name": "penstock",
                **self._options,
            }
            kind: Value = client.BlockingConnectionPool
            pool = kind.from_url(self._url, max_connections=self._most, timeout=self._timeout, **options)
            found = self._clients[loop] = client.Valkey.from_pool(pool)
        return found

    def _fail(self, error: Exception) -> NoReturn:
        """Raise the failure in words; the server's own words are left out."""
        raise StorageError(self._label, f"{_problem(error, self._timeout)} ({type(error).__name__})") from None

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        found = self._clients.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.aclose()

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle the address (with its password) and the options, without connections."""
        return {**vars(self), "_clients": {}}


def _is_temporary(error: BaseException) -> bool:
    """Tell whether the same script may succeed later: the server was away, starts, or became a replica."""
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return False
    kinds = (
        errors.ConnectionError,
        errors.TimeoutError,
        errors.ReadOnlyError,
        errors.TryAgainError,
        errors.ClusterDownError,
        errors.MasterDownError,
        OSError,
        EOFError,
    )
    return isinstance(error, kinds)


def _problem(error: BaseException, timeout: float) -> str:
    if isinstance(error, (TimeoutError, errors.TimeoutError)):
        return f"it took longer than {timeout:g} s (timeout=), or no connection was free (max_connections=)"
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError)):
        return "it refuses the user or the password"
    if isinstance(error, errors.NoPermissionError):
        return "the user lacks a right (scripts, and keys that begin with the prefix)"
    if isinstance(error, errors.OutOfMemoryError):
        return "it is out of memory"
    if isinstance(error, errors.ReadOnlyError):
        return "it is a replica, and read-only"
    if isinstance(error, errors.MovedError):
        return "it is a node of a cluster; give the address of one server"
    if isinstance(error, (errors.ConnectionError, OSError, EOFError)):
        return "it cannot be reached, or the connection broke"
    return "it refused a script"
