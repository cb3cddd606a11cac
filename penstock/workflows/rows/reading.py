"""Read rows: texts, conversations and values of tools, one a line, as JSONL or plain text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Literal

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MessageError, PenstockError
from penstock.workflows.batch import Call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from typing_extensions import TypeIs

    from penstock.engine.values.messages import Message


class RowsError(PenstockError):
    """Rows that cannot be read at all. The text says why, and what to do."""


InputFormat = Literal["auto", "jsonl", "text"]

MAX_LINE = 64 * 1024 * 1024
"""The length of the longest line that is read, in bytes: far beyond any conversation, and small for a memory."""

TOOL_VALUES = {name: stage.value for name, stage in STAGES.items() if stage.value}
"""The stages that check a JSON value instead of messages, and the field of a row that holds it."""

_BODIES = ("text", "messages", "content", "parts")
"""The fields of which a row has one."""


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the input.

    Attributes:
        line: the number of its line, from 1.
        value: the str or JSON value of the row.
        problem: why it has none, or None.
    """

    line: int
    value: Any = None
    problem: str | None = None

    @property
    def id(self) -> str | int | None:
        """The row's own id, or None."""
        found = self.value.get("id") if is_object(self.value) else None
        return found if isinstance(found, str | int) else None


def is_object(value: Any) -> TypeIs[dict[str, Any]]:
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


def call_of(row: InputRow, stage: str, context: Mapping[str, Any]) -> Call:
    """Return how to run a stage on a row.

    Raises:
        MessageError: the row is malformed.
    """
    if row.problem is not None:
        raise MessageError("", row.problem)
    options = {"ids": LineIds(row.line), "run_id": f"line-{row.line}", "request_context": dict(context)}
    if stage in TOOL_VALUES:
        return _tool_call_of(row, TOOL_VALUES[stage], options)
    return Call(_messages_of(row.value), {}, options)


def _messages_of(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _parsed(value)
    if not is_object(value):
        raise MessageError("", f"a row is a string, an object or a list of messages, not {_kind(value)}")
    bodies = [name for name in _BODIES if name in value]
    if "messages" in bodies and "text" in bodies:
        raise MessageError("", "it has both 'text' and 'messages'; give one of them")
    if not bodies:
        raise MessageError("", f"it has none of {', '.join(map(repr, _BODIES))}")
    if "messages" in bodies:
        return _parsed(value["messages"])
    if bodies == ["text"] or (bodies == ["content"] and "role" not in value):
        return _text_of(value, bodies[0])
    return _parsed([{"role": "user", **{name: item for name, item in value.items() if name != "id"}}])


def _parsed(value: Any) -> tuple[Message, ...]:
    from penstock.engine.formats import parse_messages  # not needed for plain texts

    messages = parse_messages(value)
    if not messages:
        raise MessageError("messages", "the list is empty")
    return messages


def _text_of(value: dict[str, Any], name: str) -> Any:
    text = value[name]
    if isinstance(text, str):
        return text
    if name == "text":
        raise MessageError(name, f"expected a string, not {_kind(text)}")
    return _messages_of({"role": "user", "content": text})


def _tool_call_of(row: InputRow, name: str, options: dict[str, Any]) -> Call:
    value = row.value
    if not is_object(value):
        return Call(value, {}, options)
    if name not in value:
        raise MessageError("", f"it has no {name!r}, which this stage needs")
    details = {key: value[key] for key in ("tool_name", "call_id") if isinstance(value.get(key), str)}
    return Call(value[name], details, options)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a string", "list": "a list"}
    return names.get(type(value).__name__, "an object")


# Lines


@dataclass(slots=True)
class RowSource:
    """Reads the rows of a file or of stdin. Lives as long as it is read.

    Attributes:
        stream: the stream to read.
        form: the format of the lines; ``auto``: the first line that is not empty decides.
        taken: the number of bytes read so far, for the progress bar.
    """

    stream: IO[bytes]
    form: InputFormat = "auto"
    taken: int = 0

    def rows(self) -> Iterator[InputRow]:
        """Yield the rows. Empty lines are skipped, but counted.

        Raises:
            RowsError: the input is UTF-16.
        """
        lines = self._lines()
        if self.form == "auto":
            first = next(lines, None)
            if first is None:
                return
            self.form = "jsonl" if _is_json(first[1]) else "text"
            lines = chain([first], lines)
        read = _json_row if self.form == "jsonl" else _text_row
        for number, line in lines:
            yield InputRow(number, problem=_too_long()) if line is None else read(number, line)

    def _lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the lines that are not empty with their numbers; None in place of a line that is too long."""
        number = 0
        while line := self.stream.readline(MAX_LINE + 1):
            number += 1
            self.taken += len(line)
            if number == 1:
                line = _without_mark(line)
            if len(line) > MAX_LINE and not line.endswith(b"\n"):
                self._skip_rest()
                yield number, None
            elif line.strip():
                yield number, line.rstrip(b"\r\n")

    def _skip_rest(self) -> None:
        while piece := self.stream.readline(MAX_LINE):
            self.taken += len(piece)
            if piece.endswith(b"\n"):
                return


def _too_long() -> str:
    return f"the line is longer than {MAX_LINE // 1024 // 1024} MiB"


def _without_mark(line: bytes) -> bytes:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RowsError("the input is UTF-16; save it as UTF-8, or pipe it through: iconv -f UTF-16 -t UTF-8")
    return line.removeprefix(b"\xef\xbb\xbf")


def _is_json(line: bytes | None) -> bool:
    """Return whether a line is a complete JSON object, list or string."""
    try:
        return line is not None and isinstance(json.loads(line), dict | list | str)
    except (ValueError, RecursionError):
        return False


def _text_row(number: int, line: bytes) -> InputRow:
    try:
        return InputRow(number, line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return InputRow(number, problem=_not_utf8(error))


def _json_row(number: int, line: bytes) -> InputRow:
    try:
        return InputRow(number, json.loads(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return InputRow(number, problem=_not_utf8(error))
    except json.JSONDecodeError as error:
        return InputRow(
            number, problem=f"it is not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        )
    except RecursionError:
        return InputRow(number, problem="it cannot be parsed as JSON: it is nested too deeply")
    except ValueError:
        return InputRow(number, problem="it cannot be parsed as JSON: a number has too many digits")


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"it is not valid UTF-8, at byte {error.start + 1} of the line"
