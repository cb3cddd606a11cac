"""`Tool`: a function that a model may call; `tool`: a decorator that makes one; `as_tools`: tools by name."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast, overload

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.model import ToolSpec
from penstock.tools.arguments import (
    ArgumentsError,
    RawArguments,
    check_fits,
    check_function,
    check_schema,
    check_strict,
    contexts_beside_mapping,
    described,
    name_of,
    parameters_of,
    strict_form,
    text_of,
)
from penstock.tools.calling import BoundCall, ToolCallKeywords, ToolCallOptions, run
from penstock.tools.context import ToolContext, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value, Values
    from penstock.tools.calling import Approval, ErrorDetail, Timeout
    from penstock.tools.hinted import HintedArguments

    AnyTool: TypeAlias = "Tool | ToolSpec | Callable[..., object]"
    Tools: TypeAlias = "Mapping[str, AnyTool] | Iterable[AnyTool]"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_ARGUMENTS: Values = {"type": "object", "properties": {}, "additionalProperties": False}


class ToolOptions(ToolCallKeywords, total=False):
    """The options of a `Tool`, as keywords."""

    name: str | None
    description: str | None
    parameters: Values | None
    strict: bool | None


class Tool:
    """A function that a model may call. Make it once, and share it between agents and requests: it never changes.

    The model gets the parameters with their types, as pydantic writes them, and their descriptions in the docstring.
    A parameter of the type `ToolContext` is filled when the tool is called, and not shown.

    Args:
        function: the function: sync or async, a method, a partial, or a callable object.
        name: the name for the model, 1 to 64 of ``A-Za-z0-9_-``; None: the function's own.
        description: its purpose, for the model; None: the docstring without its sections.
        parameters: the JSON Schema for the model; None: the one made of the types. Arguments are validated by the types
            in both cases.
        strict: whether the provider enforces the schema. It is then in the form that OpenAI requires, in which fields
            with a default may be null. None: the provider's default.
        approval: whether a call needs approval before it runs: a bool, or a sync function of the arguments.
        concurrent: whether it may run beside other calls of the same answer.
        timeout: the seconds that a call may take, above 0. ``default``: 300, which start anew with each chunk that the
            tool sends. None: without a limit.
        offload: whether the function runs in a worker thread; None: if it is sync.
        errors: the form of the result when the function raises: ``message`` (the exception's type and message) or
            ``type`` (its type alone).
        max_result_characters: the longest result, in characters of its JSON text, 1 or more; a longer one is an error.
            None: any.
        repeatable: whether a call may run again if its process ended while it ran, so that its effect is unknown. It
            gets the same ``call_id`` again. If not, the model is told that the effect is unknown. See `Reviews`.

    Raises:
        OptionError: an option has a value that is not allowed; or the function cannot be a tool, or has a parameter
            that no model can fill (the error names it).
    """

    __slots__ = ("_arguments", "_contexts", "_options", "function", "spec")

    spec: ToolSpec
    """The specification for the model: name, parameters, description."""
    function: Callable[..., object] | None
    """The function; None if the caller runs the tool."""
    _arguments: HintedArguments | RawArguments
    _contexts: tuple[str, ...]
    _options: ToolCallOptions

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Values | None = None,
        strict: bool | None = None,
        approval: Approval = False,
        concurrent: bool = True,
        timeout: Timeout = "default",
        offload: bool | None = None,
        errors: ErrorDetail = "message",
        max_result_characters: int | None = None,
        repeatable: bool = False,
    ) -> None:
        from penstock.tools.hinted import HintedArguments

        check_function(function)
        own = name_of(function)
        docs = described(text_of(function))
        taken = parameters_of(function)
        arguments = HintedArguments(own, taken.shown, docs.parameters)
        if parameters is not None:
            shown = check_strict(check_fits(check_schema(parameters), arguments.schema), strict=strict)
        else:
            shown = strict_form(arguments.schema, own) if strict else arguments.schema
        text = docs.text if description is None else description
        spec = _spec(own if name is None else name, shown, text, strict)
        options = ToolCallOptions(approval, concurrent, timeout, offload, errors, max_result_characters, repeatable)
        self._fill(spec, function, arguments, taken.contexts, options)

    @classmethod
    def from_schema(
        cls,
        function: Callable[..., object],
        *,
        name: str,
        parameters: Values,
        description: str | None = None,
        strict: bool | None = None,
        **options: Unpack[ToolCallKeywords],
    ) -> Tool:
        """Return a tool whose function takes all arguments as one mapping, its first parameter.

        Only missing and unknown fields are checked against the schema: the function must check the rest.

        Args:
            function: takes a dict of JSON values, and optionally parameters of the type `ToolContext`.
            name: see `Tool`.
            parameters: the JSON Schema of an object.
            description: see `Tool`.
            strict: see `Tool`; the schema must be in the strict form already.
            options: ``approval``, ``concurrent``, ``timeout``, ``offload``, ``errors``, ``max_result_characters``,
                ``repeatable``; see `Tool`.

        Raises:
            OptionError: an option has a value that is not allowed.
        """
        check_function(function)
        schema = check_strict(check_schema(parameters), strict=strict)
        text = described(text_of(function)).text if description is None else description
        spec = _spec(name, schema, text, strict)
        made = cls.__new__(cls)
        made._fill(spec, function, RawArguments(schema), contexts_beside_mapping(function), ToolCallOptions(**options))
        return made

    @classmethod
    def external(
        cls,
        name: str,
        parameters: Values | None = None,
        description: str = "",
        *,
        strict: bool | None = None,
        approval: Approval = False,
    ) -> Tool:
        """Return a tool without a function: the model may call it, and the caller of the agent runs it.

        Args:
            name: see `Tool`.
            parameters: the JSON Schema of an object; None: no arguments.
            description: see `Tool`.
            strict: see `Tool`; the schema must be in the strict form already.
            approval: see `Tool`.

        Raises:
            OptionError: an option has a value that is not allowed.
        """
        schema = check_strict(check_schema(_NO_ARGUMENTS if parameters is None else parameters), strict=strict)
        made = cls.__new__(cls)
        spec = _spec(name, schema, description, strict)
        made._fill(spec, None, RawArguments(schema), (), ToolCallOptions(approval))
        return made

    def _fill(
        self,
        spec: ToolSpec,
        function: Callable[..., object] | None,
        arguments: HintedArguments | RawArguments,
        contexts: tuple[str, ...],
        options: ToolCallOptions,
    ) -> None:
        _check_loop(function, options)
        self.spec = spec
        self.function = function
        self._arguments = arguments
        self._contexts = contexts
        self._options = options

    @property
    def name(self) -> str:
        """The name for the model."""
        return self.spec.name

    @property
    def description(self) -> str:
        """The purpose of the tool, for the model."""
        return self.spec.description

    @property
    def approval(self) -> Approval:
        """Whether a call needs approval, or a function that decides it; see `wants_approval`."""
        return self._options.approval

    @property
    def concurrent(self) -> bool:
        """Whether it may run beside other calls of the same answer."""
        return self._options.concurrent

    @property
    def repeatable(self) -> bool:
        """Whether a call may run again if its process ended while it ran."""
        return self._options.repeatable

    @property
    def is_external(self) -> bool:
        """Whether the caller of the agent runs it."""
        return self.function is None

    def named(self, name: str) -> Tool:
        """Return the tool with another name.

        Raises:
            OptionError: the name is not allowed.
        """
        made = copy.copy(self)
        made.spec = _spec(name, self.spec.parameters, self.spec.description, self.spec.strict)
        return made

    def wants_approval(self, arguments: Values) -> bool:
        """Tell whether a call needs approval. If ``approval`` is a function, it does unless the function returns False.

        An exception of that function is not caught: without a decision, the tool must not run.
        """
        asked = self._options.approval
        return asked if isinstance(asked, bool) else asked(arguments) is not False

    def read(self, arguments: Value) -> dict[str, Value]:
        """Return a call's arguments in the types that the function takes; `call` does so itself.

        Args:
            arguments: the model's arguments, a mapping of JSON values; None and an empty str count as an empty mapping.
                Values are converted if nothing is lost: ``"3"`` becomes the int 3, a text in ISO 8601 a date.

        Raises:
            ToolError: they do not fit (``invalid-arguments``).
        """
        try:
            return self._arguments.read(arguments)
        except ArgumentsError as error:
            problem = f"the arguments do not fit: {error}"
            raise ToolError(self.name, "invalid-arguments", "the arguments do not fit", for_model=problem) from None

    async def call(self, arguments: Value, ctx: ToolContext | None = None) -> Value:
        """Return the result of a call, as a frozen JSON value.

        Args:
            arguments: see `read`.
            ctx: the context of the call; None: a `ToolContext` with the tool's name alone.

        Raises:
            ToolError: the arguments do not fit, or the function failed, took too long, or returned no JSON value.
            UsageError: the tool has no function: the caller of the agent runs it.
        """
        if self.function is None:
            raise UsageError(f"tool {self.name!r} has no function: the caller of the agent must run it")
        read = self.read(arguments)
        given, named = ((read,), {}) if isinstance(self._arguments, RawArguments) else ((), read)
        function, contexts = self.function, self._contexts

        def work(ctx: ToolContext) -> object:
            return function(*given, **named, **dict.fromkeys(contexts, ctx))

        in_thread = not is_async(self.function) if self._options.offload is None else self._options.offload
        return await run(BoundCall(self.name, work, in_thread, self._options), ctx or ToolContext(tool_name=self.name))

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}>"


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of the function below: ``@tool``, or with options ``@tool(timeout=5)``. See `Tool`."""
    if function is not None:
        return Tool(function, **options)
    return functools.partial(Tool, **options)


def _spec(name: object, schema: Values, description: object, strict: object) -> ToolSpec:
    if not isinstance(name, str) or not _NAME.fullmatch(name):  # OpenAI's rule; no other provider's is stricter
        raise OptionError("Tool", "name", name, "1 to 64 letters, digits, '_' and '-'; choose another with name=")
    if not isinstance(description, str):
        raise OptionError("Tool", "description", description, "a str")
    if strict is not None and not isinstance(strict, bool):
        raise OptionError("Tool", "strict", strict, "True, False or None")
    return ToolSpec(name, schema, description, strict)


def _check_loop(function: object, options: ToolCallOptions) -> None:
    """Refuse a thread for an async function, and a time limit for a function that cannot be stopped."""
    if options.offload and is_async(function):
        raise OptionError(
            "Tool", "offload", options.offload, "False or None for an async function, which runs on the event loop"
        )
    if options.offload is False and options.timeout not in (None, "default") and not is_async(function):
        allowed = "None if offload=False: nothing can stop a sync function on the event loop"
        raise OptionError("Tool", "timeout", options.timeout, allowed)


_ALLOWED = "a list of functions, Tools and ToolSpecs, or a mapping from names to them"


def as_tools(given: Tools | None, owner: str = "Agent") -> FrozenDict[str, Tool]:
    """Return tools by name, in the given order.

    Args:
        given: functions, Tools, and ToolSpecs (which the caller runs), in a list, or in a mapping whose keys are the
            names. None: no tools.
        owner: the class whose option ``tools`` it is, for errors.

    Raises:
        OptionError: something in it cannot be a tool, a name is not allowed, or two tools have the same name.
    """
    if given is None:
        return FrozenDict()
    if isinstance(given, Mapping):
        by_name = cast("Mapping[str, AnyTool]", given)
        return FrozenDict({name: _under_name(name, item, owner) for name, item in by_name.items()})
    if isinstance(given, (str, Tool, ToolSpec)) or not isinstance(cast("object", given), Iterable):
        raise OptionError(owner, "tools", given, _ALLOWED)
    made: dict[str, Tool] = {}
    for item in given:
        one = _as_tool(item, owner)
        if one.name in made:
            raise OptionError(owner, "tools", one.name, "a list of tools with different names")
        made[one.name] = one
    return FrozenDict(made)


def _under_name(name: str, item: AnyTool, owner: str) -> Tool:
    if callable(item) and not isinstance(item, Tool):
        return Tool(item, name=name)
    one = _as_tool(item, owner)
    return one if one.name == name else one.named(name)


def _as_tool(item: AnyTool, owner: str) -> Tool:
    if isinstance(item, Tool):
        return item
    if isinstance(item, ToolSpec):
        return Tool.external(item.name, item.parameters, item.description, strict=item.strict)
    if callable(item):
        return Tool(item)
    raise OptionError(owner, "tools", item, _ALLOWED)
