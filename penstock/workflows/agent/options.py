"""The options of an agent and of one request, and their checks."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast, get_args

from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.run.conversation import MAX_ERROR_RETRIES
from penstock.engine.run.held_answers import Release
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.protocols import RANDOM_IDS, SYSTEM_CLOCK
from penstock.models.open_calls import OpenCalls
from penstock.workflows.agent.approvals import Approvals

if TYPE_CHECKING:
    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Messages
    from penstock.engine.values.messages import ToolPart
    from penstock.engine.values.protocols import Clock, Ids, Model, Observer
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.results import AgentResult, StepResult

MAX_STEPS = 5
"""How many accepted answers a request may have by default (the same as in the reference system, runtime.md §3)."""

MAX_DEPTH = 32
"""How many agents may run within each other by default, each as a tool of the one before."""

PROCESSOR_RETRIES = 1
"""How often in a row an answer may be rejected and requested again by default."""

RequestContext: TypeAlias = "dict[str, Value]"

ProcessorEntry: TypeAlias = "Item | Callable[[RequestContext], Any]"
"""A processor, a workflow, or a function of the request context that returns one or more of them."""

ProcessorList: TypeAlias = "Sequence[ProcessorEntry] | Callable[[RequestContext], Any]"
"""A processor list, or a function of the request context, also an async one, that returns one."""

Instructions: TypeAlias = "Messages | Callable[[RequestContext], Any]"
"""The system messages of an agent: a text, messages, or a function of the request context that returns them."""

PrepareStep: TypeAlias = "Callable[[InputStepContext], Value | Awaitable[Value]]"
"""Called before each model call; may return whatever `process_input_step` may return."""

Approve: TypeAlias = "Callable[[ToolPart], bool | str | Awaitable[bool | str | None] | None]"
"""Decides on a call to a tool that needs approval; see ``approve`` of `Agent` for what it returns."""

StopWhen: TypeAlias = "Callable[[Sequence[StepResult]], bool | Awaitable[bool]]"
"""Called with the steps so far after a step whose tools have run; a true value ends the request."""


class AgentOptions(TypedDict, total=False):
    """The options of an agent, which a request may override; `Agent` describes them."""

    instructions: Instructions
    tools: Value
    processors: ProcessorList
    input_processors: ProcessorList
    output_processors: ProcessorList
    error_processors: ProcessorList
    max_processor_retries: int | None
    max_error_retries: int | None
    max_steps: int
    max_depth: int
    stop_when: StopWhen | Sequence[StopWhen]
    release: Release
    settings: Values
    provider_options: Values
    tool_choice: str | Sequence[str]
    active_tools: Sequence[str] | None
    output_type: Value
    prepare_step: PrepareStep | None
    approve: Approve | None
    approvals: Approvals
    allow_empty: bool
    open_calls: OpenCalls
    ui_messages: bool
    observers: Sequence[Observer]
    ids: Ids
    clock: Clock


class CallOptions(AgentOptions, total=False):
    """The options of a request: those of an agent, and those that only a request has; see `Agent.generate`."""

    model: Model | str
    system: Messages
    context: Messages
    request_context: RequestContext | None
    thread_id: str | None
    resource_id: str | None
    run_id: str | None
    records: bool
    texts: bool
    on_chunk: Callable[[Chunk], Any] | None
    on_step_finish: Callable[[StepResult], Any] | None
    on_finish: Callable[[AgentResult[Any]], Any] | None
    on_error: Callable[[Exception], Any] | None


AGENT_OPTIONS = frozenset(AgentOptions.__annotations__)
CALL_OPTIONS = AGENT_OPTIONS | frozenset(CallOptions.__annotations__)


def check_names(what: str, given: Iterable[str], known: frozenset[str]) -> None:
    """Check the names of options.

    Raises:
        UsageError: an option does not exist; the error lists those that do.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}? The" if close else "the"
            raise UsageError(f"{what} has no option {name!r}; {hint} options are {', '.join(sorted(known))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options of one request: those of the agent, overridden by those of the call. See `Agent`."""

    model: Value
    instructions: Instructions = ""
    system: Messages = ""
    context: Messages = ""
    tools: Value = ()
    processors: ProcessorList = ()
    input_processors: ProcessorList = ()
    output_processors: ProcessorList = ()
    error_processors: ProcessorList = ()
    max_processor_retries: int | None = None
    max_error_retries: int | None = None
    max_steps: int = MAX_STEPS
    max_depth: int = MAX_DEPTH
    stop_when: StopWhen | Sequence[StopWhen] = ()
    release: Release = "auto"
    settings: Values = EMPTY
    provider_options: Values = EMPTY
    tool_choice: str | Sequence[str] = "auto"
    active_tools: Sequence[str] | None = None
    output_type: Value = None
    prepare_step: PrepareStep | None = None
    approve: Approve | None = None
    approvals: Approvals = "any"
    allow_empty: bool = False
    open_calls: OpenCalls = "close"
    ui_messages: bool = False
    request_context: RequestContext | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    run_id: str | None = None
    records: bool = False
    texts: bool = False
    observers: Sequence[Observer] = ()
    on_chunk: Callable[[Chunk], Any] | None = None
    on_step_finish: Callable[[StepResult], Any] | None = None
    on_finish: Callable[[AgentResult[Any]], Any] | None = None
    on_error: Callable[[Exception], Any] | None = None
    ids: Ids = RANDOM_IDS
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            OptionError: a value is not allowed.
        """
        for name in LIST_OPTIONS:
            check_processor_list(name, getattr(self, name))
        for name in ("max_processor_retries", "max_error_retries"):
            check_count(name, getattr(self, name), least=0, optional=True)
        check_count("max_steps", self.max_steps, least=1)
        check_count("max_depth", self.max_depth, least=1)
        for name in ("prepare_step", "approve", "on_chunk", "on_step_finish", "on_finish", "on_error"):
            check_function(name, getattr(self, name))
        if not callable(self.stop_when):
            check_list("stop_when", self.stop_when, "a function of the steps so far, or a list of them", callable)
        check_list("observers", self.observers, "a list of observers", _observes)
        self._check_tools()
        for name in ("allow_empty", "records", "texts", "ui_messages"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError("Agent", name, getattr(self, name), "True or False")
        for name in ("settings", "provider_options"):
            if not isinstance(getattr(self, name), Mapping):
                raise OptionError("Agent", name, "…", "a mapping")
        if self.request_context is not None and not isinstance(cast("object", self.request_context), dict):
            raise OptionError("Agent", "request_context", "…", "a dict, in which hooks can set values for later hooks")
        one_of("Agent", "release", self.release, get_args(Release))
        one_of("Agent", "open_calls", self.open_calls, get_args(OpenCalls))
        one_of("Agent", "approvals", self.approvals, get_args(Approvals))

    def _check_tools(self) -> None:
        """Check that names of tools are strings. Whether such tools exist is checked in each step."""
        if self.active_tools is not None:
            check_list("active_tools", self.active_tools, "a list of names of tools, or None", _is_text)
        choice = cast("object", self.tool_choice)
        if choice is not None and not isinstance(choice, str):
            check_list("tool_choice", choice, "'auto', 'none', 'required', or a list of names of tools", _is_text)

    def with_call(self, given: CallOptions) -> RequestOptions:
        """Return the options with the options of a call in place of the agent's.

        Raises:
            UsageError: an option does not exist.
            OptionError: a value is not allowed.
        """
        check_names("a request", given, CALL_OPTIONS)
        return replace(self, **given) if given else self

    @property
    def stop_functions(self) -> tuple[StopWhen, ...]:
        """The functions of ``stop_when``."""
        return (self.stop_when,) if callable(self.stop_when) else tuple(self.stop_when)

    @property
    def processor_retries(self) -> int:
        """How often in a row an answer may be rejected and requested again."""
        return PROCESSOR_RETRIES if self.max_processor_retries is None else self.max_processor_retries

    def error_retries(self, wanted: int) -> int:
        """Return how often a failed model call may be repeated.

        Args:
            wanted: how many retries the error processors want.
        """
        if self.max_error_retries is not None:
            return self.max_error_retries
        return max(MAX_ERROR_RETRIES, wanted) if self.max_processor_retries is None else self.max_processor_retries


LIST_OPTIONS = ("processors", "input_processors", "output_processors", "error_processors")


def check_processor_list(name: str, given: object) -> None:
    """Check that an option is a list of processors, or a function; to pass a single processor is a likely mistake.

    Raises:
        OptionError: it is neither.
    """
    if callable(given) and not isinstance(given, (type, Processor)):
        return
    if isinstance(given, str) or not isinstance(given, Sequence):
        kind = type(cast("Value", given)).__name__
        raise OptionError("Agent", name, kind, "a list of processors and workflows, or a function that gives one")


def check_count(name: str, given: object, *, least: int, optional: bool = False) -> None:
    """Check that an option is an int of at least ``least``; with ``optional``, or None.

    Raises:
        OptionError: it is not.
    """
    if given is None and optional:
        return
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise OptionError("Agent", name, given, f"an int, {least} or more" + (", or None" if optional else ""))


def check_list(name: str, given: object, allowed: str, fits: Callable[[object], bool]) -> None:
    """Check that an option is a collection whose entries all pass ``fits``.

    Raises:
        OptionError: it is not; ``allowed`` names the expected values.
    """
    if not _is_list(given) or not all(map(fits, cast("Iterable[object]", given))):
        raise OptionError("Agent", name, given, allowed)


def _is_list(given: object) -> bool:
    return isinstance(given, Collection) and not isinstance(given, str)


def _observes(given: object) -> bool:
    return callable(getattr(given, "on_record", None))


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def check_function(name: str, given: object) -> None:
    """Check that an option can be called, or is None.

    Raises:
        OptionError: it is neither.
    """
    if given is not None and not callable(given):
        raise OptionError("Agent", name, given, "a function, or None")
