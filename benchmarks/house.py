"""How the house stands: files, floors, rooms that a request enters, names for one thing. A mirror, not a gate.

`make house` prints each figure beside the ones that the project started this wave with (commit bbc816b) and those of
libraries that it learns from, all measured by the same rules. What should only shrink: floors, rooms that a trip
enters, names that stand twice, modules with one importer, import lines.
"""

from __future__ import annotations

import ast
import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import mean, median
from types import FrameType
from typing import NamedTuple

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
TEXT = "Write to ada@example.com, please."
BEFORE = "bbc816b"


class Module(NamedTuple):
    """A module of the package, parsed."""

    name: str
    tree: ast.Module
    lines: int


class Figure(NamedTuple):
    """A figure of today, the same one before, and what others have."""

    what: str
    now: str
    before: str
    others: str


# The package, read as text ------------------------------------------------------------------------------------------


def modules(folder: Path) -> dict[str, Module]:
    """Return the modules below a folder by their dotted names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Module(name, ast.parse(text), len(text.splitlines()))
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


def of_the_package() -> list[Figure]:
    """Return the figures that are read off the source."""
    known = modules(PACKAGE)
    engine = {name: module for name, module in known.items() if name.startswith("penstock.engine")}
    rooms = arrows_between(engine, depth=3)
    rooms.pop("penstock.engine", None)
    packages = {name for name in known if (PACKAGE.parent / name.replace(".", "/")).is_dir()}
    single = with_one_importer(known, packages)
    alone = len(single) / (len(known) - len(packages))
    lengths = [(node.end_lineno or 0) - node.lineno + 1 for module in known.values() for node in functions(module)]
    lines = sum(module.lines for module in known.values())
    middle = median(module.lines for module in known.values())
    once = used_once(known)
    share = sum(map(import_lines, known.values())) / lines
    return [
        Figure("files", f"{len(known)}", "530", "structlog 21, anyio 46, langgraph 79"),
        Figure("lines", f"{lines:,}", "65,901", "langgraph 29,098"),
        Figure("files of the engine", f"{len(engine)}", "125", "pydantic_graph 14"),
        Figure("floors that they stand on", f"{floors(arrows_between(engine))}", "31", ""),
        Figure("rooms of the engine", f"{len(rooms)}", "125", ""),
        Figure("floors that those stand on", f"{floors(rooms)}", "31", ""),
        Figure("median lines of a file", f"{middle:.0f}", "109", "142 to 245"),
        Figure("mean lines of a function", f"{mean(lengths):.1f}", "8", "10 to 23"),
        Figure("import lines", f"{share:.1%}", "8.7 %", "4 to 6 %"),
        Figure("modules with one importer", f"{len(single)} ({alone:.0%})", "170 (35 %)", "15 to 35 %"),
        Figure("private functions used once", f"{once} ({once / len(lengths):.0%} of all)", "1237 (28 %)", "2 to 16 %"),
        Figure("names of classes in several modules", f"{len(named_twice(known))}", "48", ""),
        Figure("public names at the top", f"{len(penstock.__all__)}", "177", "structlog 31, pydantic_graph 32"),
    ]


# Trips through it, traced -------------------------------------------------------------------------------------------


class Trace:
    """Counts the calls of a trip, and the rooms (modules) that it enters."""

    def __init__(self) -> None:
        self.rooms: Counter[str] = Counter()
        self.calls = 0
        self._at = ""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call or a return; what `sys.setprofile` calls."""
        if event == "call" and self._is_ours(frame):
            self.calls += 1
            self._enter(frame)
        elif event == "return" and frame.f_back is not None and self._is_ours(frame.f_back):
            self._enter(frame.f_back)

    @staticmethod
    def _is_ours(frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(str(PACKAGE))

    def _enter(self, frame: FrameType) -> None:
        room = frame.f_code.co_filename
        if room != self._at:
            self.rooms[room] += 1
            self._at = room


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


async def chunk(workflow: Graph) -> Trace:
    """Trace a chunk on its way through a stream that is open."""
    source = [Chunk("text-delta", text, "1") for text in ("Write ", "to ", "ada@example.com, ", "please.")]
    async with workflow.start().process_output_stream(source) as chunks:
        pulled = aiter(chunks)
        await anext(pulled)
        return await traced(lambda: anext(pulled))


async def traced(work: Callable[[], Awaitable[object]]) -> Trace:
    """Trace a trip."""
    trace = Trace()
    sys.setprofile(trace)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return trace


async def of_trips() -> list[Figure]:
    """Return the figures of the trips, each taken after three that load and compile what it needs."""
    idle, full, plain = Graph("idle").then(Idle()), guard(), Graph("plain").then(Pass())

    async def request() -> object:
        return await Agent(ScriptedModel(["Hello there."]), processors=[full]).generate(TEXT)

    trips: list[tuple[str, str, Callable[[], Awaitable[Trace]]]] = [
        ("check, a step that does nothing", "82 calls, 18 rooms", lambda: traced(lambda: idle.check(TEXT))),
        ("check, a guard of three", "413 calls, 48 rooms", lambda: traced(lambda: full.check(TEXT))),
        ("a chunk through a plain hook", "6 calls, 5 rooms", lambda: chunk(plain)),
        ("a chunk through a guard of three", "81 calls, 18 rooms", lambda: chunk(full)),
        ("a request of an agent, guarded", "5,082 calls, 97 rooms", lambda: traced(request)),
    ]
    figures = []
    for name, before, take in trips:
        for _ in range(3):
            await take()
        trace = await take()
        figures.append(Figure(name, f"{trace.calls:,} calls, {len(trace.rooms)} rooms", before, ""))
    return figures


def main() -> None:
    """Print the figures."""
    table = Table("", "now", f"before ({BEFORE})", "others")
    for figure in [*of_the_package(), *asyncio.run(of_trips())]:
        table.add_row(*figure)
    console = Console()
    console.print(table)
    for name, places in named_twice(modules(PACKAGE)).items():
        console.print(f"{name}: {', '.join(places)}", style="dim")


if __name__ == "__main__":
    main()
