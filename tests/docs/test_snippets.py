"""Whether what README and docs show is true: every Python block runs, and prints what stands below it.

Each block runs by itself, so that a reader can copy it alone. One that needs the block before it says so in its first
line: ``# Continues the example above.``
"""

import ast
import asyncio
import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.hosts.plugin import LEFT

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTINUES = "# Continues the example above.\n"
BLOCK = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```\n(?P<gap>\s*)", re.MULTILINE | re.DOTALL)


ALONE = {"litellm.md": "litellm", "coming-from-litellm.md": "litellm", "many-machines.md": "ray"}
"""The pages of what is not installed beside the rest: pins fight, or it is large. See `make hosts`, `make engines`."""


class Snippet(NamedTuple):
    """A piece of Python on a page, the line it begins on, and what it prints, if the page says so."""

    line: int
    code: str
    output: str | None


def snippets(text: str) -> Iterator[Snippet]:
    """The Python snippets of a page; a ``text`` block right behind one is its output."""
    blocks = list(BLOCK.finditer(text))
    for block, following in zip(blocks, [*blocks, None][1:], strict=True):
        if block["kind"] == "python":
            shows = following is not None and following["kind"] == "text" and block.end() == following.start()
            line = text[: block.start()].count("\n") + 2
            yield Snippet(line, block["body"], following["body"] if following is not None and shows else None)


def run(code: str, path: str, names: dict[str, object]) -> str:
    """Run a snippet in the page's names, ``await`` at the top level allowed, and return what it printed."""
    printed = io.StringIO()
    compiled = compile(code, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(printed), own_loop():
        result = eval(compiled, names)  # noqa: S307 - our own pages
        if inspect.isawaitable(result):
            asyncio.run(awaited(result))
    return printed.getvalue()


@contextlib.contextmanager
def own_loop() -> Iterator[None]:
    """Close what loop is left in this thread: the sync calls of some frameworks make one, and leave it open."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    first = asyncio.get_event_loop()
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # none is left
            asyncio.get_event_loop().close()
        first.close()
        asyncio.set_event_loop(None)


async def awaited(result: object) -> None:
    """Await what a snippet with a top-level ``await`` gave."""
    await result  # type: ignore[misc]


def run_page(text: str, path: Path) -> None:
    """Run the blocks of a page in their order, and compare what they print.

    A block gets a fresh namespace, or that of the block before it if its first line says that it continues it.
    """
    names: dict[str, object] = {}
    for snippet in snippets(text):
        if not snippet.code.startswith(CONTINUES):
            names = {"__name__": "__page__"}
        printed = run("\n" * (snippet.line - 1) + snippet.code, str(path), names)
        if snippet.output is not None:
            assert printed == snippet.output, f"{path.name}:{snippet.line}"


def test_there_are_snippets_to_run() -> None:
    """A page without any is fine; none at all means the pattern broke."""
    assert any(list(snippets(page.read_text("utf-8"))) for page in PAGES)


def test_a_block_sees_the_one_before_it_only_if_it_says_so(tmp_path: Path) -> None:
    """What a reader copies alone must not depend on the rest of the page."""
    first, second = "```python\nx = 1\n```\n", "print(x)\n```\n```text\n1\n```\n"
    run_page(f"{first}Then:\n```python\n{CONTINUES}{second}", tmp_path)
    with pytest.raises(NameError):
        run_page(f"{first}Then:\n```python\n{second}", tmp_path)


def test_code_fits_the_column_of_the_site() -> None:
    """A line of more than 84 characters gets a scroll bar; what programs print is as long as it is."""
    wide = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for block in BLOCK.finditer(page.read_text("utf-8"))
        if block["kind"] != "text"
        for line in block["body"].splitlines()
        if len(line) > 84
    ]
    assert wide == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_shows_is_true(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its blocks run in an empty folder."""
    needed = ALONE.get(page.name)
    if needed is not None:
        pytest.importorskip(needed, reason=f"{LEFT}{needed}: not installed, so {page.name} was not run")
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text("utf-8"), page)
