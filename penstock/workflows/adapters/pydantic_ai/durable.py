"""`GuardOperations`: the work of guards as recorded operations, in runs that an engine of durable execution replays.

pydantic-ai records model requests. The guards of an answer run within them, so their work is recorded with the answer
as they released it. `GuardOperations` records the rest: the input, calls of tools with their results, and outputs. The
name of the operation is ``guard``; each value says which work it is of.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import exceptions, messages as theirs

from penstock.engine.values.frozen import Value, freeze
from penstock.processors.memory import VAULT, vault_redactor
from penstock.workflows.adapters.pydantic_ai.messages import DurableRunError, GuardBlockedError, read_message
from penstock.workflows.adapters.pydantic_ai.unrecorded import engine_of, unrecorded
from penstock.workflows.hosting.recorded import RequestChanges
from penstock.workflows.review.stored_run import dump_verdict, load_verdict, mapped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.toolsets.abstract import ToolsetTool

    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.hosting import CheckedCall, HostRequest

MODEL = "model"
"""The name of the work that is recorded with an answer of the model."""

CHANGES = "penstock"
"""The key in the metadata of a recorded answer that has the changes of the request."""

_WITHIN: ContextVar[bool] = ContextVar("penstock-within-operation", default=False)
"""Whether the code runs within a recorded operation."""

_Fields = dict[str, Value]

_RESULTS: Mapping[type[Exception], tuple[Callable[[Value], _Fields], Callable[[_Fields], Exception]]] = {
    exceptions.ModelRetry: (lambda error: {"message": error.message}, lambda said: exceptions.ModelRetry(**said)),
    exceptions.ToolFailed: (lambda error: {"message": error.message}, lambda said: exceptions.ToolFailed(**said)),
    exceptions.ToolRetryError: (
        lambda error: {"tool_retry": error.tool_retry},
        lambda said: exceptions.ToolRetryError(**said),
    ),
    exceptions.ToolFailedError: (
        lambda error: {"tool_failed": error.tool_failed},
        lambda said: exceptions.ToolFailedError(**said),
    ),
    exceptions.CallDeferred: (
        lambda error: {"metadata": error.metadata, "kind": error.kind},
        lambda said: exceptions.CallDeferred(said["metadata"], kind=said["kind"]),
    ),
    exceptions.ApprovalRequired: (
        lambda error: {"metadata": error.metadata},
        lambda said: exceptions.ApprovalRequired(**said),
    ),
    GuardBlockedError: (
        lambda error: cast("_Fields", dump_verdict(error.tripwire)),
        lambda said: GuardBlockedError(cast("Tripwire", load_verdict(freeze(said)))),
    ),
}
"""The errors that are results of an operation, as values and back: engines would record others as its failure."""


class _NoEvents(list[theirs.AgentStreamEvent]):
    """The events of a recorded tool: there are none, since a replay would not send them."""

    def append(self, event: theirs.AgentStreamEvent) -> None:
        raise DurableRunError(
            f"a recorded tool cannot emit events: a replay would not emit this {type(event).__name__}; use "
            "as_capability(…, records_tools=False)"
        )


class GuardOperations:
    """Records the work of the guards of one run.

    Args:
        request: the request of the run.
    """

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._changes = RequestChanges(request)
        self._works: dict[str, Callable[[], Awaitable[object]]] = {}
        self._given: dict[str, Sequence[Message]] = {}
        self._done: set[str] = set()  # what was done in this process, and not replayed

    async def run(
        self,
        operation: Callable[[RunContext[object], str], Awaitable[Mapping[str, Value]]],
        ctx: RunContext[object],
        name: str,
        work: Callable[[], Awaitable[object]],
        given: Sequence[Message] = (),
    ) -> Value:
        """Do some work as a recorded operation, or return its recorded value.

        Args:
            operation: the capability's recorded method, which calls `do` if there is no recorded value.
            ctx: the context of the run.
            name: the name of the work: the same in each process.
            work: does it.
            given: the messages that it takes over from pydantic-ai.

        Raises:
            GuardBlockedError: a guard stopped the run.
            DurableRunError: the engine has given the value of another operation.
        """
        if _WITHIN.get():
            return await work()
        self._works[name], self._given[name] = work, given
        try:
            recorded = await operation(ctx, name)
        finally:
            del self._works[name], self._given[name]
        if recorded["of"] != name:
            raise DurableRunError(
                f"durable execution has replayed {recorded['of']!r} where the guards do {name!r}: the agent or the "
                "workflow was changed meanwhile, or its tools start in another order"
            )
        if name in self._done:
            self._done.discard(name)
        else:
            self._changes.apply(recorded["changes"])
            self._request.note_ids(given, {int(place): id for place, id in recorded["ids"].items()})
        if "raised" in recorded:
            raise _made(recorded["raised"], recorded["value"])
        return recorded["value"]

    async def do(self, name: str) -> dict[str, Value]:
        """Do the work of an operation, and return the value to record."""
        work, given = self._works[name], self._given[name]
        known = self._request.ids_of(given)
        token = _WITHIN.set(True)
        try:
            ended = await _ended(work)
        finally:
            _WITHIN.reset(token)
        self._done.add(name)
        ids = [None if old else new for old, new in zip(known, self._request.ids_of(given), strict=True)]
        fresh = {str(place): id for place, id in enumerate(ids) if id}
        return {"of": name, **ended, "ids": fresh, "changes": self._changes.take()}

    def recorded(self, answer: theirs.ModelResponse) -> theirs.ModelResponse:
        """Return an answer as the engine may record it, with the changes of the request in its metadata."""
        answer = self.hidden_answer(answer)
        self._done.add(MODEL)
        return replace(answer, metadata={**(answer.metadata or {}), CHANGES: self._changes.take()})

    def stopped(self, nothing: theirs.ModelResponse) -> theirs.ModelResponse:
        """Return an empty answer for the engine to record, with a verdict among the changes of the request.

        Not every engine records errors, and one that does not would ask the model and the guards again.
        """
        self._done.add(MODEL)
        return replace(nothing, metadata={CHANGES: self._changes.take()})

    def hidden_answer(self, answer: theirs.ModelResponse) -> theirs.ModelResponse:
        """Return an answer with tokens in the place of values that were put back for the client."""
        hide = vault_redactor(self._request.run.facts.get(VAULT))
        if hide is None or self._request.answer is None:
            return answer
        left = replace(answer, parts=_redacted(answer, hide))
        self._request.note_ids(read_message(left), {0: self._request.answer.id})
        return left

    def hidden_parts(self, message: theirs.ModelMessage) -> Sequence[Any]:
        """Return the parts of a message with tokens in the place of values, as another process has them."""
        hide = vault_redactor(self._request.run.facts.get(VAULT))
        return message.parts if hide is None else _redacted(message, hide)

    def hidden_call(self, checked: CheckedCall) -> CheckedCall:
        """Return a call with tokens in the place of values that were put back for its tool."""
        hide = vault_redactor(self._request.run.facts.get(VAULT))
        if hide is None:
            return checked
        return replace(checked, arguments=freeze(mapped(checked.arguments, hide)), answer=mapped(checked.answer, hide))

    def replayed(self, answer: theirs.ModelResponse) -> theirs.ModelResponse:
        """Return a recorded answer without these changes; the request stands where they say."""
        metadata = answer.metadata if answer.metadata is not None else {}
        changes = metadata.pop(CHANGES, None)  # in place: the result of a stream has the same metadata
        if changes is not None and MODEL not in self._done:
            self._changes.apply(changes)
        self._done.discard(MODEL)
        return replace(answer, metadata=metadata or None)

    def tool_call(
        self, ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> tuple[RunContext[object], ToolsetTool[object]]:
        """Return the context and the tool for a call that the engine does not record by itself.

        In an operation, the context refuses messages and events, which a replay would lose.
        """
        tool, engine = unrecorded(ctx, tool), engine_of(ctx)
        if engine is None or not _WITHIN.get():
            return ctx, tool
        # The engine's own operations get it in this way; it has no public name.
        inner = engine._durable_run_context(ctx)  # pyright: ignore[reportPrivateUsage]
        return replace(inner, _event_stream_buffer=_NoEvents()), tool

    def arguments(self, call_id: str, given: Value) -> Value:
        """Return the arguments of a call, with the values that were put back for its tool, if this process has them."""
        hide = vault_redactor(self._request.run.facts.get(VAULT))
        made = None if hide is None else self._request.call(call_id)
        if hide is None or made is None or freeze(mapped(made.arguments, hide)) != freeze(given):
            return given
        return made.arguments


async def _ended(work: Callable[[], Awaitable[object]]) -> Mapping[str, object]:
    try:
        return {"value": await work()}
    except tuple(_RESULTS) as error:
        kind, (dump, _) = next(item for item in _RESULTS.items() if isinstance(error, item[0]))
        return {"raised": kind.__name__, "value": dump(error)}


def _made(name: str, said: _Fields) -> Exception:
    return next(make for kind, (_, make) in _RESULTS.items() if kind.__name__ == name)(said)


def _redacted(message: Any, hide: Callable[[str], str]) -> Any:
    """Return the parts of a message with a function applied to all of their texts."""
    [said] = theirs.ModelMessagesTypeAdapter.dump_python([message], mode="json")
    left = [mapped(part, hide) for part in said["parts"]]
    [made] = theirs.ModelMessagesTypeAdapter.validate_python([{**said, "parts": left}])
    return made.parts
