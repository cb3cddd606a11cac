"""What a function tells of itself: its name, its text, its parameters and their types. It knows no schema."""

from __future__ import annotations

import functools
import inspect
import types
from dataclasses import dataclass
from inspect import Parameter as Given
from typing import TYPE_CHECKING, Annotated, Union, cast, get_args, get_origin, get_type_hints

from penstock.engine.values.errors import OptionError
from penstock.tools.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.values.frozen import Value

EMPTY = Given.empty
"""What stands for the default of a parameter that has none."""

_BY_NAME = (Given.POSITIONAL_OR_KEYWORD, Given.KEYWORD_ONLY)
_BY_PLACE = (Given.POSITIONAL_ONLY, Given.POSITIONAL_OR_KEYWORD, Given.VAR_POSITIONAL)
_ANY_NUMBER = (Given.VAR_POSITIONAL, Given.VAR_KEYWORD)
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
    return inspect.cleandoc(kind.__call__.__doc__ or kind.__doc__ or "")


def check_function(function: object) -> None:
    """Refuse what cannot be called as a tool is.

    Raises:
        OptionError: it is no function, a class, or one that yields.
    """
    if not callable(function) or inspect.isclass(function):
        raise OptionError("Tool", "function", function, "a function, a method, or an object that can be called")
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
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
    for place, given in enumerate(_signature(function)):
        _check_kind(name, given, place)
        hint = _hint(function, given)
        if is_context(hint):
            contexts.append(given.name)
        else:
            shown.append(Parameter(given.name, hint, given.default))
    return Parameters(tuple(shown), tuple(contexts))


def contexts_beside_mapping(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the parameters that get the context, of a function whose first takes all arguments.

    Raises:
        OptionError: its first does not, or it has further ones that nobody fills.
    """
    parameters = _signature(function)
    first, others = parameters[:1], parameters[1:]
    contexts = tuple(given.name for given in others if is_context(_hint(function, given)))
    takes_it = any(given.kind in _BY_PLACE and not is_context(_hint(function, given)) for given in first)
    needed = [given.name for given in others if given.kind not in _ANY_NUMBER and given.default is EMPTY]
    if not takes_it or not {*needed} <= {*contexts}:
        told = "a function whose first parameter takes a mapping; others are of the type ToolContext, or have defaults"
        raise OptionError("Tool", "function", function, told)
    return contexts


def is_context(hint: object) -> bool:
    """Tell whether a type is `ToolContext`, or that or None."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return {*get_args(hint)} == {ToolContext, types.NoneType}
    return hint is ToolContext


def _signature(function: Callable[..., object]) -> tuple[Given, ...]:
    """Return the parameters, without those that a partial fills by name: they may be keys, so no model sees them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        told = "a function whose signature Python can tell: write one that calls it"
        raise OptionError("Tool", "function", function, told) from error
    filled = function.keywords if isinstance(function, functools.partial) else ()
    return tuple(given for given in signature.parameters.values() if given.name not in filled)


def _check_kind(function: str, given: Given, place: int) -> None:
    told = ""
    if given.kind not in _BY_NAME:
        told = "a parameter that can be given by name: no '/', no '*' and no '**' parameters"
    elif place == 0 and given.name in _UNBOUND and given.annotation is EMPTY:
        told = "bound: make the tool of an object's method, Tool(object.name)"
    if told:
        raise OptionError("Tool", f"{function}({given.name})", str(given), told)


def _hint(function: Callable[..., object], given: Given) -> Value:
    """Return a parameter's type; anything, where none is said.

    Raises:
        OptionError: it names what is not defined where the function is.
    """
    if given.annotation is EMPTY:
        return object
    # `ToolContext` is known even to a module that imports it for type checkers only
    known = {"ToolContext": ToolContext, **getattr(_written(function), "__globals__", {})}
    holder = types.SimpleNamespace(__annotations__={given.name: given.annotation})
    try:
        return get_type_hints(holder, known, include_extras=True)[given.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        told = "a type, by a name that its module knows when it runs (not only under TYPE_CHECKING, or in a function)"
        raise OptionError("Tool", f"{name_of(function)}({given.name})", given.annotation, told) from error


def _inner(function: Value) -> Value:
    """Return the function, method or object inside of partials."""
    while isinstance(function, functools.partial):
        function = cast("Value", function).func
    return function


def _called(function: Value) -> Value:
    """Return the function or method that is called in the end."""
    inner = _inner(function)
    return inner if inspect.isroutine(inner) else type(inner).__call__


def _written(function: Value) -> Value:
    """Return the function that was written, inside of decorators too: the one whose module knows its types."""
    unwrapped = inspect.unwrap(_called(function))
    return getattr(unwrapped, "__func__", unwrapped)
