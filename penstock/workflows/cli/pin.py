"""The command ``penstock pin``: the hashes of an agent's tools, for ``pins`` of a tool policy, and their comparison."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.processors.tools.pins import pins_of
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import refuse_same, refuse_source, write_line, writing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def pin(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write the pins of the tools, or compare them with earlier ones, and return the exit code.

    Raises:
        CommandError: there are no tools to pin, or the earlier pins cannot be read.
    """
    found = pins_of(_tools(args.tools))
    if not found:
        raise CommandError(f"{args.tools} has no tools")
    if args.check is not None:
        return _compare(_earlier(args.check), found, stdout)
    refuse_source(args.output)
    refuse_same(args.tools, args.output, "the list of tools")
    with writing(args.output, stdout) as out:
        out.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    if args.output not in (None, "-"):
        write_line(f"wrote {args.output}")
    return Exit.OK


def _tools(reference: str) -> Mapping[str, object]:
    """Return tools by name: of an agent, or of a JSON file with their definitions, such as MCP's ``tools/list``."""
    if reference == "-" or reference.endswith(".json"):
        return _defined(reference)
    from penstock.workflows.agent.agent import Agent
    from penstock.workflows.loading import load_workflow_or_agent

    loaded = load_workflow_or_agent(reference)
    if not isinstance(loaded, Agent):
        raise CommandError(f"{reference} is a workflow, which has no tools; name an agent, or a JSON file of tools")
    return dict(loaded.tools)


def _defined(file: str) -> Mapping[str, object]:
    data = _json(file)
    listed: object = data.get("tools") if is_mapping(data) else data
    if is_mapping(data) and listed is None:
        listed = [{**one, "name": name} for name, one in data.items() if is_mapping(one)]
    if not is_items(listed):
        raise CommandError(f"{file} holds no tools: write a list of definitions, or an object with `tools`")
    tools: dict[str, object] = {}
    for one in listed:
        name = _name_of(one)
        if name is None:
            raise CommandError(f"{file}: a definition of a tool has no name")
        if name in tools:
            raise CommandError(f"{file}: two tools are named {name}")
        tools[name] = one
    return tools


def _name_of(tool: object) -> str | None:
    inside = tool.get("function", tool) if is_mapping(tool) else None
    name = inside.get("name") if is_mapping(inside) else None
    return name if isinstance(name, str) and name else None


def _earlier(file: str) -> Mapping[str, object]:
    data = _json(file)
    if not is_mapping(data) or not all(isinstance(one, str) for one in data.values()):
        raise CommandError(f"{file} holds no pins; `penstock pin … -o {file}` writes them")
    return data


def _json(file: str) -> object:
    try:
        return json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
    except ValueError as error:
        raise CommandError(f"{file} is no JSON: {error}") from error


def _compare(earlier: Mapping[str, object], found: Mapping[str, str], stdout: IO[str]) -> int:
    """Write what differs, a line each, and return the exit code."""
    changes = [
        *[f"changed: {name}" for name in found if name in earlier and earlier[name] != found[name]],
        *[f"without a pin: {name}" for name in found if name not in earlier],
        *[f"gone: {name}" for name in earlier if name not in found],
    ]
    stdout.write("".join(f"{line}\n" for line in changes))
    same = sum(earlier.get(name) == pinned for name, pinned in found.items())
    write_line(f"penstock: {same} of {len(found)} tools are as pinned")
    return Exit.FOUND if changes else Exit.OK
