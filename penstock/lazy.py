"""Load names when they are first used: the public names of a package (PEP 562), and single ones of a higher layer."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def lazily(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    The names stand in one list, the ``__init__.pyi`` beside the package's ``__init__.py``: imports that type checkers
    read, and that are made here when a name is first used.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``.
    """
    home_of = names_in(f"{file}i")
    version = {"__version__"} & vars(sys.modules[package]).keys()
    public: list[str] = sorted(home_of.keys() | version)

    def load(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"{package} has no {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, public.copy, public


def by_name(module: str, name: str) -> Any:
    """Return an object of a module of a higher layer: the engine loads pictures and formats when they are first used.

    The caller annotates its type.
    """
    return getattr(import_module(module), name)


def names_in(stub: str) -> dict[str, str]:
    """Return each name that a stub imports (``from module import name as name``), with the module it comes from.

    The stub is read as words, since `ast` alone takes as long to import as all else that ``import penstock`` does.
    """
    with open(stub, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes half as long again to import
        text = file.read()
    homes: dict[str, str] = {}
    for statement in text.split("\nfrom "):
        home, _, names = statement.removeprefix("from ").partition(" import ")
        homes.update((name.split()[0], home) for name in names.strip("()\n").split(",") if " as " in name)
    return homes
