"""Which family serves which file. It finds the modules beside it and asks each for its ``FAMILY``."""

from __future__ import annotations

import importlib
import pkgutil

from tests.conformance import builtin
from tests.conformance.builtin.frame import Family


def families() -> dict[str, tuple[str, Family]]:
    """Return the families with their modules' names, by the files they serve."""
    found: dict[str, tuple[str, Family]] = {}
    for module in pkgutil.iter_modules(builtin.__path__, f"{builtin.__name__}."):
        family = getattr(importlib.import_module(module.name), "FAMILY", None)
        if not isinstance(family, Family):
            continue
        for file in family.files:
            if file in found:
                raise ValueError(f"{file}.json is served by {found[file][0]} and by {module.name}")
            found[file] = (module.name, family)
    return found
