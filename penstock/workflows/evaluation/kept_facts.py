"""`KeptFacts`: the facts of checked rows in a file, so that an interrupted evaluation goes on where it ended.

The file has a line of JSON with the identity of the evaluation, and then a frame for each row: the number of the pass,
a length, and the facts as `pickle` writes them. Only the types of facts are read back, so a file that somebody else
wrote runs no code. A frame that was cut off by a crash is dropped.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
from typing import IO, TYPE_CHECKING, cast

from penstock.workflows.rows.reading import RowsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.workflows.evaluation.row_facts import RowFacts
    from penstock.workflows.evaluation.tally import Tally

MARK = "evaluation-progress/1"
"""The version of the form of the file."""

MODULES = (
    "penstock.workflows.evaluation.row_facts",
    "penstock.workflows.evaluation.labels",
    "penstock.workflows.evaluation.span_counts",
    "penstock.workflows.evaluation.figures",
    "penstock.detection.spans",
    "penstock.engine.values.frozen",
)
"""The modules whose types facts are made of."""

_FRAME = struct.Struct("<BI")


class KeptFacts:
    """The facts of rows of one evaluation, by pass over the rows. Lives as long as the evaluation.

    Args:
        path: the file; it is made if it does not exist.
        identity: a hash of the rows, the options and the workflow. Facts of another one are refused.

    Raises:
        RowsError: the file is none of this kind, or belongs to another evaluation.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        head = f"{json.dumps({'penstock': MARK, 'identity': identity})}\n".encode()
        if not path.exists() or path.stat().st_size == 0:
            path.write_bytes(head)
        with path.open("rb") as file:
            found = file.readline(len(head) + 1000)
        if found != head:
            known = MARK.encode() in found
            why = "belongs to another evaluation: other rows, options or workflow" if known else "was not written by it"
            raise RowsError(f"{path} {why}; remove it, or name another file behind --resume")
        self._start = len(head)
        self._end = self._start
        self._passes: dict[int, int] = {}
        for number, _, end in self._frames():
            self._passes[number] = self._passes.get(number, 0) + 1
            self._end = end
        with path.open("r+b") as file:
            file.truncate(self._end)  # without half a frame
        self._out: IO[bytes] | None = None

    def rows(self, number: int) -> int:
        """Return how many rows of a pass are kept."""
        return self._passes.get(number, 0)

    def facts(self, number: int) -> Iterator[RowFacts]:
        """Yield the kept facts of a pass, in the order of the rows.

        Raises:
            RowsError: a frame holds something else.
        """
        for of, data, _ in self._frames():
            if of == number:
                yield _read(data, self.path)

    def add(self, number: int, facts: RowFacts) -> None:
        """Keep the facts of the next row of a pass."""
        if self._out is None:
            self._out = self.path.open("ab")
        data = pickle.dumps(facts, protocol=5)
        self._out.write(_FRAME.pack(number, len(data)) + data)
        self._out.flush()

    def close(self, *, finished: bool) -> None:
        """Close the file; remove it if the evaluation is finished."""
        if self._out is not None:
            self._out.close()
        if finished:
            self.path.unlink(missing_ok=True)

    def _frames(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the number of the pass, the data and the end of each whole frame."""
        at = self._start
        with self.path.open("rb") as file:
            file.seek(at)
            while len(head := file.read(_FRAME.size)) == _FRAME.size:
                number, length = cast("tuple[int, int]", _FRAME.unpack(head))
                data = file.read(length)
                if len(data) < length:
                    return
                at += _FRAME.size + length
                yield number, data, at


class KeepingTally:
    """A tally whose facts are kept, too. A sink of results."""

    def __init__(self, tally: Tally, kept: KeptFacts, number: int) -> None:
        self.form = tally.form
        self._tally, self._kept, self._number = tally, kept, number

    def add(self, made: RowFacts) -> None:
        """Keep the facts of a row, and count them."""
        self._kept.add(self._number, made)
        self._tally.add(made)


class _FactReader(pickle.Unpickler):
    """Reads facts, and no other types."""

    def find_class(self, module: str, name: str) -> object:
        if module in MODULES:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no type of facts")


def _read(data: bytes, path: Path) -> RowFacts:
    from penstock.workflows.evaluation.row_facts import RowFacts as Facts

    try:
        made: object = _FactReader(io.BytesIO(data)).load()
    except Exception as error:  # whatever pickle makes of data that it did not write
        raise RowsError(f"{path} is damaged ({type(error).__name__}); remove it, and start again") from error
    if not isinstance(made, Facts):
        raise RowsError(f"{path} is damaged; remove it, and start again")
    return made
