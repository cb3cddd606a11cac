"""Whether the code stays readable where a test can tell: docstrings of modules, long functions, and uses of `Any`.

How files are cut is no matter of a test: `make house` shows what grew.
"""

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.rest  # it parses all modules

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "penstock"
MODULES = sorted(PACKAGE.rglob("*.py"))
FUNCTION_LINES = 60
# May only shrink. `Value` (values/frozen.py) is `Any` under a name that says whose it is: the user's, only carried.
# 52 of them stand in the wire formats of five frameworks, whose JSON nobody has checked yet.
UNTYPED = {"Any", "Value"}
UNTYPED_IN_ENGINE = 390


class Figures(NamedTuple):
    """What the tests ask about a module; its syntax tree is let go, because the collector would walk it again."""

    documented: bool
    functions: list[tuple[str, int]]
    untyped: list[str]


@cache
def figures_of(path: Path) -> Figures:
    """Parse a module."""
    tree = ast.parse(path.read_text("utf-8"))
    in_engine = path.is_relative_to(PACKAGE / "engine")
    return Figures(bool(ast.get_docstring(tree)), [*functions(path, tree)], [*untyped(path, tree)] if in_engine else [])


def functions(path: Path, tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and length of each function and method of a module, without its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            docstring = node.body[0] if ast.get_docstring(node) else None
            documented = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", length - documented


def untyped(path: Path, tree: ast.Module) -> Iterator[str]:
    """Where a module says `Any` or `Value`, quoted aliases included; importing them is free."""
    quoted = [
        ast.parse(node.value.value, mode="eval")
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias"
        if isinstance(node.value, ast.Constant)
    ]
    for node in itertools.chain.from_iterable(map(ast.walk, [tree, *quoted])):
        if (isinstance(node, ast.Name) and node.id in UNTYPED) or (
            isinstance(node, ast.Attribute) and node.attr == "Any"
        ):
            yield f"{path.relative_to(ROOT)}: {node.lineno}"


def test_every_module_says_what_it_holds() -> None:
    """In words that one would search for."""
    silent = [path for path in MODULES if not figures_of(path).documented]
    assert silent == []


def test_no_function_is_longer_than_a_screen() -> None:
    """60 lines; beyond that a function does two things."""
    long = [name for path in MODULES for name, length in figures_of(path).functions if length > FUNCTION_LINES]
    assert long == []


def test_the_engine_keeps_its_budget_of_untyped_values() -> None:
    """Each use is a place that the type checkers cannot see."""
    uses = [use for path in MODULES for use in figures_of(path).untyped]
    assert uses
    assert len(uses) <= UNTYPED_IN_ENGINE, "\n".join(uses)
