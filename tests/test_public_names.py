"""Whether the public names are what they seem: there, documented, and the same to type checkers as at run time."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__)
NAMES = [name for name in penstock.__all__ if name != "__version__"]


def seen_by_type_checkers() -> dict[str, str]:
    """Each name that the module imports for type checkers, with the module it comes from."""
    block = next(node for node in ast.parse(SOURCE.read_text("utf-8")).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: node.module for node in imports for alias in node.names}


def test_type_checkers_see_what_is_loaded() -> None:
    """The imports for type checkers and the table of homes name the same things."""
    assert seen_by_type_checkers() == penstock._HOME_OF


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
