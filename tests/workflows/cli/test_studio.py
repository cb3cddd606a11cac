"""The command `penstock studio`: what it prints, what it refuses, and that nothing is left when it ends."""

from __future__ import annotations

import builtins
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from penstock.workflows.cli import main
from penstock.workflows.studio.listening import listening
from penstock.workflows.studio.serving import url_of
from penstock.workflows.studio.settings import Settings, default_history, is_loopback

needs_pidfd = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells when any process has ended")

PATIENCE = 100
"""Seconds for an answer of the studio, which starts slowly beside other work: less than the fuse of the tests."""


def test_without_its_libraries_it_says_what_to_install(monkeypatch, capsys):
    """Neither is imported before the command runs."""
    own = builtins.__import__

    def without(name, *rest):
        if name in ("starlette", "uvicorn"):
            raise ImportError(name)
        return own(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert main(["studio"]) == 2
    assert "pip install 'penstock[studio]'" in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused(capsys):
    """With what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["studio", "--no-history", "--port", str(port)]) == 2
    assert "--port 0" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["300.1.1.1", "no.such.host.invalid", "8.8.8.8"])
def test_an_address_of_another_machine_is_refused(host, capsys):
    """It cannot be listened on."""
    assert main(["studio", "--no-history", "--port", "0", "--host", host]) == 2
    assert f"cannot listen on {host}" in capsys.readouterr().err


def test_a_history_that_cannot_be_used_is_refused(tmp_path, capsys):
    """And nothing is served."""
    (tmp_path / "file").write_text("")
    assert main(["studio", "--port", "0", "--history", str(tmp_path / "file" / "x.db")]) == 2
    assert "--no-history" in capsys.readouterr().err


@needs_pidfd
@pytest.mark.rest
def test_ctrl_c_ends_it_with_all_of_its_processes(tmp_path):
    """Also while runs hang, and streams of events are open."""
    (tmp_path / "slow.py").write_text(
        "import time\nfrom penstock import Workflow, processor, InputContext\n"
        "@processor\ndef slow(ctx: InputContext) -> None:\n    open('begun', 'w').close()\n    time.sleep(600)\n"
        "flow = Workflow('slow').then(slow)\n"
    )
    begun = pipe(tmp_path / "begun")
    with started("slow.py:flow", "--port", "0", "--no-history", cwd=tmp_path) as (process, url):
        with httpx.Client(base_url=url, timeout=PATIENCE) as http, http.stream("GET", "/api/events") as events:
            lines = events.iter_lines()
            next(lines)
            body = {"workflow": "w1", "input": {"kind": "text", "text": "x"}}
            assert http.post("/api/runs", json=body).is_success
            begun()
            children = children_of(process.pid)
            assert children
            process.send_signal(signal.SIGINT)
            assert "event: bye" in [*lines]
        assert process.wait() == 0
        wait_for_ends(children)
        assert process.stderr is not None
        assert process.stderr.read() == "Press Ctrl-C to stop.\n"


@needs_pidfd
@pytest.mark.rest
def test_when_it_is_killed_what_user_code_has_started_ends_too(tmp_path):
    """Not only the processes of the studio itself, and also while user code is in a call in C that holds the GIL."""
    (tmp_path / "helped.py").write_text(
        "import re, subprocess, sys\nfrom penstock import InputContext, Workflow, processor\n"
        "@processor(edits='nothing')\ndef stuck(ctx: InputContext) -> None:\n"
        "    helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    open('helper.pid', 'w').write(f'{helper.pid}\\n')\n    re.match('(a+)+$', 'a' * 60 + 'b')\n"
        "flow = Workflow('helped').then(stuck)\n"
    )
    helper = pipe(tmp_path / "helper.pid")
    with started("helped.py:flow", "--port", "0", "--no-history", cwd=tmp_path) as (process, url):
        body = {"workflow": "w1", "input": {"kind": "text", "text": "x"}}
        assert httpx.post(f"{url}/api/runs", json=body, timeout=PATIENCE).is_success
        children = [*children_of(process.pid), int(helper())]
        process.kill()
        process.wait()
    wait_for_ends(children)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.rest
def test_when_its_terminal_is_closed_uploaded_files_are_deleted(tmp_path, monkeypatch):
    """It ends as with Ctrl-C."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    with started("--port", "0", "--no-history", cwd=tmp_path) as (process, url):
        headers = {"content-type": "application/x-ndjson"}
        assert (
            httpx.post(f"{url}/api/files", content='{"text": "hi"}', headers=headers, timeout=PATIENCE).status_code
            == 201
        )
        assert [*(tmp_path / "temporary").rglob("*.jsonl")]
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 0
    assert not [*(tmp_path / "temporary").rglob("*.jsonl")]


@needs_pidfd
@pytest.mark.rest
def test_when_it_is_killed_its_processes_end_too(tmp_path):
    """They see that nobody asks them any more."""
    with started("--port", "0", "--no-history", cwd=tmp_path) as (process, url):
        assert httpx.get(f"{url}/api/workflows/w1", timeout=PATIENCE).status_code == 200
        children = children_of(process.pid)
        process.kill()
        process.wait()
    wait_for_ends(children)


@pytest.mark.rest
def test_beyond_loopback_a_token_is_printed_and_demanded(tmp_path):
    """It is another one at each start."""
    with started("--port", "0", "--no-history", "--host", "0.0.0.0", cwd=tmp_path) as (_, url):  # noqa: S104
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{40,})", url)
        assert found is not None
        assert httpx.get(found[1] + "/api/workflows", timeout=PATIENCE).status_code == 401
        headers = {"authorization": f"Bearer {found[2]}"}
        assert httpx.get(found[1] + "/api/workflows", headers=headers, timeout=PATIENCE).status_code == 200


def test_addresses_and_their_urls():
    """An address of the sixth version stands in brackets."""
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")  # noqa: S104
    assert not is_loopback("studio.example")
    assert url_of(Settings(host="::1"), 80) == "http://[::1]:80/"
    assert url_of(Settings(host="localhost"), 80) == "http://localhost:80/"
    assert url_of(Settings(host="::", token="t"), 80) == "http://127.0.0.1:80/?token=t"  # noqa: S106
    listening("localhost", 0).close()


def test_the_history_is_in_the_folder_of_the_user(monkeypatch, tmp_path):
    """Wherever the system has that."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    assert default_history() == tmp_path / "penstock" / "studio.db"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert default_history() == tmp_path / "local" / "penstock" / "studio.db"


class started:  # noqa: N801 - a context manager
    """The command in a process of its own, and its URL."""

    def __init__(self, *args: str, cwd: Path) -> None:
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        code += "hasattr(signal, 'SIGHUP') and signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # ignored under nohup
        code += "from penstock.workflows.cli import main; sys.exit(main())"
        self.command = [sys.executable, "-c", code, "studio", *args]
        self.cwd = cwd

    def __enter__(self) -> tuple[subprocess.Popen[str], str]:
        """Start it, and wait for its URL."""
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        self.process = subprocess.Popen(self.command, cwd=self.cwd, env=env, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith("Penstock studio: "), line
        url = line.removeprefix("Penstock studio: ").strip()
        return self.process, url.removesuffix("/")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it; without ceremony where a test has failed."""
        polite = signal.SIGINT if sys.platform != "win32" else signal.SIGTERM
        self.process.send_signal(polite) if kind is None else self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


def pipe(path: Path) -> Callable[[], str]:
    """Make a named pipe; return a function that waits until somebody has written to it, and returns what."""
    os.mkfifo(path)
    return path.read_text


def wait_for_ends(processes: list[int]) -> None:
    """Wait until processes have ended, whoever has started them."""
    for each in processes:
        with suppress(ProcessLookupError):
            ending = os.pidfd_open(each)
            select.select([ending], [], [])
            os.close(ending)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)  # noqa: S607
    return [int(line) for line in found.stdout.split()]
