"""The front matter of a Markdown file: the plain texts among the keys of its YAML block. It knows no file and no skill.

By hand, as only one line or block of text is wanted of each key: files as people write them often are no valid YAML
(``description: Use when: …``), and what a library of YAML could read beyond texts is left out here anyway.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FENCE = "---"
_KEY = re.compile(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?$")
_BLOCK = re.compile(r"[|>][-+\d]{0,2}(?:\s+#.*)?$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_NO_TEXT = tuple("[{&*!%@`")


class FrontMatterError(ValueError):
    """A block that cannot be read; the text says what is wrong, and never quotes a value."""


def front_matter(text: str, wanted: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the texts of the wanted keys (those that are there), and what follows the block.

    Raises:
        FrontMatterError: there is no such block, it has no end, or a wanted key holds no text.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise FrontMatterError(f"it must begin with a line {_FENCE!r}, the keys below it, and another such line")
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() in (_FENCE, "...")), None)
    if end is None:
        raise FrontMatterError(f"the block that begins with {_FENCE!r} has no end: close it with another such line")
    entries = _entries(lines[1:end])
    return {key: _text(key, entries[key]) for key in wanted if key in entries}, "\n".join(lines[end + 1 :]).strip("\n")


def _entries(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return what stands behind each key: the rest of its line, then the lines that belong to it."""
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(lines, 2):
        found = _KEY.match(line)
        if found is not None:
            current = entries[found["key"]] = [found["value"] or ""]
        elif current is not None and (not line.strip() or line[0] in " \t-#"):
            current.append(line)
        elif line.strip() and not line.startswith("#"):
            raise FrontMatterError(f"line {number} is no 'key: text', and belongs to none")
    return entries


def _text(key: str, lines: Sequence[str]) -> str:
    first, more = lines[0].strip(), lines[1:]
    if _BLOCK.match(first):
        return _block(more, folds=first[0] == ">")
    if first[:1] in ("'", '"'):
        return _quoted(key, _folded([first, *more]))
    first = _COMMENT.sub("", first)
    if first.startswith(_NO_TEXT) or (not first and any(line.lstrip().startswith("- ") for line in more)):
        raise FrontMatterError(f"{key!r} must be a text: put it in quotes")
    return _folded([first, *(_COMMENT.sub("", line) for line in more)])


def _folded(lines: Sequence[str]) -> str:
    """Return lines as one paragraph; a blank line stays a line end."""
    text = "\n".join(line.strip() for line in lines).strip("\n")
    return re.sub(r"\n+", lambda found: " " if len(found[0]) == 1 else found[0][1:], text).strip()


def _block(lines: Sequence[str], *, folds: bool) -> str:
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    text = "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
    return _folded(text.split("\n")) if folds else text


def _quoted(key: str, text: str) -> str:
    quote = text[0]
    closed = re.match(r"'((?:[^']|'')*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"', text)
    if closed is None or _COMMENT.sub("", text[closed.end() :]).strip():
        raise FrontMatterError(f"the quotes of {key!r} do not match")
    if quote == "'":
        return closed[1].replace("''", "'")
    try:
        return str(json.loads(closed[0], strict=False))
    except ValueError:
        raise FrontMatterError(f"{key!r} has an escape that is not known: put it in single quotes") from None
