"""Conditions in words, for pictures, texts, differences and traces."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import linecache
from typing import TYPE_CHECKING

from penstock.engine.graph.conditions import Either, Every
from penstock.engine.tracing.display import short, whole
from penstock.engine.values.secret_names import HIDDEN, is_secret, masked_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType


def condition_words(condition: object) -> str:
    """Return a condition in words: the name of a function, the expression of a lambda, or the repr of an object.

    Strings are shown as ``***`` where their names are those of secrets.
    """
    return whole(masked_code(_in_words(condition)))


def condition_label(condition: object) -> str:
    """Return a condition in words, cut to the length of a label."""
    return short(masked_code(_in_words(condition)))


def _in_words(condition: object) -> str:
    if isinstance(condition, Every):
        return " and ".join(_inside(one) if wanted else f"not {_inside(one)}" for one, wanted in condition.terms)
    if isinstance(condition, Either):
        return " or ".join(_inside(one) for one in condition.alternatives)
    if isinstance(condition, functools.partial):
        named = [f"{name}={_argument(name, value)}" for name, value in condition.keywords.items()]
        given = [*map(_argument, _parameters(condition.func), condition.args), *named]
        return f"{_in_words(condition.func)}({', '.join(['…', *given])})"
    code = getattr(condition, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        return _expression(code) or "lambda"
    name = getattr(condition, "__name__", None)
    if not isinstance(name, str) or isinstance(condition, type):
        return _repr(condition)
    if not inspect.ismethod(condition):
        return name
    owner = condition.__self__
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"


def _inside(condition: object) -> str:
    words = _in_words(condition)
    return f"({words})" if " " in words else words


def _parameters(function: Callable[..., object]) -> Iterator[str]:
    """Yield the names of a function's parameters, the last one again and again; empty names if they are unknown."""
    name = ""
    with contextlib.suppress(TypeError, ValueError):
        for name in inspect.signature(function).parameters:
            yield name
    yield from itertools.repeat(name)


def _argument(name: str, value: object) -> str:
    """Return an argument in words; if its name is that of a secret, only what cannot be one."""
    harmless = value is None or isinstance(value, (bool, int, float, type)) or inspect.isroutine(value)
    return HIDDEN if is_secret(name) and not harmless else _repr(value)


def _repr(value: object) -> str:
    """Return the repr of an object; the name of its class where the repr is an address, or raises."""
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__name__
    if type(value).__repr__ is object.__repr__:
        return type(value).__name__
    try:
        said = repr(value)
    except Exception:  # noqa: BLE001 - a diagram must not break over a foreign repr
        return type(value).__name__
    return type(value).__name__ if " at 0x" in said else said


def _expression(code: CodeType) -> str | None:
    """Return the source of a lambda's expression; None where the source is missing or ambiguous."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    places = [
        (line, column)
        for line, _, column, end in code.co_positions()
        if line is not None and column is not None and end
    ]
    bodies = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _is_of(node.body, code, places)
    ]
    return ast.unparse(bodies[0]) if len(bodies) == 1 else None


def _is_of(body: ast.expr, code: CodeType, places: list[tuple[int, int]]) -> bool:
    """Return whether an expression has the names and the position of a lambda's code."""
    names = {one.id for one in ast.walk(body) if isinstance(one, ast.Name)}
    names |= {one.attr for one in ast.walk(body) if isinstance(one, ast.Attribute)}
    end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
    return names.issuperset(code.co_names) and all((body.lineno, body.col_offset) <= one < end for one in places)
