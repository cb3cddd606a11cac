"""What every test starts from: both event loops and no clock, of hypothesis or of limits; and what `make test` leaves.

Tests with the marker ``rest`` are left to `make test-rest`: those that start many processes, browsers or servers, that
prove a proof, or that repeat what others show. The second event loop repeats what the first one shows, and a product of
parameters repeats each of their values; tests/laws.py has the numbers. Laws run in both: with a part of their examples
in `make test` (hypothesis's profile ``quick``), with half in `make test-rest` (the marker ``hypothesis``, which
hypothesis adds); of those with seeds, `make test-rest` has the other three quarters. Plain ``pytest`` runs both.
"""

import gc
import itertools
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import settings

from tests.laws import ALL, QUICK, REST, repeated

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["tests.hosts.plugin"]

# pytest-timeout is the fuse; a deadline per example only makes tests fail on a busy machine.
settings.register_profile("penstock", deadline=None, max_examples=ALL)
settings.register_profile("rest", deadline=None, max_examples=REST)
settings.register_profile("quick", deadline=None, max_examples=QUICK)
settings.load_profile("penstock")


Cases = defaultdict[str, list[pytest.Item]]
"""The cases of tests, by their names."""

ROOT = Path(__file__).parent
ENGINE = ("engine/", "conformance/")
"""Where tests show what the engine does: those run on both event loops."""
MEASURED = (
    *ENGINE,
    "formats/",
    "models/judges/",
    "pictures/",
    "processors/",
    "tools/",
    "workflows/agent/",
    "workflows/coverage/",
    "workflows/gateway/test_chat.py",
    "workflows/hosting/",
    "workflows/presets/",
    "workflows/review/",
    "workflows/rows/",
    "workflows/telemetry/",
    "workflows/test_",
)
"""Where tests reach lines of the engine; pytest-cov measures no others, because its tracer doubles their time."""
DIFFERING = ("hosts/",)
"""Where no case repeats others: each framework has its own way to each of them."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave browsers, repeated cases and the second event loop to `make test-rest`, and most of that loop out."""
    first: Cases = defaultdict(list)
    second: Cases = defaultdict(list)
    on_first = {name_of(item) for item in items if parameters(item).get("anyio_backend") == "asyncio"}
    for item in items:
        if not place_of(item).startswith(MEASURED):
            item.add_marker("no_cover")
        if parameters(item).get("anyio_backend") == "trio":
            second[name_of(item)].append(item)
        elif "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("rest")
        elif item.get_closest_marker("rest") is None:
            first[name_of(item)].append(item)
    for cases in first.values():
        for item in () if place_of(cases[0]).startswith(DIFFERING) else repeated(cases, values_of):
            item.add_marker("rest")
    left_out = {one for name in on_first & {*second} for one in left_out_of_the_second_loop(second[name])}
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in itertools.chain(*second.values()):
        item.add_marker("rest")


def left_out_of_the_second_loop(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return what no run needs there: what `make test` leaves on the first loop, and outside the engine all but one."""
    quick = [item for item in cases if item.get_closest_marker("rest") is None]
    if not quick or not place_of(cases[0]).startswith(ENGINE):
        return cases[1:]
    kept = {*quick} - {*repeated(quick, values_of)}
    return [item for item in cases if item not in kept]


def place_of(item: pytest.Item) -> str:
    """Return the path of a test's file, within these tests."""
    return item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""


def name_of(item: pytest.Item) -> str:
    """Return the name of a test without its parameters."""
    return item.nodeid.partition("[")[0]


def parameters(item: pytest.Item) -> dict[str, object]:
    """Return the parameters of a test."""
    callspec: pytest.CallSpec2 | None = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def values_of(item: pytest.Item) -> list[tuple[str, int]]:
    """Return which value each parameter of a test has; the cases of a test share the values."""
    return [(name, id(value)) for name, value in parameters(item).items() if name != "anyio_backend"]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their parameter: those with a time in them, as of gzip, named a test differently in each worker."""
    return argname if isinstance(val, bytes) else None


def pytest_collection() -> None:
    """Collect tests without the garbage collector: what is made stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take all that stands by now, modules and tests, out of the collector's sight: else each full pass walks it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run every async test on both event loops."""
    return request.param


@pytest.fixture
def time_is_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that ends the time limit around its caller; before, none ends, however slow the machine."""
    around: ContextVar[anyio.CancelScope] = ContextVar("around")

    def move_on_after(delay: float | None, **given: bool) -> anyio.CancelScope:
        del delay
        around.set(scope := anyio.CancelScope(**given))
        return scope

    monkeypatch.setattr(anyio, "move_on_after", move_on_after)
    return lambda: around.get().cancel()


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """A headless browser, for modules whose tests open pages; skips where Chromium or Playwright is missing.

    Playwright's loop runs in the thread of the tests, so no async test may stand in such a module.
    """
    if CHROMIUM is None:
        pytest.skip("the pages cannot be opened: Chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="the pages cannot be opened: no Playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()
