"""Opening a page in a browser as its reader does, from a disk, and noting what must not happen."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


@contextmanager
def opened(
    browser: Browser, file: Path, *, at: str = "", width: int = 1280, height: int = 800, dark: bool = False
) -> Iterator[Page]:
    """Open a file, and check at the end that nothing was fetched and nothing went wrong."""
    scheme = "dark" if dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(f"{said.type}: {said.text}") if said.type != "log" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url[:80]) if _leaves(request.url, file) else None)
    page.goto(f"{file.as_uri()}{at}")
    page.wait_for_selector("#page main")
    try:
        yield page
        assert wrong == []
    finally:
        page.close()


def _leaves(url: str, file: Path) -> bool:
    return not url.startswith(("data:", file.as_uri()))


def nameless(page: Page) -> list[str]:
    """Return what can be used, and has no name that a screen reader could say."""
    return page.evaluate(
        """() => {
            const name = (one) => one.ariaLabel ?? one.closest("label")?.textContent ?? one.textContent;
            const all = document.querySelectorAll("button, a[href], input, select, [role=button], [role=region]");
            return [...all].filter((one) => !name(one).trim()).map((one) => one.outerHTML.slice(0, 200));
        }"""
    )


def too_wide(page: Page) -> bool:
    """Return whether the page has to be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))
