"""A program: an agent of pydantic-ai in a Prefect flow, killed at each of its lines, and run again; prints how many.

Arguments: an empty folder; that of the server, see `prefect_server.running`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import Flow, flow, get_client
from prefect.flow_engine import run_flow_async
from prefect.results import ResultStore
from prefect.states import Pending
from pydantic_ai.durable_exec.prefect import PrefectDurability
from pydantic_ai.messages import ModelResponse

from tests.workflows.durable.killed_in_pydantic_ai import QUESTION, RECORDED, RELEASED, recorded, shop
from tests.workflows.durable.prefect_server import held
from tests.workflows.durable.world import SECRET, Diary, trials


def _flow(folder: Path, diary: Diary) -> Flow[[], Any]:
    agent = shop(folder, diary, PrefectDurability())

    @flow(name="answer", persist_result=True)
    async def answer() -> str:
        return (await agent.run(QUESTION)).output  # a parameter would be stored as it came

    persist = ResultStore.apersist_result_record
    models = sum(line.startswith(f"{RECORDED}model") for line in (folder / "diary").read_text().splitlines())

    async def noted(self: ResultStore, result_record: Any, holder: str | None = None) -> None:
        nonlocal models
        await persist(self, result_record, holder)
        value = getattr(result_record.result, "value", result_record.result)
        models += isinstance(value, ModelResponse)
        name = f"model {models}" if isinstance(value, ModelResponse) else value
        diary.note(f"{RECORDED}{name['of'] if isinstance(name, dict) else name}")

    ResultStore.apersist_result_record = noted  # type: ignore[method-assign]
    return answer


async def first(folder: Path, diary: Diary) -> None:
    """Start the flow run."""
    answer = _flow(folder, diary)
    async with get_client() as client:
        run = await client.create_flow_run(answer, state=Pending())
    (folder / "id").write_text(str(run.id))
    assert await run_flow_async(answer, flow_run=run) == RELEASED


async def second(folder: Path, diary: Diary) -> None:
    """Go on with the flow run whose process has died."""
    async with get_client() as client:
        run = await client.read_flow_run(UUID((folder / "id").read_text()))
    said = await run_flow_async(_flow(folder, diary), flow_run=run)
    assert said == RELEASED, said


def main(root: Path, server: Path) -> int:
    """Kill the first process at each line of its diary in turn, and let the second go on; return how many there are."""
    killed = 0
    for trial in trials(root, first):
        killed += trial.killed
        if trial.killed:
            more = trial.go_on(second)
            assert recorded(trial.before).isdisjoint(more), (trial.kill_at, trial.before, more)
        found = held(server)
        assert any(b"on their way" in text for text in found) or trial.kill_at == 1
        assert not any(SECRET.encode() in text for text in found), trial.kill_at
    return killed


if __name__ == "__main__":
    sys.stdout.write(str(main(Path(sys.argv[1]), Path(sys.argv[2]))))
