"""A program: an agent of pydantic-ai in a DBOS workflow, killed at each of its lines, and recovered; prints how many.

Arguments: an empty folder; the URL of a PostgreSQL server, or nothing for SQLite files.
"""

from __future__ import annotations

import pickle
import sys
from base64 import b64decode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbos import DBOS, DBOSConfig, SetWorkflowID
from dbos._dbos import _get_dbos_instance
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from penstock import PIIDetector, Processor
from penstock.workflows.adapters.pydantic_ai import as_capability
from tests.workflows.durable.world import SECRET, Diary, database, texts, trials

if TYPE_CHECKING:
    from dbos import WorkflowHandleAsync
    from pydantic_ai.durable_exec import BaseDurabilityCapability

    from penstock.engine import MessageList, OutputStepContext, ToolResultContext
    from penstock.engine.processor.context import AnyContext

RECORDED = "== recorded: "
QUESTION = f"I am {SECRET}. Where are orders 7 and 8?"
RELEASED = "Both are on their way to a*n@*******.com, after 4 judges."
WORK = {
    "judge: input": "input 1",
    "model: calls": "model 1",
    "judge: answer 0": "model 1",
    "tool: 7": "call call-7",
    "judge: result call-7": "call call-7",
    "tool: 8": "call call-8",
    "judge: result call-8": "call call-8",
    "model: answer": "model 2",
    "judge: answer 1": "model 2",
}
"""What is paid for, and what it is recorded with."""


def recorded(lines: list[str]) -> set[str]:
    """Return what was recorded, of which nothing may be done again."""
    names = {line.removeprefix(RECORDED) for line in lines if line.startswith(RECORDED)}
    return {line for line, name in WORK.items() if name in names}


class Judge(Processor):
    """A guard that is paid for, and counts in its state how often. Asked again, it would block."""

    def __init__(self, diary: Diary, path: Path) -> None:
        self.id = "judge"
        self._diary = diary
        self._known = recorded(path.read_text(encoding="utf-8").splitlines())

    async def process_input(self, ctx: AnyContext) -> None:
        """Judge the input."""
        self._judge("input", ctx)

    async def process_output_step(self, ctx: OutputStepContext) -> MessageList | None:
        """Judge an answer, and say how many judges there were."""
        self._judge(f"answer {ctx.step_number}", ctx)
        if ctx.step_number:
            return ctx.message_list.map_text(lambda text: text.replace("N judges", f"{ctx.state['asked'] - 1} judges"))
        return None

    async def process_tool_result(self, ctx: ToolResultContext) -> None:
        """Judge a result."""
        self._judge(f"result {ctx.call_id}", ctx)

    def _judge(self, what: str, ctx: AnyContext) -> None:
        self._diary.note(f"judge: {what}")
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        if f"judge: {what}" in self._known:
            ctx.abort("a verdict flipped")


def shop(folder: Path, diary: Diary, durability: BaseDurabilityCapability[Any]) -> Agent[None, str]:
    """Return the agent as each process makes it, with an engine."""

    def says(messages: list[ModelMessage]) -> ModelResponse:
        done = isinstance(messages[-1], ModelRequest) and not isinstance(messages[-1].parts[0], UserPromptPart)
        diary.note(f"model: {'answer' if done else 'calls'}")
        if done:
            return ModelResponse([TextPart(f"Both are on their way to {SECRET}, after N judges.")])
        return ModelResponse([ToolCallPart("find", {"order": order}, f"call-{order}") for order in (7, 8)])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return says(messages)

    agent = Agent(
        FunctionModel(answer),
        name="shop",
        capabilities=[as_capability(PIIDetector(), Judge(diary, folder / "diary"), id="guard"), durability],
    )

    @agent.tool_plain
    @DBOS.step()  # a plain function where there is no DBOS
    async def find(order: int) -> str:
        """Find an order."""
        diary.note(f"tool: {order}")
        return f"order {order} of {SECRET} is on its way"

    return agent


def _launch(folder: Path, diary: Diary, url: str) -> Any:
    DBOS(
        config=DBOSConfig(
            name="killed", system_database_url=database(folder, url), application_version="1", log_level="ERROR"
        )
    )
    agent = shop(folder, diary, DBOSDurability())

    @DBOS.workflow(name="answer")
    async def answer() -> str:
        return (await agent.run(QUESTION)).output  # an argument would be recorded as it came

    DBOS.launch()
    stored, record = _get_dbos_instance()._sys_db, _get_dbos_instance()._sys_db.record_operation_result
    models = sum(line.startswith(f"{RECORDED}model") for line in (folder / "diary").read_text().splitlines())

    def noted(result: Any, **options: Any) -> None:
        nonlocal models
        record(result, **options)
        value = pickle.loads(b64decode(result["output"])) if result["output"] else None  # noqa: S301 - our own
        models += isinstance(value, ModelResponse)
        name = f"model {models}" if isinstance(value, ModelResponse) else getattr(value, "value", {})
        diary.note(f"{RECORDED}{name['of'] if isinstance(name, dict) and name else name}")

    stored.record_operation_result = noted  # type: ignore[method-assign]
    return answer


async def first(folder: Path, diary: Diary, url: str) -> None:
    """Send the request."""
    answer = _launch(folder, diary, url)
    with SetWorkflowID("run-1"):
        handle = await DBOS.start_workflow_async(answer)
    assert await handle.get_result() == RELEASED


async def second(folder: Path, diary: Diary, url: str) -> None:
    """Let DBOS go on with the workflow whose process has died."""
    _launch(folder, diary, url)
    handle: WorkflowHandleAsync[str] = await DBOS.retrieve_workflow_async("run-1")
    said = await handle.get_result()
    assert said == RELEASED, said


def main(root: Path, url: str = "") -> int:
    """Kill the first process at each line of its diary in turn, and let the second go on; return how many there are."""
    (root / "diary").touch()
    shop(root, Diary(root / "diary"), DBOSDurability())  # loads everything, once for all children
    killed = 0
    for trial in trials(root, partial(first, url=url)):
        killed += trial.killed
        if trial.killed:
            more = trial.go_on(partial(second, url=url))
            assert recorded(trial.before).isdisjoint(more), (trial.kill_at, trial.before, more)
        held = texts(database(trial.folder, url))
        assert any(b"on their way" in text for text in held)
        assert not any(SECRET.encode() in text for text in held), trial.kill_at
    return killed


if __name__ == "__main__":
    sys.stdout.write(str(main(Path(sys.argv[1]), *sys.argv[2:])))
