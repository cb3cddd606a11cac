"""What a diagram says about conditions, policies, claims and merges, in a few plain words; it knows no format.

Whatever a user named stands here as they wrote it, except that characters nobody can see are spelled out: an id with a
line break, a terminal's escape code or a change of writing direction must not change the picture around it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from typing import TYPE_CHECKING

from penstock.engine.graph.conditions import Either, Every
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

    from penstock.engine.graph.nodes import OnError, Policy
    from penstock.engine.processor.processor import Claims

LIMIT = 60
"""How many characters of a label are shown."""

_PICTURES = 0x2400
"""Where Unicode has its pictures of control characters, in their order."""


def visible(text: str) -> str:
    """Return the text with a sign for whatever cannot be seen: ``␊``, ``␛``, ``⟨U+202E⟩``."""
    return "".join(one if one.isprintable() else _sign(ord(one)) for one in text)


def _sign(code: int) -> str:
    return chr(_PICTURES + code) if code < ord(" ") else f"⟨U+{code:04X}⟩"


def short(text: str, limit: int = LIMIT) -> str:
    """Return the visible text, cut where it is too long for a label."""
    seen = visible(text).strip() or "?"
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def last(path: str) -> str:
    """Return the step's or workflow's own part of a path."""
    return path.rsplit("/", 1)[-1]


# Conditions


def condition_label(condition: object) -> str:
    """Return a condition in words: a function's name, a lambda's expression, or what an object says of itself."""
    return short(_in_words(condition))


def _in_words(condition: object) -> str:
    if isinstance(condition, Every):
        return " and ".join(_inside(one) if wanted else f"not {_inside(one)}" for one, wanted in condition.terms)
    if isinstance(condition, Either):
        return " or ".join(_inside(one) for one in condition.ways)
    if isinstance(condition, functools.partial):
        given = [*map(_repr, condition.args), *(f"{name}={_repr(value)}" for name, value in condition.keywords.items())]
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


def _repr(value: object) -> str:
    """Return what an object says of itself; its class's name where that is an address, or breaks."""
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
    """Return what stands in a lambda's source behind the colon; None where the source is gone, or another."""
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
    """Tell whether an expression has the names and the place of a lambda's code."""
    names = {one.id for one in ast.walk(body) if isinstance(one, ast.Name)}
    names |= {one.attr for one in ast.walk(body) if isinstance(one, ast.Attribute)}
    end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
    return names.issuperset(code.co_names) and all((body.lineno, body.col_offset) <= one < end for one in places)


# Policies and claims


def policy_words(policy: Policy) -> tuple[str, ...]:
    """Return what a policy says, as it would be written."""
    words: list[str] = []
    if policy.timeout is not None:
        words.append(f"timeout={policy.timeout:g} s")
    if policy.on_error is not None:
        words.append(f"on_error={_on_error(policy.on_error)}")
    if policy.mode == "shadow":
        words.append("shadow")
    words += [f"{word}={value}" for word in ("overlap", "offload") if (value := getattr(policy, word)) is not None]
    return tuple(words)


def _on_error(on_error: OnError) -> str:
    return short(claims_of(on_error).id) if isinstance(on_error, Processor) else str(on_error)


def claim_words(claims: Claims) -> tuple[str, ...]:
    """Return what a processor is and may do; that its own failure lets the run go on is worth saying."""
    words: list[str] = [claims.role]
    if claims.role != "observer":
        words.append(f"edits {claims.edits}")
    return (*words, "stores") if claims.stores else tuple(words)


def fact_words(claims: Claims) -> tuple[str, ...]:
    """Return which facts it needs and which it puts."""
    said = (("needs", claims.requires), ("puts", claims.provides))
    return tuple(f"{word} {', '.join(sorted(short(key.name) for key in keys))}" for word, keys in said if keys)


def stage_words(stages: Iterable[str]) -> str:
    """Return the stages without the word that all of them begin with."""
    return ", ".join(stage.removeprefix("process_") for stage in stages)


def merge_words(merge: object) -> str:
    """Return how a join settles what its branches disagree about; empty where it does not."""
    if merge is None:
        return ""
    if isinstance(merge, Pick):
        return f"merge=pick {short(merge.branch)}"
    return f"merge={merge if isinstance(merge, str) else condition_label(merge)}"
