"""The program of a worker process, started by the studio."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

import anyio
from anyio import to_thread

from penstock.engine.values.errors import DefinitionError, MessageError, PenstockError
from penstock.workflows.studio.worker.agents import run_agent
from penstock.workflows.studio.worker.changes import ChangeError
from penstock.workflows.studio.worker.channel import own_channel
from penstock.workflows.studio.worker.constructor_arguments import record_processors
from penstock.workflows.studio.worker.describing import description
from penstock.workflows.studio.worker.files import run_file
from penstock.workflows.studio.worker.live import Live
from penstock.workflows.studio.worker.loaded import Loaded, load
from penstock.workflows.studio.worker.problems import problem_of
from penstock.workflows.studio.worker.running import run_workflow
from penstock.workflows.studio.worker.sources import StudioSources

if TYPE_CHECKING:
    from penstock.engine.workflow import Workflow
    from penstock.pictures.labels import Detail
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.channel import Channel


def main() -> None:
    """Load the workflow or agent that the first request names, and answer the others, one after another."""
    _serve()
    sys.stdout.flush()
    os._exit(0)  # threads that user code has started do not keep the process


def _serve() -> None:
    channel = own_channel()
    record_processors()
    request = channel.requests.get()
    sources = StudioSources(cast("dict[str, str]", request.get("sources") or {}))
    sources.install()
    try:
        loaded = load(str(request["reference"]))
        other = _other(request, sources)
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is shown
        channel.failed({**problem_of(error, "load"), "sources": sources.read})
        return
    kind = "agent" if loaded.agent is not None else "workflow"
    doc = str(getattr(loaded.target, "description", "") or "").strip().split("\n", 1)[0]
    reviews = loaded.agent is not None and loaded.agent.reviews is not None
    channel.done({"name": loaded.name, "kind": kind, "doc": doc, "reviews": reviews, "sources": sources.read})
    anyio.run(_answer_all, channel, loaded, other)


def _other(request: Json, sources: StudioSources) -> Loaded | None:
    """Load the one to compare with, if there is one; modules of the same name are loaded again."""
    other = cast("Json | None", request.get("other"))
    if other is None:
        return None
    sources.forget_modules()
    sources.play(cast("dict[str, str]", other.get("sources") or {}))
    return load(str(other["reference"]))


async def _answer_all(channel: Channel, loaded: Loaded, other: Loaded | None) -> None:
    while True:
        request = await to_thread.run_sync(channel.requests.get, abandon_on_cancel=True)
        try:
            channel.done(await _answer(channel, loaded, other, request))
        except ChangeError as error:
            channel.failed({"kind": "options", "message": error.problem, "path": error.path, "option": error.option})
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is shown
            kind = "input" if isinstance(error, PenstockError) else "step"
            graph = isinstance(error, DefinitionError) and not isinstance(error, MessageError)
            channel.failed(problem_of(error, "graph" if graph else kind))


async def _answer(channel: Channel, loaded: Loaded, other: Loaded | None, request: Json) -> Json:
    changed = loaded.changed(cast("dict[str, object]", request.get("changes") or {}))
    stage = cast("str | None", request.get("stage"))
    what = request["do"]
    if what == "describe":
        made = description(changed, stage, cast("Detail", request.get("detail") or "short"))
        return {**made, **loaded.differences(changed)} if request.get("changes") is not None else made
    if what == "diff":
        second = (other or loaded).changed(cast("dict[str, object]", request.get("other_changes") or {}))
        return changed.differences(second)
    live = Live(channel)
    channel.event("picture", {"svg": changed.draw("svg")})
    if changed.agent is not None:
        return changed.with_marks(await run_agent(changed.agent, request, live))
    workflow = cast("Workflow", changed.workflow)
    if request.get("file") is not None:
        return await run_file(workflow, request, channel)
    return changed.with_marks(await run_workflow(workflow, request, live))
