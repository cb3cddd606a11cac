"""`as_capability`: a workflow as a capability of pydantic-ai's agents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from anyio import Lock
from pydantic_ai import (
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
    exceptions,
    messages as theirs,
)
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    Instrumentation,
    durable_operation,
)
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.adapters.pydantic_ai.messages import (
    GuardBlockedError,
    instruction_messages,
    read_message,
    write_messages,
)
from penstock.workflows.adapters.pydantic_ai.model import GivenAnswer, GuardedModel, parts_of
from penstock.workflows.adapters.pydantic_ai.results import CheckedResults, GuardedToolset, retries_counted, settled
from penstock.workflows.adapters.pydantic_ai.unrecorded import can_record, check_recording, recording_engine
from penstock.workflows.hosting import Host, HostCall, HostSupport, raised_as

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Self

    from pydantic_ai import AgentRunResult
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.output import OutputContext
    from pydantic_ai.toolsets import AbstractToolset
    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.pydantic_ai.durable import GuardOperations
    from penstock.workflows.hosting import CheckedCall, HostOptions, HostRequest
    from penstock.workflows.hosting.reviews import HostDecision

SUPPORT = HostSupport("pydantic_ai.as_capability", waits=True)


def as_capability(
    *processors: Item, id: str | None = None, records_tools: bool = True, **options: Unpack[HostOptions]
) -> GuardCapability:
    """Return processors as a capability: ``Agent(model, capabilities=[as_capability(guard)])``.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        id: the name under which durable execution records the work of the guards; needed there, and stored by it.
        records_tools: whether durable execution records a call of a tool with the work of its guards, as they released
            it. With False, tools run one by one between two recorded operations, and may use the engine themselves.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardCapability(Host(SUPPORT, processors, **options), id, records_tools=records_tools)


class GuardCapability(CombinedCapability[object]):
    """A workflow in pydantic-ai's agents. Made by `as_capability`; one serves any number of agents and runs.

    It has two halves: one stands next to the model, and reads the additions of other capabilities to a request; the
    other one stands around all of them, and reads the answers that they give or change.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host, id: str | None = None, *, records_tools: bool = True) -> None:
        self.host = host
        runs = _Runs(host, records_tools=records_tools)
        super().__init__(capabilities=[OuterGuard(runs, id and f"{id}.outer"), InnerGuard(runs, id and f"{id}.inner")])

    async def stored_decisions(self, history: Sequence[theirs.ModelMessage]) -> DeferredToolResults | None:
        """Return the decisions that are stored in ``reviews``, for the run to go on with. None if one is missing.

        A call that nobody decided about in time is denied with a message that says so. Calls that are deferred
        otherwise, such as those that your application runs, are not in it: add their results.

        Args:
            history: the messages of the run that waits.

        Raises:
            UsageError: the capability has no ``reviews``.
            StorageError: the store failed.
        """
        reviews = self.host.stored_reviews
        asked = [_asked(call, _conversation(history)) for call in _last_calls(history)]
        made = await reviews.decisions({call.call_id: reviews.id_of(call) for call in asked})
        return None if made is None else DeferredToolResults(approvals={id: _approval(one) for id, one in made.items()})


@dataclass(slots=True, weakref_slot=True)
class _Run:
    """One run of an agent.

    Attributes:
        request: its request.
        operations: records the work of the guards, in durable execution.
        tool_lock: held by a tool that runs between two recorded operations.
        released: the last answer of the model, as the guards released it.
        output: the output that the guards have seen.
    """

    request: HostRequest
    operations: GuardOperations | None = None
    tool_lock: Lock | None = None
    released: theirs.ModelResponse | None = None
    output: object = None

    def has_released(self, answer: theirs.ModelResponse) -> bool:
        """Return whether an answer is the one that the guards have released last."""
        return self.released is not None and self.released.parts == answer.parts


class _Runs:
    """The runs of a capability that have begun, for its two halves."""

    def __init__(self, host: Host, *, records_tools: bool) -> None:
        self._host = host
        self._records_tools = records_tools
        self._runs: WeakValueDictionary[str, _Run] = WeakValueDictionary()

    def of(self, ctx: RunContext[object]) -> _Run:
        """Return the run, which is opened for the half that asks first."""
        id = ctx.run_id or ""
        run = self._runs.get(id)
        if run is None or run.request.closed:
            run = self._runs[id] = _Run(self._host.open(run_id=ctx.run_id))
            engine = recording_engine(ctx)
            if engine is not None and can_record(engine):  # Temporal's workflows may load no module
                from penstock.workflows.adapters.pydantic_ai.durable import GuardOperations

                run.operations = GuardOperations(run.request)
                run.tool_lock = None if self._records_tools else Lock()
        return run


class _Half(AbstractCapability[object]):
    """A half of a `GuardCapability`, of an agent or of one run."""

    _durable_operations_need_id = False  # without an id, durable runs are refused, with how to set it

    def __init__(self, runs: _Runs, id: str | None, run: _Run | None = None) -> None:
        self._runs = runs
        self.id = id
        self._run = run

    @property
    def _open(self) -> _Run:
        if self._run is None:  # runs would share their state
            raise UsageError(
                "the capability was used outside of a run of its agent, so there is no request to guard; durable "
                "execution that works in another process is not supported"
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
        return type(self)(self._runs, self.id, self._runs.of(ctx))

    @durable_operation(name="guard")
    async def recorded(self, ctx: RunContext[object], work: str) -> dict[str, object]:
        """Do some work of the guards, and return its record for durable execution; see `GuardOperations`."""
        operations = self._open.operations
        if operations is None:
            raise UsageError(f"the work {work!r} of the guards belongs to a run that is not recorded")
        return await operations.do(work)

    async def _done(
        self,
        ctx: RunContext[object],
        name: str,
        work: Callable[[], Awaitable[Value]],
        given: Sequence[Message] = (),
    ) -> Value:
        """Do some work of the guards: as a recorded operation, if the run is durable."""
        operations = self._open.operations
        return await (work() if operations is None else operations.run(self.recorded, ctx, name, work, given))


class OuterGuard(_Half):
    """Reads the answers of other capabilities in the model's place, and their changes to its answers.

    Its hooks raise a `GuardBlockedError` if a guard stopped the run.
    """

    async def for_run(self, ctx: RunContext[object]) -> Self:
        """Return the half for one run.

        Raises:
            UsageError: it is a realtime session.
            DurableRunError: durable execution cannot record the run.
        """
        made = await super().for_run(ctx)
        engine = recording_engine(ctx)
        if engine is not None:
            check_recording(engine, self.id)
        return made

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
        call = GivenAnswer(answer, request_context.model_request_parameters).call(request_context.messages)

        async def judge() -> Sequence[theirs.ModelResponsePart]:
            with raised_as(GuardBlockedError):
                left = replace(answer, parts=parts_of(await run.request.whole_answer(call)))
            return (left if run.operations is None else run.operations.hidden_answer(left)).parts

        return replace(answer, parts=await self._done(ctx, f"answer {ctx.run_step}", judge))

    async def after_run(self, ctx: RunContext[object], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Judge the output as other capabilities have changed it."""
        run = self._open
        if result.output is run.output or result.output == run.output:
            return result
        made, results = result.output, CheckedResults(run.request, "output", "output")

        async def judge() -> object:
            with raised_as(GuardBlockedError):
                return await results.output(made)

        return replace(result, output=await self._done(ctx, "output", judge))


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
        request = self._open.request

        async def end() -> None:
            with raised_as(GuardBlockedError):
                await request.end_made("pydantic-ai")

        if request.has_unjudged:
            await self._done(ctx, "end", end)
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
        self._open.request.thread = ctx.conversation_id
        given = [*instructions, *(one for group in said for one in group)]
        begin = partial(self._open.request.begin, given)
        if not await self._done(ctx, f"input {ctx.run_step}", begin, given):
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

        return GuardedModel(model, run.request, released, run.operations)

    async def after_model_request(
        self, ctx: RunContext[object], *, request_context: ModelRequestContext, response: theirs.ModelResponse
    ) -> theirs.ModelResponse:
        """Take the changes of the request out of an answer that durable execution has recorded, or replays.

        Raises:
            GuardBlockedError: a guard has stopped the run.
        """
        run = self._open
        if run.operations is None:
            return response
        run.released = run.operations.replayed(response)
        with raised_as(GuardBlockedError):
            run.request.check()
        return run.released

    async def on_model_request_error(
        self, ctx: RunContext[object], *, request_context: ModelRequestContext, error: Exception
    ) -> theirs.ModelResponse:
        """End the request with a verdict that durable execution replays."""
        if isinstance(error, GuardBlockedError) and self._open.request.tripwire is None:
            self._open.request.run.stop(error.tripwire)
        raise error

    async def wrap_tool_execute(
        self,
        ctx: RunContext[object],
        *,
        call: theirs.ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Check the call and its result; a processor may answer in the tool's place.

        Raises:
            ApprovalRequired: a person has to approve the call.
        """
        name, call_id, given = (
            call.tool_name,
            call.tool_call_id,
            to_jsonable_python(args, fallback=str, bytes_mode="base64"),
        )
        request, tool_lock = self._open.request, self._open.tool_lock

        async def check() -> CheckedCall:
            operations = self._open.operations
            asked = given if operations is None else operations.arguments(call_id, given)
            with raised_as(GuardBlockedError):
                return await self._checked(ctx, call, tool_def, asked)

        async def run_tool(checked: CheckedCall) -> object:
            return await handler(args if checked.arguments == freeze(given) else checked.arguments)

        async def whole() -> object:
            checked = await check()
            if checked.answered:
                return checked.answer
            with raised_as(GuardBlockedError):
                return await CheckedResults(request, name, call_id, checked.arguments).made(run_tool(checked))

        if tool_lock is None:
            with retries_counted():
                return await self._done(ctx, f"call {call_id}", whole)
        checked_here: list[CheckedCall] = []

        async def check_and_hide() -> CheckedCall:
            checked_here.append(await check())
            operations = self._open.operations
            return checked_here[0] if operations is None else operations.hidden_call(checked_here[0])

        async with tool_lock:  # what is recorded has the same order in each process
            recorded = await self._done(ctx, f"call {call_id}", check_and_hide)
            if recorded.answered:
                return recorded.answer
            checked = checked_here[0] if checked_here else recorded  # the tool gets the values, the record has tokens
            made = await settled(run_tool(checked))
            results = CheckedResults(request, name, call_id, checked.arguments)
            with retries_counted():
                return await self._done(ctx, f"result {call_id}", lambda: results.made(made.again()))

    async def _checked(
        self, ctx: RunContext[object], call: theirs.ToolCallPart, tool_def: ToolDefinition, given: Json
    ) -> CheckedCall:
        """Return a call as the guards left it.

        Raises:
            ApprovalRequired: a person has to approve it.
        """
        request, id = self._open.request, call.tool_call_id
        if ctx.tool_call_approved:
            asked = _asked(_made(ctx.messages, id) or call, ctx.conversation_id, tool_def)
            approved = _arguments(call)  # of whoever has approved it; those given have defaults
            said = [one for message in ctx.messages for one in read_message(message)]
            return await request.approved_call(asked, given, approved=approved, conversation=said)
        checked = await request.tool_call(call.tool_name, given, id)
        if checked.asks:
            await request.ask(_asked(call, ctx.conversation_id, tool_def))
            raise exceptions.ApprovalRequired
        return checked

    def get_wrapper_toolset(self, toolset: AbstractToolset[object]) -> AbstractToolset[object]:
        """Return the tools with a check of the errors that they raise for the model."""
        return GuardedToolset(toolset, self._open.request, self._open.operations, self._done)

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

        async def judge(work: Awaitable[object]) -> object:
            made = await results.of(work, of_call=False)
            if made is output or made == output:
                return made
            with raised_as(GuardBlockedError):
                return await results.output(made)

        if ctx.partial_output:
            return await judge(handler(output))
        if output_context.function_name is not None:
            return await self._done(ctx, f"output {results.call_id}", lambda: judge(handler(output)))
        made = await settled(handler(output))
        if made.value is output or (made.error is None and made.value == output):
            return output
        return await self._done(ctx, f"output {results.call_id}", lambda: judge(made.again()))

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
            if self._open.operations is not None and after:
                parts = self._open.operations.hidden_parts(after[0])
                if parts == before.parts:  # no more than values that were put back
                    continue
            if before is sent[-1]:
                before.parts = parts
                continue
            made = replace(before, parts=parts)
            sent[index] = made
            for place, old in enumerate(history):
                if old is before:
                    history[place] = made


def _made(history: Sequence[theirs.ModelMessage], call_id: str) -> theirs.ToolCallPart | None:
    """Return a call as the model made it, and the guards left it."""
    parts = [part for message in reversed(history) for part in message.parts if isinstance(part, theirs.ToolCallPart)]
    return next((part for part in parts if part.tool_call_id == call_id), None)


def _asked(call: theirs.ToolCallPart, conversation: str | None, tool: ToolDefinition | None = None) -> HostCall:
    """Return a call as a person is asked about it."""
    known = {} if tool is None else {"description": tool.description, "parameters": tool.parameters_json_schema}
    return HostCall(call.tool_name, _arguments(call), call.tool_call_id, conversation, freeze(known))


def _arguments(call: theirs.ToolCallPart) -> Json:
    return cast("Json", to_jsonable_python(call.args_as_dict(), fallback=str))


def _last_calls(history: Sequence[theirs.ModelMessage]) -> list[theirs.ToolCallPart]:
    """Return the calls of the last answer."""
    last = next((one for one in reversed(history) if isinstance(one, theirs.ModelResponse)), None)
    return [] if last is None else [part for part in last.parts if isinstance(part, theirs.ToolCallPart)]


def _conversation(history: Sequence[theirs.ModelMessage]) -> str | None:
    """Return the id of a conversation, as pydantic-ai finds it in its messages."""
    return next((one.conversation_id for one in reversed(history) if one.conversation_id is not None), None)


def _approval(made: HostDecision) -> ToolApproved | ToolDenied:
    if made.approved:
        return ToolApproved() if made.arguments is None else ToolApproved(override_args=thaw(made.arguments))
    return ToolDenied(made.reason) if made.reason else ToolDenied()


def _emptied(part: Any) -> Any:
    """Return a part of a request that a guard has stopped, without its text, for who reads the history all the same."""
    if isinstance(part, theirs.SystemPromptPart):  # the application's own
        return part
    if isinstance(part, theirs.ToolReturnPart):
        return replace(cast("Any", part), content="The request was stopped.", metadata=None)
    return replace(part, content="")
