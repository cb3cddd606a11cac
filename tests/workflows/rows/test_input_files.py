"""What `penstock run` reads: compressed files, globs, URLs, CSV; and what it says of files that are not as expected."""

import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.workflows.rows import parquet_rows
from penstock.workflows.rows.parquet_rows import ParquetRows
from penstock.workflows.rows.reading import Columns

zstandard = pytest.importorskip("zstandard")

ADDRESS = "ann@example.com"
GZIPPED = gzip.compress(b'"a"\n')


def compressed(data: bytes, ending: str) -> bytes:
    """Return the data as the ending of a name says."""
    if ending == ".gz":
        return gzip.compress(data)
    return zstandard.ZstdCompressor(write_checksum=True).compress(data) if ending else data


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("rows.jsonl", b'{"id": "a", "text": "x"}\n{"id": "b", "text": "to ann@example.com"}\n'),
        ("rows.ndjson", b'{"id": "a", "text": "x"}\n{"id": "b", "text": "to ann@example.com"}\n'),
        ("rows.csv", b"id,text\na,x\nb,to ann@example.com\n"),
        ("rows.tsv", b"id\ttext\na\tx\nb\tto ann@example.com\n"),
        ("rows.txt", b"x\nto ann@example.com\n"),
    ],
)
def test_the_name_of_a_file_says_its_format(run, world: Path, name, data, ending) -> None:
    """The ending of a compression stands behind that of the format."""
    (world / f"{name}{ending}").write_bytes(compressed(data, ending))
    ran = run("run", "guards.py:guard", "-i", f"{name}{ending}")
    assert [row["text"] for row in ran.rows] == ["x", "to [EMAIL]"]
    assert [row["id"] for row in ran.rows] == ([None, None] if ".txt" in name else ["a", "b"])
    assert ran.err.startswith("penstock: 2 rows")


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_compressed_file_may_have_many_members(run, world: Path, ending) -> None:
    """As when files are appended to one another; stdin may be compressed, too."""
    data = compressed(b'"a"\n"b', ending) + compressed(b'"\n', ending) + compressed(b"", ending)
    (world / f"rows.jsonl{ending}").write_bytes(data)
    assert [row["text"] for row in run("run", "guards.py:guard", "-i", f"rows.jsonl{ending}").rows] == ["a", "b"]
    assert [row["text"] for row in run("run", "guards.py:guard", "-", stdin=data).rows] == ["a", "b"]


def test_nulls_behind_a_gzip_file_are_no_part_of_it(run, world: Path) -> None:
    """Tapes and some copying programs fill up blocks."""
    (world / "rows.jsonl.gz").write_bytes(gzip.compress(b'"a"\n') + b"\0" * 5000)
    ran = run("run", "guards.py:guard", "-i", "rows.jsonl.gz")
    assert ([row["status"] for row in ran.rows], ran.code) == (["passed"], 0)


def many_lines() -> bytes:
    """Return rows that no compression makes small."""
    import random

    source = random.Random(1)  # noqa: S311 - no secret
    return b"".join(f'"{source.randbytes(30).hex()}"\n'.encode() for _ in range(6_000))


@pytest.mark.parametrize("ending", [".gz", pytest.param(".zst", marks=pytest.mark.rest)])
@pytest.mark.parametrize("damage", [pytest.param("cut", marks=pytest.mark.rest), "changed", "followed"])
def test_a_broken_archive_is_checked_up_to_there(run, world: Path, ending, damage) -> None:
    """What was read before is checked, the rest is one invalid row that says so, and the next file is read."""
    data = compressed(many_lines(), ending)
    middle = len(data) // 2
    broken = {
        "cut": data[:middle],
        "changed": data[:middle] + bytes(each ^ 0xFF for each in data[middle : middle + 64]) + data[middle + 64 :],
        "followed": data + b"something else",
    }[damage]
    (world / f"a.jsonl{ending}").write_bytes(broken)
    (world / "b.jsonl").write_bytes(b'"last"\n')
    ran = run("run", "guards.py:guard", "-i", f"a.jsonl{ending}", "-i", "b.jsonl")
    statuses = [row["status"] for row in ran.rows]
    assert statuses.count("passed") > (5_999 if damage == "followed" else 1500)
    places = [row["line"] for row in ran.rows[:-1]]
    assert places == sorted(set(places))
    assert statuses[-2:] == ["invalid", "passed"], statuses[-3:]
    assert "the rest of the file cannot be read: the" in ran.rows[-2]["error"]["message"]
    assert (ran.rows[-2]["file"], ran.rows[-1]["file"]) == (f"a.jsonl{ending}", "b.jsonl")
    assert ran.code == 3


def test_several_files_and_globs_are_read_in_order(run, world: Path) -> None:
    """Those of a glob are sorted; the results say the file, and count lines from 1 in each."""
    (world / "data").mkdir()
    for name in ("b", "a", "c"):
        (world / "data" / f"{name}.jsonl").write_bytes(f'"{name}1"\n\n"{name}2"\n'.encode())
    (world / "data" / "folder.jsonl").mkdir()
    (world / "z.csv").write_bytes(b"text\nz1\n")
    ran = run("run", "guards.py:guard", "-i", "z.csv", "-i", "data/*.jsonl")
    assert [(row["file"], row["line"], row["text"]) for row in ran.rows] == [
        ("z.csv", 1, "z1"),
        *[(f"data/{name}.jsonl", line, f"{name}{n}") for name in "abc" for n, line in ((1, 1), (2, 3))],
    ]
    assert list(ran.rows[0])[:3] == ["file", "line", "id"]
    assert "file" not in run("run", "guards.py:guard", "-i", "data/a*.jsonl").rows[0]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["-i", "none.jsonl"], "cannot read none.jsonl: No such file or directory"),
        (["-i", "a.jsonl", "-i", "none.jsonl"], "cannot read none.jsonl: No such file or directory"),
        (["-i", "folder"], "cannot read folder: it is a folder; name its files, for example 'folder/*.jsonl'"),
        (["-i", "*.gz"], "no file matches *.gz"),
        (["-i", "a.jsonl", "-i", "a.*"], "a.jsonl is given twice as input; give each file once"),
        (["-i", "wrong://x/y.jsonl"], "cannot read wrong://x/y.jsonl: fsspec does not support this kind of URL"),
        (["-i", "t.csv"], "t.csv has none of the columns text, messages, content, parts; it has 'body', 'n'; name the"),
        (["-i", "t.csv", "--text", "txt"], "t.csv has no column 'txt'; it has 'body', 'n'; name the one to check"),
        (["-i", "t.csv", "--stage", "process_tool_result"], "t.csv has no column 'result'; it has"),
        (["-i", "a.jsonl", "-i", "t.csv"], "t.csv has none of the columns"),
        (["-i", "twice.csv"], "twice.csv has several columns 'text'; rename all but one"),
        (["-i", "j.csv"], "j.csv looks like JSON lines, not like CSV: --input-format jsonl"),
        (["-i", "16.csv"], "iconv"),
    ],
)
def test_what_cannot_be_read_is_said_before_anything_runs(run, world: Path, argv, said) -> None:
    """In one line, with what to do."""
    (world / "a.jsonl").write_bytes(b'"a"\n')
    (world / "folder").mkdir()
    (world / "t.csv").write_bytes(b"body,n\nx,1\n")
    (world / "twice.csv").write_bytes(b"text,text\nx,1\n")
    (world / "j.csv").write_bytes(b'{"text": "a"}\n')
    (world / "16.csv").write_bytes("text\na\n".encode("utf-16"))
    ran = run("run", "guards.py:guard" if "--stage" not in argv else "guards.py:tools", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl", b"id,text\n1,x\n", "a.jsonl looks like CSV, not like JSON lines: --input-format csv"),
        (
            "a.jsonl",
            b"[\n  1\n]\n",
            "a.jsonl looks like one JSON document, not like one row a line: jq -c '.[]' a.jsonl",
        ),
        ("a.json", b'[{"text": "a"}, {"text": "b"}]', "a.json looks like one JSON document"),
        (
            "a.jsonl",
            b"Hello, world. How are you?\n",
            "a.jsonl looks like text, not like JSON lines: --input-format text",
        ),
        ("a.jsonl.gz", b'"a"\n', "a.jsonl.gz is not compressed with gzip; it is read as it is"),
        (
            "a.jsonl.zst",
            gzip.compress(b'"a"\n'),
            "a.jsonl.zst is compressed with gzip, which its name does not say",
        ),
        ("a.jsonl", GZIPPED, "a.jsonl is compressed with gzip, which its name does not say"),
        ("a.jsonl.gz", b"", "a.jsonl.gz is empty, not even an empty archive"),
        ("a.csv", b"id;text\n1;x\n", "the columns of a.csv are separated by ';', not by commas"),
        ("a.csv", b"text,n,n\nx,1,2\n", "a.csv has several columns called 'n'; the later ones are called 'n_2'"),
    ],
)
def test_a_file_that_is_not_what_was_expected_is_told_in_one_line(run, world: Path, name, data, said) -> None:
    """It is read all the same."""
    (world / name).write_bytes(data)
    err = run("run", "guards.py:guard", "-i", name).err
    assert err.startswith(f"penstock: {said}")
    assert err.count(said) == 1


@pytest.mark.parametrize(
    "row", ['{"text": "a, b"}', '[{"role": "user", "content": "x"}]', '"a, b"', '{"text": "' + "x " * 9_999 + '"}']
)
def test_a_file_that_is_as_expected_is_told_nothing_of(run, world: Path, row) -> None:
    """Also if its first line is long."""
    (world / "a.jsonl").write_text(f"{row}\n{row}\n")
    assert run("run", "guards.py:guard", "-i", "a.jsonl").err.startswith("penstock: 2 rows")


def test_urls_are_read_by_fsspec(run, lines) -> None:
    """Whatever file systems it knows; globs too."""
    fsspec = pytest.importorskip("fsspec")
    for name in ("a", "b"):
        with fsspec.open(f"memory://penstock-rows/{name}.jsonl.gz", "wb") as out:
            out.write(gzip.compress(lines(f"{name} {ADDRESS}")))
    one = run("run", "guards.py:guard", "-i", "memory://penstock-rows/a.jsonl.gz")
    assert [row["text"] for row in one.rows] == ["a [EMAIL]"]
    both = run("run", "guards.py:guard", "-i", "memory://penstock-rows/*.gz")
    assert [row["text"] for row in both.rows] == ["a [EMAIL]", "b [EMAIL]"]
    assert both.rows[1]["file"].endswith("/b.jsonl.gz")
    assert (
        "cannot read memory://penstock-rows/c.jsonl"
        in run("run", "guards.py:guard", "-i", "memory://penstock-rows/c.jsonl").err
    )


def test_an_extra_that_is_missing_is_named(run, world: Path, monkeypatch, lines) -> None:
    """Before anything runs."""
    import sys

    (world / "a.jsonl.zst").write_bytes(zstandard.compress(lines("a")))
    for module, name in (("zstandard", "a.jsonl.zst"), ("fsspec", "s3://bucket/a.jsonl")):
        monkeypatch.setitem(sys.modules, module, None)
        ran = run("run", "guards.py:guard", "-i", name)
        assert (ran.code, ran.out) == (2, "")
        assert "needs the extra 'data': pip install 'penstock[data]'" in ran.err


# CSV


def rows_of_csv(run, world: Path, data: bytes, *argv: str):
    """Run the guard on a file of these bytes."""
    (world / "rows.csv").write_bytes(data)
    return run("run", "guards.py:guard", "-i", "rows.csv", *argv)


def test_values_of_csv_are_strings_as_they_stand(run, world: Path) -> None:
    """With line breaks, quotes and delimiters within quotes; other columns are kept."""
    ran = rows_of_csv(run, world, b'\xef\xbb\xbfid,text,n,when\r\n007,"a ""b"",\nc",1.50,\r\n\r\n8, x\0 ,,"y"\r\n')
    assert [(row["line"], row["id"], row["text"], row["n"], row["when"]) for row in ran.rows] == [
        (1, "007", 'a "b",\nc', "1.50", ""),
        (2, "8", " x\0 ", "", "y"),
    ]


def test_a_bad_row_of_csv_costs_that_row(run, world: Path) -> None:
    """Too few or too many fields, bytes that are no UTF-8, a lone CR, a quote that is not closed."""
    data = b'id,text\n1,a\n2\n3,a,b\n4,\xff\n5,x\ry\n6,"b\n7,c\n'
    ran = rows_of_csv(run, world, data)
    assert [row["status"] for row in ran.rows] == ["passed", *["invalid"] * 5]
    assert [row["error"]["message"] for row in ran.rows[1:]] == [
        "it has 1 fields, and the header has 2",
        "it has 3 fields, and the header has 2",
        "it is not valid UTF-8, at byte 3 of the line",
        "it has a line break (CR) outside of quotes",
        "it ends within quotes: the file is not whole, or a quote is not closed",
    ]
    assert ran.code == 3


def test_a_row_of_csv_beyond_the_limit_costs_that_row(run, world: Path, monkeypatch) -> None:
    """On one line or on many, it is never held as a whole, and the rows behind it are read."""
    monkeypatch.setattr("penstock.workflows.rows.reading.MAX_LINE", 1000)
    long = b"x" * 3000
    many = b"\n".join([b'x ""y"", z'] * 500)
    data = b'id,text\n1,a\n2,"' + long + b'\n"\n3,b\n4,"' + many + b'"\n5,c\n6,' + long + b'\n7,"d"\n'
    ran = rows_of_csv(run, world, data)
    assert [(row["line"], row["status"], row["text"]) for row in ran.rows] == [
        (1, "passed", "a"),
        (2, "invalid", None),
        (3, "passed", "b"),
        (4, "invalid", None),
        (5, "passed", "c"),
        (6, "invalid", None),
        (7, "passed", "d"),
    ]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"text\n", b"text"])
def test_csv_without_rows_is_no_error(run, world: Path, data) -> None:
    """As an empty file of any format."""
    assert rows_of_csv(run, world, data)[:2] == (0, "")


def test_stdin_may_be_csv(run) -> None:
    """If it is said to be."""
    ran = run("run", "guards.py:guard", "-", "--input-format", "csv", stdin=b"text\nto ann@example.com\n")
    assert [row["text"] for row in ran.rows] == ["to [EMAIL]"]


def test_csv_gives_the_results_of_the_same_rows_as_jsonl(run, world: Path) -> None:
    """Whatever a text holds that CSV must quote."""
    import csv as python_csv
    import random

    source = random.Random(7)  # noqa: S311 - no secret
    texts = ["".join(source.choices("ab\", \n\r'\t;é\0", k=source.randrange(1, 12))) for _ in range(300)]
    with (world / "rows.csv").open("w", encoding="utf-8", newline="") as out:
        python_csv.writer(out).writerows([["id", "text"], *([str(n), text] for n, text in enumerate(texts))])
    (world / "rows.jsonl").write_text(
        "".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts))
    )
    one, other = (run("run", "guards.py:guard", "-i", f"rows.{end}", "--no-times").out for end in ("csv", "jsonl"))
    assert one == other


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_stdin_and_pipes_beside_other_files_are_read_whole(run, world: Path) -> None:
    """All inputs are looked at before the first row; what can be read only once is not opened again."""
    (world / "a.jsonl").write_bytes(b'"a"\n')
    os.mkfifo(world / "pipe.jsonl")
    writer = threading.Thread(target=(world / "pipe.jsonl").write_bytes, args=(b'"b"\n"c"\n',))
    writer.start()
    ran = run("run", "guards.py:guard", "-i", "a.jsonl", "-i", "pipe.jsonl", "-i", "-", stdin=b'"d"\n"e"\n')
    writer.join()
    rows = [(row["file"], row["line"], row["text"]) for row in ran.rows]
    pipe = "pipe.jsonl"
    assert rows == [("a.jsonl", 1, "a"), (pipe, 1, "b"), (pipe, 2, "c"), ("-", 1, "d"), ("-", 2, "e")]


def test_line_ends_of_old_macs_are_named_with_a_cure(run, world: Path) -> None:
    """A whole file would be one line."""
    (world / "rows.csv").write_bytes(b"text,id\ra,1\r")
    ran = run("run", "guards.py:guard", "-i", "rows.csv")
    assert ran.code == 2
    assert "its lines end with CR, not with LF: tr '\\r' '\\n' <rows.csv" in ran.err


@pytest.mark.parametrize("name", ["text", "a.b", "messages"])
def test_rows_that_share_a_long_value_are_read_a_few_at_a_time(
    world: Path, monkeypatch: pytest.MonkeyPatch, name
) -> None:
    """A dictionary holds the value once, so the size of the file says little about the size of its rows."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    long = "never the same " * 1000
    column = [[{"role": "user", "content": long}] * 2] * 500 if name == "messages" else [long] * 500
    parquet.write_table(pa.table({name: column, "n": range(500)}), world / "rows.parquet")
    sizes: list[int] = []
    plain = ParquetRows._values

    def seen(self: ParquetRows, batch: Any) -> Any:
        sizes.append(batch.nbytes)
        return plain(self, batch)

    monkeypatch.setattr(ParquetRows, "_values", seen)
    monkeypatch.setattr(parquet_rows, "BATCH_BYTES", 200_000)
    with (world / "rows.parquet").open("rb") as stream:
        rows = list(ParquetRows(stream, Columns(), None, "rows.parquet", as_json=True).raw_rows())
    assert [row.data["n"] for row in rows] == list(range(500))
    assert max(sizes) <= 200_000


def test_numbers_that_json_does_not_have_are_null(run, world: Path) -> None:
    """Python writes them, and other programs cannot read a result that has them."""
    numbers = ("NaN", "Infinity", "-Infinity", "1e999", "[1.5, NaN]", "-1e-999")
    lines = [f'{{"text": "NaN", "n": {number}}}\n' for number in numbers]
    (world / "rows.jsonl").write_text("".join(lines))
    ran = run("run", "guards.py:guard", "-i", "rows.jsonl")
    assert [(row["text"], row["n"]) for row in ran.rows] == [("NaN", n) for n in (*[None] * 4, [1.5, None], 0.0)]
    for line in ran.out.splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_a_number_alone_in_a_line_is_an_invalid_row(run, world: Path) -> None:
    """Also one that JSON does not have."""
    (world / "rows.jsonl").write_text('"a"\nNaN\n1e999\n')
    ran = run("run", "guards.py:guard", "-i", "rows.jsonl")
    assert [row["status"] for row in ran.rows] == ["passed", "invalid", "invalid"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(("name", "text"), [("a.jsonl", '{"text": "x"}\n'), ("a.csv", "text\nx\n"), ("a.txt", "ab\n")])
def test_what_is_no_utf_8_says_what_it_is(run, world: Path, name, text, encoding) -> None:
    """With its mark and without: once, with the command that makes UTF-8 of it."""
    (world / name).write_bytes(text.encode(encoding))
    ran = run("run", "guards.py:guard", "-i", name)
    said = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    cure = f"penstock: the input is {said}; save it as UTF-8, or pipe it through: iconv -f {said} -t UTF-8\n"
    assert (ran.code, ran.out, ran.err) == (2, "", cure)


@pytest.mark.parametrize(("inner", "outer"), [(".gz", ".gz"), (".zst", ".gz"), (".gz", ".zst")])
def test_what_is_compressed_twice_says_so(run, world: Path, inner, outer) -> None:
    """It is no text that is not UTF-8; the command that decompresses it once stands there."""
    data = compressed(b'"a"\n', inner)
    (world / f"a b.jsonl{outer}").write_bytes(compressed(data, outer))
    ran = run("run", "guards.py:guard", "-i", f"a b.jsonl{outer}")
    names = {".gz": "gzip", ".zst": "zstd"}
    assert (ran.code, ran.out) == (2, "")
    assert f"is compressed twice ({names[inner]} in {names[outer]})" in ran.err
    assert f"{names[outer]} -dc 'a b.jsonl{outer}' | penstock run" in ran.err
    assert [row["text"] for row in run("run", "guards.py:guard", "-", stdin=data).rows] == ["a"]


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_file_that_is_damaged_from_the_beginning_says_so(run, ending) -> None:
    """A glance at it does not change what is said."""
    data = bytearray(compressed(b"".join(b'"%d"\n' % number for number in range(5000)), ending))
    data[20:40] = bytes(20)
    assert "data are damaged" in run("run", "guards.py:guard", "-", stdin=bytes(data)).err
