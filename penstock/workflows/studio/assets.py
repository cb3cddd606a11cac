"""The page and its modules, as they stand in the package; no build step."""

from __future__ import annotations

import html
import json
import secrets
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, Response

from penstock.pictures.marked_picture import page_mark_style
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.security import content_policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "png": "image/png",
    "ico": "image/x-icon",
    "woff2": "font/woff2",
}
"""The content types of the files that are served, by extension; no others are."""

MARKS = "marks.css"
"""The name of the style sheet that is no file: the looks of marks, which are those of a drawn picture."""

_MARK = "<!-- import map -->"
_PLAIN = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock studio</title>{_MARK}</head>
<body><p>The page of the studio is not installed. Its API is at <a href="/api/workflows">/api/workflows</a>.</p>
</body></html>
"""


_SHARED = files("penstock.pictures") / "page"
_OWN = files("penstock.workflows.studio") / "page"


def page(name: str = "index.html") -> Response:
    """Return a page, with the import map and a new nonce for it."""
    nonce = secrets.token_urlsafe(18)
    source = _OWN / name
    text = source.read_text("utf-8") if source.is_file() else _PLAIN
    imports = json.dumps({"imports": import_map()}).replace("<", "\\u003c")
    script = f'<script type="importmap" nonce="{html.escape(nonce)}">{imports}</script>'
    answer = HTMLResponse(text.replace(_MARK, script, 1))
    answer.headers["content-security-policy"] = content_policy(nonce)
    return answer


def import_map() -> dict[str, str]:
    """Return the address of each module by its bare name."""
    shared = {f"penstock/{name}": f"/page/{name}" for name in _modules(_SHARED)}
    own = {f"studio/{name}": f"/page/studio/{name}" for name in _modules(_OWN)}
    vendor = {name.removesuffix(".js"): f"/page/vendor/{name}" for name in _modules(_SHARED / "vendor")}
    return {**vendor, **shared, **own}


def _modules(folder: Traversable) -> Iterator[str]:
    if folder.is_dir():
        yield from sorted(each.name for each in folder.iterdir() if each.name.endswith(".js"))


def asset(path: str) -> Response:
    """Return a module, a style sheet or a picture of the page.

    Raises:
        StudioError: there is none of that name.
    """
    if path == MARKS:
        return _answer(page_mark_style().encode(), TYPES["css"])
    base, path = (_OWN, path.removeprefix("studio/")) if path.startswith("studio/") else (_SHARED, path)
    kind = TYPES.get(path.rpartition(".")[2])
    names = path.split("/")
    if kind is not None and not any(not name or name.startswith(".") or "\\" in name or ":" in name for name in names):
        found = base.joinpath(*names)
        with suppress(OSError, ValueError):  # a name that no file can have
            if found.is_file():
                return _answer(found.read_bytes(), kind)
    raise StudioError("not_found", "there is no such file")


def _answer(content: bytes, kind: str) -> Response:
    # Modules are asked for again at each visit, so that a page never mixes two versions.
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})
