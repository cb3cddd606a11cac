"""The command ``penstock list``: the presets, the built-in processors and the stages."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import pkgutil
import textwrap
from dataclasses import asdict, dataclass
from typing import IO, TYPE_CHECKING, Any

import penstock.processors
from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.processors.guards.guard_options import GUARD_OPTIONS
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.formatting import console_for
from penstock.workflows.presets import PRESETS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A preset, a processor or a stage, with its description.

    Attributes:
        kind: ``preset``, ``processor`` or ``stage``.
        name: its name.
        line: the first sentence of the description.
        options: its options, each with its default as Python writes it, an object by its name; None: required.
        stages: the stages that it implements.
        text: the whole description.
        shared: the names of further options, which all guards have.
    """

    kind: str
    name: str
    line: str
    options: dict[str, str | None]
    stages: tuple[str, ...]
    text: str
    shared: tuple[str, ...] = ()


def list_all(args: argparse.Namespace, stdout: IO[str]) -> int:
    """List everything, or one entry, and return the exit code."""
    chosen = _chosen(list(_entries()), args.name)
    if args.format == "json":
        stdout.write(json.dumps([asdict(one) for one in chosen], indent=2, ensure_ascii=False) + "\n")
    elif args.name is not None:
        stdout.write("\n".join(_in_full(one) for one in chosen))
    else:
        stdout.write(_overview(chosen, console_for(stdout).width if stdout.isatty() else None))
    return Exit.OK


def _chosen(found: list[ListEntry], name: str | None) -> list[ListEntry]:
    if name is None:
        return found
    chosen = [one for one in found if one.name.lower() == name.lower()]
    if not chosen:
        close = difflib.get_close_matches(name, [one.name for one in found], n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else "`penstock list` shows all of them"
        raise CommandError(f"there is no preset, processor or stage {name!r}; {hint}")
    return chosen


# Entries


def _entries() -> Iterator[ListEntry]:
    for name, make in sorted(PRESETS.items()):
        found = {stage for step in steps_of(make().root) for stage in step.claims.hooks}
        yield _described("preset", name, make, tuple(stage for stage in STAGES if stage in found))
    for name, kind in sorted(_classes().items()):
        stages = tuple(stage for stage in STAGES if getattr(kind, stage, None) is not None)
        yield _described("processor", name, kind, stages)
    for name, stage in STAGES.items():
        yield ListEntry("stage", name, (stage.context.__doc__ or "").partition(": ")[2].strip(), {}, (), stage.returns)


def _classes() -> dict[str, type[Processor[Any]]]:
    """Return the built-in processors by name: the public ones of each family. Bases of processors are not public."""
    found: dict[str, type[Processor[Any]]] = {}
    for module in pkgutil.iter_modules(penstock.processors.__path__, "penstock.processors."):
        family = importlib.import_module(module.name)
        members = {name: getattr(family, name) for name in dir(family)}
        found |= {
            name: value for name, value in members.items() if isinstance(value, type) and issubclass(value, Processor)
        }
    return found


def _described(kind: str, name: str, thing: Callable[..., Any], stages: tuple[str, ...]) -> ListEntry:
    text = inspect.getdoc(thing) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    options = {
        parameter.name: None if parameter.default is parameter.empty else _default(parameter.default)
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    hints = inspect.get_annotations(inspect.getattr_static(thing, "__init__")) if isinstance(thing, type) else {}
    shared = tuple(sorted(GUARD_OPTIONS)) if hints.get("options") == "Unpack[GuardOptions]" else ()
    return ListEntry(kind, name, line, options, stages, text, shared)


def _default(value: object) -> str:
    written = repr(value)
    if written.startswith("<"):  # an object, whose place in memory says nothing
        return str(getattr(value, "__name__", f"{type(value).__name__}()"))
    return written


# As text


def _overview(found: list[ListEntry], width: int | None) -> str:
    """Return a line for each preset and processor, cut to the width of the terminal if there is one."""
    names = max(len(one.name) for one in found if one.kind != "stage")
    lines: list[str] = []
    for kind, title in (("preset", "Presets"), ("processor", "Processors")):
        lines += [title, *(_row(one, names, width) for one in found if one.kind == kind), ""]
    stages = ", ".join(one.name for one in found if one.kind == "stage")
    lines += ["Stages", *textwrap.wrap(stages, width or 80, initial_indent="  ", subsequent_indent="  "), ""]
    return "\n".join([*lines, "`penstock list NAME` describes one of them in full.", ""])


def _row(one: ListEntry, names: int, width: int | None) -> str:
    sentence = one.line.partition(". ")[0].removesuffix(".").replace("``", "`")
    row = f"  {one.name:{names}}  {sentence}"
    if width is None or len(row) <= width:
        return row
    return f"{row[: width - 1].rpartition(' ')[0].rstrip(' ,;:')} …"


def _in_full(one: ListEntry) -> str:
    lines = [f"{one.name} ({one.kind})", "", *one.text.splitlines()]
    if one.options:
        options = (f"  {name}" if default is None else f"  {name}={default}" for name, default in one.options.items())
        lines += ["", "options:", *options]
    if one.shared:
        lines += ["", "options of all guards:", *(f"  {name}" for name in one.shared)]
    if one.stages:
        lines += ["", "stages:", *(f"  {stage}" for stage in one.stages)]
    return "\n".join([*lines, ""])
