"""The options of a request to an agent: of the agent for all of them, and of one call; they know no loop."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from penstock.engine.errors import OptionError, UsageError
from penstock.engine.processor import Processor

if TYPE_CHECKING:
    from penstock.engine.chunks import Chunk
    from penstock.engine.context import InputStepContext
    from penstock.engine.frozen import Value, Values
    from penstock.engine.message_list import Messages
    from penstock.engine.messages import ToolPart
    from penstock.engine.ports import Clock, Ids, Model, Observer
    from penstock.engine.run_streams import Release
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.results import AgentResult, StepResult

RequestContext: TypeAlias = "dict[str, Value]"

Placed: TypeAlias = "Item | Callable[[RequestContext], Any]"
"""An entry of an array: a processor, a workflow, or a function of the request context that gives one or several."""

Array: TypeAlias = "Sequence[Placed] | Callable[[RequestContext], Any]"
"""An agent's array; as a function of the request context, evaluated once a request; it may be async."""

Instructions: TypeAlias = "Messages | Callable[[RequestContext], Any]"
"""What an agent is told first: a text, several messages, or a function of the request context that gives them."""

PrepareStep: TypeAlias = "Callable[[InputStepContext], Value | Awaitable[Value]]"
"""The caller's own last word before each model call; it may return what a `process_input_step` may."""

Approve: TypeAlias = "Callable[[ToolPart], bool | str | Awaitable[bool | str | None] | None]"
"""Decides about a call to a tool that wants approval: True; False, or the reason why not, for the model; None leaves it
to the caller: the run ends and waits."""

StopWhen: TypeAlias = "Callable[[Sequence[StepResult]], bool | Awaitable[bool]]"
"""Tells, after a step whose tools have run, whether the run is to end there."""


class CallOptions(TypedDict, total=False):
    """What a call may say in place of the agent, and what only a call can say."""

    model: Model | str
    instructions: Instructions
    system: Messages
    context: Messages
    tools: Value
    processors: Array
    input_processors: Array
    output_processors: Array
    error_processors: Array
    max_processor_retries: int | None
    max_error_retries: int | None
    max_steps: int
    stop_when: StopWhen | Sequence[StopWhen]
    release: Release
    settings: Values
    provider_options: Values
    tool_choice: str | Sequence[str]
    active_tools: Sequence[str] | None
    output_type: Value
    prepare_step: PrepareStep | None
    approve: Approve | None
    allow_empty: bool
    request_context: RequestContext | None
    thread_id: str | None
    resource_id: str | None
    run_id: str | None
    records: bool
    observers: Sequence[Observer]
    on_chunk: Callable[[Chunk], Any] | None
    on_step_finish: Callable[[StepResult], Any] | None
    on_finish: Callable[[AgentResult[Any]], Any] | None
    on_error: Callable[[Exception], Any] | None
    ids: Ids
    clock: Clock


ARRAY_OPTIONS: tuple[Literal["processors", "input_processors", "output_processors", "error_processors"], ...] = (
    "processors",
    "input_processors",
    "output_processors",
    "error_processors",
)


def check_call(given: Mapping[str, object]) -> None:
    """Refuse an option that no call has, or a value that cannot be meant.

    Raises:
        UsageError: there is no such option.
        OptionError: its value is not allowed.
    """
    known = CallOptions.__annotations__
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"a request has no option {name!r}; {meant}there are {', '.join(known)}")
    for name in ARRAY_OPTIONS:
        if name in given:
            check_array(name, given[name])
    for name in ("max_processor_retries", "max_error_retries"):
        check_count(name, given.get(name), least=0, optional=True)
    check_count("max_steps", given.get("max_steps", 1), least=1)
    for name in ("prepare_step", "approve", "on_chunk", "on_step_finish", "on_finish", "on_error"):
        check_function(name, given.get(name))
    for name in ("settings", "provider_options"):
        if not isinstance(given.get(name, {}), Mapping):
            raise OptionError("Agent", name, "…", "a mapping")
    if not isinstance(given.get("request_context") or {}, dict):
        raise OptionError("Agent", "request_context", "…", "a dict: what a hook sets in it, later ones see")


def check_array(name: str, given: object) -> None:
    """Refuse what is no array; a single processor is a likely slip."""
    if callable(given) and not isinstance(given, (type, Processor)):
        return
    if isinstance(given, str) or not isinstance(given, Sequence):
        kind = type(given).__name__
        raise OptionError("Agent", name, kind, "a list of processors and workflows, or a function that gives one")


def check_count(name: str, given: object, *, least: int, optional: bool = False) -> None:
    """Refuse what is no number of that size."""
    if given is None and optional:
        return
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise OptionError("Agent", name, given, f"an int, {least} or more" + (", or None" if optional else ""))


def check_function(name: str, given: object) -> None:
    """Refuse what cannot be called."""
    if given is not None and not callable(given):
        raise OptionError("Agent", name, given, "a function, or None")
