"""The suite, in each framework that is installed here. What is left out is said at the end; `make hosts` runs all."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.hosts import cases, contract, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.plugin import LACKS, LEFT, offered, reason_of

NAMES = sorted(path.stem for path in (Path(__file__).parent / "drivers").glob("[a-z]*.py"))
WAYS = {"whole": False, "streamed": True}


@pytest.fixture
def anyio_backend() -> str:
    """Frameworks run on asyncio."""
    return "asyncio"


def driver(name: str) -> ModuleType:
    """Return the driver of a framework; skip where the framework is not installed."""
    try:
        return importlib.import_module(f"tests.hosts.drivers.{name}")
    except ImportError as error:
        pytest.skip(f"{LEFT}{name}: {reason_of(error)}")


def lacking(found: ModuleType, case: str, way: str) -> str | None:
    """Return why a framework does not offer a case, or None."""
    lacks: dict[str, str] = found.LACKS
    return lacks.get(f"{case}, {way}", lacks.get(case))


@pytest.mark.parametrize("way", [pytest.param("whole", marks=pytest.mark.rest), "streamed"])
@pytest.mark.parametrize("case", cases.CASES)
@pytest.mark.parametrize("name", NAMES)
async def test_it_holds(name: str, case: str, way: str) -> None:
    """With us."""
    found = driver(name)
    why = lacking(found, case, way)
    if why is not None:
        pytest.skip(f"{LACKS}{why}")
    await cases.CASES[case](found, WAYS[way])  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", sorted(cases.LEAKS))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.rest
async def test_the_framework_alone_leaks(name: str, case: str, way: str) -> None:
    """Without us, so that the case proves something."""
    found = driver(name)
    if lacking(found, case, way) is not None:
        pytest.skip(f"{LACKS}see above")

    class Alone:
        """The driver, without guards."""

        async def run(self, job: contract.Job) -> Any:
            job.guards, job.options = (), {}
            return await found.run(job)

    with pytest.raises(AssertionError):
        await cases.CASES[case](Alone(), WAYS[way])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_case_that_is_lacking_exists(name: str) -> None:
    """A reason without a case would hide nothing."""
    found = driver(name)
    known = {*cases.CASES, *(f"{case}, {way}" for case in cases.CASES for way in WAYS)}
    assert set(found.LACKS) <= known
    try:
        version(found.PACKAGE)
    except PackageNotFoundError:
        pytest.fail(f"{found.PACKAGE} is not the name of a distribution")


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_says_which_stages_it_offers(name: str) -> None:
    """The table of stages would lack its functions."""
    adapter = getattr(driver(name), "ADAPTER", name)
    found = offered(adapter)
    assert found
    assert all(function.startswith(f"{adapter}.") and each["stages"] for function, each in found.items())
