"""Conditions of branches in a policy file, as the engine calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import STREAM
from penstock.engine.values.frozen import Value, is_mapping
from penstock.workflows.policies.cel import compiled
from penstock.workflows.policies.expressions import FactNames, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.processor.context import View
    from penstock.workflows.policies.expressions import CompiledExpression

NAMES: tuple[tuple[str, ValueType], ...] = (
    ("text", "string"),
    ("text.length", "int"),
    ("stage", "string"),
    ("role", "string"),
    ("messages", "list(map(string, dyn))"),
    ("metadata", "map(string, dyn)"),
    ("context", "map(string, dyn)"),
    ("tool", "string"),
    ("tool.name", "string"),
    ("args", "map(string, dyn)"),
    ("known", "list(string)"),
)
"""The names that every condition may read, beside the facts: each name with its type.

``text`` and ``text.length``: the text of the stage, with the edits so far. Empty while an answer streams, since a
branch decides at the start of it. ``stage``: the name of the stage. ``role``, ``metadata``: of the last message.
``messages``: each with ``role`` and ``text``. ``context``: the request's context. ``tool`` (``tool.name``), ``args``:
of a tool call or its result, else empty. ``known``: the names of the facts that are there, as in
``"language" in known``.
"""


@dataclass(frozen=True, repr=False)
class PolicyCondition:
    """A condition that was written in a policy file. It is compared by its source and the facts that it may read.

    Args:
        source: the expression.
        facts: the facts that it may read.

    Raises:
        ExpressionError: the expression cannot be compiled.
    """

    source: str
    facts: FactNames = field(default_factory=FactNames)

    def __post_init__(self) -> None:
        """Compile it."""
        _ = self.expression

    def __reduce__(self) -> tuple[type[PolicyCondition], tuple[str, FactNames]]:
        """Copy and pickle the source and the facts: a compiled expression cannot be pickled."""
        return (type(self), (self.source, self.facts))

    @cached_property
    def expression(self) -> CompiledExpression:
        """The compiled expression."""
        facts = self.facts.mentioned_in(self.source)
        return compiled(self.source, (*NAMES, *[(name, type) for name, type, _ in facts.entries]))

    @cached_property
    def _read(self) -> tuple[tuple[tuple[str, Callable[[View], object]], ...], bool]:
        """The names beside the facts that it may read, each with what reads it; and whether it reads facts."""
        words = set(re.findall(r"\w+", self.source))
        names = tuple((name, read) for name, read in _VALUES.items() if name.partition(".")[0] in words)
        return names, not words.isdisjoint({"facts", "known"})

    def __call__(self, view: View) -> bool:
        """Return whether it holds.

        Raises:
            ExpressionError: it has no value, for example since a fact is missing.
        """
        return self.expression(self._values(view))

    def __repr__(self) -> str:
        """Show the expression, as diagrams do."""
        return " ".join(self.source.split())

    def _values(self, view: View) -> dict[str, Value]:
        """Return the values of the names that the expression mentions."""
        names, reads_facts = self._read
        values: dict[str, Value] = {name: read(view) for name, read in names}
        if reads_facts:
            found = {name: view.get(key) for name, _, key in self.facts.entries}
            values |= {name: plain(value) for name, value in found.items() if value is not None}
            values["known"] = [name.removeprefix("facts.") for name, value in found.items() if value is not None]
        return values


def _text(view: View) -> str:
    return "" if view.stage_name == STREAM.name else view.text


def _length(view: View) -> int:
    return len(_text(view))


def _stage(view: View) -> str:
    return view.stage_name


def _role(view: View) -> str:
    return view.messages[-1].role if view.messages else ""


def _messages(view: View) -> list[dict[str, str]]:
    return [{"role": one.role, "text": one.text} for one in view.messages]


def _metadata(view: View) -> object:
    return plain(view.messages[-1].metadata) if view.messages else {}


def _context(view: View) -> object:
    return plain(view.request_context)


def _tool(view: View) -> str:
    return str(view.detail("tool_name") or "")


def _arguments(view: View) -> object:
    """Return the arguments of a tool call, with the edits so far; other JSON values than an object have no names."""
    given: object = view.detail("arguments")
    return plain(given) if is_mapping(given) else {}


_VALUES: dict[str, Callable[[View], object]] = {
    "text": _text,
    "text.length": _length,
    "stage": _stage,
    "role": _role,
    "messages": _messages,
    "metadata": _metadata,
    "context": _context,
    "tool": _tool,
    "tool.name": _tool,
    "args": _arguments,
}


def plain(value: object) -> Value:
    """Return a value as expressions can read it: JSON's types; other objects as their text."""
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in cast("Sequence[object] | AbstractSet[object]", value)]
    return str(value)
