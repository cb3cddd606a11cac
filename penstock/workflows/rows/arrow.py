r"""Results of rows as Arrow tables: their schema, and the columns made of a batch of results (extra ``data``).

A result has the same fields as in JSONL. Values without a fixed type (metadata, details, messages, arguments, results,
traces) are JSON text. A text that Arrow cannot hold, because half a surrogate pair is in it, is written as in JSONL:
each half as ``\udXXX``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.engine.values.errors import MissingExtraError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.workflows.rows.reading import RowsError
from penstock.workflows.rows.results import ResultFields, kept_name, value_as_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

try:
    pa: Any = import_module("pyarrow")
except ImportError as error:
    raise MissingExtraError("rows as an Arrow table", "data") from error

Table: TypeAlias = Any
"""A ``pyarrow.Table``."""

Schema: TypeAlias = Any
"""A ``pyarrow.Schema``."""

DataType: TypeAlias = Any
"""A ``pyarrow.DataType``."""

TEXT: DataType = pa.large_string()
"""What a row decides the length of: one array of it may be longer than 2 GiB, as that of a ``string`` may not."""

NAMES: DataType = pa.list_(pa.string())

TRIPWIRE: DataType = pa.struct(
    {
        "reason": TEXT,
        "processor_id": pa.string(),
        "stage": pa.string(),
        "retry": pa.bool_(),
        "metadata": TEXT,
    }
)
ERROR: DataType = pa.struct({"type": pa.string(), "message": TEXT})
EDIT: DataType = pa.struct(
    {
        "message": TEXT,
        "part": pa.int64(),
        "field": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
        "kind": pa.string(),
        "text": TEXT,
    }
)
_RECORD: Mapping[str, DataType] = {
    "step": pa.string(),
    "processor": pa.string(),
    "status": pa.string(),
    "shadow": pa.bool_(),
    "ms": pa.float64(),
    "edits": pa.list_(EDIT),
    "reason": TEXT,
    "error": TEXT,
    "flagged": NAMES,
    "details": TEXT,
}

_TYPES: Mapping[str, DataType] = {
    "file": pa.string(),
    "line": pa.int64(),
    "id": TEXT,
    "status": pa.string(),
    "text": TEXT,
    "messages": TEXT,
    "arguments": TEXT,
    "result": TEXT,
    "flagged": NAMES,
    "tripwire": TRIPWIRE,
    "error": ERROR,
    "ms": pa.float64(),
    "input": TEXT,
    "trace": TEXT,
}
"""The types of the fields of a result; that of ``records`` depends on whether times are wanted."""

_JSON_FIELDS = ("messages", "arguments", "result", "input", "trace")


@dataclass(frozen=True)
class ResultTables:
    """Makes tables of results. It can be pickled.

    Attributes:
        fields: the fields of a row's result.
        stage: the stage that is run: a tool stage has ``arguments`` or ``result``, any other has ``messages``.
        kept: the columns that are kept, by the names that they have in the input, with their types; None: none are.
            One whose values are of no fixed type is of the type `TEXT`: strings as they are, anything else as JSON.
        omitted: fields of a result that have no column, for example ``line`` where rows have no numbers.
    """

    fields: ResultFields
    stage: str = "process_input"
    kept: Schema | None = None
    omitted: tuple[str, ...] = ("file",)

    @cached_property
    def own_schema(self) -> Schema:
        """The columns of a result itself, without those that are kept."""
        record = pa.struct({key: kind for key, kind in _RECORD.items() if key != "ms" or self.fields.times})
        types = {**_TYPES, "records": pa.list_(record)}
        names = self.fields.names(self.stage, several=True)
        return pa.schema([(name, types[name]) for name in names if name not in self.omitted])

    @cached_property
    def schema(self) -> Schema:
        """The columns of a table."""
        kept = {kept_name(field.name): field.with_name(kept_name(field.name)) for field in self.kept or ()}
        return pa.schema([*self.own_schema, *kept.values()])

    def plain(self, result: Mapping[str, Any]) -> dict[str, object]:
        """Return a result of `ResultFields.of` with JSON text for values without a fixed type, so it can be pickled."""
        made = dict(result)
        for name in _JSON_FIELDS:
            if made.get(name) is not None:
                made[name] = value_as_json(made[name])
        made["id"] = _as_text(made["id"])
        if made["tripwire"] is not None:
            made["tripwire"] = _with_json(made["tripwire"], "metadata")
        made["records"] = [_with_json(each, "details") if "details" in each else each for each in made["records"]]
        for field in self.kept or ():
            name = kept_name(field.name)
            if field.type == TEXT and name in made:
                made[name] = _as_text(made[name])
        return made

    def table(self, plain: Sequence[Mapping[str, Any]]) -> Table:
        """Return a table of results, which `plain` made.

        Raises:
            RowsError: a value of a kept column is not of the type of its column.
        """
        columns = {
            field.name: _array([each.get(field.name) for each in plain], field.type) for field in self.own_schema
        }
        for field in self.kept or ():
            name = kept_name(field.name)
            columns[name] = _kept_array(field.name, [each.get(name) for each in plain], field.type)
        return pa.table(columns, schema=self.schema)


def _with_json(value: Mapping[str, object], name: str) -> dict[str, object]:
    return {**value, name: value_as_json(value[name])}


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else value_as_json(value)


def _array(values: list[object], kind: DataType) -> object:
    """Return an array of values of our own. One that is not of the type becomes the nearest that is."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # UnicodeEncodeError is a ValueError
        return pa.array([_fitting(value, kind) for value in values], kind)


def _kept_array(name: str, values: list[object], kind: DataType) -> object:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_fitting(value, kind) for value in values], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RowsError(
            f"column {name!r}: a value is not of its type, {kind}; do not keep it, or write JSONL"
        ) from error


def _fitting(value: object, kind: DataType) -> object:
    """Return a value as one of an Arrow type; None if there is none."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _fitting(value.get(each.name), each.type) for each in kind} if is_mapping(value) else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_fitting(each, kind.value_type) for each in value] if is_items(value) else None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return encodable(value if isinstance(value, str) else value_as_json(value))
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def encodable(text: str) -> str:
    r"""Return a text with ``\udXXX`` for each half of a surrogate pair, as in JSONL: UTF-8 cannot encode it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
