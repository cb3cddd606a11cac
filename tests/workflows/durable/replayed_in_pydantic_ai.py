"""A program: durable runs of pydantic-ai's agents, killed at their ends and replayed in another process.

Each scenario writes a line for each piece of work. The second process may write none, and ends with the same result.

Arguments: an empty folder; that of a Prefect server, see `prefect_server.running`, or nothing for DBOS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
from dbos import DBOS, DBOSConfig, SetWorkflowID
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, TextOutput, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.exceptions import ToolFailed, UserError
from pydantic_ai.messages import AgentStreamEvent, CustomEvent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from penstock import PIIDetector, Processor
from penstock.processors.guards import Restore
from penstock.processors.tools import ToolPolicy
from penstock.workflows.adapters.pydantic_ai import GuardBlockedError, as_capability
from tests.workflows.durable.prefect_server import held
from tests.workflows.durable.world import SECRET, Diary, in_child, texts

if TYPE_CHECKING:
    from penstock.engine import ToolResultContext
    from penstock.engine.processor.context import AnyContext

SERVER = Path(sys.argv[2]) if len(sys.argv) > 2 else None
"""The folder of the server of Prefect; None: the engine is DBOS."""
DIARY = Diary(Path(os.devnull))
SAID: list[str] = []
HIDES = PIIDetector(redaction_method="placeholder")


class Judge(Processor):
    """A guard that is paid for at each of its stages, and stops a text with a word."""

    def process_input(self, ctx: AnyContext) -> None:
        """Judge the input."""
        self._judge("input", ctx.text, ctx)

    def process_output_step(self, ctx: AnyContext) -> None:
        """Judge an answer."""
        self._judge("answer", ctx.text, ctx)

    def process_tool_result(self, ctx: ToolResultContext) -> None:
        """Judge a result."""
        self._judge("result", str(ctx.result), ctx)

    def process_output_result(self, ctx: AnyContext) -> None:
        """Judge the end."""
        self._judge("end", ctx.text, ctx)

    def _judge(self, what: str, text: str, ctx: AnyContext) -> None:
        DIARY.note(f"judge: {what}")
        if "forbidden" in text:
            ctx.abort("a word is forbidden")


class Person(BaseModel):
    """A person."""

    mail: str


def says(*answers: Any) -> FunctionModel:
    """Return a model that gives one answer after another, by how many there are in the history."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        DIARY.note("model")
        said = answers[sum(isinstance(message, ModelResponse) for message in messages)]
        return ModelResponse([TextPart(said) if isinstance(said, str) else said])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        DIARY.note("model")
        for piece in answers[0].split("|"):
            yield piece

    return FunctionModel(answer, stream_function=stream)


async def reads(ctx: RunContext[None], events: Any) -> None:
    """Note the chunks of text that come while the model answers."""
    async for event in events:
        made: AgentStreamEvent = event
        if made.event_kind == "part_start" and isinstance(made.part, TextPart):
            SAID.append(made.part.content)
        if made.event_kind == "part_delta":
            SAID.append(made.delta.content_delta)


class Notes(AbstractCapability[None]):
    """A capability that adds a word to each text of an answer."""

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
        """Add it."""
        parts = [
            replace(one, content=f"Note: {one.content}") if isinstance(one, TextPart) else one for one in response.parts
        ]
        return replace(response, parts=parts)


def agent(
    name: str, model: FunctionModel, *guards: Any, handler: Any = None, others: Sequence[Any] = (), **options: Any
) -> Agent[None, Any]:
    """Return an agent with guards, in durable runs; ``others``: further capabilities."""
    records = options.pop("records_tools", True)
    own = as_capability(*(guards or (HIDES, Judge())), id="guard", records_tools=records)
    return Agent(model, name=name, capabilities=[own, *others, engine(handler)], **options)


def engine(handler: Any) -> AbstractCapability[None]:
    """Return the engine."""
    if SERVER is None:
        return DBOSDurability(event_stream_handler=handler)
    from pydantic_ai.durable_exec.prefect import PrefectDurability

    return PrefectDurability(event_stream_handler=handler)


SCENARIOS: dict[str, Callable[[], Awaitable[object]]] = {}
LOOK = ToolCallPart("look", {}, "c1")


def scenario(work: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    """Add a scenario under its name."""
    SCENARIOS[work.__name__] = work
    return work


def greet(said: str) -> str:
    """Make an output."""
    DIARY.note("function")
    return f"{said}, {SECRET}"


async def verdict_of(run: Awaitable[Any]) -> str:
    """Return the reason of the verdict that ends a run."""
    try:
        return str((await run).output)
    except GuardBlockedError as blocked:
        return blocked.tripwire.reason


def parts_of(result: Any) -> list[str]:
    """Return what the messages of a run say."""
    return [str(getattr(part, "content", "")) for message in result.all_messages() for part in message.parts]


streaming = agent("streaming", says(f"Write to {SECRET[:6]}|{SECRET[6:]}, |please."), handler=reads)
stopped = agent("stopped", says("All is |well, |forbidden |it is."), handler=reads)
plain = agent("plain", says("forbidden"))
never = agent("never", says("never"))
objects = agent("objects", says(ToolCallPart("final_result", {"mail": SECRET}, "c1")), output_type=Person)
functions = agent("functions", says("hello"), output_type=TextOutput(greet))
checked = agent("checked", says("hello"))
failing = agent("failing", says(LOOK, LOOK, "done"), retries=2)
alone = agent("alone", says(LOOK, "done"), records_tools=False)
refused = agent("refused", says(LOOK, LOOK, "done"), retries=2, records_tools=False)
asking = agent(
    "asking", says(LOOK, "done"), ToolPolicy(ask=["look"]), HIDES, Judge(), output_type=[str, DeferredToolRequests]
)
calls = ToolCallPart("send", {"to": "[EMAIL_1]"}, "c1")
tokens = PIIDetector(redaction_method="token", phase="input")
restoring = agent("restoring", says(calls, "Dear [EMAIL_1]"), tokens, Restore())
outside = agent("outside", says(calls, "Dear [EMAIL_1]"), tokens, Restore(), others=[Notes()], records_tools=False)
whole = agent("whole", says(LOOK, "done"))
equal = agent("equal", says(LOOK, "done"))
emitting = agent("emitting", says(LOOK, "done"))
queueing = agent("queueing", says(LOOK, "done"))


@checked.output_validator
def longer(said: str) -> str:
    """Add to an output."""
    return f"{said}, {SECRET}"


def fails(ctx: RunContext[None]) -> str:
    """Fail."""
    raise (ModelRetry if ctx.run_step == 1 else ToolFailed)(f"ask {SECRET}")


failing.tool(fails, name="look")
refused.tool(fails, name="look")


async def works() -> str:
    """Work with the engine."""
    await (DBOS.sleep_async if SERVER is None else anyio.sleep)(0.01)  # only a workflow may
    return f"at {SECRET}"


alone.tool_plain(works, name="look")


def look() -> ToolReturn:
    """Return a value with metadata."""
    DIARY.note("tool")
    return ToolReturn({"mail": SECRET}, metadata={"seen": SECRET})


whole.tool_plain(look)
asking.tool_plain(look)
equal.tool_plain(look)
shelf = FunctionToolset([look], id="shelf").filtered(lambda ctx, tool: True).prefixed("my")
wrapped = agent("wrapped", says(ToolCallPart("my_look", {}, "c1"), "done"), toolsets=[shelf])
made = DynamicToolset(lambda _: FunctionToolset([look]), id="made")
dynamic = agent("dynamic", says(LOOK, "done"), toolsets=[made])


def refuses(ctx: RunContext[None]) -> None:
    """Refuse the arguments of a call."""
    raise ModelRetry(f"ask {SECRET}")


strict = FunctionToolset[None]()
strict.add_function(look, args_validator=refuses)
validated = agent(
    "validated", says(LOOK, LOOK, "done"), toolsets=[DynamicToolset(lambda _: strict, id="strict")], retries=2
)


def queue(ctx: RunContext[None]) -> str:
    """Queue a message."""
    ctx.enqueue("later")
    return "queued"


queueing.tool(queue, name="look")


@dataclass(kw_only=True)
class Seen(CustomEvent):
    """Something that a tool has seen."""


async def emits(ctx: RunContext[None]) -> str:
    """Emit an event."""
    await ctx.emit(Seen())
    return "emitted"


emitting.tool(emits, name="look")


def sends(to: str) -> str:
    """Send a message; a replay calls it again, without the value, and takes the recorded result."""
    return "sent to the value" if to == SECRET else "sent to a token"


outside.tool_plain(sends, name="send")


@restoring.tool_plain
def send(to: str) -> str:
    """Send a message."""
    DIARY.note("tool")
    SAID.append(to)
    return "sent"


@scenario
async def a_stream() -> object:
    """Live for the handler, whole for the workflow."""
    SAID.clear()
    async with streaming.run_stream(f"I am {SECRET}") as answer:
        pieces = [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]
    return [pieces, answer.all_messages()[-1].metadata]


@scenario
async def a_stopped_stream() -> object:
    """In its midst."""
    try:
        async with stopped.run_stream("Hello") as answer:
            return await answer.get_output()
    except GuardBlockedError as blocked:
        return blocked.tripwire.reason


@scenario
async def a_stopped_answer() -> object:
    """A whole one."""
    return await verdict_of(plain.run("Hello"))


@scenario
async def a_stopped_input() -> object:
    """Before the model is called."""
    return await verdict_of(never.run("forbidden"))


@scenario
async def an_object() -> object:
    """Made of a call."""
    return (await objects.run(f"I am {SECRET}")).output.mail


@scenario
async def an_output_function() -> object:
    """It is called once."""
    return (await functions.run("Hello")).output


@scenario
async def an_output_validator() -> object:
    """It is called again, its guards are not."""
    return (await checked.run("Hello")).output


@scenario
async def errors_of_a_tool() -> object:
    """The model reads them."""
    return parts_of(await failing.run("Look"))


@scenario
async def a_tool_outside() -> object:
    """It may use the engine."""
    return parts_of(await alone.run("Look"))


@scenario
async def errors_of_a_tool_outside() -> object:
    """The model reads them."""
    return parts_of(await refused.run("Look"))


@scenario
async def a_whole_result() -> object:
    """With metadata."""
    return parts_of(await whole.run("Look"))


@scenario
async def a_wrapped_toolset() -> object:
    """Its wrappers pass on that the engine records nothing."""
    return parts_of(await wrapped.run("Look"))


@scenario
async def a_dynamic_toolset() -> object:
    """It is made again for each call."""
    return parts_of(await dynamic.run("Look"))


@scenario
async def a_validator() -> object:
    """The engines record what it says."""
    try:
        return parts_of(await validated.run("Look"))
    except UserError as error:
        return str(error)


@scenario
async def two_equal_runs() -> object:
    """One after the other."""
    return [parts_of(await equal.run("Look")) for _ in range(2)]


@scenario
async def an_approval() -> object:
    """In a second run."""
    asked = await asking.run("Look")
    decided = DeferredToolResults(approvals={call.tool_call_id: True for call in asked.output.approvals})
    return parts_of(await asking.run(message_history=asked.all_messages(), deferred_tool_results=decided))


@scenario
async def restored() -> object:
    """For the tool, not for the log."""
    said = (await restoring.run(f"I am {SECRET}")).output
    return [said, SAID.pop() == SECRET if SAID else True]


@scenario
async def restored_outside() -> object:
    """Where the tool runs between two steps, and another capability changes the answer."""
    return parts_of(await outside.run(f"I am {SECRET}"))


@scenario
async def an_event() -> object:
    """A replay would not send it."""
    try:
        return (await emitting.run("Look")).output
    except UserError as error:
        return str(error)[:60]


@scenario
async def a_queue() -> object:
    """A replay would lose what is in it."""
    try:
        return (await queueing.run("Look")).output
    except UserError as error:
        return str(error)[:60]


async def end(folder: Path, name: str, *, dies: bool) -> str:
    """Run a scenario, and write its result; the process waits to be killed then, or goes on."""
    said = json.dumps(await SCENARIOS[name](), default=str)
    with (folder / ("first" if dies else "second")).open("a") as file:
        file.write(f"{name}: {said}\n")
    if dies:
        await anyio.sleep_forever()
    return said


async def ended(folder: Path, name: str) -> None:
    """Wait for the result of a scenario."""
    with anyio.fail_after(60):
        while f"{name}: " not in (folder / "first").read_text():  # noqa: ASYNC110 - the workflow may run in another loop
            await anyio.sleep(0.02)
    if name == "a_stream":
        (folder / "live").write_text(json.dumps(SAID))


async def run_in_dbos(folder: Path, *, dies: bool) -> None:
    """Run all scenarios to their ends, or replay them."""
    url = f"sqlite:///{folder}/dbos.db"
    DBOS(config=DBOSConfig(name="replayed", system_database_url=url, application_version="1", log_level="ERROR"))

    @DBOS.workflow(name="scenario")
    async def workflow(name: str) -> str:
        return await end(folder, name, dies=dies)

    DBOS.launch()
    for name in SCENARIOS:
        if dies:
            with SetWorkflowID(name):
                await DBOS.start_workflow_async(workflow, name)
            await ended(folder, name)
        else:
            handle: Any = await DBOS.retrieve_workflow_async(name)
            await handle.get_result()


async def run_in_prefect(folder: Path, *, dies: bool) -> None:
    """Run all scenarios to their ends, or replay them."""
    from prefect import flow, get_client
    from prefect.flow_engine import run_flow_async
    from prefect.states import Pending

    @flow(name="scenario", persist_result=True)
    async def scenario(name: str) -> str:
        return await end(folder, name, dies=dies)

    async with get_client() as client, anyio.create_task_group() as flows:
        for name in SCENARIOS:
            parameters, id = {"name": name}, folder / f"{name}.id"
            if dies:
                made = await client.create_flow_run(scenario, parameters=parameters, state=Pending())
                id.write_text(str(made.id))
                flows.start_soon(partial(run_flow_async, scenario, flow_run=made, parameters=parameters))
                await ended(folder, name)
            else:
                made = await client.read_flow_run(UUID(id.read_text()))
                await run_flow_async(scenario, flow_run=made, parameters=parameters)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)  # else the group waits for the flows


async def run(folder: Path, *, dies: bool) -> None:
    """Run all scenarios to their ends and kill the process, or replay them."""
    global DIARY  # noqa: PLW0603 - each process has one
    DIARY = Diary(folder / "diary")
    (folder / ("first" if dies else "second")).touch()
    await (run_in_dbos if SERVER is None else run_in_prefect)(folder, dies=dies)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path) -> None:
    """Run all scenarios, kill the process, and replay them."""
    assert in_child(partial(run, folder, dies=True)) == -signal.SIGKILL
    before = (folder / "diary").read_text()
    assert in_child(partial(run, folder, dies=False)) == 0
    stored = texts(f"sqlite:///{folder}/dbos.db") if SERVER is None else held(SERVER)
    sys.stdout.write(
        json.dumps(
            {
                "first": sorted((folder / "first").read_text().splitlines()),
                "second": sorted((folder / "second").read_text().splitlines()),
                "again": (folder / "diary").read_text()[len(before) :],
                "live": json.loads((folder / "live").read_text()),
                "leaks": [text.decode(errors="replace") for text in stored if SECRET.encode() in text],
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
