"""What `penstock run` writes: JSON lines, CSV and Parquet, plain and compressed; and how it goes on with them."""

import csv
import datetime as dt
import gzip
import io
import json
import random
import re
from decimal import Decimal
from pathlib import Path

import pytest

zstandard = pytest.importorskip("zstandard")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ADDRESS = "ann@example.com"


def written(path: Path) -> bytes:
    """Return what a file holds, decompressed."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data) if data else b""
    if path.suffix == ".zst":
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
            return reader.read()
    return data


def some_rows(count: int) -> list[dict]:
    """Return rows of each status, with line breaks and quotes in what is kept."""
    texts = ["fine", f"to {ADDRESS}", "bomb", "crash", 3, 'a "quoted",\r\nline', "é🙂"]
    return [
        {"id": f"row {n}", "text": texts[n % len(texts)], "n": n, "more": {"a": [n, None]}, "word": f'"{n}",\n\rx'}
        for n in range(count)
    ]


@pytest.fixture
def rows(world: Path, lines) -> Path:
    """Return a file of rows."""
    path = world / "rows.jsonl"
    path.write_bytes(lines(*some_rows(40)))
    return path


def guarded(run, *argv: str):
    """Run the guard on the rows, without times."""
    return run("run", "guards.py:guard", "-i", "rows.jsonl", "--no-times", *argv)


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_compressed_output_holds_the_same(run, world: Path, rows, ending) -> None:
    """And is read again as an input."""
    guarded(run, "-o", "plain.jsonl")
    guarded(run, "-o", f"out.jsonl{ending}")
    assert written(world / f"out.jsonl{ending}") == (world / "plain.jsonl").read_bytes()
    again = run("run", "guards.py:guard", "-i", f"out.jsonl{ending}", "--text", "status")
    assert {row["text"] for row in again.rows} == {"passed", "edited", "blocked", "failed", "invalid"}


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv.gz", "out.parquet"])
def test_an_output_may_be_a_url(run, rows, world: Path, name) -> None:
    """Whatever file system fsspec knows."""
    fsspec = pytest.importorskip("fsspec")
    guarded(run, "-o", name)
    guarded(run, "-o", f"memory://penstock-out/{name}")
    with fsspec.open(f"memory://penstock-out/{name}", "rb") as file:
        (world / f"copy-{name}").write_bytes(file.read())
    if name.endswith(".parquet"):
        assert parquet.read_table(world / f"copy-{name}").equals(parquet.read_table(world / name))
    else:
        assert written(world / f"copy-{name}") == written(world / name)


def test_csv_has_the_fields_of_jsonl(run, world: Path, rows) -> None:
    """What is nested is JSON, null is nothing, text stands as it is."""
    guarded(run, "-o", "out.csv")
    expected = guarded(run).rows
    with (world / "out.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file, strict=True))
    assert list(found[0]) == (
        [
            "line",
            "id",
            "status",
            "text",
            "messages",
            "flagged",
            "tripwire",
            "error",
            "records",
            "n",
            "more",
            "word",
            "unfit",
        ]
    )
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for name in ("id", "status", "text", "word"):
            assert one[name] == (other.get(name) or "")
        for name in ("line", "flagged", "tripwire", "error", "records", "n", "more"):
            assert json.loads(one[name] or "null") == other[name]
    assert guarded(run, "--format", "csv").out.encode() == (world / "out.csv").read_bytes()


def test_a_table_has_a_column_for_what_came_too_late(run, world: Path, lines, monkeypatch) -> None:
    """Its columns are chosen by the first rows."""
    monkeypatch.setattr("penstock.workflows.rows.sources.FIRST_ROWS", 2)
    (world / "rows.jsonl").write_bytes(
        lines({"text": "a", "n": 1}, {"text": "b", "x": "s"}, {"text": "c", "n": "two", "x": 5, "late": [1], "line": 9})
    )
    guarded(run, "-o", "out.csv")
    guarded(run, "-o", "out.parquet")
    with (world / "out.csv").open(encoding="utf-8", newline="") as file:
        in_csv = list(csv.DictReader(file))
    assert [(row["n"], row["x"]) for row in in_csv] == [("1", ""), ("", "s"), ("two", "5")]
    assert [row["unfit"] for row in in_csv[:2]] == ["", ""]
    assert json.loads(in_csv[2]["unfit"]) == {"late": [1], "input_line": 9}
    table = parquet.read_table(world / "out.parquet")
    assert (table.schema.field("n").type, table.schema.field("x").type) == (pa.int64(), pa.large_string())
    found = table.to_pylist()
    assert [(row["n"], row["x"], row["unfit"]) for row in found[:2]] == [(1, None, None), (None, "s", None)]
    assert (found[2]["n"], found[2]["x"]) == (None, None)
    assert json.loads(found[2]["unfit"]) == {"late": [1], "input_line": 9, "n": "two", "x": 5}


def test_values_of_parquet_keep_their_types(run, world: Path) -> None:
    """In Parquet; in JSON lines and CSV they are what JSON can hold."""
    day = dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=dt.UTC)
    kept = {
        "when": pa.array([day, None], pa.timestamp("us", tz="UTC")),
        "price": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(6, 2)),
        "data": pa.array([b"\x00\xff", None], pa.binary()),
        "small": pa.array([1, 2], pa.int8()),
        "fine": pa.array([1_715_000_000_123_456_789, None], pa.timestamp("ns", tz="Europe/Paris")),
        "took": pa.array([123_456_789, 1], pa.duration("ns")),
        "tags": pa.array([["a"], []], pa.list_(pa.string())),
        "where": pa.array([{"x": 1.5}, None], pa.struct({"x": pa.float32()})),
    }
    source = pa.table({"id": ["a", "b"], "body": [f"to {ADDRESS}", "fine"], **kept})
    parquet.write_table(source, world / "in.parquet")
    ran = run("run", "guards.py:guard", "-i", "in.parquet", "--text", "body", "-o", "out.parquet")
    assert ran.err.startswith("penstock: 2 rows: 1 passed, 1 edited")
    table = parquet.read_table(world / "out.parquet")
    assert table.column("text").to_pylist() == ["to [EMAIL]", "fine"]
    for name, column in kept.items():
        assert table.column(name).combine_chunks().equals(column)
    assert "body" not in table.column_names
    assert "unfit" not in table.column_names
    rows = run("run", "guards.py:guard", "-i", "in.parquet", "--text", "body").rows
    assert [(row["line"], row["id"], row["small"], row["tags"]) for row in rows] == [
        (1, "a", 1, ["a"]),
        (2, "b", 2, []),
    ]
    assert (rows[0]["when"], rows[0]["price"], rows[0]["data"]) == ("2024-05-06T07:08:09.000010+00:00", "1.50", "AP8=")
    assert rows[0]["fine"] == "2024-05-06 14:53:20.123456789+0200"
    few = run("run", "guards.py:guard", "-i", "in.parquet", "--text", "body", "--keep", "small").rows
    assert set(few[0]) >= {"id", "small"}
    assert not set(few[0]) & {"when", "price", "body"}


@pytest.mark.parametrize("kind", [pa.binary(), pa.timestamp("us"), pa.decimal128(5, 2)])
def test_what_is_no_text_is_not_checked_as_what_json_makes_of_it(run, world: Path, kind) -> None:
    """A guard would read base64, and find nothing."""
    parquet.write_table(pa.table({"text": pa.array([None], kind)}), world / "in.parquet")
    for out in ("out.jsonl", "out.parquet"):
        ran = run("run", "guards.py:guard", "-i", "in.parquet", "-o", out)
        assert (ran.code, f"column 'text' of in.parquet holds {kind}, not text" in ran.err) == (2, True)


def test_a_time_that_python_has_not_costs_no_row(run, world: Path) -> None:
    """Nanoseconds within a list, or a year beyond 9999; what is no number is null in JSON."""
    kept = {
        "late": pa.array([253_402_300_800_000_000, 0], pa.timestamp("us")),
        "list": pa.array([[1], [None]], pa.list_(pa.timestamp("ns"))),
        "inner": pa.array([{"t": 1}, None], pa.struct({"t": pa.timestamp("ns")})),
    }
    table = pa.table({"text": ["a", f"to {ADDRESS}"], **kept, "x": [float("nan"), float("inf")]})
    parquet.write_table(table, world / "in.parquet")
    rows = run("run", "guards.py:guard", "-i", "in.parquet").rows
    assert [row["text"] for row in rows] == ["a", "to [EMAIL]"]
    assert [row["x"] for row in rows] == [None, None]
    assert rows[0]["list"][0].endswith(".000000001")
    assert run("run", "guards.py:guard", "-i", "in.parquet", "-o", "out.parquet").code == 0
    found = parquet.read_table(world / "out.parquet")
    for name, column in kept.items():
        assert found.column(name).combine_chunks().equals(column)


def test_half_surrogates_in_names_and_values_are_escaped(run, world: Path) -> None:
    """UTF-8 cannot encode them, and a run does not end there."""
    (world / "odd.jsonl").write_bytes(b'{"text": "a", "k\\udfff": "\\ud83d", "n": "\\ud83d"}\n{"text": "b"}\n')
    ran = run("run", "guards.py:guard", "-i", "odd.jsonl", "-o", "out.parquet")
    assert ran.code == 0
    found = parquet.read_table(world / "out.parquet").to_pylist()
    assert [row["n"] for row in found] == ["\\ud83d", None]
    assert json.loads(found[0]["unfit"]) == {"k\udfff": "\ud83d"}


def test_parquet_files_with_other_types_lose_nothing(run, world: Path) -> None:
    """The first file decides, and what does not fit is JSON."""
    parquet.write_table(pa.table({"text": ["a"], "n": [1]}), world / "a.parquet")
    parquet.write_table(pa.table({"text": ["b", "c"], "n": ["x", None], "m": [1.5, 2.5]}), world / "b.parquet")
    run("run", "guards.py:guard", "-i", "*.parquet", "-o", "out.pq.parquet")
    found = parquet.read_table(world / "out.pq.parquet").to_pylist()
    assert [(row["file"], row["line"], row["n"], row["m"]) for row in found] == [
        ("a.parquet", 1, 1, None),
        ("b.parquet", 1, None, 1.5),
        ("b.parquet", 2, None, 2.5),
    ]
    assert [row["unfit"] for row in found] == [None, '{"n":"x"}', None]


def test_results_in_parquet_are_read_again(run, world: Path, rows) -> None:
    """A column that is null says nothing: each row of a table has every column."""
    guarded(run, "-o", "out.parquet")
    again = run("run", "guards.py:guard", "-i", "out.parquet").rows
    texts = [row["text"] for row in guarded(run).rows]
    assert [row["text"] for row in again] == texts
    assert [row["status"] for row in again] == ["passed" if text is not None else "invalid" for text in texts]


@pytest.mark.parametrize(
    ("name", "argv", "said"),
    [
        ("a.parquet", [], "a.parquet cannot be read as Parquet: "),
        ("b.parquet.gz", [], "b.parquet.gz cannot be read as Parquet from a pipe or an archive; give a plain file"),
        ("c.parquet", [], "c.parquet has none of the columns text, messages, content, parts; it has 'body'; name the"),
    ],
)
def test_parquet_that_cannot_be_read_is_told_before_anything_runs(run, world: Path, name, argv, said) -> None:
    """In one line."""
    whole = io.BytesIO()
    parquet.write_table(pa.table({"body": ["x"]}), whole)
    data = {"a": b'{"text": "a"}\n', "b": gzip.compress(whole.getvalue()), "c": whole.getvalue()}[name[0]]
    (world / name).write_bytes(data)
    ran = run("run", "guards.py:guard", "-i", name, *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_damaged_row_group_of_parquet_costs_its_rows(run, world: Path) -> None:
    """One invalid row stands for them, and the next row groups are read."""
    texts = [f"{number} {'word ' * 50}" for number in range(30)]
    parquet.write_table(pa.table({"text": texts}), world / "in.parquet", row_group_size=10, compression="zstd")
    data = bytearray((world / "in.parquet").read_bytes())
    place = parquet.ParquetFile(world / "in.parquet").metadata.row_group(1).column(0).data_page_offset
    data[place : place + 40] = bytes(each ^ 0x5A for each in data[place : place + 40])
    (world / "in.parquet").write_bytes(data)
    ran = run("run", "guards.py:guard", "-i", "in.parquet")
    assert [(row["line"], row["status"]) for row in ran.rows] == [
        *((line, "passed") for line in range(1, 11)),
        (11, "invalid"),
        *((line, "passed") for line in range(21, 31)),
    ]
    assert "rows 11 to 20 of the file cannot be read" in ran.rows[10]["error"]["message"]
    assert ran.code == 3


def test_a_row_of_parquet_beyond_the_limit_costs_that_row(run, world: Path, monkeypatch) -> None:
    """As a line."""
    monkeypatch.setattr("penstock.workflows.rows.reading.MAX_LINE", 1000)
    parquet.write_table(pa.table({"text": ["a", "x " * 2000, "b"]}), world / "in.parquet")
    ran = run("run", "guards.py:guard", "-i", "in.parquet")
    assert [row["status"] for row in ran.rows] == ["passed", "invalid", "passed"]


# --resume


@pytest.mark.parametrize(
    "name", ["out.csv", *(pytest.param(each, marks=pytest.mark.rest) for each in ("out.jsonl", "out.tsv"))]
)
def test_a_run_goes_on_from_any_byte(run, world: Path, rows, name) -> None:
    """What an interrupted run leaves is a part of the output, of any length; the end result is the same."""
    expected = guarded(run, "-o", name)
    out = world / name
    whole = out.read_bytes()
    source = random.Random(5)  # noqa: S311 - no secret
    places = [0, 1, len(whole) - 1, len(whole), *(source.randrange(len(whole)) for _ in range(40))]
    places += [place for n, place in enumerate(_ends(whole)) if n % 9 == 0]
    for place in places:
        out.write_bytes(whole[:place])
        ran = guarded(run, "-o", name, "--resume")
        assert out.read_bytes() == whole, place
        assert ran.code == expected.code == 3
        assert (
            ran.err.splitlines()[-1].split(": ", 2)[2].split(" in ")[0]
            == (expected.err.splitlines()[-1].split(": ", 2)[2].split(" in ")[0])
        )


def _ends(data: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]


@pytest.mark.rest
@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.zst", ".csv.gz"])
def test_a_compressed_output_goes_on_behind_its_last_whole_member(run, world: Path, rows, ending, monkeypatch) -> None:
    """Wherever it was cut."""
    monkeypatch.setattr("penstock.workflows.rows.files.MEMBER_BYTES", 3000)
    name = f"out{ending}"
    guarded(run, "-o", name)
    out = world / name
    stored, whole = out.read_bytes(), written(out)
    source = random.Random(6)  # noqa: S311 - no secret
    for place in [0, 1, len(stored), *(source.randrange(len(stored)) for _ in range(15))]:
        out.write_bytes(stored[:place])
        ran = guarded(run, "-o", name, "--resume")
        assert written(out) == whole, place
    assert "going on behind them" in ran.err


@pytest.mark.rest
def test_rows_of_several_files_go_on_in_the_right_file(run, world: Path, lines) -> None:
    """Also from their ends."""
    for name in ("a", "b", "c"):
        (world / f"{name}.jsonl").write_bytes(lines(*some_rows(3)))
    argv = ("run", "guards.py:guard", "-i", "?.jsonl", "--no-times", "-o", "out.jsonl")
    run(*argv)
    whole = (world / "out.jsonl").read_bytes()
    for place in _ends(whole):
        (world / "out.jsonl").write_bytes(whole[: place + 5])
        run(*argv, "--resume")
        assert (world / "out.jsonl").read_bytes() == whole


def test_a_limit_counts_the_earlier_rows(run, world: Path, rows) -> None:
    """As in one run."""
    guarded(run, "-o", "whole.jsonl", "--limit", "7")
    guarded(run, "-o", "out.jsonl", "--limit", "3")
    for _ in range(2):
        guarded(run, "-o", "out.jsonl", "--limit", "7", "--resume")
        assert (world / "out.jsonl").read_bytes() == (world / "whole.jsonl").read_bytes()


@pytest.mark.rest
def test_dead_letters_go_on_too(run, world: Path, rows) -> None:
    """Those of rows that are checked again are cut; those that are missing are counted."""
    argv = ("-o", "out.jsonl", "--dead-letters", "dead.jsonl")
    guarded(run, *argv)
    whole, dead = (world / "out.jsonl").read_bytes(), (world / "dead.jsonl").read_bytes()
    for place in _ends(whole)[::7]:
        (world / "out.jsonl").write_bytes(whole[:place])
        guarded(run, *argv, "--resume")
        assert (world / "out.jsonl").read_bytes() == whole
        assert (world / "dead.jsonl").read_bytes() == dead
    (world / "dead.jsonl").unlink()
    assert "dead.jsonl lacks 12 rows" in guarded(run, *argv, "--resume").err


def test_parquet_goes_on_if_it_has_its_end(run, world: Path, rows) -> None:
    """Through a copy, so that it is never half."""
    guarded(run, "-o", "whole.parquet")
    guarded(run, "-o", "out.parquet", "--limit", "11")
    ran = guarded(run, "-o", "out.parquet", "--resume")
    assert "out.parquet has the results of 11 rows; going on behind them" in ran.err
    assert parquet.read_table(world / "out.parquet").equals(parquet.read_table(world / "whole.parquet"))
    assert sorted(path.name for path in world.glob("*.resumed")) == []
    half = (world / "whole.parquet").read_bytes()[:-20]
    (world / "out.parquet").write_bytes(half)
    ran = guarded(run, "-o", "out.parquet", "--resume")
    assert ran.code == 2
    assert "out.parquet has no end" in ran.err
    assert (world / "out.parquet").read_bytes() == half


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"text": "a"}\n', "out.jsonl, result 1: this is no result of penstock"),
        (b"[]\n", "this is no result of penstock"),
        (b"text\n", "this is no result of penstock"),
    ],
)
def test_what_is_no_result_is_not_gone_on_with(run, world: Path, rows, data, said) -> None:
    """And not changed."""
    (world / "out.jsonl").write_bytes(data)
    ran = guarded(run, "-o", "out.jsonl", "--resume")
    assert ran.code == 2
    assert said in ran.err
    assert (world / "out.jsonl").read_bytes() == data


def test_results_of_another_input_are_not_gone_on_with(run, world: Path, rows, lines) -> None:
    """The place and the id of the last one tell; nothing is changed."""
    for form in ("jsonl", "csv"):
        out = world / f"out.{form}"
        guarded(run, "-o", out.name, "--limit", "5")
        before = out.read_bytes()
        rows.write_bytes(lines(*some_rows(5)[::-1]))
        ran = guarded(run, "-o", out.name, "--resume")
        assert ran.code == 2
        assert "is of line 5 with the id 'row 4', and row 5 of the input is line 5 with the id 'row 0'" in ran.err
        rows.write_bytes(lines(*some_rows(4)))
        ran = guarded(run, "-o", out.name, "--resume")
        assert f"out.{form} holds 5 results, and the input has only 4 rows" in ran.err
        assert out.read_bytes() == before
        rows.write_bytes(lines(*some_rows(40)))


@pytest.mark.parametrize("out", ["out.csv", "out.jsonl", "out.jsonl.gz"])
@pytest.mark.parametrize(
    ("first", "then", "differ"),
    [
        ([], ["--keep", "n"], "more word"),
        (["--keep", "n", "--keep", "more"], ["--keep", "n"], "more"),
        (["--keep", "n"], ["--keep", "word"], "n word"),
        (["--keep", "n", "--trace"], ["--keep", "n"], "trace"),
        (["--keep", "n"], ["--keep", "n", "--show-input"], "input"),
    ],
)
def test_results_of_other_options_are_not_gone_on_with(run, world: Path, rows, out, first, then, differ) -> None:
    """Their columns would differ from row to row; the file stays as it was."""
    guarded(run, "-o", out, "--limit", "5", *first)
    before = Path(out).read_bytes()
    ran = guarded(run, "-o", out, "--resume", *then)
    assert ran.code == 2
    assert f"{out} has other columns than this run would write (" in ran.err
    assert {*differ.split()} == {*re.findall(r"\w+", ran.err.split("(")[1].split(")")[0])} - {"unfit"}
    assert Path(out).read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-i", "rows.jsonl", "--resume"], "add -o FILE"),
        (["-i", "rows.jsonl", "--resume", "-o", "-"], "add -o FILE"),
        (["-i", "rows.jsonl", "--resume", "-o", "x", "--format", "table"], "add -o FILE"),
        (["text", "--resume", "-o", "x.jsonl"], "give them by --input"),
        (["-i", "rows.jsonl", "--resume", "-o", "memory://x.jsonl"], "--resume needs a file on this machine"),
        (["-i", "rows.jsonl", "--format", "parquet"], "Parquet is written to a file; add -o FILE"),
    ],
)
def test_what_cannot_be_resumed_is_told(run, world: Path, rows, argv, said) -> None:
    """With what is needed."""
    ran = run("run", "guards.py:guard", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
