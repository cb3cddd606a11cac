"""`JsonReader`: reads JSON text that arrives in pieces, and fits edits into it, so that it still is JSON afterwards.

A text is read as JSON if it begins with ``{`` or ``[``, behind a line with three backquotes, with or without ``json``,
and from a ``{"`` on wherever that stands, up to the first character that does not belong there. So the reading depends
on the text before only: a stream and the whole text are read alike.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_left, bisect_right
from dataclasses import replace
from operator import attrgetter, itemgetter
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
_BEGINS = re.compile(r"```(?:json[cl5]?)?[ \t]{0,8}\r?\n|(?=\{[ \t\r\n]{0,64}\")", re.IGNORECASE)
_BEGINS_SO_FAR = re.compile(r"`{1,2}\Z|```j?s?o?n?[cl5]?[ \t]{0,8}\r?\Z|\{[ \t\r\n]{0,64}\Z", re.IGNORECASE)
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")  # Python writes the last three
_LONGEST_KEY = 200  # characters; longer ones are in no path
_DEEPEST = 200
_PIECE = 2_048  # characters that are read at once, since each token copies the rest
_UNSURE = 64  # characters that may begin like JSON, hold no string and no number, and yet be text

_END = attrgetter("end")
_START = attrgetter("start")
_FIRST = itemgetter(0)


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


class _Stretch:
    """A stretch of a text that is JSON. Its end is not known while it is read.

    Attributes:
        start: where it begins.
        end: where it ends.
        sure: whether it is more than brackets that a text may begin with.
    """

    __slots__ = ("end", "start", "sure")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = sys.maxsize
        self.sure = False


class JsonReader:
    """Reads a text piece by piece. Positions count from the beginning of the text.

    Attributes:
        tokens: the strings and numbers read so far, in order, except those that were forgotten.
    """

    __slots__ = (
        "_at",
        "_begun",
        "_escapes",
        "_expects",
        "_is_json",
        "_key",
        "_keys",
        "_known_path",
        "_rest",
        "_stretches",
        "tokens",
    )

    def __init__(self, at: int = 0) -> None:
        """Begin to read at a position."""
        self.tokens: list[JsonToken] = []
        self._escapes: list[tuple[int, int]] = []
        self._stretches: list[_Stretch] = []  # all the rest is text
        self._at = at
        self._rest = ""  # behind `_at`: the beginning of a token
        self._begun = self._is_json = False
        self._expects = ""
        self._keys: list[str | None] = []  # of each open object its current key, of each open list None
        self._key = ""
        self._known_path: tuple[str, ...] | None = None  # that of a value here, if it was asked for

    def feed(self, text: str, *, final: bool = False) -> None:
        """Read on; ``final``: the text ends here."""
        if self._begun and not (
            self._is_json or self._rest or "{" in text or "`" in text
        ):  # nearly all texts are prose
            self._at += len(text)
            return
        for at in range(0, len(text), _PIECE):
            self._feed(text[at : at + _PIECE], final=final and at + _PIECE >= len(text))
        if final and not text:
            self._feed("", final=True)

    def _feed(self, text: str, *, final: bool) -> None:
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
        self._is_json, self._expects, self._keys, self._known_path = True, "value", [], None

    def _skip(self, count: int) -> None:
        self._at += count
        self._rest = self._rest[count:]

    def _seek(self) -> bool:
        """Go to where JSON may begin next; return whether there is such a place."""
        found = _BEGINS.search(self._rest)
        if found is None:
            begun = _BEGINS_SO_FAR.search(self._rest)
            self._skip(len(self._rest) if begun is None else begun.start())
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
            self._begin_stretch()
            self._add(JsonToken(self._at + 1, self._at + 1, kind, self._path(kind)))
            self._key = ""
            self._skip(1)
            return True
        if sign in "{[" and wanted in ("value", "item") and len(self._keys) < _DEEPEST:
            self._begin_stretch()
            self._keys.append("" if sign == "{" else None)
            self._known_path = None
            self._expects = "first key" if sign == "{" else "item"
        elif sign == ":" and wanted == "colon":
            self._expects = "value"
        elif sign == "," and wanted == "comma" and self._keys:
            self._expects = "value" if self._keys[-1] is None else "key"
        elif sign in "}]" and self._closes(sign):
            self._keys.pop()
            self._known_path = None
            self._end_value(self._at + 1)
        elif wanted in ("value", "item") and (sign == "-" or sign.isdecimal() or sign in "tfnNI"):
            return self._read_scalar(final=final)
        else:
            self._break_off()
            return True
        self._skip(1)
        return True

    def _begin_stretch(self) -> None:
        """Begin a stretch of JSON here, unless one is read."""
        if not self._keys:
            self._stretches.append(_Stretch(self._at))

    def _end_value(self, end: int) -> None:
        """Go on behind a value, which may end its stretch."""
        self._expects = "comma" if self._keys else "value"
        if not self._keys:
            self._end_stretch(end)

    def _end_stretch(self, end: int) -> None:
        """End the stretch that is read, if one is; brackets without anything in them are text."""
        last = self._stretches[-1] if self._stretches else None
        if last is not None and last.end == sys.maxsize:
            last.end = end
            if self._is_unsure(last):
                self._stretches.pop()

    def _break_off(self) -> None:
        """Read on as text: the rest does not belong to JSON."""
        self._is_json = False
        self._end_stretch(self._at)

    def _is_unsure(self, last: _Stretch) -> bool:
        """Return whether the last stretch may still turn out to be text."""
        return not last.sure and self._at - last.start < _UNSURE

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
            self._add(JsonToken(self._at, self._at + size, "number", self._path("number")))
        if not size:
            self._break_off()
            return True
        self._skip(size)
        self._expects = "comma" if self._keys else "value"
        return True

    def _add(self, token: JsonToken) -> None:
        self.tokens.append(token)
        self._stretches[-1].sure = True

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
            self._break_off()
            return True
        self._skip(1)
        if token.kind == "key":
            self._keys[-1] = json.loads(f'"{self._key}"') if len(self._key) < _LONGEST_KEY else ""
            self._known_path = None
            self._expects = "colon"
        else:
            self._end_value(self._at)
        return True

    def _path(self, kind: TokenKind) -> tuple[str, ...]:
        if kind == "key":
            return tuple([key for key in self._keys[:-1] if key is not None])
        if self._known_path is None:
            self._known_path = tuple([key for key in self._keys if key is not None])
        return self._known_path

    def begin_part(self) -> None:
        """Read what follows as another text."""
        self.feed("", final=True)
        self._skip(len(self._rest))
        if self.tokens:
            self.tokens[-1].open = False
        self._break_off()
        self._begun = False

    def uncut(self, until: int) -> int:
        """Return the largest position up to ``until`` that is in no number, no escape and no doubtful brackets."""
        if self._rest and (self._is_json or self._rest[0] == "{"):
            until = min(until, self._at)
        last = self._stretches[-1] if self._stretches else None
        if last is not None and last.end == sys.maxsize and self._is_unsure(last) and last.start < until:
            until = last.start
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
        del self._stretches[: bisect_right(self._stretches, before, key=_END)]

    # Edits

    def fit(self, edits: Edits, text: str, base: int, numbers: str) -> Edits:
        """Return redactions in a text so that strings and numbers stay what they are.

        An edit within a string leaves its quotes, and what it puts there is escaped. A number is replaced as a whole.
        An edit of more than a value leaves the text between the values, and goes on in the text around JSON.

        Args:
            edits: the edits, in positions of ``text``.
            text: the text, or a part of it that cuts no number and no escape.
            base: where that part begins.
            numbers: what becomes of a number: ``null``, or the edited ``text`` as a string.
        """
        if not self._stretches:
            return edits
        made: list[Edit] = []
        number: JsonToken | None = None
        within: list[Edit] = []  # the edits of that number
        for edit in edits:
            pieces = list(self._pieces(edit, text, base))
            if len(pieces) != 1 and (not pieces or edit.kind != "redact"):  # one that rewords more than a value
                made.append(edit)
                continue
            for token, start, end, new in pieces:
                last = made[-1].end if made else 0
                if token is None:
                    made.append(replace(edit, start=max(start, last), end=end, text=new))
                    continue
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

    def _pieces(self, edit: Edit, text: str, base: int) -> Iterator[tuple[JsonToken | None, int, int, str]]:
        """Yield the tokens that an edit touches, and the text around JSON (None), each with its new text.

        The first gets all of the new text. Blanks between two JSON values stay.
        """
        low, high = edit.start + base, edit.end + base
        touched = [*self._values(low, high), *self._gaps(low, high)]
        new = edit.text
        for start, end, token in sorted(touched, key=_FIRST):
            if token is None and len(touched) > 1 and text[start - base : end - base].isspace():
                continue
            yield token, start - base, end - base, new
            new = ""

    def _values(self, low: int, high: int) -> Iterator[tuple[int, int, JsonToken | None]]:
        """Yield the tokens between two positions, each with the part of it that lies there."""
        for token in self.tokens[bisect_right(self.tokens, low, key=_END) :]:
            if token.start >= high:
                return
            start, end = max(low, token.start), min(high, token.end)
            if start >= end:
                continue
            if token.kind != "number":
                start, end = self._around(start)[0], self._around(end)[1]
            yield start, end, token

    def _gaps(self, low: int, high: int) -> Iterator[tuple[int, int, JsonToken | None]]:
        """Yield where the text around JSON begins and ends between two positions."""
        for stretch in self._stretches[bisect_right(self._stretches, low, key=_END) :]:
            if stretch.start >= high:
                break
            if low < stretch.start:
                yield low, stretch.start, None
            low = stretch.end
        if low < high:
            yield low, high, None


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
