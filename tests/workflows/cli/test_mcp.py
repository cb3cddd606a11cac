"""The command `penstock mcp`: what it serves, what it refuses, and that nothing is left when it ends."""

from __future__ import annotations

import builtins
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.cli.ctrl_c import heed_ctrl_c

pytest.importorskip("mcp")

import anyio
import httpx2
from mcp import Client, StdioServerParameters

import penstock
from penstock.workflows.cli import main
from penstock.workflows.cli.mcp import _headers

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

ROOT = Path(penstock.__file__).parents[1]
SERVER = [sys.executable, str(Path(__file__).parents[1] / "adapters" / "mcp_server.py")]
COMMAND = [sys.executable, "-m", "penstock", "mcp"]
GUARDS = """
from penstock import PIIDetector, Processor
print("loaded")
guard = PIIDetector(redaction_method="placeholder")
class OfInput(Processor):
    role = "guard"
    def process_input(self, ctx): ...
of_input = OfInput()
"""


@pytest.fixture
def anyio_backend() -> str:
    """Processes of the tests run on asyncio."""
    return "asyncio"


@pytest.fixture
def guards(tmp_path: Path) -> str:
    """A file with workflows."""
    path = tmp_path / "guards.py"
    path.write_text(GUARDS)
    return str(path)


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Return what a command says that is refused."""
    assert main(["mcp", *argv]) == 2
    return capsys.readouterr().err


def test_without_its_library_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], guards: str
) -> None:
    """It is not imported before the command runs."""
    own = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "mcp":
            raise ImportError(name)
        return own(name, *rest)

    for name in [name for name in sys.modules if name.startswith("penstock.workflows.adapters.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'penstock[mcp]'" in refused(capsys, "-w", guards + ":guard", "--", "x")


def test_what_is_refused(capsys: pytest.CaptureFixture[str], guards: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what to do."""
    guard = ("-w", f"{guards}:guard")
    assert "--workflow" in refused(capsys, "--", "x")
    assert "name one server" in refused(capsys, *guard)
    assert "name one server" in refused(capsys, *guard, "--url", "http://x", "--", "x")
    assert "a URL" in refused(capsys, *guard, "--url", "x")
    assert "--header is for" in refused(capsys, *guard, "--header", "a: b", "--", "x")
    assert "NAME: VALUE" in refused(capsys, *guard, "--url", "http://x", "--header", "a")
    assert "NO_SUCH_NAME, which is not set" in refused(
        capsys, *guard, "--url", "http://x", "--header", "a: ${NO_SUCH_NAME}"
    )
    assert "HOST:PORT" in refused(capsys, *guard, "--listen", "here", "--", "x")
    assert "cannot load" in refused(capsys, "-w", "no.such:thing", "--", "x")
    assert "process_input of of-input" in refused(capsys, "-w", f"{guards}:of_input", "--", "x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot listen on" in refused(capsys, *guard, "--listen", f"127.0.0.1:{port}", "--", "x")
    monkeypatch.setenv("A_KEY", "k")
    assert _headers(["Authorization: Bearer ${A_KEY}", "x:y"]) == {"Authorization": "Bearer k", "x": "y"}


@pytest.mark.rest
def test_a_server_that_cannot_be_started_or_reached(guards: str) -> None:
    """The exit code says so, and one line says why."""
    for server in (["--", "no-such-command-anywhere"], ["--url", "http://127.0.0.1:9/mcp"]):
        asked = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}\n'
        with subprocess.Popen(
            [*COMMAND, "-w", f"{guards}:guard", *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            assert process.stdin is not None
            process.stdin.write(asked)
            process.stdin.flush()  # and it stays open: the command ends nevertheless
            assert process.wait(60) == 2
            assert process.stdout is not None
            assert b'"id":1' in process.stdout.read()
            assert process.stderr is not None
            assert b"the server cannot be started or reached" in process.stderr.read()


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.rest), "auto"])
async def test_a_client_over_stdio(guards: str, mode: str) -> None:
    """As it stands in the settings of a client; the server has the environment of the command."""
    parameters = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "-w", f"{guards}:guard", "--", *SERVER],
        env={"PYTHONPATH": str(ROOT), "A_NAME": "a value"},
    )
    async with Client(parameters, mode=mode) as client:
        told = await client.call_tool("lookup", {"query": "bob@example.com"})
        assert told.content[0].text == "[EMAIL]: [EMAIL]"  # type: ignore[union-attr]
        told = await client.call_tool("environment", {"name": "A_NAME"})
        assert told.content[0].text == "a value"  # type: ignore[union-attr]


def exchanged(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Return the answer to a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return process.stdout.readline()


HELLO = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"t","version":"1"}}}'
)


def started(guards: str, *argv: str) -> subprocess.Popen[bytes]:
    """Start the command."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, "-w", f"{guards}:guard", *argv],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - it takes no lock
    )


def children(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the processes that a process has started."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in found.read_text().split()] if found.exists() else []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    ("ends", "code"), [("eof", 0), (signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGINT, 130)]
)
@pytest.mark.rest
def test_no_server_is_left(guards: str, ends: Any, code: int) -> None:
    """However the command ends."""
    with started(guards, "--", *SERVER) as process:
        assert b"Ask [EMAIL] for help." in exchanged(process, HELLO)
        servers = children(process)
        if ends == "eof":
            assert process.stdin is not None
            process.stdin.close()
        else:
            process.send_signal(ends)
        assert process.wait(30) == code
        for pid in servers:
            for _ in range(100):
                if not Path(f"/proc/{pid}").exists():
                    break
                time.sleep(0.05)
            assert not Path(f"/proc/{pid}").exists()


@pytest.mark.rest
def test_a_server_that_ends_ends_it(guards: str) -> None:
    """The exit code says who it was."""
    with started(guards, "--", sys.executable, "-c", "print('not a message')") as process:
        assert process.wait(60) == 3
        assert process.stderr is not None
        said = process.stderr.read()
        assert b"the server has closed the connection" in said
        assert process.stdout is not None
        assert process.stdout.read() == b""


@pytest.mark.rest
def test_lines_that_were_written_at_once_are_answered(guards: str) -> None:
    """From a pipe that ends; and what the user's file prints is not among the messages."""
    lines = [
        HELLO,
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b"no message",
        '{"jsonrpc":"2.0","id":"ü\u2028","method":"ping"}'.encode(),
    ]
    with started(guards, "--", *SERVER) as process:
        assert b'"id":1' in exchanged(process, lines[0])
        said, errors = process.communicate(b"\n".join(lines[1:]), 60)
        assert said.decode().split("\n")[0] == '{"jsonrpc":"2.0","id":"ü\u2028","result":{}}'
        assert b"loaded" in errors
        assert process.returncode == 0


@pytest.mark.rest
async def test_clients_over_http(guards: str) -> None:
    """The address is printed; Ctrl-C ends it."""
    with started(guards, "--listen", "127.0.0.1:0", "--path", "/here", "--", *SERVER) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        found = next(found for line in lines if (found := re.search(rb"http://\S+", line)))
        url = found.group().decode()
        assert url.endswith("/here")
        async with Client(url) as client:
            told = await client.call_tool("lookup", {"query": "x"})
            assert told.content[0].text == "x: [EMAIL]"  # type: ignore[union-attr]
        process.send_signal(signal.SIGINT)
        with anyio.fail_after(60):
            while process.poll() is None:  # noqa: ASYNC110 - another task or process does it
                await anyio.sleep(0.05)
        assert process.returncode == 0


@pytest.mark.rest
async def test_beyond_this_machine_clients_need_a_token(guards: str) -> None:
    """One is printed."""
    with started(guards, "--listen", "0.0.0.0:0", "--", *SERVER) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        port = next(found for line in lines if (found := re.search(rb"http://0\.0\.0\.0:(\d+)", line)))[1].decode()
        token = next(lines).decode().rsplit(" ", 1)[1].strip()
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx2.AsyncClient() as http:
            assert (await http.post(url, json={})).status_code == 401
            sent = {"authorization": f"Bearer {token}"}
            assert (await http.post(url, json={}, headers=sent)).status_code == 400
        process.terminate()
        process.wait(30)
