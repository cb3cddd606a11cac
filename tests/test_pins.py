"""Whether requirements/ pins what pyproject.toml declares, and nothing that holds on one machine alone."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
EXTRA_OF = {"bench": "bench-peers", "quality": "quality-peers", "docs": "docs", "engines": "engines", "test": "test"}


def requirements_of(lines: Sequence[str]) -> list[Requirement]:
    """Return what lines require here; the extras of our own are opened."""
    found: list[Requirement] = []
    for each in map(Requirement, lines):
        if each.name == "penstock":
            found += requirements_of([one for extra in each.extras for one in EXTRAS[extra]])
        elif each.marker is None or each.marker.evaluate():
            found.append(each)
    return found


def pinned(path: Path) -> dict[str, str]:
    """Return the version of each package that a file installs here, by its normalised name."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {normal(each.name): str(each.specifier).removeprefix("==") for each in requirements_of(lines)}


def normal(name: str) -> str:
    """Return a name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pins_name_versions_and_no_place(path: Path) -> None:
    """The address of an index, or a path, would hold on the machine alone that wrote it; `make pins` writes none."""
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if "/" in line or "--" in line or "@" in line] == []
    assert [line for line in lines if not re.match(r"#|[a-z0-9-]+==[0-9][^ ]*( ; .+)?$", line)] == []


@pytest.mark.parametrize("path", [each for each in FILES if each.stem != "uv"], ids=lambda path: path.stem)
def test_each_declared_dependency_is_pinned_within_its_bounds(path: Path) -> None:
    """A dependency that was added or raised needs `make pins`."""
    versions = pinned(path)
    extra = EXTRA_OF.get(path.stem)
    declared = requirements_of([*PROJECT["dependencies"], *(EXTRAS[extra] if extra is not None else ())])
    missing = [str(each) for each in declared if versions.get(normal(each.name), "") not in each.specifier]
    assert missing == []


def test_every_environment_of_the_makefile_has_its_pins() -> None:
    """Each stamp is made from the file of the same name."""
    names = re.search(r"foreach name,([a-z ]+),", (ROOT / "Makefile").read_text("utf-8"))
    assert names is not None
    assert {*names[1].split(), "uv"} == {path.stem for path in FILES}
