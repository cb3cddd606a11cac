"""Type hints of constructors as values, although most names in them are imported for type checkers only."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import sys
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import typing_extensions

from penstock.tools.arguments import described

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unknown:
    """Stands in for a type that cannot be found."""

    def __class_getitem__(cls, _item: object) -> type[Unknown]:
        """Return the class itself."""
        return cls


def hints_of(kind: type) -> dict[str, object]:
    """Return the type of each parameter of a class's constructor, as far as it can be found.

    The fields of a ``TypedDict`` that is unpacked into keywords stand beside the others.
    """
    owner = next((each for each in kind.__mro__ if "__init__" in vars(each)), object)
    made: dict[str, object] = {}
    for name, hint in inspect.get_annotations(vars(owner).get("__init__", object.__init__)).items():
        value = evaluated(hint, owner.__module__)
        unpacked = unpacked_type(value)
        if unpacked is not None:
            made.update(fields_of(unpacked))
        elif name != "return":
            made[name] = value
    return made


def docs_of(kind: type) -> dict[str, str]:
    """Return the descriptions of options, of the constructor and its class, and of the options they unpack."""
    made: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base is not object:
            made.update(described(inspect.cleandoc(base.__doc__ or "")).parameters)
            made.update(described(inspect.cleandoc(vars(base).get("__init__", base).__doc__ or "")).parameters)
    owner = next((each for each in kind.__mro__ if "__init__" in vars(each)), object)
    hints = inspect.get_annotations(vars(owner).get("__init__", object.__init__)).values()
    for unpacked in filter(None, (unpacked_type(evaluated(hint, owner.__module__)) for hint in hints)):
        for base in reversed(typing_extensions.get_original_bases(unpacked)):
            made.update(described(inspect.cleandoc(base.__doc__ or "")).parameters)
        made.update(described(inspect.cleandoc(unpacked.__doc__ or "")).parameters)
    return made


def unpacked_type(hint: object) -> type | None:
    """Return the ``TypedDict`` that is unpacked into keywords; None if the hint is no such."""
    unpacking = typing_extensions.get_origin(hint) in (typing.Unpack, typing_extensions.Unpack)
    return cast("type", typing_extensions.get_args(hint)[0]) if unpacking else None


def fields_of(kind: object) -> dict[str, object]:
    """Return the types of the fields of a ``TypedDict``, those of its bases first."""
    made: dict[str, object] = {}
    bases = getattr(kind, "__orig_bases__", ())
    for base in bases:
        if isinstance(base, type) and hasattr(base, "__required_keys__"):
            made.update(fields_of(base))
    for name, hint in getattr(kind, "__annotations__", {}).items():
        made.setdefault(name, evaluated(hint, kind.__module__))
    return made


def evaluated(hint: object, module: str) -> object:
    """Return the value of a hint; `Unknown` if it has none."""
    text = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
    if not isinstance(text, str):
        return text
    try:
        return eval(text, {"__builtins__": {}}, _names(module))  # noqa: S307 - the user's own module, already imported
    except Exception:  # noqa: BLE001 - a hint that cannot be read is no reason to show nothing
        return Unknown


class _HintNames(Mapping[str, object]):
    """The names of a module as a type checker sees them."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._found = vars(sys.modules.get(module, builtins))
        self._imports = _checker_imports(module)

    def __getitem__(self, name: str) -> object:
        if name in self._found:
            return self._found[name]
        if name in self._imports:
            source, attribute = self._imports[name]
            try:
                module = importlib.import_module(source)
                return getattr(module, attribute) if attribute else module
            except Exception:  # noqa: BLE001 - it is imported for a hint only
                return Unknown
        found = getattr(builtins, name, None) or getattr(typing, name, None)
        return Unknown if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter((*self._found, *self._imports))

    def __len__(self) -> int:
        return len({*self._found, *self._imports})


_names = lru_cache(maxsize=256)(_HintNames)


def _checker_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return the imports of a module under ``if TYPE_CHECKING``: by name, the module and the name there."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, SyntaxError, TypeError):
        return {}
    made: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and inner.module and not inner.level:
                    made.update({each.asname or each.name: (inner.module, each.name) for each in inner.names})
                elif isinstance(inner, ast.Import):
                    made.update({each.asname or each.name: (each.name, "") for each in inner.names})
    return made


def without_none(hint: object) -> tuple[list[object], bool]:
    """Return the alternatives of a union, without None, and whether None is one of them."""
    origin = typing_extensions.get_origin(hint)
    if origin is typing_extensions.Annotated:
        return without_none(typing_extensions.get_args(hint)[0])
    if isinstance(hint, typing_extensions.TypeAliasType):
        return without_none(hint.__value__)
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        made: list[object] = []
        nullable = False
        for each in typing_extensions.get_args(hint):
            inner, has_none = without_none(each)
            made.extend(inner)
            nullable = nullable or has_none
        return made, nullable
    return ([], True) if hint is None or hint is type(None) else ([hint], False)
