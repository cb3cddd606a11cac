"""A Prefect server for the tests, with its database and its results in a folder; and all that they hold."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from base64 import b64decode
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.request import urlopen

from tests.workflows.durable.world import texts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def why_not() -> str:
    """Return why there can be no server; empty if there can."""
    if find_spec("prefect") is not None:
        return ""
    return "Prefect is not installed, so pydantic-ai's durability with it is not tested: pip install 'prefect>=3.9'"


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Run a server; yields the environment of its clients."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    ours = {"PREFECT_HOME": str(folder), "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
    env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")} | ours
    command = [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(f"{api}/health", server)
        yield {**env, "PREFECT_API_URL": api}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with suppress(OSError), urlopen(url, timeout=5):  # noqa: S310 - our own
            return
        assert server.poll() is None, "the server has ended; see its log"
        time.sleep(0.1)
    raise AssertionError("the server does not answer")


def held(folder: Path) -> list[bytes]:
    """Return all that the server's database and the stored results hold, pickles decoded."""
    found = texts(f"sqlite:///{folder}/prefect.db")
    for path in (folder / "storage").iterdir():
        found.append(path.read_bytes())
        with suppress(ValueError, TypeError, KeyError):
            found.append(b64decode(json.loads(found[-1])["result"]))
    return found
