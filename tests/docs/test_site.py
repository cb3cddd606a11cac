"""Whether the site's own checks find what they are there to find; `make docs` runs them over the built pages."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = Path(__file__).parents[2] / "docs" / "build_site.py"


def script() -> ModuleType:
    """The script that builds the site; it needs nothing but the standard library until it builds."""
    spec = importlib.util.spec_from_file_location("build_site", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_site = script()


def test_every_page_is_in_the_nav() -> None:
    """A page that the nav of zensical.toml lacks is one that no reader finds."""
    assert build_site.nav_problems() == []


def test_a_page_missing_in_the_nav_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And so are pages that are named but not there, and pages that are named twice."""
    (tmp_path / "zensical.toml").write_text('[project]\nnav = ["b.md", { "B" = ["b.md"] }]')
    (tmp_path / "a.md").write_text("# A")
    monkeypatch.setattr(build_site, "CONFIG", tmp_path / "zensical.toml")
    monkeypatch.setattr(build_site, "DOCS", tmp_path)
    assert build_site.nav_problems() == [
        "docs/a.md is missing in the nav of zensical.toml",
        "the nav of zensical.toml names b.md, which does not exist",
        "the nav of zensical.toml names b.md twice",
    ]


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b.html#there">', None),
        ('<a href="https://example.com/">', None),
        ('<link rel="canonical" href="https://example.com/">', None),
        ('<a href="c.html">', "a.html links to c.html, which does not exist"),
        ('<a href="b.html#gone">', "a.html links to b.html#gone, which has no such anchor"),
        ('<a href="#gone">', "a.html links to #gone, which has no such anchor"),
        ('<img src="gone.png">', "a.html links to gone.png, which does not exist"),
        ('<script src="https://cdn.example/x.js">', "a.html loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "a.html loads //cdn.example/x.css"),
        ("<style>@import '//cdn.example/x.css';</style>", "a.html loads //cdn.example/x.css"),
    ],
)
def test_what_is_wrong_with_a_built_page_is_found(tmp_path: Path, html: str, problem: str | None) -> None:
    """Dead links and anchors, and whatever a browser would load from the web."""
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<h2 id="there">')
    assert build_site.site_problems(tmp_path) == ([] if problem is None else [problem])


def test_a_link_out_of_the_docs_leads_to_a_page_that_shows_the_file() -> None:
    """Links in code and links to pages stay as they are."""
    text = "[x](../LICENSE), [y](design.md#goals), `[z](../LICENSE)`"
    shown: set[Path] = set()
    changed = build_site.links_into_site(text, build_site.DOCS, build_site.PAGES, shown)
    assert changed == "[x](source/LICENSE.md), [y](design.md#goals), `[z](../LICENSE)`"
    assert shown == {build_site.ROOT / "LICENSE"}


def test_every_file_of_the_docs_is_copied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A page may link to a schema or show a picture; only the scripts stay behind."""
    monkeypatch.setattr(build_site, "PAGES", tmp_path / "docs")
    build_site.copy_pages()
    copied = {path.relative_to(tmp_path / "docs") for path in (tmp_path / "docs").rglob("*") if path.is_file()}
    files = {path.relative_to(build_site.DOCS) for path in build_site.DOCS.rglob("*") if path.is_file()}
    assert {path for path in files if path.suffix not in {".py", ".pyc"}} <= copied
    assert {path.suffix for path in copied} >= {".md", ".json", ".png", ".js"}
    assert ".py" not in {path.suffix for path in copied}


def test_the_search_of_a_page_from_the_disk_is_answered(chromium: "Browser", tmp_path: Path) -> None:
    """Browsers start no worker there: a frame takes its place, and each side gets copies of the messages."""
    (tmp_path / "worker.js").write_text("""
        self.onmessage = ({ data }) => { data.words.push("found"); self.postMessage(data); data.words.length = 0; };
    """)
    (tmp_path / "index.html").write_text(f"""
        <script>{(build_site.DOCS / "iframe-worker.js").read_text("utf-8")}</script>
        <body><script>
            const asked = {{ words: ["asked"] }};
            const worker = new Worker("worker.js");
            worker.onmessage = ({{ data }}) => {{ document.title = [...asked.words, ...data.words].join(" "); }};
            worker.postMessage(asked);
        </script></body>
    """)
    page = chromium.new_page()
    page.goto((tmp_path / "index.html").as_uri())
    page.wait_for_function("document.title === 'asked asked found'", timeout=60_000)
    page.close()
