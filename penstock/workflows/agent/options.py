"""The options of a request to an agent: of the agent for all of them, and of one call; they know no loop."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast, get_args

from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.run.answers import Release
from penstock.engine.run.conversation import MAX_ERROR_RETRIES
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.ports import RANDOM_IDS, SYSTEM_CLOCK

if TYPE_CHECKING:
    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Messages
    from penstock.engine.values.messages import ToolPart
    from penstock.engine.values.ports import Clock, Ids, Model, Observer
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.results import AgentResult, StepResult

MAX_STEPS = 5
"""How many accepted steps a request may have by default (the reference's figure, runtime.md §3)."""

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


class AgentOptions(TypedDict, total=False):
    """What an agent says for all requests, and a call in its place; see `Agent`."""

    instructions: Instructions
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
    observers: Sequence[Observer]
    ids: Ids
    clock: Clock


class CallOptions(AgentOptions, total=False):
    """What a call may say: what an agent may, and what only a call can; see `Agent.generate`."""

    model: Model | str
    system: Messages
    context: Messages
    request_context: RequestContext | None
    thread_id: str | None
    resource_id: str | None
    run_id: str | None
    records: bool
    on_chunk: Callable[[Chunk], Any] | None
    on_step_finish: Callable[[StepResult], Any] | None
    on_finish: Callable[[AgentResult[Any]], Any] | None
    on_error: Callable[[Exception], Any] | None


AGENT_OPTIONS = frozenset(AgentOptions.__annotations__)
CALL_OPTIONS = AGENT_OPTIONS | frozenset(CallOptions.__annotations__)


def check_names(what: str, given: Iterable[str], known: frozenset[str]) -> None:
    """Refuse an option that there is not.

    Raises:
        UsageError: there is no such option; the error names those that there are.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"{what} has no option {name!r}; {meant}there are {', '.join(sorted(known))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What a request is made with: what the agent says, and laid over it what the call says. See `Agent`."""

    model: Value
    instructions: Instructions = ""
    system: Messages = ""
    context: Messages = ""
    tools: Value = ()
    processors: Array = ()
    input_processors: Array = ()
    output_processors: Array = ()
    error_processors: Array = ()
    max_processor_retries: int | None = None
    max_error_retries: int | None = None
    max_steps: int = MAX_STEPS
    stop_when: StopWhen | Sequence[StopWhen] = ()
    release: Release = "auto"
    settings: Values = EMPTY
    provider_options: Values = EMPTY
    tool_choice: str | Sequence[str] = "auto"
    active_tools: Sequence[str] | None = None
    output_type: Value = None
    prepare_step: PrepareStep | None = None
    approve: Approve | None = None
    allow_empty: bool = False
    request_context: RequestContext | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    run_id: str | None = None
    records: bool = False
    observers: Sequence[Observer] = ()
    on_chunk: Callable[[Chunk], Any] | None = None
    on_step_finish: Callable[[StepResult], Any] | None = None
    on_finish: Callable[[AgentResult[Any]], Any] | None = None
    on_error: Callable[[Exception], Any] | None = None
    ids: Ids = RANDOM_IDS
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        """Refuse a value that cannot be meant.

        Raises:
            OptionError: a value is not allowed.
        """
        for name in ARRAY_OPTIONS:
            check_array(name, getattr(self, name))
        for name in ("max_processor_retries", "max_error_retries"):
            check_count(name, getattr(self, name), least=0, optional=True)
        check_count("max_steps", self.max_steps, least=1)
        for name in ("prepare_step", "approve", "on_chunk", "on_step_finish", "on_finish", "on_error"):
            check_function(name, getattr(self, name))
        if not callable(self.stop_when):
            check_list("stop_when", self.stop_when, "a function of the steps so far, or a list of them", callable)
        check_list("observers", self.observers, "a list of observers", _observes)
        self._check_tools()
        for name in ("allow_empty", "records"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError("Agent", name, getattr(self, name), "True or False")
        for name in ("settings", "provider_options"):
            if not isinstance(getattr(self, name), Mapping):
                raise OptionError("Agent", name, "…", "a mapping")
        if self.request_context is not None and not isinstance(cast("object", self.request_context), dict):
            raise OptionError("Agent", "request_context", "…", "a dict: what a hook sets in it, later ones see")
        one_of("Agent", "release", self.release, get_args(Release))

    def _check_tools(self) -> None:
        """Refuse what are no names; whether tools have them is known at each step only."""
        if self.active_tools is not None:
            check_list("active_tools", self.active_tools, "a list of names of tools, or None", _is_text)
        choice = cast("object", self.tool_choice)
        if choice is not None and not isinstance(choice, str):
            check_list("tool_choice", choice, "'auto', 'none', 'required', or a list of names of tools", _is_text)

    def with_call(self, given: CallOptions) -> RequestOptions:
        """Return the options with what a call says laid over.

        Raises:
            UsageError: there is no such option.
            OptionError: a value is not allowed.
        """
        check_names("a request", given, CALL_OPTIONS)
        return replace(self, **given) if given else self

    @property
    def endings(self) -> tuple[StopWhen, ...]:
        """What may end a request after a step, as functions."""
        return (self.stop_when,) if callable(self.stop_when) else tuple(self.stop_when)

    def error_retries(self, wanted: int) -> int:
        """Return how often a failed model call may be made again; ``wanted``: what processors ask for."""
        if self.max_error_retries is not None:
            return self.max_error_retries
        return max(MAX_ERROR_RETRIES, wanted) if self.max_processor_retries is None else self.max_processor_retries


ARRAY_OPTIONS = ("processors", "input_processors", "output_processors", "error_processors")


def check_array(name: str, given: object) -> None:
    """Refuse what is no array; a single processor is a likely slip."""
    if callable(given) and not isinstance(given, (type, Processor)):
        return
    if isinstance(given, str) or not isinstance(given, Sequence):
        kind = type(cast("Value", given)).__name__
        raise OptionError("Agent", name, kind, "a list of processors and workflows, or a function that gives one")


def check_count(name: str, given: object, *, least: int, optional: bool = False) -> None:
    """Refuse what is no number of that size."""
    if given is None and optional:
        return
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise OptionError("Agent", name, given, f"an int, {least} or more" + (", or None" if optional else ""))


def check_list(name: str, given: object, allowed: str, fits: Callable[[object], bool]) -> None:
    """Refuse what is no list, or has an entry that does not fit."""
    if not _is_list(given) or not all(map(fits, cast("Iterable[object]", given))):
        raise OptionError("Agent", name, given, allowed)


def _is_list(given: object) -> bool:
    return isinstance(given, Collection) and not isinstance(given, str)


def _observes(given: object) -> bool:
    return callable(getattr(given, "on_record", None))


def _is_text(given: object) -> bool:
    return isinstance(given, str)


def check_function(name: str, given: object) -> None:
    """Refuse what cannot be called."""
    if given is not None and not callable(given):
        raise OptionError("Agent", name, given, "a function, or None")
