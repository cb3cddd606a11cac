"""The command ``penstock list``: the presets, the built-in processors and the stages."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import pkgutil
import textwrap
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import penstock.processors
from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.processor import Processor
from penstock.engine.processor.stages import STAGES
from penstock.lazy import names_in
from penstock.processors.guards.guard_options import GUARD_OPTIONS
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.formatting import console_for
from penstock.workflows.loading import load_workflow, shipped_policies, shipped_policy
from penstock.workflows.policies.registry import PRESET, registry_name
from penstock.workflows.presets import PRESETS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A preset, a policy of the package, a processor or a stage, with its description.

    Attributes:
        kind: ``preset``, ``policy`` (a policy file of the package), ``processor`` or ``stage``.
        name: its name.
        line: the first sentence of the description.
        options: its options, each with its default as Python writes it, an object by its name; None: required.
        stages: the stages that it implements.
        text: the whole description.
        shared: the names of further options, which all guards have.
        use: its name in policy files; None: it has none there.
    """

    kind: str
    name: str
    line: str
    options: dict[str, str | None]
    stages: tuple[str, ...]
    text: str
    shared: tuple[str, ...] = ()
    use: str | None = None


def list_all(args: argparse.Namespace, stdout: IO[str]) -> int:
    """List everything, or one entry, and return the exit code."""
    shown_whole = args.name is not None or args.format == "json"
    chosen = _chosen(list(_entries(shown_whole=shown_whole)), args.name)
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
    chosen = [one for one in found if name.lower() in (one.name.lower(), one.use)]
    if not chosen:
        close = difflib.get_close_matches(
            name, [*(one.use for one in found if one.use), *(one.name for one in found)], n=1, cutoff=0.4
        )
        hint = f"did you mean {close[0]!r}?" if close else "`penstock list` shows all of them"
        raise CommandError(f"there is no preset, processor or stage {name!r}; {hint}")
    return chosen


# Entries


def _entries(*, shown_whole: bool) -> Iterator[ListEntry]:
    for name, make in sorted(PRESETS.items()):
        steps = steps_of(make().root) if shown_whole else ()  # to make one loads the detectors
        found = {stage for step in steps for stage in step.claims.hooks}
        yield _described("preset", name, make, tuple(stage for stage in STAGES if stage in found))
    for name in shipped_policies():
        yield _shipped(name, shown_whole=shown_whole)
    for name, kind in sorted(_classes().items()):
        stages = tuple(stage for stage in STAGES if getattr(kind, stage, None) is not None)
        yield _described("processor", name, kind, stages)
    for name, stage in STAGES.items():
        yield ListEntry("stage", name, (stage.context.__doc__ or "").partition(": ")[2].strip(), {}, (), stage.returns)


def _shipped(name: str, *, shown_whole: bool) -> ListEntry:
    """Return a policy file of the package; the comment that it begins with describes it.

    It is loaded for its stages only where these are shown: the checks of its options need pydantic.
    """
    text = Path(shipped_policy(name) or "").read_text("utf-8")
    comment = [line.removeprefix("#").strip() for line in takewhile(_is_comment, text.splitlines())]
    steps = steps_of(load_workflow(name).root) if shown_whole else ()
    found = {stage for step in steps for stage in step.claims.hooks}
    line = " ".join(comment)
    return ListEntry("policy", name, line, {}, tuple(stage for stage in STAGES if stage in found), line)


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _classes() -> dict[str, type[Processor[Any]]]:
    """Return the built-in processors by name: the public ones of each family. Bases of processors are not public."""
    found: dict[str, type[Processor[Any]]] = {}
    for module in pkgutil.iter_modules(penstock.processors.__path__, "penstock.processors."):
        family = importlib.import_module(module.name)
        homes = names_in(f"{family.__file__}i")
        members = {name: getattr(family, name) for name, home in homes.items() if home not in _NO_PROCESSORS}
        found |= {
            name: value for name, value in members.items() if isinstance(value, type) and issubclass(value, Processor)
        }
    return found


_NO_PROCESSORS = ("penstock.processors.guards.verdicts",)
"""Modules whose public names are types of pydantic, which takes as long to import as all processors."""


def _described(kind: str, name: str, thing: Callable[..., Any], stages: tuple[str, ...]) -> ListEntry:
    text = inspect.getdoc(thing) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    options = {
        parameter.name: None if parameter.default is parameter.empty else _default(parameter.default)
        for parameter in _parameters(thing)
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    hints = inspect.get_annotations(inspect.getattr_static(thing, "__init__")) if isinstance(thing, type) else {}
    shared = tuple(sorted(GUARD_OPTIONS)) if hints.get("options") == "Unpack[GuardOptions]" else ()
    use = registry_name(name) if isinstance(thing, type) else f"{PRESET}{name}" if name in _TAKEN else name
    return ListEntry(kind, name, line, options, stages, text, shared, use)


_TAKEN = ("moderation",)
"""The presets of which a processor has the name in policy files."""


def _parameters(thing: Callable[..., object]) -> Iterable[inspect.Parameter]:
    """Return the parameters of a function or a class.

    Of a class without a constructor, `inspect` would read those of `object`, for which it imports a tokenizer.
    """
    bare = isinstance(thing, type) and thing.__init__ is object.__init__  # type: ignore[misc]
    return () if bare else inspect.signature(thing).parameters.values()


def _default(value: object) -> str:
    written = repr(value)
    if written.startswith("<"):  # an object, whose place in memory says nothing
        return str(getattr(value, "__name__", f"{type(value).__name__}()"))
    return written


# As text


def _overview(found: list[ListEntry], width: int | None) -> str:
    """Return a line for each preset and processor, cut to the width of the terminal if there is one."""
    names = max(len(_listed(one)) for one in found if one.kind != "stage")
    lines: list[str] = []
    for kind, title in (("preset", "Presets"), ("policy", "Policies for coding agents"), ("processor", "Processors")):
        lines += [title, *(_row(one, names, width) for one in found if one.kind == kind), ""]
    stages = ", ".join(one.name for one in found if one.kind == "stage")
    lines += ["Stages", *textwrap.wrap(stages, width or 80, initial_indent="  ", subsequent_indent="  "), ""]
    return "\n".join([*lines, "`penstock list NAME` describes one of them in full, with its class in Python.", ""])


def _listed(one: ListEntry) -> str:
    """Return the name of a preset, as commands take it, or of a processor, as policy files do."""
    return one.name if one.kind in ("preset", "policy") or one.use is None else one.use


def _row(one: ListEntry, names: int, width: int | None) -> str:
    sentence = one.line.partition(". ")[0].removesuffix(".").replace("``", "`")
    row = f"  {_listed(one):{names}}  {sentence}"
    if width is None or len(row) <= width:
        return row
    return f"{row[: width - 1].rpartition(' ')[0].rstrip(' ,;:')} …"


def _in_full(one: ListEntry) -> str:
    lines = [f"{one.name} ({one.kind})", "", *([f"in policy files: {one.use}", ""] if one.use else [])]
    lines += one.text.splitlines()
    if one.options:
        options = (f"  {name}" if default is None else f"  {name}={default}" for name, default in one.options.items())
        lines += ["", "options:", *options]
    if one.shared:
        lines += ["", "options of all guards:", *(f"  {name}" for name in one.shared)]
    if one.stages:
        lines += ["", "stages:", *(f"  {stage}" for stage in one.stages)]
    return "\n".join([*lines, ""])
