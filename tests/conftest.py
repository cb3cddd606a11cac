"""What every test starts from: both event loops and hypothesis without a clock; it knows nothing of what is tested."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
