"""Whether the links of README and docs lead somewhere: to a file or folder of this checkout.

The README is shown on the package index, too, where relative links lead nowhere; so its links are absolute.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)[^)]*\)")


HOME = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Homepage"]


def targets(text: str) -> list[str]:
    """The files that a page's links name; code holds none, and the web is not asked."""
    found = [match["target"].partition("#")[0] for match in LINK.finditer(CODE.sub("`", text))]
    return [target for target in found if target and "://" not in target and not target.startswith("mailto:")]


def test_links_are_told_from_code_and_the_web() -> None:
    """Or the test below would look at the wrong ones, or at none."""
    page = "[`a`](a.md#part), [b](https://b.example/c.md), [c](#here), `[d](d.md)`\n```text\n[e](e.md)\n```\n[f](f/)"
    assert targets(page) == ["a.md", "f/"]
    assert targets(PAGES[-1].read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """From the folder of the page, as readers on the web follow it."""
    missing = [target for target in targets(page.read_text("utf-8")) if not (page.parent / target).exists()]
    assert missing == []


def test_every_link_of_the_readme_works_on_the_package_index() -> None:
    """It leads to a file of this checkout at the address in pyproject.toml."""
    text = CODE.sub("`", (ROOT / "README.md").read_text("utf-8"))
    linked = [match["target"] for match in LINK.finditer(text) if not match["target"].startswith("#")]
    own = [target.removeprefix(f"{HOME}/blob/main/") for target in linked if target.startswith(HOME)]
    assert len(own) > 30
    assert [target for target in linked if "://" not in target] == []
    assert [target for target in own if not (ROOT / target.partition("#")[0]).exists()] == []
