"""An agent whose every paid piece of work is one line of a file, and which kills its own process at one of them."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from base64 import b64decode
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import anyio
import sqlalchemy

from penstock import Agent, Memory, PIIDetector, Processor, SQLiteStorage, Tool
from penstock.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from penstock.engine import ToolCallContext, ToolResultContext
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.values.stored import StoredRun

SECRET = "ann@example.com"
QUESTION = f"I am {SECRET}. Where are orders 7 and 8?"
THREAD = "thread-1"
HIDDEN = "a*n@*******.com"
REMEMBERED = [f"I am {HIDDEN}. Where are orders 7 and 8?", "I look.", f"Both are on their way to {HIDDEN}."]
OPERATION = "== an operation is recorded"
"""The line of the file that stands for an operation's end."""


class Diary:
    """A file with a line for each piece of work. The process is killed when it writes its ``kill_at``-th, from 1.

    Args:
        path: the file.
        kill_at: which; 0: none.
    """

    def __init__(self, path: Path, kill_at: int = 0) -> None:
        self._path = path
        self._kill_at = kill_at
        self._written = 0

    def note(self, line: str) -> None:
        """Write a line, and kill the process if it is the one."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._written += 1
        if self._written == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class Judge(Processor):
    """A guard that is paid for at each of its stages. A recorded verdict passed; asked again it blocks."""

    def __init__(self, diary: Diary, path: Path) -> None:
        self.id = "judge"
        self._diary = diary
        self._recorded = path.read_text(encoding="utf-8").rpartition(OPERATION)[0].splitlines()

    async def process_input(self, ctx: AnyContext) -> None:
        """Judge the input."""
        self._judge("input", ctx)

    async def process_output_step(self, ctx: AnyContext) -> None:
        """Judge an answer."""
        self._judge(f"answer {ctx.step_number}", ctx)

    async def process_tool_call(self, ctx: ToolCallContext) -> None:
        """Judge a call."""
        self._judge(f"call {ctx.call_id}", ctx)

    async def process_tool_result(self, ctx: ToolResultContext) -> None:
        """Judge a result."""
        self._judge(f"result {ctx.call_id}", ctx)

    def _judge(self, what: str, ctx: AnyContext) -> None:
        self._diary.note(f"judge: {what}")
        if f"judge: {what}" in self._recorded:
            ctx.abort("a verdict flipped")


class Noting(SQLiteStorage):
    """A store that notes when a run was stored."""

    diary: Diary

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Store a run; note it before and after."""
        self.diary.note("storing")
        saved = await super().save_run(run)
        self.diary.note(OPERATION)
        return saved


class PaidModel(ScriptedModel):
    """A model without a state of its own: it calls two tools, and then answers. Each call is a line."""

    def __init__(self, diary: Diary) -> None:
        super().__init__([], name="paid")
        self._diary = diary

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Answer by what the request holds."""
        done = any(getattr(part, "state", "") == "result" for one in request.messages for part in one.parts)
        self._diary.note(f"model: {'answer' if done else 'calls'}")
        calls = [{"name": "find", "args": {"order": order}, "id": f"call-{order}"} for order in (7, 8)]
        says: Value = f"Both are on their way to {SECRET}." if done else {"text": "I look.", "tool_calls": calls}
        async for chunk in ScriptedModel([says]).stream(request):
            yield chunk
        self._diary.note("model: said all")


def agent(folder: Path, diary: Diary, **options: Value) -> Agent:
    """Return the agent as each process makes it."""

    def find(order: int) -> str:
        """Find an order."""
        diary.note(f"tool: {order}")
        return f"order {order} of {SECRET} is on its way"

    return Agent(
        PaidModel(diary),
        tools=[Tool(find, repeatable=True)],
        processors=[PIIDetector(), Judge(diary, folder / "diary")],
        memory=Memory(SQLiteStorage(folder / "memory.db")),
        **options,
    )


def repeated(before: list[str], after: list[str]) -> list[str]:
    """Return the work that a killed process had recorded, and that was done again."""
    kept = before[: max((at for at, line in enumerate(before) if line == OPERATION), default=-1) + 1]
    paid = [line for line in kept if line.startswith(("model: answer", "model: calls", "judge:", "tool:"))]
    ended = [line.replace("judge: result call-", "tool: ") for line in paid if line.startswith("judge: result")]
    done = [line for line in paid if not line.startswith("tool:") or line in ended]  # a tool may run beside another
    return [line for line in after if line in done]


async def check_memory(folder: Path) -> None:
    """Check the texts in the memory."""
    page = await SQLiteStorage(folder / "memory.db").messages(THREAD)
    assert [item.message.text for item in page.items][::-1] == REMEMBERED  # the newest comes first


def in_child(work: Callable[[], Coroutine[object, object, object]]) -> int:
    """Run a coroutine in a forked process, which begins with all modules loaded; return how it ended (-9: killed).

    This process itself starts no thread: a lock that one holds would be locked for ever in the child.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        anyio.run(work)
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def database(folder: Path, server: str) -> str:
    """Return the URL of a database of DBOS: one of its own on a server of PostgreSQL, or a file."""
    if not server:
        return f"sqlite:///{folder / 'dbos.db'}"
    url = sqlalchemy.make_url(server)
    return url.set(database=f"dbos_{folder.parent.name}_{folder.name}").render_as_string(hide_password=False)


def texts(url: str) -> list[bytes]:
    """Return all that a database holds, pickles decoded."""
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    inspected = sqlalchemy.inspect(engine)
    found: list[bytes] = []
    with engine.connect() as connection:
        for schema in inspected.get_schema_names():
            for table in inspected.get_table_names(schema):
                rows = connection.execute(sqlalchemy.text(f'SELECT * FROM "{schema}"."{table}"'))  # noqa: S608
                found += [str(value).encode() for row in rows for value in row]
    engine.dispose()
    for text in list(found):
        with suppress(ValueError):
            found.append(b64decode(text, validate=True))
    return found


class Trial(NamedTuple):
    """A process that was killed at a line of its diary, or that came to its end, and the lines that it wrote."""

    kill_at: int
    folder: Path
    killed: bool
    before: list[str]

    def go_on(self, second: Callable[[Path, Diary], Coroutine[object, object, object]]) -> list[str]:
        """Let another process go on; return the lines that it wrote."""
        diary = self.folder / "diary"
        assert in_child(partial(second, self.folder, Diary(diary))) == 0, (self.kill_at, self.before)
        return diary.read_text().splitlines()[len(self.before) :]


def trials(root: Path, first: Callable[[Path, Diary], Coroutine[object, object, object]]) -> Iterator[Trial]:
    """Kill a process at each line of its diary in turn, each in a folder of its own; the last one comes to its end."""
    for kill_at in range(1, 1_000):
        folder = root / str(kill_at)
        folder.mkdir()
        diary = folder / "diary"
        diary.touch()
        code = in_child(partial(first, folder, Diary(diary, kill_at)))
        before = diary.read_text().splitlines()
        assert code in (0, -signal.SIGKILL), before
        yield Trial(kill_at, folder, code != 0, before)
        if code == 0:
            return
    raise AssertionError("it never ends")


def kill_everywhere(
    root: Path,
    first: Callable[[Path, Diary], Coroutine[object, object, object]],
    second: Callable[[Path, Diary], Coroutine[object, object, object]],
    files: Sequence[str],
    held: Callable[[Path], list[bytes]] = lambda _: [],
) -> int:
    """Kill the first process at each line of its diary in turn, and let the second go on; return how many there are.

    Args:
        root: an empty folder.
        first: sends the request.
        second: goes on with it.
        files: the names of files that may not hold what was hidden.
        held: returns what else may not, by the folder of the processes.
    """
    (root / "diary").touch()
    agent(root, Diary(root / "diary"))  # loads everything, once for all children
    killed = 0
    for trial in trials(root, first):
        kill_at, folder, was_killed, before = trial
        killed += was_killed
        if was_killed and OPERATION in before:
            more = trial.go_on(second)
            assert repeated(before, more) == [], (kill_at, before, more)
            assert in_child(partial(check_memory, folder)) == 0, (kill_at, before, more)
        for name in files:
            for path in folder.glob(f"{name}*"):  # also its journals
                assert SECRET.encode() not in path.read_bytes(), (kill_at, path.name)
        assert not any(SECRET.encode() in text for text in held(folder)), kill_at
        assert was_killed or in_child(partial(check_memory, folder)) == 0
    return killed
