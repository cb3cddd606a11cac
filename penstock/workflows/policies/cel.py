"""Conditions in CEL, by ``cel-expr-python`` (extra ``policy``), which bounds how much an expression may do."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.policies.cel_errors import compile_error, run_error, wrong_value
from penstock.workflows.policies.expressions import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value
    from penstock.workflows.policies.expressions import CompiledExpression, ValueType

LONGEST = 10_000
"""How long an expression may be, in characters."""


@lru_cache(maxsize=1_000)
def compiled(source: str, names: tuple[tuple[str, ValueType], ...], /) -> CompiledExpression:
    """Compile an expression; see `ExpressionCompiler`.

    Raises:
        ExpressionError: it is malformed, reads another name, mixes types, or is no condition.
        MissingExtraError: the library is not installed.
    """
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise MissingExtraError("a condition (when:) in a policy file", "policy") from error
    if len(source) > LONGEST:
        raise ExpressionError(f"the expression is longer than {LONGEST:,} characters; split it into branches")
    env = cel.NewEnv(variables={name: _type(cel.Type, type) for name, type in names})
    try:
        expression = env.compile(source)
    except Exception as error:  # noqa: BLE001 - RuntimeError, and for some input others
        raise _explained(str(error), source, names) from None
    result = expression.return_type().name()
    if result not in ("BOOL", "DYN"):
        cure = '; whether a fact is there, say as `"language" in known`' if _HAS_FACT.search(source) else ""
        raise ExpressionError(f"its value is of the type {result.lower()}, but must be true or false{cure}")
    _check_patterns(source, env)
    return _CelExpression(source, env, expression)


def _type(types: Value, written: ValueType) -> Value:
    """Return a type of the library, by how CEL writes it."""
    if written.startswith("list("):
        return types.List(_type(types, written[5:-1]))
    if written.startswith("map(string, "):
        return types.Map(types.STRING, _type(types, written[12:-1]))
    return getattr(types, written.upper())


class _CelExpression:
    """An expression in CEL. A value that is no bool is an error, as is one that cannot be had."""

    def __init__(self, source: str, env: Value, expression: Value) -> None:
        self._source = source
        self._env = env
        self._expression = expression

    def __call__(self, values: Mapping[str, Value], /) -> bool:
        """Return whether it holds."""
        try:
            found = self._expression.eval(self._env.Activation(values))
            value = found.value()
        except Exception as error:  # noqa: BLE001 - RuntimeError; TypeError for a value that it cannot convert
            raise ExpressionError(run_error(str(error), self._source)) from None
        if isinstance(value, bool):
            return value
        kind = found.type().name()
        raise ExpressionError(run_error(str(value), self._source) if kind == "ERROR" else wrong_value(kind))


_HAS_FACT = re.compile(r"\bhas\s*\(\s*facts\b")
_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.+?)(?: \[[A-Z_]+\])?(?:\n|$)")
_PATTERN = re.compile(r"""\.matches\(\s*([rR]?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))\s*\)""")


def _explained(text: str, source: str, names: tuple[tuple[str, ValueType], ...]) -> ExpressionError:
    """Return the first error that the library found, with its place and a suggestion."""
    found = _PLACE.search(text)
    if found is None:
        return ExpressionError(_first_line(text))
    return compile_error(found[3], int(found[1]), int(found[2]), source, [name for name, _ in names])


def _check_patterns(source: str, env: Value) -> None:
    """Try each pattern that is written out: one that is malformed would fail with every request.

    Raises:
        ExpressionError: a pattern is malformed.
    """
    for found in _PATTERN.finditer(source):
        value = env.compile(f"''.matches({found[1]})").eval(env.Activation({})).value()
        if not isinstance(value, bool):
            line = source.count("\n", 0, found.start(1)) + 1
            column = found.start(1) - source.rfind("\n", 0, found.start(1))
            fault = _first_line(str(value)).removeprefix("invalid regular expression: ")
            raise ExpressionError(f"the pattern {found[1]} is malformed: {fault}", line, column)


def _first_line(text: str) -> str:
    return re.sub(r"^[A-Z_]+: (?:ERROR: )?", "", text.splitlines()[0] if text else "it has no value")
