"""Batches of rows by the library that they come from: Arrow, pandas, Polars, or a plain dict of lists.

A frame reads the columns that are checked, and adds the results to the columns that are kept. Kept columns are not
converted, so that their types stay as they are. pandas and Polars are never imported: a batch of theirs brings them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.rows.arrow import Table, pa
from penstock.workflows.rows.reading import TOO_DEEP, RowsError, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Batch: TypeAlias = Any
"""A ``pyarrow.Table`` or ``RecordBatch``, a pandas or Polars ``DataFrame``, or a dict of lists."""


class Frame(Protocol):
    """A batch of rows.

    Attributes:
        names: the names of its columns.
        length: how many rows it has.
    """

    names: Sequence[str]
    length: int

    def read(self, name: str) -> list[object]:
        """Return the values of a column, as Python values. One that cannot be read is an `Unreadable`."""
        ...

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        """Return results and kept columns as a batch of the same library.

        Args:
            results: the results.
            kept: the names that kept columns get, each with the name that the column has in the batch.
        """
        ...


def frame_of(batch: Batch) -> Frame:
    """Return a batch as a frame.

    Raises:
        RowsError: it is none of the batches that are known, two of its columns have the same name, one has a name
            that is no text, or its columns are no lists of one length.
    """
    kinds = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(batch).__mro__]
    made: Frame
    if issubclass(type(batch), Mapping):  # a dict, or one that loads its columns late
        made = _DictFrame(batch)
    elif (known := next((_FRAMES[kind] for kind in kinds if kind in _FRAMES), None)) is not None:
        made = known(batch)
    else:
        raise RowsError(
            "a batch is a table of Arrow, a DataFrame of pandas or Polars, or a dict of lists, "
            f"not {'.'.join(kinds[0])}"
        )
    names = list[object](made.names)  # pandas and dicts have others than texts, too
    for at, name in enumerate(names):
        if not isinstance(name, str):
            raise RowsError(f"the batch has a column with the name {name!r}; give it one that is a text")
        if name in names[:at]:
            raise RowsError(f"the batch has two columns {name!r}; give each a name of its own")
    return made


class _ArrowFrame:
    def __init__(self, batch: Batch) -> None:
        self._single = type(batch).__name__ == "RecordBatch"
        self._table = pa.Table.from_batches([batch]) if self._single else batch
        self.names: Sequence[str] = self._table.column_names
        self.length: int = self._table.num_rows

    def read(self, name: str) -> list[object]:
        column = self._table.column(name)
        try:
            values: list[object] = column.to_pylist()
        except _UNREADABLE:
            return _each_read(scalar.as_py for scalar in column)
        return values

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        own = {new: self._table.column(name) for new, name in kept.items()}
        fields = {new: self._table.schema.field(name).with_name(new) for new, name in kept.items()}
        columns = _placed(own, {name: results.column(name) for name in results.column_names})
        schema = pa.schema([fields[name] if name in fields else results.schema.field(name) for name in columns])
        made = pa.table(list(columns.values()), schema=schema)
        if not self._single:
            return made
        return pa.record_batch([_single(column) for column in made.columns], schema=schema)


def _single(column: Batch) -> Batch:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


_UNREADABLE = (ValueError, OverflowError, KeyError, TypeError)
"""What libraries raise for values that Python has no value for: no UTF-8, a time in the year 300,000, fields twice."""


def _each_read(reads: Iterable[Callable[[], object]]) -> list[object]:
    """Return values that are read one by one, because they cannot be read together."""
    values: list[object] = []
    for read in reads:
        try:
            values.append(read())
        except UnicodeDecodeError:
            values.append(Unreadable("it is not valid UTF-8"))
        except _UNREADABLE as error:
            values.append(Unreadable(f"it cannot be read as a value of Python ({type(error).__name__})"))
    return values


class _PandasFrame:
    def __init__(self, batch: Batch) -> None:
        self._frame = batch
        self.names: Sequence[str] = list(batch.columns)
        self.length: int = len(batch)

    def read(self, name: str) -> list[object]:
        column = self._frame[name]
        missing = column.isna().tolist()
        try:
            values = column.tolist()
        except _UNREADABLE:
            values = _each_read(partial(column.iloc.__getitem__, at) for at in range(self.length))
        return [None if gone else _readable(value) for value, gone in zip(values, missing, strict=True)]

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        made = results.to_pandas()
        made.index = self._frame.index
        own = {new: self._frame[name] for new, name in kept.items()}
        columns = _placed(own, {name: made[name] for name in made.columns})
        return type(self._frame)(columns, index=self._frame.index, copy=False)


class _PolarsFrame:
    def __init__(self, batch: Batch) -> None:
        self._frame = batch
        self.names: Sequence[str] = batch.columns
        self.length: int = batch.height

    def read(self, name: str) -> list[object]:
        values: list[object] = self._frame.get_column(name).to_list()
        return values

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        made = import_module("polars").from_arrow(results)
        own = {new: self._frame.get_column(name).alias(new) for new, name in kept.items()}
        return type(self._frame)(list(_placed(own, {name: made.get_column(name) for name in made.columns}).values()))


class _DictFrame:
    def __init__(self, batch: Mapping[str, Batch]) -> None:
        self._columns = batch
        self.names: Sequence[str] = list(batch)
        lengths = {name: _length(name, column) for name, column in batch.items()}
        self.length: int = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != self.length:
                raise RowsError(
                    f"the columns of a batch have one length; {self.names[0]!r} has {self.length} rows, "
                    f"and {name!r} has {length}"
                )

    def read(self, name: str) -> list[object]:
        return [_readable(value) for value in self._columns[name]]

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        return _placed({new: self._columns[name] for new, name in kept.items()}, results.to_pydict())


def _length(name: str, column: Batch) -> int:
    """Return how many rows a column of a dict has. The characters of a text are not rows."""
    try:
        if not issubclass(type(column), str | bytes | Mapping):
            return len(column)
    except TypeError:
        pass
    raise RowsError(
        f"column {name!r} is not a list, but one value ({type(column).__name__}): a batch is a dict of lists; let the "
        "library hand out batches, not single rows (in datasets: map(..., batched=True))"
    )


_FRAMES: Mapping[tuple[str, str], Callable[[Batch], Frame]] = {
    ("pyarrow", "Table"): _ArrowFrame,
    ("pyarrow", "RecordBatch"): _ArrowFrame,
    ("pandas", "DataFrame"): _PandasFrame,
    ("polars", "DataFrame"): _PolarsFrame,
}
"""The frames, by library and class: classes below them are such ones, too."""


def _placed(kept: dict[str, object], results: dict[str, object]) -> dict[str, object]:
    """Return the columns in the order of JSONL: the row's own id, the results, and what else is kept."""
    own_id = {"id": kept.pop("id")} if "id" in kept else {}
    return {**own_id, **results, **kept}


def _readable(value: object) -> object:
    try:
        return _python(value)
    except RecursionError:
        return Unreadable(TOO_DEEP)


def _python(value: Any) -> Any:
    """Return a value without arrays and numbers of numpy, which pandas has for lists and numbers."""
    if isinstance(value, str):
        return value
    if is_mapping(value):
        return {key: _python(each) for key, each in value.items()}
    if is_items(value):
        return [_python(each) for each in value]
    as_list = getattr(value, "tolist", None)
    return value if as_list is None else _python(as_list())
