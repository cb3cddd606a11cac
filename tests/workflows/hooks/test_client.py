"""The process that a product starts: its answers with a server, without one, and if nothing can be checked."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.workflows.hooks import client
from tests.workflows.hooks.conftest import KEY

POLICY = """\
penstock: 1
steps:
  - use: pii-detector
    with: {detection_types: [api-key], redaction_method: placeholder}
"""
PROGRAM = [sys.executable, "-I", "-S", client.__file__]
ONLY_ASKS = f"""\
import os, sys
os.fork = sys.modules["subprocess"] = None
exec(open({client.__file__!r}).read(), {{"__name__": "__main__", "__file__": {client.__file__!r}}})
"""
"""The client, where it can start no process: it answers only if a server runs."""


@pytest.fixture
def policy(private_home: Path) -> Iterator[Path]:
    """A policy file; the server that a test has started is ended after it."""
    file = private_home / "policy.yaml"
    file.write_text(POLICY)
    yield file
    for lock in Path(os.environ["XDG_RUNTIME_DIR"]).glob("penstock/*.lock"):
        end_server(lock)


def end_server(lock: Path) -> None:
    """End the server that holds a lock, by asking the system who listens on its socket."""
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(str(lock.with_suffix("")))
        except OSError:
            return
        peer = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    os.kill(int.from_bytes(peer[:4], sys.byteorder), signal.SIGTERM)


def call(
    product: str, policy: object, said: dict[str, Any] | bytes, *options: str, program: list[str] = PROGRAM
) -> subprocess.CompletedProcess[bytes]:
    """Run the client as a product does."""
    payload = said if isinstance(said, bytes) else json.dumps({"session_id": "s1", **said}).encode()
    command = [*program, product, "-w", str(policy), *options]
    return subprocess.run(command, input=payload, capture_output=True, check=False, timeout=60)


PROMPT: dict[str, Any] = {"hook_event_name": "UserPromptSubmit", "prompt": f"use {KEY}"}


@pytest.mark.rest
def test_the_first_call_starts_a_server_that_answers_the_next_ones(policy: Path) -> None:
    """The socket is the user's alone, in a folder that is the user's alone."""
    made = call("claude-code", policy, PROMPT)
    assert json.loads(made.stdout)["decision"] == "block"
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "penstock"
    sockets = [file for file in folder.iterdir() if file.is_socket()]
    assert len(sockets) == 1
    assert sockets[0].stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    made = call("codex", policy, PROMPT, program=[sys.executable, "-I", "-S", "-c", ONLY_ASKS])
    assert json.loads(made.stdout)["decision"] == "block"
    log = (folder / "hook.log").read_text()
    assert KEY not in log


@pytest.mark.rest
def test_calls_at_the_same_time_share_one_server(policy: Path) -> None:
    """Whoever comes second to the lock ends."""
    command = [*PROGRAM, "claude-code", "-w", str(policy)]
    payload = json.dumps({"session_id": "s1", **PROMPT}).encode()
    with ExitStack() as ending:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        started = [ending.enter_context(subprocess.Popen(command, **pipes)) for _ in range(4)]
        outs = [one.communicate(payload, timeout=60)[0] for one in started]
    assert all(json.loads(out)["decision"] == "block" for out in outs)
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "penstock"
    assert len([file for file in folder.iterdir() if file.is_socket()]) == 1


@pytest.mark.rest
def test_the_server_reads_a_changed_policy_and_forgets_no_session(policy: Path) -> None:
    """A file with problems changes nothing."""
    assert json.loads(call("claude-code", policy, PROMPT).stdout)["decision"] == "block"
    policy.write_text(POLICY.replace("placeholder", "nonsense"))
    time.sleep(1.1)  # the file is looked at once a second
    assert json.loads(call("claude-code", policy, PROMPT).stdout)["decision"] == "block"
    policy.write_text("penstock: 1\nsteps: [{use: tool-policy, with: {deny: [Bash]}}]\n")
    time.sleep(1.1)
    assert call("claude-code", policy, PROMPT).stdout == b""


@pytest.mark.rest
def test_without_a_server_the_policy_is_loaded_for_the_call(policy: Path) -> None:
    """The same answers, more slowly; and the console command is the same program."""
    penstock = [sys.executable, "-m", "penstock", "hook"]
    for program in (PROGRAM, penstock):
        made = call("claude-code", policy, PROMPT, "--no-server", program=program)
        assert json.loads(made.stdout)["decision"] == "block"
    assert not (Path(os.environ["XDG_RUNTIME_DIR"]) / "penstock").exists()


RESULT: dict[str, Any] = {
    "hook_event_name": "PostToolUse",
    "tool_name": "Read",
    "tool_input": {},
    "tool_response": f"a {KEY}",
}


@pytest.mark.rest
@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreToolUse", "SomethingNew"])
def test_a_policy_that_cannot_be_loaded_denies(policy: Path, event: str) -> None:
    """With the reason on stderr, which is what the products show."""
    policy.write_text("penstock: 2\n")
    made = call("claude-code", policy, {"hook_event_name": event, "prompt": "x"}, "--no-server")
    assert made.returncode == 2
    assert b"could not check" in made.stderr


@pytest.mark.rest
def test_a_result_that_cannot_be_checked_is_withheld(policy: Path) -> None:
    """In its shape; by an exit code only Codex takes it back."""
    policy.unlink()
    made = call("claude-code", policy, {**RESULT, "tool_response": {"stdout": KEY, "code": 3}}, "--no-server")
    updated = json.loads(made.stdout)["hookSpecificOutput"]["updatedToolOutput"]
    assert updated["code"] == 3
    assert "could not check" in updated["stdout"]
    assert KEY.encode() not in made.stdout
    assert call("codex", policy, RESULT, "--no-server").returncode == 2


def test_results_that_cannot_be_checked_before_the_model_reads_them_stop_the_conversation() -> None:
    """No hook can take them back then."""
    said = json.dumps({"hook_event_name": "PostToolBatch", "session_id": "s1", "tool_calls": []}).encode()
    code, out, _ = client.not_checked("claude-code", said, "broken", fails_open=False)
    assert (code, json.loads(out)["continue"]) == (0, False)
    assert client.is_stopped("s1")
    assert not client.is_stopped("s2")


@pytest.mark.rest
def test_what_cannot_be_checked_passes_if_the_owner_says_so(policy: Path) -> None:
    """With a word on stderr."""
    policy.unlink()
    made = call("claude-code", policy, RESULT, "--no-server", "--fail", "open")
    assert (made.returncode, made.stdout) == (0, b"")
    assert b"let it pass" in made.stderr
    assert not client.is_stopped("s1")


@pytest.mark.parametrize("product", client.PRODUCTS)
@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"hook_event_name": 1}', b"[" * 100_000])
def test_json_that_cannot_be_read_is_refused(product: str, payload: bytes) -> None:
    """By the exit code, which needs no name of an event."""
    code, out, err = client.not_checked(product, payload, "broken", fails_open=False)
    assert (code, out) == (2, b"")
    assert b"broken" in err


@pytest.mark.parametrize(
    "given", [[], ["claude-code"], ["vim", "-w", "x"], ["codex", "-w"], ["codex", "-w", "x", "--y"]]
)
def test_wrong_arguments_are_a_refusal(given: list[str]) -> None:
    """A hook that was written wrongly into the settings does not let everything pass."""
    with pytest.raises(client.ClientError):
        client.read_options(given)
    made = subprocess.run([*PROGRAM, *given], input=b"{}", capture_output=True, check=False, timeout=30)
    assert made.returncode == 2


@pytest.mark.parametrize("given", [["--timeout", "0"], ["--timeout", "x"], ["--timeout=-1"], ["--fail", "maybe"]])
def test_wrong_values_are_refused(given: list[str]) -> None:
    """The message names the option."""
    with pytest.raises(client.ClientError, match=given[0].partition("=")[0]):
        client.read_options(["codex", "-w", "x", *given])


def test_a_server_that_does_not_answer_denies_in_time(policy: Path) -> None:
    """The product would let a call pass that takes longer than its own limit."""
    path = client.socket_path()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        made = call("claude-code", policy, PROMPT, "--timeout", "0.3")
    assert made.returncode == 2
    assert b"longer than 0.3 s" in made.stderr


def test_a_folder_that_others_can_open_is_refused(private_home: Path) -> None:
    """Another user could listen there and say that all is well."""
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "penstock"
    folder.mkdir(mode=0o700)
    folder.chmod(0o755)
    with pytest.raises(client.ClientError, match="only you"):
        client.socket_path()
    folder.rmdir()
    folder.symlink_to(private_home)
    with pytest.raises(client.ClientError, match="only you"):
        client.socket_path()


def test_the_client_imports_next_to_nothing() -> None:
    """Each module costs as much as the call may last."""
    script = f"import sys; before = set(sys.modules); exec(open({client.__file__!r}).read(), {{'__name__': 'x'}}); "
    script += "print(sorted(set(sys.modules) - before))"
    made = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True)
    usual = {
        "__future__",
        "_collections_abc",
        "_stat",
        "genericpath",
        "os",
        "os.path",
        "posixpath",
        "stat",
        "abc",
        "_abc",
    }
    assert set(ast.literal_eval(made.stdout)) <= usual


@contextmanager
def served(idle: float) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A server that looks five times a second whether anybody needs it; yields it and its socket, and ends it."""
    with subprocess.Popen([sys.executable, "-c", serving(idle)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, Path(server.stdout.readline().strip())
        finally:
            server.kill()


def serving(idle: float) -> str:
    """A script that serves until nobody has called for so many seconds, and prints whether it was the server."""
    begin = "from penstock.workflows.hooks import server; server._LOOK = 0.2; "
    return begin + f"print(server.serve(idle={idle}, announce=lambda path: print(path, flush=True)))"


@pytest.mark.rest
def test_a_server_that_nobody_calls_ends() -> None:
    """After a while."""
    with served(idle=0.1) as (server, path):
        assert server.wait(30) == 0
        assert not path.exists()


@pytest.mark.rest
def test_a_server_without_a_socket_ends_and_a_second_one_at_once() -> None:
    """Nobody can call the one, and nobody needs the other."""
    with served(idle=0) as (server, path):
        script = [sys.executable, "-c", serving(0)]
        second = subprocess.run(script, capture_output=True, text=True, check=False, timeout=60)
        assert second.stdout.strip() == "False"
        path.unlink()
        assert server.wait(30) == 0


def test_a_long_name_of_the_runtime_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A socket there would have a path that no system takes."""
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert client.runtime_folder() == f"/tmp/penstock-{os.getuid()}"  # noqa: S108
