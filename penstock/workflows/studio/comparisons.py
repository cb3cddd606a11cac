"""Comparisons of two runs on the same input: of their workflows, their traces and their outputs."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

from anyio import to_thread

from penstock.engine.tracing.trace import Trace
from penstock.workflows.studio.catalog import load_request
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.requests import changes_json, request_of
from penstock.workflows.studio.workers import WorkerError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from penstock.workflows.studio.catalog import Catalog
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.requests import CompareBody, Input, StudioSide
    from penstock.workflows.studio.runs import Runs, StudioRun

_KEPT = 50


class Comparisons:
    """The comparisons of a studio. Lives as long as the studio."""

    def __init__(self, catalog: Catalog, runs: Runs) -> None:
        self._catalog = catalog
        self._runs = runs
        self._made: OrderedDict[str, Json] = OrderedDict()

    def get(self, id: str) -> Json:
        """Return a comparison as far as it is known.

        Raises:
            StudioError: there is none.
        """
        found = self._made.get(id)
        if found is None:
            raise StudioError("not_found", f"there is no comparison {id[:100]!r}; compare the two runs again")
        return found

    async def start(self, body: CompareBody, tasks: TaskGroup) -> Json:
        """Start a comparison.

        Raises:
            StudioError: there is no such workflow, version, file or run.
        """
        if body.runs is not None:
            wholes = [await self._runs.whole(id) for id in body.runs]
            if any(whole["state"] != "done" for whole in wholes):
                raise StudioError("conflict", "a run is still at work; wait for its end")
            made = self._new(body.runs)
            workflows = [cast("Json", whole["workflow"]) for whole in wholes]
            sides = [
                (str(workflow["id"]), cast("int", workflow["version"]), cast("Json", whole["changes"]))
                for workflow, whole in zip(workflows, wholes, strict=True)
            ]
            tasks.start_soon(self._compare, made, sides, None)
            return made
        left, right, given = cast("StudioSide", body.left), cast("StudioSide", body.right), cast("Input", body.input)
        requests = [request_of(side, given, body.stage, body.context, body.seconds) for side in (left, right)]
        first = await self._runs.start(requests[0], tasks)
        try:
            second = await self._runs.start(requests[1], tasks)
        except StudioError:
            first.scope.cancel()
            raise
        made = self._new([first.id, second.id])
        sides = [
            (run.entry.id, run.version.number, changes_json(side.changes))
            for run, side in ((first, left), (second, right))
        ]
        tasks.start_soon(self._compare, made, sides, (first, second))
        return made

    def _new(self, runs: list[str]) -> Json:
        id = secrets.token_urlsafe(9)
        made: Json = {"id": id, "runs": list(runs), "state": "running", "diff": None, "trace": None, "output": None}
        self._made[id] = made
        while len(self._made) > _KEPT:
            self._made.popitem(last=False)
        return made

    async def _compare(
        self, made: Json, sides: list[tuple[str, int, Json]], runs: tuple[StudioRun, StudioRun] | None
    ) -> None:
        try:
            made["diff"] = await self._workflow_diff(sides)
            for run in runs or ():
                await run.done.wait()
            wholes = [await self._runs.whole(id) for id in cast("list[str]", made["runs"])]
            made["trace"] = await to_thread.run_sync(_trace_diff, wholes)
            made["output"] = {"same": all(wholes[0][name] == wholes[1][name] for name in ("status", "output"))}
        except StudioError as error:
            made["error"] = error.message
        except Exception as error:  # noqa: BLE001 - a fault of the studio ends the comparison, not the studio
            made["error"] = f"the studio failed: {type(error).__name__}: {error}"
        finally:
            made["state"] = "done"

    async def _workflow_diff(self, sides: list[tuple[str, int, Json]]) -> Json | None:
        """Return the differences between the workflows; a process of its own loads both."""
        try:
            loads = [load_request(entry := self._catalog.entry(id), entry.version(number)) for id, number, _ in sides]
            same_source = sides[0][:2] == sides[1][:2]
            worker = await self._catalog.start_worker({**loads[0], "other": None if same_source else loads[1]})
            try:
                changes: Json = {"changes": sides[0][2], "other_changes": sides[1][2]}
                return cast("Json", (await worker.ask({"do": "diff", **changes}, seconds=60))["diff"])
            finally:
                await worker.stop()
        except (StudioError, WorkerError) as error:
            return {"same": False, "text": "", "svg": None, "problem": str(error)}


def _trace_diff(wholes: list[Json]) -> Json | None:
    """Return what two traces differ in; None if one of the runs has none."""
    if any(whole["trace"] is None for whole in wholes):
        return None
    one, other = (Trace.from_json(whole["trace"]) for whole in wholes)
    found = one.compare(other)
    return {"text": str(found), **found.to_json()}
