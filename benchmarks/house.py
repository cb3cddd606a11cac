"""The structure of the package in figures: lines, floors, files that a request enters, names for one thing, words.

`make house` prints each figure beside the last recorded one (`house.json` in this folder) and those of libraries that
the project learns from, measured by the same rules. The figures marked with ↓ may only shrink: tests/test_house.py
fails if one grows. `make house ARGS=--record` records the figures of today.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import io
import json
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import mean, median
from types import FrameType
from typing import NamedTuple

from prose import Documented, Prose, counted, docstrings, of_first_lines, of_pages
from rich.console import Console
from rich.table import Table

import penstock
from penstock import (
    Agent,
    Chunk,
    InputContext,
    OutputStreamContext,
    Processor,
    RegexFilterProcessor,
    UnicodeNormalizer,
    Workflow as Graph,
)
from penstock.testing import ScriptedModel

PACKAGE = Path(penstock.__file__).parent
DOCS = PACKAGE.parent / "docs"
RECORD = Path(__file__).with_name("house.json")
TEXT = "Write to ada@example.com, please."


class Module(NamedTuple):
    """A module of the package, parsed."""

    name: str
    text: str
    tree: ast.Module
    lines: int


class Figure(NamedTuple):
    """A figure of today.

    Attributes:
        name: what is counted.
        now: the figure.
        others: the figures of other libraries, in words.
    """

    name: str
    now: float
    others: str = ""


# The package, read as text ------------------------------------------------------------------------------------------


def modules(folder: Path) -> dict[str, Module]:
    """Return the modules below a folder by their dotted names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Module(name, text, ast.parse(text), len(text.splitlines()))
    return found


def imported(module: Module, known: dict[str, Module]) -> set[str]:
    """Return the known modules that a module imports, wherever in it: for types and within functions, too."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & known.keys()
            found |= inside or ({node.module} & known.keys())
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & known.keys()
    return found - {module.name}


def arrows_between(known: dict[str, Module], depth: int | None = None) -> dict[str, set[str]]:
    """Return what each module imports; with a depth, what each package does (``penstock.engine.run`` is at 3)."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in known.values():
        room = ".".join(module.name.split(".")[:depth])
        found[room] |= {".".join(name.split(".")[:depth]) for name in imported(module, known)} - {room}
    return found


def floors(arrows: dict[str, set[str]]) -> int:
    """Return how many floors these stand on: each stands above all that it imports."""
    levels: dict[str, int] = {}

    def level(name: str, trail: tuple[str, ...]) -> int:
        if name not in levels:
            below = [level(other, (*trail, name)) for other in sorted(arrows[name]) if other not in (*trail, name)]
            levels[name] = 1 + max(below, default=0)
        return levels[name]

    return max(level(name, ()) for name in sorted(arrows))


def with_one_importer(known: dict[str, Module], packages: set[str]) -> list[str]:
    """Return the modules that one other imports; packages, which only hand names on, count on neither side."""
    found: Counter[str] = Counter()
    for module in known.values():
        if module.name not in packages:
            found.update(imported(module, known))
    return [name for name in known if found[name] == 1 and name not in packages]


def import_lines(module: Module) -> int:
    """Return how many lines the imports of a module take."""
    nodes = [node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions and methods of a module."""
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def used_once(known: dict[str, Module]) -> int:
    """Return how many private functions and methods are named once in their module, beside their definition."""
    once = 0
    for module in known.values():
        nodes = list(ast.walk(module.tree))
        uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
        names = [node.name for node in functions(module)]
        once += sum(name.startswith("_") and not name.startswith("__") and uses[name] == 1 for name in names)
    return once


def named_twice(known: dict[str, Module]) -> dict[str, list[str]]:
    """Return the names of classes that stand in several modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in known.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module.name)
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def code_lines(module: Module) -> int:
    """Return how many lines of a module hold code: no comment, no docstring, not blank."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in _NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held) - sum(
        (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
        for node in ast.walk(module.tree)
        if isinstance(node, Documented) and ast.get_docstring(node) is not None
    )


_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def untyped(module: Module) -> int:
    """Return how often a module says ``Any``; importing it is free."""
    nodes = ast.walk(module.tree)
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def tenth(prose: Prose) -> float:
    """Return the rate of clauses to a tenth."""
    return round(prose.rate, 1)


def that_only_shrink(known: dict[str, Module]) -> list[Figure]:
    """Return the figures of names, types and words, which may only shrink."""
    words = docstrings(module.tree for module in known.values())
    return [
        Figure("names of classes in several modules", len(named_twice(known)), others="0 to 17"),
        Figure("uses of Any", sum(map(untyped, known.values())), others="langgraph 920, haystack 1,264"),
        Figure("what-clauses: docs, in 100 sentences", tenth(of_pages(DOCS)), others="0 to .8"),
        Figure("what-clauses: docstrings, in 100 sentences", tenth(counted(words)), others="0 to .8"),
        Figure("what-clauses: docstrings, in 100 first lines", tenth(of_first_lines(words))),
    ]


def of_the_package(known: dict[str, Module]) -> list[Figure]:
    """Return the other figures that are read off the source."""
    engine = {name: module for name, module in known.items() if name.startswith("penstock.engine")}
    rooms = arrows_between(engine, depth=3)
    rooms.pop("penstock.engine", None)
    packages = {name for name in known if (PACKAGE.parent / name.replace(".", "/")).is_dir()}
    single = with_one_importer(known, packages)
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for module in known.values() for node in functions(module)]
    lines = sum(module.lines for module in known.values())
    return [
        Figure("files", len(known), others="structlog 21, anyio 46, langgraph 79"),
        Figure("lines", lines, others="langgraph 29,110, haystack 57,567"),
        Figure("files of the engine", len(engine), others="pydantic_graph 14"),
        Figure("lines of the engine", sum(module.lines for module in engine.values())),
        Figure("code lines of the engine", sum(map(code_lines, engine.values()))),
        Figure("floors that its files stand on", floors(arrows_between(engine))),
        Figure("rooms of the engine", len(rooms)),
        Figure("floors that those stand on", floors(rooms)),
        Figure("median lines of a file", median(module.lines for module in known.values()), others="137 to 245"),
        Figure("mean lines of a function", round(mean(lengths), 1), others="8 to 20"),
        Figure("import lines, %", round(100 * sum(map(import_lines, known.values())) / lines, 1), others="4 to 6"),
        Figure("modules with one importer", len(single), others="13 to 35 % of the modules"),
        Figure("private functions used once", used_once(known), others="2 to 15 % of the functions"),
        Figure("public names at the top", len(penstock.__all__), others="structlog 31, pydantic_graph 32"),
    ]


# Trips through it, traced -------------------------------------------------------------------------------------------


class Trip:
    """Counts the calls of a trip, the files that it enters, and how deep its calls are nested."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls = 0
        self.depth = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call; what `sys.setprofile` calls."""
        if event != "call" or not self._is_ours(frame):
            return
        self.calls += 1
        self.files.add(frame.f_code.co_filename)
        depth, outer = 0, frame
        while outer is not None:
            depth += self._is_ours(outer)
            outer = outer.f_back
        self.depth = max(self.depth, depth)

    @staticmethod
    def _is_ours(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(str(PACKAGE))


class Idle(Processor):
    """Does nothing."""

    def process_input(self, ctx: InputContext) -> None:
        """Change nothing."""


class Pass(Processor):
    """Lets every chunk pass."""

    edits = "nothing"
    role = "transform"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Return the chunk."""
        del ctx
        return chunk


def guard() -> Graph:
    """Return the guard of the README: a step, and two beside each other."""
    return (
        Graph("guard")
        .then(UnicodeNormalizer())
        .parallel(
            RegexFilterProcessor(presets=["pii"], strategy="redact", id="pii"),
            RegexFilterProcessor(presets=["secrets"], strategy="block", id="secrets"),
        )
    )


async def chunk(workflow: Graph) -> Trip:
    """Trace a chunk on its way through a stream that is open."""
    source = [Chunk("text-delta", text, "1") for text in ("Write ", "to ", "ada@example.com, ", "please.")]
    async with workflow.start().process_output_stream(source) as chunks:
        pulled = aiter(chunks)
        await anext(pulled)
        return await traced(lambda: anext(pulled))


async def traced(work: Callable[[], Awaitable[object]]) -> Trip:
    """Trace a trip."""
    trip = Trip()
    sys.setprofile(trip)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return trip


async def of_trips() -> list[Figure]:
    """Return the figures of the trips, each taken after three that load and compile what it needs."""
    idle, full, plain = Graph("idle").then(Idle()), guard(), Graph("plain").then(Pass())

    agent = Agent(ScriptedModel(["Hello there."] * 4), processors=[full])
    trips: list[tuple[str, Callable[[], Awaitable[Trip]]]] = [
        ("check, a step that does nothing", lambda: traced(lambda: idle.check(TEXT))),
        ("check, a guard of three", lambda: traced(lambda: full.check(TEXT))),
        ("a chunk through a plain hook", lambda: chunk(plain)),
        ("a chunk through a guard of three", lambda: chunk(full)),
        ("a request of an agent, guarded", lambda: traced(lambda: agent.generate(TEXT))),
    ]
    figures = []
    for name, take in trips:
        for _ in range(3):
            await take()
        trip = await take()
        figures += [
            Figure(f"{name}: files", len(trip.files)),
            Figure(f"{name}: calls", trip.calls),
            Figure(f"{name}: depth", trip.depth),
        ]
    return figures


def recorded() -> dict[str, float]:
    """Return the last recorded figures by name."""
    found: dict[str, float] = json.loads(RECORD.read_text("utf-8"))
    return found


def grown() -> list[str]:
    """Return the figures that may only shrink and are larger than the recorded ones, in words."""
    last = recorded()
    return [
        f"{figure.name}: {last[figure.name]:,g}, now {figure.now:,g}"
        for figure in that_only_shrink(modules(PACKAGE))
        if figure.now > last[figure.name]
    ]


def main() -> None:
    """Print the figures, or record them."""
    parser = argparse.ArgumentParser(prog="make house", description=__doc__)
    parser.add_argument("--record", action="store_true", help="record the figures of today as the last ones")
    given = parser.parse_args()
    known, last = modules(PACKAGE), recorded()
    shrinking = that_only_shrink(known)
    found = [*shrinking, *of_the_package(known), *asyncio.run(of_trips())]
    table = Table("", "", "now", "last", "others")
    for figure in found:
        before = f"{last[figure.name]:,g}" if figure.name in last else ""
        table.add_row("↓" if figure in shrinking else "", figure.name, f"{figure.now:,g}", before, figure.others)
    console = Console()
    console.print(table)
    for name, places in named_twice(known).items():
        console.print(f"{name}: {', '.join(places)}", style="dim")
    if given.record:
        RECORD.write_text(json.dumps({figure.name: figure.now for figure in found}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
