"""Read the rows of ``penstock run``, and open files, stdin and stdout."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MessageError
from penstock.workflows.batch import Call
from penstock.workflows.cli.exit_codes import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from typing_extensions import TypeIs

    from penstock.engine.values.messages import Message


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
            CommandError: the input is UTF-16.
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
        raise CommandError("the input is UTF-16; save it as UTF-8, or pipe it through: iconv -f UTF-16 -t UTF-8")
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


@contextlib.contextmanager
def reading(name: str) -> Generator[IO[bytes]]:
    """Open a file for reading bytes. ``-`` is stdin, which stays open.

    Raises:
        CommandError: it cannot be read.
    """
    if name == "-":
        yield _stdin()
        return
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - closed below; only errors of opening it are caught here
    except OSError as error:
        raise CommandError(f"cannot read {name}: {_reason(error)}") from error
    with stream:
        yield stream


def _stdin() -> IO[bytes]:
    """Return the bytes of stdin, with a reader of our own: a read of sys.stdin holds a lock that the exit needs."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # it is not a file of the system
        return sys.stdin.buffer


@contextlib.contextmanager
def writing(name: str | None, stdout: IO[str]) -> Generator[IO[str]]:
    """Open a file for writing text, in UTF-8 with LF line ends. None and ``-`` are stdout, which stays open.

    Raises:
        CommandError: it cannot be written.
    """
    if name in (None, "-"):
        yield stdout
        stdout.flush()
        return
    try:
        # Half a surrogate pair, which UTF-8 cannot encode, is written as \udXXX, which JSON reads back as the same.
        stream = Path(name).open("w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"cannot write {name}: {_reason(error)}") from error
    with stream:
        yield stream


def refuse_same(read: str, written: str | None) -> None:
    """Check that the output is not the input.

    Raises:
        CommandError: both are the same file.
    """
    if written is None or "-" in (read, written):
        return
    with contextlib.suppress(OSError):
        if os.path.samefile(read, written):  # noqa: PTH121 - neither needs to exist
            raise CommandError(f"{written} is the input; write to another file")


def size_of(stream: IO[bytes]) -> int | None:
    """Return the size of a file in bytes; None for a pipe."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size or None


def use_utf8(stdout: IO[str]) -> None:
    """Make stdout write UTF-8 with LF line ends, whatever the locale: JSONL is UTF-8, and no character fails."""
    reconfigure = getattr(stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


def discard(stdout: IO[str]) -> None:
    """Redirect stdout to nowhere, since its reader has closed it, and flushing it at exit would fail again."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stdout.fileno())
        os.close(nowhere)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
