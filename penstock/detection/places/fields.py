"""`FieldPaths`: the option ``fields`` of guards, which names the values at paths of JSON and in columns of tables."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.detection.deferred import deferred
from penstock.detection.places.tables import Headers, TableColumn, TableReader
from penstock.engine.text_guards.window import uncut
from penstock.engine.values.json_text import JsonReader
from penstock.engine.values.texts import KeyText

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.text_guards.window import Found, TextWindow

_UNKNOWN = ""
_LONGEST_CELL = 2_000  # characters; a longer cell is searched like any text
_JSON, _JSON_AT, _TABLES, _TABLES_AT = "fields.json", "fields.json.at", "fields.tables", "fields.tables.at"
_VALUES = ("arguments", "args", "input", "result", "output", "object", "data", "error")
"""The keys of a chunk's payload under which a value stands."""


class FieldSpan(NamedTuple):
    """A stretch of a window that a field describes.

    Attributes:
        start: where it begins.
        end: where it ends; far behind the window if that is not seen yet.
        type: the type of the value; None if nothing in it is a finding.
    """

    start: int
    end: int
    type: str | None


@dataclass(frozen=True)
class FieldPaths:
    """The types of values by their paths.

    Attributes:
        fields: the paths, with the type of the value at each, or None for no finding.
    """

    fields: tuple[tuple[str, str | None], ...]

    def spans(self, window: TextWindow, found: Sequence[Found], until: int) -> tuple[list[FieldSpan], int]:
        """Return the stretches of a window that fields describe, and the position up to which text is decided.

        Args:
            window: the window.
            found: the findings in it, which that position must not cut.
            until: up to where they are decided.
        """
        keys, is_key = _keys_of(window)
        known = self._type_at(keys) if keys else _UNKNOWN
        if known is None or (known and not is_key):
            if known and not window.final:
                return [], window.start
            return [FieldSpan(0 if known is None else window.start, len(window.text), known)], until
        reader = _read_json(window)
        spans = list(self._in_json(reader, window, keys))
        cells, hold = self._in_tables(window, keys, until)
        spans += [cell for cell in cells if not any(one.start < cell.end and cell.start < one.end for one in spans)]
        if not window.final:
            stretches = [*found, *(one for one in spans if one.type is not None)]
            until = _uncut(reader, stretches, window, min(until, hold))
        self._pass_tables(window, until)
        return [one for one in spans if one.type is None or one.end <= until or window.final], until

    def _in_json(self, reader: JsonReader, window: TextWindow, keys: tuple[str, ...]) -> Iterator[FieldSpan]:
        """Yield the strings and numbers of JSON text that fields describe."""
        for token in reader.tokens:
            start, end = token.start - window.base, token.end - window.base
            if end <= window.start and not token.open:
                continue
            known = self._type_at((*keys, *token.path), token.path)
            if known is None:
                yield FieldSpan(start, end, None)
            elif known and token.kind != "key" and (start < end or token.open):
                yield FieldSpan(start, sys.maxsize if token.open and not window.final else end, known)

    def _in_tables(self, window: TextWindow, keys: tuple[str, ...], until: int) -> tuple[list[FieldSpan], int]:
        """Return the cells of tables whose columns fields describe, and from where on they are not complete."""
        reader = cast("TableReader | None", window.notes.get(_TABLES))
        if reader is None:
            reader = TableReader(headers=Headers(partial(self._column, keys), _LONGEST_CELL, 0))
            window.notes[_TABLES], window.notes[_TABLES_AT] = reader, window.base
        start = cast("int", window.notes[_TABLES_AT]) - window.base
        if reader.passes(window.text, start):
            return [], until
        cells, hold = reader.copy().read(window.text, start, len(window.text), final=window.final)
        spans: list[FieldSpan] = []
        for cell in cells:
            column, text = cell.column, window.text[cell.low : cell.high]
            if column is not None and any(map(str.isalnum, text)):
                spans.append(FieldSpan(cell.low, cell.high, self._type_at(*_paths_of(keys, column.label))))
        return spans, hold

    def _pass_tables(self, window: TextWindow, until: int) -> None:
        """Move the reader of tables on to a position of the window."""
        reader = cast("TableReader", window.notes[_TABLES])
        start = cast("int", window.notes[_TABLES_AT]) - window.base
        if until > start:
            reader.read(window.text, start, until, final=False)
            window.notes[_TABLES_AT] = window.base + until

    def _column(self, keys: tuple[str, ...], label: str) -> TableColumn:
        """Return the column of a header. Only in rows that fit may it say that nothing is a finding."""
        known = self._type_at(*_paths_of(keys, label)) if label else _UNKNOWN
        return TableColumn(label, known != _UNKNOWN, against=False, secret=known is None)

    @cached_property
    def _steps(self) -> Sequence[tuple[tuple[str, ...], int, str | None]]:
        """The steps of each path, how many of them are keys, and the type."""
        split = [(tuple(field.casefold().split(".")), type) for field, type in self.fields]
        return [(steps, sum(step != "*" for step in steps), type) for steps, type in split]

    def _type_at(self, *paths: tuple[str, ...]) -> str | None:
        """Return the type at a path by the most precise field; an empty text if no field describes it.

        A field speaks for all that stands below it. Several paths are names of one place.
        """
        best, found = -1, cast("str | None", _UNKNOWN)
        for steps, precise, type in self._steps:
            if precise >= best and any(_leads(steps, path) for path in paths if path):
                best, found = precise, type
        return found


def _leads(steps: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether steps lead to a path, or to something that it stands in; ``*`` stands for any number of steps."""
    if not steps:
        return True
    if steps[0] == "*":
        return any(_leads(steps[1:], path[at:]) for at in range(len(path) + (len(steps) == 1)))
    return bool(path) and steps[0] == path[0].casefold() and _leads(steps[1:], path[1:])


def _paths_of(keys: tuple[str, ...], label: str) -> tuple[tuple[str, ...], ...]:
    """Return the paths of a column: its header, whole or in steps, alone and behind the keys of its text."""
    names = ((label,), tuple(label.split(".")))
    return (*names, *((*keys, *name) for name in names))


def _uncut(reader: JsonReader, stretches: Sequence[Found], window: TextWindow, until: int) -> int:
    """Return the largest position up to ``until`` that is within no stretch, and no number or escape of JSON."""
    while True:
        whole = max(uncut(stretches, until), window.start)
        whole = max(reader.uncut(whole + window.base) - window.base, window.start)
        if whole == until:
            return until
        until = whole


def _keys_of(window: TextWindow) -> tuple[tuple[str, ...], bool]:
    """Return the keys that lead to the text of a window within its value, and whether it is a key itself."""
    path = window.locate(window.start)[0].path
    is_key = bool(path) and isinstance(path[-1], KeyText)
    rest = path[1:-1] if is_key else path[1:]
    if path[:1] == ("payload",) and rest:
        if rest[0] not in _VALUES:  # what belongs to the chunk itself, such as the name of a tool
            return (), False
        rest = rest[1:]
    if path[:1] == ("metadata",):
        return (), False
    return tuple(step for step in rest if isinstance(step, str) and not isinstance(step, KeyText)), is_key


def _read_json(window: TextWindow) -> JsonReader:
    """Return the reader of a text, which has read to the end of the window."""
    reader = cast("JsonReader | None", window.notes.get(_JSON))
    if reader is None:
        reader = JsonReader(window.base)
        window.notes[_JSON_AT] = window.base
    end = window.base + len(window.text)
    borders = [part.start for part in window.parts if cast("int", window.notes[_JSON_AT]) < part.start <= end]
    for border in (*borders, end):
        at: int = window.notes[_JSON_AT]
        reader.feed(window.text[at - window.base : border - window.base], final=border != end or window.final)
        if border != end:
            reader.begin_part()
        window.notes[_JSON_AT] = border
    reader.forget(window.base + window.start)
    window.notes[_JSON] = reader
    return reader


def is_hidden(type: str, text: str) -> bool:
    """Return whether a guard has put a value in place of one of the type: its name, a token or a hash."""
    if not text.startswith("[") or not text.endswith("]"):
        return False
    name = "[-_]".join(map(re.escape, _SIGNS.split(type.upper())))
    return re.fullmatch(rf"\[(?:{name}(?:_\d{{1,9}})?|HASH:[0-9a-f]{{4,64}})\]", text) is not None


_SIGNS = deferred(r"[^A-Z0-9]+")
