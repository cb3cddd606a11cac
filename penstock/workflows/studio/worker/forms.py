"""A form for the options of a step, made of the signature of its processor's constructor."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import typing_extensions

from penstock.engine.values.plain import plain
from penstock.engine.values.secret_names import HIDDEN, holds_secret, is_secret, masked_value
from penstock.workflows.hints import docs_of, hints_of, without_none
from penstock.workflows.studio.worker.constructor_arguments import arguments_of, signature_of

if TYPE_CHECKING:
    from penstock.engine.graph.nodes import Policy
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.workflows.studio.protocol import Json

_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_LISTS: tuple[object, ...] = (list, tuple, set, frozenset, Iterable, Sequence, Collection, AbstractSet)
_MAPPINGS: tuple[object, ...] = (dict, Mapping)
_PLAIN: Mapping[object, str] = {bool: "bool", int: "int", float: "float", str: "text"}
_ORDER = ("choice", "bool", "int", "float", "choices", "list", "text", "json")
_EMPTY: object = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class FormShape:
    """The values that a field may hold: its kind, its choices, and the kind of its items."""

    kind: str
    choices: Sequence[object] = ()
    items: str = ""

    def fits(self, value: object) -> bool:
        """Return whether a value can be edited in such a field."""
        if self.kind == "choice":
            return value in self.choices
        if self.kind == "json":
            return _is_json(value)
        if self.kind in ("list", "choices"):
            return isinstance(value, (list, tuple, set, frozenset)) and all(
                isinstance(each, (str, int, float)) for each in cast("Iterable[object]", value)
            )
        kinds: Mapping[str, type | tuple[type, ...]] = {"bool": bool, "int": int, "float": (int, float), "text": str}
        return isinstance(value, kinds[self.kind]) and (self.kind == "bool") == isinstance(value, bool)

    def to_json(self) -> Json:
        """Return the fields of the form that belong to it."""
        made: Json = {"kind": self.kind}
        if self.kind in ("choice", "choices"):
            made["choices"] = [plain(each) for each in self.choices]
        return {**made, "items": self.items} if self.kind == "list" else made


def form_of(processor: AnyProcessor) -> tuple[list[Json], str | None]:
    """Return the fields of a processor's options, and why there are none if there are none."""
    kind = type(processor)
    if kind.__name__ == "FunctionProcessor" and kind.__module__.startswith("penstock."):
        return [], "it is a function, which has no options"
    given = arguments_of(processor)
    if given is None:
        return [], "it was not made by its constructor in this process"
    hints, docs = hints_of(kind), docs_of(kind)
    fields = [_field(parameter, given, hints, docs) for parameter in parameters_of(kind, hints)]
    return fields, None if fields else "its constructor has no options"


def parameters_of(kind: type, hints: Mapping[str, object]) -> list[inspect.Parameter]:
    """Return the parameters of a constructor; those of an unpacked ``TypedDict`` stand at the end."""
    every = [*signature_of(kind).parameters.values()]
    named = [each for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if not any(each.kind is each.VAR_KEYWORD for each in every):
        return named
    known = {each.name for each in every}
    return [*named, *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in hints if name not in known)]


def _field(
    parameter: inspect.Parameter, given: Mapping[str, object], hints: Mapping[str, object], docs: Mapping[str, str]
) -> Json:
    name = parameter.name
    hint = hints.get(name, _EMPTY)
    default = parameter.default
    value = given.get(name, None if default is _EMPTY else default)
    return {
        "name": name,
        "doc": docs.get(name, ""),
        "type": type_text(parameter, hint),
        "required": default is _EMPTY and parameter.kind is not parameter.KEYWORD_ONLY,
        "default": None if default is _EMPTY else _shown(default, secret=is_secret(name)),
        "set": name in given,
        **_held(name, hint, value, default),
    }


def _held(name: str, hint: object, value: object, default: object) -> Json:
    """Return the kind of a field with its value."""
    shapes, nullable = shapes_of(hint if hint is not _EMPTY else type(default if default is not _EMPTY else value))
    nullable = nullable or value is None
    named = is_secret(name)
    hidden = holds_secret(value, secret=named) or (named and isinstance(value, bytes))
    secret = hidden and isinstance(value, (str, bytes))
    shape = next((each for each in shapes if value is None or each.fits(value)), None)
    if secret:
        shape = FormShape("text")
    if shape is None or (value is None and not shapes):
        why = "it takes an object of Python" if value is None else f"it is a {type(value).__name__}"
        return _fixed(_shown(value, secret=named), why, nullable=nullable)
    if hidden and not secret:
        return _fixed(_shown(value, secret=named), "it holds what may be secret", nullable=nullable)
    shown = HIDDEN if secret else plain(value)
    return {**shape.to_json(), "nullable": nullable, "value": shown, "secret": secret}


def _fixed(value: object, why: str, *, nullable: bool) -> Json:
    return {"kind": "fixed", "nullable": nullable, "value": value, "secret": False, "why_not": why}


def shapes_of(hint: object) -> tuple[list[FormShape], bool]:
    """Return what values of a type can be edited as, the plainest first, and whether it may be None."""
    alternatives, nullable = without_none(hint)
    shapes = [shape for each in alternatives if (shape := _shape(each)) is not None]
    literals = [choice for shape in shapes if shape.kind == "choice" for choice in shape.choices]
    others = [shape for shape in shapes if shape.kind != "choice"]
    if literals:
        others.append(FormShape("choice", literals))
    return sorted(others, key=lambda shape: _ORDER.index(shape.kind)), nullable


def _shape(hint: object) -> FormShape | None:
    origin = typing_extensions.get_origin(hint)
    arguments = typing_extensions.get_args(hint)
    if origin is Literal or origin is typing_extensions.Literal:
        return FormShape("choice", arguments)
    if hint in _PLAIN:
        return FormShape(_PLAIN[hint])
    if origin in _LISTS or hint in _LISTS:
        return _list_shape([each for each in arguments if each is not Ellipsis])
    if origin in _MAPPINGS or hint in _MAPPINGS:
        return FormShape("json")
    return FormShape("json") if hint is Any or hint is object else None


def _list_shape(arguments: Sequence[object]) -> FormShape:
    inner, _ = shapes_of(arguments[0]) if arguments else ([], False)
    kind = inner[0].kind if inner else "json"
    if kind == "choice":
        return FormShape("choices", inner[0].choices)
    return FormShape("list", items=kind) if kind in ("text", "int", "float") else FormShape("json")


def _is_json(value: object) -> bool:
    if value is None or isinstance(value, (str, bool, int, float)):
        return True
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return all(isinstance(key, str) and _is_json(each) for key, each in pairs)
    return isinstance(value, (list, tuple)) and all(map(_is_json, cast("Iterable[object]", value)))


def _shown(value: object, *, secret: bool = False) -> object:
    """Return a value that is not edited: as JSON without secrets if it is that, else the name of its type."""
    if _is_json(value):
        return plain(masked_value(value, secret=secret))
    return getattr(value, "name", None) if isinstance(getattr(value, "name", None), str) else type(value).__name__


def type_text(parameter: inspect.Parameter, hint: object) -> str:
    """Return the annotation of a parameter as text."""
    found = hint if parameter.annotation is _EMPTY else parameter.annotation
    if found is _EMPTY:
        return ""
    text = found if isinstance(found, str) else inspect.formatannotation(found)
    return _MODULES.sub("", text).replace("Unknown", "…")


# The policy of a step

POLICY: tuple[tuple[str, FormShape, bool, str], ...] = (
    ("timeout", FormShape("float"), True, "Seconds after which the step has failed; none: no limit."),
    (
        "on_error",
        FormShape("choice", ("block", "raise", "allow")),
        True,
        "How a failure of the step is handled; none: as it declares.",
    ),
    ("mode", FormShape("choice", ("enforce", "shadow")), False, "shadow: it runs beside, and only its record counts."),
    ("retries", FormShape("int"), False, "How often the step is tried again after a failure."),
    ("retry_delay", FormShape("float"), True, "Seconds before the first retry, doubled for each further one."),
)
"""The fields of a policy that can be edited: name, shape, whether it may be None, and description."""


def policy_form(policy: Policy) -> list[Json]:
    """Return the fields of a step's policy."""
    made: list[Json] = []
    for name, shape, nullable, doc in POLICY:
        value: object = getattr(policy, name)
        default: object = getattr(type(policy)(), name)
        field: Json = {
            "name": name,
            "doc": doc,
            "type": "",
            "nullable": nullable,
            "required": False,
            "default": default,
        }
        fixed = value is not None and not shape.fits(value)
        rest: Json = {"kind": "fixed", "why_not": "it is another processor"} if fixed else shape.to_json()
        made.append({**field, **rest, "value": _shown(value), "set": value != default, "secret": False})
    return made
