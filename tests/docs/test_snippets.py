"""Whether what README and docs show is true: every Python snippet runs, and prints what stands below it."""

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

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?P<kind>\w+)[^\n]*\n(?P<body>.*?)^```\n(?P<gap>\s*)", re.MULTILINE | re.DOTALL)


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
    with contextlib.redirect_stdout(printed):
        result = eval(compiled, names)  # noqa: S307 - our own pages
        if inspect.isawaitable(result):
            asyncio.run(awaited(result))
    return printed.getvalue()


async def awaited(result: object) -> None:
    """Await what a snippet with a top-level ``await`` gave."""
    await result  # type: ignore[misc]


def test_there_are_snippets_to_run() -> None:
    """A page without any is fine; none at all means the pattern broke."""
    assert any(list(snippets(page.read_text("utf-8"))) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_shows_is_true(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The snippets of a page run one after the other, in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__page__"}
    for snippet in snippets(page.read_text("utf-8")):
        printed = run("\n" * (snippet.line - 1) + snippet.code, str(page), names)
        if snippet.output is not None:
            assert printed == snippet.output, f"{page.name}:{snippet.line}"
