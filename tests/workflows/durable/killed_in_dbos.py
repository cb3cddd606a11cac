"""A program: a request as a DBOS workflow, killed at each of its lines and recovered by DBOS; prints how many.

Arguments: an empty folder; the URL of a PostgreSQL server, or nothing for SQLite files.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from penstock.workflows.adapters.dbos import DurableAgent, agent as adapter
from tests.workflows.durable.world import OPERATION, QUESTION, THREAD, Diary, agent, database, kill_everywhere, texts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dbos import WorkflowHandleAsync

    from penstock.engine.values.chunks import Chunk


def _launched(folder: Path, diary: Diary, server: str) -> DurableAgent:
    config = DBOSConfig(
        name="killed",
        system_database_url=database(folder, server),
        serializer=DBOSPortableJSONSerializer(),
        application_version="1",
        log_level="ERROR",
    )
    DBOS(config=config)
    recorded = adapter.DBOSOperations.run

    async def noted(
        self: adapter.DBOSOperations, name: str, work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        worked: list[str] = []

        async def counted() -> dict[str, Any]:
            worked.append(name)
            return await work()

        value = await recorded(self, name, counted)
        if worked:
            diary.note(OPERATION)
        return value

    adapter.DBOSOperations.run = noted  # type: ignore[method-assign]
    made = DurableAgent(agent(folder, diary))
    DBOS.launch()
    return made


async def first(folder: Path, diary: Diary, server: str) -> None:
    """Send the request."""
    made, said = _launched(folder, diary, server), list[str]()

    async def reads(chunk: Chunk) -> None:
        if chunk.type == "text-delta":
            said.append(chunk.text)

    start = DBOS.start_workflow_async

    async def started(*args: Any, **options: Any) -> Any:
        handle = await start(*args, **options)
        diary.note(OPERATION)  # the input is recorded
        return handle

    DBOS.start_workflow_async = started  # type: ignore[method-assign]
    done = await made.generate(QUESTION, run_id="run-1", thread_id=THREAD, resource_id="ann", on_chunk=reads)
    assert (done.status, done.text) == ("success", "".join(said)), done


async def second(folder: Path, diary: Diary, server: str) -> None:
    """Let DBOS go on with the workflows whose process has died."""
    _launched(folder, diary, server)
    handle: WorkflowHandleAsync[dict[str, Any]] = await DBOS.retrieve_workflow_async("run-1")
    done = await handle.get_result()
    assert done["status"] == "success", done


if __name__ == "__main__":
    to = "".join(sys.argv[2:])
    work = partial(first, server=to), partial(second, server=to)
    held = [] if to else ["dbos.db"]
    lines = kill_everywhere(Path(sys.argv[1]), *work, held, lambda folder: texts(database(folder, to)))
    sys.stdout.write(str(lines))
