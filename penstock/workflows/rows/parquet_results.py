"""Results as a Parquet file (extra ``data``): written in row groups, and resumed through a copy."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from penstock.workflows.rows.arrow import TEXT, ResultTables, Schema, encodable, pa
from penstock.workflows.rows.files import extra_module, is_url, written_bytes
from penstock.workflows.rows.outputs import KeptColumns, kept_columns, written_of
from penstock.workflows.rows.reading import RowsError, is_object
from penstock.workflows.rows.results import UNFIT, RowForm, kept_name, value_as_json
from penstock.workflows.rows.resuming import Earlier, other_columns, skip_done
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from penstock.engine.workflow import Workflow
    from penstock.workflows.rows.arrow import Table
    from penstock.workflows.rows.outputs import Written
    from penstock.workflows.rows.reading import InputRow, Source
    from penstock.workflows.rows.results import ResultFields, RowChecked

TABLE_ROWS = 1000
TABLE_CHARS = 16 * 1024 * 1024
"""How many results become a table at once: so many, or fewer with long texts."""

GROUP_ROWS = 100_000
GROUP_BYTES = 64 * 1024 * 1024
"""How large a row group is: so many rows, or fewer with so many bytes."""

JsonKind = Literal["text", "integer", "number", "boolean", "any"]
"""What all values of a column are, that came as JSON."""

_ARROW: dict[JsonKind, Any] = {
    "text": TEXT,
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "any": TEXT,
}


@dataclass(frozen=True, slots=True)
class ParquetResults(RowForm):
    """Makes a row of a Parquet file of each result: plain data, which the writer makes tables of.

    Attributes:
        tables: makes the tables.
        kinds: the types of the values in kept columns that came as JSON, by their names in the input.
        unfit: whether there is a column for kept values that do not fit.
    """

    tables: ResultTables
    kinds: Mapping[str, JsonKind]
    unfit: bool

    @property
    def schema(self) -> Schema:
        """The columns of the file."""
        own: Schema = self.tables.schema.remove_metadata()
        return own.append(pa.field(UNFIT, TEXT)) if self.unfit else own

    def maker(self, workflow: Workflow) -> Callable[[RowChecked], Written]:  # noqa: ARG002 - as every form
        """Return what makes it."""
        kinds: list[tuple[str, JsonKind]] = [(kept_name(name), kind) for name, kind in self.kinds.items()]
        kept = KeptColumns((), guessed=True)
        own = self.tables.fields.names(self.tables.stage, several=True)
        there = {UNFIT, *own, *(kept_name(column.name) for column in self.tables.kept or ())}

        def make(checked: RowChecked) -> Written:
            result = self.tables.fields.of(checked)
            if self.unfit:
                wrong = {name: result.pop(name) for name, kind in kinds if not _is(result.get(name), kind)}
                result[UNFIT] = None
                result[UNFIT] = kept.unfit({**result, **wrong}, there - wrong.keys())
            return written_of(checked, self.tables.plain(result))

        return make


def _is(value: object, kind: JsonKind) -> bool:
    """Return whether a value can stand in a column of that kind."""
    if value is None or kind == "any":
        return True
    if kind == "text":
        return isinstance(value, str)
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)


_KINDS: tuple[JsonKind, ...] = ("text", "boolean", "integer", "number")


def _kind_of(rows: list[InputRow], name: str) -> JsonKind:
    values = [row.value.get(name) for row in rows if is_object(row.value)]
    there = [value for value in values if value is not None]
    for kind in _KINDS:
        if there and all(_is(value, kind) for value in there):
            return kind
    return "any"


def _form(source: Source, fields: ResultFields, stage: str) -> ParquetResults:
    files = source if isinstance(source, RowFiles) else None
    omitted = () if files is not None and len(files.names) > 1 else ("file",)
    if files is None:
        return ParquetResults(ResultTables(fields, stage, None, omitted), {}, unfit=False)
    # A name that UTF-8 cannot encode (half a surrogate pair) is that of no column; its values are unfit.
    names = [name for name in kept_columns(files, fields.columns).names if encodable(name) == name]
    schema, mixed = files.table_schema
    kinds: dict[str, JsonKind] = {}
    if schema is None:
        rows = None if files.table_columns is not None else files.first_rows()
        kinds = {name: "text" if rows is None else _kind_of(rows, name) for name in names}
        kept = [pa.field(name, _ARROW[kind]) for name, kind in kinds.items()]
    else:
        kept = [schema.field(name).with_nullable(True) for name in names if name in schema.names]  # noqa: FBT003
    unfit = mixed or files.table_columns is None
    return ParquetResults(ResultTables(fields, stage, pa.schema(kept), omitted), kinds, unfit=unfit)


class ParquetWriter:
    """Writes results to a Parquet file. Lives as long as one run.

    Args:
        stream: where to write.
        tables: makes the tables.
        schema: the columns.
    """

    def __init__(self, stream: IO[bytes], tables: ResultTables, schema: Schema) -> None:
        parquet = extra_module("pyarrow.parquet", "Parquet")
        self._schema = schema
        self._writer: Any = parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._tables = tables
        self._unfit = UNFIT in schema.names
        self._results: list[dict[str, object]] = []
        self._chars = 0
        self._group: list[Table] = []

    def write(self, plain: dict[str, object]) -> None:
        """Write a result."""
        self._results.append(plain)
        self._chars += sum(len(value) for value in plain.values() if isinstance(value, str))
        if len(self._results) >= TABLE_ROWS or self._chars >= TABLE_CHARS:
            self._end_table()

    def copy(self, table: Table) -> None:
        """Write results that are a table already."""
        self._group.append(table)
        self._end_group(whole=False)

    def close(self) -> None:
        """Write the remaining rows and the end of the file."""
        try:
            self._end_table()
            self._end_group(whole=True)
        finally:
            self._writer.close()

    def _end_table(self) -> None:
        if not self._results:
            return
        results, self._results, self._chars = self._results, [], 0
        try:
            table = self._tables.table(results)
        except RowsError:
            results = [self._fitted(each) for each in results]
            table = self._tables.table(results)
        if self._unfit:
            unfit = [encodable(text) if isinstance(text := each.get(UNFIT), str) and text else None for each in results]
            table = table.append_column(UNFIT, pa.array(unfit, TEXT))
        self._group.append(table.cast(self._schema))
        self._end_group(whole=False)

    def _fitted(self, plain: dict[str, object]) -> dict[str, object]:
        """Return a result whose kept values are of the types of their columns; all others are in `UNFIT`."""
        wrong: dict[str, object] = {}
        for column in self._tables.kept or ():
            name = kept_name(column.name)
            try:
                pa.array([plain.get(name)], column.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                wrong[name] = plain[name]
        if not wrong or not self._unfit:
            return plain
        return {**plain, **dict.fromkeys(wrong), UNFIT: value_as_json(wrong)}

    def _end_group(self, *, whole: bool) -> None:
        rows = sum(table.num_rows for table in self._group)
        if rows and (whole or rows >= GROUP_ROWS or sum(table.nbytes for table in self._group) >= GROUP_BYTES):
            group, self._group = pa.concat_tables(self._group), []
            self._writer.write_table(group, row_group_size=rows)


@contextmanager
def written_parquet(
    name: str, source: Source, fields: ResultFields, stage: str, *, resume: bool
) -> Generator[tuple[ParquetWriter, ParquetResults, Earlier | None]]:
    """Open a Parquet file for results. One that is resumed is copied, and replaced by the copy at the end.

    Raises:
        RowsError: it cannot be written or resumed.
    """
    form = _form(source, fields, stage)
    earlier = None
    if resume and is_url(name):
        raise RowsError(f"{name} cannot be resumed; --resume needs a file on this machine")
    there = resume and isinstance(source, RowFiles) and Path(name).exists()
    target = f"{name}.resumed" if there else name
    with ExitStack() as stack:
        old = None
        if there and isinstance(source, RowFiles):
            old = _opened_results(name, form.schema)
            stack.callback(old.close)
            earlier = Earlier(name)
            for batch in old.iter_batches(TABLE_ROWS):
                for each in batch.to_pylist():
                    earlier.add(each)
            skip_done(source, earlier, fields.columns)
        elif resume:
            earlier = Earlier(name)
        stream = stack.enter_context(written_bytes(target))
        writer = ParquetWriter(stream, form.tables, form.schema)
        try:
            if old is not None:
                for batch in old.iter_batches(TABLE_ROWS):
                    writer.copy(pa.Table.from_batches([batch]).cast(form.schema))
            yield writer, form, earlier
        finally:
            writer.close()
    if there:
        Path(target).replace(name)


def _opened_results(name: str, schema: Schema) -> Any:
    try:
        old = extra_module("pyarrow.parquet", "Parquet").ParquetFile(name)
    except Exception as error:  # pyarrow has many
        raise RowsError(
            f"{name} has no end, since the run that wrote it was killed: no row of it can be read. Run without "
            "--resume, and write .jsonl or .csv if a run may be killed: those are resumed from any point"
        ) from error
    if not old.schema_arrow.remove_metadata().equals(schema):
        raise other_columns(name, sorted({*old.schema_arrow.names} ^ {*schema.names}))
    return old
