"""Batches of rows by the library that they come from: Arrow, pandas, Polars, or a plain dict of lists.

A frame reads the columns that are checked, and adds the results to the columns that are kept. Kept columns are not
converted, so that their types stay as they are. pandas and Polars are never imported: a batch of theirs brings them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.rows.arrow import Table, pa
from penstock.workflows.rows.reading import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

    def read(self, name: str) -> list[Any]:
        """Return the values of a column, as Python values. One that cannot be read is an `UnreadableError`."""
        ...

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        """Return results and kept columns as a batch of the same library.

        Args:
            results: the results.
            kept: the columns that are kept, each with the name that it gets.
        """
        ...


class UnreadableError(ValueError):
    """Stands in the place of a value that cannot be read. The text says why."""


def frame_of(batch: Batch) -> Frame:
    """Return a batch as a frame.

    Raises:
        RowsError: it is none of the batches that are known, or two of its columns have the same name.
    """
    library = type(batch).__module__.partition(".")[0]
    kind = type(batch).__name__
    made: Frame
    if library == "pyarrow" and kind in ("Table", "RecordBatch"):
        made = _ArrowFrame(batch)
    elif library in ("pandas", "polars") and kind == "DataFrame":
        made = _PandasFrame(batch) if library == "pandas" else _PolarsFrame(batch)
    elif hasattr(batch, "keys"):  # a dict, or one that loads its columns late
        made = _DictFrame(batch)
    else:
        raise RowsError(
            f"a batch is a table of Arrow, a DataFrame of pandas or Polars, or a dict of lists, not {library}.{kind}"
        )
    twice = sorted({name for name in made.names if list(made.names).count(name) > 1})
    if twice:
        raise RowsError(f"the batch has two columns {twice[0]!r}; give each a name of its own")
    return made


class _ArrowFrame:
    def __init__(self, batch: Any) -> None:
        self._single = type(batch).__name__ == "RecordBatch"
        self._table = pa.Table.from_batches([batch]) if self._single else batch
        self.names: Sequence[str] = self._table.column_names
        self.length: int = self._table.num_rows

    def read(self, name: str) -> list[Any]:
        column = self._table.column(name)
        try:
            values: list[Any] = column.to_pylist()
        except UnicodeDecodeError:
            return [_read_one(scalar.as_py) for scalar in column]
        return values

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        own = {new: self._table.column(name) for name, new in kept.items()}
        fields = {new: self._table.schema.field(name).with_name(new) for name, new in kept.items()}
        columns = _placed(own, {name: results.column(name) for name in results.column_names})
        schema = pa.schema([fields[name] if name in fields else results.schema.field(name) for name in columns])
        made = pa.table(list(columns.values()), schema=schema)
        if not self._single:
            return made
        return pa.record_batch([_single(column) for column in made.columns], schema=schema)


def _single(column: Any) -> Any:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _read_one(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except UnicodeDecodeError:
        return UnreadableError("it is not valid UTF-8")


class _PandasFrame:
    def __init__(self, batch: Any) -> None:
        self._frame = batch
        self.names: Sequence[str] = list(batch.columns)
        self.length: int = len(batch)

    def read(self, name: str) -> list[Any]:
        column = self._frame[name]
        missing = column.isna().tolist()
        return [None if gone else _readable(value) for value, gone in zip(column.tolist(), missing, strict=True)]

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        made = results.to_pandas()
        made.index = self._frame.index
        own = {new: self._frame[name] for name, new in kept.items()}
        columns = _placed(own, {name: made[name] for name in made.columns})
        return type(self._frame)(columns, index=self._frame.index, copy=False)


class _PolarsFrame:
    def __init__(self, batch: Any) -> None:
        self._frame = batch
        self.names: Sequence[str] = batch.columns
        self.length: int = batch.height

    def read(self, name: str) -> list[Any]:
        values: list[Any] = self._frame.get_column(name).to_list()
        return values

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        made = import_module("polars").from_arrow(results)
        own = {new: self._frame.get_column(name).alias(new) for name, new in kept.items()}
        return type(self._frame)(list(_placed(own, {name: made.get_column(name) for name in made.columns}).values()))


class _DictFrame:
    def __init__(self, batch: Mapping[str, Any]) -> None:
        self._columns = batch
        self.names: Sequence[str] = list(batch)
        self.length: int = len(batch[self.names[0]]) if self.names else 0

    def read(self, name: str) -> list[Any]:
        return [_readable(value) for value in self._columns[name]]

    def with_results(self, results: Table, kept: Mapping[str, str]) -> Batch:
        return _placed({new: self._columns[name] for name, new in kept.items()}, results.to_pydict())


def _placed(kept: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return the columns in the order of JSONL: the row's own id, the results, and what else is kept."""
    own_id = {"id": kept.pop("id")} if "id" in kept else {}
    return {**own_id, **results, **kept}


def _readable(value: Any) -> Any:
    try:
        return _python(value)
    except RecursionError:
        return UnreadableError("it is nested too deeply")


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
