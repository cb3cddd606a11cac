"""Whether somebody quotes a text: what judges and providers say must not show what is to be hidden. Pure."""

from __future__ import annotations

import re

_WORDS = re.compile(r"[\u2e80-\uffff]|[^\W\u2e80-\uffff]+")  # where words are not parted, each letter is one
_IN_A_ROW = 4  # so many words in a row, as they stand in the text, are a quotation
_MARKED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`|“([^”]+)”|‘([^’]+)’|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」")
_TELLING = re.compile(r"(?=\S*[\d@])[^\s\"'`<>()\[\]{},;]{4,}|\w{16,}")  # numbers, addresses, keys: one is enough
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def quotes(said: str, text: str) -> bool:
    """Tell whether what was said quotes a text.

    It does with four words in a row, with anything in quotation marks that stands there, and with a single number,
    address or long word of it. Letter cases do not count, and JSON's escapes are read.
    """
    own, theirs = (_read(each) for each in (said, text))
    spoken, known = _WORDS.findall(own), _WORDS.findall(theirs)
    size = min(_IN_A_ROW, max(len(known), 1))
    rows = {tuple(known[at : at + size]) for at in range(len(known) - size + 1)}
    if any(tuple(spoken[at : at + size]) in rows for at in range(len(spoken) - size + 1)):
        return True
    marked = ("".join(found).strip() for found in _MARKED.findall(own))
    telling = (found.rstrip(".:!?") for found in _TELLING.findall(own))
    return any(part and part in theirs for part in (*marked, *telling))


def _read(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).casefold()
