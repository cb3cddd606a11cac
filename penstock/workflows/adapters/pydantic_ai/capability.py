"""`as_capability`: a workflow as a capability of pydantic-ai's agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from pydantic_ai import ToolDefinition, exceptions, messages as theirs
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, CombinedCapability, Instrumentation
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze
from penstock.workflows.adapters.pydantic_ai.messages import (
    GuardBlockedError,
    instruction_messages,
    read_message,
    write_messages,
)
from penstock.workflows.adapters.pydantic_ai.model import GivenAnswer, GuardedModel, parts_of
from penstock.workflows.adapters.pydantic_ai.results import CheckedResults, GuardedToolset
from penstock.workflows.hosting import Host, HostSupport, raised_as

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Self

    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.output import OutputContext
    from pydantic_ai.toolsets import AbstractToolset
    from typing_extensions import Unpack

    from penstock.engine.values.messages import Message
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import HostOptions, HostRequest

SUPPORT = HostSupport("pydantic_ai.as_capability")


def as_capability(*processors: Item, **options: Unpack[HostOptions]) -> GuardCapability:
    """Return processors as a capability: ``Agent(model, capabilities=[as_capability(guard)])``.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardCapability(Host(SUPPORT, processors, **options))


class GuardCapability(CombinedCapability[object]):
    """A workflow in pydantic-ai's agents. Made by `as_capability`; one serves any number of agents and runs.

    It has two halves: one stands next to the model, and reads the additions of other capabilities to a request; the
    other one stands around all of them, and reads the answers that they give or change.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        runs = _Runs(host)
        super().__init__(capabilities=[OuterGuard(runs), InnerGuard(runs)])


@dataclass(slots=True, weakref_slot=True)
class _Run:
    """One run of an agent.

    Attributes:
        request: its request.
        released: the last answer of the model, as the guards released it.
        output: the output that the guards have seen.
    """

    request: HostRequest
    released: theirs.ModelResponse | None = None
    output: object = None

    def has_released(self, answer: theirs.ModelResponse) -> bool:
        """Return whether an answer is the one that the guards have released last."""
        return self.released is not None and self.released.parts == answer.parts


class _Runs:
    """The runs of a capability that have begun, for its two halves."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()

    def of(self, ctx: RunContext[object]) -> _Run:
        """Return the run, which is opened for the half that asks first."""
        id = ctx.run_id or ""
        run = self._runs.get(id)
        if run is None or run.request.closed:
            run = self._runs[id] = _Run(self._host.open(run_id=ctx.run_id))
        return run


class _Half(AbstractCapability[object]):
    """A half of a `GuardCapability`, of an agent or of one run."""

    def __init__(self, runs: _Runs, run: _Run | None = None) -> None:
        self._runs = runs
        self._run = run

    @property
    def _open(self) -> _Run:
        if self._run is None:  # runs would share their state
            raise UsageError(
                "the capability was used outside of a run of its agent, so there is no request to guard; durable "
                "execution that calls models in another process is not supported"
            )
        return self._run

    async def for_run(self, ctx: RunContext[object]) -> Self:
        """Return the half for one run.

        Raises:
            UsageError: it is a realtime session.
        """
        if ctx.realtime:
            raise UsageError(
                "pydantic_ai.as_capability cannot guard realtime sessions: they call no model that could be wrapped"
            )
        return type(self)(self._runs, self._runs.of(ctx))


class OuterGuard(_Half):
    """Reads the answers of other capabilities in the model's place, and their changes to its answers.

    Its hooks raise a `GuardBlockedError` if a guard stopped the run.
    """

    def get_ordering(self) -> CapabilityOrdering | None:
        """Stand around all other capabilities, but within traces, which so get the guarded version."""
        return CapabilityOrdering(position="outermost", wrapped_by=[Instrumentation])

    async def wrap_model_request(
        self,
        ctx: RunContext[object],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[theirs.ModelResponse]],
    ) -> theirs.ModelResponse:
        """Judge an answer that is not the one that the guards have released."""
        run = self._open
        run.released = None
        try:
            answer = await handler(request_context)
        except exceptions.SkipModelRequest as skipped:
            answer = skipped.response
        if run.has_released(answer):
            return answer
        inner = GivenAnswer(answer, request_context.model_request_parameters)
        with raised_as(GuardBlockedError):
            left = await run.request.whole_answer(inner.call(request_context.messages))
        return replace(answer, parts=parts_of(left))

    async def after_run(self, ctx: RunContext[object], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Judge the output as other capabilities have changed it."""
        run = self._open
        if result.output is run.output or result.output == run.output:
            return result
        with raised_as(GuardBlockedError):
            left = await CheckedResults(run.request, "output", "output").output(result.output)
        return replace(result, output=left)


class InnerGuard(_Half):
    """Runs the stages around the model, the tools and the output functions.

    Its hooks raise a `GuardBlockedError` if a guard stopped the run.
    """

    def get_ordering(self) -> CapabilityOrdering | None:
        """Stand next to the model, inside all other capabilities, so that nothing they add is unread."""
        return CapabilityOrdering(position="innermost")

    async def wrap_run(
        self, ctx: RunContext[object], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Close the request when the run ends."""
        async with self._open.request:
            return await handler()

    async def after_run(self, ctx: RunContext[object], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Judge an answer that is no text, such as an object.

        Raises:
            GuardBlockedError: a guard stopped the run.
            UsageError: a processor changed the answer, of which the object was made already.
        """
        with raised_as(GuardBlockedError):
            await self._open.request.end_made("pydantic-ai")
        self._open.output = result.output
        return result

    async def on_node_run_error(self, ctx: RunContext[object], *, node: Any, error: Exception) -> Any:
        """Raise a verdict on the output, which pydantic-ai takes for an output that is not valid."""
        if isinstance(error.__cause__, GuardBlockedError):
            raise GuardBlockedError(error.__cause__.tripwire) from None  # a new one: errors may not lead to themselves
        raise error

    async def before_model_request(
        self, ctx: RunContext[object], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Check the input, and replace it in the history by the guarded version."""
        said = [read_message(message) for message in request_context.messages]
        instructions = instruction_messages(request_context.model_request_parameters)
        if not await self._open.request.begin([*instructions, *(one for group in said for one in group)]):
            newest = request_context.messages[-1]
            newest.parts = cast("Any", [_emptied(part) for part in newest.parts])  # nothing else will be said with it
            with raised_as(GuardBlockedError):
                self._open.request.check()
        self._rewrite(ctx.messages, request_context.messages, said)
        return request_context

    def get_wrapper_model(self, model: Model) -> Model:
        """Return the model with the stages around its calls."""
        run = self._open

        def released(answer: theirs.ModelResponse) -> None:
            run.released = answer

        return GuardedModel(model, run.request, released)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[object],
        *,
        call: theirs.ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Check the call and its result; a processor may answer in the tool's place."""
        given = to_jsonable_python(args, fallback=str, bytes_mode="base64")
        with raised_as(GuardBlockedError):
            checked = await self._open.request.tool_call(call.tool_name, given, call.tool_call_id)
            if checked.answered:
                return checked.answer
            results = CheckedResults(self._open.request, call.tool_name, call.tool_call_id, checked.arguments)
            try:
                made = await handler(args if checked.arguments == freeze(given) else checked.arguments)
            except (exceptions.CallDeferred, exceptions.ApprovalRequired) as deferred:
                if deferred.metadata is not None:  # the output of the run holds it
                    deferred.metadata = cast("Json", await results.value(deferred.metadata, "metadata"))
                raise
            return await results.result(made)

    def get_wrapper_toolset(self, toolset: AbstractToolset[object]) -> AbstractToolset[object]:
        """Return the tools with a check of the errors that they raise for the model."""
        return GuardedToolset(toolset, self._open.request)

    async def wrap_output_process(
        self,
        ctx: RunContext[object],
        *,
        output_context: OutputContext,
        output: Any,
        handler: Callable[[Any], Awaitable[Any]],
    ) -> Any:
        """Check the results of output functions and validators; the guards have read the answer itself before."""
        call = output_context.tool_call
        name = output_context.function_name or (call.tool_name if call is not None else "output")
        results = CheckedResults(self._open.request, name, call.tool_call_id if call is not None else name)
        made = await results.of(handler(output), of_call=False)
        if made is output or made == output:
            return made
        with raised_as(GuardBlockedError):
            return await results.output(made)

    def _rewrite(
        self, history: list[theirs.ModelMessage], sent: list[theirs.ModelMessage], said: Sequence[Sequence[Message]]
    ) -> None:
        """Replace messages by the guarded version of them, in the request and in the history of the run.

        The newest message is the run's own, and is changed in place, since pydantic-ai knows it by its identity. Older
        ones belong to the caller; they are replaced.
        """
        left = iter(self._open.request.current([one for group in said for one in group]))
        for index, group in enumerate(said):
            now = [next(left) for _ in group]
            if all(after is not None and one.parts == after.parts for one, after in zip(group, now, strict=True)):
                continue
            before = sent[index]
            after = write_messages([one for one in now if one is not None])
            parts: Any = after[0].parts if after else []
            if before is sent[-1]:
                before.parts = parts
                continue
            made = replace(before, parts=parts)
            sent[index] = made
            for place, old in enumerate(history):
                if old is before:
                    history[place] = made


def _emptied(part: Any) -> Any:
    """Return a part of a request that a guard has stopped, without its text, for who reads the history all the same."""
    if isinstance(part, theirs.SystemPromptPart):  # the application's own
        return part
    if isinstance(part, theirs.ToolReturnPart):
        return replace(cast("Any", part), content="The request was stopped.", metadata=None)
    return replace(part, content="")
