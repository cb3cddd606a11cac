"""The arguments that processors and agents were made with, so that they can be made again with other options."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from penstock.engine.processor.processor import Processor

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

Made = TypeVar("Made")

_ARGUMENTS: dict[int, tuple[object, tuple[object, ...], dict[str, object]]] = {}
"""The recorded objects and their arguments, by id; each object is kept, so that no other gets its id."""


_RECORDING: dict[type, int] = {}
"""How many ask that what is made of a class is recorded. A class keeps its ``__new__``: Python cannot take it away."""


def record_processors() -> None:
    """Record the arguments of every processor that is made from now on."""
    _record(Processor)


@contextmanager
def processors_recorded() -> Generator[None]:
    """Record the arguments of every processor that is made while the block runs."""
    record_processors()
    try:
        yield
    finally:
        _RECORDING[Processor] -= 1


def record_agents() -> None:
    """Record the arguments of every agent that is made from now on; the module of agents is loaded."""
    from penstock.workflows.agent.agent import Agent

    _record(Agent)


def _record(kind: type) -> None:
    _RECORDING[kind] = _RECORDING.get(kind, 0) + 1
    if "__new__" in kind.__dict__:
        return

    def new(cls: type[object], *args: object, **kwargs: object) -> object:
        if getattr(cls, "__init__", None) is object.__init__ and (
            args or kwargs
        ):  # what Python itself says without this function
            raise TypeError(f"{cls.__name__}() takes no arguments")
        made = object.__new__(cls)
        if _RECORDING[kind]:
            note_arguments(made, *args, **kwargs)
        return made

    kind.__new__ = new  # type: ignore[assignment]


def note_arguments(made: object, *args: object, **kwargs: object) -> None:
    """Record the arguments that an object is made with."""
    _ARGUMENTS[id(made)] = (made, args, kwargs)


def arguments_of(made: object) -> dict[str, object] | None:
    """Return the arguments of an object by the names of its parameters; None if they are not known.

    Arguments for ``*args`` are under the name of that parameter; those for ``**kwargs`` stand beside the others.
    """
    found = _ARGUMENTS.get(id(made))
    if found is None:
        return None
    try:
        bound = signature_of(type(made)).bind(*found[1], **found[2])
    except TypeError:
        return None
    flat: dict[str, object] = {}
    for name, value in bound.arguments.items():
        rest = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        flat.update(cast("Mapping[str, object]", value) if rest else {name: value})
    return flat


def signature_of(kind: type) -> inspect.Signature:
    """Return the signature of a class's constructor, without ``self``."""
    init = cast("Callable[..., object]", getattr(kind, "__init__", None))
    signature = inspect.signature(init)
    return signature.replace(parameters=[*signature.parameters.values()][1:])


def remade(made: Made, changed: Mapping[str, object]) -> Made:
    """Return a new object with the same arguments, but for those that are changed.

    Raises:
        TypeError: the arguments are not known, or the constructor does not take them.
        Exception: whatever else the constructor raises.
    """
    found = _ARGUMENTS.get(id(made))
    if found is None:
        raise TypeError("it was not made by its constructor, so it cannot be made again")
    bound = signature_of(type(made)).bind(*found[1], **found[2])
    parameters = bound.signature.parameters
    rest = next((name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD), None)
    for name, value in changed.items():
        if name in parameters and name != rest:
            bound.arguments[name] = value
        elif rest is not None:
            bound.arguments[rest] = {**bound.arguments.get(rest, {}), name: value}
        else:
            raise TypeError(f"it has no option {name!r}")
    return type(made)(*bound.args, **bound.kwargs)
