"""A tool's arguments: the function's parameters, schemas and their strict form, and parsing by a schema of the user's.

Also here: parsing of docstrings in the styles of Google, NumPy and Sphinx, which describe the parameters.
"""

from __future__ import annotations

import functools
import inspect
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter as Given
from typing import (
    TYPE_CHECKING,
    Annotated,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from penstock.engine.values.errors import MessageError, OptionError
from penstock.engine.values.frozen import Value, is_items, is_mapping, json_value
from penstock.models.judges.schemas import is_strict, plain_schema, tightened
from penstock.tools.context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.engine.values.frozen import Value, Values


class Described(NamedTuple):
    """A parsed docstring: its text without sections, and the descriptions of parameters by name."""

    text: str
    parameters: dict[str, str]


def described(docstring: str) -> Described:
    """Return a parsed docstring of any of the styles; one that cannot be parsed is all text."""
    if not docstring:
        return Described("", {})
    from docstring_parser import ParseError, parse

    try:
        read = parse(docstring)
    except ParseError:
        return Described(docstring.strip(), {})
    gap = "\n\n" if read.blank_after_short_description else "\n"
    text = gap.join(part.strip() for part in (read.short_description, read.long_description) if part)
    said = {param.arg_name: " ".join((param.description or "").split()) for param in read.params}
    # Parameters can share a description, as in NumPy's style: ``x, y``.
    texts = {name.strip(): description for names, description in said.items() for name in names.split(",")}
    return Described(text, texts)


NO_DEFAULT = Given.empty
"""The default of a parameter that has none."""

_BY_NAME = (Given.POSITIONAL_OR_KEYWORD, Given.KEYWORD_ONLY)
_BY_PLACE = (Given.POSITIONAL_ONLY, Given.POSITIONAL_OR_KEYWORD, Given.VAR_POSITIONAL)
_ANY_NUMBER = (Given.VAR_POSITIONAL, Given.VAR_KEYWORD)
_UNBOUND = ("self", "cls")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the model fills: its name, its type (with `Annotated`), its default or `NO_DEFAULT`."""

    name: str
    hint: Value
    default: Value = NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function: those that the model fills, and the names of those that get the `ToolContext`."""

    shown: tuple[Parameter, ...]
    contexts: tuple[str, ...]


def name_of(function: Callable[..., object]) -> str:
    """Return the name of a function; of a callable object, the name of its class."""
    inner = _inner(function)
    return getattr(inner, "__name__", type(inner).__name__)


def text_of(function: Callable[..., object]) -> str:
    """Return a function's docstring; of a callable object, that of its method or its class."""
    inner = _inner(function)
    if inspect.isroutine(inner):
        return inspect.getdoc(inner) or ""
    kind = cast("Value", type(inner))
    return inspect.cleandoc(kind.__call__.__doc__ or kind.__doc__ or "")


def check_function(function: object) -> None:
    """Refuse objects that cannot be called as a tool.

    Raises:
        OptionError: it is not callable, or it is a class or a generator function.
    """
    if not callable(function) or inspect.isclass(function):
        raise OptionError("Tool", "function", function, "a function, a method, or an object that can be called")
    called = _called(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        allowed = "a function that returns its result; to report progress, write chunks to a ToolContext"
        raise OptionError("Tool", "function", function, allowed)


def parameters_of(function: Callable[..., object]) -> Parameters:
    """Return the parameters of a function, without those that a `functools.partial` fills by name.

    Raises:
        OptionError: the signature cannot be read, or no model can fill a parameter.
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
    """Return the names of the parameters that get the context, of a function whose first parameter takes all arguments.

    Raises:
        OptionError: the first parameter cannot, or another one without a default would stay empty.
    """
    parameters = _signature(function)
    first, others = parameters[:1], parameters[1:]
    contexts = tuple(given.name for given in others if is_context(_hint(function, given)))
    takes_it = any(given.kind in _BY_PLACE and not is_context(_hint(function, given)) for given in first)
    needed = [given.name for given in others if given.kind not in _ANY_NUMBER and given.default is NO_DEFAULT]
    if not takes_it or not {*needed} <= {*contexts}:
        allowed = (
            "a function whose first parameter takes a mapping; others are of the type ToolContext, or have defaults"
        )
        raise OptionError("Tool", "function", function, allowed)
    return contexts


def is_context(hint: object) -> bool:
    """Tell whether a type is `ToolContext`, or `ToolContext | None`."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return {*get_args(hint)} == {ToolContext, types.NoneType}
    return hint is ToolContext


def _signature(function: Callable[..., object]) -> tuple[Given, ...]:
    """Return the parameters, except those that a partial fills by name: they may be secret."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        allowed = "a function with a signature that Python can read: write one that calls it"
        raise OptionError("Tool", "function", function, allowed) from error
    filled = function.keywords if isinstance(function, functools.partial) else ()
    return tuple(given for given in signature.parameters.values() if given.name not in filled)


def _check_kind(function: str, given: Given, place: int) -> None:
    allowed = ""
    if given.kind not in _BY_NAME:
        allowed = "a parameter that can be given by name: no '/', no '*' and no '**' parameters"
    elif place == 0 and given.name in _UNBOUND and given.annotation is NO_DEFAULT:
        allowed = "bound: make the tool from an object's method, Tool(object.name)"
    if allowed:
        raise OptionError("Tool", f"{function}({given.name})", str(given), allowed)


def _hint(function: Callable[..., object], given: Given) -> Value:
    """Return a parameter's type; `object` if it has none.

    Raises:
        OptionError: the type names something that the function's module does not define.
    """
    if given.annotation is NO_DEFAULT:
        return object
    # `ToolContext` is known even in modules that import it only for type checkers
    known = {"ToolContext": ToolContext, **getattr(_written(function), "__globals__", {})}
    holder = types.SimpleNamespace(__annotations__={given.name: given.annotation})
    try:
        return get_type_hints(holder, known, include_extras=True)[given.name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        allowed = "a type that its module defines at run time (not only under TYPE_CHECKING, or in a function)"
        raise OptionError("Tool", f"{name_of(function)}({given.name})", given.annotation, allowed) from error


def _inner(function: Value) -> Value:
    """Return the function, method or object inside partials."""
    while isinstance(function, functools.partial):
        function = cast("Value", function).func
    return function


def _called(function: Value) -> Value:
    """Return the function or method that is finally called."""
    inner = _inner(function)
    return inner if inspect.isroutine(inner) else type(inner).__call__


def _written(function: Value) -> Value:
    """Return the function inside decorators: its module knows the names of its types."""
    unwrapped = inspect.unwrap(_called(function))
    return getattr(unwrapped, "__func__", unwrapped)


_NULL = {"type": "null"}
_RULE = "a type whose schema is strict: no open mapping, no tuple, nothing without a type"


def strict_form(schema: Values, function: str) -> dict[str, Value]:
    """Return a schema with every field required and nothing else allowed. Fields with a default may be null instead.

    Raises:
        OptionError: a parameter of the function has no strict form.
    """
    required = schema.get("required", ())
    fields: dict[str, Value] = dict(schema.get("properties", {}))
    for name, item in fields.items():
        if name not in required and not _takes_null(item):
            rest = {key: given for key, given in item.items() if key not in ("description", "default")}
            description = {"description": item["description"]} if "description" in item else {}
            fields[name] = {"anyOf": [rest, _NULL], **description}
    made: dict[str, Value] = tightened({**schema, "properties": fields})
    made = _unreferenced(made, made.get("$defs", {}))
    for name, item in made["properties"].items():
        if not is_strict(item) or not is_strict(_reached(item, made)):
            raise OptionError("Tool", f"{function}({name})", item, f"of {_RULE}, where strict=True")
    return made


def check_strict(schema: Values, *, strict: bool | None) -> Values:
    """Return a schema that a user gave, unchanged.

    Raises:
        OptionError: ``strict=True``, but the schema is not strict.
    """
    if strict and not (is_strict(schema) and {*schema.get("required", ())} == {*schema.get("properties", {})}):
        allowed = "in the strict form where strict=True: every field required, no others, each of a type"
        raise OptionError("Tool", "parameters", schema, allowed)
    return schema


def _takes_null(schema: Value) -> bool:
    """Tell whether a schema itself allows null."""
    kinds = schema.get("type")
    listed = (kinds,) if isinstance(kinds, str) else tuple(kinds or ())
    either = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "null" in listed or None in schema.get("enum", ()) or any(_takes_null(item) for item in either)


def _unreferenced(schema: Value, definitions: Values, inside: tuple[str, ...] = ()) -> Value:
    """Return a schema in which nothing stands beside a ``$ref``, which OpenAI refuses: definitions are put in instead.

    In a definition that contains itself, the reference stays, and what stood beside it is removed.
    """
    if is_items(schema):
        return [_unreferenced(item, definitions, inside) for item in schema]
    if not is_mapping(schema):
        return schema
    parts = schema.get("allOf")
    if is_items(parts) and len(parts) == 1:  # how older versions of pydantic add something to a reference
        schema = {**parts[0], **_without(schema, "allOf")}
    target = schema.get("$ref")
    if isinstance(target, str) and len(schema) > 1:
        name = target.rpartition("/")[2]
        schema = {"$ref": target} if name in inside else {**definitions[name], **_without(schema, "$ref")}
        inside = (*inside, name)
    return {name: _unreferenced(item, definitions, inside) for name, item in schema.items()}


def _without(schema: Values, key: str) -> Values:
    return {name: item for name, item in schema.items() if name != key}


def _reached(schema: Value, whole: Values) -> list[Value]:
    """Return the definitions that a schema refers to, directly or indirectly."""
    definitions: Values = whole.get("$defs", {})
    found: dict[str, Value] = {}
    waiting = [*_references(schema)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions[name]
            waiting += _references(found[name])
    return list(found.values())


def _references(schema: Value) -> Iterator[str]:
    if is_items(schema):
        for item in schema:
            yield from _references(item)
    elif is_mapping(schema):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for item in schema.values():
            yield from _references(item)


MOST_TOLD = 8
"""How many errors a model is told at a time."""


class ArgumentsError(Exception):
    """Arguments that do not fit. The text tells the model the fault, and may quote the arguments."""


class RawArguments:
    """Arguments by a JSON Schema of the user. Only missing and unknown fields are checked."""

    def __init__(self, schema: Values) -> None:
        self.schema = schema

    def read(self, given: Value) -> dict[str, Value]:
        """Return the arguments as plain dicts and lists.

        Raises:
            ArgumentsError: one is missing, or unknown if the schema allows no further ones.
        """
        plain = plain_arguments(given)
        known: Mapping[str, Value] = self.schema.get("properties", {})
        wrong = [f"{name}: it is required" for name in self.schema.get("required", ()) if name not in plain]
        if self.schema.get("additionalProperties") is False:
            wrong += [f"{name}: {unknown_name(known)}" for name in plain if name not in known]
        if wrong:
            raise ArgumentsError("; ".join(wrong[:MOST_TOLD]))
        return plain


def check_schema(schema: object) -> Values:
    """Return a JSON Schema of an object.

    Raises:
        OptionError: it is not one.
    """
    given: Value = schema
    allowed = "the JSON Schema of an object: {'type': 'object', 'properties': …}"
    if not isinstance(given, Mapping):
        raise OptionError("Tool", "parameters", schema, allowed)
    fields = cast("Values", given)
    if fields.get("type") != "object" or not isinstance(fields.get("properties", {}), Mapping):
        raise OptionError("Tool", "parameters", schema, allowed)
    return plain_schema("Tool", "parameters", fields)


def check_fits(schema: Values, own: Values) -> Values:
    """Return a schema that is shown in place of the function's own.

    Raises:
        OptionError: it has fields that the function does not take, or lacks fields that it needs.
    """
    fields: Values = schema.get("properties", {})
    missing = [name for name in own.get("required", ()) if name not in fields]
    if missing or not {*fields} <= {*own["properties"]}:
        allowed = f"a schema with the function's parameters ({', '.join(own['properties']) or 'none'})"
        raise OptionError("Tool", "parameters", schema, allowed)
    return schema


def plain_arguments(given: Value) -> dict[str, Value]:
    """Return arguments as plain dicts and lists; None and an empty text are an empty mapping.

    A text is refused even if it is JSON: guards have not read its decoded content.
    """
    if given is None or given == "":
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentsError("the arguments must be a JSON object")
    try:
        text = json.dumps(json_value(cast("Value", given), "arguments"), allow_nan=False)
    except MessageError as error:
        raise ArgumentsError(str(error)) from error
    except ValueError:
        raise ArgumentsError("a number in the arguments is not a JSON number") from None
    plain: dict[str, Value] = json.loads(text)
    return plain


def unknown_name(known: Iterable[str]) -> str:
    """Return the message to a model about an argument that the tool does not have."""
    names = ", ".join(known)
    return f"there is no such argument; there are {names}" if names else "there is no such argument; there are none"
