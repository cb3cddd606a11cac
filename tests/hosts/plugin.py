"""A plugin of pytest for the suite of all frameworks: says which were left out, runs one alone, and writes results.

Options: ``--host NAME`` runs the suite in that framework alone, by the name of its driver; ``--host-results FILE``
writes as JSON what held there: for each case and way ``yes``, ``no``, or ``not offered: `` and the reason.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

LEFT = "framework left out: "
"""What the reason begins with where a framework is not installed."""

LACKS = "not offered: "
"""What the reason begins with where a framework does not offer a case."""

SUITE = "test_it_holds"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("hosts")
    group.addoption("--host", metavar="NAME", help="run the suite of all frameworks in this one alone")
    group.addoption("--host-results", type=Path, metavar="FILE", help="write what held in --host there, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Note results where they are asked for.

    Raises:
        UsageError: the framework that is asked for cannot be imported: all of its tests would be skipped.
    """
    host: str | None = config.getoption("--host", None)
    path: Path | None = config.getoption("--host-results", None)
    if host is None or hasattr(config, "workerinput"):
        return
    try:
        driver = importlib.import_module(f"tests.hosts.drivers.{host}")
    except ImportError as error:
        raise pytest.UsageError(f"the suite cannot run in {host}: {reason_of(error)}") from error
    if path is not None:
        config.pluginmanager.register(Results(host, driver, path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the suite in other frameworks out."""
    host: str | None = config.getoption("--host", None)
    if host is None:
        return
    others = [item for item in items if _host_of(item) not in (None, host)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which frameworks were left out, so that nobody takes a skip for a success."""
    left = dict(sorted(_left(terminalreporter.stats.get("skipped", ()))))
    if not left:
        return
    terminalreporter.section("frameworks left out", sep="!", red=True, bold=True)
    for name, why in left.items():
        terminalreporter.line(f"{name}: {why}", red=True)
    terminalreporter.line(f"The suite did not run in {len(left)} of the frameworks; `make hosts` runs it in all.")


def reason_of(error: ImportError) -> str:
    """Return why a framework cannot be imported: an adapter says which extra it needs, and the cause says why."""
    return f"{error}; {error.__cause__}" if error.__cause__ is not None else str(error)


def _left(reports: object) -> Iterator[tuple[str, str]]:
    for report in reports if isinstance(reports, list) else ():
        where = report.longrepr
        reason = where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else ""
        if reason.startswith(LEFT):
            name, _, why = reason.removeprefix(LEFT).partition(": ")
            yield name, why


def _host_of(item: pytest.Item) -> str | None:
    """Return the framework that a test of the suite runs in; None for other tests."""
    if item.path.parent != Path(__file__).parent or not isinstance(item, pytest.Function):
        return None
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("name")


class Results:
    """Collects what held in one framework, and writes it when the tests have run."""

    def __init__(self, host: str, driver: ModuleType, path: Path) -> None:
        self._host, self._driver, self._path = host, driver, path
        self._cases: dict[str, dict[str, str]] = {}
        self._params: dict[str, tuple[str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which test is which case."""
        for item in items:
            if isinstance(item, pytest.Function) and item.originalname == SUITE and _host_of(item) == self._host:
                self._params[item.nodeid] = (item.callspec.params["case"], item.callspec.params["way"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a case ended."""
        if report.nodeid not in self._params:
            return
        case, way = self._params[report.nodeid]
        ways = self._cases.setdefault(case, {})
        if report.failed:
            ways[way] = "no"
        elif report.skipped and isinstance(report.longrepr, tuple):
            ways[way] = report.longrepr[2].removeprefix("Skipped: ")
        elif report.when == "call":
            ways.setdefault(way, "yes")

    def pytest_sessionfinish(self) -> None:
        """Write the results."""
        driver = self._driver
        made = {
            "name": driver.NAME,
            "package": driver.PACKAGE,
            "version": version(driver.PACKAGE),
            "python": platform.python_version(),
            "stages": offered(getattr(driver, "ADAPTER", self._host)),
            "cases": {case: dict(sorted(ways.items(), reverse=True)) for case, ways in sorted(self._cases.items())},
        }
        self._path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


def offered(host: str) -> dict[str, dict[str, object]]:
    """Return what the adapter of a framework says that it offers: for each function its stages, and retries.

    An adapter that is a package says so in the module of each function.
    """
    from penstock.engine.processor.stages import STAGES
    from penstock.workflows.hosting import HostSupport

    name = f"penstock.workflows.adapters.{host}"
    importlib.import_module(name)
    modules = [module for path, module in list(sys.modules.items()) if path == name or path.startswith(f"{name}.")]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, HostSupport)]
    supports = {each.adapter: each for each in found}
    return {
        name: {"stages": [stage for stage in STAGES if stage in each.stages], "retries": each.retries}
        for name, each in sorted(supports.items())
    }
