"""Public names of a package that load when they are used (PEP 562); it knows no package, and no name."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def lazily(package: str, /, **homes: Sequence[str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, given the names that each of its modules is home to.

    A name is looked up once, and is the package's own from then on. What ``dir`` shows is the package's ``__all__``.
    Type checkers are to see imports instead: what a function returns for a name tells them nothing.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"{package} has no {name!r}")
        value = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(vars(sys.modules[package])["__all__"])

    return load, names
