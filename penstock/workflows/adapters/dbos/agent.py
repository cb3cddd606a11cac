"""`DurableAgent`: each request of an agent is a DBOS workflow, and each of its operations a step of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.engine.values.errors import MissingExtraError, UsageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.workflows.agent.operations import RESULT, begin_request, dump_stored, run_operations

try:
    from dbos import DBOS, DBOSPortableJSONSerializer, SetWorkflowID
    from dbos._dbos import _get_dbos_instance  # pyright: ignore[reportPrivateUsage]
except ModuleNotFoundError as error:
    raise MissingExtraError("penstock.workflows.adapters.dbos", "dbos") from error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from dbos import WorkflowHandleAsync

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.workflows.agent.agent import Agent

_PICKLES = (
    "DBOS is configured to record pickles: who can write its database could run code in your processes; set "
    "serializer=DBOSPortableJSONSerializer() in DBOSConfig"
)


class DBOSOperations:
    """Operations as steps of the DBOS workflow that runs them."""

    async def run(self, name: str, work: Callable[[], Awaitable[dict[str, Any]]], /) -> dict[str, Any]:
        """Run an operation as a step, or return its recorded value."""

        async def step() -> dict[str, Any]:
            return await work()

        return await DBOS.run_step_async({"name": name}, step)


@dataclass(frozen=True, slots=True)
class DurableResult:
    """The result of a request as DBOS has recorded it: hidden values stay hidden in it.

    Attributes:
        run_id: the id of the run, which is that of its first workflow.
        status: as in `AgentResult`; ``failed``: see ``error``.
        text: the text of the accepted steps.
        finish_reason: why the last step ended.
        tripwire: the fields of the verdict that blocked it, or None.
        usage: the tokens of all attempts, over all processes that recorded them.
        pending: the ids of the calls that wait for people.
        questions: the ids of the questions that wait for people.
        error: the type and a text of the error that ended it, without words of the provider; None if none did.
    """

    run_id: str
    status: str
    text: str = ""
    finish_reason: str | None = None
    tripwire: Values | None = None
    usage: Values = EMPTY
    pending: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    error: Values | None = None


class DurableAgent:
    """An agent whose requests are DBOS workflows: after a crash, DBOS goes on with each where it stood.

    The input is judged before the workflow starts, so that DBOS records only what guards released. A request that waits
    for people ends its workflow and waits in the agent's `Reviews`; `resume` starts another.

    Args:
        agent: the agent. Make this object before ``DBOS.launch()``, in each process, under the same ``agent.id``.
        on_chunk: called with each chunk for the client, in the process that runs the request; also async ones. What was
            sent before a crash is not sent again.
        options: options of `Agent.generate` for all requests, such as ``request_context``. They are not recorded.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        on_chunk: Callable[[Chunk], Awaitable[object]] | None = None,
        options: Mapping[str, Any] = EMPTY,
    ) -> None:
        self.agent = agent
        self._on_chunk = on_chunk
        self._options = options
        self._readers: dict[str, Callable[[Chunk], Awaitable[object]]] = {}

        async def request(begun: dict[str, Any]) -> dict[str, Any]:
            reader = self._readers.get(begun["id"], on_chunk)
            return await run_operations(agent, begun, DBOSOperations(), on_chunk=reader, **options)

        self._workflow = DBOS.workflow(name=f"penstock.{agent.id}")(request)

    async def generate(
        self,
        messages: Value,
        *,
        run_id: str | None = None,
        thread_id: str | None = None,
        resource_id: str | None = None,
        on_chunk: Callable[[Chunk], Awaitable[object]] | None = None,
    ) -> DurableResult:
        """Run a request to its end, or until it waits for people; a failed one is a result, too.

        Args:
            messages: as for `Agent.generate`.
            run_id: the id of the run; a second request with the same id gives the result of the first. None: a new id.
            thread_id: the thread, for a memory.
            resource_id: the owner of the thread.
            on_chunk: as in `DurableAgent`, for this request while this process lives.

        Raises:
            UsageError: DBOS would record pickles.
        """
        _check_serializer()
        id = run_id or RANDOM_IDS.next()
        if await DBOS.get_workflow_status_async(id) is not None:
            return await self._finished(id)
        reader = on_chunk or self._on_chunk
        owner = {"thread_id": thread_id, "resource_id": resource_id}
        begun = await begin_request(self.agent, messages, id, on_chunk=reader, **owner, **self._options)
        return await self._run(id, id, begun, reader)

    async def resume(
        self,
        run_id: str,
        *,
        decisions: Mapping[str, bool | str] = EMPTY,
        results: Mapping[str, Value] = EMPTY,
        by: str = "",
        on_chunk: Callable[[Chunk], Awaitable[object]] | None = None,
    ) -> DurableResult:
        """Go on with a request that waited for people; see `Agent.resume`.

        Raises:
            UsageError: the agent has no ``reviews``, or DBOS would record pickles.
            ReviewError: as for `Agent.resume`.
        """
        _check_serializer()
        reviews = self.agent.reviews
        if reviews is None:
            raise UsageError("this agent stores no requests that wait; make it with reviews=SQLiteStorage(path)")
        for call_id, said in decisions.items():
            if said is True:
                await reviews.approve(run_id, call_id, by=by)
            else:
                await reviews.reject(run_id, call_id, reason=said or "", by=by)
        for call_id, value in results.items():
            await reviews.answer(run_id, call_id, value, by=by)
        stored = await reviews.claim(run_id)
        workflow = f"{run_id}-{len(stored.body.get('earlier', ())) + 1}"
        return await self._run(workflow, run_id, dump_stored(stored), on_chunk or self._on_chunk)

    async def _run(
        self,
        workflow: str,
        run_id: str,
        begun: dict[str, Any],
        reader: Callable[[Chunk], Awaitable[object]] | None,
    ) -> DurableResult:
        """Run a workflow to its end."""
        if RESULT in begun:
            return _result(run_id, begun[RESULT])
        if reader is not None:
            self._readers[run_id] = reader
        try:
            with SetWorkflowID(workflow):
                handle = await DBOS.start_workflow_async(self._workflow, begun)
            return _result(run_id, await handle.get_result())
        finally:
            self._readers.pop(run_id, None)

    async def _finished(self, workflow: str) -> DurableResult:
        """Return the result of a workflow that was started before."""
        handle: WorkflowHandleAsync[dict[str, Any]] = await DBOS.retrieve_workflow_async(workflow)
        return _result(workflow, await handle.get_result())


def _result(run_id: str, recorded: Values) -> DurableResult:
    """Return a result as it was recorded; lists stay lists, as in each process."""
    fields: Values = {"run_id": run_id, **recorded}
    return DurableResult(**fields)


def _check_serializer() -> None:
    """Check that DBOS records JSON.

    Raises:
        UsageError: it records pickles.
    """
    # DBOS tells it in no other way.
    used = _get_dbos_instance()._serializer  # pyright: ignore[reportPrivateUsage]
    if used.name() != DBOSPortableJSONSerializer().name():
        raise UsageError(_PICKLES)
