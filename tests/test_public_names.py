"""Whether the public names are what they seem: there, documented, and the same to type checkers as at run time."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__)
NAMES = [name for name in penstock.__all__ if name != "__version__"]
LAZY = [
    ".".join(path.parent.relative_to(SOURCE.parents[1]).parts)
    for path in sorted(SOURCE.parent.rglob("__init__.py"))
    if "lazily(" in path.read_text("utf-8")
]


def imports_of(body: list[ast.stmt]) -> dict[str, str]:
    """Each name that these statements import, with the module it comes from."""
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module for node in imports for alias in node.names}


def seen_by_type_checkers(source: str) -> dict[str, str]:
    """Each name that a module imports for type checkers, with the module it comes from."""
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    return imports_of(block.body)


def test_type_checkers_see_what_is_loaded() -> None:
    """The imports for type checkers and the table of homes name the same things."""
    assert seen_by_type_checkers(SOURCE.read_text("utf-8")) == penstock._HOME_OF


@pytest.mark.parametrize("package", LAZY)
def test_a_package_loads_what_type_checkers_see(package: str) -> None:
    """Under the same name, from the same module; and all of it is public."""
    module = importlib.import_module(package)
    source = Path(module.__file__).read_text("utf-8")
    seen = seen_by_type_checkers(source)
    for name, home in seen.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
    at_once = imports_of(ast.parse(source).body).keys() - {"TYPE_CHECKING", "lazily"}
    assert sorted(seen.keys() | at_once) == sorted(module.__all__) == dir(module)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    """A newcomer who asks for help gets some."""
    value = getattr(penstock, name)
    assert (getattr(value, "__doc__", None) or "").strip() or not callable(value)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="penstock has no 'Wrokflow'"):
        penstock.Wrokflow  # noqa: B018 - the look-up is the point


def test_importing_penstock_loads_nothing() -> None:
    """The package costs nothing until a name is used; heavy libraries wait longer still."""
    code = (
        "import sys, penstock; assert not [m for m in sys.modules if m.startswith('penstock.')];"
        "from penstock import Workflow;"
        "heavy = {'networkx', 'pydantic', 'rich', 'tiktoken', 'trio'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
