"""The port to the language of conditions, and the names that a condition of a policy file may read.

A condition is an expression of CEL, the Common Expression Language. It is compiled when the file is read, against the
names and types that exist at its place, so that a misspelt fact is an error before anything runs.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union, get_args, get_origin

from penstock.engine.values.errors import ConditionError
from penstock.workflows.policies.problems import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value

ValueType: TypeAlias = str
"""The type of a name in an expression, as CEL writes it: ``string``, ``map(string, double)``, ``dyn``."""


class ExpressionError(ConditionError):
    """An expression that cannot be compiled, or cannot be evaluated.

    Attributes:
        problem: the fault and its cure; of one that cannot be evaluated, it quotes nothing of the request.
        line: the line within the expression, from 1.
        column: the column within that line, from 1.
        unknown: the name that it may not read, if that is the fault.
    """

    def __init__(self, problem: str, line: int = 1, column: int = 1, unknown: str | None = None) -> None:
        self.line = line
        self.column = column
        self.unknown = unknown
        super().__init__(problem)


class CompiledExpression(Protocol):
    """An expression that was compiled."""

    def __call__(self, values: Mapping[str, Value], /) -> bool:
        """Return whether it holds.

        Args:
            values: the values of the names.

        Raises:
            ExpressionError: it has no value: a name or a key is missing, a type does not fit, or it takes too long.
        """
        ...


class ExpressionCompiler(Protocol):
    """Compiles expressions of one language."""

    def __call__(self, source: str, names: tuple[tuple[str, ValueType], ...], /) -> CompiledExpression:
        """Compile an expression that is true or false.

        Args:
            source: the expression.
            names: the names that it may read, each with its type.

        Raises:
            ExpressionError: it is malformed, reads another name, mixes types, or is no condition.
        """
        ...


@dataclass(frozen=True, slots=True)
class FactNames:
    """The facts that a condition may read: their names in expressions, types and keys.

    ``language`` is read as ``facts.language``. Square brackets of a name and their content are left out, and other
    characters than letters and digits become ``_``: ``regex-filter.matches[pii: redact]`` is
    ``facts.regex_filter.matches``. Of several facts with one name, the first one counts.

    Attributes:
        entries: for each fact its name, its type and its key, by name.
    """

    entries: tuple[tuple[str, ValueType, AnyKey], ...] = ()

    def with_keys(self, keys: Iterable[AnyKey]) -> FactNames:
        """Return these and further facts."""
        known = {name: (name, type, key) for name, type, key in self.entries}
        for key in keys:
            name = fact_name(key.name)
            known.setdefault(name, (name, type_in_expressions(key.value_type), key))
        if len(known) == len(self.entries):
            return self
        return FactNames(tuple(known[name] for name in sorted(known)))

    def of_source(self, source: str) -> FactNames:
        """Return those that an expression mentions, so that equal expressions over equal facts are equal conditions.

        An expression with ``known`` reads all of them.
        """
        return self if re.search(r"\bknown\b", source) else self.mentioned_in(source)

    def mentioned_in(self, source: str) -> FactNames:
        """Return those whose names stand in an expression."""
        mentioned = _prefixes(source)
        return FactNames(tuple(entry for entry in self.entries if entry[0] in mentioned))

    def names(self) -> list[str]:
        """Return the names."""
        return [name for name, _, _ in self.entries]


def _prefixes(source: str) -> set[str]:
    """Return the dotted names in an expression, and each prefix of them: a fact may be a mapping."""
    found: set[str] = set()
    for dotted in re.findall(r"\bfacts(?:\s*\.\s*\w+)+", source):
        parts = re.findall(r"\w+", dotted)
        found.update(".".join(parts[:length]) for length in range(2, len(parts) + 1))
    return found


def unknown_name(name: str, known: Iterable[str]) -> str:
    """Return the message about a name that an expression may not read."""
    if name == "facts":
        return 'facts is no value of its own; write facts.NAME, or "NAME" in known'
    told = suggestion(name, known)
    if "." not in name and not told.startswith("did you mean"):
        told = f'a text needs quotes ("{name}"), and for a name {told}'
    return f"nothing has the name {name} here; {told}"


@lru_cache(maxsize=10_000)
def fact_name(key: str) -> str:
    """Return the name in expressions of a fact, by the name of its key."""
    parts = [re.sub(r"\W+", "_", part).strip("_") for part in key.partition("[")[0].split(".")]
    return ".".join(["facts", *[part if not part[:1].isdigit() else f"_{part}" for part in parts if part]])


def type_in_expressions(value_type: object) -> ValueType:
    """Return the type of a fact in expressions, by its type in Python; ``dyn`` if it has no counterpart."""
    if value_type in _SIMPLE:
        return _SIMPLE[value_type]
    origin, inner = get_origin(value_type), get_args(value_type)
    if origin in (Union, types.UnionType):  # what may be None has its type where it is there
        kept = [one for one in inner if one is not type(None)]
        return type_in_expressions(kept[0]) if len(kept) == 1 else "dyn"
    if not isinstance(origin, type):
        return "dyn"
    if issubclass(origin, Mapping):
        return f"map(string, {type_in_expressions(inner[1])})" if inner[0] is str else "dyn"
    if issubclass(origin, (Sequence, AbstractSet)):
        return f"list({type_in_expressions(inner[0])})"
    return "dyn"


_SIMPLE: dict[object, ValueType] = {bool: "bool", int: "int", float: "double", str: "string"}
