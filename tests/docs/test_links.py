"""Whether the links of README and docs lead somewhere: every relative one to a file or folder of this checkout."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)[^)]*\)")


def targets(text: str) -> list[str]:
    """The files that a page's links name; code holds none, and the web is not asked."""
    found = [match["target"].partition("#")[0] for match in LINK.finditer(CODE.sub("`", text))]
    return [target for target in found if target and "://" not in target and not target.startswith("mailto:")]


def test_links_are_told_from_code_and_the_web() -> None:
    """Or the test below would look at the wrong ones, or at none."""
    page = "[`a`](a.md#part), [b](https://b.example/c.md), [c](#here), `[d](d.md)`\n```text\n[e](e.md)\n```\n[f](f/)"
    assert targets(page) == ["a.md", "f/"]
    assert targets(PAGES[0].read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """From the folder of the page, as readers on the web follow it."""
    missing = [target for target in targets(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert missing == []
