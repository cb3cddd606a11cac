"""Names of a package that load when they are used."""

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

import penstock
from penstock.lazy import names_in

STUBS = sorted(Path(penstock.__file__).parent.rglob("__init__.pyi"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package whose stub lists two names, one of them from a module that is not there."""
    folder = tmp_path / "parcel"
    folder.mkdir()
    (folder / "home.py").write_text("Name = object()\n", "utf-8")
    (folder / "__init__.pyi").write_text(
        "from parcel.ghost import Other as Other\nfrom parcel.home import Name as Name\n", "utf-8"
    )
    (folder / "__init__.py").write_text(
        "from penstock.lazy import lazily\n\n__getattr__, __dir__, __all__ = lazily(__name__, __file__)\n", "utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("parcel", "parcel.home"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("parcel")


def test_a_name_is_what_its_module_has(package: ModuleType) -> None:
    """It is looked up once: what the module calls so later is another matter."""
    before = package.Name
    assert sys.modules["parcel.home"].Name is before
    sys.modules["parcel.home"].Name = object()
    assert package.Name is before


def test_a_name_that_the_stub_does_not_list_is_an_attribute_error(package: ModuleType) -> None:
    """As in any module; so `hasattr` and `from … import` do what they always do."""
    with pytest.raises(AttributeError, match="parcel has no 'Nmae'"):
        _ = package.Nmae
    assert not hasattr(package, "Nmae")


def test_a_module_that_cannot_be_imported_is_no_missing_name(package: ModuleType) -> None:
    """Whoever asks learns what is not installed."""
    with pytest.raises(ImportError):
        _ = package.Other


def test_what_is_shown_of_a_package_are_its_public_names(package: ModuleType) -> None:
    """In order, whether they are loaded or not, and nothing else."""
    assert dir(package) == ["Name", "Other"] == package.__all__


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_a_stub_is_read_as_python_reads_it(stub: Path) -> None:
    """On one line or several, with any number of names."""
    imports = [node for node in ast.parse(stub.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)]
    assert names_in(str(stub)) == {alias.name: node.module for node in imports for alias in node.names}
