"""Worker processes as the studio sees them: started, asked, stopped; and those that wait, loaded, for the next run."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections import OrderedDict, deque
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

import penstock
from penstock.engine.values.errors import PenstockError
from penstock.workflows.studio.protocol import MAX_LINE, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import Process, TaskGroup

    from penstock.workflows.rows.orphans import OrphanWatcher
    from penstock.workflows.studio.protocol import Json

MOST_LOG = 64 * 1024
"""How many characters of the output of user code are kept for one run."""

_WHERE_SECONDS = 1.0  # how long a worker that hangs is asked where it is
_LOG_SECONDS = 1.0  # how long the end of the log of a request is waited for
_SPARES = 6  # workers that wait at most
_NEWLINE = 10
_ROOT = str(Path(penstock.__file__).parent.parent)
_PROGRAM = """
import sys
root = sys.argv.pop()
if root not in sys.path:  # this program runs from a checkout
    sys.path.insert(0, root)
from penstock.workflows.studio.worker.program import main
main()
"""


class WorkerError(PenstockError):
    """A request that a worker did not answer well.

    Attributes:
        problem: what happened, as data; see ``Problem`` in docs/studio.md.
    """

    def __init__(self, problem: Json) -> None:
        self.problem = problem
        super().__init__(str(problem.get("message", "")))


def _nothing(_name: str, _data: object) -> None:
    """Take an event, and do nothing."""


class Worker:
    """A worker process with one version of one workflow. Only one task may ask it at a time."""

    def __init__(self, process: Process, tasks: TaskGroup, orphans: OrphanWatcher) -> None:
        self.loaded: Json = {}
        self._process = process
        self._orphans = orphans
        self._buffer = bytearray()
        self._searched = 0
        self._log: deque[str] = deque()
        self._log_size = 0
        self._on_event: Callable[[str, object], None] = _nothing
        self._stopped = False
        self._log_read = anyio.Event()
        self._mark = f"\0{secrets.token_hex(8)}\0"  # what the process prints at the end of each request
        self._unmarked = ""  # the last text that was printed, as far as it may be the beginning of the mark
        self._mark_read = anyio.Event()
        tasks.start_soon(self._read_log)

    @classmethod
    async def start(cls, load: Json, tasks: TaskGroup, orphans: OrphanWatcher, seconds: float) -> Worker:
        """Start a process and load a workflow in it.

        Args:
            load: the request to load.
            tasks: the task group in which its output is read.
            orphans: ends it if the studio is killed.
            seconds: how long loading may take.

        Raises:
            WorkerError: it cannot be loaded; the problem has its ``sources`` as far as they were read.
        """
        command = [sys.executable, "-P", "-X", "faulthandler", "-c", _PROGRAM, _ROOT]
        try:
            process = await anyio.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:  # no memory, too many open files, Python was removed
            raise WorkerError({**_EMPTY, "kind": "crash", "message": f"no process can be started: {error}"}) from error
        worker = cls(process, tasks, orphans)
        orphans.watch(worker.pid)
        try:
            worker.loaded = await worker.ask({"do": "load", **load}, seconds=seconds)
        except WorkerError as error:
            await worker.stop()
            if error.problem["kind"] == "timeout":
                message = f"it was not loaded after {seconds:g} s; it hangs, or waits (--load-timeout allows more)"
                raise WorkerError({**error.problem, "kind": "hang", "message": message}) from error
            raise
        except BaseException:
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int:
        """The id of the process, which is that of its group, too."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._stopped and self._process.returncode is None

    async def ask(
        self, request: Json, on_event: Callable[[str, object], None] = _nothing, *, seconds: float | None = None
    ) -> Json:
        """Send a request, pass on its events, and return its result. If this is cancelled, stop the worker.

        Raises:
            WorkerError: the request failed, the time is over, or the process has died.
        """
        self._on_event = on_event
        finished = False
        try:
            made = await self._answer_within(request, seconds)
            finished = True
        except WorkerError as error:
            finished = error.problem["kind"] not in ("crash", "timeout")
            raise
        finally:
            self._on_event = _nothing
            if not finished:
                with anyio.CancelScope(shield=True):
                    await self.stop()
        return made

    async def _answer_within(self, request: Json, seconds: float | None) -> Json:
        with anyio.move_on_after(seconds):
            return await self._answer(request)
        raise WorkerError(await self._timed_out(seconds or 0))

    async def _answer(self, request: Json) -> Json:
        self._mark_read = anyio.Event()
        try:
            await cast("anyio.abc.ByteSendStream", self._process.stdin).send(encode({**request, "mark": self._mark}))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise WorkerError(await self._crashed()) from None
        while True:
            message = await self._message()
            if "event" in message:
                self._on_event(str(message["event"]), message.get("data"))
            elif "done" in message or "failed" in message:
                with anyio.move_on_after(_LOG_SECONDS):  # user code may have closed the pipe
                    await self._mark_read.wait()
                if "failed" in message:
                    raise WorkerError(cast("Json", message["failed"]))
                return cast("Json", message["done"])

    async def _message(self) -> Json:
        """Return the next message."""
        while True:
            end = self._buffer.find(_NEWLINE, self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                with contextlib.suppress(ValueError):
                    return decode(line)
                continue
            self._searched = len(self._buffer)
            if self._searched > MAX_LINE:
                raise WorkerError({**await self._crashed(), "message": "the result is too large to be shown"})
            try:
                stdout = cast("anyio.abc.ByteReceiveStream", self._process.stdout)
                self._buffer += await stdout.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                raise WorkerError(await self._crashed()) from None

    async def _crashed(self) -> Json:
        await self.stop()
        code = self._process.returncode
        return {**_EMPTY, "kind": "crash", "message": f"its process ended: {_ended_how(code)}", "traceback": self.log}

    async def _timed_out(self, seconds: float) -> Json:
        """Return the problem of a request that took too long, with where it is."""
        where: list[Json] = []

        def note(name: str, data: object) -> None:
            if name == "where":
                where.extend(cast("list[Json]", data))

        self._on_event = note
        with anyio.move_on_after(_WHERE_SECONDS), contextlib.suppress(WorkerError):
            await cast("anyio.abc.ByteSendStream", self._process.stdin).send(encode({"do": "where"}))
            while not where:
                told = await self._message()
                if "event" in told:
                    self._on_event(str(told["event"]), told.get("data"))
        last: Json = where[-1] if where else {}
        place = {name: last.get(name) for name in ("file", "line", "source")}
        trace = "".join(f'  File "{each["file"]}", line {each["line"]}, in {each["name"]}\n' for each in where)
        message = f"it was stopped after {seconds:g} s"
        return {**_EMPTY, "kind": "timeout", "message": message, **place, "frames": where, "traceback": trace}

    async def stop(self) -> None:
        """Kill the process, and every process that it has started."""
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await self._process.wait()
            self._orphans.forget(self.pid)
            with anyio.move_on_after(_WHERE_SECONDS):
                await self._log_read.wait()
            await self._process.aclose()  # a process that has left the group may still hold the other ends

    # What user code prints

    @property
    def log(self) -> str:
        """The output of user code since the last call of `take_log`."""
        return "".join(self._log)

    def forget_log(self) -> None:
        """Forget the output so far."""
        self._log.clear()
        self._log_size = 0

    async def _read_log(self) -> None:
        stderr = cast("anyio.abc.ByteReceiveStream", self._process.stderr)
        try:
            while True:
                self._note_log((await stderr.receive()).decode("utf-8", "backslashreplace"))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._log_read.set()

    def _note_log(self, text: str) -> None:
        """Take the output without the marks, each of which may come in pieces."""
        *before, text = (self._unmarked + text).split(self._mark)
        if before:
            self._mark_read.set()
        start = text.rfind("\0", max(len(text) - len(self._mark), 0))
        self._unmarked = text[start:] if start >= 0 and self._mark.startswith(text[start:]) else ""
        text = "".join([*before, text.removesuffix(self._unmarked)])
        left = MOST_LOG - self._log_size
        if not text or left <= 0:
            return
        if len(text) > left:
            text = text[:left] + "\n… more was printed, and is left out\n"
        self._log.append(text)
        self._log_size += len(text)
        self._on_event("log", {"text": text})


_EMPTY: Json = {"file": None, "line": None, "source": None, "frames": [], "traceback": ""}


def _ended_how(code: int | None) -> str:
    if code is None:
        return "it no longer answers"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


class Spares:
    """Workers that have loaded something and wait. Lives as long as the studio.

    Each run gets a new process, so that no run sees the traces of an earlier one; a spare makes its start quick.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[object, Worker] = OrderedDict()

    async def take(self, key: object) -> Worker | None:
        """Return the worker that waits for a key, if it is alive; it waits no more."""
        worker = self._waiting.pop(key, None)
        if worker is None or worker.alive:
            return worker
        await worker.stop()  # it ended by itself; what it has started may still be there
        return None

    def has(self, key: object) -> bool:
        """Return whether a worker waits for a key."""
        worker = self._waiting.get(key)
        return worker is not None and worker.alive

    async def put(self, key: object, worker: Worker) -> None:
        """Let a worker wait. The one that waited longest may have to go."""
        if not worker.alive:
            await worker.stop()
            return
        worker.forget_log()
        replaced = self._waiting.pop(key, None)
        self._waiting[key] = worker
        if replaced is not None:
            await replaced.stop()
        while len(self._waiting) > _SPARES:
            await self._waiting.popitem(last=False)[1].stop()

    async def drop(self, wanted: Callable[[object], bool]) -> None:
        """Stop the workers whose key is not wanted any more."""
        for key in [key for key in self._waiting if not wanted(key)]:
            await self._waiting.pop(key).stop()
