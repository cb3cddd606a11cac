"""Which family serves which file. It finds the modules beside it and asks each for its ``FAMILY``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from tests.conformance import builtin
from tests.conformance.builtin.frame import Family


def families() -> dict[str, tuple[str, Family]]:
    """Return the families with their modules' names, by the files they serve."""
    found: dict[str, tuple[str, Family]] = {}
    for name, family in _modules():
        for file in family.files if isinstance(family, Family) else ():
            if file in found:
                raise ValueError(f"{file}.json is served by {found[file][0]} and by {name}")
            found[file] = (name, family)
    return found


def broken() -> dict[str, str]:
    """Return the modules that cannot be imported, and why: a processor that is not there yet, as a rule."""
    return {name: family for name, family in _modules() if isinstance(family, str)}


def _modules() -> Iterator[tuple[str, Family | str]]:
    for module in pkgutil.iter_modules(builtin.__path__, f"{builtin.__name__}."):
        try:
            family = getattr(importlib.import_module(module.name), "FAMILY", None)
        except ImportError as error:
            yield module.name, str(error)
        else:
            if isinstance(family, Family):
                yield module.name, family
