"""What a cache is asked: a model call as keys and tags are made of it, and what a caller says of one call alone.

It knows no cache.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from penstock.engine.processor.context import LLMRequestContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import ModelRequest

OVERRIDES = "response_cache"
"""Under which key of the request context a caller says how the cache is to treat this request."""


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """A model call that a cache may answer; what functions for keys and tags are given.

    Attributes:
        agent_id: the cache's ``agent_id``.
        scope: whose answers these are; None for everybody's.
        model: the model's name.
        request: all that the model would be sent.
        step_number: the number of the model step in its run, from 0.
        request_context: the caller's mapping for this request.
    """

    agent_id: str
    scope: str | None = field(repr=False)
    model: str
    request: ModelRequest = field(repr=False)
    step_number: int
    request_context: Values = field(repr=False)


KeyFunction: TypeAlias = Callable[[CacheRequest], "str | Awaitable[str]"]
TagFunction: TypeAlias = Callable[[CacheRequest], Iterable[str]]
ScopeFunction: TypeAlias = "Callable[[LLMRequestContext[Value]], str | None]"


def by_resource(ctx: LLMRequestContext[Value]) -> str | None:
    """Return whose request it is, as the caller named them: ``request_context["resource_id"]``; None for nobody."""
    return ctx.resource_id


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be done about one request: the processor's options, with the caller's own laid over them.

    Attributes:
        key: a key, or what makes one; None: a hash of the whole request.
        scope: whose answers these are, or what tells; None for everybody's.
        bust: read nothing, write nonetheless.
        skip: neither read nor write.
        tags: by which the answer can be invalidated, or what tells them.
        ttl: for how many seconds it is kept; None: as long as the cache likes.
    """

    key: str | KeyFunction | None
    scope: str | ScopeFunction | None
    bust: bool
    tags: tuple[str, ...] | TagFunction
    ttl: float | None
    skip: bool = False

    def laid_over(self, request_context: Values) -> Wishes:
        """Return them as the caller of a request wants them.

        Raises:
            UsageError: the caller wants what there is not; guessing could mix up whose answers are whose.
        """
        said = request_context.get(OVERRIDES)
        if said is None:
            return self
        if not is_mapping(said):
            raise UsageError(f"request_context[{OVERRIDES!r}] is a mapping, not {type(said).__name__}")
        odd = [name for name, value in said.items() if name not in _ALLOWED or not _ALLOWED[name](value)]
        if odd:
            raise UsageError(f"request_context[{OVERRIDES!r}] may say {_SAYS}")
        own: dict[str, Value] = {name: getattr(self, name) for name in _ALLOWED}
        made = Wishes(**{**own, **said})
        return made if callable(made.tags) else replace(made, tags=tuple(made.tags))


def is_key(given: object) -> bool:
    """Tell whether it is a key, makes one, or stands for none."""
    return given is None or callable(given) or (isinstance(given, str) and bool(given))


def is_tags(given: object) -> bool:
    """Tell whether it is tags, or makes some."""
    if callable(given):
        return True
    if not isinstance(given, (list, tuple, set, frozenset)):
        return False
    return all(isinstance(tag, str) for tag in cast("Iterable[object]", given))


def is_ttl(given: object) -> bool:
    """Tell whether it is a finite number of seconds above 0, or None."""
    return given is None or (
        isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < float("inf")
    )


def _is_flag(given: object) -> bool:
    return isinstance(given, bool)


_ALLOWED: dict[str, Callable[[object], bool]] = {
    "key": is_key,
    "scope": is_key,  # the same shapes: no scope is empty, since that is what an id is that somebody forgot
    "bust": _is_flag,
    "skip": _is_flag,
    "tags": is_tags,
    "ttl": is_ttl,
}
_SAYS = (
    "key and scope (a str that is not empty, a function, or None), bust and skip (True or False), "
    "tags (a list of str, or a function) and ttl (seconds above 0, or None), and nothing else"
)
