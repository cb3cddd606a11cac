"""One HTML file that needs nothing else: the modules and styles of the page, a picture and data, under a strict policy.

The modules are data URLs in an import map: a browser that opens the file from a disk refuses modules beside it. Its
policy lets run what carries the nonce of the file, and nothing else, and lets nothing be fetched.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.engine.tracing.display import visible
from penstock.engine.values.plain import plain
from penstock.pictures.marked_picture import page_mark_style

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PAGE = "penstock.pictures"
"""The package that has the folder ``page``."""

_UNSAFE = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True)
class Modules:
    """Modules and styles of a page.

    Attributes:
        imports: the source of each module, by the name that others import it by.
        style: the style sheet.
    """

    imports: dict[str, str]
    style: str

    def __or__(self, other: Modules) -> Modules:
        """Return both; the styles of ``other`` come later, and so count more."""
        return Modules(self.imports | other.imports, f"{self.style}\n{other.style}")


@cache
def shared_modules() -> Modules:
    """Return the modules that all pages share, lit-html, and the style of marks."""
    lit = {"lit-html": _read(files(PAGE) / "page/vendor/lit-html.js")}
    return modules_in(PAGE, "penstock") | Modules(lit, page_mark_style())


def modules_in(package: str, prefix: str) -> Modules:
    """Return the modules and styles in the folder ``page`` of a package, as ``PREFIX/NAME.js``."""
    found = sorted((files(package) / "page").iterdir(), key=lambda one: one.name)
    imports = {f"{prefix}/{one.name}": _read(one) for one in found if one.name.endswith(".js")}
    return Modules(imports, "\n".join(_read(one) for one in found if one.name.endswith(".css")))


def _read(file: Traversable) -> str:
    return file.read_text("utf-8")


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file in the making: its start, any number of data blocks, its end.

    Attributes:
        title: the title, any text.
        modules: all that the page imports.
        entry: the name of the module that starts it.
        picture: an SVG of `as_svg`, which is seen without scripts, too; empty: none.
        nonce: the word by which the browser knows the scripts and styles that are ours. It must be one that nobody
            whose text is in the file can guess.
    """

    title: str
    modules: Modules
    entry: str
    picture: str
    nonce: str

    def start(self) -> str:
        """Return the text before the data blocks."""
        mapped = {
            name: f"data:text/javascript;base64,{b64encode(text.encode()).decode('ascii')}"
            for name, text in self.modules.imports.items()
        }
        own = f"'nonce-{self.nonce}'"
        policy = f"default-src 'none'; script-src {own}; style-src {own}; base-uri 'none'; form-action 'none'"
        picture = self.picture.replace("<style>", f'<style nonce="{self.nonce}">', 1)
        return (
            "<!doctype html>\n"
            '<html lang="en">\n'
            '<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{html.escape(visible(self.title))}</title>\n"
            f'<style nonce="{self.nonce}">{self.modules.style}</style>\n'
            f'<script type="importmap" nonce="{self.nonce}">{json_block({"imports": mapped})}</script>\n'
            f'<div id="page">{picture}</div>\n'
            "<noscript><p>This page needs JavaScript to show more than a picture.</p></noscript>\n"
        )

    def end(self) -> str:
        """Return the text behind the data blocks: the script that starts the page."""
        return f'<script type="module" nonce="{self.nonce}">import "{self.entry}";</script>\n</html>'


def data_block(id: str, text: str) -> str:
    """Return a block of data that `json_block` made, which the page reads by its id."""
    return f'<script type="application/json" id="{id}">{text}</script>\n'


def page_of(title: str, modules: Modules, entry: str, data: object, picture: str = "") -> str:
    """Return a whole file with one block of data, ``data``; arguments as of `PageFile`.

    Its nonce is a hash of all that is in it, so the same page is the same text, and no text in it can quote the nonce.
    """
    block = data_block("data", json_block(data))
    nonce = sha256("\0".join([title, picture, block, *modules.imports.values()]).encode("utf-8", "replace")).hexdigest()
    page = PageFile(title, modules, entry, picture, nonce)
    return f"{page.start()}{block}{page.end()}"


def json_block(value: object) -> str:
    r"""Return a value as JSON that no HTML parser reads as markup: ``<`` is ``\u003c``, and all is ASCII."""
    try:
        text = json.dumps(value, separators=(",", ":"), default=lambda other: type(other).__name__)
    except (ValueError, RecursionError):  # a number of too many digits, or a value in itself
        text = json.dumps(plain(value), separators=(",", ":"))
    return text.translate(_UNSAFE)
