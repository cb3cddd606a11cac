"""Whether the package stays small enough to read: ceilings on files, functions and `Any`; complexity is ruff's."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "penstock"
MODULES = sorted(PACKAGE.rglob("*.py"))
FILE_LINES = 400
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 8
# May only shrink. STYLE's budget is 40. `Value` in frozen.py, the users' values that are only carried, is one of them.
ANY_IN_ENGINE = 22

each_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length of each function and method of a module, docstring included."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def uses_of_any(path: Path) -> Iterator[str]:
    """Where a module says `Any` or `typing.Any`, quoted aliases included; importing it is free."""
    tree = ast.parse(path.read_text("utf-8"))
    quoted = [
        ast.parse(node.value.value, mode="eval")
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
        if isinstance(node.value, ast.Constant)
    ]
    for node in itertools.chain.from_iterable(map(ast.walk, [tree, *quoted])):
        if (isinstance(node, ast.Name) and node.id == "Any") or (
            isinstance(node, ast.Attribute) and node.attr == "Any"
        ):
            yield f"{path.relative_to(ROOT)}: {node.lineno}"


@each_module
def test_no_file_is_too_long_to_read_in_one_go(path: Path) -> None:
    """400 lines; beyond that a module holds two things."""
    assert len(path.read_text("utf-8").splitlines()) <= FILE_LINES


@each_module
def test_every_module_says_what_it_holds(path: Path) -> None:
    """One sentence on what it holds and what it does not know."""
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@each_module
def test_no_function_is_longer_than_a_screen(path: Path) -> None:
    """60 lines; beyond that a function does two things."""
    assert [name for name, length in functions(path) if length > FUNCTION_LINES] == []


def test_the_usual_function_is_short() -> None:
    """Half of all functions have at most 8 lines."""
    assert median(length for path in MODULES for _, length in functions(path)) <= MEDIAN_FUNCTION_LINES


def test_the_engine_keeps_its_budget_of_any() -> None:
    """Each use is a place that the type checkers cannot see."""
    uses = [use for path in MODULES if path.is_relative_to(PACKAGE / "engine") for use in uses_of_any(path)]
    assert len(uses) <= ANY_IN_ENGINE, "\n".join(uses)
