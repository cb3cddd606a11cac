"""Scopes: whose costs are counted together, as keys of a ledger. They know no ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args
from urllib.parse import quote

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError, UsageError

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

ScopeName = Literal["run", "resource", "thread", "user", "organization", "session", "everybody"]
ScopeFunction: TypeAlias = "Callable[[Mapping[str, Value]], str | None]"
Scope: TypeAlias = "ScopeName | Sequence[ScopeName] | ScopeFunction"
"""What is counted together: a name, several (each combination has an account of its own), or a function of the request
context that returns the account's key, None if the request has none."""

Unscoped = Literal["share", "error", "ignore"]
"""What becomes of requests whose context does not say whose they are."""


def checked(owner: str, given: object) -> Scope:
    """Return the option if it is a scope: of several names a tuple.

    Raises:
        OptionError: it is none.
    """
    if callable(given) and not is_async(given):
        return cast("ScopeFunction", given)
    names: object = (given,) if isinstance(given, str) else given
    known = get_args(ScopeName)
    found = tuple(cast("Sequence[object]", names)) if isinstance(names, Sequence) else ()
    alone = ("run", "everybody")
    if not found or any(name not in known for name in found) or (len(found) > 1 and set(found) & set(alone)):
        allowed = (
            f"one of {', '.join(map(repr, known))}, several of them (but for 'run' and 'everybody'), or a function "
            "(not async) of the request context"
        )
        raise OptionError(owner, "scope", given, allowed)
    return cast("Scope", found[0] if len(found) == 1 else tuple(dict.fromkeys(found)))


def name_of(scope: Scope) -> str:
    """Return how a scope is told."""
    if callable(scope):
        return getattr(scope, "__name__", type(scope).__name__)
    return scope if isinstance(scope, str) else "+".join(scope)


def key_of(scope: Scope, context: Mapping[str, Value], run_id: str, unscoped: Unscoped) -> str | None:
    """Return the key of a request's account; None if it has none and is not to be counted.

    Raises:
        UsageError: the request does not say whose it is, and that is an error.
    """
    if callable(scope):
        told = [(name_of(scope), scope(context))]
    else:
        names = (scope,) if isinstance(scope, str) else scope
        told = [(name, _id(name, context, run_id)) for name in names]
    if any(not id for _, id in told):
        if unscoped == "error":
            missing = ", ".join(f"{name}_id" for name, id in told if not id)
            raise UsageError(f"the request context does not say whose request it is: {missing} is missing")
        if unscoped == "ignore":
            return None
    if len(told) > 1:  # quoted, here and below, so that no id can feign another's key
        return "/".join(f"{name}:{quote(id or '', safe='')}" for name, id in told)
    name, id = told[0]
    return f"{name}:{(id or '').replace('%', '%25').replace('/', '%2F')}"


def _id(name: str, context: Mapping[str, Value], run_id: str) -> str | None:
    if name == "everybody":
        return "all"
    if name == "run":
        return run_id
    found: object = context.get(f"{name}_id")
    return None if found is None else str(found)
