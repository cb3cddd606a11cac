"""How long one call of a hook takes, from the start of its process to its end: ``python benchmarks/hook_calls.py``.

Each call starts the client as a coding agent does. Interleaved with the calls, Python is started to do nothing
(``python -I -S -c pass``), so that the machine's own noise shows. Cold calls load the policy in a process of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock.workflows.hooks import client

BASH = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "pytest -q tests | tail -5"}}
OUTPUT = "\n".join(f"tests/test_{n}.py::test_{n} PASSED [{n}%]" for n in range(100))
CALLS: dict[str, dict[str, object]] = {
    "prompt": {"hook_event_name": "UserPromptSubmit", "prompt": "rename the function, and run the tests"},
    "call": BASH,
    "result, 4 kB": {**BASH, "hook_event_name": "PostToolUse", "tool_response": {"stdout": OUTPUT, "stderr": ""}},
    "result, 100 kB": {
        **BASH,
        "hook_event_name": "PostToolUse",
        "tool_response": {"stdout": OUTPUT * 25, "stderr": ""},
    },
    "event without text": {"hook_event_name": "Stop"},
}


def timed(command: list[str], payload: bytes) -> float:
    """Return the milliseconds that a process takes."""
    begun = time.perf_counter()
    done = subprocess.run(command, input=payload, capture_output=True, check=False)  # noqa: S603 - our own
    took = time.perf_counter() - begun
    if done.returncode:
        sys.exit(done.stderr.decode())
    return took * 1_000


def shown(name: str, times: list[float]) -> None:
    """Print the median and the slow end of some times."""
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))]
    print(f"{name:28}{p50:8.1f}{p99:8.1f}{len(ordered):6}")


def main() -> None:
    """Print a table of milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("-w", "--workflow", default="coding")
    given = parser.parse_args()
    python = [sys.executable, "-I", "-S"]
    command = [*python, client.__file__, "claude-code", "-w", given.workflow]
    console = [str(Path(sys.executable).with_name("penstock")), "hook", *command[4:]]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_RUNTIME_DIR": folder, "XDG_STATE_HOME": folder}
        first = timed(command, json.dumps(CALLS["prompt"]).encode())
        times: dict[str, list[float]] = {"python that does nothing": [], "`penstock hook`, call": []}
        for _ in range(given.calls):
            times["python that does nothing"].append(timed([*python, "-c", "pass"], b""))
            times["`penstock hook`, call"].append(timed(console, json.dumps(BASH).encode()))
            for name, said in CALLS.items():
                payload = json.dumps({"session_id": "s", "tool_use_id": "t", **said}).encode()
                times.setdefault(name, []).append(timed(command, payload))
        cold = [timed([*command, "--no-server"], json.dumps(BASH).encode()) for _ in range(max(5, given.calls // 20))]
        print(f"{'ms':28}{'p50':>8}{'p99':>8}{'calls':>6}")
        for name, took in times.items():
            shown(name, took)
        shown("cold: no server", cold)
        print(f"{'the call that starts it':28}{first:8.1f}")


if __name__ == "__main__":
    main()
