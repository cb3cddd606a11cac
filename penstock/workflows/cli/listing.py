"""``penstock list``: the presets, the built-in processors and the stages, each with a line, as they are now."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import pkgutil
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

import penstock
import penstock.processors
from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.processors.guards.guard import GUARD_OPTIONS, Guard
from penstock.workflows.cli.exits import CommandError, Exit
from penstock.workflows.presets import PRESETS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from penstock.engine.workflow import Workflow


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing that can be used, as it is described.

    Attributes:
        kind: ``preset``, ``processor`` or ``stage``.
        name: what it is called where it is used.
        line: its first sentence.
        options: its options, each with its default as Python writes it; None: it must be given.
        stages: the stages it has.
        text: the whole description.
        shared: the names of further options, which all of its kind have.
    """

    kind: str
    name: str
    line: str
    options: dict[str, str | None]
    stages: tuple[str, ...]
    text: str
    shared: tuple[str, ...] = ()


def list_all(args: argparse.Namespace, stdout: IO[str]) -> int:
    """List what there is and return the exit code."""
    chosen = _chosen([*_presets(), *_processors(), *_stages()], args.name)
    if args.format == "json":
        stdout.write(json.dumps([asdict(one) for one in chosen], indent=2, ensure_ascii=False) + "\n")
    elif args.name is not None:
        stdout.write("\n".join(_whole(one) for one in chosen))
    else:
        stdout.write(_overview(chosen))
    return Exit.OK


def _chosen(found: list[Listed], name: str | None) -> list[Listed]:
    if name is None:
        return found
    chosen = [one for one in found if one.name.lower() == name.lower()]
    if not chosen:
        close = difflib.get_close_matches(name, [one.name for one in found], n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else "`penstock list` shows all there is"
        raise CommandError(f"there is no preset, processor or stage {name!r}; {hint}")
    return chosen


# What there is


def _presets() -> Iterator[Listed]:
    for name, make in sorted(PRESETS.items()):
        yield _described("preset", name, make, _stages_of(make()))


def _stages_of(workflow: Workflow) -> tuple[str, ...]:
    found = {stage for step in steps_of(workflow.root) for stage in step.claims.hooks}
    return tuple(stage for stage in STAGES if stage in found)


def _processors() -> Iterator[Listed]:
    for name, kind in sorted(_classes().items()):
        stages = tuple(stage for stage in STAGES if getattr(kind, stage, None) is not None)
        yield _described("processor", name, kind, stages)


def _classes() -> dict[str, type[Processor[Any]]]:
    """Return the built-in processors by name: the public classes of the package, each where it is written."""
    found: dict[str, type[Processor[Any]]] = {}
    for module in pkgutil.walk_packages(penstock.processors.__path__, "penstock.processors."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        members = vars(importlib.import_module(module.name))
        found |= {name: value for name, value in members.items() if _is_built_in(name, value, module.name)}
    return found


def _is_built_in(name: str, value: object, module: str) -> bool:
    """Tell whether it is a class to place: what is no public name of the package is a base of others."""
    return (
        isinstance(value, type)
        and issubclass(value, Processor)
        and name in dir(penstock)
        and value.__module__.startswith(module)
    )


def _stages() -> Iterator[Listed]:
    for name, stage in STAGES.items():
        yield Listed("stage", name, (stage.context.__doc__ or "").partition(": ")[2].strip(), {}, (), stage.returns)


def _described(kind: str, name: str, thing: Callable[..., Any], stages: tuple[str, ...]) -> Listed:
    text = inspect.getdoc(thing) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    return Listed(kind, name, line, _options(thing), stages, text, _shared(thing))


def _shared(thing: object) -> tuple[str, ...]:
    return tuple(sorted(GUARD_OPTIONS)) if isinstance(thing, type) and issubclass(thing, Guard) else ()


def _options(thing: Callable[..., Any]) -> dict[str, str | None]:
    parameters = inspect.signature(thing).parameters.values()
    return {
        parameter.name: None if parameter.default is parameter.empty else repr(parameter.default)
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


# As text


def _overview(found: list[Listed]) -> str:
    lines: list[str] = []
    for kind, title in (("preset", "Presets"), ("processor", "Processors"), ("stage", "Stages")):
        group = [one for one in found if one.kind == kind]
        if group:
            lines += ["", title, *(line for one in group for line in _entry(one))]
    return "\n".join([*lines[1:], "", "`penstock list NAME` tells more about one of them.", ""])


def _entry(one: Listed) -> list[str]:
    lines = [f"  {one.name}", f"      {one.line}"]
    if one.options:
        more = ["and those of all guards"] if one.shared else []
        lines.append(f"      options: {', '.join([*(_option(*option) for option in one.options.items()), *more])}")
    if one.stages:
        lines.append(f"      stages:  {', '.join(one.stages)}")
    return lines


def _option(name: str, default: str | None) -> str:
    return name if default is None else f"{name}={default}"


def _whole(one: Listed) -> str:
    lines = [f"{one.name} ({one.kind})", "", *one.text.splitlines()]
    if one.options:
        lines += ["", "options:", *(f"  {_option(*option)}" for option in one.options.items())]
    if one.shared:
        lines += ["", "options that all guards have:", *(f"  {name}" for name in one.shared)]
    if one.stages:
        lines += ["", "stages:", *(f"  {stage}" for stage in one.stages)]
    return "\n".join([*lines, ""])
