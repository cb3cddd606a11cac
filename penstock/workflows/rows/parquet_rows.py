"""`ParquetRows`: the rows of a Parquet file (extra ``data``)."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from penstock.workflows.rows import reading
from penstock.workflows.rows.files import extra_module
from penstock.workflows.rows.reading import BODIES, TOOL_FIELDS, RawRow, RowsError, Unreadable, is_object, too_long

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

    from penstock.workflows.rows.reading import Columns

Schema: TypeAlias = Any
"""A ``pyarrow.Schema``."""

BATCH_BYTES = 16 * 1024 * 1024
BATCH_ROWS = 4096
"""How many rows are held at once: so many, or fewer of long ones."""


class ParquetRows:
    """Reads the rows of a Parquet file, a batch at a time. Lives as long as it is read.

    Attributes:
        columns: the names of all columns.
        schema: the columns that are read, with their types.
        doubled: the names that several columns have.
        unexpected: None: the columns say all.
        taken: the number of bytes read so far, as far as whole batches tell.

    Args:
        stream: the stream to read; it can be asked for any place.
        columns: which columns are used. Only they are read.
        file: the name of the file in each row, if there are several; else None.
        name: the name of the file in errors.
        as_json: whether values that JSON cannot hold become strings: times in ISO 8601, bytes in base64.

    Raises:
        RowsError: the file cannot be read.
        MissingExtraError: pyarrow is not installed.
    """

    unexpected: str | None = None

    def __init__(
        self, stream: io.BufferedReader, columns: Columns, file: str | None, name: str, *, as_json: bool
    ) -> None:
        self.taken = 0
        self._file = file
        parquet = extra_module("pyarrow.parquet", "Parquet")
        if not stream.seekable():
            raise RowsError(f"{name} cannot be read as Parquet from a pipe or an archive; give a plain file by --input")
        try:
            # The buffer bounds what is read of a column at once; without it, all of a row group would be.
            self._parquet = parquet.ParquetFile(stream, buffer_size=1024 * 1024)
        except Exception as error:  # pyarrow has many
            raise RowsError(f"{name} cannot be read as Parquet: {_first_line(error)}") from error
        whole = self._parquet.schema_arrow
        self.columns = tuple(whole.names)
        self.doubled = frozenset(each for each in self.columns if self.columns.count(each) > 1)
        self._used = _used(columns, self.columns)
        self._pa = extra_module("pyarrow", "Parquet")
        self._as_json = as_json
        self.schema = self._pa.schema([whole.field(each) for each in self._used if each not in self.doubled])
        self._nanoseconds = {field.name for field in self.schema if getattr(field.type, "unit", None) == "ns"}
        self._not_json = [field.name for field in self.schema if as_json and not _is_json_type(field.type)]
        # A column read as text holds text: a JSON form of bytes, such as base64, is none.
        body = (columns.text,) if columns.text is not None else BODIES
        for field in self.schema:
            kind = field.type.value_type if self._pa.types.is_dictionary(field.type) else field.type
            if field.name in body and _is_no_text(kind):
                raise RowsError(f"column {field.name!r} of {name} holds {kind}, not text; write it as text (UTF-8)")

    @property
    def group_sizes(self) -> list[int]:
        """The sizes of the row groups, in bytes."""
        meta = self._parquet.metadata
        return [meta.row_group(group).total_byte_size for group in range(meta.num_row_groups)]

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield the rows, numbered from 1."""
        return self.raw_rows_of(range(self._parquet.metadata.num_row_groups))

    def raw_rows_of(self, groups: range) -> Iterator[RawRow]:
        """Yield the rows of some row groups, numbered as in the file."""
        meta = self._parquet.metadata
        number = sum(meta.row_group(group).num_rows for group in range(groups.start))
        for group in groups:
            rows, size = meta.row_group(group).num_rows, meta.row_group(group).total_byte_size
            end = number + rows
            try:
                most = _batch_rows(meta.row_group(group), self._used)
                batches = self._parquet.iter_batches(most, row_groups=[group], columns=list(self._used))
                for batch in batches:
                    for value in self._values(batch):
                        number += 1
                        yield RawRow(number, value, self._file)
                    self.taken += size * batch.num_rows // max(rows, 1)
            except Exception as error:  # noqa: BLE001 - pyarrow has many
                reason = f"rows {number + 1:,} to {end:,} of the file cannot be read: {_first_line(error)}"
                yield RawRow(number + 1, Unreadable(reason), self._file)
                number = end

    def _values(self, batch: Any) -> Iterator[object]:
        if batch.nbytes <= reading.MAX_LINE:
            yield from self._plain_values(batch)
            return
        for index in range(batch.num_rows):  # one of them may be too long
            one = batch.slice(index, 1)
            if one.nbytes > reading.MAX_LINE:
                yield too_long("row")
            else:
                yield from self._plain_values(one)

    def _plain_values(self, batch: Any) -> list[dict[str, object]]:
        for name in self._nanoseconds:  # no time of Python has them; a column of Arrow can be made of whole numbers
            column = batch.column(name).cast(self._pa.string() if self._as_json else self._pa.int64())
            batch = batch.set_column(batch.schema.get_field_index(name), name, column)
        values: list[dict[str, object]]
        try:
            values = batch.to_pylist()
        except (ValueError, OverflowError):  # nanoseconds within a list, or a time beyond the year 9999
            columns = [[self._value(one) for one in column] for column in batch.columns]
            values = [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
        for name in self._not_json:
            for value in values:
                value[name] = _as_json(value[name])
        return values

    def _value(self, scalar: Any) -> Any:
        """Return a value of Arrow as one of Python, with what Python has no value for as text, or as a whole number."""
        try:
            return scalar.as_py()
        except (ValueError, OverflowError):
            if isinstance(scalar, self._pa.StructScalar):
                return {name: self._value(one) for name, one in scalar.items()}
            if isinstance(scalar, self._pa.ListScalar):
                return [self._value(one) for one in scalar.values]
            return str(scalar.cast(self._pa.string())) if self._as_json else getattr(scalar, "value", None)


def _batch_rows(group: Any, used: tuple[str, ...]) -> int:
    """Return how many rows of a row group are read at once.

    A value that many rows share is stored once, in the dictionary of its column, and becomes as many values as it has
    rows: each row may hold as much as a whole dictionary.
    """
    rows = max(group.num_rows, 1)
    widest = group.total_byte_size / rows
    for index in range(group.num_columns):
        column = group.column(index)
        path = f"{column.path_in_schema}."
        if column.has_dictionary_page and any(path.startswith(f"{name}.") for name in used):
            share = (column.data_page_offset - column.dictionary_page_offset) / max(column.total_compressed_size, 1)
            widest += share * column.total_uncompressed_size * column.num_values / rows
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(widest, 1))))


def _used(columns: Columns, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that are read: those that are checked, the id, and those that are kept."""
    if columns.keep is None:
        return there
    body = (columns.text,) if columns.text is not None else (*BODIES, "role", *TOOL_FIELDS)
    used = {*body, columns.id, *columns.keep}
    return tuple(each for each in there if each in used)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removesuffix(".") or type(error).__name__


def _is_json_type(kind: Any) -> bool:
    types = extra_module("pyarrow.types", "Parquet")
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_json_type(kind.value_type)
    if types.is_struct(kind):
        return all(_is_json_type(each.type) for each in kind)
    plain: tuple[Callable[[Any], bool], ...] = (
        types.is_string,
        types.is_large_string,
        types.is_boolean,
        types.is_integer,
        types.is_null,
    )
    return any(each(kind) for each in plain)


def _is_no_text(kind: Any) -> bool:
    types = extra_module("pyarrow.types", "Parquet")
    binary = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return types.is_temporal(kind) or types.is_decimal(kind) or any(each(kind) for each in binary)


def _as_json(value: Any) -> object:
    """Return a value as one that JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if is_object(value):
        return {str(_as_json(name)): _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in cast("list[object]", value)]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
