"""Results of rows as Arrow tables."""

import json
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest

from penstock import InputContext, PIIDetector, Processor, RegexFilterProcessor, Workflow
from penstock.workflows.rows.arrow import TEXT, ResultTables
from penstock.workflows.rows.job import RowsJob
from penstock.workflows.rows.reading import Columns, InputRow, RowsError
from penstock.workflows.rows.results import RESULT_NAMES, ResultFields

GUARD = (
    Workflow("guard")
    .then(PIIDetector(redaction_method="placeholder"))
    .then(RegexFilterProcessor(banned_words=["secret plan"]))
)


class Fields:
    """The fields of each result, as they are."""

    def __init__(self, fields: ResultFields) -> None:
        self.fields = fields

    def maker(self, workflow: Workflow) -> Any:
        """Return what makes them."""
        return self.fields.of


class Odd(Processor):
    """Writes into its verdict what JSON and UTF-8 do not know."""

    def process_input(self, ctx: InputContext) -> None:
        """Block."""
        ctx.abort("no \ud800", metadata={"a": {1, 2}, "b": float("inf"), "c": "\ud800", "d": 2**70})


def results(values: list[Any], fields: ResultFields, stage: str = "process_input") -> list[dict[str, Any]]:
    """Return the fields of the results of some rows."""
    checker = RowsJob(GUARD, stage, columns=fields.columns, forms=(Fields(fields),)).started()
    return [checker.check(InputRow(at, value)).made[0] for at, value in enumerate(values, 1)]


def sent(value: Any) -> Any:
    """Return what another process gets."""
    return ForkingPickler.loads(ForkingPickler.dumps(value))


def table_of(values: list[Any], tables: ResultTables) -> Any:
    """Return the table of the results of some rows, after what happens on the way to another process."""
    plain = [tables.plain(each) for each in results(values, tables.fields, tables.stage)]
    made = sent(tables).table(sent(plain))
    made.validate(full=True)
    return made


def test_the_fields_of_a_row_are_those_of_jsonl() -> None:
    """All of them, with nested columns for verdict, records and edits."""
    made = table_of(["Write to ann@example.com", "the secret plan", 7], ResultTables(ResultFields(times=False)))
    edited, blocked, invalid = made.to_pylist()
    assert edited["text"] == "Write to [EMAIL]"
    assert edited["records"][0]["edits"] == [
        {"message": "line-1-1", "part": 0, "field": "text", "start": 9, "end": 24, "kind": "redact", "text": "[EMAIL]"}
    ]
    assert json.loads(edited["records"][0]["details"]) == {"evidence": {"email": ["form"]}, "found": {"email": 1}}
    assert (blocked["status"], blocked["text"], blocked["tripwire"]["processor_id"]) == (
        "blocked",
        None,
        "regex-filter",
    )
    assert json.loads(blocked["tripwire"]["metadata"]) is not None
    assert (invalid["status"], invalid["error"]["type"]) == ("invalid", "MessageError")


@pytest.mark.parametrize("stage", ["process_input", "process_tool_call", "process_tool_result"])
@pytest.mark.parametrize("shown", [True, False])
def test_every_field_of_jsonl_has_a_column(stage: str, shown: bool) -> None:
    """In the same order, so that a new field cannot be forgotten."""
    fields = ResultFields(show_input=shown, traced=shown, times=shown)
    values = ["a", {"messages": [{"role": "user", "content": "b"}]}, {"arguments": {"a": "c"}, "result": "d"}]
    tables = ResultTables(fields, stage, omitted=())
    found = {name for each in results(values, fields, stage) for name in each} | {"file"}
    assert tables.schema.names == [name for name in RESULT_NAMES if name in found]


def test_texts_that_arrow_cannot_hold_are_written_as_in_jsonl() -> None:
    """Half a surrogate pair stands as its escape, also in nested columns; NUL is a character as others."""
    made = table_of(["\ud83d \0 ann@example.com", {"text": "b", "id": "\udc00"}], ResultTables(ResultFields()))
    assert made["text"].to_pylist() == ["\\ud83d \0 [EMAIL]", "b"]
    assert made["id"].to_pylist() == [None, "\\udc00"]
    assert made["records"][0][0]["edits"][0]["start"].as_py() == 4


def test_kept_columns_without_a_type_are_text() -> None:
    """Strings as they are, anything else as JSON, whatever a row holds: no value breaks the table."""
    deep: Any = []
    for _ in range(10_000):
        deep = [deep]
    kept = pa.schema([("a", TEXT), ("text", TEXT)])
    values = [1, "one", None, float("nan"), 10**400, 10**5000, {"x": [1, {"y": None}]}, deep, True, "\udfff"]
    tables = ResultTables(ResultFields(Columns("said", keep=("a", "text"))), kept=kept)
    made = table_of([{"said": "s", "a": value, "text": 1} for value in values], tables)
    assert made["a"].to_pylist() == [
        "1",
        "one",
        None,
        "NaN",
        str(10**400),
        '"int"',
        '{"x":[1,{"y":null}]}',
        '"list"',
        "true",
        "\\udfff",
    ]
    assert made["input_text"].to_pylist() == ["1"] * len(values)


def test_kept_columns_with_a_type_keep_it() -> None:
    """A value of another type is an error that names the column."""
    kept = pa.schema([("a", pa.int32())])
    tables = ResultTables(ResultFields(Columns("said")), kept=kept)
    made = table_of([{"said": "s", "a": 1}, {"said": "t"}], tables)
    assert made.schema.field("a").type == pa.int32()
    assert made["a"].to_pylist() == [1, None]
    with pytest.raises(RowsError, match="column 'a': a value is not of its type, int32"):
        table_of([{"said": "s", "a": "1"}], tables)


def test_no_row_is_a_table_with_all_columns() -> None:
    """As a file without rows has."""
    tables = ResultTables(ResultFields(), kept=pa.schema([("a", pa.int8())]))
    assert tables.table([]).schema == tables.schema


def test_a_value_of_a_step_that_is_of_another_type_breaks_no_table() -> None:
    """A processor may write anything into the metadata of its verdict, and into the details of its record."""
    tables = ResultTables(ResultFields())
    checker = RowsJob(Workflow("odd").then(Odd()), forms=(Fields(tables.fields),)).started()
    (made,) = tables.table([tables.plain(checker.check(InputRow(1, "x")).made[0])]).to_pylist()
    assert made["status"] in ("blocked", "failed")
    plain = {**results(["a"], tables.fields)[0], "line": 2**70, "text": 7, "error": 3}
    plain["tripwire"] = MappingProxyType({"reason": 1, "metadata": {}, "retry": "no"})
    (made,) = tables.table([tables.plain(plain)]).to_pylist()
    assert (made["line"], made["text"], made["error"], made["tripwire"]["reason"]) == (None, "7", None, "1")
