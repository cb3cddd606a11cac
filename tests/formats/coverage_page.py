"""docs/formats-coverage.md: every field of each wire format, and how guards read it; found out, not written by hand.

`python -m tests.formats.coverage_page` writes the page anew. Its fields are those of the random messages of
`wire_messages`, which hold what the formats document.
"""

from __future__ import annotations

import copy
import re
from base64 import b64encode
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.text_guards.reading import message_texts, unread_bodies
from penstock.engine.text_guards.scope import PART_KINDS
from penstock.engine.values.errors import MessageError
from penstock.formats import FORMATS, parse_messages
from tests.formats.wire_messages import MARKER, made

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "formats-coverage.md"
SEEDS = 150
MARK = "zq424242q"
_BODY = b64encode(f"The file says {MARK} and no more.".encode()).decode()

EDITED, READ, OPAQUE, REFUSED, UNREAD = "read and edited", "read", "opaque", "refused", "not read"

_HEAD = """\
# How guards read each wire format

A test makes this page: it puts a text into each field, parses the message, and looks whether a guard with its default
options is given the text. It takes the messages with which the formats are tested. `*` stands for any key, `[text]` for
an element of a list whose `type` is `text`.

| word | meaning |
|---|---|
| read and edited | guards read the text, and can hide their findings |
| read | guards read the text and cannot change it: an id, an address, a name, metadata. A finding there stops the run |
| opaque | a body that nobody can read. Guards stop the run, unless `unscanned` says otherwise |
| refused | another word than those of the format is an error: the message is not parsed |
| not read | guards are not given the text |

Several words: it depends on the kind of message around the field. In all formats, pictures, sound and files whose
bodies hold no text, and addresses from which they would be loaded, are opaque. Unknown fields are read, like metadata,
or refused.
"""

Path_ = tuple[str, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, str, tuple[Any, ...]]]:
    """Yield the strings of a message: their path in words, the text, and the way to it."""
    yield from _leaves(value, path, ())


def _leaves(value: Any, path: Path_, way: tuple[Any, ...]) -> Iterator[tuple[Path_, str, tuple[Any, ...]]]:
    if isinstance(value, str):
        yield path, value, way
    elif isinstance(value, dict):
        for key, item in value.items():
            named = "*" if MARKER.search(key) or key in "abcd" else key
            yield from _leaves(item, (*path, named), (*way, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            kind = item.get("type") if isinstance(item, dict) else None
            named = f"[{kind}]" if isinstance(kind, str) and not MARKER.search(kind) else "[]"
            yield from _leaves(item, (*path, named), (*way, index))


def in_words(path: Path_) -> str:
    """Return a path as the page shows it; what stands below any key is any value."""
    words = ".".join(path).replace(".[", "[")
    return f"{words[: words.index('*')]}*" if "*" in words else re.sub(r"(\[\])+$", "", words)


def how(items: list[Any], name: str, marks: set[str]) -> dict[str, str]:
    """Return how each marker in messages is read."""
    try:
        messages = parse_messages(items, name)  # type: ignore[arg-type]
    except MessageError:
        return dict.fromkeys(marks, REFUSED)
    found: dict[str, str] = {}
    opaque = any(unread_bodies(message, PART_KINDS) for message in messages)
    for text in (text for message in messages for text in message_texts(message, PART_KINDS)):
        for mark in marks.intersection(MARKER.findall(text.text)):
            found[mark] = EDITED if found.get(mark) == EDITED or not text.fixed else READ
    return {mark: found.get(mark, OPAQUE if opaque else UNREAD) for mark in marks}


def fields_of(name: str) -> dict[str, set[str]]:
    """Return the fields of a format, each with the words that say how it is read."""
    fields: dict[str, set[str]] = defaultdict(set)
    for seed in range(SEEDS):
        for item in made(name, seed, spoil=False):
            marked: dict[str, tuple[str, Any]] = {}
            for path, text, way in leaves(item):
                marks = MARKER.findall(text)
                marked.update(dict.fromkeys(marks, (in_words(path), way)))
                if not marks and text and seed < SEEDS // 5:
                    word = how([_with(item, way)], name, {MARK})[MARK]
                    fields[in_words(path)].add(word)
            if marked:
                told = how([item], name, set(marked))
                for mark, (field, way) in marked.items():
                    word = told[mark]
                    if word in (UNREAD, OPAQUE):  # a marker may pass for base64: it is decoded, and no text any more
                        word = how([_with(item, way, _BODY)], name, {MARK})[MARK]
                    if word != REFUSED:
                        fields[field].add(word)
    return fields


def _with(item: Any, way: tuple[Any, ...], text: str = MARK) -> Any:
    """Return a message in which the string at the end of a way is another one."""
    made = copy.deepcopy(item)
    inside = made
    for step in way[:-1]:
        inside = inside[step]
    inside[way[-1]] = text
    return made


def page() -> str:
    """Return the page."""
    order = (EDITED, READ, OPAQUE, REFUSED, UNREAD)
    lines = [_HEAD]
    for name in FORMATS:
        lines += [f"## {name}", "", "| field | how |", "|---|---|"]
        fields = fields_of(name)
        lines += [f"| `{path}` | {', '.join(sorted(fields[path], key=order.index))} |" for path in sorted(fields)]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
