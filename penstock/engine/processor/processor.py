"""`Processor`; `@processor`, which makes one from a function; and `Claims`, the declarations of a processor.

A processor has an ``id`` and any of the stages' methods, sync or async. Its attributes (of the class, or set in the
constructor) say what it may do; they are read once, when it is added to a workflow.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, cast, get_args, overload
from weakref import WeakSet

from typing_extensions import TypeVar

from penstock.engine.processor.stages import STAGES, StageName, full_name
from penstock.engine.values.errors import OptionError, ProcessorError
from penstock.engine.values.facts import AnyKey, Key, is_key
from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from penstock.engine.values.frozen import Value

S = TypeVar("S", default=dict[str, Any])

Function: TypeAlias = Callable[..., Any]
"""A function of a user, with any parameters and result."""

EditsClaim = Literal["nothing", "spans", "anything"]
ProcessorRole = Literal["guard", "transform", "observer"]
ErrorPolicy = Literal["block", "raise", "allow"]


def kebab_case(name: str) -> str:
    """Return the name of a class in kebab-case: ``pii-detector`` for ``PIIDetector``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


CLAIMS: tuple[str, ...] = (
    "id",
    "edits",
    "role",
    "on_error",
    "provides",
    "requires",
    "stores",
    "asks",
    "stages",
    "finds",
    "reads",
)
"""The names of what a processor may declare."""


def _close(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _is_misspelt_claim(name: str, value: object, claims: Iterable[str]) -> bool:
    """Return whether a class attribute is a misspelt claim; methods and private names never are."""
    if (
        name.startswith("_")
        or name in claims
        or callable(value)
        or isinstance(value, (property, staticmethod, classmethod))
    ):
        return False
    return bool(difflib.get_close_matches(name, claims, n=1, cutoff=0.85))


class Processor(Generic[S]):
    """A unit of work on the messages of an agent. It lives as long as the workflow and serves all requests at once.

    Subclass it and write any of the stages' methods. Keep data of one request in ``ctx.state``, never on ``self``.

    Attributes:
        id: the name in the graph; by default the class name in kebab-case. Default ids are numbered if they repeat.
        edits: the changes that the processor may make. ``nothing``; ``spans``: spans of text and metadata of messages
            by key, and it may remove messages; ``anything``.
        role: ``guard`` protects, ``transform`` improves, ``observer`` watches and changes nothing.
        on_error: what happens if the processor itself fails: ``block``, ``raise``, or ``allow`` (go on without it). The
            step's policy may set something else.
        provides: the keys of the facts that it puts.
        requires: the keys of facts that an earlier step must put.
        stores: whether it writes to a store; such a step cannot run in shadow.
        asks: whether it may ask a person: by ``ctx.suspend``, or about calls of tools (`Answer` with ``asks=True``). An
            agent then takes the approvals of calls that it does not know to have been asked about, and has them judged
            again.
        suspends: whether a processor that asks may do so by ``ctx.suspend``. One that answers calls only sets False, so
            that its stages cost less.
        stages: the names of the stages to use; None for all whose methods it has.
        finds: the kinds of content that a guard looks for, such as ``secrets``; for `penstock.workflows.coverage`.
        reads: the channels that it reads whole, such as ``tool_call``, for `penstock.workflows.coverage`. None: they
            follow from its stages.
        awaits: whether its methods return awaitables although they are not coroutine functions.
        needs_loop: whether its async methods need an event loop. If not, they suspend nowhere when they run without one
            (`penstock.engine.tasks.runs_without_loop`), so that ``check_sync`` and ``start_sync`` can call them.
        timed: whether it uses ``ctx.wake_after`` to be called in a silent stream; it must then have a method ``wake``.
        ends: whether it may end a stream before its source does (``ctx.end_source``).
        offloadable: whether the engine may call its sync hooks in a worker thread, which it does where texts are long.
            True for built-in processors and for `TextGuard`; False is for hooks that only work on the event loop's
            thread.
    """

    claim_names: ClassVar[tuple[str, ...]] = CLAIMS
    id: str = ""
    edits: EditsClaim | None = None
    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "raise"
    provides: Iterable[AnyKey] = ()
    requires: Iterable[AnyKey] = ()
    stores: bool = False
    asks: bool = False
    suspends: bool = True

    stages: Iterable[str] | None = None
    finds: Iterable[str] = ()
    reads: Iterable[str] | None = None
    awaits: bool = False
    needs_loop: bool = True
    timed: bool = False
    ends: bool = False
    offloadable: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Set the id of the class; refuse unknown stage methods and misspelt attributes."""
        super().__init_subclass__(**kwargs)
        cls.id = cls.__dict__.get("id") or kebab_case(cls.__name__)
        for name in vars(cls):
            if name.startswith("process_") and name not in STAGES:
                raise ProcessorError(cls.__name__, f"unknown stage {name!r}{_close(name, STAGES)}")
            if _is_misspelt_claim(name, vars(cls)[name], cls.claim_names):
                raise ProcessorError(cls.__name__, f"unknown class attribute {name!r}{_close(name, cls.claim_names)}")

    def checked(self) -> None:
        """Check the attributes. Called when the processor is added to a workflow; a subclass may add checks of its own.

        Raises:
            ProcessorError: it is ``timed`` and has no method ``wake``.
        """
        if self.timed and not callable(getattr(self, "wake", None)):
            raise ProcessorError(self.id, "it is timed, but has no method wake; write wake(self, ctx)")

    def new_state(self) -> S:
        """Return a new state for one request; an empty dict unless a subclass overrides it."""
        return cast("S", {})

    def dump_state(self, state: S) -> Value:
        """Return the state of a request as a JSON value, which is stored with it when it is suspended.

        None: it is not stored, and the request goes on with a new state. By default, a dict of JSON values is stored. A
        subclass with a state of its own that has to outlive the process overrides this and `load_state`. It must not
        hold anything that guards have hidden.
        """
        return cast("Value", state) if type(state) is dict else None

    def load_state(self, stored: Value) -> S:
        """Return the state that `dump_state` gave as a JSON value, which is frozen."""
        return cast("S", thaw(stored))

    def option(self, name: str) -> object:
        """Return an option of the constructor as drawings and ``repr`` may show it: the attribute of its name, or None.

        Override it where the attribute does not hold the given value, or holds a secret.
        """
        return vars(self).get(name)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same class and equal options."""
        return self is other or (type(self) is type(other) and vars(self) == vars(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the class and the options (public attributes that were set on the instance)."""
        options = {name: value for name, value in vars(self).items() if not name.startswith("_") and name not in STAGES}
        shown = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{type(self).__name__}({shown})"


class FunctionProcessor(Processor):
    """A processor made from one function; see `processor`."""

    def __init__(self, hook: Function, stage: str, **claims: object) -> None:
        self._hook = hook
        self._stage = stage
        self.id = getattr(hook, "__name__", "processor").replace("_", "-").strip("-<>") or "processor"
        self._named = claims.get("id") is not None
        for name, value in claims.items():
            if name not in CLAIMS:
                raise ProcessorError(self.id, f"unknown option {name!r}{_close(name, CLAIMS)}")
            if value is not None:
                setattr(self, name, value)
        setattr(self, stage, hook)
        functools.update_wrapper(cast("Function", self), hook, updated=())

    def __call__(self, *args: Value, **kwargs: Value) -> Value:
        """Call the function itself, as if it were undecorated."""
        return self._hook(*args, **kwargs)


AnyProcessor: TypeAlias = Processor[Any]
"""A processor with any type of state."""


def given_options(processor: AnyProcessor) -> dict[str, object]:
    """Return the options of a processor's constructor that differ from their defaults, as they may be shown.

    An option counts if the processor keeps it in an attribute of its name. What ``**options`` collects counts by its
    own names, unless it is None.
    """
    given: dict[str, object] = {}
    for name, parameter in option_parameters(processor).items():
        value = processor.option(name)
        if value is None and name not in vars(processor):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            collected = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
            given.update({key: one for key, one in collected.items() if one is not None})
        elif not is_same(value, parameter.default):
            given[name] = value
    return given


def option_parameters(processor: AnyProcessor) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a processor's constructor; none where they cannot be read."""
    try:
        return inspect.signature(type(processor)).parameters
    except (TypeError, ValueError):  # a class without a signature
        return {}


def is_same(one: object, other: object) -> bool:
    """Return whether two values are equal; ones whose comparison raises are not."""
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - nothing that only shows values must break over a foreign comparison
        return False


def is_processor(item: object) -> TypeIs[AnyProcessor]:
    """Return whether an object is a processor; type checkers narrow its type."""
    return isinstance(item, Processor)


@dataclass(frozen=True, slots=True)
class Hook:
    """The method of a processor for one stage: what to call, and whether to await it."""

    call: Function
    awaits: bool


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """The declarations of a processor; read once, and checked."""

    id: str
    named: bool
    hooks: dict[str, Hook]
    edits: EditsClaim
    role: ProcessorRole
    on_error: ErrorPolicy
    provides: frozenset[AnyKey]
    requires: frozenset[AnyKey]
    stores: bool


def claims_of(processor: AnyProcessor) -> Claims:
    """Return the declarations of a processor.

    Raises:
        ProcessorError: it has no hook, or its claims contradict each other.
        OptionError: the value of a claim is not allowed.
    """
    name = type(processor).__name__
    named = vars(processor).get("_named", "id" in vars(processor))
    own_id = processor.id
    _check_id(name, own_id)
    processor.checked()
    role = one_of(name, "role", processor.role, get_args(ProcessorRole))
    edits = processor.edits or ("nothing" if role == "observer" else "anything")
    if role == "observer" and edits != "nothing":
        raise ProcessorError(own_id, f"an observer must have edits='nothing', not {edits!r}")
    hooks = _hooks_of(processor)
    if not hooks:
        raise ProcessorError(own_id, f"it has none of the stages' methods: {', '.join(STAGES)}")
    return Claims(
        own_id,
        bool(named),
        hooks,
        cast("EditsClaim", one_of(name, "edits", edits, get_args(EditsClaim))),
        cast("ProcessorRole", role),
        cast("ErrorPolicy", one_of(name, "on_error", processor.on_error, get_args(ErrorPolicy))),
        _keys(name, "provides", processor.provides),
        _keys(name, "requires", processor.requires),
        bool(processor.stores),
    )


def one_of(processor: str, option: str, given: object, allowed: Iterable[str]) -> str:
    """Return the option if it is one of the allowed words.

    Raises:
        OptionError: it is none of them; the message names the processor, the option and the allowed words.
    """
    words = tuple(allowed)
    if given not in words:
        raise OptionError(processor, option, given, f"one of {', '.join(map(repr, words))}")
    return str(given)


@overload
def processor(hook: Function, /) -> FunctionProcessor: ...
@overload
def processor(
    stage: StageName | None = None,
    /,
    *,
    id: str | None = None,
    edits: EditsClaim | None = None,
    role: ProcessorRole | None = None,
    on_error: ErrorPolicy | None = None,
    provides: Iterable[AnyKey] | None = None,
    requires: Iterable[AnyKey] | None = None,
    stores: bool | None = None,
    asks: bool | None = None,
    finds: Iterable[str] | None = None,
    reads: Iterable[str] | None = None,
) -> Callable[[Function], FunctionProcessor]: ...
def processor(
    hook_or_stage: Function | str | None = None, /, **claims: object
) -> FunctionProcessor | Callable[[Function], FunctionProcessor]:
    """Make a processor from a plain function, sync or async.

    Use it bare, ``@processor``, or with the attributes of `Processor`, ``@processor("process_input", edits="spans")``.
    The stage is the one that is named, or else the one of the context with which the function's parameter is annotated.

    Raises:
        ProcessorError: no stage is named or annotated, or the two differ.
    """
    if callable(hook_or_stage):
        return FunctionProcessor(hook_or_stage, _stage_of(hook_or_stage, None), **claims)
    stage = None if hook_or_stage is None else one_of("@processor", "stage", full_name(hook_or_stage), STAGES)

    def decorate(hook: Function) -> FunctionProcessor:
        return FunctionProcessor(hook, _stage_of(hook, stage), **claims)

    return decorate


def flag(processor: str, option: str, given: object) -> bool:
    """Return the option if it is a bool.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(given, bool):
        raise OptionError(processor, option, given, "True or False")
    return given


def _stage_of(hook: Function, named: str | None) -> str:
    """Return the stage of a function: the one that was named, or the one of its annotated context."""
    label = getattr(hook, "__name__", repr(hook))
    by_context = {stage.context.__name__: stage.name for stage in STAGES.values()}
    parameters = inspect.signature(hook).parameters.values()
    found = {by_context[name] for name in map(_class_name, parameters) if name in by_context}
    if named is not None:
        if found and found != {named}:
            raise ProcessorError(label, f"its stage is {named!r}, but its context is that of {min(found)!r}")
        return named
    if len(found) != 1:
        contexts = ", ".join(by_context)
        cure = f"annotate its parameter with one of {contexts}, or name the stage: @processor('process_input')"
        raise ProcessorError(label, f"it has no stage; {cure}")
    return found.pop()


def _class_name(parameter: inspect.Parameter) -> str:
    """Return the class name of a parameter's annotation, without module and type arguments."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return getattr(getattr(annotation, "__origin__", annotation), "__name__", "")
    match = re.search(r"(\w+)\s*(\[.*\])?$", annotation.strip("'\" "))
    return match.group(1) if match else ""


def _hooks_of(processor: AnyProcessor) -> dict[str, Hook]:
    wanted = (
        None
        if processor.stages is None
        else {one_of(processor.id, "stages", full_name(name), STAGES) for name in processor.stages}
    )
    hooks: dict[str, Hook] = {}
    for stage in STAGES:
        call = getattr(processor, stage, None)
        if call is None or (wanted is not None and stage not in wanted):
            continue
        if not callable(call):
            raise ProcessorError(processor.id, f"{stage} must be a method, not {type(call).__name__}")
        _check_signature(processor.id, stage, call)
        hooks[stage] = Hook(call, processor.awaits or is_async(call))
    return hooks


def _check_signature(processor: str, stage: str, call: Function) -> None:
    """Refuse a hook that cannot be called with a context: found now, it cannot fail open later."""
    given = ("chunk", "ctx") if STAGES[stage].streams else ("ctx",)
    accepted = _ACCEPTED[STAGES[stage].streams]
    method: object = call.__func__ if isinstance(call, MethodType) else None
    if isinstance(method, FunctionType) and method in accepted:
        return
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise ProcessorError(processor, f"{stage} must accept ({', '.join(given)}): {error}") from None
    if isinstance(method, FunctionType):
        accepted.add(method)


_ACCEPTED: Mapping[bool, WeakSet[FunctionType]] = {False: WeakSet(), True: WeakSet()}
"""The methods that accept a context, and those that accept a chunk, too: all processors of a class have the same."""


def is_async(call: object) -> bool:
    """Return whether calling it returns an awaitable."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _keys(processor: str, option: str, keys: AnyKey | Iterable[AnyKey]) -> frozenset[AnyKey]:
    given = (keys,) if isinstance(keys, Key) else tuple(keys)
    for key in given:
        if not is_key(key):
            raise OptionError(processor, option, key, "keys: Key('name')")
    return frozenset(given)


def _check_id(processor: str, given: object) -> None:
    if not isinstance(given, str) or not given.strip() or "/" in given:
        raise OptionError(processor, "id", given, "a non-empty str without '/'")
