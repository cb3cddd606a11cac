"""Servers of the benchmarks of the gateway: processes, their CPU time and memory, and the requests for them."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PATH = "/v1/chat/completions"
MESSAGES = "/v1/messages"
CHUNKS = 100
POLICIES = {
    "light": "penstock: 1\nsteps: [{use: regex-filter, with: {rules: [{name: word, pattern: forbidden}]}}]\n",
    "privacy": "privacy",
    "safety": "safety",
}


def body(path: str = PATH, *, stream: bool = False, endless: bool = False) -> bytes:
    """Return a request for a path."""
    made: dict[str, object] = {"model": "fake-1", "max_tokens": 100}
    made["messages"] = [{"role": "user", "content": "Say some words, please. " * 5}]
    if path == MESSAGES:
        return json.dumps(
            {**made, **({"stream": True} if stream else {}), **({"top_k": 1} if endless else {})}
        ).encode()
    return json.dumps({**made, **({"stream": True} if stream else {}), **({"seed": 1} if endless else {})}).encode()


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def process(*command: str, port: int) -> Iterator[int]:
    """Run a command, and yield its process id once it listens."""
    command = (sys.executable, *command)
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - ours
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                if time.monotonic() > until or running.poll() is not None:
                    raise
                time.sleep(0.1)
        yield running.pid
    finally:
        running.kill()
        running.wait()


def cpu(pid: int) -> float:
    """Return the CPU time of a process so far, in seconds, to the microsecond; ``/proc/pid/stat`` has hundredths."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def rss(pid: int) -> float:
    """Return the memory of a process, in kB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1])
