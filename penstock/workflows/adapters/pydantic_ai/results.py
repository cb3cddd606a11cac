"""Results and retry requests of tools and output functions, checked as results of tools."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic_ai import exceptions, messages as theirs
from pydantic_ai.toolsets import WrapperToolset
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, freeze, is_items, is_mapping, thaw
from penstock.workflows.adapters.pydantic_ai.messages import GuardBlockedError, read_message
from penstock.workflows.adapters.pydantic_ai.unrecorded import check_tools
from penstock.workflows.hosting import raised_as

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from pydantic_ai import RunContext
    from pydantic_ai.toolsets.abstract import ToolsetTool

    from penstock.engine.values.frozen import Value, Values
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.pydantic_ai.durable import GuardOperations
    from penstock.workflows.hosting import HostRequest


_FOR_MODEL = (exceptions.ModelRetry, exceptions.ToolFailed, exceptions.ToolRetryError)
"""The errors of functions whose text the model reads."""

_RESULTS = (*_FOR_MODEL, exceptions.CallDeferred, exceptions.ApprovalRequired)


@dataclass(frozen=True, slots=True)
class Settled:
    """The value that some work has returned, or the error that it raised."""

    value: object
    error: Exception | None = None

    async def again(self) -> object:
        """Return the value.

        Raises:
            Exception: the error.
        """
        if self.error is not None:
            raise self.error
        return self.value


async def settled(work: Awaitable[object]) -> Settled:
    """Wait for some work, and return its value, or an error of it that counts as a result."""
    try:
        return Settled(await work)
    except _RESULTS as error:
        return Settled(None, error)


@contextmanager
def retries_counted() -> Generator[None]:
    """Raise the retry request of a tool again in the form that pydantic-ai counts.

    It has counted the one that a tool has just raised, and counts it once in a step. One that durable execution has
    recorded it would not count.

    Raises:
        ModelRetry: the request.
    """
    try:
        yield
    except exceptions.ToolRetryError as error:
        if not isinstance(error.tool_retry.content, str):  # what is wrong with the arguments
            raise
        raise exceptions.ModelRetry(error.tool_retry.content) from error


@dataclass(frozen=True)
class CheckedResults:
    """Checks the results of one function.

    Its methods raise a `BlockedError` if a guard stopped the run.

    Attributes:
        request: the request of the run.
        name: the name of the function.
        call_id: the id of the call.
        arguments: the arguments of the call.
    """

    request: HostRequest
    name: str
    call_id: str
    arguments: Value = None

    async def made(self, work: Awaitable[object]) -> object:
        """Return the result of a tool that works, see `result`; the metadata of a call that it defers is checked, too.

        Raises:
            CallDeferred: the tool has deferred the call.
            ApprovalRequired: a person has to approve it.
        """
        try:
            made = await work
        except (exceptions.CallDeferred, exceptions.ApprovalRequired) as deferred:
            if deferred.metadata is not None:  # the output of the run holds it
                deferred.metadata = cast("Json", await self.value(deferred.metadata, "metadata"))
            raise
        return await self.result(made)

    async def result(self, made: object) -> object:
        """Return the result of a tool as the guards left it: the object itself if they changed nothing.

        What a `ToolReturn` says beside its value is checked, too: the model reads its content, and the history and
        frontends get its metadata.
        """
        if not isinstance(made, theirs.ToolReturn):
            return await self.value(made)
        given = cast("Any", made)
        left: Json = {"return_value": await self.value(given.return_value)}
        if given.content:
            left["content"] = _as_content(given.content, await self.value(given.content, "content"))
        if given.metadata is not None:
            left["metadata"] = await self.value(given.metadata, "metadata")
        changed = {name: item for name, item in left.items() if item is not getattr(given, name)}
        return replace(given, **changed)

    async def value(self, made: object, beside: str = "") -> object:
        """Return a value as the guards left it: changed parts become JSON, and the rest stays as it is.

        Args:
            made: the value.
            beside: its name, if it is not the result of the call itself.
        """
        said = to_jsonable_python(made, fallback=str, bytes_mode="base64")
        return _with_changes(made, said, await self._left(said, beside))

    async def output(self, made: object) -> object:
        """Return the output of a function or validator, as the guards left it, of the same type.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: a guard changed an object that cannot be made anew.
        """
        said = to_jsonable_python(made, fallback=str, bytes_mode="base64")
        left = await self._left(said, "output")
        made_anew = _with_changes(made, said, left)
        if made_anew is made or isinstance(made, (str, list, dict)):
            return made_anew
        kind: type[Any] = cast("Any", type(made))
        try:
            return TypeAdapter(kind).validate_python(made_anew)
        except (PydanticSchemaGenerationError, ValidationError) as error:
            raise UsageError(
                f"a guard changed the output that {self.name!r} has made, and no {kind.__name__} can be made of what "
                "is left; let it return text, lists or dicts, a dataclass, or a model of pydantic"
            ) from error

    async def of(self, work: Awaitable[object], *, of_call: bool) -> object:
        """Return the result of some work; its error for the model to read is checked.

        Args:
            work: the work.
            of_call: whether its error answers the call, so that the run keeps it as the call's result.

        Raises:
            GuardBlockedError: a guard stopped the run.
            Exception: the error of the work, with its text as the guards left it.
        """
        raised: Exception
        try:
            return await work
        except _FOR_MODEL as error:
            raised = error
        with raised_as(GuardBlockedError):  # not within the handler, else the new error would lead to the old one
            left = await self._retry(raised, of_call=of_call)
        raise left

    async def _retry(self, error: Any, *, of_call: bool) -> Exception:
        told = isinstance(error, exceptions.ToolRetryError)
        text = error.tool_retry.content if told else error.message
        if not isinstance(text, str):  # what is wrong with an answer, which the guards have read
            return cast("Exception", error)
        failed = isinstance(error, exceptions.ToolFailed)
        left = await self._left(text, "" if of_call else "retry", outcome="failed" if failed else "retried")
        if left == text:
            return cast("Exception", error)
        if told:
            return exceptions.ToolRetryError(replace(error.tool_retry, content=str(left)))
        return (exceptions.ToolFailed if failed else exceptions.ModelRetry)(str(left))

    async def _left(self, said: object, beside: str, *, outcome: str = "") -> Value:
        call_id = f"{self.call_id}-{beside}" if beside else self.call_id
        notes: Values = EMPTY
        if outcome:
            told = theirs.ToolReturnPart(self.name, said, call_id, outcome=cast("Any", outcome))
            if outcome == "retried":
                told.retry = theirs.RetryInfo(cause="model_retry")
            [message] = read_message(theirs.ModelRequest([told]))
            notes = message.parts[0].metadata
        return await self.request.tool_result(
            self.name, said, call_id, arguments=self.arguments, is_error=bool(outcome), notes=notes
        )


@dataclass
class GuardedToolset(WrapperToolset[object]):
    """The tools of an agent. An error for the model is checked where a tool raises it.

    Attributes:
        request: the request of the run.
        operations: records the work of the guards, in durable execution.
        done: does some work of the guards, as a recorded operation if the run is durable.
    """

    request: HostRequest
    operations: GuardOperations | None
    done: Callable[[RunContext[object], str, Callable[[], Awaitable[object]]], Awaitable[object]]

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return the tools.

        Raises:
            DurableRunError: durable execution would record what guards have not read.
        """
        tools = await super().get_tools(ctx)
        if self.operations is not None:
            check_tools(ctx, self.wrapped, tools)
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> Any:
        """Call a tool.

        Raises:
            GuardBlockedError: a guard stopped the run.
        """
        given = to_jsonable_python(tool_args, fallback=str, bytes_mode="base64")
        results = CheckedResults(self.request, name, ctx.tool_call_id or "", given)
        if self.operations is not None:
            ctx, tool = self.operations.tool_call(ctx, tool)
        made = await settled(super().call_tool(name, tool_args, ctx, tool))
        if not isinstance(made.error, _FOR_MODEL):
            return await made.again()
        return await self.done(ctx, f"error {ctx.tool_call_id}", lambda: results.of(made.again(), of_call=True))


def _with_changes(value: Value, said: Value, left: Value) -> Value:
    """Return a value with the changes of the guards.

    Args:
        value: the value.
        said: the same as JSON.
        left: the guarded version of that.
    """
    if left == freeze(said):
        return value
    if isinstance(value, list) and is_items(left) and len(left) == len(said):
        items = cast("Any", value)
        return [_with_changes(*item) for item in zip(items, said, left, strict=True)]
    if isinstance(value, dict) and is_mapping(left) and left.keys() == said.keys() == value.keys():
        fields = cast("Any", value)
        return {name: _with_changes(item, said[name], left[name]) for name, item in fields.items()}
    return thaw(left)


def _as_content(before: Value, after: Value) -> Value:
    """Return the content of a user's message, of which items may have become JSON."""
    if after is before or isinstance(after, str):
        return after
    prompt = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": after}]}
    [message] = theirs.ModelMessagesTypeAdapter.validate_python([prompt])
    return cast("theirs.UserPromptPart", message.parts[0]).content
