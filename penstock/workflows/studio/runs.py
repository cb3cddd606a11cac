"""Runs: started in a worker of their own, followed live, cancelled, kept."""

from __future__ import annotations

import heapq
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import accumulate
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio import to_thread

from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.feed import Feed
from penstock.workflows.studio.requests import title_of
from penstock.workflows.studio.uploads import row_at
from penstock.workflows.studio.workers import WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anyio.abc import TaskGroup

    from penstock.workflows.studio.catalog import Catalog, CatalogEntry, Version
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.requests import RunRequest
    from penstock.workflows.studio.settings import Settings
    from penstock.workflows.studio.store import RunHistory
    from penstock.workflows.studio.uploads import Upload, Uploads
    from penstock.workflows.studio.workers import Worker

MOST_ROWS = 1_000
_SLOWEST = 20
_MOST_WAITING = 100
_IN_MEMORY = 50  # runs that ended and whose events can still be read
_MOST_BYTES = 16 * 1024 * 1024  # of them together, as they are kept; as objects they take several times as much


@dataclass(slots=True, eq=False)
class FileProgress:
    """The progress of a run over the rows of a file; its size does not grow with their number."""

    total: int
    counts: Json = field(default_factory=dict[str, object])
    done: int = 0
    steps: Json = field(default_factory=dict[str, object])
    rows: list[Json] = field(default_factory=list["Json"])
    plain: list[Json] = field(default_factory=list["Json"])
    slowest: list[Json] = field(default_factory=list["Json"])

    def add(self, told: dict[str, Any]) -> None:
        """Take the rows that a worker tells of."""
        self.counts, self.done, self.steps = told["counts"], told["done"], told.pop("steps")
        for row in told["rows"]:
            kept = self.plain if row["status"] == "passed" and not row["flagged"] else self.rows
            if len(kept) < MOST_ROWS:
                kept.append(row)
        rows: list[dict[str, Any]] = told["rows"]
        self.slowest = heapq.nlargest(
            _SLOWEST, [*self.slowest, *rows], key=lambda row: (cast("float", row["seconds"]), -cast("int", row["line"]))
        )
        told["total"] = self.total

    def to_json(self) -> Json:
        """Return it as data: the rows worth a look, filled up with others."""
        rows = sorted((*self.rows, *self.plain[: MOST_ROWS - len(self.rows)]), key=lambda row: cast("int", row["line"]))
        return {
            "counts": self.counts,
            "total": self.total,
            "done": self.done,
            "rows": rows,
            "steps": self.steps,
            "slowest": self.slowest,
            "left_out": self.done - len(rows),
        }


class StudioRun:
    """One run, live or ended. Its events are kept for a while, its result in the store."""

    def __init__(self, request: RunRequest, entry: CatalogEntry, version: Version, file: Upload | None) -> None:
        self.id = secrets.token_urlsafe(9)
        self.created = time()
        self.request = request
        self.entry = entry
        self.version = version
        self.upload = file
        self.feed = Feed()
        self.state = "waiting"
        self.status: str | None = None
        self.seconds = 0.0
        self.error: Json | None = None
        self.result: Json = {}
        self.svg: str | None = None
        self.logs = ""
        self.file = FileProgress(file.rows) if file is not None and request.line is None else None
        self.results: Path | None = None
        self.row: object = None  # the row of a file on which it runs; its text if it cannot be read
        self.bytes = 0  # how many it takes in the store; 0 if it is not there
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()

    def on_event(self, name: str, data: object) -> None:
        """Take an event of the worker."""
        if name == "picture":
            self.svg = cast("str | None", cast("Json", data)["svg"])
            return
        if name == "rows" and self.file is not None:
            self.file.add(cast("dict[str, Any]", data))
        elif name == "log":
            self.logs += str(cast("Json", data)["text"])
        self.feed.add(name, data)

    def set_state(self, state: str) -> None:
        """Set the state, and send an event that says so."""
        self.state = state
        self.feed.add("state", {"state": state})

    def fail(self, problem: Json, status: str = "failed") -> None:
        """End with an error."""
        self.error, self.status = problem, status
        self.feed.add("error", problem)

    def short(self) -> Json:
        """Return the summary that lists of runs show."""
        about = self.version.about
        workflow = {
            "id": self.entry.id,
            "name": about.get("name"),
            "reference": self.entry.reference,
            "version": self.version.number,
            "kind": "preset" if self.entry.preset else about.get("kind"),
        }
        return {
            "id": self.id,
            "created": self.created,
            "workflow": workflow,
            "stage": None if about.get("kind") == "agent" else self.request.stage,
            "changes": self.request.changes,
            "title": title_of(self.request, self.upload),
            "state": self.state,
            "status": self.status,
            "seconds": self.seconds,
            "counts": None if self.file is None else self.file.counts,
        }

    def whole(self) -> Json:
        """Return all that is known."""
        made = self.short()
        made |= {"input": self.request.input, "row": self.row, "context": self.request.context, "svg": self.svg}
        made |= {name: self.result.get(name) for name in ("trace", "marks", "output", "agent")}
        file = None if self.file is None else self.file.to_json()
        return {**made, "error": self.error, "logs": self.logs, "file": file}


class Runs:
    """The runs of a studio. Lives as long as the studio."""

    def __init__(
        self, settings: Settings, catalog: Catalog, store: RunHistory, uploads: Uploads, tell: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._store = store
        self._uploads = uploads
        self._tell = tell
        self._live: OrderedDict[str, StudioRun] = OrderedDict()
        self._room = anyio.CapacityLimiter(settings.processes)

    async def start(self, request: RunRequest, tasks: TaskGroup) -> StudioRun:
        """Start a run.

        Raises:
            StudioError: there is no such workflow, version or file; or too many runs wait.
        """
        entry = self._catalog.entry(request.workflow)
        upload = None if request.file is None else self._uploads.get(request.file)
        if sum(run.state == "waiting" for run in self._live.values()) >= _MOST_WAITING:
            raise StudioError("busy", f"{_MOST_WAITING} runs wait already; try again when some have ended")
        await self._catalog.ready(entry)
        version = entry.version(request.version)
        if upload is not None and request.line is None and version.about.get("kind") == "agent":
            raise StudioError("bad_request", "an agent runs on one row of a file; name its line", field="input.line")
        run = StudioRun(request, entry, version, upload)
        if upload is not None:
            upload.used += 1
        self._live[run.id] = run
        run.set_state("waiting")
        tasks.start_soon(self._run, run)
        self._tell()
        return run

    async def _run(self, run: StudioRun) -> None:
        try:
            with run.scope:
                async with self._room:
                    await self._work(run)
            if run.scope.cancelled_caught:
                run.fail({"kind": "cancelled", "message": "the run was cancelled"}, "cancelled")
        except Exception as error:  # noqa: BLE001 - a fault of the studio ends the run, not the studio
            run.fail({"kind": "internal", "message": f"the studio failed: {type(error).__name__}: {error}"})
        finally:
            if run.upload is not None:
                run.upload.used -= 1
            run.state = "done"
            with anyio.CancelScope(shield=True):
                await self._keep(run)

    async def _work(self, run: StudioRun) -> None:
        run.set_state("loading")
        worker: Worker | None = None
        started = perf_counter()
        try:
            request = await self._worker_request(run)
            worker = await self._catalog.worker(run.entry, run.version)
            worker.forget_log()
            run.set_state("running")
            started = perf_counter()
            limit = min(run.request.seconds or self._settings.seconds, self._settings.seconds)
            made = await worker.ask(request, run.on_event, seconds=limit)
            run.result, run.status = made, cast("str", made["status"])
            if made["error"] is not None:
                run.error = cast("Json", made["error"])
                run.feed.add("error", run.error)
        except WorkerError as error:
            run.fail(error.problem)
        except StudioError as error:
            run.fail({"kind": "input", "message": error.message})
        finally:
            run.seconds = perf_counter() - started
            if worker is not None:
                with anyio.CancelScope(shield=True):
                    await worker.stop()
                self._catalog.refill(run.entry, run.version)

    async def _worker_request(self, run: StudioRun) -> Json:
        asked = run.request
        request: Json = {"do": "run", "stage": asked.stage, "changes": asked.changes, "context": asked.context}
        if run.upload is None:
            return {**request, "input": asked.input}
        if asked.line is None:
            run.results = self._uploads.folder / f"{run.id}.results.jsonl"
            files = {"file": str(run.upload.path), "results": str(run.results)}
            return {**request, **files, "jobs": asked.jobs}
        row, text = await to_thread.run_sync(row_at, run.upload, asked.line)
        run.row = text if row.problem is not None else row.value
        if row.problem is not None:
            raise StudioError("bad_request", f"line {row.line}: {row.problem}")
        return {**request, "input": {"kind": "row", "value": row.value}}

    async def _keep(self, run: StudioRun) -> None:
        """Store a run that has ended, and send the event of its end."""
        try:
            run.bytes = await to_thread.run_sync(self._store.add, run.id, run.created, run.short(), run.whole())
        except Exception as error:  # noqa: BLE001 - a full disk must not take the result from the page
            run.feed.add("log", {"text": f"the run cannot be kept: {error}\n"})
        run.feed.add("end", {"status": run.status, "seconds": run.seconds})
        run.feed.close()
        run.done.set()
        for old in self._beyond_memory():
            self._live.pop(old.id, None)
            await _forget_results(old)
        self._tell()

    def _beyond_memory(self) -> list[StudioRun]:
        """Return the ended runs that are too many, or too large together, without the newest; the store has them.

        Those on files are small, and their results are on disk for as long as they are here.
        """
        ended = [each for each in reversed(self._live.values()) if each.done.is_set()]
        totals = accumulate(0 if each.results is not None else each.bytes for each in ended)
        return [
            each
            for place, (each, total) in enumerate(zip(ended, totals, strict=True))
            if place >= _IN_MEMORY or (place and total > _MOST_BYTES and each.bytes and each.results is None)
        ]

    # Looking at runs

    def live(self, id: str) -> StudioRun | None:
        """Return a run whose events are still there."""
        return self._live.get(id)

    async def whole(self, id: str) -> Json:
        """Return all that is known of a run.

        Raises:
            StudioError: there is no such run.
        """
        run = self._live.get(id)
        if run is not None:
            return run.whole()
        found = await to_thread.run_sync(self._store.get, id)
        if found is None:
            raise StudioError("not_found", f"there is no run {id[:100]!r}; it may have been deleted")
        return found

    async def latest(self, limit: int, before: float | None) -> Json:
        """Return the newest runs in short form; those that are live first."""
        kept = await to_thread.run_sync(self._store.latest, limit + 1, before)
        live = [run for run in self._live.values() if run.state != "done"]
        fresh = [run.short() for run in live if before is None or run.created < before]
        every = sorted((*fresh, *kept), key=lambda run: cast("float", run["created"]), reverse=True)
        return {"runs": every[:limit], "more": len(every) > limit}

    def cancel(self, id: str) -> str:
        """Cancel a run, and return its state.

        Raises:
            StudioError: there is no such live run.
        """
        run = self._live.get(id)
        if run is None:
            raise StudioError("not_found", f"there is no run {id[:100]!r} that could be cancelled")
        if run.state != "done":
            run.scope.cancel()
        return run.state

    async def delete(self, id: str | None) -> None:
        """Delete a run, or all. One that is at work is cancelled.

        Raises:
            StudioError: there is no such run.
        """
        chosen = [run for run in self._live.values() if id in (None, run.id)]
        for run in chosen:
            run.scope.cancel()
            await run.done.wait()
            self._live.pop(run.id, None)
            await _forget_results(run)
        found = await to_thread.run_sync(self._store.delete, id)
        if id is not None and not found and not chosen:
            raise StudioError("not_found", f"there is no run {id[:100]!r}")
        self._tell()

    def stop(self) -> None:
        """Cancel all runs."""
        for run in self._live.values():
            run.scope.cancel()


async def _forget_results(run: StudioRun) -> None:
    if run.results is not None:
        await anyio.Path(run.results).unlink(missing_ok=True)
