"""`JsonReader`: reads JSON text that arrives in pieces, and fits edits into it, so that it still is JSON afterwards.

A text is read as JSON if it begins with ``{`` or ``[``, and behind a line with three backquotes and ``json``, up to the
first character that does not belong there. So what is read depends on the text before only: a stream and the whole text
are read alike.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.edits import apply, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.edits import Edit, Edits

TokenKind = Literal["key", "string", "number"]

_SPACES = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_SO_FAR = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?")
_MOST_DIGITS = 400  # a longer number is none, since it would be held back whole
_PLAIN = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_ESCAPE_SO_FAR = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_FENCE = re.compile(r"```json[ \t]{0,8}\r?\n", re.IGNORECASE)
_FENCE_SIZE = 20  # characters that the beginning of a fence may have
_LITERALS = ("true", "false", "null")
_LONGEST_KEY = 200  # characters; longer ones are in no path
_DEEPEST = 200

_END = attrgetter("end")
_START = attrgetter("start")


class JsonToken:
    """A string or a number in a JSON text.

    Attributes:
        start: where it begins, without a quote.
        end: where it ends, without a quote; so far, if it is still open.
        kind: what it is.
        path: the keys that lead to it; indexes of lists are left out. That of a key leads to the object.
        open: whether its end is not read yet.
    """

    __slots__ = ("end", "kind", "open", "path", "start")

    def __init__(self, start: int, end: int, kind: TokenKind, path: tuple[str, ...]) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        self.path = path
        self.open = kind != "number"


class JsonReader:
    """Reads a text piece by piece. Positions count from the beginning of the text.

    Attributes:
        tokens: the strings and numbers read so far, in order, except those that were forgotten.
    """

    __slots__ = ("_at", "_begun", "_escapes", "_expects", "_is_json", "_key", "_keys", "_rest", "tokens")

    def __init__(self, at: int = 0) -> None:
        """Begin to read at a position."""
        self.tokens: list[JsonToken] = []
        self._escapes: list[tuple[int, int]] = []
        self._at = at
        self._rest = ""  # behind `_at`: the beginning of a token
        self._begun = self._is_json = False
        self._expects = ""
        self._keys: list[str | None] = []  # of each open object its current key, of each open list None
        self._key = ""

    def feed(self, text: str, *, final: bool = False) -> None:
        """Read on; ``final``: the text ends here."""
        if self._begun and not (self._is_json or self._rest or "`" in text):  # prose, of which nearly all texts are
            self._at += len(text)
            return
        self._rest += text
        if not self._begun:
            self._begin()
        while self._rest:
            done = self._read(final=final) if self._is_json else self._seek()
            if not done:
                break

    def _begin(self) -> None:
        rest = self._rest.lstrip()
        if rest:
            self._begun = True
            if rest[0] in "{[":
                self._skip(len(self._rest) - len(rest))
                self._open()

    def _open(self) -> None:
        self._is_json, self._expects, self._keys = True, "value", []

    def _skip(self, count: int) -> None:
        self._at += count
        self._rest = self._rest[count:]

    def _seek(self) -> bool:
        """Go to the next fence of JSON; return whether there is one."""
        found = _FENCE.search(self._rest) if "`" in self._rest else None
        if found is None:
            self._skip(max(len(self._rest) - _FENCE_SIZE, 0) if "`" in self._rest else len(self._rest))
            return False
        self._skip(found.end())
        self._open()
        return True

    def _read(self, *, final: bool) -> bool:
        """Read a token, or a part of a string; return whether it goes on."""
        token = self.tokens[-1] if self.tokens else None
        if token is not None and token.open:
            return self._read_string(token)
        rest = self._rest
        if spaces := _SPACES.match(rest):
            self._skip(spaces.end())
            return True
        sign, wanted = rest[0], self._expects
        if sign == '"' and wanted in ("value", "item", "key", "first key"):
            kind: TokenKind = "string" if wanted in ("value", "item") else "key"
            self.tokens.append(JsonToken(self._at + 1, self._at + 1, kind, self._path(kind)))
            self._key = ""
            self._skip(1)
            return True
        if sign in "{[" and wanted in ("value", "item") and len(self._keys) < _DEEPEST:
            self._keys.append("" if sign == "{" else None)
            self._expects = "first key" if sign == "{" else "item"
        elif sign == ":" and wanted == "colon":
            self._expects = "value"
        elif sign == "," and wanted == "comma" and self._keys:
            self._expects = "value" if self._keys[-1] is None else "key"
        elif sign in "}]" and self._closes(sign):
            self._keys.pop()
            self._expects = "comma" if self._keys else "value"
        elif wanted in ("value", "item") and (sign == "-" or sign.isdecimal() or sign in "tfn"):
            return self._read_scalar(final=final)
        else:
            self._is_json = False
            return True
        self._skip(1)
        return True

    def _closes(self, sign: str) -> bool:
        if not self._keys or (sign == "]") != (self._keys[-1] is None):
            return False
        return self._expects in ("comma", "item" if sign == "]" else "first key")

    def _read_scalar(self, *, final: bool) -> bool:
        rest = self._rest
        literal = next((one for one in _LITERALS if one.startswith(rest) or rest.startswith(one)), None)
        size = 0
        if literal is not None:
            if len(rest) < len(literal):
                return False
            size = len(literal)
        elif not self._keys:  # a number that stands alone is text
            pass
        elif (so_far := _NUMBER_SO_FAR.match(rest)) and so_far.end() == len(rest) < _MOST_DIGITS and not final:
            return False
        elif (number := _NUMBER.match(rest)) and number.end() <= _MOST_DIGITS:
            size = number.end()
            self.tokens.append(JsonToken(self._at, self._at + size, "number", self._path("number")))
        if not size:
            self._is_json = False
            return True
        self._skip(size)
        self._expects = "comma" if self._keys else "value"
        return True

    def _read_string(self, token: JsonToken) -> bool:
        read = _PLAIN.match(self._rest)
        size = read.end() if read else 0
        piece = self._rest[:size]
        if "\\" in piece:
            self._escapes += [(self._at + one.start(), self._at + one.end()) for one in _ESCAPE.finditer(piece)]
        if token.kind == "key" and len(self._key) < _LONGEST_KEY:
            self._key += piece
        self._skip(size)
        token.end = self._at
        if not self._rest or _ESCAPE_SO_FAR.fullmatch(self._rest):
            return False
        token.open = False
        if self._rest[0] != '"':
            self._is_json = False
            return True
        self._skip(1)
        if token.kind == "key":
            self._keys[-1] = json.loads(f'"{self._key}"') if len(self._key) < _LONGEST_KEY else ""
            self._expects = "colon"
        else:
            self._expects = "comma" if self._keys else "value"
        return True

    def _path(self, kind: TokenKind) -> tuple[str, ...]:
        keys = self._keys[:-1] if kind == "key" else self._keys
        return tuple(key for key in keys if key is not None)

    def begin_part(self) -> None:
        """Read what follows as another text."""
        self.feed("", final=True)
        self._skip(len(self._rest))
        if self.tokens:
            self.tokens[-1].open = False
        self._begun = self._is_json = False

    def uncut(self, until: int) -> int:
        """Return the largest position up to ``until`` that is within no number and no escape."""
        if self._is_json and self._rest:
            until = min(until, self._at)
        at = bisect_right(self.tokens, until, key=_START) - 1
        if at >= 0 and self.tokens[at].kind == "number" and self.tokens[at].start < until < self.tokens[at].end:
            return self.tokens[at].start
        return self._around(until)[0]

    def _around(self, at: int) -> tuple[int, int]:
        """Return where the escape begins and ends that a position lies within; twice the position if there is none."""
        index = bisect_left(self._escapes, (at, 0)) - 1
        if index >= 0 and self._escapes[index][1] > at:
            return self._escapes[index]
        return at, at

    def forget(self, before: int) -> None:
        """Forget tokens and escapes that end before a position."""
        gone = bisect_right(self.tokens, before, key=_END)
        if gone and self.tokens[gone - 1].open:
            gone -= 1
        del self.tokens[:gone]
        del self._escapes[: bisect_left(self._escapes, (before, 0))]

    # Edits

    def fit(self, edits: Edits, text: str, base: int, numbers: str) -> Edits:
        """Return redactions in a text so that strings and numbers stay what they are.

        An edit within a string leaves its quotes, and what it puts there is escaped. A number is replaced as a whole.

        Args:
            edits: the edits, in positions of ``text``.
            text: the text, or a part of it that cuts no number and no escape.
            base: where that part begins.
            numbers: what becomes of a number: ``null``, or the edited ``text`` as a string.
        """
        if not self.tokens:
            return edits
        made: list[Edit] = []
        number: JsonToken | None = None
        within: list[Edit] = []  # the edits of that number
        for edit in edits:
            pieces = list(self._pieces(edit, base))
            if len(pieces) != 1 and (not pieces or edit.kind != "redact"):  # one that rewords more than a value
                made.append(edit)
                continue
            for token, start, end, new in pieces:
                last = made[-1].end if made else 0
                if token.kind != "number":
                    said = json.dumps(new, ensure_ascii=False)[1:-1]
                    made.append(replace(edit, start=max(start, last), end=max(end, last), text=said))
                    continue
                low, high = token.start - base, token.end - base
                if token is not number:
                    number, within = token, []
                    made.append(edit)
                within.append(replace(edit, start=start - low, end=end - low, text=new))
                said = apply(text[low:high], tuple(within))
                shown = "null" if numbers == "null" or not said else json.dumps(said, ensure_ascii=False)
                made[-1] = replace(edit, start=low, end=high, text=shown)
        return tuple(edit for edit in made if edit.text or edit.start < edit.end)

    def _pieces(self, edit: Edit, base: int) -> Iterator[tuple[JsonToken, int, int, str]]:
        """Yield the tokens that an edit touches, with the part of each and its new text: the first gets all of it."""
        low, high = edit.start + base, edit.end + base
        text = edit.text
        for token in self.tokens[bisect_right(self.tokens, low, key=_END) :]:
            if token.start >= high:
                return
            start, end = max(low, token.start), min(high, token.end)
            if start >= end:
                continue
            if token.kind != "number":
                start, end = self._around(start)[0], self._around(end)[1]
            yield token, start - base, end - base, text
            text = ""


def fit_json(edits: Edits, text: str, borders: Sequence[int], numbers: str) -> Edits:
    """Return redactions in a text so that JSON in it stays JSON; see `JsonReader.fit`.

    Args:
        edits: the edits, in order.
        text: the text.
        borders: where the second and later parts of it begin; each is read by itself.
        numbers: what becomes of a number: ``null``, or the edited ``text`` as a string.
    """
    if not edits or ("{" not in text and "[" not in text):
        return edits
    reader = JsonReader()
    at = 0
    for border in (*borders, len(text)):
        if at:
            reader.begin_part()
        reader.feed(text[at:border], final=True)
        at = border
    return reader.fit(in_order(edits), text, 0, numbers)
