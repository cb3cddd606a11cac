"""A studio in a process of its own, and a browser that looks at it: Debian's Chromium, driven by Playwright."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

SAMPLES = Path(__file__).parent / "samples"
REFERENCES = (
    "support.py:guard",
    "support.py:agent",
    "support.py:long",
    "changing.py:flow",
    "broken.py:flow",
    "waiting.py:flow",
    "hostile.py:flow",
    "refunds.py:agent",
    "refunds.py:desk",
)
MISSING = "the pages cannot be opened"
REFUSALS = re.compile(r"status of (404|409|413|422)|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY")
"""What Chromium logs by itself of answers that are errors; the page shows those in its own words."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that the pages were not tested."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(MISSING in str(report.longrepr) for report in skipped):
        terminalreporter.write_sep("!", "THE PAGES WERE NOT TESTED: there is no Chromium", red=True)


@dataclass
class Studio:
    """A studio that serves a folder with copies of the samples."""

    url: str
    folder: Path
    process: "subprocess.Popen[bytes]"


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Studio]:
    """Serve a copy of the samples."""
    shutil.copytree(SAMPLES, folder, dirs_exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "penstock",
        "studio",
        *REFERENCES,
        "--port",
        "0",
        "--history",
        "runs.db",
        "--reviews",
        "waiting.db",
        *options,
    ]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), "PYTHONWARNINGS": "default"}
    told = folder / "told.txt"
    with told.open("w") as out, subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=out) as process:
        try:
            yield Studio(_address(told, process), folder, process)
        finally:
            process.terminate()
            process.wait()


def _address(told: Path, process: "subprocess.Popen[bytes]") -> str:
    """Wait until the studio says where it is."""
    for _ in range(150):
        if found := re.search(r"http://\S+(?=\n)", told.read_text("utf-8")):
            return found.group()
        assert process.poll() is None, told.read_text("utf-8")
        time.sleep(0.1)
    raise AssertionError(f"the studio does not say where it is: {told.read_text('utf-8')}")


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    with serving(tmp_path_factory.mktemp("studio"), "--max-upload", "1") as studio:
        yield studio


@pytest.fixture
def context(chromium: Browser, studio: Studio) -> Iterator[BrowserContext]:
    """A fresh browser: wide, light, and strict about errors in the page."""
    context = chromium.new_context(base_url=studio.url, viewport={"width": 1280, "height": 800})
    errors = watch(context)
    yield context
    context.close()
    assert errors == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def watch(context: BrowserContext) -> list[str]:
    """Collect what goes wrong in the pages of a browser."""
    errors: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not REFUSALS.search(message.text):
            errors.append(message.text)

    context.on("console", console)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    context.set_default_timeout(60_000)
    expect.set_options(timeout=60_000)
    return errors
