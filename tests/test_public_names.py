"""Whether the public names are what they seem: there, documented, and the same to type checkers as at run time."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.lazy import names_in

SOURCE = Path(penstock.__file__).parent
STUBS = sorted(SOURCE.rglob("__init__.pyi"))
PACKAGES = [".".join(stub.parent.relative_to(SOURCE.parent).parts) for stub in STUBS]
NAMES = [(package, name) for package, stub in zip(PACKAGES, STUBS, strict=True) for name in names_in(str(stub))]
TOP = 81


def test_the_top_of_the_package_stays_small() -> None:
    """What most programs use; the rest is imported from its family."""
    assert len(penstock.__all__) <= TOP


def test_a_package_offers_what_its_stub_lists() -> None:
    """In ``__all__`` and ``dir``, each name from the module that type checkers see it come from."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        listed = names_in(f"{module.__file__}i")
        assert sorted(module.__all__) == sorted(dir(module)), package
        assert set(module.__all__) - {"__version__"} == set(listed), package
        for name, home in listed.items():
            assert getattr(module, name) is getattr(importlib.import_module(home), name), (package, name)


def test_every_public_name_has_a_docstring() -> None:
    """A newcomer who asks for help gets some."""
    values = {(package, name): getattr(importlib.import_module(package), name) for package, name in NAMES}
    documented = {key: value for key, value in values.items() if isinstance(value, type) or inspect.isfunction(value)}
    assert [key for key, value in documented.items() if not (value.__doc__ or "").strip()] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module."""
    with pytest.raises(AttributeError, match="penstock has no 'Wrokflow'"):
        penstock.Wrokflow  # noqa: B018 - the look-up is the point


def test_importing_penstock_loads_nothing() -> None:
    """The package costs nothing until a name is used; heavy libraries wait longer still."""
    code = (
        "import sys, penstock; assert {m for m in sys.modules if m.startswith('penstock.')} == {'penstock.lazy'};"
        "from penstock import Workflow;"
        "heavy = {'anyio', 'asyncio', 'networkx', 'pydantic', 'rich', 'tiktoken', 'trio'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_an_agent_loads_no_event_loop_and_no_pydantic() -> None:
    """They wait for the first request and the first tool."""
    code = (
        "import sys; from penstock import Agent, Tool;"
        "heavy = {'asyncio', 'httpx', 'networkx', 'pydantic', 'pydantic_core', 'rich', 'tiktoken'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "Tool(lambda text: text, name='show');"
        "assert 'pydantic' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
