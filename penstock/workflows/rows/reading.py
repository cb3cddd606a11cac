"""Rows: their contents, which of their columns are checked and which are kept, and how lines become rows."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MessageError, PenstockError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.batch import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from typing_extensions import TypeIs

    from penstock.engine.values.messages import Message


class RowsError(PenstockError):
    """Rows that cannot be read at all. The text says why, and what to do."""


LineFormat = Literal["auto", "jsonl", "text"]

MAX_LINE = 64 * 1024 * 1024
"""The length of the longest line that is read, in bytes: far beyond any conversation, and small for a memory."""

DEEPEST = 200
"""How many levels deep the value of a row may be nested: far beyond any conversation, and safe for what walks it."""

TOO_DEEP = f"it is nested too deeply: more than {DEEPEST} levels"

TOOL_VALUES = {name: stage.value for name, stage in STAGES.items() if stage.value}
"""The stages that check a JSON value instead of messages, and the field of a row that holds it."""

BODIES = ("text", "messages", "content", "parts")
"""The fields of which a row has one."""

TOOL_FIELDS = (*TOOL_VALUES.values(), "tool_name", "call_id")


class RawRow(NamedTuple):
    """A row as it was read, not parsed yet: this is what crosses to another process.

    Attributes:
        line: the number of its line (of its row, in a table), from 1.
        data: the bytes of a line of JSON; or the value of a line of text or of a row of a table; or `Unreadable`.
        file: the name of its file, if there are several; else None.
    """

    line: int
    data: Any
    file: str | None = None


_raw_row: Callable[[tuple[int, bytes, str | None]], RawRow] = partial(cast("Any", tuple).__new__, RawRow)
"""Makes a row of its fields in a third of the time that ``RawRow(…)`` takes: half of the time of reading a line."""


class Unreadable(NamedTuple):
    """Why a row could not be read, and its raw value if that is not too long."""

    problem: str
    raw: bytes | None = None


def too_long(what: str = "line") -> Unreadable:
    """Return that a line is too long to be read."""
    return Unreadable(f"the {what} is longer than {MAX_LINE // 1024 // 1024} MiB")


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the input.

    Attributes:
        line: the number of its line (of its row, in a table), from 1.
        value: the str or JSON value of the row.
        problem: why it has none, or None.
        file: the name of its file, if there are several; else None.
        raw: the raw input, if it has no value; None if that is too long, too.
    """

    line: int
    value: object = None
    problem: str | None = None
    file: str | None = None
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns (fields of a JSON object) of a row are used, and which stand in its result.

    Attributes:
        text: the column that holds the text to check. None: the row says it itself, see `call_of`.
        id: the column that holds the row's own id.
        keep: the columns that stand in the result as they came, read by no guard. None: all that were not used,
            except in a row that is one message, whose fields come back with the message.
        aside: columns, such as labels, that are no part of a row that is one message, so that no guard reads them.
    """

    text: str | None = None
    id: str = "id"
    keep: tuple[str, ...] | None = None
    aside: tuple[str, ...] = ()

    def id_of(self, value: object) -> str | int | None:
        """Return the row's own id; None if it has none, or one that is no string and no number."""
        found = value.get(self.id) if is_object(value) else None
        return found if isinstance(found, str | int) else None

    def body_of(self, value: object) -> object:
        """Return the checked value of a row: the column ``text``, or the row itself.

        Raises:
            MessageError: the row has no such column, or nothing in it.
        """
        if self.text is None:
            return value
        if not is_object(value) or self.text not in value:
            raise MessageError("", f"it has no column {self.text!r}")
        if value[self.text] is None:
            raise MessageError(self.text, "it is null")
        return value[self.text]

    def kept_of(self, value: object) -> dict[str, object]:
        """Return the columns of a row that stand in its result, in their order."""
        if not is_object(value):
            return {}
        if self.keep is not None:
            return {name: value[name] for name in self.keep if name in value}
        if self.text is None and value.keys().isdisjoint(("text", "messages", *TOOL_VALUES.values())):
            return {}  # it is one message
        used = {self.id, *((self.text,) if self.text is not None else (*BODIES, "role", *TOOL_FIELDS))}
        return {name: item for name, item in value.items() if name not in used}


COLUMNS = Columns()


def is_object(value: object) -> TypeIs[dict[str, object]]:
    """Return whether a JSON value is an object."""
    return isinstance(value, dict)


@dataclass(slots=True)
class LineIds:
    """Makes the ids of the messages of one row; they are the same in every run on the same input."""

    line: int
    count: int = field(default=0)

    def next(self) -> str:
        """Return an id of line and number."""
        self.count += 1
        return f"line-{self.line}-{self.count}"


def call_of(row: InputRow, stage: str, context: Mapping[str, object], columns: Columns = COLUMNS) -> Call:
    """Return how to run a stage on a row.

    Raises:
        MessageError: the row is malformed.
    """
    if row.problem is not None:
        raise MessageError("", row.problem)
    ids = LineIds(row.line)
    options: dict[str, object] = {
        "ids": ids,
        "run_id": f"line-{row.line}",
        "request_context": dict(context),
    }
    if STAGES[stage].streams:
        return Call(_answer_of(columns.body_of(row.value)), {"id": ids.next()}, options)
    if stage in TOOL_VALUES:
        return _tool_call_of(row.value, columns.text or TOOL_VALUES[stage], options)
    return Call(_messages_of(columns.body_of(row.value), (columns.id, *columns.aside)), {}, options)


def _answer_of(value: object) -> str:
    """Return the text of a row that is an answer."""
    found = value
    if is_object(value):
        found = next((value[name] for name in ("text", "content") if value.get(name) is not None), None)
    if not isinstance(found, str) or (is_object(value) and value.get("messages") is not None):
        raise MessageError("", "this stage streams a text, and the row has none: give it 'text', or name the column")
    return found


def _messages_of(value: object, aside: tuple[str, ...]) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _parsed(cast("object", value))
    if not is_object(value):
        raise MessageError("", f"a row is a string, an object or a list of messages, not {_kind(value)}")
    bodies = [name for name in BODIES if name in value]
    if len(bodies) > 1:
        bodies = [name for name in bodies if value[name] is not None] or bodies  # a row of a table has every column
    if "messages" in bodies and "text" in bodies:
        raise MessageError("", "it has both 'text' and 'messages'; give one of them")
    if not bodies:
        raise MessageError("", f"it has none of {', '.join(map(repr, BODIES))}")
    if "messages" in bodies:
        return _parsed(value["messages"])
    if bodies == ["text"] or (bodies == ["content"] and "role" not in value):
        return _text_of(value, bodies[0])
    return _parsed([{"role": "user", **{name: item for name, item in value.items() if name not in aside}}])


def _parsed(value: object) -> tuple[Message, ...]:
    from penstock.formats import parse_messages  # not needed for plain texts

    messages = parse_messages(value)
    if not messages:
        raise MessageError("messages", "the list is empty")
    return messages


def _text_of(value: dict[str, object], name: str) -> object:
    text = value[name]
    if isinstance(text, str):
        return text
    if name == "text":
        raise MessageError(name, f"expected a string, not {_kind(text)}")
    return _parsed([{"role": "user", "content": text}])


def _tool_call_of(value: object, name: str, options: dict[str, object]) -> Call:
    if not is_object(value):
        return Call(value, {}, options)
    if name not in value:
        raise MessageError("", f"it has no {name!r}, which this stage needs")
    details = {key: value[key] for key in ("tool_name", "call_id") if isinstance(value.get(key), str)}
    return Call(value[name], details, options)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if is_object(value):
        return "an object"
    name = type(value).__name__  # a table has values that JSON does not have
    return {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a string", "list": "a list"}.get(
        name, f"a value of the type {name}"
    )


def parse_row(raw: RawRow) -> InputRow:
    """Return raw input of any kind as a row: `parse_json` or `parse_value`."""
    return parse_json(raw) if isinstance(raw.data, bytes) else parse_value(raw)


def parse_value(raw: RawRow) -> InputRow:
    """Return a value, such as that of a row of a table, as a row."""
    line, data, file = raw
    if isinstance(data, Unreadable):
        return InputRow(line, problem=data.problem, file=file, raw=data.raw)
    return InputRow(line, data, file=file)


def parse_json(raw: RawRow) -> InputRow:
    """Return a line of JSON as a row."""
    line, data, file = raw
    try:
        text = data.decode("utf-8")
        value = _DECODE(text)
        if not (text.count("[") + text.count("{") > DEEPEST and is_too_deep(value)):
            return InputRow(line, value, file=file)
        problem = TOO_DEEP
    except UnicodeDecodeError as error:
        problem = not_utf8(error)
    except json.JSONDecodeError as error:
        problem = f"it is not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
    except RecursionError:
        problem = TOO_DEEP
    except ValueError:
        problem = "it cannot be parsed as JSON: a number has too many digits"
    return InputRow(line, problem=problem, file=file, raw=data)


# ``NaN`` and ``Infinity`` are no JSON, but Python writes them: they are null, as those of a table are, and so is a
# number beyond all that a float can hold.
_DECODE = json.JSONDecoder(
    parse_float=lambda number: value if math.isfinite(value := float(number)) else None, parse_constant=lambda _: None
).decode


def is_too_deep(value: Any) -> bool:
    """Return whether the value of a row is nested deeper than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for each in level
            for item in (each.values() if is_mapping(each) else each)
            if is_mapping(item) or is_items(item)
        ]
        if not level:
            return False
    return True


def not_utf8(error: UnicodeDecodeError) -> str:
    """Return why a line cannot be decoded."""
    return f"it is not valid UTF-8, at byte {error.start + 1} of the line"


def rest_unreadable(number: int, error: Exception, file: str | None) -> RawRow:
    """Return the row that stands for the rest of an input that cannot be read."""
    reason = error if isinstance(error, RowsError) else reason_of(error)
    return RawRow(number, Unreadable(f"the rest of the file cannot be read: {reason}"), file)


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read or written."""
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


# Lines


class Source(Protocol):
    """Where the rows of a run come from. Lives as long as they are read."""

    @property
    def size(self) -> int | None:
        """How many bytes it has; None if that is not known."""
        ...

    @property
    def taken(self) -> int:
        """How many bytes of it were read so far."""
        ...

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows as they are read. See `parse_row`."""
        ...


@dataclass(slots=True)
class RowSource:
    """Reads the rows of a file or of stdin. Lives as long as it is read.

    Attributes:
        stream: the stream to read.
        form: the format of the lines; ``auto``: the first line that is not empty decides.
        file: the name of the file, if there are several; else None.
        taken: the number of bytes read so far, for the progress bar.
        before: how many lines of the file are before the stream.
    """

    stream: IO[bytes]
    form: LineFormat = "auto"
    file: str | None = None
    taken: int = 0
    before: int = 0

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the lines as rows. Empty ones are skipped, but counted.

        Raises:
            RowsError: the input is UTF-16 or UTF-32.
        """
        lines = self._lines()
        if self.form == "auto":
            first = next(lines, None)
            if first is None:
                return lines
            self.form = "jsonl" if is_json(first.data) else "text"
            lines = chain([first], lines)
        return map(_as_text, lines) if self.form == "text" else lines

    def _lines(self) -> Iterator[RawRow]:
        file, number = self.file, self.before + 1
        first = self.stream.readline(MAX_LINE + 1)
        if number == 1:
            first = without_mark(first)
        lines = iter(partial(self.stream.readline, MAX_LINE + 1), b"")
        try:
            for line in chain([first] if first else (), lines):
                self.taken += len(line)
                if len(line) > MAX_LINE and line[-1:] != b"\n":
                    self._skip_rest()
                    yield RawRow(number, too_long(), file)
                elif not line.isspace():
                    yield _raw_row((number, line.rstrip(b"\r\n"), file))
                number += 1
        except Exception as error:  # noqa: BLE001 - of the disk, or of any library for remote files
            yield rest_unreadable(number, error, file)

    def _skip_rest(self) -> None:
        while piece := self.stream.readline(MAX_LINE):
            self.taken += len(piece)
            if piece.endswith(b"\n"):
                return


def without_mark(line: bytes) -> bytes:
    """Return the first line of an input without its byte-order mark.

    Raises:
        RowsError: the input is UTF-16 or UTF-32.
    """
    encoding = wide_encoding(line)
    if encoding is not None:
        raise RowsError(f"the input is {encoding}; save it as UTF-8, or pipe it through: iconv -f {encoding} -t UTF-8")
    return line.removeprefix(b"\xef\xbb\xbf")


def wide_encoding(start: bytes) -> str | None:
    """Return the name of the encoding if a text is UTF-16 or UTF-32, with a mark or without; else None.

    Without a mark, the first two characters are ASCII, as those of JSON and of most texts are.
    """
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    return _WIDE.get(bytes(map(bool, start[:4])))


_WIDE = {
    b"\1\0\1\0": "UTF-16LE",
    b"\0\1\0\1": "UTF-16BE",
    b"\1\0\0\0": "UTF-32LE",
    b"\0\0\0\1": "UTF-32BE",
}
"""By which of the first four bytes are not null."""


def is_json(line: object) -> bool:
    """Return whether a line is a complete JSON object, list or string."""
    try:
        return isinstance(line, bytes) and isinstance(json.loads(line), dict | list | str)
    except (ValueError, RecursionError):
        return False


def _as_text(raw: RawRow) -> RawRow:
    """Return a line with its text, as a value."""
    line, data, file = raw
    if isinstance(data, Unreadable):
        return raw
    try:
        return RawRow(line, data.decode("utf-8"), file)
    except UnicodeDecodeError as error:
        return RawRow(line, Unreadable(not_utf8(error), data), file)
