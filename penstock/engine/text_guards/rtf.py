"""`rtf_text`: the texts of a document in RTF, as its readers show them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple


class RtfText(NamedTuple):
    """The texts of a document.

    Attributes:
        text: the texts, one below the other: the body, what stands elsewhere (headers, hidden text), the body for
            readers that know no Unicode, and everything in the order of the source.
        is_read: whether that is all that a reader could read in the document.
    """

    text: str
    is_read: bool


def rtf_text(source: str) -> RtfText:
    """Return the texts of a document in RTF.

    A part that no reader shows as text, such as a theme of Word's, is left out. Pictures, embedded objects and fonts,
    fields whose result is computed, and unknown binary parts leave the document unread.

    Args:
        source: the document. Characters from 128 to 255 are bytes of its code page.
    """
    reading = _RtfReader()
    position = 0
    while found := _TOKEN.match(source, position):
        position = found.end() + reading.take(found)
    return reading.finished()


_TOKEN = re.compile(
    r"\\([a-z]+)(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.IGNORECASE | re.DOTALL
)
_BYTES = re.compile(r"([\x00-\xff]+)")
_LAST_BYTE = 0xFF
_ALPHANUMERIC = re.compile(r"[A-Za-z0-9]")
_DEEPEST = 1_000  # groups in each other
_LEAST_BINARY = 32  # hexadecimal digits: shorter ones are words or numbers
_HEXADECIMAL = re.compile(r"[0-9a-f]+", re.IGNORECASE)

_SIGNS = {
    **dict.fromkeys(("par", "line", "row", "page", "sect", "column", "softline", "nestrow", "lbr"), "\n"),
    **dict.fromkeys(("tab", "cell", "nestcell"), "\t"),
    **dict.fromkeys(("emspace", "enspace", "qmspace", "~"), " "),
    "emdash": "—",
    "endash": "–",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "_": "-",
    "\n": "\n",
    "\r": "\n",
    "\\": "\\",
    "{": "{",
    "}": "}",
}
"""Control words and symbols that a reader shows as a sign."""

_SHOWN = frozenset({
    "", "header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf", "footnote", "annotation",
    "listtext", "pntext", "shptxt", "shprslt", "dptxbxtext",
})  # fmt: skip
"""Destinations that a reader shows; the first is the body."""

_ELSEWHERE = _SHOWN | {
    "fonttbl", "colortbl", "stylesheet", "info", "title", "subject", "author", "manager", "company", "operator",
    "category", "keywords", "comment", "doccomm", "hlinkbase", "creatim", "revtim", "printim", "buptim", "pntxta",
    "pntxtb", "xe", "tc", "tcn", "txe", "rxe", "template", "private", "nextfile", "filetbl", "nonshppict", "sn", "sv",
}  # fmt: skip
"""Destinations that are not shown where they stand. All behind ``\\*`` are, too, but those of `_IN_PLACE`."""

_IN_PLACE = frozenset({"ud", "mmath", "momath", "momathpara", "shppict"})
_UNREADABLE = frozenset({"pict", "objdata", "fontemb", "fontfile", "do", "mvfmf", "mvfml"})
"""Pictures, objects and drawings that a reader shows, and fonts that show other signs than the text has."""

_MACHINES = frozenset({
    "themedata", "colorschememapping", "datastore", "datafield", "blipuid", "panose", "passwordhash", "password",
    "writereservhash", "svb",
})  # fmt: skip
"""Destinations whose hexadecimal digits no reader shows."""

_FIELDS = frozenset({
    "HYPERLINK", "PAGE", "NUMPAGES", "SECTIONPAGES", "PAGEREF", "REF", "NOTEREF", "TOC", "TOA", "INDEX", "DATE", "TIME",
    "CREATEDATE", "SAVEDATE", "PRINTDATE", "EDITTIME", "NUMWORDS", "NUMCHARS", "REVNUM", "FILENAME", "FILESIZE",
    "TITLE", "SUBJECT", "AUTHOR", "LASTSAVEDBY", "KEYWORDS", "COMMENTS", "TEMPLATE", "INFO", "SEQ", "STYLEREF",
    "SECTION", "MERGEFIELD", "FORMTEXT", "FORMCHECKBOX", "FORMDROPDOWN", "BIBLIOGRAPHY", "CITATION", "USERNAME",
    "USERADDRESS", "USERINITIALS", "LISTNUM", "AUTONUM", "TC", "XE", "RD", "SHAPE",
})  # fmt: skip
"""Fields whose instructions say nothing but what stands in them as text."""

_CODEPAGES = {
    **{number: f"cp{number}" for number in (437, 850, 852, 855, 857, 860, 861, 862, 863, 864, 865, 866, 874, 932, 936)},
    **{number: f"cp{number}" for number in (949, 950, *range(1250, 1259))},
    1361: "johab",
    10000: "mac_roman",
    65001: "utf-8",
}
_OLD_CODEPAGES = {"mac": 10000, "pc": 437, "pca": 850}
_CHARSETS = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "cp936", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_DEFAULT_CHARSET, _SYMBOL_CHARSET = 1, 2
_SYMBOLS = "symbols"
_MARKS_OF_LISTS = frozenset(b"\xb7\xa7\xd8\xfc\xa8qv \t")
"""Bytes that fonts of symbols show as the mark of a list; others may be digits or letters."""


@dataclass(slots=True)
class _RtfGroup:
    r"""What holds up to the brace that closes it.

    Attributes:
        name: the destination; empty for the body.
        pieces: where its text goes.
        fallback: how many characters behind one of Unicode are for readers that do not know it.
        charset: the charset of its font; None for that of the document.
        hidden: where text that is hidden here goes.
        is_new: whether no word or text of it has come yet.
        is_starred: whether it began with ``\*``.
    """

    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    fallback: int = 1
    charset: str | None = None
    hidden: list[str] | None = None
    is_new: bool = True
    is_starred: bool = False

    def within(self) -> _RtfGroup:
        """Return a group that stands in this one."""
        return _RtfGroup(self.name, self.pieces, self.fallback, self.charset, self.hidden)


class _RtfReader:
    """A document, token by token."""

    def __init__(self) -> None:
        self.body = list[str]()
        self.body_without_unicode = list[str]()
        self.everything = list[str]()
        self.elsewhere = list[tuple[str, list[str]]]()
        self.groups = [_RtfGroup(pieces=self.body)]
        self.is_read = True
        self.has_fallbacks = False
        self.codepage = "cp1252"
        self.fonts = dict[int, str]()
        self.font = 0
        self.skipped = 0  # characters that are left of a fallback
        self.bytes = bytearray()

    def take(self, found: re.Match[str]) -> int:
        """Take a token; return how many characters behind it are binary."""
        word, number, byte, symbol, brace, text = found.groups()
        if brace is not None:
            self._brace(brace)
        elif self.skipped and text is None and (byte is not None or word is not None or symbol is not None):
            self._skip(byte and chr(int(byte, 16)))
            return self._binary(word, number)
        elif text is not None:
            self._text(text)
        elif byte is not None:
            self._text(chr(int(byte, 16)))
        elif word is not None:
            self._word(word, int(number) if number else None)
            return self._binary(word, number)
        elif symbol == "*":
            self.groups[-1].is_starred = True
        elif symbol is not None:
            self._show(_SIGNS.get(symbol, ""))
        return 0

    def finished(self) -> RtfText:
        """Return the texts."""
        self._flush()
        texts = ["".join(self.body)]
        for name, pieces in self.elsewhere:
            text = "".join(pieces)
            if _is_hexadecimal(text):
                self.is_read = self.is_read and name in _MACHINES
                continue
            if name == "fldinst":
                self.is_read = self.is_read and (text.split() or ["PAGE"])[0].upper() in _FIELDS
            texts.append(text)
        texts += ["".join(self.body_without_unicode)] if self.has_fallbacks else []
        texts.append("".join(piece for piece in self.everything if not _is_hexadecimal(piece)))
        return RtfText("\n".join(dict.fromkeys(text for text in texts if text.strip())), self.is_read)

    def _binary(self, word: str | None, number: str | None) -> int:
        if word != "bin":
            return 0
        self.is_read = False
        return max(int(number or 0), 0)

    def _brace(self, brace: str) -> None:
        self._flush()
        self.skipped = 0
        if brace == "{" and len(self.groups) > _DEEPEST:
            self.is_read = False
        elif brace == "{":
            self.groups.append(self.groups[-1].within())
        elif len(self.groups) > 1:
            self.groups.pop()

    def _text(self, text: str) -> None:
        self.groups[-1].is_new = False
        fallback = text[: self.skipped]
        if fallback:
            self._skip(fallback)
        for run in _BYTES.split(text[len(fallback) :]):
            if run and ord(run[0]) <= _LAST_BYTE:
                self.bytes += run.encode("latin-1")
            elif run:
                self._show(run)

    def _skip(self, signs: str | None) -> None:
        """Leave out text for readers that do not know the character before it; None is a word or a symbol."""
        self.skipped -= len(signs or " ")
        if signs is not None and _ALPHANUMERIC.search(signs):
            self.has_fallbacks = True
            self.everything.append(signs)
        if self.groups[-1].pieces is self.body:
            self.body_without_unicode.append(signs or "")

    def _flush(self) -> None:
        """Show the bytes so far in the charset of their font."""
        if not self.bytes:
            return None
        raw, charset = bytes(self.bytes), self.groups[-1].charset or self.codepage
        self.bytes.clear()
        if raw.isascii() and charset != _SYMBOLS:
            return self._put(raw.decode())
        if charset == _SYMBOLS:
            self.is_read = self.is_read and (self.groups[-1].name not in _SHOWN or _MARKS_OF_LISTS.issuperset(raw))
            return self._put(raw.decode("cp1252", "replace"))
        try:
            return self._put(raw.decode(charset))
        except (UnicodeError, LookupError):
            self.is_read = False
            return self._put(raw.decode("cp1252", "replace"))

    def _show(self, text: str) -> None:
        self._flush()
        self._put(text)

    def _put(self, text: str, *, is_unicode: bool = False) -> None:
        if not text:
            return
        group = self.groups[-1]
        pieces = group.pieces if group.hidden is None else group.hidden
        pieces.append(text)
        self.everything.append(text)
        if pieces is self.body and not is_unicode:
            self.body_without_unicode.append(text)

    # Words

    def _word(self, word: str, number: int | None) -> None:
        self._flush()
        group = self.groups[-1]
        if group.is_new and (group.is_starred or word in _ELSEWHERE or word in _UNREADABLE):
            self._enter(group, word.lower())
        group.is_new = False
        if word in _SIGNS:
            self._put(_SIGNS[word])
        elif word == "u" and number is not None:
            self._put(chr(number % 0x10000), is_unicode=True)
            self.skipped = group.fallback
            self.has_fallbacks = self.has_fallbacks or not group.fallback
        elif word == "uc":
            group.fallback = max(number or 0, 0)
        elif word in ("v", "deleted"):
            group.hidden = None if number == 0 else self._elsewhere(word)
        elif word == "plain":
            group.hidden, group.charset = None, None
        elif word in ("f", "fcharset", "cpg", "ansicpg", "mac", "pc", "pca"):
            self._font(group, word, number or 0)

    def _enter(self, group: _RtfGroup, word: str) -> None:
        """Let the text of a group go where its destination says."""
        self.is_read = self.is_read and word not in _UNREADABLE
        if word not in _IN_PLACE:
            group.name, group.pieces = word, self._elsewhere(word)

    def _elsewhere(self, name: str) -> list[str]:
        pieces = list[str]()
        self.elsewhere.append((name, pieces))
        return pieces

    def _font(self, group: _RtfGroup, word: str, number: int) -> None:
        """Take the charset of the document, or of a font, or a font that text is in."""
        if word == "f" and group.name == "fonttbl":
            self.font = number
        elif word == "f":
            group.charset = self.fonts.get(number)
        elif word == "fcharset" and number == _SYMBOL_CHARSET:
            self.fonts[self.font] = _SYMBOLS
        elif word == "fcharset" and number != _DEFAULT_CHARSET:
            self.fonts[self.font] = _CHARSETS.get(number, "unknown")
        elif word == "cpg":
            self.fonts[self.font] = _CODEPAGES.get(number, "unknown")
        elif group.name != "fonttbl":
            number = number if word == "ansicpg" else _OLD_CODEPAGES.get(word, 0)
            self.codepage = _CODEPAGES.get(number, "unknown")


def _is_hexadecimal(text: str) -> bool:
    packed = "".join(text.split())
    return len(packed) >= _LEAST_BINARY and _HEXADECIMAL.fullmatch(packed) is not None
