"""What ``use:`` may name in a policy file: processors, presets, and what packages register as entry points."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import penstock.processors
from penstock.engine.processor.processor import AnyProcessor, Processor, is_processor, kebab_case
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.workflow import Workflow
from penstock.lazy import names_in
from penstock.workflows.policies.problems import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from penstock.engine.graph.nodes import Condition

Maker: TypeAlias = "Callable[..., AnyProcessor | Workflow]"
"""The maker of a step: a class of processors, or a function. Its parameters are the options."""

GROUP = "penstock.processors"
"""The group of entry points in which a package registers its processors and workflows."""

PRESET = "preset:"
"""The prefix of the name of a preset where a processor has the same name."""


class NoMakerError(LookupError):
    """Nothing has that name; the message says why, and what to do."""


def maker_of(name: str) -> Maker:
    """Return the maker of the step of a name.

    Args:
        name: of a built-in processor (``pii-detector``), of a preset (``privacy``, or ``preset:moderation``), or
            ``package:name`` of an entry point.

    Raises:
        NoMakerError: there is none.
    """
    if name.startswith(PRESET):
        return _preset(name.removeprefix(PRESET))
    package, colon, registered = name.partition(":")
    if colon:
        return _registered(package, registered)
    found = _processor(name)
    if found is not None:
        return found
    presets = _presets()
    if name in presets:
        return presets[name]
    raise NoMakerError(name)


def name_of(maker: object) -> str | None:
    """Return the name of a class of processors, or of a registered maker; None if it has none."""
    if isinstance(maker, type):
        name = registry_name(maker.__name__)
        if _processor(name) is maker:
            return name
    for point in entry_points(group=GROUP):
        if point.dist is not None and point.value == f"{getattr(maker, '__module__', '')}:{_qualified(maker)}":
            return f"{point.dist.name}:{point.name}"
    return None


def _qualified(maker: object) -> str:
    return str(getattr(maker, "__qualname__", ""))


def known_names() -> list[str]:
    """Return all names, in order. All processors are loaded for it."""
    processors = [name for name in _homes() if _processor(name) is not None]
    presets = [f"{PRESET}{name}" if name in processors else name for name in _presets()]
    registered = [f"{point.dist.name}:{point.name}" for point in entry_points(group=GROUP) if point.dist is not None]
    return sorted({*processors, *presets, *registered})


def registry_name(class_name: str) -> str:
    """Return the name of a class of processors: in kebab-case, without ``-processor`` at its end."""
    return kebab_case(class_name).removesuffix("-processor")


def _processor(name: str) -> type[AnyProcessor] | None:
    home = _homes().get(name)
    found: object = None if home is None else getattr(importlib.import_module(home[0]), home[1])
    is_processor = isinstance(found, type) and issubclass(found, Processor)
    return cast("type[AnyProcessor]", found) if is_processor else None


@cache
def _homes() -> dict[str, tuple[str, str]]:
    """Return the module and the class of each name, as the stubs of the families have them; some are no processors."""
    homes: dict[str, tuple[str, str]] = {}
    for module in pkgutil.iter_modules(penstock.processors.__path__):
        for folder in penstock.processors.__path__:
            stub = Path(folder) / module.name / "__init__.pyi"
            found = names_in(str(stub)) if stub.is_file() else {}
            for name in sorted(found, key=len):  # LegacyMemory before LegacyMemoryProcessor, which is an interface
                if not name.isupper():
                    homes.setdefault(registry_name(name), (found[name], name))
    homes.update({registry_name(name): (home, name) for name, home in _PARTS.items()})
    return homes


_PARTS: Mapping[str, str] = dict.fromkeys(
    ("ExplainPlaceholders", "RefuseMostlyHidden"), "penstock.workflows.presets.hygiene"
)
"""Processors that only presets have."""


def condition_of(name: str, options: object) -> Condition:
    """Return a registered condition.

    Args:
        name: ``something-hidden`` or ``mostly-hidden``: those of the preset ``hygiene``.
        options: ``found``: the names of the facts in which filters count their findings.

    Raises:
        NoMakerError: nothing has that name, or the options are not those.
    """
    from penstock.workflows.presets.hygiene import MostlyHidden, SomethingHidden

    known = {"something-hidden": SomethingHidden, "mostly-hidden": MostlyHidden}
    if name not in known:
        raise NoMakerError(f"there is no condition {name}; {suggestion(name, known)}")
    found = options["found"] if is_mapping(options) and list(options) == ["found"] else None
    names = [one for one in found if isinstance(one, str) and one] if is_items(found) else []
    if not names or len(names) != len(found or ()):
        raise NoMakerError(f"the condition {name} takes `with: {{found: [names of facts]}}`")
    return known[name](tuple(Key[Mapping[str, int]](one) for one in names))


def condition_name(condition: object) -> tuple[str, dict[str, object]] | None:
    """Return the name and the options of a registered condition; None for other conditions."""
    from penstock.workflows.presets.hygiene import MostlyHidden, SomethingHidden

    names = {SomethingHidden: "something-hidden", MostlyHidden: "mostly-hidden"}
    if not isinstance(condition, SomethingHidden) or type(condition) not in names:
        return None
    return names[type(condition)], {"found": [key.name for key in condition.found]}


def _presets() -> Mapping[str, Maker]:
    from penstock.workflows.presets import PRESETS  # it loads all guards, which a file of other steps does not need

    return PRESETS


def _preset(name: str) -> Maker:
    presets = _presets()
    if name not in presets:
        raise NoMakerError(f"there is no preset {name}; the presets are {', '.join(sorted(presets))}")
    return presets[name]


def _registered(package: str, name: str) -> Maker:
    points = [point for point in entry_points(group=GROUP) if _distribution(point) == _normal(package)]
    if not points:
        message = f"no installed package {package} registers entry points in the group {GROUP}"
        raise NoMakerError(f"{message}; install it, or name a built-in processor")
    for point in points:
        if point.name == name:
            return _loaded(point)
    raise NoMakerError(f"{package} registers {', '.join(sorted(point.name for point in points))}, but no {name}")


def _loaded(point: EntryPoint) -> Maker:
    try:
        found: object = point.load()
    except Exception as error:
        raise NoMakerError(f"{point.value} cannot be loaded ({type(error).__name__}: {error})") from error
    if isinstance(found, Workflow) or is_processor(found):
        made = found
        return lambda: made
    if not callable(found):
        message = (
            f"{point.value} is of the type {type(found).__name__}, but must be a processor, a workflow or a function"
        )
        raise NoMakerError(message)
    return cast("Maker", found)


def _distribution(point: EntryPoint) -> str:
    return "" if point.dist is None else _normal(point.dist.name)


def _normal(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")
