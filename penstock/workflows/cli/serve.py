"""The command ``penstock serve``: a guarded endpoint in front of a provider, and keys for its clients."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import write_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from penstock.workflows.gateway.config.reading import GatewayDocument
    from penstock.workflows.gateway.config.sections import GatewaySection, LogSection


def serve(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Serve until SIGTERM or Ctrl-C, or only check the files, or make a key for a client; return the exit code.

    Raises:
        CommandError: the arguments do not fit together.
        MissingExtraError: the libraries that it is made with are not installed.
        PolicyError: a file has problems.
    """
    if args.new_key or args.hash_key:
        return _key(args, stdout)
    if any(find_spec(name) is None for name in ("aiohttp", "httptools", "starlette", "uvicorn")):
        raise MissingExtraError("penstock serve", "serve")
    read = _reader(args)
    from penstock.workflows.gateway.config.crosschecks import COMMAND_LINE
    from penstock.workflows.gateway.serving.gateway import Gateway
    from penstock.workflows.gateway.serving.server import serve as run
    from penstock.workflows.policies import PolicyError

    traces, observers = None, []
    if args.traces:
        from penstock.workflows.telemetry import OpenTelemetryObserver
        from penstock.workflows.telemetry.http_spans import HttpSpans

        traces, observers = HttpSpans(), [OpenTelemetryObserver()]
    try:
        gateway = Gateway(read, traces=traces, observers=observers)
    except PolicyError as error:
        own = [problem.message for problem in error.problems if problem.place.file == COMMAND_LINE]
        if len(own) < len(error.problems):
            raise
        raise CommandError("; ".join(own)) from None
    if args.check:
        count = len(gateway.routes.routes)
        stdout.write(f"{args.policy} is valid: {count} {'route' if count == 1 else 'routes'}\n")
        return Exit.OK
    _log_to_stderr(gateway.routes.section.log)
    run(gateway, write_line)
    return Exit.OK


def _reader(args: argparse.Namespace) -> Callable[[], GatewayDocument]:
    """Return the function that reads the gateway, now and when its files change.

    Raises:
        CommandError: the arguments name no gateway file, and no policy with an upstream.
    """
    from penstock.workflows.gateway.config.reading import gateway_of, is_gateway_file, read_gateway

    name: str | None = args.policy
    if name is None:
        raise CommandError("name a policy and --upstream URL, or a gateway file")
    if is_gateway_file(name):
        given = [option for option in _OF_POLICY if getattr(args, option) not in (None, [], False)]
        if given:
            options = ", ".join(f"--{option.replace('_', '-')}" for option in given)
            raise CommandError(f"{options}: a gateway file says that itself; write it there")
        return lambda: _with_options(read_gateway(name), args)
    if args.upstream is None and not args.checks_only:
        raise CommandError(f"--upstream is missing: the base URL of the provider behind {name}")
    section = _section(args, name)
    return lambda: gateway_of(section)


_OF_POLICY = ("upstream", "key_env", "keys", "shadow", "read_unknown", "anyone", "checks", "checks_only")
"""The options for a policy, which a gateway file has in itself."""


def _section(args: argparse.Namespace, policy: str) -> GatewaySection:
    """Return the gateway that the arguments say."""
    from penstock.workflows.gateway.config.kinds import fault_of_url
    from penstock.workflows.gateway.config.sections import (
        GatewaySection,
        KeysSection,
        ListenSection,
        LogSection,
        RouteSection,
        ShadowSection,
        UpstreamSection,
    )

    fault = None if args.upstream is None else fault_of_url(args.upstream)
    if fault is not None:
        raise CommandError(f"--upstream {fault}")
    if args.upstream is not None and args.checks_only:
        raise CommandError("--checks-only asks no provider; leave out --upstream, or write --checks")
    passes = args.key_env is None and args.keys is None
    upstream = UpstreamSection(url=args.upstream or "", key_env=args.key_env, pass_keys=passes)
    shadows = tuple(ShadowSection(policy=one) for one in args.shadow)
    return GatewaySection(
        gateway=1,
        policy=policy,
        unknown="read" if args.read_unknown else "refuse",
        listen=ListenSection(host=args.host or "127.0.0.1", port=8080 if args.port is None else args.port),
        upstreams={"upstream": upstream} if args.upstream else {},
        routes=(RouteSection(name="all", shadow=shadows),) if args.upstream else (),
        checks=policy if args.checks or args.checks_only else None,
        keys=None if args.keys is None else KeysSection(file=args.keys),
        anyone=args.anyone,
        log=LogSection(format=args.log_format or "text", records=args.records),
    )


def _with_options(document: GatewayDocument, args: argparse.Namespace) -> GatewayDocument:
    """Return a gateway file with the options of the command, which go before its own keys."""
    section = document.section
    listen = section.listen
    listen = replace(listen, host=args.host or listen.host, port=listen.port if args.port is None else args.port)
    log = replace(
        section.log, format=args.log_format or section.log.format, records=args.records or section.log.records
    )
    return replace(document, section=replace(section, listen=listen, log=log))


class _AsJson(logging.Formatter):
    """A line of JSON for each request, and for each message of the gateway."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        from penstock.workflows.gateway.served import Served

        served = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(served, Served):
            return served.as_json()
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": at, "level": record.levelname, "message": record.getMessage()}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


class _WithoutText(logging.Filter):
    """Shows exceptions of the server by their class only: their text may quote a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop the traceback."""
        if record.exc_info:
            kind = record.exc_info[0]
            record.msg = f"{record.getMessage().strip()}: {'' if kind is None else kind.__name__}"
            record.args, record.exc_info = (), None
        return True


def _log_to_stderr(section: LogSection) -> None:
    """Write the gateway's own messages and its access log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    is_json = section.format == "json"
    handler.setFormatter(_AsJson() if is_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    own = logging.getLogger("penstock.gateway")
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False
    logging.getLogger("uvicorn.error").addFilter(_WithoutText())
    if section.format == "none":
        logging.getLogger("penstock.gateway.access").setLevel(logging.WARNING)


def _key(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write a new key, and add its line to the file of hashes; without a file, or for a key on stdin, write the line.

    A new key alone goes to stdout: nobody can read it later.

    Raises:
        CommandError: the name or the key is not allowed.
    """
    from penstock.workflows.gateway.config.client_keys import line_of_key, new_key

    key = new_key() if args.new_key else sys.stdin.readline().strip()
    try:
        line = line_of_key(args.new_key or args.hash_key, key)
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not args.new_key:
        stdout.write(f"{line}\n")
        return Exit.OK
    if args.keys:
        _add_key(Path(args.keys), args.new_key, line)
    else:
        write_line(f"its line for the file of --keys: {line}")
    write_line(f"the key of {args.new_key}, shown this once:")
    stdout.write(f"{key}\n")
    return Exit.OK


def _add_key(path: Path, name: str, line: str) -> None:
    """Add the line of a key to the file of hashes, and say so; say also if the client has several keys now."""
    before = path.read_text("utf-8") if path.exists() else ""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n")
    path.chmod(0o600)
    write_line(f"added to {path}")
    held = sum(one.split()[:1] == [name] for one in before.splitlines()) + 1
    if held > 1:
        write_line(f"{name} has {held} keys now: remove the lines of those that are to end")
