"""What every test starts from: both event loops and no clock, of hypothesis or of limits; and what `make test` leaves.

Tests with the marker ``rest`` are left to `make test-rest`: those that start many processes, browsers or servers, that
prove a proof, or that repeat on trio what has been shown on asyncio. Laws run in both: with a quarter of their examples
in `make test` (hypothesis's profile ``quick``), with all in `make test-rest` (the marker ``hypothesis``, which
hypothesis adds); of those with seeds, `make test-rest` has the other three quarters. Plain ``pytest`` runs everything.
"""

import gc
import shutil
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import settings

from tests.laws import ALL, QUICK

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["tests.hosts.plugin"]

# pytest-timeout is the fuse; a deadline per example only makes tests fail on a busy machine.
settings.register_profile("penstock", deadline=None, max_examples=ALL)
settings.register_profile("quick", deadline=None, max_examples=QUICK)
settings.load_profile("penstock")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave browsers and the second event loop to `make test-rest`."""
    for item in items:
        callspec: pytest.CallSpec2 | None = getattr(item, "callspec", None)
        second_loop = callspec is not None and callspec.params.get("anyio_backend") == "trio"
        if second_loop or "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("rest")


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
