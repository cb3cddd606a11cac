"""Build the documentation as a site: ``python docs/build_site.py``, or ``make docs``.

1. Copy docs/ to build/docs. A link to a file outside docs/ becomes a link to a page that shows that file.
2. Write the reference there: a page for each family of public names, which mkdocstrings fills from the docstrings.
3. Run Zensical in strict mode: a dead link, a dead anchor and a reference that is not resolved are errors.
4. Check the built HTML: every link and anchor leads somewhere, and nothing is loaded from the web.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from penstock.lazy import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = ROOT / "zensical.toml"
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#]+)(?=[#)])")
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"
"""The head of pages that show files: half of the index would be source code."""
LANGUAGES = {".py": "python", ".md": "markdown", ".toml": "toml", ".sh": "bash"}


# ------------------------------------------------------------------------------------------------------------- the nav


def listed(nav: object) -> Iterator[str]:
    """The pages that a nav names, in order; it is a list of paths, titles with a path, and titles with a list."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for value in nav.values():
            yield from listed(value)
    elif isinstance(nav, list):
        for value in nav:
            yield from listed(value)


def nav_problems() -> list[str]:
    """What is wrong with the nav of zensical.toml: pages of docs/ it lacks, names twice, or names and there is none."""
    named = list(listed(tomllib.loads(CONFIG.read_text("utf-8"))["project"]["nav"]))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    problems = [
        f"docs/{page} is missing in the nav of zensical.toml"
        for page in sorted(there - {*named})
    ]
    problems += [
        f"the nav of zensical.toml names {page}, which does not exist"
        for page in sorted({*named} - there)
    ]
    return problems + [
        f"the nav of zensical.toml names {page} twice"
        for page in {*named}
        if named.count(page) > 1
    ]


# ----------------------------------------------------------------------------------------------------------- the pages


def copy_pages() -> None:
    """Copy docs/ without its scripts; links to files outside it become links to pages that show those files."""
    shown: set[Path] = set()
    shutil.copytree(
        DOCS, PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    for target in sorted(PAGES.rglob("*.md")):
        source = DOCS / target.relative_to(PAGES)
        target.write_text(
            links_into_site(
                source.read_text("utf-8"), source.parent, target.parent, shown
            ),
            "utf-8",
        )
    for path in shown:
        show_file(path)


def links_into_site(text: str, source: Path, target: Path, shown: set[Path]) -> str:
    """The text of a page, with its links to files outside docs/ changed; those files are added to ``shown``."""

    def changed(match: re.Match[str]) -> str:
        url = match["target"]
        linked = (source / url).resolve()
        if (
            urlsplit(url).scheme
            or linked.is_relative_to(DOCS)
            or not linked.exists()
        ):
            return url  # if there is no such file, Zensical says so
        shown.add(linked)
        return posixpath.relpath(page_of(linked).as_posix(), target.as_posix())

    pieces, end = [], 0
    for code in CODE.finditer(text):
        pieces += [LINK.sub(changed, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(changed, text[end:])])


def page_of(path: Path) -> Path:
    """The page that shows a file or folder of the repository."""
    name = path.relative_to(ROOT)
    return (
        PAGES
        / "source"
        / (
            name / "index.md"
            if path.is_dir()
            else name.with_name(name.name + ".md")
        )
    )


def show_file(path: Path) -> None:
    """Write the page that shows a file, or that lists a folder and, on pages of their own, the files in it."""
    page, name = page_of(path), path.relative_to(ROOT).as_posix()
    page.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        files = [
            file for file in sorted(path.iterdir()) if file.suffix in LANGUAGES
        ]
        folders = [
            inner
            for inner in sorted(path.iterdir())
            if inner.is_dir() and inner.name[0] not in "._"
        ]
        lines = [f"- `{folder.name}/`" for folder in folders]
        lines += [f"- [{file.name}]({file.name}.md)" for file in files]
        for file in files:
            show_file(file)
    else:
        lines = [
            f"~~~~~{LANGUAGES.get(path.suffix, 'text')}",
            path.read_text("utf-8").rstrip(),
            "~~~~~",
        ]
    page.write_text("\n".join([NOT_SEARCHED, f"# {name}", "", *lines, ""]), "utf-8")


# ------------------------------------------------------------------------------------------------------- the reference


class Name(NamedTuple):
    """A public name: where it is imported from, where it is defined, and the first sentence of its docstring."""

    path: str
    defined: str
    summary: str

    @property
    def package(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


def public_names(tree: Any) -> list[Name]:
    """The names that the ``__all__`` of `penstock` and of its packages hold; of several paths, the shortest counts.

    They are read from the sources: an adapter can only be imported where its framework is installed.
    """
    names: dict[str, Name] = {}
    for package in sorted(
        packages(tree), key=lambda package: (package.path.count("."), package.path)
    ):
        stub = package.filepath.with_suffix(".pyi")
        for name in sorted(
            names_in(str(stub))
            if stub.exists()
            else map(str, package.exports or ())
        ):
            found = at(tree, f"{package.path}.{name}")
            if found is not None and found.kind.value != "module":
                defined = found.canonical_path
                names.setdefault(
                    defined, Name(f"{package.path}.{name}", defined, summary(found))
                )
    return sorted(names.values(), key=lambda name: name.last.lower())


def packages(module: Any) -> Iterator[Any]:
    """A package and the packages in it, without private ones."""
    if module.is_init_module and not module.name.startswith("_"):
        yield module
        for inner in module.modules.values():
            if not inner.is_alias:
                yield from packages(inner)


def at(tree: Any, path: str) -> Any:
    """What stands at a dotted path, read from the sources; None for what only running the code would tell."""
    try:
        found = tree[path.partition(".")[2]]
    except KeyError:
        return None
    return found.final_target if found.is_alias else found


def summary(found: Any) -> str:
    """The first sentence of a docstring, on one line."""
    text = found.docstring.value if found is not None and found.docstring else ""
    first = " ".join(text.strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.])\s", first, maxsplit=1)[0].replace("|", "\\|")


def family_of(defined: str) -> str:
    """The family of a name, by where it is defined: a room of the engine, a family of processors, or a package."""
    parts = defined.replace("penstock.engine.testing", "penstock.testing").split(
        "."
    )
    deep = parts[1] in {"engine", "processors"} or parts[1:3] == [
        "workflows",
        "presets",
    ]
    return ".".join(parts[: 3 if deep else 2])


def write_reference() -> list[Any]:
    """Write the pages of the reference, and return their part of the nav."""
    import griffe

    tree = griffe.load("penstock", search_paths=[ROOT], resolve_aliases=True)
    families: dict[str, list[Name]] = {}
    for name in public_names(tree):
        families.setdefault(family_of(name.defined), []).append(name)
    folder = PAGES / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for family, names in families.items():
        text = [
            f"# {family}",
            summary(at(tree, family)),
            *(f"::: {name.path}" for name in names),
        ]
        (folder / f"{family}.md").write_text("\n\n".join(text) + "\n", "utf-8")
    (folder / "index.md").write_text(index(families), "utf-8")
    groups: dict[str, list[Any]] = {}
    for family in sorted(families):
        title = family.split(".")[1].capitalize()
        groups.setdefault(title, []).append(
            {family.removeprefix("penstock."): f"reference/{family}.md"}
        )
    return [
        "reference/index.md",
        *({title: pages} for title, pages in sorted(groups.items())),
    ]


def index(families: dict[str, list[Name]]) -> str:
    """The first page of the reference: all public names, and where each is described."""
    lines = [
        (DOCS / "reference" / "index.md")
        .read_text("utf-8")
        .partition("\n\n`make docs`")[0]
    ]
    packages = {name.package for names in families.values() for name in names}
    for package in sorted(packages, key=lambda name: (name.count("."), name)):
        rows = [
            (name, family)
            for family, names in families.items()
            for name in names
            if name.package == package
        ]
        lines += ["", f"## {package}", "", "| name | |", "|---|---|"]
        for name, family in sorted(rows, key=lambda row: row[0].last.lower()):
            lines.append(
                f"| [`{name.last}`]({family}.md#{name.path}) | {name.summary} |"
            )
    return "\n".join([*lines, ""])


# ------------------------------------------------------------------------------------------------------------ the site


def write_config(reference: list[Any]) -> Path:
    """The configuration with the nav of the reference in it, beside the one it is made of."""
    config = CONFIG.read_text("utf-8")
    given = '["reference/index.md"]'
    if config.count(given) != 1:
        sys.exit(
            f"{CONFIG.name} must name {given} once: the pages of the reference go there"
        )
    path = CONFIG.with_name(".zensical-build.toml")
    path.write_text(config.replace(given, toml(reference)), "utf-8")
    return path


def toml(value: object) -> str:
    """Lists, tables of one entry and strings, as TOML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(
                f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()
            )
            + " }"
        )
    return json.dumps(value)


LOADS = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "use": "href",
}


class Page(HTMLParser):
    """What a built page says of itself: its anchors, its links, and what a browser loads for it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = re.findall(
            r"(?:@import\s+|url\()['\"]?((?:https?:)?//[^'\")\s]+)", html
        )
        self.feed(html)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if (url := found.get(LOADS.get(tag, ""))) and found.get("rel") not in {
            "canonical",
            "next",
            "prev",
        }:
            self.loaded.append(url)


def site_problems(site: Path) -> list[str]:
    """What is wrong with a built site: links and anchors that lead nowhere, and what a browser loads from the web."""
    pages = {
        path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))
    }
    problems: list[str] = []
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        problems += [f"{where} loads {url}" for url in page.loaded if is_web(url)]
        if where == "404.html":
            continue  # its links are those of any folder
        for url in page.links + [url for url in page.loaded if not is_web(url)]:
            target = urlsplit(url)
            if target.scheme or target.netloc:
                continue
            linked = (
                Path(os.path.normpath(path.parent / unquote(target.path)))
                if target.path
                else path
            )
            if linked.is_dir():
                linked /= "index.html"
            if not linked.exists():
                problems.append(f"{where} links to {url}, which does not exist")
            elif (
                linked in pages
                and unquote(target.fragment) not in pages[linked].anchors
            ):
                problems.append(f"{where} links to {url}, which has no such anchor")
    for path in sorted(site.rglob("*.css")):
        urls = re.findall(
            r"(?:@import\s*|url\()['\"]?((?:https?:)?//[^'\")\s]+)",
            path.read_text("utf-8"),
        )
        problems += [
            f"{path.relative_to(site).as_posix()} loads {url}" for url in urls
        ]
    return problems


def is_web(url: str) -> bool:
    """Whether a browser asks the web for it."""
    return url.startswith("//") or urlsplit(url).scheme in {"http", "https"}


def stop_at(problems: Iterable[str]) -> None:
    """End with the problems, if there are any."""
    if found := list(problems):
        sys.exit("\n".join([*found, f"{len(found)} problems"]))


def main() -> None:
    """Build the site, or end with what is wrong."""
    stop_at(nav_problems())
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    copy_pages()
    config = write_config(write_reference())
    try:
        command = [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--clean",
            "--strict",
            "--config-file",
            str(config),
        ]
        built = subprocess.run(
            command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False
        )
        if built.returncode:
            sys.exit(
                built.stderr.partition("Traceback (most recent call last)")[0]
                + "Zensical found problems"
            )
    finally:
        config.unlink()
    stop_at(site_problems(SITE))
    print(f"built: {SITE / 'index.html'}")


if __name__ == "__main__":
    main()
