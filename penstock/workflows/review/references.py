"""`References`: store a verdict about a text without the text; each quotation becomes a place in the text.

Whoever has the text gets the verdict back unchanged. In what is stored, no four characters in a row are from the text,
except names that the application itself has written: fields, categories and other words of the instructions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value

Pieces: TypeAlias = "list[Value]"
"""Literal strings, and references: the number of a text, a start, a length, then pairs of an offset and the character
that stands there instead (models change the case of what they quote)."""

_LEAST = 4  # so many characters in a row are a quotation
_TEXT, _NUMBER, _OBJECT = "$text", "$number", "$object"


class References:
    """Replaces quotations of some texts by references, and back.

    Args:
        texts: the texts.
        public: a text of the application; words of it without digits are no quotations.
    """

    def __init__(self, texts: Sequence[str], public: str = "") -> None:
        self._texts = texts
        self._folded = [_folded(text) for text in texts]
        self._public = public

    def refer(self, value: Value) -> Value:
        """Return JSON values with references in place of quotations."""
        if isinstance(value, str):
            pieces = self._pieces(value)
            return value if pieces is None else {_TEXT: pieces}
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            written = json.dumps(value)
            pieces = self._pieces(written) if len(written) >= _LEAST else None
            return value if pieces is None else {_NUMBER: pieces}
        if is_mapping(value):
            return self._mapping({str(name): inner for name, inner in value.items()})
        return [self.refer(inner) for inner in value] if is_items(value) else value

    def resolve(self, stored: Value) -> Value:
        """Return the values that `refer` was given."""
        if is_mapping(stored):
            if _TEXT in stored:
                return self._joined(stored[_TEXT])
            if _NUMBER in stored:
                return json.loads(self._joined(stored[_NUMBER]))
            if _OBJECT in stored:
                return {self.resolve(name): self.resolve(inner) for name, inner in stored[_OBJECT]}
            return {name: self.resolve(inner) for name, inner in stored.items()}
        return [self.resolve(inner) for inner in stored] if is_items(stored) else stored

    def _mapping(self, values: dict[str, Value]) -> Value:
        names = [self.refer(name) for name in values]
        if all(isinstance(name, str) and not name.startswith("$") for name in names):
            return {name: self.refer(inner) for name, inner in values.items()}
        return {_OBJECT: [[name, self.refer(inner)] for name, inner in zip(names, values.values(), strict=True)]}

    def _pieces(self, value: str) -> Pieces | None:
        """Return a string in pieces; None if it quotes nothing."""
        if not value or (value in self._public and not any(map(str.isdigit, value))):
            return None
        folded, least = _folded(value), min(_LEAST, len(value))
        pieces: Pieces = []
        literal, at = 0, 0
        while at + least <= len(value):
            found = self._longest(folded, at, least)
            if found is None:
                at += 1
                continue
            number, start, length = found
            if literal < at:
                pieces.append(value[literal:at])
            there = self._texts[number][start : start + length]
            changed = [[k, own] for k, own in enumerate(value[at : at + length]) if own != there[k]]
            pieces.append([number, start, length, *changed])
            at = literal = at + length
        if not pieces:
            return None
        return [*pieces, value[literal:]] if literal < len(value) else pieces

    def _longest(self, folded: str, at: int, least: int) -> tuple[int, int, int] | None:
        """Return the longest quotation that begins at a place: the number of its text, its start and its length."""
        best: tuple[int, int, int] | None = None
        for number, text in enumerate(self._folded):
            length = least if best is None else best[2] + 1
            start = 0
            while at + length <= len(folded):
                start = text.find(folded[at : at + length], start)
                if start < 0:
                    break
                best = number, start, length
                length += 1
        return best

    def _joined(self, pieces: Sequence[Value]) -> str:
        return "".join(piece if isinstance(piece, str) else self._quoted(*piece) for piece in pieces)

    def _quoted(self, number: int, start: int, length: int, *changed: Sequence[Value]) -> str:
        said = [*self._texts[number][start : start + length]]
        for offset, own in changed:
            said[offset] = own
        return "".join(said)


def _folded(text: str) -> str:
    """Return a text in lower case, without what would make it longer, so that places are the same in both."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := one.lower()) == 1 else one for one in text)
