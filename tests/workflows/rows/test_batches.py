"""`WorkflowBatches`: a workflow on batches of rows, by the library that they come from."""

import gc
import json
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import anyio
import pyarrow as pa
import pytest

from penstock import InputContext, PIIDetector, Processor, Workflow
from penstock.engine import OptionError
from penstock.workflows.loading import LoadingError
from penstock.workflows.rows import RowsError, WorkflowBatches, batches as module, job, warm
from penstock.workflows.rows.reading import TOO_DEEP, RawRow, parse_json
from tests.workflows.rows import poisonous

TEXTS = ["Write to ann@example.com", "fine", None, "", "\0 bob@example.com é"]
STATUSES = ["edited", "passed", "invalid", "passed", "edited"]


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    """What a process keeps loaded ends with it: loops, and child processes."""
    yield
    children = multiprocessing.active_children()
    warm._loaded.clear()
    gc.collect()
    for child in children:
        child.join(10)
        assert not child.is_alive(), "a child process outlives the batches"


class Slow(Processor):
    """Waits, and counts how many do at once."""

    edits = "nothing"

    def __init__(self) -> None:
        self.now = self.most = 0
        self.loops: set[int] = set()

    async def process_input(self, ctx: InputContext) -> None:
        """Wait."""
        self.loops.add(threading.get_ident())
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.sleep(0.02)
        self.now -= 1


def guard() -> Workflow:
    """A workflow without async steps."""
    return Workflow("guard").then(PIIDetector(redaction_method="placeholder"))


def table(texts: list[Any] = TEXTS) -> Any:
    """A table with columns of types that Python does not have."""
    count = len(texts)
    return pa.table(
        {
            "key": pa.array(range(count), pa.uint16()),
            "said": pa.array(texts, pa.string()),
            "at": pa.array([10**9] * count, pa.timestamp("ns", "UTC")),
            "lang": pa.array(["de"] * count).dictionary_encode(),
            "text": pa.array([b"\xff"] * count, pa.binary()),
        }
    )


BATCHES = {"text": "said", "id": "key", "times": False}


def test_arrow_in_arrow_out() -> None:
    """Results and kept columns, whose types are untouched; whose name is that of a result gets another."""
    given = table()
    made = WorkflowBatches(guard(), **BATCHES)(given)
    made.validate(full=True)
    assert made.column_names == [
        "id",
        *("status", "text", "messages", "flagged", "tripwire", "error", "records"),
        *("at", "lang", "input_text"),
    ]
    assert made["status"].to_pylist() == STATUSES
    assert made["text"].to_pylist() == ["Write to [EMAIL]", "fine", None, "", "\0 [EMAIL] é"]
    assert made["error"][2].as_py() == {"type": "MessageError", "message": "said: it is null"}
    for old, new in {"key": "id", "at": "at", "lang": "lang", "text": "input_text"}.items():
        assert made[new].equals(given[old])
        assert made.schema.field(new).type == given.schema.field(old).type


def test_a_record_batch_is_answered_with_one() -> None:
    """As Spark's `mapInArrow` and Flight hand them out; without rows, too."""
    batches = WorkflowBatches(guard(), **BATCHES)
    (given,) = table().to_batches()
    made = batches(given)
    assert isinstance(made, pa.RecordBatch)
    assert pa.Table.from_batches([made]).equals(batches(table()))
    assert batches(given.slice(0, 0)).schema == made.schema


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_how_rows_are_batched_does_not_matter(size: int) -> None:
    """Also not to the ids of messages in the edits; empty batches have all columns."""
    batches = WorkflowBatches(guard(), **BATCHES)
    whole = batches(table())
    parts = [batches(table().slice(at, size)) for at in range(0, 5, size or 5)]
    assert parts[0].schema == whole.schema
    if size:
        assert pa.concat_tables(parts).combine_chunks().equals(whole.combine_chunks())


def test_a_batch_without_columns() -> None:
    """Libraries hand such ones out for partitions without rows."""
    made = WorkflowBatches(guard(), text="said")(pa.table({}))
    assert (made.num_rows, made["status"].to_pylist()) == (0, [])
    assert WorkflowBatches(guard(), text="said")({})["status"] == []


def test_dict_of_lists_in_dict_of_lists_out() -> None:
    """With lists as they came."""
    scores = [object(), 2, "c"]
    made = WorkflowBatches(guard(), text="t")({"t": ["a@example.com", 7, None], "score": scores, "id": [1, "b", None]})
    assert made["status"] == ["edited", "invalid", "invalid"]
    assert made["score"] is scores
    assert list(made)[:3] == ["id", "status", "text"]


def test_pandas_in_pandas_out() -> None:
    """Index and types stay; a missing text is null, whatever pandas has for it."""
    pd = pytest.importorskip("pandas")
    given = pd.DataFrame(
        {
            "key": pd.Series([1, 2, 3], dtype="Int16"),
            "said": pd.Series(["a@example.com", float("nan"), "ok"]),
            "mixed": [1, "b", {"c": 3}],
        },
    ).set_index(pd.Index([7, 7, 9], name="place"))
    made = WorkflowBatches(guard(), text="said", id="key")(given)
    assert made["status"].tolist() == ["edited", "invalid", "passed"]
    assert made.index.equals(given.index)
    assert made["id"].dtype == given["key"].dtype
    assert made["mixed"].tolist() == [1, "b", {"c": 3}]
    assert made["records"].iloc[0][0]["edits"][0]["text"] == "[EMAIL]"
    assert WorkflowBatches(guard(), text="said", id="key")(given.iloc[:0]).shape == (0, made.shape[1])


def test_polars_in_polars_out() -> None:
    """Types stay, those that Arrow does not have, too."""
    pl = pytest.importorskip("polars")
    given = pl.DataFrame(
        {"key": [1, 2], "said": ["a@example.com", None], "kind": ["x", "y"]},
        schema={"key": pl.UInt8, "said": pl.String, "kind": pl.Enum(["x", "y"])},
    )
    made = WorkflowBatches(guard(), text="said", id="key")(given)
    assert made["status"].to_list() == ["edited", "invalid"]
    assert (made.schema["id"], made.schema["kind"]) == (pl.UInt8, pl.Enum(["x", "y"]))
    assert isinstance(made.schema["records"], pl.List)


def test_no_value_breaks_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no text, no UTF-8 or too long is a row that is invalid, and the others are checked."""
    monkeypatch.setattr(module, "MAX_LINE", 2**20)
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 2, 6], pa.int32()).buffers()[1], pa.py_buffer(b"a\xc3fine")]
    )
    made = WorkflowBatches(guard(), text="t")(pa.table({"t": bad}))
    assert made["status"].to_pylist() == ["invalid", "passed"]
    assert made["error"][0].as_py()["message"] == "column 't': it is not valid UTF-8"
    for kind, value in {"int": 5, "bytes": b"x", "nan": float("nan"), "list": [1], "deep": nested(10_000)}.items():
        made = WorkflowBatches(guard(), text="t")({"t": [value, "ok"]})
        assert made["status"] == ["invalid", "passed"], kind
    for value in ("é" * (2**19 + 1), [{"role": "user", "content": "a" * 2**20, "x": "b"}]):
        made = WorkflowBatches(guard(), text="t")({"t": [value, "é" * 2**19]})
        assert made["status"] == ["invalid", "passed"]
        assert made["error"][0]["message"] == "column 't': it is longer than 1 MiB"


def test_values_are_nested_as_deeply_as_in_a_line_of_json() -> None:
    """Whatever the stack holds: a row of a batch and one of a file are invalid from the same depth on."""
    rows = [{"messages": [{"role": "user", "content": "x", "more": nested(depth)}]} for depth in (196, 197)]
    made = WorkflowBatches(guard())({"messages": [row["messages"] for row in rows]})
    lines = [parse_json(RawRow(1, json.dumps(row).encode())) for row in rows]
    assert [line.problem for line in lines] == [None, TOO_DEEP]
    assert made["status"] == ["passed", "invalid"]
    assert made["error"][1]["message"] == TOO_DEEP


def nested(depth: int) -> Any:
    """Return a list in a list, so many times."""
    made: Any = []
    for _ in range(depth):
        made = [made]
    return made


def test_half_a_surrogate_pair() -> None:
    """Python holds it in a str, and no table does: it is written as in JSONL."""
    made = WorkflowBatches(guard(), text="t")({"t": ["\ud83d a@example.com"]})
    assert made["text"] == ["\\ud83d [EMAIL]"]


def test_conversations() -> None:
    """A null in a table is a field that is not there; messages come back as JSON."""
    given = pa.table(
        {
            "messages": [[{"role": "user", "content": "a@example.com"}, {"role": "user", "content": "b", "name": "n"}]],
            "text": pa.array([None], pa.string()),
            "score": [0.5],
        }
    )
    made = WorkflowBatches(guard())(given)
    assert [json.loads(messages) for messages in made["messages"].to_pylist()] == [
        [{"content": "[EMAIL]", "role": "user"}, {"content": "b", "role": "user", "name": "n"}]
    ]
    assert made["score"].equals(given["score"])
    named = WorkflowBatches(guard(), text="chat")(given.select(["messages"]).rename_columns(["chat"]))
    assert named["messages"].equals(made["messages"])


def test_a_tool_stage() -> None:
    """With its value as JSON; a null in arguments is a value."""
    batches = WorkflowBatches(guard(), stage="process_tool_call", text="arguments")
    made = batches({"arguments": [{"to": "a@example.com", "cc": None}], "tool_name": ["mail"]})
    assert made["arguments"] == ['{"to":"[EMAIL]","cc":null}']


def test_values_that_python_does_not_have_break_no_batch() -> None:
    """Of Arrow, and of pandas, which has columns of Arrow: the rows are invalid, and the others are checked."""
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 2, 6], pa.int32()).buffers()[1], pa.py_buffer(b"a\xc3fine")]
    )
    late = pa.array([2**62, None], pa.timestamp("s"))
    twice = pa.StructArray.from_arrays([pa.array(["x", "y"])] * 2, names=["a", "a"])
    for column in (late, twice):
        made = WorkflowBatches(guard(), text="t")(pa.table([column], ["t"]))
        assert made["status"].to_pylist() == ["invalid", "invalid"]
        assert "cannot be read as a value of Python" in made["error"][0].as_py()["message"]
    pd = pytest.importorskip("pandas")
    frame = pa.table({"t": bad}).to_pandas(types_mapper=pd.ArrowDtype)
    made = WorkflowBatches(guard(), text="t")(frame)
    assert made["status"].tolist() == ["invalid", "passed"]


def test_a_single_row_is_no_batch() -> None:
    """The characters of its text would be rows, and no guard would read the text."""
    batches = WorkflowBatches(guard(), text="t")
    for value in ("a@example.com", b"a", {"text": "a@example.com"}, None, 5):
        with pytest.raises(RowsError, match=r"column 't' is not a list, but one value .*batched=True"):
            batches({"t": value})
    with pytest.raises(RowsError, match="have one length; 'k' has 1 rows, and 't' has 2"):
        batches({"k": [1], "t": ["a@example.com", "b"]})
    with pytest.raises(RowsError, match="a column with the name 0"):
        batches({"t": ["a"], 0: [1]})


def test_frames_by_their_class() -> None:
    """A DataFrame of a class of its own is one; a Series, which has keys too, is none."""
    pd = pytest.importorskip("pandas")

    class Own(pd.DataFrame):  # type: ignore[misc, name-defined]
        pass

    made = WorkflowBatches(guard(), text="t")(Own({"t": ["a@example.com"]}))
    assert isinstance(made, Own)
    assert made["text"].tolist() == ["[EMAIL]"]
    with pytest.raises(RowsError, match=r"not pandas\.Series"):
        WorkflowBatches(guard(), text="t")(pd.Series({"t": "a@example.com"}))


def test_the_id_can_be_kept_as_a_column_too() -> None:
    """As in JSONL."""
    made = WorkflowBatches(guard(), text="t", keep=["id"])({"t": ["a"], "id": [7]})
    assert (made["id"], made["input_id"]) == ([7], [7])


def test_a_stage_by_its_short_name() -> None:
    """It is the same stage; a name of none is an error at once."""
    given = {"t": [{"to": "a@example.com"}]}
    short, full = (
        WorkflowBatches(guard(), stage=name, text="t", times=False) for name in ("tool_call", "process_tool_call")
    )
    assert short(given) == full(given)
    assert short(given)["arguments"] == ['{"to":"[EMAIL]"}']
    for name in ("inptu", "process_output_stream"):
        with pytest.raises(OptionError, match="must be one of process_input, "):
            WorkflowBatches(guard(), stage=name)


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.rest
def test_a_script_that_names_itself(tmp_path: Path, isolate: bool) -> None:
    """It would load itself without end; it is told what to write instead."""
    (tmp_path / "script.py").write_text(
        "from penstock import PIIDetector, Workflow\n"
        "from penstock.workflows.rows import WorkflowBatches\n"
        "guard = Workflow('guard').then(PIIDetector())\n"
        f"print(WorkflowBatches('script.py:guard', text='t', isolate={isolate})({{'t': ['a']}}))\n",
        "utf-8",
    )
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )
    assert ran.stderr.endswith("put that under: if __name__ == '__main__':\n")


def test_keep_names_columns() -> None:
    """Only they are kept; the id always is."""
    made = WorkflowBatches(guard(), keep=["lang"], **BATCHES)(table())
    assert made.column_names[0] == "id"
    assert made.column_names[-1] == "lang"
    assert "at" not in made.column_names


def test_wrong_use_is_an_error_that_says_what_to_do() -> None:
    """Before the rows: it holds for all of them."""
    with pytest.raises(RowsError, match=r"no column 'sad'; it has 'key', 'said'"):
        WorkflowBatches(guard(), text="sad")(table())
    with pytest.raises(RowsError, match="two columns 'a'"):
        WorkflowBatches(guard())(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]))
    with pytest.raises(RowsError, match=r"a dict of lists, not builtins\.list"):
        WorkflowBatches(guard())([1])
    with pytest.raises(OptionError, match="keep"):
        WorkflowBatches(guard(), keep="lang")
    with pytest.raises(OptionError, match="jobs"):
        WorkflowBatches(guard(), jobs=0)
    with pytest.raises(LoadingError, match="nobody"):
        WorkflowBatches("nobody", text="said")(table())


def test_a_workflow_is_loaded_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the batches are sent there, as Dask and Spark do for each partition."""
    batches = WorkflowBatches("hygiene", text="said", context={"a": ["b"]})
    loaded = []
    load = job.load_workflow
    monkeypatch.setattr(job, "load_workflow", lambda name: loaded.append(name) or load(name))
    for _ in range(3):
        sent = ForkingPickler.loads(ForkingPickler.dumps(batches))
        assert sent(table())["status"].to_pylist()[:2] == ["edited", "passed"]
    assert loaded == ["hygiene"]
    WorkflowBatches("hygiene", text="said")(table())
    assert loaded == ["hygiene", "hygiene"]


def test_async_rows_run_at_once_and_share_a_limit() -> None:
    """In one loop, also if several batches are checked at the same time."""
    slow = Slow()
    batches = WorkflowBatches(Workflow("slow").then(slow), text="t", jobs=4)
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(batches, [{"t": [f"{batch} {at}" for at in range(8)]} for batch in range(3)]))
    assert [each["text"] for each in made] == [[f"{batch} {at}" for at in range(8)] for batch in range(3)]
    assert slow.most == 4
    assert len(slow.loops) == 1


class Exits(Processor):
    """Ends the program if the text says so."""

    edits = "nothing"

    async def process_input(self, ctx: InputContext) -> None:
        """Do it."""
        await anyio.sleep(0.001)
        if ctx.text == "exit":
            raise SystemExit(3)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_step_that_ends_the_loop_ends_its_batch_only() -> None:
    """As one beside others does, which is a task of asyncio. The next batch has a loop of its own."""
    batches = WorkflowBatches(Workflow("exits").parallel(Exits(), Slow()), text="t")
    for _ in range(2):
        with pytest.raises((CancelledError, BaseExceptionGroup, SystemExit)):
            batches({"t": ["fine", "exit"]})
        assert batches({"t": ["fine"]})["status"] == ["passed"]


def test_the_loop_ends_with_the_batches() -> None:
    """When nothing in the process uses them any more."""
    before = threading.active_count()
    for _ in range(warm.LOADED + 3):
        WorkflowBatches(Workflow("slow").then(Slow()), text="t")({"t": ["a"]})
    gc.collect()
    until = monotonic() + 60
    while threading.active_count() > before + warm.LOADED and monotonic() < until:
        sleep(0.01)
    assert threading.active_count() <= before + warm.LOADED


@pytest.mark.rest
def test_a_poisonous_row_fails_alone() -> None:
    """In a child process; what cannot be read is invalid there, too, and workers are kept from batch to batch."""
    batches = WorkflowBatches(f"{poisonous.__file__}:guard", text="t", isolate=True, row_seconds=3.0, times=False)
    made = batches({"t": ["fine", "kill", "bomb", None, "hang", "fine"], "id": [1, 2, 3, 4, 5, 6]})
    assert made["status"] == ["passed", "failed", "blocked", "invalid", "failed", "passed"]
    assert made["error"][1]["message"] == "the row has no result: its worker process was killed by signal 9"
    assert made["error"][4]["message"] == "the row has no result: its worker process took too long"
    children = multiprocessing.active_children()
    plain = {"t": ["fine", "bomb", 7, nested(10_000)]}
    assert batches(plain) == WorkflowBatches(f"{poisonous.__file__}:guard", text="t", times=False)(plain)
    assert multiprocessing.active_children() == children


@pytest.mark.rest
def test_a_script_without_a_main_guard_can_use_child_processes(tmp_path: Path) -> None:
    """The child does not begin it again."""
    (tmp_path / "script.py").write_text(
        "from penstock.workflows.rows import WorkflowBatches\n"
        f"batches = WorkflowBatches({poisonous.__file__ + ':guard'!r}, text='t', isolate=True)\n"
        "print(batches({'t': ['kill', 'fine']})['status'])\n",
        "utf-8",
    )
    ran = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("['failed', 'passed']\n", "")


def test_a_child_process_needs_a_stage_without_async_steps() -> None:
    """It checks one row after another, so that one is known to be the row that killed it."""
    with pytest.raises(OptionError, match="isolate"):
        WorkflowBatches(Workflow("slow").then(Slow()), text="t", isolate=True)({"t": ["a"]})
