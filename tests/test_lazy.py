"""Names of a package that load when they are used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from penstock.engine.lazy import lazily


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of two modules, of which one is broken."""
    package, home = ModuleType("parcel"), ModuleType("parcel.home")
    home.Name = object()
    package.__all__ = ["Other", "Name"]
    package.__getattr__, package.__dir__ = lazily("parcel", home=["Name"], ghost=["Other"])
    monkeypatch.setitem(sys.modules, "parcel", package)
    monkeypatch.setitem(sys.modules, "parcel.home", home)
    return package


def test_a_name_is_what_its_module_has(package: ModuleType) -> None:
    """It is looked up once: what the module calls so later is another matter."""
    before = sys.modules["parcel.home"].Name
    assert package.Name is before
    sys.modules["parcel.home"].Name = object()
    assert package.Name is before


def test_a_name_that_no_module_is_home_to_is_an_attribute_error(package: ModuleType) -> None:
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
    assert dir(package) == ["Name", "Other"]
