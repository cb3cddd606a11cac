"""What a function tells of itself: its name, its text, its parameters and their types. It knows no schema."""

from __future__ import annotations

import functools
import inspect
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Union, cast, get_args, get_origin, get_type_hints

from penstock.engine.errors import OptionError
from penstock.processors.tools.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.frozen import Value

EMPTY = inspect.Parameter.empty
"""What stands for the default of a parameter that has none."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BY_PLACE = (*_BY_NAME, inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_UNBOUND = ("self", "cls")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the model fills: its name, its type (with what `Annotated` adds), its default or `EMPTY`."""

    name: str
    hint: Value
    default: Value = EMPTY


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function: those that the model fills, and the names of those that get the `ToolContext`."""

    shown: tuple[Parameter, ...]
    contexts: tuple[str, ...]


def name_of(function: Callable[..., object]) -> str:
    """Return the name that a function was defined with; of a callable object, that of its class."""
    inner = _inner(function)
    return getattr(inner, "__name__", type(inner).__name__)


def text_of(function: Callable[..., object]) -> str:
    """Return a function's docstring; of a callable object, its method's or its class's."""
    inner = _inner(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    kind = cast("Value", type(inner))
    return inspect.getdoc(kind.__call__) or inspect.getdoc(kind) or ""


def check_function(function: object) -> None:
    """Refuse what cannot be called as a tool is.

    Raises:
        OptionError: it is no function, a class, or one that yields.
    """
    if not callable(function) or inspect.isclass(function):
        raise OptionError("Tool", "function", function, "a function, a method, or an object that can be called")
    yields = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(kind(_code(function)) for kind in yields):
        told = "a function that returns its result; to tell of progress, write chunks to a ToolContext"
        raise OptionError("Tool", "function", function, told)


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Return the parameters of a function; those that a `functools.partial` fills by name are left out.

    Raises:
        OptionError: the signature cannot be read, or a parameter is of a kind that no model can fill.
    """
    name = name_of(function)
    shown: list[Parameter] = []
    contexts: list[str] = []
    for parameter, hint in _hinted(function, name):
        if is_context(hint):
            contexts.append(parameter.name)
        else:
            shown.append(Parameter(parameter.name, hint, parameter.default))
    return Parameters(tuple(shown), tuple(contexts))


def check_takes_mapping(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the parameters that get the context, of a function whose first takes all arguments.

    Raises:
        OptionError: it has further parameters that nobody fills.
    """
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return ()  # one of C's: it takes the mapping
    pairs = list(_resolved(function, name_of(function)))
    contexts = tuple(parameter.name for parameter, hint in pairs if is_context(hint))
    others = [parameter for parameter, hint in pairs if not is_context(hint) and parameter.kind in _BY_PLACE]
    needed = [parameter.name for parameter in others[1:] if parameter.default is EMPTY]
    if not others or needed:
        told = "a function of one mapping, beside which there may be parameters of the type ToolContext"
        raise OptionError("Tool", "function", function, told)
    return contexts


def is_context(hint: object) -> bool:
    """Tell whether a type is `ToolContext`, or that or None."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return {*get_args(hint)} == {ToolContext, types.NoneType}
    return hint is ToolContext


def _hinted(function: Callable[..., object], name: str) -> Iterator[tuple[inspect.Parameter, Value]]:
    for place, (parameter, hint) in enumerate(_resolved(function, name)):
        _check_kind(name, parameter, place)
        yield parameter, hint


def _resolved(function: Callable[..., object], name: str) -> Iterator[tuple[inspect.Parameter, Value]]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        told = "a function whose signature Python can tell; Tool.from_schema takes others"
        raise OptionError("Tool", "function", function, told) from error
    filled = _filled(function)
    known = {"ToolContext": ToolContext, **getattr(_code(function), "__globals__", {})}
    for parameter in signature.parameters.values():
        if parameter.name not in filled:
            yield parameter, _hint(name, parameter, known)


def _check_kind(function: str, parameter: inspect.Parameter, place: int) -> None:
    where = f"{function}({parameter.name})"
    if parameter.kind not in _BY_NAME:
        told = "a parameter that can be given by name: no '/', no '*' and no '**' parameters"
        raise OptionError("Tool", where, str(parameter), told)
    if place == 0 and parameter.name in _UNBOUND and parameter.annotation is EMPTY:
        told = "bound: make the tool of an object's method, Tool(object.name)"
        raise OptionError("Tool", where, str(parameter), told)


def _hint(function: str, parameter: inspect.Parameter, known: dict[str, Value]) -> Value:
    """Return a parameter's type; anything, where none is said.

    Raises:
        OptionError: it names what is not defined where the function is.
    """
    if parameter.annotation is EMPTY:
        return object
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return get_type_hints(holder, known, include_extras=True)[parameter.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        told = "a type, by a name that its module knows when it runs (not only under TYPE_CHECKING, or in a function)"
        raise OptionError("Tool", f"{function}({parameter.name})", parameter.annotation, told) from error


def _filled(function: object) -> frozenset[str]:
    """Return the names of the parameters that a partial fills by name: they may be keys, so no model sees them."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _inner(function: Value) -> Value:
    """Return the function, method or object inside of partials."""
    while isinstance(function, functools.partial):
        function = cast("Value", function).func
    return function


def _code(function: Value) -> Value:
    """Return the function that was written: inside of partials, methods, callable objects and decorators."""
    inner = _inner(function)
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    unwrapped = inspect.unwrap(inner)
    return getattr(unwrapped, "__func__", unwrapped)
