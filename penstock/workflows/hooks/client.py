"""The program that a coding agent starts for each hook: it hands the JSON on stdin to the server and writes the answer.

It is run as a file by ``python -I -S``, so that nothing is imported but what Python has loaded anyway: a call lasts
about as long as Python takes to start. If no server listens, it starts one. If that fails, it checks the call in a
process of its own. If that fails too, it answers that the call was not checked, which denies it unless ``--fail open``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of typing takes as long to import as the rest of a call
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - it is a class

VERSION = "1"
"""The version of the messages between client and server."""

UNREAD = ("pictures", "all", "none")

PRODUCTS = ("claude-code", "codex")

SECONDS = 25.0
"""How long a check may take by default. The products wait longer, since they let a call pass that takes too long."""

LIMIT = 64 * 2**20
"""The longest JSON that is read, in bytes. A longer one counts as not checked."""

_KIND_AND_OTHERS, _PRIVATE_FOLDER = 0o170077, 0o040000  # bits of a mode: a folder, and nothing for anybody else
_START_SECONDS = 15.0
_LONGEST_FOLDER = 80  # bytes; the path of a socket has at most 107, on macOS 103
_POLL_SECONDS = 0.02
_COLD = "penstock.workflows.hooks.cold"
_SERVER = "penstock.workflows.hooks.server"

_UNGUARDED = frozenset({
    "Stop", "StopFailure", "SubagentStart", "SubagentStop", "SessionStart", "SessionEnd", "Setup", "Notification",
    "PostCompact", "TeammateIdle", "TaskCompleted", "ConfigChange", "WorktreeCreate", "WorktreeRemove", "Interrupt",
    "InstructionsLoaded", "CwdChanged", "FileChanged", "MessageDisplay", "PermissionDenied",
})  # fmt: skip
"""Events that pass whatever happens: they bring the model nothing, or to refuse them would make the agent go on."""


class ClientError(Exception):
    """The call could not be checked; the message says why."""


class Options:
    """The arguments of a call.

    Attributes:
        product: ``claude-code`` or ``codex``.
        policy: the name of the workflow.
        fails_open: whether a call that cannot be checked passes.
        seconds: how long the check may take.
        uses_server: whether a server is asked, and started if there is none.
        unread: which bodies pass that no guard can read: ``pictures``, ``all`` (with PDFs) or ``none``.
        holds_output: whether commands of Codex write nothing before they end.
    """

    def __init__(self) -> None:
        self.product = ""
        self.policy = ""
        self.fails_open = False
        self.seconds = SECONDS
        self.uses_server = True
        self.unread = "pictures"
        self.holds_output = False


def read_options(arguments: list[str]) -> Options:
    """Return the options of a call.

    Raises:
        ClientError: an argument is unknown, has a wrong value or is missing.
    """
    made, left = Options(), list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name == "--no-server":
            made.uses_server = False
        elif name == "--hold-output":
            made.holds_output = True
        elif name in ("-w", "--workflow", "--fail", "--timeout", "--unread"):
            if not equals and not left:
                raise ClientError(name + " needs a value")
            _set(made, name, value if equals else left.pop(0))
        elif word in PRODUCTS and not made.product:
            made.product = word
        else:
            raise ClientError("unknown argument " + word)
    if not made.product or not made.policy:
        raise ClientError("write: penstock hook " + "|".join(PRODUCTS) + " -w POLICY")
    return made


def _set(made: Options, name: str, value: str) -> None:
    if name == "--fail":
        if value not in ("open", "closed"):
            raise ClientError("--fail takes open or closed")
        made.fails_open = value == "open"
    elif name == "--unread":
        if value not in UNREAD:
            raise ClientError("--unread takes " + ", ".join(UNREAD))
        made.unread = value
    elif name == "--timeout":
        try:
            made.seconds = float(value)
        except ValueError:
            made.seconds = 0.0
        if not 0 < made.seconds <= 3600:  # noqa: PLR2004 - an hour
            raise ClientError("--timeout takes a number of seconds")
    else:
        made.policy = value


def main(arguments: list[str] | None = None) -> int:
    """HookAnswer one call of a hook, and return the exit code of the process."""
    given = sys.argv[1:] if arguments is None else arguments
    fails_open = "open" in given and "closed" not in given
    product, payload = "", b""
    try:
        options = read_options(given)
        fails_open, product = options.fails_open, options.product
        payload = _read(0)
        code, out, err = _checked(options, payload)
    except Exception as error:  # noqa: BLE001 - an exit with another code than 2 would let the call pass
        why = str(error) if isinstance(error, (ClientError, OSError)) else type(error).__name__
        code, out, err = not_checked(product, payload, why, fails_open=fails_open)
    _write(1, out)
    _write(2, err)
    return code


def _read(stream: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        part = os.read(stream, 1 << 20)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size <= LIMIT:
            parts.append(part)
        elif parts:
            while os.read(stream, 1 << 20):  # the product must be able to write all of it
                pass
            raise ClientError("the JSON of the call is longer than " + str(LIMIT) + " bytes")


def _write(stream: int, text: bytes) -> None:
    left = memoryview(text)
    while left:
        left = left[os.write(stream, left) :]


def _checked(options: Options, payload: bytes) -> tuple[int, bytes, bytes]:
    import time

    end = time.monotonic() + options.seconds
    if options.uses_server:
        connection = _connected(end)
        if connection is not None:
            return _asked(connection, options, payload, end)
    return _run_cold(options, payload, end)


# The server


def runtime_folder() -> str:
    """Return the private folder of sockets and logs, made if need be.

    Raises:
        ClientError: somebody else could write there.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    user = os.getuid() if hasattr(os, "getuid") else 0
    fits = base.startswith("/") and len(os.fsencode(base)) <= _LONGEST_FOLDER
    folder = os.path.join(base, "penstock") if fits else "/tmp/penstock-" + str(user)  # noqa: S108
    if not os.path.lexists(folder):
        os.makedirs(folder, 0o700, exist_ok=True)
    found = os.lstat(folder)
    if found.st_mode & _KIND_AND_OTHERS != _PRIVATE_FOLDER or found.st_uid != user:
        raise ClientError(folder + " is not a folder that only you can open; remove it, or set XDG_RUNTIME_DIR")
    return folder


def socket_path() -> str:
    """Return the path of the server's socket; another installation or version of the library has another one.

    Raises:
        ClientError: the folder is not private.
    """
    import binascii

    here = os.path.dirname(os.path.abspath(__file__))
    said = (VERSION + "\n" + sys.executable + "\n" + here).encode("utf-8", "surrogateescape")
    for name in ("../../__init__.py", "client.py", "guarding.py", "answering.py"):
        path = os.path.join(here, name)
        said += str(os.stat(path).st_mtime_ns).encode()
        if name.endswith("__init__.py"):  # it names the version: some installers give all files one time
            with open(path, "rb") as opened:
                said += opened.read()
    return os.path.join(runtime_folder(), "hook-" + format(binascii.crc32(said), "08x"))


def _connected(end: float) -> Socket | None:
    """Return a connection to the server, which is started if it does not run; None if there can be none."""
    try:
        import _socket
    except ImportError:
        return None
    if not hasattr(_socket, "AF_UNIX"):
        return None
    import time

    path = socket_path()
    until = min(end, time.monotonic() + _START_SECONDS)
    started = False
    while True:
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.05, end - time.monotonic()))
            connection.connect(path)
        except OSError:
            connection.close()
        else:
            return connection
        if not started:
            _start_server()
            started = True
        if time.monotonic() >= until:
            return None
        time.sleep(_POLL_SECONDS)


def _start_server() -> None:
    """Start the server in a session of its own. Two that are started at once agree on one."""
    log = os.open(os.path.join(runtime_folder(), "hook.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os.close(log)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 64)
        os.chdir("/")
        os.execv(sys.executable, [sys.executable, "-P", "-m", _SERVER])  # noqa: S606
    finally:
        os._exit(127)


def _asked(connection: Socket, options: Options, payload: bytes, end: float) -> tuple[int, bytes, bytes]:
    """Return the server's answer.

    Raises:
        ClientError: it gave none in time.
    """
    import time

    fields = [VERSION, options.product, options.policy, "open" if options.fails_open else "closed", os.getcwd()]
    fields += [os.environ.get("PENSTOCK_PROFILE", ""), options.unread, "hold" if options.holds_output else ""]
    head = "\0".join(fields).encode("utf-8", "surrogateescape")
    try:
        connection.sendall(str(len(head)).encode() + b" " + str(len(payload)).encode() + b"\n" + head + payload)
        got = b""
        while b"\n" not in got or len(got) < _length(got):
            connection.settimeout(max(0.001, end - time.monotonic()))
            part = connection.recv(1 << 20)
            if not part:
                raise ClientError("the server ended before it answered")
            got += part
    except TimeoutError:
        raise ClientError("the check took longer than " + str(options.seconds) + " s") from None
    finally:
        connection.close()
    line, _, rest = got.partition(b"\n")
    code, out, err = map(int, line.split())
    return code, rest[:out], rest[out : out + err]


def _length(got: bytes) -> int:
    line = got.partition(b"\n")[0]
    _, out, err = map(int, line.split())
    return len(line) + 1 + out + err


# Without a server


def _run_cold(options: Options, payload: bytes, end: float) -> tuple[int, bytes, bytes]:
    """Return the answer of a process that loads the policy for this call.

    Raises:
        ClientError: it took too long, or failed.
    """
    import subprocess
    import time

    command = [
        sys.executable,
        "-P",
        "-m",
        _COLD,
        options.product,
        options.policy,
        "open" if options.fails_open else "closed",
    ]
    command += [options.unread, "hold" if options.holds_output else ""]
    left = max(0.001, end - time.monotonic())
    try:
        done = subprocess.run(command, input=payload, capture_output=True, timeout=left, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise ClientError("the check took longer than " + str(options.seconds) + " s") from None
    if done.returncode not in (0, 2):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise ClientError("the check failed: " + (last[0] if last else "exit code " + str(done.returncode)))
    return done.returncode, done.stdout, done.stderr


# If a call cannot be checked


def not_checked(product: str, payload: bytes, why: str, *, fails_open: bool) -> tuple[int, bytes, bytes]:
    """Return exit code, stdout and stderr for a call that could not be checked.

    Args:
        product: the product; empty if it is not known.
        payload: the JSON of the call.
        why: the fault; the person reads it, and the model may.
        fails_open: whether the call passes.
    """
    reason = "Penstock could not check this" + (", and let it pass: " if fails_open else ": ") + why
    said = (reason + "\n").encode("utf-8", "replace")
    if fails_open:
        return 0, b"", said
    import json

    try:
        event = json.loads(payload)
        name = event["hook_event_name"]
        session = event.get("session_id")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return 2, b"", said
    if name in _UNGUARDED:
        return 0, b"", said
    if product != "claude-code" or name not in ("PostToolUse", "PostToolUseFailure", "PostToolBatch"):
        return 2, b"", said
    if name == "PostToolUse":
        said_instead = {"hookEventName": name, "updatedToolOutput": _withheld(event.get("tool_response"), reason)}
        return 0, json.dumps({"hookSpecificOutput": said_instead}).encode() + b"\n", said
    if isinstance(session, str):
        stop_session(session, _ids(event.get("tool_calls")))  # the results are in the conversation already
    answer = {"continue": False, "stopReason": reason, "decision": "block", "reason": reason}
    return 0, json.dumps(answer).encode() + b"\n", said


def _ids(calls: object) -> list[str]:
    """Return the ids of the tool calls of a batch."""
    import json
    import re

    return re.findall(r'"tool_use_id": "([\w-]+)"', json.dumps(calls))


def _withheld(value: object, notice: str) -> object:
    """Return a result in whose place the model reads a notice; `PostToolBatch` looks whether the product took it."""
    import runpy

    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "withheld.py")  # the package needs its libraries
    made: object = runpy.run_path(beside)["withheld"](value, notice)
    return made


def _marks() -> str:
    base = os.environ.get("XDG_STATE_HOME", "")
    base = base if base.startswith("/") else os.path.expanduser("~/.local/state")
    return os.path.join(base, "penstock", "stopped-sessions")


def _mark(session: str) -> str:
    import hashlib

    return os.path.join(_marks(), hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest())


def stop_session(session: str, calls: list[str]) -> None:
    """Note that a session holds a text that no guard has passed. Nothing of it goes to the model any more.

    Args:
        session: the id of the session.
        calls: the ids of the tool calls with that text, by which copies of the session are known.
    """
    path = _mark(session)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(opened, "".join(one + "\n" for one in calls).encode("utf-8", "replace"))
    os.close(opened)


def is_stopped(session: str) -> bool:
    """Return whether `stop_session` was called for a session."""
    return os.path.exists(_mark(session))


def stopped_calls() -> set[str]:
    """Return the ids of the tool calls of all stopped sessions."""
    found: set[str] = set()
    folder = _marks()
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as opened:
            found.update(opened.read().split())
    return found


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # nothing is left to do, and the interpreter would take milliseconds to tidy up
