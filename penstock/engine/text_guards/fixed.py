"""Attributes of a guard that would have no effect, since they belong to a component or are read once: each is an error.

A built-in guard gives its options to its components when it is made. Setting one later would change nothing, nor would
a subclass that overrides a method of a component. Either would let texts pass without a word.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from penstock.engine.values.errors import ProcessorError
from penstock.engine.values.frozen import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.text_guards.components import Action, Search

_FIXED = "_fixed"  # the attribute of a guard that holds what is fixed, by name
_ELSEWHERE = "on the guard itself has no effect; it belongs to {}"
_SCOPE = "scope, which is set in the constructor: self.scope = TextScope({name}=…)"
_SEARCH = "the search: write a Search with this method, and set self.search"
_MOVED = {
    **dict.fromkeys(("system", "last_message_only", "unscanned", "on_unread"), _SCOPE),
    "unread": "scope: write a TextScope with this method, and set self.scope",
    **dict.fromkeys(("runs", "overrides", "is_quiet", "in_pieces"), _SEARCH),
    **dict.fromkeys(("possible", "edits_of"), "judged"),
}
"""Attributes and methods that every guard had until they became parts of a component, each with its new place."""

_HOOKS = {
    "default_phase": "the option phase: super().__init__(phase=…)",
    "strategies": "the option strategy, whose values the guard itself knows",
    "judge": "the option model, which may be a Judge",
    "calls": "the option detector",
    "report": "self.action.reporter",
    "removes_messages": "self.action: its method removes",
    "without_flagged": "self.action: its method act",
    **dict.fromkeys(("replacement", "encoded_replacement"), "self.action: its method replacements"),
    "unjudged_windows": "self.search: its attribute output_windows",
}
"""The same of built-in guards, as far as no component has an attribute of the name."""


class _ComponentGuard(Protocol):
    id: str
    search: Search
    action: Action


def _foreign_classes(guard: _ComponentGuard) -> Iterator[type]:
    """Yield the classes of a guard that are not ours: those of users, and of the standard library."""
    return (one for one in type(guard).__mro__ if not one.__module__.startswith("penstock."))


def refuse_moved(guard: _ComponentGuard) -> None:
    """Refuse what every guard had, until it became part of a component."""
    for name, place in _MOVED.items():
        if name in vars(guard) or any(name in vars(one) for one in _foreign_classes(guard)):
            raise ProcessorError(guard.id, f"{name} {_ELSEWHERE.format(place.format(name=name))}")


def fix_options(guard: _ComponentGuard, names: Iterable[str]) -> None:
    """Make it an error to set attributes of these names, which are options, on a guard from now on."""
    problem = "is fixed when the guard is made; make another one: {own}({name}=…)"
    _fix(guard, {name: problem.format(own=type(guard).__name__, name=name) for name in names})


def refuse_change(guard: _ComponentGuard, name: str) -> None:
    """Refuse to set an attribute of a built-in guard that is fixed when the guard is made."""
    fixed: Mapping[str, str] = vars(guard).get(_FIXED, EMPTY)
    if name in fixed:
        raise ProcessorError(guard.id, f"{name} {fixed[name]}")


def fixing(init: Callable[..., None], base: type) -> Callable[..., None]:
    """Return the constructor of a built-in guard such that its options are fixed when it is done.

    Args:
        init: the constructor.
        base: `TextGuard`, whose methods are called on the guard itself.

    Raises:
        ProcessorError: a subclass overrides something of the guard that belongs to a component.
    """
    code = init.__code__
    options = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(init)
    def made(self: _ComponentGuard, *args: object, **kwargs: object) -> None:
        init(self, *args, **kwargs)
        fix_options(self, options)
        hooks = {name: where for name, where in _hooks(self).items() if not hasattr(base, name)}
        for name, value in (item for one in _foreign_classes(self) for item in vars(one).items()):
            # A subclass may call like an option a value that it gives the constructor.
            if name in hooks and (callable(value) or name not in vars(self)[_FIXED]):
                raise ProcessorError(self.id, f"{name} {hooks[name]}")
        _fix(self, {**hooks, **vars(self)[_FIXED]})

    return made


def _hooks(guard: _ComponentGuard) -> Mapping[str, str]:
    """Return the names of what belongs to the components of a built-in guard, each with a sentence that says so."""
    components = (("search", guard.search), ("action", guard.action))
    return _hooks_of(tuple((part, type(component), tuple(vars(component))) for part, component in components))


@functools.lru_cache(64)
def _hooks_of(components: tuple[tuple[str, type, tuple[str, ...]], ...]) -> Mapping[str, str]:
    """Return that for components by their classes and attributes: it is the same for nearly all guards of a class."""
    places = dict(_HOOKS)
    for part, component, attributes in components:
        for name in (*dir(component), *attributes):
            if not name.startswith("_"):
                places[name] = f"self.{part}, a {component.__name__}"
    return {name: _ELSEWHERE.format(place) for name, place in places.items()}


def _fix(guard: _ComponentGuard, problems: Mapping[str, str]) -> None:
    vars(guard)[_FIXED] = FrozenDict({**vars(guard).get(_FIXED, EMPTY), **problems})
