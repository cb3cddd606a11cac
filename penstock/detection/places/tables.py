"""Tables in a text: the header of a column names every cell below it, as a key in JSON names its value.

A table begins with a line of short labels that a delimiter parts: CSV, TSV, semicolons, Markdown, psql and drawn boxes;
or with the ``<th>`` of an HTML table; or with labels in capitals that blanks set apart, as ``kubectl get`` writes them:
its cells begin where their labels do. A line without the delimiter ends it, and so do two lines in a row with another
number of cells. Cells in quotes may hold delimiters and line breaks.

A text is read once, and piece by piece: `TableReader` keeps the row that is not complete yet, and the labels.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.detection.places.evidence import COUNTS, GOODS, IDENTITIES
from penstock.detection.places.keys import PASSWORDS
from penstock.detection.places.labels import Lead, words_of
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.detection.places.labels import HeaderWords

LONGEST_CELL = 400
"""Characters of the longest cell that its header explains."""

NEAR = 128
"""How many characters behind a header its words still stand close before a value; built-in rules look no farther."""

SEEN_BEHIND = 32
"""Characters behind a cell close to the header that may explain it."""

_LONGEST_ROW = 5_000  # characters; a longer one ends its table
_LONGEST_HEADER = 2_000
_TOLD = 128  # characters: how far back the beginning of a line is looked for
_LONGEST_LABEL, _MOST_WORDS, _MOST_DIGITS = 40, 5, 4
_LEAST_NAMED, _LEAST_PARTED = 2, 3  # labels of a header; and if bars part them and no line is drawn below
_BLOCK = 2_048  # characters that are split into lines at once
_LEAST_FOUND = 4  # characters of a cell in which something may be found
_MOST_RAGGED = 2  # rows with another number of cells

_ALIGNED = "  "  # no delimiter, but what parts the labels of columns that are set apart by blanks
_APART = deferred(r"\S++(?: \S++)*+")
_LONGEST_ALIGNED, _LONGEST_ALIGNED_HEADER = 1_000, 400

_DELIMITERS = ("\t", "|", "│", "┃", ";", ",", _ALIGNED)
_BARS = frozenset("|│┃")
_LONG_RUN = deferred(r"(?<![^\t|│┃;,])[^\S\t]*+[^\s|│┃;,][^\t|│┃;,]{46,}(?<=[^\s|│┃;,])")  # no label, even in quotes
_DRAWN_BARS = "│┃"  # those of a header may be thicker than those of the rows
_ENDS = {
    "|": re.compile(r"(?<!\\)\||\n"),
    **{one: re.compile(f"[{one}\n]") for one in "\t;,"},
    **dict.fromkeys(_DRAWN_BARS, re.compile(f"[{_DRAWN_BARS}\n]")),
}
_DRAWN = deferred(r"(?=.*[-=─-╿])[ \t|+:=─-╿-]+\r?")
_BLANK = " \t\r\n"
_LONGEST_START, _MOST_BLANKS = 46, 5  # of the first cell of a header, with what stands around it, if it is not padded
_STARTS = deferred(  # with a delimiter, or with a label in capitals and two blanks
    rf"(?m)^(?:[^\n\t;,]{{0,{_LONGEST_START}}}[\t;,]|[^\sa-z;,][^\n\ta-z;,]{{0,{_LONGEST_START - 1}}}  )"
)
_AROUND = " \t\r\ufeff\"'`*_"
_WITHIN = deferred(r"(?:\.|[^\W\d_]:) +[^\s|│┃;,\"'`*]")  # the end of a sentence, within a cell
_SENTENCE = deferred(r"[^\W\d_]{5}\. ")  # a shorter word before a point is abbreviated: Geb. Datum
_PAM = deferred(r"(?:auth|account|password|session)\s+(?:required|requisite|sufficient|optional|include|substack)\b")
_NO_SIGN = deferred(r"[@<>{}=]")
_MANY_DIGITS = deferred(rf"\d{{{_MOST_DIGITS + 1}}}")
_AND = frozenset({"and", "or", "und", "oder", "et", "ou", "y", "o", "e"})  # a label does not begin so, a clause does

_TABLE_TAG = deferred(r"<[tT]")
_OPENS = deferred(r"(?i)<(?:table|thead|tr|th)(?=[\s>/])")
_LONGEST_OPENS = 6
_TAG = deferred(r"(?i)<(/?)(table|thead|tbody|tfoot|tr|t[hd])(?=[\s>/])[^<>]{0,300}>")
_MARKUP = deferred(r"<[^<>]*>")

_LABELS_KEPT, _WORDS_KEPT = 256, 1024  # of headers, to look at each once
_BETWEEN_WORDS = deferred(r"[_/-]+|(?<=[a-z\d])(?=[A-Z])")
_OTHERS = IDENTITIES | COUNTS | GOODS


class TableColumn(NamedTuple):
    """The header of a column.

    Attributes:
        label: the header.
        supports: whether it may name personal data or a secret, so that its cells are searched under this name.
        against: whether it names other things, such as ids, sizes and versions.
        secret: whether it may name a secret, which need not have a digit.
    """

    label: str
    supports: bool
    against: bool
    secret: bool

    def explains(self, cell: str) -> bool:
        """Return whether a cell is worth a search under this name."""
        return self.supports and len(cell) >= _LEAST_FOUND and (self.secret or any(map(str.isdigit, cell)))

    @property
    def speaks(self) -> bool:
        """Whether it says anything."""
        return self.supports or self.against


class TableCell(NamedTuple):
    """A cell of a table, with the header of its column.

    Attributes:
        low: where its text begins.
        high: where it ends.
        column: the column; None if its header says nothing.
        against: whether findings that the header does not explain are none.
        since: where the rows of its table begin, if the headers of other columns stand close before the cell.
    """

    low: int
    high: int
    column: TableColumn | None
    against: bool
    since: int | None


class Headers(NamedTuple):
    """The knowledge of rules about headers.

    Attributes:
        column: returns the column of a header.
        longest: characters of the longest cell that its header explains.
        near: how far behind a header cells are of interest though theirs says nothing.
    """

    column: Callable[[str], TableColumn]
    longest: int
    near: int


def headers_for(rules: Sequence[HeaderWords]) -> Headers:
    """Return the knowledge of rules about headers."""

    @lru_cache(maxsize=_WORDS_KEPT)
    def known(word: str) -> frozenset[HeaderWords]:
        return frozenset(rule for rule in rules if rule.knows(word))

    @lru_cache(maxsize=_LABELS_KEPT)
    def column(label: str) -> TableColumn:
        words = _BETWEEN_WORDS.sub(" ", label).lower().split()
        asked: set[HeaderWords] = {rule for word in words for rule in known(word)}
        named = [rule for rule in asked if rule.tells is None or rule.tells(label)]
        lead = Lead(words_of(label))
        against = not _OTHERS.isdisjoint((lead.head, *lead.words))
        return TableColumn(label, bool(named), against, any(not rule.digits for rule in named))

    return Headers(column, LONGEST_CELL, NEAR)


def _names_value(cell: str, headers: Headers) -> bool:
    """Return whether a cell is a label for the cell behind it, as in a list of names and values."""
    return len(cell) <= _LONGEST_LABEL and not any(map(str.isdigit, cell)) and headers.column(cell).supports


def _label(cell: str) -> str | None:
    """Return the label in a cell of a header; None if the cell cannot be one."""
    label = cell.strip(_AROUND)
    if not label:
        return ""
    if len(label) > _LONGEST_LABEL or label.count(" ") >= _MOST_WORDS or ": " in label or _SENTENCE.search(label):
        return None
    first, blank, _ = label.partition(" ")
    if label[0] in ":/" or (blank and first.lower() in _AND):
        return None
    if label.count("(") != label.count(")") or label.endswith("):"):  # a line of code
        return None
    digits = sum(map(str.isdigit, label))
    return label if digits <= _MOST_DIGITS and digits < len(label) else None


class _LineTable(NamedTuple):
    """A table of lines.

    Attributes:
        delimiter: what parts its cells.
        columns: its columns.
        awaits_line: whether a drawn line must follow its header.
        starts: where the cells begin in each line, if blanks set them apart.
    """

    delimiter: str
    columns: tuple[TableColumn, ...]
    awaits_line: bool = False
    starts: tuple[int, ...] = ()

    @property
    def longest(self) -> int:
        """Characters of a row; a longer one ends the table."""
        return _LONGEST_ALIGNED if self.starts else _LONGEST_ROW


def _header(line: str, delimiter: str, headers: Headers) -> _LineTable | None:
    """Return the table that a line is the header of, if one of its labels says something."""
    if line.isascii() and line.lower() == line.upper():
        return None  # without a letter
    if delimiter == _ALIGNED:
        return _aligned_header(line, headers) if _may_be_aligned(line) else None
    if _is_prose(line) or (len(line) > _TOLD and line.endswith((".", ".\r"))):
        return None
    doubled = line.startswith("||")
    labels = _labels(line.replace("||", "|") if doubled else line, delimiter)
    named = sum(bool(label) and not label.partition("/")[0].isdigit() for label in labels)
    if named < _LEAST_NAMED or _is_never_in_header(line):
        return None
    columns = tuple(map(headers.column, labels))
    if not any(each.speaks for each in columns) or _PAM.match(line) or _are_words(columns):
        return None
    parted = delimiter in _BARS and not doubled
    return _LineTable(delimiter, columns, parted and (not labels[0] or named < _LEAST_PARTED))


def _are_words(columns: Sequence[TableColumn]) -> bool:
    """Return whether labels are a row in a list of words and their translations: *password* in several languages."""
    if any(one.secret and one.label.lower() == other.label.lower() for one, other in pairwise(columns)):
        return True
    last = {word for each in columns if each.label for word in words_of(each.label)[-1:] or ("",)}
    return len(last) > 1 and last <= PASSWORDS  # one word in all of them names several passwords: old, new


def _may_be_aligned(line: str) -> bool:
    """Return whether a line, or the beginning of one, may be labels in capitals that blanks set apart."""
    return _ALIGNED in line and len(line) <= _LONGEST_ALIGNED_HEADER and line.isupper() and not line[0].isspace()


def _aligned_header(line: str, headers: Headers) -> _LineTable | None:
    """Return the table that such a line is the header of, if one of its labels says something."""
    found = [*_APART.finditer(line)]
    if len(found) < _LEAST_NAMED or _is_never_in_header(line) or not all(_label(each.group()) for each in found):
        return None
    columns = tuple(headers.column(each.group()) for each in found)
    if not any(each.speaks for each in columns):
        return None
    return _LineTable(_ALIGNED, columns, starts=tuple(each.start() for each in found))


def _labels(line: str, delimiter: str) -> Sequence[str]:
    """Return the labels in a line; none if one of its cells cannot be a label."""
    if len(line) > _LONGEST_HEADER or line.rstrip().endswith(("?", "!", ":")):
        return ()
    if delimiter in _BARS or '"' in line:
        cells = [line[low:high] for low, high in _row(line, 0, delimiter, final=True).places]
    else:
        cells = line.split(delimiter)
    labels: list[str] = []
    for cell in cells:
        label = _label(cell)
        if label is None:
            return ()
        labels.append(label)
    return labels


def _is_never_in_header(line: str) -> bool:
    return bool(_NO_SIGN.search(line) or _MANY_DIGITS.search(line)) or "://" in line


def _is_prose(line: str) -> bool:
    """Return whether a long line has the end of a sentence within a cell."""
    return len(line) > _TOLD and _WITHIN.search(line) is not None


def _is_no_header(line: str) -> bool:
    """Return whether no line that begins so is a header."""
    if len(line) > _LONGEST_HEADER or _is_prose(line) or _is_never_in_header(line):
        return True
    return _LONG_RUN.search(line) is not None and not _may_be_aligned(line)


def _line_before(text: str, at: int) -> str | None:
    """Return the line that a place lies in, up to the place; None if it is long, or its beginning is not seen."""
    low = text.rfind("\n", max(at - _TOLD - 1, 0), at)
    return text[low + 1 : at] if low >= 0 or at <= _TOLD else None


def has_none(text: str, start: int, headers: Headers, *, final: bool) -> bool:
    """Return whether no header of a table ends behind a place, and none begins that is too long to be found again."""
    if (tag := text.find("<", max(start - 1, 0))) >= 0 and _TABLE_TAG.search(text, tag) is not None:
        return False
    if (ended := text.find("\n", start)) < 0 and final:
        return True
    low = max(start - _TOLD - 1, 0)
    low = text.rfind("\n", low, start) + 1 or (0 if start <= _TOLD else ended + 1 or len(text))
    last, header = (low, None) if ended < 0 else _next_header(text, low, headers)
    return header is None and (final or len(text) - last <= _TOLD or _is_no_header(text[last:]))


def _next_header(text: str, at: int, headers: Headers) -> tuple[int, _LineTable | None]:
    """Return the first header from the beginning of a line on, and where the line behind it begins.

    If there is none, the place is where the last line begins.
    """
    while True:
        end = text.rfind("\n", at, at + _BLOCK) + 1 if len(text) - at > _BLOCK else text.rfind("\n", at) + 1
        end = end or text.find("\n", at) + 1
        if not end:
            return at, None
        block = text[at : end - 1]
        delimiters = [one for one in _DELIMITERS if one in block]
        for low, line in _lines_that_begin_so(block, delimiters):
            for delimiter in delimiters:
                first = line.find(delimiter)
                if first < 0:
                    continue
                if delimiter in _BARS or not (first > _LONGEST_START or line.count(" ", 0, first) > _MOST_BLANKS):
                    header = _header(line, delimiter, headers)
                    if header is not None:
                        return at + low + len(line) + 1, header
                break
        at = end
        checkpoint()


def _lines_that_begin_so(block: str, delimiters: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text in which a delimiter stands near the beginning, or anywhere if some are bars."""
    if not delimiters:
        return
    if _BARS.isdisjoint(delimiters):
        for found in _STARTS.finditer(block):
            end = block.find("\n", found.end())
            yield found.start(), block[found.start() : end if end >= 0 else len(block)]
        return
    low = 0
    for line in block.split("\n"):
        yield low, line
        low += len(line) + 1


class _LineRow(NamedTuple):
    """The cells of a row.

    Attributes:
        places: where the cells begin and end that are complete.
        end: where the row ends; -1 if that is not seen.
        open: where the cell begins that is not complete; -1 if there is none.
    """

    places: Sequence[tuple[int, int]]
    end: int
    open: int = -1


def _aligned_row(text: str, at: int, table: _LineTable, *, final: bool) -> _LineRow:
    """Return the cells of the row that begins at a place, where the labels above begin.

    If a word goes across such a place, they are what blanks set apart. A line that ends before the second is no row.
    """
    limit = at + table.longest
    end = text.find("\n", at, limit)
    if end < 0 and final and len(text) <= limit:
        end = len(text)
    if end < 0:
        return _LineRow((), -1, at)
    lows = [min(at + start, end) for start in table.starts]
    if any(low < end and not text[low - 1].isspace() for low in lows[1:]):
        return _LineRow([each.span() for each in _APART.finditer(text, at, end)], end)
    places = [*zip(lows, [*lows[1:], end], strict=True)]
    return _LineRow(places if end >= at + table.starts[1] else places[:1], end)


def _row(text: str, at: int, delimiter: str, *, final: bool) -> _LineRow:
    """Return the cells of the row that begins at a place. It ends there or is longer than it may be, if it is open."""
    limit = at + _LONGEST_ROW
    end = text.find("\n", at, limit)
    if end < 0 and final and len(text) <= limit:
        end = len(text)
    if end < 0 or delimiter in _DRAWN_BARS or text.find("\\" if delimiter == "|" else '"', at, end) >= 0:
        return _row_with_quotes(text, at, delimiter, limit, final=final)
    places: list[tuple[int, int]] = []
    for cell in text[at:end].split(delimiter):
        places.append((at, at + len(cell)))
        at += len(cell) + 1
    return _LineRow(places, end)


def _row_with_quotes(text: str, at: int, delimiter: str, limit: int, *, final: bool) -> _LineRow:
    """Return the cells of a row that may have quotes, or escapes of its delimiter."""
    final = final and len(text) < limit
    limit = min(limit, len(text))
    ends = _ENDS[delimiter]
    places: list[tuple[int, int]] = []
    while True:
        behind = at if delimiter in _BARS else _behind_quotes(text, at, limit, final=final)
        found = ends.search(text, behind, limit) if behind >= 0 else None
        if found is None:
            return _LineRow([*places, (at, limit)], limit) if final else _LineRow(places, -1, at)
        places.append((at, found.start()))
        if found.group() == "\n":
            return _LineRow(places, found.start())
        at = found.end()


def _behind_quotes(text: str, at: int, limit: int, *, final: bool) -> int:
    """Return where the quotes end that a cell begins with; its beginning if there are none; -1 if that is not seen."""
    begin = at
    while begin < limit and text[begin] == " ":
        begin += 1
    if begin == limit or text[begin] != '"':
        return at if begin < limit or final else -1
    close = begin + 1
    while True:
        close = text.find('"', close, limit)
        if close < 0 or (close + 1 == limit and not final):
            return -1
        if not text.startswith('"', close + 1):
            return close + 1
        close += 2


def _fits(text: str, row: _LineRow, table: _LineTable) -> bool:
    """Return whether a row has as many cells as its table has columns; an empty one may follow them."""
    count, columns = len(row.places), len(table.columns)
    return count == columns or (count == columns + 1 and not text[slice(*row.places[-1])].strip())


class _TablesRead(NamedTuple):
    """The cells that a reader has come by.

    Attributes:
        cells: the cells that headers explain.
        hold: where the first one begins that is not complete.
        ended: where the last table has ended; -1 if none has.
    """

    cells: list[TableCell]
    hold: int
    ended: int = -1


class TableReader:
    """Reads the tables of a text, which may come in pieces. It stands at a place of the text."""

    __slots__ = (
        "_calm",
        "_candidate",
        "_far",
        "_head",
        "_headers",
        "_html_far",
        "_in_html",
        "_is_first",
        "_markup",
        "_ragged",
        "_row",
        "_table",
    )

    def __init__(self, headers: Headers, row: str | None = "", markup: str = "") -> None:
        """Stand at the beginning of a text, or behind a beginning that has no tables.

        Args:
            headers: the knowledge of rules about headers.
            row: the last line; None if it cannot be a header.
            markup: the end of the text, if it may be cut within a tag.
        """
        self._headers = headers
        self._row = row
        self._table: _LineTable | None = None
        self._candidate: _LineTable | None = None  # a header below which a line must be drawn
        self._ragged = self._far = 0
        self._markup = markup
        self._in_html = self._is_first = False
        self._head: Sequence[TableColumn] = ()
        self._html_far = 0
        self._calm = sys.maxsize  # characters since the last table has ended

    @classmethod
    def begun(cls, headers: Headers, text: str, at: int) -> TableReader:
        """Return the reader of a text without tables at a place of it."""
        return cls(headers, _line_before(text, at), _open_tag(text[max(at - _LONGEST_OPENS, 0) : at]))

    def is_begun(self, text: str, since: int, at: int) -> bool:
        """Return whether the reader, at its place ``at``, is one that `begun` returns there, and from ``since`` on."""
        if self._table or self._candidate or self._in_html or self._markup or self._calm < at - since:
            return False
        return self._row == _line_before(text, at)

    def passes(self, text: str, start: int) -> bool:
        """Return whether it is plain that the text from a place on ends no line and is in no table."""
        at_rest = not (self._table or self._candidate or self._in_html or self._markup)
        return at_rest and text.find("\n", start) < 0 and text.find("<", start) < 0

    def copy(self) -> TableReader:
        """Return another reader at the same place."""
        made = TableReader(self._headers, self._row, self._markup)
        made._table, made._candidate, made._ragged, made._far = self._table, self._candidate, self._ragged, self._far
        made._in_html, made._is_first, made._head = self._in_html, self._is_first, self._head
        made._html_far, made._calm = self._html_far, self._calm
        return made

    def read(self, text: str, start: int, end: int, *, final: bool) -> tuple[list[TableCell], int]:
        """Move on from ``start`` to ``end``; return the cells on the way, and from where on they are not complete.

        Do not go on behind that place, but move another reader to it.
        """
        fresh = text[start:end]
        if self.passes(fresh, 0):
            self._calm = min(self._calm, sys.maxsize - end) + end - start
            if self._row is not None:
                self._keep(self._row + fresh)
            return [], end
        read = self._read_lines(fresh, start, final=final)
        html = self._read_html(fresh, start, final=final)
        ended = max(read.ended, html.ended)
        self._calm = end - ended if ended >= 0 else min(self._calm, sys.maxsize - end) + end - start
        cells = [cell for cell in read.cells if cell.low >= start]
        if html.cells:
            cells = _disjoint([*cells, *(cell for cell in html.cells if cell.low >= start)])
        return cells, max(min(read.hold, html.hold, end), start)

    def _read_lines(self, fresh: str, start: int, *, final: bool) -> _TablesRead:
        cells: list[TableCell] = []
        hold, ended = sys.maxsize, -1
        at = 0 if self._row is not None else fresh.find("\n") + 1  # else behind the rest of a line that is no header
        if self._row is None and not at:
            return _TablesRead(cells, hold)
        text, base = (self._row + fresh, start - len(self._row)) if self._row else (fresh, start)
        while True:
            table = self._table
            if table is None:
                at = self._seek(text, at)
                if self._table is None:
                    break
                continue
            checkpoint()
            is_aligned = table.delimiter == _ALIGNED
            row = (
                _aligned_row(text, at, table, final=final)
                if is_aligned
                else _row(text, at, table.delimiter, final=final)
            )
            goes_on = row.end < 0 and len(text) < at + table.longest
            fits = None if goes_on else row.end >= 0 and _fits(text, row, table)
            if row.end < 0 or len(row.places) > 1:
                since = at - self._far
                found, behind = _explained(text, base, since, row, table.columns, self._headers, fits=fits, final=final)
                cells += found
                hold = min(hold, behind)
            if goes_on:
                hold = min(hold, base + at) if is_aligned else hold
                break
            at = self._pass(text, at, row, table)
            ended = ended if self._table else base + at
        self._keep(text[at:])
        return _TablesRead(cells, hold, ended)

    def _keep(self, row: str) -> None:
        """Keep the beginning of a line, unless it is long and no header."""
        awaited = self._candidate is not None and len(row) <= _LONGEST_HEADER
        known = self._table is not None or awaited or len(row) <= _TOLD
        self._row = row if known or not _is_no_header(row) else None
        self._candidate = self._candidate if self._row is not None else None

    def _seek(self, text: str, at: int) -> int:
        """Look for the next table from the beginning of a line on; return where its rows begin, or the last line."""
        while True:
            if self._candidate is not None:
                end = text.find("\n", at)
                if end < 0:
                    return at
                if _DRAWN.fullmatch(text, at, end):
                    self._begin(self._candidate._replace(awaits_line=False))
                    return end + 1
            at, header = _next_header(text, at, self._headers)
            self._begin(header)
            if self._candidate is None:
                return at

    def _begin(self, header: _LineTable | None) -> None:
        """Begin the table of a header, or wait for the line below it; None ends the one before."""
        waits = header is not None and header.awaits_line
        self._candidate = header if waits else None
        self._table = None if waits else header
        self._ragged = self._far = 0

    def _pass(self, text: str, at: int, row: _LineRow, table: _LineTable) -> int:
        """Pass the row that begins at a place; return where the next one begins.

        The row may end the table, or be the header of another one.
        """
        if row.end < 0:
            self._table = None
            return at + table.longest
        self._far += row.end + 1 - at
        line = text[at : row.end]
        if _fits(text, row, table):
            self._ragged = 0
        elif _DRAWN.fullmatch(line) is None:
            _, header = _next_header(f"{line}\n", 0, self._headers)
            if header is not None:
                self._begin(header)
            elif len(row.places) == 1 or self._ragged + 1 == _MOST_RAGGED:
                self._table = None
            else:
                self._ragged += 1
        return row.end + 1

    def _read_html(self, fresh: str, start: int, *, final: bool) -> _TablesRead:
        text, base = (self._markup + fresh, start - len(self._markup)) if self._markup else (fresh, start)
        cells: list[TableCell] = []
        hold, ended, at = sys.maxsize, -1, 0
        while True:
            if not self._in_html:
                opens = _OPENS.search(text, at) if "<t" in text or "<T" in text else None
                if opens is None:
                    self._markup = _open_tag(text[max(len(text) - _LONGEST_OPENS, at) :])
                    return _TablesRead(cells, hold, ended)
                self._in_html = self._is_first = True
                self._head, self._html_far, at = (), 0, opens.start()
            checkpoint()
            row = _html_row(text, at, final=final)
            columns = self._head or _named_by_first(text, row, self._headers)
            since = at - self._html_far
            found, behind = _explained(text, base, since, row, columns, self._headers, fits=True, final=final)
            cells += found
            hold = min(hold, behind)
            if row.end < 0 and len(text) < at + _LONGEST_ROW:
                self._markup = text[at:]
                return _TablesRead(cells, hold, ended)
            if row.end < 0 or row.closes:
                self._in_html = False
                at = at + _LONGEST_ROW if row.end < 0 else row.end
                ended = base + at
                continue
            self._html_far += row.end - at
            at = row.end
            if row.places:
                self._name_columns(text, row)
            if row.opens:
                self._head, self._is_first = (), True

    def _name_columns(self, text: str, row: _HtmlRow) -> None:
        """Take the labels from a row of an HTML table, if it is one of headers."""
        labels = [_label(_MARKUP.sub("", text[low:high])) for low, high in row.places]
        heads = row.heads == len(row.places)
        if heads or (self._is_first and not row.heads and None not in labels):
            columns = [self._headers.column(label or "") for label in labels]
            speaks = sum(map(bool, labels)) >= _LEAST_NAMED and any(each.speaks for each in columns)
            self._head = columns if speaks else ()
            self._html_far = 0
        self._is_first = False


class _HtmlRow(NamedTuple):
    """The cells of a row of an HTML table; see `_LineRow`.

    Attributes:
        heads: how many cells are headers, before the first that is none.
        closes: whether the table ends with the row.
        opens: whether a table begins behind it.
    """

    places: Sequence[tuple[int, int]]
    end: int
    open: int = -1
    heads: int = 0
    closes: bool = False
    opens: bool = False


def _html_row(text: str, at: int, *, final: bool) -> _HtmlRow:
    """Return the cells of the row that begins at a place."""
    places: list[tuple[int, int]] = []
    low, heads, is_head = -1, 0, False
    limit = min(at + _LONGEST_ROW, len(text))
    for tag in _TAG.finditer(text, at, limit):
        closing, name = tag.groups()
        if low >= 0:
            heads += is_head and heads == len(places)
            places.append((low, tag.start()))
            low = -1
        if name.lower() in ("td", "th"):
            low = -1 if closing else tag.end()
            is_head = name.lower() == "th"
        elif places or name.lower() == "table":
            table = name.lower() == "table"
            return _HtmlRow(places, tag.end(), -1, heads, closes=table and bool(closing), opens=table and not closing)
    if final and limit == len(text) and low >= 0:
        heads += is_head and heads == len(places)
        return _HtmlRow([*places, (low, limit)], -1, heads=heads)
    return _HtmlRow(places, -1, low, heads)


def _named_by_first(text: str, row: _HtmlRow, headers: Headers) -> Sequence[TableColumn]:
    """Return columns for a row without headers above it: its first cell, if that is a header, names the others."""
    if not row.heads or not row.places:
        return ()
    low, high = row.places[0]
    name = headers.column(_label(_MARKUP.sub("", text[low:high])) or "")
    return [*[headers.column("")] * row.heads, *[name] * (len(row.places) + 1)]


def _open_tag(text: str) -> str:
    """Return the end of a text that may be the beginning of a tag that opens a table."""
    low = text.rfind("<")
    return text[low:] if low >= 0 and text[low + 1 :].isalpha() | (low + 1 == len(text)) else ""


def _explained(
    text: str,
    base: int,
    since: int,
    row: _LineRow | _HtmlRow,
    columns: Sequence[TableColumn],
    headers: Headers,
    *,
    fits: bool | None,
    final: bool,
) -> tuple[list[TableCell], int]:
    """Return the cells of a row that its columns explain, and from where on they are not complete.

    Args:
        text: the text.
        base: a number that is added to all places.
        since: where the rows of the table begin.
        row: the row.
        columns: the columns.
        headers: the knowledge of rules about headers.
        fits: whether the row has as many cells as columns; None if that is not seen yet. Only then may a cell hold a
            secret, which can be any word.
        final: whether the text ends here.
    """
    cells: list[TableCell] = []
    hold = sys.maxsize
    if row.open >= 0 and len(row.places) < len(columns) and len(text) - row.open <= headers.longest:
        at = columns[len(row.places)]
        if at.speaks or row.open - since < headers.near:
            hold = base + row.open
    for index, (each, (low, high)) in enumerate(zip(columns, row.places, strict=False)):
        near = low - since < headers.near
        if high - low > headers.longest or not (each.speaks or near):
            continue
        if near and not final and len(text) < high + SEEN_BEHIND:
            hold = min(hold, base + low)
            continue
        if each.secret and not fits:
            hold = min(hold, base + low) if fits is None else hold
            continue
        inner, end = _inner(text, low, high)
        if inner < end:
            against = each.against and not (
                index and _names_value(text[slice(*row.places[index - 1])].strip(_AROUND), headers)
            )
            named = each if each.speaks else None
            cells.append(TableCell(base + inner, base + end, named, against, base + since if near else None))
    return cells, hold


def _inner(text: str, low: int, high: int) -> tuple[int, int]:
    """Return where the text of a cell begins and ends, without the blanks and the quotes around it."""
    cell = text[low:high]
    bare = cell.strip(_BLANK)
    low += cell.index(bare)
    high = low + len(bare)
    return (low + 1, high - 1) if len(bare) > 1 and bare[0] == bare[-1] == '"' else (low, high)


def _disjoint(cells: list[TableCell]) -> list[TableCell]:
    """Return cells in order, without those that overlap one before them."""
    kept: list[TableCell] = []
    for cell in sorted(cells, key=lambda cell: cell.low):
        if not kept or kept[-1].high <= cell.low:
            kept.append(cell)
    return kept
