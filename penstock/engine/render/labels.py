"""Labels: conditions, policies, roles and facts in words, for pictures, texts, differences and traces."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import linecache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from penstock.engine.graph.conditions import Either, Every
from penstock.engine.merging.rules import Pick
from penstock.engine.processor.processor import Processor, claims_of
from penstock.engine.values.display import visible
from penstock.engine.values.secret_names import HIDDEN, is_secret, masked_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType

    from penstock.engine.graph.nodes import OnError, Policy, Step
    from penstock.engine.processor.processor import Claims


Detail: TypeAlias = Literal["short", "full"]
"""How much a picture says of each step."""

LIMIT = 60
"""The length of a label that takes one line, in characters; longer ones are cut."""


def whole(text: str) -> str:
    """Return the visible text; ``?`` where nothing of it can be seen."""
    return visible(text).strip() or "?"


def short(text: str, limit: int = LIMIT) -> str:
    """Return the visible text, cut to the length of a label."""
    seen = whole(text)
    return seen if len(seen) <= limit else f"{seen[: limit - 1]}…"


def last(path: str) -> str:
    """Return the last part of a path: the id of the step or workflow."""
    return path.rsplit("/", 1)[-1]


# Conditions


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


# Policies and claims


def policy_words(policy: Policy) -> tuple[str, ...]:
    """Return the options of a policy, as they would be written."""
    words: list[str] = []
    if policy.timeout is not None:
        words.append(f"timeout={policy.timeout:g} s")
    if policy.on_error is not None:
        words.append(f"on_error={_on_error(policy.on_error)}")
    if policy.mode == "shadow":
        words.append("shadow")
    words += [f"{word}={value}" for word in ("overlap", "offload") if (value := getattr(policy, word)) is not None]
    if policy.retries:
        words.append(f"retries={policy.retries}")
    if policy.retry_delay is not None:
        words.append(f"retry_delay={policy.retry_delay:g} s")
    return tuple(words)


def _on_error(on_error: OnError) -> str:
    return short(claims_of(on_error).id) if isinstance(on_error, Processor) else str(on_error)


def role_of(step: Step) -> str:
    """Return the role of a step; ``undeclared`` where neither it nor a class of Penstock says one."""
    kinds = cast("tuple[type[object], ...]", type(step.processor).__mro__)
    said = "role" in getattr(step.processor, "__dict__", ()) or any(
        "role" in vars(one) or one.__module__.startswith("penstock.")
        for one in kinds
        if one.__qualname__ not in ("Processor", "FunctionProcessor")
    )
    return step.claims.role if said else "undeclared"


def claim_words(step: Step) -> tuple[str, ...]:
    """Return the role of a step, and what it may do."""
    claims = step.claims
    words = [role_of(step)]
    if claims.role != "observer":
        words.append(f"edits {claims.edits}")
    return (*words, "stores") if claims.stores else tuple(words)


def fact_words(claims: Claims) -> tuple[str, ...]:
    """Return the facts that a processor requires and provides."""
    said = (("needs", claims.requires), ("puts", claims.provides))
    return tuple(f"{word} {', '.join(sorted(short(key.name) for key in keys))}" for word, keys in said if keys)


def stage_words(stages: Iterable[str]) -> str:
    """Return the names of stages, without their common prefix."""
    return ", ".join(stage.removeprefix("process_") for stage in stages)


def merge_words(merge: object) -> str:
    """Return the merge policy of a join; empty if it has none."""
    if merge is None:
        return ""
    if isinstance(merge, Pick):
        return f"merge=pick {short(merge.branch)}"
    return f"merge={merge if isinstance(merge, str) else condition_label(merge)}"


def policy_note(step: Step) -> str:
    """Return the policy of a step in words; empty where nothing was set."""
    policy = list(policy_words(step.policy))
    if step.policy.on_error is None and step.claims.on_error == "allow":
        policy.append("on_error=allow")  # a failure of it lets the run go on, which readers should know
    return ", ".join(policy)


def step_words(step: Step, detail: Detail = "full") -> tuple[str, ...]:
    """Return what is to be read of a step, a line each: role and policy; ``full``: what it edits, and its facts."""
    if detail == "short":
        lines: tuple[str, ...] = (role_of(step), policy_note(step))
    else:
        lines = (", ".join(claim_words(step)), "; ".join(fact_words(step.claims)), policy_note(step))
    return tuple(line for line in lines if line)
