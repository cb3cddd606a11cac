"""A request of an agent as a sequence of recorded operations, for engines that record steps and run them once.

An operation ends where a request is stored with ``Reviews(from_start=True)``: after the input, before tools run, after
each result, after each step, at the end. Its value says how far the request has come, as JSON of what guards released:
the changes since the operation before.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.stored import Page, StoredRun
from penstock.processors.memory import VAULT, vault_redactor
from penstock.workflows.agent.json_changes import changed_json, json_changes, same_json
from penstock.workflows.agent.loop import described
from penstock.workflows.review.reviews import Reviews
from penstock.workflows.review.stored_run import dump_usage, dump_verdict, mapped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.stored import RunStatus
    from penstock.workflows.agent.agent import Agent
    from penstock.workflows.agent.emitter import Emitter
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.agent.stream import AgentStream

CHANGES = "changes"
"""The key of an operation's value, under which it has the changes since the operation before."""

_OF_OWN = ("expires_in", "lease", "on_change", "may_decide", "clock")
"""The options of an agent's reviews that hold for its recorded requests, too."""

RESULT = "result"
"""The key of the last operation's value, under which it has the result of the request."""

_RECORDED = Chunk("data-recorded", payload={"transient": True})
"""Emitted where an operation ends; it goes to no client."""


class Operations(Protocol):
    """Runs named operations and records their values, so that each is done once over all processes."""

    async def run(self, name: str, work: Callable[[], Awaitable[dict[str, Value]]], /) -> dict[str, Value]:
        """Return the recorded value of an operation; if there is none, do the work, record its value and return it.

        Args:
            name: its name: the same in each process, in the same order.
            work: does it; its value is JSON.
        """
        ...


class OneRun:
    """A `RunStore` in memory for the run of one request."""

    def __init__(self) -> None:
        self.stored: StoredRun | None = None

    async def run(self, run_id: str) -> StoredRun | None:  # noqa: ARG002 - it has one
        """Return the run."""
        return self.stored

    async def save_run(self, run: StoredRun) -> StoredRun:
        """Keep a run."""
        self.stored = replace(run, version=run.version + 1)
        return self.stored

    async def runs(
        self,
        *,
        status: RunStatus | None = None,  # noqa: ARG002 - nobody asks for more than the one
        agent: str | None = None,  # noqa: ARG002
        limit: int = 50,  # noqa: ARG002
        after: str | None = None,  # noqa: ARG002
        newest_first: bool = False,  # noqa: ARG002
    ) -> Page[StoredRun]:
        """Return the run."""
        return Page(() if self.stored is None else (self.stored,))

    async def delete_run(self, run_id: str) -> bool:  # noqa: ARG002
        """Forget the run. Returns whether there was one."""
        found, self.stored = self.stored, None
        return found is not None


class RecordedReviews(Reviews):
    """The reviews of a request whose steps an engine records: it pauses where it would be stored.

    A request that waits for people is stored in the agent's own reviews, too, where people find it.

    Args:
        own: the agent's own reviews, or None.
        stored: the request as it stands; None: it is new.
    """

    def __init__(self, own: Reviews | None, stored: StoredRun | None = None) -> None:
        self.one = OneRun()
        self.one.stored = stored
        kept: dict[str, Value] = {} if own is None else {name: getattr(own, name) for name in _OF_OWN}
        super().__init__(self.one, from_start=True, **kept)
        if own is not None:
            self.vaults = own.vaults
        self._own = own
        self._out: Emitter[Chunk] | None = None
        self._goes_on = anyio.Event()

    def opened(self, out: object) -> None:
        """Note where the request emits its chunks."""
        self._out = cast("Emitter[Chunk]", out)

    def go_on(self) -> None:
        """Let the request go on until the next operation ends."""
        self._goes_on.set()

    async def renew(self, run: StoredRun) -> StoredRun:
        """Keep how far a request has come, and pause until the next operation begins."""
        saved = await self.one.save_run(replace(run, status="running", due_at=None, body=self.marked(run.body)))
        self._goes_on = anyio.Event()
        if self._out is not None:
            await self._out.emit(_RECORDED)
        await self._goes_on.wait()
        return saved

    async def claim(self, run_id: str, *, of_agent: bool = True) -> StoredRun:
        """Return the request as it stands: the engine sees to it that one process runs it."""
        if self.one.stored is None:
            return await super().claim(run_id, of_agent=of_agent)
        return self.one.stored

    async def release(self, run: StoredRun) -> StoredRun:
        """Return the run unchanged: the engine knows where it stands."""
        return run

    async def suspend(self, run: StoredRun, *, expires_in: float | None = None) -> StoredRun:
        """Keep a run that waits, and store it where people find it.

        A process may do it again; what people have decided since about the same calls stays.
        """
        saved = await super().suspend(run, expires_in=expires_in)
        if self._own is not None:
            known, body = await self._own.store.run(run.id), saved.body
            if known is not None and known.status == "waiting" and same_json(known.body["waiting"], body["waiting"]):
                body = FrozenDict({**body, "decisions": known.body.get("decisions", EMPTY)})
            await self._own.store.save_run(replace(saved, body=body, version=0 if known is None else known.version))
        return saved

    async def end(self, run: StoredRun, *, released: Value = None) -> StoredRun:
        """Keep a run that has ended, and store that if people know it."""
        known = None if self._own is None else await self._own.store.run(run.id)
        if self._own is not None and known is not None and known.status != "ended":
            await self._own.end(replace(known, body=run.body), released=released)
        return await super().end(run, released=released)

    async def note_asked(self, key: str, run: StoredRun) -> None:
        """Note which run asks about a call, where people find it."""
        if self._own is not None:
            await self._own.note_asked(key, run)

    async def take(self, key: str, taker: str, call_id: str, *, rejects: bool = False) -> bool:
        """Return whether a decision that comes with messages counts."""
        return True if self._own is None else await self._own.take(key, taker, call_id, rejects=rejects)

    async def refuses(self, key: str, call_id: str) -> bool:
        """Return whether the rule refuses a decision that comes with messages."""
        return self._own is not None and await self._own.refuses(key, call_id)


class OperationIds:
    """Makes ids from the id of a run and the name of an operation: done again, an operation makes the same ones."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._name = ""
        self._made = 0

    def begin(self, name: str) -> None:
        """Make the ids of this operation from now on."""
        self._name, self._made = name, 0

    def next(self) -> str:
        """Return the next id."""
        self._made += 1
        return sha256(f"{self._run_id}/{self._name}/{self._made}".encode()).hexdigest()[:32]


class LiveRequest:
    """A request while a process runs its operations.

    Args:
        stream: its stream.
        reviews: where it pauses.
        ids: makes its ids.
        on_chunk: called with each chunk for the client, or None.
    """

    def __init__(
        self,
        stream: AgentStream[Any],
        reviews: RecordedReviews,
        ids: OperationIds,
        on_chunk: Callable[[Chunk], Awaitable[object]] | None,
    ) -> None:
        self._stream = stream
        self._reviews = reviews
        self._ids = ids
        self._on_chunk = on_chunk
        self._chunks: AsyncIterator[Chunk] | None = None

    async def run(self, name: str) -> dict[str, Value]:
        """Run the next operation, and return its value. An error of the request is part of the value."""
        self._ids.begin(name)
        try:
            if self._chunks is None:
                self._chunks = aiter((await self._stream.__aenter__()).full_stream)
            self._reviews.go_on()
            async for chunk in self._chunks:
                if chunk is _RECORDED:
                    return dump_stored(cast("StoredRun", self._reviews.one.stored))
                if self._on_chunk is not None:
                    await self._on_chunk(chunk)
            return {RESULT: _dump_result(await self._stream.result)}
        except Exception as error:  # noqa: BLE001 - an engine would record its text, which no guard has read
            return {RESULT: {"status": "failed", "error": described(error)}}

    async def close(self) -> None:
        """Close its stream."""
        if self._chunks is not None:
            await self._stream.__aexit__(None, None, None)


async def begin_request(
    agent: Agent,
    messages: Value,
    run_id: str,
    *,
    on_chunk: Callable[[Chunk], Awaitable[object]] | None = None,
    **options: Value,
) -> dict[str, Value]:
    """Judge the input of a request, and return the value to go on with: an engine may record it, but no input.

    Args:
        agent: the agent.
        messages: the messages to answer.
        run_id: the id of the run.
        on_chunk: called with each chunk for the client.
        options: the options of `Agent.generate`.
    """
    reviews, ids = RecordedReviews(agent.reviews), OperationIds(run_id)
    stream = _twin(agent, reviews).stream(messages, run_id=run_id, ids=ids, **options)
    live = LiveRequest(stream, reviews, ids, on_chunk)
    try:
        return await live.run("input")
    finally:
        await live.close()


async def run_operations(
    agent: Agent,
    begun: Mapping[str, Value],
    operations: Operations,
    *,
    on_chunk: Callable[[Chunk], Awaitable[object]] | None = None,
    **options: Value,
) -> dict[str, Value]:
    """Run the rest of a request as recorded operations, and return its result as JSON.

    What was recorded is not done again: no model call, no tool, no judge, no saving of memory, and no chunk is sent.

    Args:
        agent: the agent.
        begun: the value of `begin_request`, or of `dump_stored`.
        operations: runs and records them.
        on_chunk: called with each chunk for the client.
        options: the options of `Agent.resume`.
    """
    state: dict[str, Value] = dict(begun)
    live: LiveRequest | None = None
    try:
        while RESULT not in state:
            name = operation_name(state)

            async def work(name: str = name, state: dict[str, Value] = state) -> dict[str, Value]:
                nonlocal live
                if live is None:
                    stored = load_stored(state)
                    reviews, ids = RecordedReviews(agent.reviews, stored), OperationIds(stored.id)
                    stream = _twin(agent, reviews).resume_stream(stored.id, ids=ids, **options)
                    live = LiveRequest(stream, reviews, ids, on_chunk)
                made = await live.run(name)
                return made if RESULT in made else {CHANGES: json_changes(state, made)}

            value = await operations.run(name, work)
            state = changed_json(state, value[CHANGES]) if CHANGES in value else dict(value)
    finally:
        if live is not None:
            await live.close()
    return cast("dict[str, Value]", state[RESULT])


def operation_name(state: Mapping[str, Value]) -> str:
    """Return the name of the operation that comes next."""
    body = state["body"]
    step, phase = len(body["progress"]["steps"]), body["phase"]
    if phase != "tools":
        return f"step-{step}" if phase == "step" else f"{phase}-{step}"
    answer = body["progress"]["pending_in"]
    parts = next((one["message"]["parts"] for one in body["run"]["messages"] if one["message"].get("id") == answer), ())
    left = [part["call_id"] for part in parts if part.get("call_id") in body["planned"] and "state" not in part]
    return f"step-{step - 1}/{left[0] if left else 'end'}"


def dump_stored(stored: StoredRun) -> dict[str, Value]:
    """Return a stored run as JSON values."""
    owner = {"thread_id": stored.thread_id, "resource_id": stored.resource_id}
    return {"id": stored.id, "agent": stored.agent, **owner, "body": thaw(dict(stored.body))}


def load_stored(state: Mapping[str, Value]) -> StoredRun:
    """Return the run that `dump_stored` wrote, as one that goes on."""
    names = ("id", "agent", "thread_id", "resource_id")
    return StoredRun(**{name: state[name] for name in names}, body=freeze(state["body"]), status="running")


def _twin(agent: Agent, reviews: Reviews) -> Agent:
    """Return the agent with other reviews; it shares the rest."""
    twin = copy.copy(agent)
    twin.reviews = reviews
    return twin


def _dump_result(result: AgentResult[Any]) -> dict[str, Value]:
    """Return a result as JSON values, without the values that were put back for the client."""
    hide = vault_redactor(result.facts.get(VAULT))
    made = {
        "status": result.status,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "tripwire": dump_verdict(result.tripwire),
        "usage": dump_usage(result.usage),
        "pending": [call.call_id for call in result.pending],
        "questions": [one.id for one in result.questions],
        "run_id": result.run_id,
    }
    return cast("dict[str, Value]", made if hide is None else mapped(made, hide))
