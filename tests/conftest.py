"""What every test starts from: both event loops and no clock, of hypothesis or of limits; it knows no test."""

import shutil
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["tests.hosts.plugin"]

# pytest-timeout is the fuse; a deadline per example only makes tests fail on a busy machine.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


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
