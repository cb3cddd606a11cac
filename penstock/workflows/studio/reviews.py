"""Requests that wait for people, as the studio shows them: listed, decided about, continued by its agents."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol, cast, get_args

from starlette.routing import Route

from penstock.engine.values.errors import PenstockError, ReviewError, StorageConflictError, StorageError, UsageError
from penstock.engine.values.stored import RunStatus
from penstock.stores.opening import open_storage, shown_address
from penstock.workflows.loading import load_rule
from penstock.workflows.review.reviews import Reviews
from penstock.workflows.studio.bodies import answer_json, body_of, number_of
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.requests import (
    AnswerBody,
    ApproveBody,
    RejectBody,
    ResumeBody,
    RunRequest,
    read_body,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from anyio.abc import TaskGroup
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.stores.postgres.storage import PostgresStorage
    from penstock.stores.sqlite.storage import SQLiteStorage
    from penstock.workflows.review.deciding import MayDecide
    from penstock.workflows.review.waiting import WaitingRun
    from penstock.workflows.studio.catalog import Catalog, CatalogEntry
    from penstock.workflows.studio.feed import Feed
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.runs import Runs
    from penstock.workflows.studio.settings import Settings

_MOST_LISTED = 200
_LISTED = 50


class WaitingRequests:
    """The suspended requests of one store. Lives as long as the studio.

    Args:
        address: the store, as `penstock.stores.opening.open_storage` takes it. A file need not be there yet.
        reviewer: who decides if a request does not say it.
        fixed: whether nobody else decides.
        may_decide: the rule about who may decide; None: there is none.
    """

    def __init__(
        self, address: str, reviewer: str, *, fixed: bool = False, may_decide: MayDecide | None = None
    ) -> None:
        self._address = address
        self._reviewer = reviewer
        self._fixed = fixed
        self._may_decide = may_decide
        self._store: SQLiteStorage | PostgresStorage | None = None

    @classmethod
    def of(cls, address: str, settings: Settings) -> WaitingRequests:
        """Return those of a studio.

        Raises:
            LoadingError: the rule about who may decide cannot be loaded.
        """
        rule = load_rule(settings.may_decide)
        return cls(address, settings.reviewer, fixed=settings.reviewer_is_fixed, may_decide=rule)

    @property
    def about(self) -> Json:
        """What the page shows of it: the store without its password, who decides, and whether others may."""
        return {"store": shown_address(self._address), "by": self._reviewer, "fixed": self._fixed}

    async def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            await self._store.close()

    async def page(
        self, status: RunStatus | None, agent: str | None, limit: int, after: str | None
    ) -> tuple[tuple[WaitingRun, ...], str | None]:
        """Return requests, and where the next page begins.

        Those that wait come in the order in which they began to, others with the newest first.

        Raises:
            StudioError: the store cannot be read, or there is no such page.
        """
        with _errors_as_answers():
            found = await self._reviews().runs(
                status=status, agent=agent, limit=limit, after=after, newest_first=status != "waiting"
            )
        return found.items, found.following

    async def run(self, run_id: str) -> WaitingRun:
        """Return a request.

        Raises:
            StudioError: there is none with that id, or the store cannot be read.
        """
        with _errors_as_answers("not_found"):
            return await self._reviews().run(run_id)

    async def decide(self, run_id: str, body: ApproveBody | RejectBody | AnswerBody) -> WaitingRun:
        """Store a decision, and return the request.

        Raises:
            StudioError: it cannot be decided so, or the store cannot be written.
        """
        if self._fixed and body.by not in (None, self._reviewer):
            raise StudioError("conflict", f"this studio decides as {self._reviewer!r}, and as nobody else", field="by")
        by = self._reviewer if body.by is None else body.by
        with _errors_as_answers():
            reviews = self._reviews()
            if isinstance(body, ApproveBody):
                return await reviews.approve(run_id, body.call, arguments=body.arguments, by=by)
            if isinstance(body, RejectBody):
                return await reviews.reject(run_id, body.call, reason=body.reason, by=by)
            return await reviews.answer(run_id, body.call, body.value, by=by)

    def can_go_on(self, run: WaitingRun) -> bool:
        """Return whether an agent can go on with a request: all is decided, or the time for it is over."""
        over = self._reviews().is_over(run.due_at)
        return over if run.status == "running" else run.status == "waiting" and (over or not run.undecided)

    def _reviews(self) -> Reviews:
        if self._store is None:
            self._store = open_storage(self._address)
        return Reviews(self._store, may_decide=self._may_decide)


@contextlib.contextmanager
def _errors_as_answers(refused: str = "conflict") -> Generator[None]:
    """Turn errors of the store, and of decisions that are not possible, into answers in words.

    Args:
        refused: the kind of the answer if a request is not there, or cannot be decided about.
    """
    try:
        yield
    except ReviewError as error:
        raise StudioError(refused, error.problem) from error
    except StorageConflictError as error:
        raise StudioError("conflict", "others keep changing this request; try again") from error
    except StorageError as error:
        raise StudioError("internal", f"the store of reviews cannot be used: {error}") from error
    except UsageError as error:
        raise StudioError("not_found" if "no file" in str(error) else "bad_request", str(error)) from error
    except PenstockError as error:
        raise StudioError("bad_request", str(error)) from error


class ReviewHost(Protocol):
    """The parts of a studio that the endpoints of reviews use; all but the first two are there when it serves."""

    settings: Settings
    waiting: WaitingRequests | None
    feed: Feed
    catalog: Catalog
    runs: Runs
    tasks: TaskGroup


def review_routes(studio: ReviewHost) -> list[Route]:
    """Return the routes of the reviews; without a store, they say that there is none."""
    api = _ReviewEndpoints(studio)
    path = "/api/reviews/{run}"
    return [
        Route("/api/reviews", api.page),
        Route(path, api.run),
        Route(f"{path}/approve", api.approve, methods=["POST"]),
        Route(f"{path}/reject", api.reject, methods=["POST"]),
        Route(f"{path}/answer", api.answer, methods=["POST"]),
        Route(f"{path}/resume", api.resume, methods=["POST"]),
    ]


class _ReviewEndpoints:
    """The endpoints of requests that wait for people."""

    def __init__(self, studio: ReviewHost) -> None:
        self._studio = studio

    async def page(self, request: Request) -> Response:
        query = request.query_params
        status = query.get("status", "waiting")
        if status not in (*get_args(RunStatus), "all"):
            raise StudioError("bad_request", "status is waiting, running, ended or all", field="status")
        limit = max(1, min(number_of(query.get("limit"), "limit") or _LISTED, _MOST_LISTED))
        wanted = None if status == "all" else cast("RunStatus", status)
        runs, following = await self._waiting().page(wanted, query.get("agent"), limit, query.get("after"))
        return answer_json({"runs": [self._shown(run) for run in runs], "following": following})

    async def run(self, request: Request) -> Response:
        return answer_json(self._shown(await self._waiting().run(request.path_params["run"])))

    async def approve(self, request: Request) -> Response:
        return await self._decide(request, ApproveBody)

    async def reject(self, request: Request) -> Response:
        return await self._decide(request, RejectBody)

    async def answer(self, request: Request) -> Response:
        return await self._decide(request, AnswerBody)

    async def _decide(self, request: Request, kind: type[ApproveBody | RejectBody | AnswerBody]) -> Response:
        waiting = self._waiting()
        body = read_body(kind, await body_of(request, self._studio.settings.text_limit))
        run = await waiting.decide(request.path_params["run"], body)
        self._studio.feed.add("reviews", {"run": run.run_id})
        return answer_json(self._shown(run))

    async def resume(self, request: Request) -> Response:
        """Let an agent of this studio go on with a request; return the id of its run here."""
        waiting = self._waiting()
        body = read_body(ResumeBody, await body_of(request, self._studio.settings.text_limit))
        run = await waiting.run(request.path_params["run"])
        entry = self._agent_for(run, body.workflow)
        if not waiting.can_go_on(run):
            why = {"ended": "it has ended", "running": "another process goes on with it"}
            raise StudioError("conflict", why.get(run.status, "not all of it is decided"))
        given: Json = {"kind": "suspended", "run": run.run_id, "text": run.question}
        asked = RunRequest(
            workflow=entry.id, version=None, stage="process_input", changes={}, input=given, context={}, seconds=None
        )
        started = await self._studio.runs.start(asked, self._studio.tasks)
        return answer_json({"id": started.id}, 202)

    def _agent_for(self, run: WaitingRun, workflow: str | None) -> CatalogEntry:
        catalog = self._studio.catalog
        found = catalog.agent(run.agent) if workflow is None else catalog.entry(workflow)
        if found is None or found.newest is None or not found.newest.about.get("reviews"):
            message = f"this studio has no agent {run.agent!r} with reviews; go on in your application"
            raise StudioError("conflict", message)
        return found

    def _shown(self, run: WaitingRun) -> Json:
        """Return a request as data: with the agent of this studio that can go on with it, or null."""
        entry = self._studio.catalog.agent(run.agent)
        here = None if entry is None else entry.id
        return {**run.to_json(), "here": here, "can_go_on": self._waiting().can_go_on(run)}

    def _waiting(self) -> WaitingRequests:
        if self._studio.waiting is None:
            raise StudioError("not_found", "there is no store of reviews; start the studio with --reviews STORE")
        return self._studio.waiting
