"""Whether the links of README and docs lead somewhere: to a file or folder of this checkout."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)[^)]*\)")
PICTURE = re.compile(r"(?<=\ssrc=\")[^\"]+")


def targets(text: str) -> list[str]:
    """The files that a page's links name; code holds none, and the web is not asked."""
    text = CODE.sub("`", text)
    found = [match["target"].partition("#")[0] for match in LINK.finditer(text)] + PICTURE.findall(text)
    return [target for target in found if target and "://" not in target and not target.startswith("mailto:")]


def test_links_are_told_from_code_and_the_web() -> None:
    """Or the test below would look at the wrong ones, or at none."""
    page = "[`a`](a.md#part), [b](https://b.example/c.md), [c](#here), `[d](d.md)`\n```text\n[e](e.md)\n```\n[f](f/)"
    page += ' <img src="g.svg">'
    assert targets(page) == ["a.md", "f/", "g.svg"]
    assert targets(PAGES[-1].read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """From the folder of the page, as readers on the web follow it."""
    missing = [target for target in targets(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert missing == []


def test_no_file_names_an_address_of_this_project() -> None:
    """Nobody has registered one. Whoever did would own the links of a released package."""
    made_up = b"github.com/" + b"penstock"
    folders = ("benchmarks", "docs", "examples", "penstock", "tests", "training")
    files = [*ROOT.glob("*.*"), *(file for folder in folders for file in (ROOT / folder).rglob("*.*"))]
    files = [file for file in files if file.is_file() and file.suffix != ".pyc" and ".npm_cache" not in file.parts]
    assert len(files) > 1000
    assert [file.relative_to(ROOT).as_posix() for file in files if made_up in file.read_bytes().lower()] == []
