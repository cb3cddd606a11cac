"""The command ``penstock mcp``: a proxy that guards an MCP server."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import sys
from typing import IO, TYPE_CHECKING, Any, cast

import anyio

from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import write_line
from penstock.workflows.loading import load_workflow
from penstock.workflows.studio.settings import is_loopback

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import TextIO

    from anyio.abc import TaskStatus

    from penstock.workflows.adapters.mcp import GuardProxy

TOKEN = "PENSTOCK_MCP_TOKEN"  # noqa: S105 - its name
"""The environment variable with the token that HTTP clients must send."""

_GRACE = 2  # seconds for open connections at the end; then they are cut
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def mcp(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Serve until the client or the server ends, or until Ctrl-C; return the exit code.

    Raises:
        CommandError: the arguments do not say one server, or it cannot be reached.
        MissingExtraError: the library that it is made with is not installed.
    """
    if (args.url is None) == (not args.server):
        raise CommandError("name one server: --url URL, or `--` and its command with arguments at the end")
    if args.header and args.url is None:
        raise CommandError("--header is for a server behind --url")
    from penstock.workflows.adapters.mcp import as_proxy

    options: dict[str, Any] = {"descriptions": args.descriptions, "on_block": args.on_block, "strict": not args.lenient}
    if args.listen is not None:
        options |= _listening(args)
    proxy = as_proxy(
        *[load_workflow(reference) for reference in args.workflow],
        server=args.server or args.url,
        env=os.environ,  # of a command that is meant to be started directly
        headers=_headers(args.header),
        **options,
    )
    if args.listen is not None:
        return _serve(proxy, args.listen, args.path)
    return anyio.run(_over_stdio, proxy, stdout)


def _headers(given: Iterable[str]) -> dict[str, str]:
    """Return headers by name; ``${NAME}`` is the environment variable of that name.

    Raises:
        CommandError: one is malformed, or there is no such variable.
    """
    made: dict[str, str] = {}
    for each in given:
        name, colon, value = each.partition(":")
        if not colon or not name.strip():
            raise CommandError("--header takes 'NAME: VALUE'")
        for variable in _VARIABLE.findall(value):
            if variable not in os.environ:
                raise CommandError(
                    f"--header {name.strip()} names the environment variable {variable}, which is not set"
                )
        made[name.strip()] = _VARIABLE.sub(lambda found: os.environ[found[1]], value).strip()
    return made


# Clients over stdio


async def _over_stdio(proxy: GuardProxy, stdout: IO[str]) -> int:
    served: list[bool] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:
        if sys.platform != "win32":
            await group.start(_end_on_signal, group.cancel_scope)
        try:
            served.append(await proxy.serve_stdio(stdout=cast("TextIO", stdout)))
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise _reported(failures[0])
    if not served:
        return Exit.INTERRUPTED
    if served[0]:
        return Exit.OK
    write_line("penstock: the server has closed the connection")
    return Exit.INCOMPLETE


async def _end_on_signal(scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    """End in order, so that the server ends, too."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


def _reported(error: BaseException) -> BaseException:
    """Return the error to raise for a failed connection, without a traceback."""
    from penstock.workflows.adapters.mcp.serving import first_of

    first = first_of(error)
    if isinstance(first, BrokenPipeError):
        return first  # the client does not read any more
    made = CommandError(f"the server cannot be started or reached: {first}")
    made.__cause__ = first
    return made


# Clients over HTTP


def _listening(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the proxy where it listens. Beyond this machine, clients need a token."""
    from penstock.workflows.adapters.mcp.serving import LOCAL_HOSTS

    host: str = args.listen[0]
    token = os.environ.get(TOKEN)
    made: dict[str, Any] = {"path": args.path}
    if not is_loopback(host):
        token = token or secrets.token_urlsafe(32)
        made["allowed_hosts"] = []  # the token protects from pages in a browser, too
    elif args.allow_host:
        made["allowed_hosts"] = [*LOCAL_HOSTS, *args.allow_host, *(f"{name}:*" for name in args.allow_host)]
    return made if token is None else {**made, "token": token}


def _serve(proxy: GuardProxy, where: tuple[str, int], path: str) -> int:
    import uvicorn

    host, port = where
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error}") from error
    with contextlib.closing(listener):
        shown = f"[{host}]" if ":" in host else host
        write_line(f"Penstock guards the server at http://{shown}:{listener.getsockname()[1]}{path}")
        if proxy.token is not None and TOKEN not in os.environ:
            write_line(f"Clients must send: Authorization: Bearer {proxy.token}")
        config = uvicorn.Config(
            proxy, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=_GRACE
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
    return Exit.OK
