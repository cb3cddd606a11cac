"""The studio as an ASGI application: its routes, and errors as JSON."""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, cast

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

import penstock
from penstock.engine.processor.stages import STAGES
from penstock.engine.run.run import Run
from penstock.workflows.rows.orphans import OrphanWatcher
from penstock.workflows.studio.assets import asset, page
from penstock.workflows.studio.bodies import answer_json, body_of, number_of, read_to_its_end, refuse_large
from penstock.workflows.studio.catalog import Catalog
from penstock.workflows.studio.comparisons import Comparisons
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.feed import Event, Feed
from penstock.workflows.studio.protocol import dumps
from penstock.workflows.studio.requests import (
    LabelBody,
    PreviewBody,
    changes_json,
    compare_body,
    read_body,
    run_request,
    stage_of,
)
from penstock.workflows.studio.review import ReviewFile
from penstock.workflows.studio.reviews import WaitingRequests, review_routes
from penstock.workflows.studio.runs import Runs
from penstock.workflows.studio.security import Guarded
from penstock.workflows.studio.store import RunHistory
from penstock.workflows.studio.uploads import Uploads, row_at
from penstock.workflows.studio.workers import WorkerError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp

    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.settings import Settings

_ASK_SECONDS = 30.0  # for what changes nothing: descriptions, previews
_MOST_LISTED = 500
_PIECE = 256 * 1024  # bytes of a file at once


class Studio:
    """All parts of one studio.

    Args:
        settings: its settings.

    Raises:
        UsageError: the file of the last runs cannot be used.
        StudioError: the file of rows to label cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.feed = Feed()
        self.started = time()
        self.review = None if settings.review is None else ReviewFile(settings.review)
        self.store = RunHistory(settings.history, settings.keep)
        self.waiting = None if settings.reviews is None else WaitingRequests.of(settings.reviews, settings)
        self.app: ASGIApp = Guarded(
            Starlette(
                routes=_routes(self),
                lifespan=self._lifespan,
                exception_handlers=dict.fromkeys(
                    (StudioError, WorkerError, HTTPException, sqlite3.Error, ClientDisconnect, Exception), _answer_error
                ),
            ),
            settings,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        """Run the tasks beside the requests; at the end no process is left."""
        orphans = OrphanWatcher()
        async with anyio.create_task_group() as tasks:
            self.tasks = tasks
            self.uploads = Uploads(self.settings.upload_limit)
            self.catalog = Catalog(self.settings, tasks, orphans, lambda entry: self.feed.add("workflow", entry))
            self.runs = Runs(self.settings, self.catalog, self.store, self.uploads, lambda: self.feed.add("runs", {}))
            self.comparisons = Comparisons(self.catalog, self.runs)
            self.catalog.start()
            try:
                yield
            finally:
                self.say_bye()
                with anyio.CancelScope(shield=True):
                    await self.catalog.stop()
                tasks.cancel_scope.cancel()
        await self.catalog.stop()
        orphans.close()
        if self.waiting is not None:
            await self.waiting.close()
        self.uploads.close()
        self.store.close()

    def say_bye(self) -> None:
        """Let the streams of events end, since the studio stops."""
        self.feed.add("bye", {})
        self.feed.close()
        self.runs.stop()


def _routes(studio: Studio) -> list[Route]:
    api = _Endpoints(studio)
    return [
        Route("/", api.page),
        Route("/page/{path:path}", api.asset),
        Route("/api/events", api.all_events),
        Route("/api/workflows", api.workflows),
        Route("/api/workflows/{id}", api.workflow),
        Route("/api/workflows/{id}/reload", api.reload, methods=["POST"]),
        Route("/api/workflows/{id}/preview", api.preview, methods=["POST"]),
        Route("/api/runs", api.latest, methods=["GET"]),
        Route("/api/runs", api.start, methods=["POST"]),
        Route("/api/runs", api.delete_run, methods=["DELETE"]),
        Route("/api/runs/{id}", api.run, methods=["GET"]),
        Route("/api/runs/{id}", api.delete_run, methods=["DELETE"]),
        Route("/api/runs/{id}/events", api.events),
        Route("/api/runs/{id}/cancel", api.cancel, methods=["POST"]),
        Route("/api/runs/{id}/trace.json", api.trace),
        Route("/api/runs/{id}/results.jsonl", api.results),
        Route("/api/runs/{id}/input", api.row),
        Route("/api/files", api.files, methods=["GET"]),
        Route("/api/files", api.upload, methods=["POST"]),
        Route("/api/files/{id}", api.delete_file, methods=["DELETE"]),
        Route("/api/review", api.review, methods=["GET"]),
        Route("/api/review", api.label, methods=["POST"]),
        *review_routes(studio),
        Route("/api/compare", api.compare, methods=["POST"]),
        Route("/api/compare/{id}", api.comparison),
    ]


class _Endpoints:
    """The endpoints: the page and the events of the whole studio, workflows, runs, comparisons and uploaded files."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def page(self, request: Request) -> Response:
        return page("review.html" if "review" in request.query_params else "index.html")

    async def asset(self, request: Request) -> Response:
        return asset(request.path_params["path"])

    async def all_events(self, request: Request) -> Response:
        hello = {"version": penstock.__version__, "started": self._studio.started}
        return _events(self._studio.feed, request, str(Event(0, "hello", dumps(hello))))

    # Workflows and agents

    async def workflows(self, _request: Request) -> Response:
        settings = self._studio.settings
        limits = {"upload": settings.upload_limit, "text": settings.text_limit, "seconds": settings.seconds}
        return answer_json(
            {
                "version": penstock.__version__,
                "stages": [
                    {
                        "name": name,
                        "doc": (getattr(Run, name).__doc__ or "").split("\n", 1)[0],
                        "value": stage.value or None,
                        "streams": stage.streams,
                        "list": stage.processor_list,
                    }
                    for name, stage in STAGES.items()
                ],
                "workflows": [entry.summary() for entry in self._studio.catalog.entries.values()],
                "limits": limits,
                "reviews": None if self._studio.waiting is None else self._studio.waiting.about,
            }
        )

    async def workflow(self, request: Request) -> Response:
        query = request.query_params
        asked = {"stage": stage_of(query.get("stage")), "detail": query.get("detail", "short")}
        if asked["detail"] not in ("short", "full"):
            raise StudioError("bad_request", "detail is short or full", field="detail")
        return await self._described(request, number_of(query.get("version"), "version"), asked)

    async def preview(self, request: Request) -> Response:
        body = read_body(PreviewBody, await body_of(request, self._studio.settings.text_limit))
        asked = {"stage": stage_of(body.stage), "detail": body.detail, "changes": changes_json(body.changes)}
        return await self._described(request, body.version, asked)

    async def _described(self, request: Request, number: int | None, asked: dict[str, Any]) -> Response:
        catalog = self._studio.catalog
        entry = catalog.entry(request.path_params["id"])
        await catalog.ready(entry)
        version = entry.version(number)
        async with catalog.borrowed(entry, version) as worker:
            described = await worker.ask({"do": "describe", **asked}, seconds=_ASK_SECONDS)
        return answer_json({**entry.summary(), **described, "shown": version.number})

    async def reload(self, request: Request) -> Response:
        entry = self._studio.catalog.entry(request.path_params["id"])
        await self._studio.catalog.ready(entry, again=True)
        return answer_json(entry.summary())

    # Runs and comparisons

    async def start(self, request: Request) -> Response:
        asked = run_request(await body_of(request, self._studio.settings.text_limit))
        run = await self._studio.runs.start(asked, self._studio.tasks)
        return answer_json({"id": run.id}, 202)

    async def latest(self, request: Request) -> Response:
        query = request.query_params
        limit = number_of(query.get("limit"), "limit") or 50
        before = query.get("before")
        try:
            when = None if before is None else float(before)
        except ValueError:
            raise StudioError("bad_request", "before is a time in seconds", field="before") from None
        return answer_json(await self._studio.runs.latest(max(1, min(limit, _MOST_LISTED)), when))

    async def run(self, request: Request) -> Response:
        return answer_json(await self._studio.runs.whole(request.path_params["id"]))

    async def delete_run(self, request: Request) -> Response:
        await self._studio.runs.delete(request.path_params.get("id"))
        return Response(status_code=204)

    async def cancel(self, request: Request) -> Response:
        return answer_json({"state": self._studio.runs.cancel(request.path_params["id"])}, 202)

    async def events(self, request: Request) -> Response:
        run = self._studio.runs.live(request.path_params["id"])
        if run is None:
            await self._studio.runs.whole(request.path_params["id"])  # 404 if there is none at all
            return Response(status_code=204)
        return _events(run.feed, request)

    async def trace(self, request: Request) -> Response:
        trace = (await self._studio.runs.whole(request.path_params["id"]))["trace"]
        if trace is None:
            raise StudioError("not_found", "the run has no trace")
        return Response(dumps(trace), media_type="application/json", headers=_download("trace.json"))

    async def results(self, request: Request) -> Response:
        run = self._studio.runs.live(request.path_params["id"])
        if run is None or run.results is None or not await anyio.Path(run.results).is_file():
            raise StudioError("not_found", "the results are not kept any more; run the file again")
        kind, headers = "application/x-ndjson", _download("results.jsonl")
        if run.done.is_set():
            return FileResponse(run.results, media_type=kind, headers=headers)
        return StreamingResponse(_whole_lines(anyio.Path(run.results)), media_type=kind, headers=headers)

    async def row(self, request: Request) -> Response:
        whole = await self._studio.runs.whole(request.path_params["id"])
        given = cast("Json", whole["input"])
        line = number_of(request.query_params.get("line"), "line") or given.get("line")
        if given["kind"] != "file" or not isinstance(line, int):
            raise StudioError("bad_request", "name the line of a run on a file", field="line")
        upload = self._studio.uploads.get(str(given["file"]))
        row, text = await anyio.to_thread.run_sync(row_at, upload, line)
        return answer_json({"line": line, "text": text, "value": row.value, "problem": row.problem})

    async def compare(self, request: Request) -> Response:
        asked = compare_body(await body_of(request, self._studio.settings.text_limit))
        made = await self._studio.comparisons.start(asked, self._studio.tasks)
        return answer_json({"id": made["id"], "runs": made["runs"]}, 202)

    async def comparison(self, request: Request) -> Response:
        return answer_json(self._studio.comparisons.get(request.path_params["id"]))

    # Rows to label

    async def review(self, _request: Request) -> Response:
        return answer_json(await anyio.to_thread.run_sync(self._review().to_json))

    async def label(self, request: Request) -> Response:
        given = read_body(LabelBody, await body_of(request, self._studio.settings.text_limit))
        label = partial(self._review().label, given.number, given.id, given.label)
        return answer_json(await anyio.to_thread.run_sync(label))

    def _review(self) -> ReviewFile:
        if self._studio.review is None:
            raise StudioError("not_found", "there is no file to label; start the studio with --review FILE")
        return self._studio.review

    # Uploaded files

    async def files(self, _request: Request) -> Response:
        return answer_json({"files": self._studio.uploads.all()})

    async def upload(self, request: Request) -> Response:
        uploads = self._studio.uploads
        async with read_to_its_end(request):
            refuse_large(request, self._studio.settings.upload_limit, "the file", "--max-upload")
            upload = await uploads.add(request.query_params.get("name", ""), request.stream())
        return answer_json(upload.to_json(preview=True), 201)

    async def delete_file(self, request: Request) -> Response:
        await self._studio.uploads.delete(request.path_params["id"])
        return Response(status_code=204)


# Answers


def _download(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


async def _whole_lines(path: anyio.Path) -> AsyncGenerator[bytes]:
    """Yield the whole lines of a file that is being written, up to its present end."""
    left, held = (await path.stat()).st_size, b""
    async with await path.open("rb") as file:
        while left > 0 and (piece := await file.read(min(left, _PIECE))):
            left -= len(piece)
            lines, end, held = (held + piece).rpartition(b"\n")
            yield lines + end


def _events(feed: Feed, request: Request, first: str = "") -> Response:
    """Return the events of a feed, from where the client left off; before them ``first``."""
    given = request.headers.get("last-event-id") or request.query_params.get("after") or ""
    after = int(given) if given.isascii() and given.isdecimal() and len(given) <= 15 else 0  # noqa: PLR2004 - as above
    if feed.closed and after >= feed.last:
        return Response(status_code=204)  # which tells an EventSource to stop

    async def opened() -> AsyncGenerator[str]:
        yield f"retry: 1000\n\n{first}"
        async with contextlib.aclosing(feed.read(after)) as events:
            async for event in events:
                yield event

    return StreamingResponse(opened(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _answer_error(_request: Request, error: Exception) -> Response:
    """Answer with an error as JSON. The traceback of a fault of the studio goes to the terminal."""
    if isinstance(error, HTTPException):
        kind = {404: "not_found", 405: "method"}.get(error.status_code, "bad_request")
        return answer_json(StudioError(kind, error.detail).to_json(), error.status_code)
    if isinstance(error, WorkerError):
        problem = error.problem
        kind = "options" if problem["kind"] == "options" else "conflict"
        more = {name: problem.get(name) for name in ("path", "option")} if kind == "options" else {"problem": problem}
        error = StudioError(kind, str(problem["message"]), **more)
    elif isinstance(error, sqlite3.Error):  # the file of the last runs was broken, locked or taken away since the start
        hint = "start the studio with another --history, or with --no-history"
        error = StudioError("internal", f"the last runs cannot be used: {error}; {hint}")
    elif isinstance(error, ClientDisconnect):
        error = StudioError("bad_request", "the client left before it had sent everything")  # nobody reads the answer
    elif not isinstance(error, StudioError):
        error = StudioError("internal", f"the studio failed: {type(error).__name__}: {error}")
    return answer_json(error.to_json(), error.status)
