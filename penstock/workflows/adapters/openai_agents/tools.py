"""Tools of the SDK whose calls and results pass the guards of the run that calls them.

Function tools are guarded by the SDK's own tool guardrails. Other tools have none, so the functions that they call are
wrapped. Both are done once, in place; outside of a guarded run a tool behaves as before.
"""

from __future__ import annotations

import inspect
import uuid
from dataclasses import asdict, dataclass
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

from agents import (
    ApplyPatchResult,
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    FunctionTool,
    LocalShellTool,
    ShellResult,
    ShellTool,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolInputGuardrailData,
    ToolOutputGuardrail,
    ToolOutputGuardrailData,
    UserError,
    resolve_computer,
)
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, is_mapping, thaw
from penstock.engine.values.tripwire import BlockedError
from penstock.formats.parts import read_arguments
from penstock.workflows.adapters.openai_agents.running import guarding_now, running_now
from penstock.workflows.hosting import HostCall
from penstock.workflows.hosting.answers import as_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agents import (
        ApplyPatchOperation,
        LocalShellCommandRequest,
        RunContextWrapper,
        ShellCommandRequest,
        Tool,
    )
    from agents.tool_context import ToolContext

    from penstock.engine.values.frozen import Value
    from penstock.formats.wire import Json
    from penstock.workflows.adapters.openai_agents.running import Guarding
    from penstock.workflows.hosting import CheckedCall

T = TypeVar("T")


def guard_tool(tool: Tool) -> None:
    """Let the calls and the results of a tool pass the guards. Tools that the provider runs are left as they are."""
    if isinstance(tool, FunctionTool):
        _guard_function(tool)
    elif isinstance(tool, CustomTool):
        tool.on_invoke_tool = _once(tool.on_invoke_tool, _CustomWork, tool)
    elif isinstance(tool, ShellTool):
        if tool.executor is not None:  # else the provider runs it
            tool.executor = _once(tool.executor, _ShellWork, tool)
    elif isinstance(tool, LocalShellTool):
        tool.executor = _once(tool.executor, _LocalShellWork, tool)
    elif isinstance(tool, ApplyPatchTool):
        tool.editor = _once(tool.editor, _GuardedEditor, tool)


async def guard_computer(tool: Tool, context: RunContextWrapper) -> None:
    """Let the actions and screenshots of a computer pass the guards. The SDK makes some computers for each run."""
    if isinstance(tool, ComputerTool):
        computer: Any = await resolve_computer(tool=tool, run_context=context)
        for action in _ACTIONS:
            setattr(computer, action, _once(getattr(computer, action), _Action, tool))
        computer.screenshot = _once(computer.screenshot, _Screenshots, tool)


def _once(inner: Any, kind: Callable[[Any, Any], _Wrapped], tool: Tool) -> Any:
    """Return the function that a tool calls, guarded; it is guarded once."""
    return inner if isinstance(inner, _Wrapped) else kind(inner, tool)


def _guarding_here() -> Guarding | None:
    """Return the guarding of the run that this code is in."""
    running = running_now.get()
    return None if running is None else guarding_now.get() or running.root


# Function tools


def _guard_function(tool: FunctionTool) -> None:
    given, after = tool.tool_input_guardrails or [], tool.tool_output_guardrails or []
    every: list[ToolInputGuardrail[Any] | ToolOutputGuardrail[Any]] = [*given, *after]
    for guardrail in every:
        if guardrail not in (_BEFORE, _AFTER) and not isinstance(guardrail.guardrail_function, _Rejecting):
            guardrail.guardrail_function = _Rejecting(guardrail.guardrail_function)
    if _BEFORE not in given:
        tool.tool_input_guardrails = [*given, _BEFORE]
    if _AFTER not in after:
        tool.tool_output_guardrails = [*after, _AFTER]
    running = running_now.get()
    if running is None or not running.host.asks:
        return
    running.definitions[tool.name] = FrozenDict(
        description=tool.description, parameters=freeze(tool.params_json_schema)
    )
    if not isinstance(tool.needs_approval, _ApprovalWish):
        tool.needs_approval = _ApprovalWish(tool.needs_approval, tool.name)
    if tool.needs_approval.is_fixed:
        _let_defaults_pass(tool)


def _let_defaults_pass(tool: FunctionTool) -> None:
    """Let the SDK ask our function about calls to which it adds defaults.

    It interrupts the run at each of them by itself where a function decides, since a function of the user may read the
    arguments. Where the user has given none, it would not.
    """
    invoker: Any = tool.on_invoke_tool
    if hasattr(invoker, "prepare_arguments"):
        invoker.prepare_arguments = _unprepared


def _unprepared(*_: object) -> None:
    """Return nothing, so that the SDK reads the arguments when it calls the tool."""


class _ApprovalWish:
    """The function of a tool that says whether a person has to approve a call: also if a guard asks about it."""

    def __init__(self, inner: bool | Callable[..., object], name: str) -> None:  # noqa: FBT001 - the SDK's value
        self._inner = inner
        self._name = name

    @property
    def is_fixed(self) -> bool:
        """Whether the user has given no function."""
        return isinstance(self._inner, bool)

    async def __call__(self, context: RunContextWrapper, arguments: Json, call_id: str) -> bool:
        guarding = _guarding_here()
        if guarding is not None and any(call.call_id == call_id for call in guarding.request.asked):
            await guarding.request.ask(_asked(self._name, arguments, call_id))
            return True
        inner = self._inner
        return inner if isinstance(inner, bool) else bool(await _awaited(inner(context, arguments, call_id)))


def _asked(name: str, arguments: Value, call_id: str) -> HostCall:
    """Return a call as a person is asked about it."""
    running = running_now.get()
    return HostCall(name, arguments, call_id, tool=EMPTY if running is None else running.definitions.get(name, EMPTY))


class _Rejecting:
    """A guardrail function of the user: the text that it puts in the place of a result is read as the result."""

    def __init__(self, inner: Callable[[Any], object]) -> None:
        self._inner = inner
        update_wrapper(self, inner)

    async def __call__(self, data: Any) -> ToolGuardrailFunctionOutput:
        guarding = _guarding_of(data)
        made: ToolGuardrailFunctionOutput = await _awaited(self._inner(data))
        behavior = made.behavior
        if guarding is None or behavior["type"] != "reject_content":
            return made
        left = await _result_left(guarding, data, behavior["message"])
        return made if left == behavior["message"] else ToolGuardrailFunctionOutput.reject_content(left)


def _guarding_of(data: ToolInputGuardrailData) -> Guarding | None:
    """Return the guarding of the run that calls a tool; that of a tool which is an agent is another one."""
    running = running_now.get()
    if running is None:
        return None
    known = running.tools.get(id(data.context))
    if known is None:
        known = running.tools[id(data.context)] = (data.context, guarding_now.get() or running.root)
    return known[1]


async def _before(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    guarding = _guarding_of(data)
    if guarding is None:
        return ToolGuardrailFunctionOutput.allow()
    context = data.context
    given, _ = read_arguments(context.tool_arguments)
    call = _GuardedToolCall(context.tool_name, context.tool_call_id, given)
    approved = context.is_tool_approved(context.tool_name, context.tool_call_id) is True
    answer = await (call.answered_approved(guarding) if approved else call.answered(guarding))
    return ToolGuardrailFunctionOutput.allow() if answer is None else ToolGuardrailFunctionOutput.reject_content(answer)


async def _after(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    guarding = _guarding_of(data)
    if guarding is None:
        return ToolGuardrailFunctionOutput.allow()
    said = to_jsonable_python(data.output, fallback=str)
    left = await _result_left(guarding, data, said)
    return (
        ToolGuardrailFunctionOutput.allow()
        if left == said
        else ToolGuardrailFunctionOutput.reject_content(as_text(left))
    )


async def _result_left(guarding: Guarding, data: ToolInputGuardrailData, said: Value) -> Value:
    context = data.context
    given, _ = read_arguments(context.tool_arguments)
    return await _GuardedToolCall(context.tool_name, context.tool_call_id, given).result_left(guarding, said)


_BEFORE = ToolInputGuardrail[Any](_before, name="penstock")
_AFTER = ToolOutputGuardrail[Any](_after, name="penstock")


# Other tools


@dataclass(frozen=True)
class _GuardedToolCall:
    """A call of a tool.

    Attributes:
        name: the name of the tool.
        id: the id of the call.
        arguments: a JSON value.
    """

    name: str
    id: str
    arguments: Value

    async def answered(self, guarding: Guarding) -> str | None:
        """Check the call; return a processor's answer in the tool's place, or None.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: a processor changed the arguments where the SDK cannot take them.
        """
        guarding.read.add(self.id)
        with guarding.noted():
            checked = await guarding.request.tool_call(self.name, self.arguments, self.id)
            if checked.answered:
                return as_text(checked.answer)
            self._check_unchanged(checked)
        return None

    async def answered_approved(self, guarding: Guarding) -> str | None:
        """Check a call that a person has approved; return what stands in the place of its result, or None.

        A run that goes on has the approvals of its state. In one that made the call itself nobody was asked about it:
        the SDK takes an approval of all calls of the tool for one of this call.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: a processor changed the arguments where the SDK cannot take them.
        """
        if guarding.request.has_made(self.id):
            return await self.answered(guarding)
        guarding.read.add(self.id)
        with guarding.noted():
            asked = _asked(self.name, self.arguments, self.id)
            checked = await guarding.request.approved_call(asked, self.arguments, conversation=guarding.earlier())
            if checked.answered:
                return as_text(checked.answer)
            self._check_unchanged(checked)
        return None

    def _check_unchanged(self, checked: CheckedCall) -> None:
        if checked.arguments != freeze(self.arguments):
            raise UsageError(
                f"a processor changed the arguments of {self.name!r}, a call that no answer of this run has made; "
                "the OpenAI Agents SDK cannot take changed arguments here"
            )

    async def result_left(self, guarding: Guarding, said: Value, *, is_error: bool = False) -> Value:
        """Return a result, a JSON value, as the guards left it.

        Raises:
            BlockedError: a guard stopped the run.
        """
        guarding.read.add(self.id)
        with guarding.noted():
            left: Value = await guarding.request.tool_result(
                self.name, freeze(said), self.id, arguments=freeze(self.arguments), is_error=is_error
            )
        return said if left == freeze(said) else thaw(left)


class _Wrapped:
    """The function that a tool calls, guarded. All but the call is its own.

    Attributes:
        inner: the function that the tool called.
        tool: the tool.
    """

    def __init__(self, inner: Any, tool: Any) -> None:
        self.inner = inner
        self.tool = tool

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped object."""
        return getattr(self.inner, name)


async def _passed(call: _GuardedToolCall, work: Callable[[], object], write: Callable[[Value], T]) -> T:
    """Do the work of a call, and return its result as the guards left it.

    Args:
        call: the call.
        work: makes the result, or a coroutine that does.
        write: makes a result from the guarded version, if they changed it.

    Raises:
        BlockedError: a guard stopped the run.
        UserError: the work failed; its text is the guarded version of the error's text.
    """
    guarding = _guarding_here()
    if guarding is None:
        bare: T = await _awaited(work())
        return bare
    answer = await call.answered(guarding)
    if answer is not None:
        return write(answer)
    try:
        made: T = await _awaited(work())
    except Exception as error:
        said = str(error) or type(error).__name__
        left = await call.result_left(guarding, said, is_error=True)
        if left == said:
            raise
        raise UserError(as_text(left)) from None
    told = to_jsonable_python(made, fallback=str)
    left = await call.result_left(guarding, told)
    return made if left == told else write(left)


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _told_later(work: Awaitable[T]) -> T:
    """Do work whose errors the SDK makes a text of: of a guard's error, that text says nothing.

    The error itself is raised when the model is called next, or when the run ends.

    Raises:
        UserError: a guard stopped the run, or failed; it says no more.
    """
    guarding = _guarding_here()
    try:
        return await work
    except Exception as error:
        if not isinstance(error, BlockedError) and (guarding is None or guarding.failure is not error):
            raise
        raise UserError("a guard stopped the run here") from None


class _CustomWork(_Wrapped):
    """The function that a custom tool calls."""

    async def __call__(self, context: ToolContext, given: str) -> str:
        call = _GuardedToolCall(self.tool.name, context.tool_call_id, given)
        return await _told_later(_passed(call, partial(self._said, context, given), as_text))

    async def _said(self, context: ToolContext, given: str) -> str:
        made = await _awaited(self.inner(context, given))
        return made if isinstance(made, str) else str(made)  # as the SDK does


_SHELL_RESULT: TypeAdapter[ShellResult] = TypeAdapter(ShellResult)


class _ShellWork(_Wrapped):
    """The function that a shell tool calls."""

    async def __call__(self, request: ShellCommandRequest) -> str | ShellResult:
        call = _GuardedToolCall(self.tool.name, request.data.call_id, to_jsonable_python(asdict(request.data.action)))
        return await _told_later(_passed(call, partial(self.inner, request), _shell_result))


def _shell_result(left: Value) -> str | ShellResult:
    if is_mapping(left):
        try:
            return _SHELL_RESULT.validate_python(left)
        except ValidationError:  # a processor made something else of it
            pass
    return as_text(left)


class _LocalShellWork(_Wrapped):
    """The function that a local shell tool calls. Errors end the run."""

    async def __call__(self, request: LocalShellCommandRequest) -> str:
        action = to_jsonable_python(request.data.action, fallback=str)
        call = _GuardedToolCall(self.tool.name, request.data.call_id, action)
        return await _passed(call, partial(self.inner, request), as_text)


class _GuardedEditor(_Wrapped):
    """The editor of a patch tool. It is not told which call an operation is of, so each one is a call."""

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult | str | None:
        """Create a file."""
        return await self._edited(operation, self.inner.create_file)

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult | str | None:
        """Change a file."""
        return await self._edited(operation, self.inner.update_file)

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult | str | None:
        """Delete a file."""
        return await self._edited(operation, self.inner.delete_file)

    async def _edited(
        self, operation: ApplyPatchOperation, work: Callable[[ApplyPatchOperation], object]
    ) -> ApplyPatchResult | str | None:
        said = {name: getattr(operation, name) for name in ("type", "path", "diff", "move_to")}
        arguments = {name: value for name, value in said.items() if value is not None}
        call = _GuardedToolCall(self.tool.name, f"patch_{uuid.uuid4().hex}", arguments)
        return await _told_later(_passed(call, partial(work, operation), _patch_result))


def _patch_result(left: Value) -> ApplyPatchResult:
    if not is_mapping(left):
        return ApplyPatchResult(output=None if left is None else as_text(left))
    status, output = left.get("status"), left.get("output")
    known = status if status in ("completed", "failed") else None
    return ApplyPatchResult(status=known, output=None if output is None else as_text(output))


_ACTIONS = ("click", "double_click", "scroll", "type", "wait", "move", "keypress", "drag")


class _Action(_Wrapped):
    """An action of a computer. Errors end the run."""

    def __init__(self, inner: Any, tool: Any) -> None:
        super().__init__(inner, tool)
        self.__signature__ = inspect.signature(inner)  # the SDK passes on what the method takes

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        given = self.__signature__.bind(*args, **kwargs).arguments
        said = to_jsonable_python({"type": self.inner.__name__, **given}, fallback=str)
        call = _GuardedToolCall(self.tool.name, f"action_{uuid.uuid4().hex}", said)
        await _passed(call, partial(self.inner, *args, **kwargs), _nothing)


def _nothing(_left: Value) -> None:
    """Ignore the answer of a processor in an action's place: the SDK takes screenshots only."""


class _Screenshots(_Wrapped):
    """The screenshot function of a computer. Errors end the run."""

    async def __call__(self) -> str:
        call = _GuardedToolCall(self.tool.name, f"screenshot_{uuid.uuid4().hex}", {"type": "screenshot"})
        image = await _passed(call, self._said, _image)
        return image["image_url"].removeprefix(_IMAGE)

    async def _said(self) -> dict[str, str]:
        return {"type": "computer_screenshot", "image_url": f"{_IMAGE}{await _awaited(self.inner())}"}


_IMAGE = "data:image/png;base64,"


def _image(left: Value) -> dict[str, str]:
    url = left.get("image_url") if is_mapping(left) else None
    if not isinstance(url, str) or not url.startswith(_IMAGE):
        raise UsageError(
            "a processor made something else of a screenshot; the OpenAI Agents SDK takes images only, as "
            f'{{"type": "computer_screenshot", "image_url": "{_IMAGE}…"}}'
        )
    return {"image_url": url}
