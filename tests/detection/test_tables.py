"""Headers of columns explain every row of a table, in each format, whole and in pieces."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple, cast

import pytest

from penstock import PIIDetector, RegexFilterProcessor, TextGuard
from penstock.detection.patterns.matching import Finder
from penstock.detection.personal_data.detector import DEFAULT, PersonalData, _tables
from penstock.detection.places import tables
from penstock.engine.text_guards.window import Found, TextWindow
from tests.detection.patterns.test_windows_known import EVERY
from tests.detection.patterns.windows import cut, in_order, streamed
from tests.detection.personal_data.test_quiet import read_in_pieces
from tests.laws import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.processor.context import AnyContext

ALL = Finder([rule for rules in _tables().values() for rule in rules])
GUARDS: dict[str, TextGuard] = {
    "personal data": PIIDetector(),
    "presets": RegexFilterProcessor(presets=["pii", "secrets"], strategy="redact"),
}

LABELLED: dict[tuple[str, ...], tuple[str, ...]] = {
    (
        "dob",
        "birth_date",
        "Geburtsdatum",
        "fecha_nacimiento",
        "Born",
        "Date of birth",
        "né le",
        "生年月日",
        "dateOfBirth",
    ): (
        "1985-03-04",
        "14.05.1979",
        "02/11/1988",
        "3 March 1990",
    ),
    ("phone", "movil", "Telefon", "teléfono", "mobile_number", "Tel.", "电话"): (
        "612482739",
        "612 48 27 39",
        "404-555-0171",
        "(404) 555-0171",
        "+34 91 418 2739",
        "0171 4182739",
    ),
    ("ssn", "SSN"): ("536904399", "536-90-4399"),
    ("password", "passwort"): ("Tr0ub4dor3x!", "correct-horse-7"),
    ("アクセスキー", "токен доступа", "klucz tajny", "access code"): ("f3A9kQ2mZ7xW1pL8vB4nT6cR0yH5",),
    ("NI number", "National Insurance number"): ("AB654321D",),
    ("کد ملی",): ("0084575948",),
}
OTHERS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("name", "Nachname", "customer"): ("Brandt", "Lucía Ferrer", "O'Neill", "Duarte", ""),
    ("order_id", "ticket", "invoice"): ("5742838393", "4045550171", "6124827391"),
    ("size", "qty", "total"): ("12", "5284", "0.82", "918273"),
    ("note", "status"): ("open", "In Review", "two | three", "a, b; c", "line\nbreak", 'says "no"', "x" * 60, "-"),
}


class Table(NamedTuple):
    """A table, and where the cells of its labelled columns stand."""

    text: str
    planted: list[tuple[int, int]]


FORMATS = ("csv", "tsv", "semicolon", "markdown", "psql", "drawn", "html", "html lines", "quoted", "aligned")


def _plain(cell: str) -> str:
    return cell.replace("\n", " ").replace("|", "/").replace("\t", " ")


def _aligned(row: list[str], wide: list[int], index: int) -> list[str]:
    cells = [_plain(cell) if index else _plain(cell).upper() for cell in row]
    cells[0] = cells[0] or "-"
    padded = [part for cell, width in zip(cells, wide, strict=True) for part in (cell, " " * (width - len(cell) + 3))]
    return [*padded[:-1], "\n"]


def _lines(form: str, rows: list[list[str]]) -> Iterator[list[str]]:
    """Yield the lines of a table: its cells, between all that stands around them."""
    wide = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    edges = "-+-".join("-" * width for width in wide)
    for index, row in enumerate(rows):
        if form in ("csv", "semicolon", "tsv", "quoted"):
            sign = {"tsv": "\t", "semicolon": ";"}.get(form, ",")
            line: list[str] = []
            for cell in row:
                held = any(char in cell for char in '\n"' + sign) or form == "quoted"
                line += ['"' if held else "", cell.replace('"', '""') if held else cell, '"' if held else "", sign]
            yield [*line[:-1], "\n"]
        elif form == "aligned":
            yield _aligned(row, wide, index)
        elif form == "html":
            kind = "td" if index else "th"
            yield [
                "<tr>" if index else "<table><tr>",
                *(part for cell in row for part in (f"<{kind}>", cell, f"</{kind}>")),
            ]
            yield ["</tr>" if index < len(rows) - 1 else "</tr></table>\n"]
        elif form == "html lines":
            kind = "td" if index else "th"
            begin = "  <tr>\n" if index else "<table class='a'>\n <thead>\n  <tr>\n"
            yield [begin, *(part for cell in row for part in (f'    <{kind} class="x">', cell, f"</{kind}>\n"))]
            yield ["  </tr>\n" if index < len(rows) - 1 else "  </tr>\n</table>\n"]
        else:
            bar = "│" if form == "drawn" else "|"
            if form == "drawn" and not index:
                yield [f"+-{edges}-+\n"]
            outer = "" if form == "psql" else bar
            cells = [
                part
                for cell, width in zip(row, wide, strict=True)
                for part in (f" {bar} ", cell, " " * (width - len(cell)))
            ]
            yield [f"{outer} " if outer else " ", *cells[1:], f" {outer}\n"]
            if not index:
                yield [f"|{'|'.join('---' for _ in row)}|\n" if form == "markdown" else f"-{edges}-\n"]


def _table(drawn: random.Random, form: str) -> Table:
    kinds = [*drawn.sample([*LABELLED], k=drawn.randint(1, 3)), *drawn.sample([*OTHERS], k=drawn.randint(1, 3))]
    drawn.shuffle(kinds)
    values = [(LABELLED if kind in LABELLED else OTHERS)[kind] for kind in kinds]
    rows = [[drawn.choice(kind) for kind in kinds]]
    rows += [[drawn.choice(each) for each in values] for _ in range(drawn.randint(1, 7))]
    if form in ("tsv", "markdown", "psql", "drawn"):
        rows = [[_plain(cell) for cell in row] for row in rows]
    known = {value for kind, each in zip(kinds, values, strict=True) if kind in LABELLED for value in each}
    labels = {*rows[0]}
    text, planted = "", list[tuple[int, int]]()
    for line in _lines(form, rows):
        for part in line:
            if part in known and part not in labels:
                planted.append((len(text), len(text) + len(part)))
            text += part
    return Table(text, planted)


BEFORE = ("", "Here is the export:\n\n", "Dear Bob, see below.\nThanks\n", "Call me, phone, or mail\n", "```\n")
AFTER = (
    "",
    "\n",
    "(2 rows)\n",
    "```\nThat is all, thanks.\n",
    "\n| x | y |\n",
    "So it ends here, as you see\nand goes on\n",
)


def _document(drawn: random.Random, form: str) -> Table:
    text, planted = "", list[tuple[int, int]]()
    for _ in range(drawn.choice((1, 1, 2))):
        table = _table(drawn, form)
        text += drawn.choice(BEFORE)
        planted += [(low + len(text), high + len(text)) for low, high in table.planted]
        text += table.text + drawn.choice(AFTER)
        form = drawn.choice(FORMATS)
    return Table(text, planted)


def _pieces(text: str, drawn: random.Random) -> list[str]:
    most = drawn.choice((1, 3, 12, 40, 400))
    places: list[int] = []
    at = drawn.randint(1, most)
    while at < len(text):
        places.append(at)
        at += drawn.randint(1, most)
    return cut(text, *places)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_cells_of_a_labelled_column_are_found_and_nothing_else_is(form: str, seed: int) -> None:
    """Wherever the column stands, in every row, with delimiters and line breaks in quotes."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    for _ in range(8):
        table = _document(drawn, form)
        found = [(match.start, match.end) for match in ALL.find(table.text)]
        missed = [
            table.text[low:high] for low, high in table.planted if not any(a <= low and high <= b for a, b in found)
        ]
        assert missed == [], table.text
        others = [table.text[a:b] for a, b in found if not any(low <= a and b <= high for low, high in table.planted)]
        assert others == [], table.text


def _kinds(text: str, key: str = "") -> list[tuple[str, str]]:
    return [(ALL.rules[one.rule].name, text[one.start : one.end]) for one in sorted(ALL.find(text, key))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Name\tGeb.\tHandy\nBrandt\t19850304\t30283974\n", [("date-of-birth", "19850304"), ("phone", "30283974")]),
        ("||Name||Phone||Version||\n|Bob|612482739|2.41.0|\n", [("phone", "612482739")]),
        ("┃ Name ┃ Tel. ┃\n┡━━━━━━╇━━━━━━┩\n│ Bob  │ 30283974 │\n", [("phone", "30283974")]),
        ("<table><tr><th>Phone</th><td>612482739</td></tr></table>", [("phone", "612482739")]),
        (
            "<table><tr><td>Id</td><td>Mobile</td></tr><tr><td>61248273</td><td>612482739</td></tr>",
            [("phone", "612482739")],
        ),
        ("field,value\nphone,612482739\norder_id,612482739\n", [("phone", "612482739")]),
        ("card,visa\nphone,612482739\n", [("phone", "612482739")]),
        ("user,password\nbob,hunter2!x\nThat is it, folks\n", [("password", "hunter2!x")]),
        ("2FA,password\nyes,Tr0ub4dor3x\n", [("password", "Tr0ub4dor3x")]),
        (
            "1st phone,2nd phone,ssn\n612482739,612482740,536221234\n",
            [("phone", "612482739"), ("phone", "612482740"), ("ssn", "536221234")],
        ),
        (f"movil,x\n612482739,{'a' * 50}\n\n612482740,b\n", [("phone", "612482739")]),
    ],
)
def test_a_table_is_read_by_its_headers(text: str, found: list[tuple[str, str]]) -> None:
    """Each column by its own; a list of names and values is none; a blank line ends a table."""
    assert _kinds(text) == found


def test_rows_of_numbers_are_asked_for_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """No header is without a letter, so no cell of such a row is looked at as a label."""
    asked: list[str] = []
    label = tables._label

    def seen(cell: str) -> str | None:
        asked.append(cell)
        return label(cell)

    monkeypatch.setattr(tables, "_label", seen)
    rows = "".join(f"{at},{at * 7 % 1000},-{at % 13} %\n" for at in range(300))
    assert not PersonalData(DEFAULT).find(f"{rows}note,code,count\n{rows}")
    assert {"note", "code", "count"} == {*asked}


def test_a_table_in_the_value_of_a_key_has_headers_too() -> None:
    """As in the result of a tool that reads files."""
    assert _kinds("id,movil\n57428383,612482739\n57428384,612482740\n", "content") == [
        ("phone", "612482739"),
        ("phone", "612482740"),
    ]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("finder", [EVERY, pytest.param(ALL, marks=pytest.mark.rest)], ids=["presets", "personal data"])
@pytest.mark.parametrize("seed", seeds(range(6)))
def test_a_table_in_pieces_is_searched_as_the_whole_table(form: str, finder: Finder, seed: int) -> None:
    """Cut anywhere, within a header, a delimiter, quotes or a tag."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    for _ in range(3):
        text = _document(drawn, form).text
        text = text[: drawn.randint(0, len(text))] if drawn.random() < 0.3 else text
        assert in_order(streamed(finder, _pieces(text, drawn)).matches) == finder.find(text), text


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize("seed", seeds(range(4)))
def test_a_guard_reads_a_table_in_pieces_as_the_whole_table(form: str, name: str, seed: int) -> None:
    """Also where a glance at the text before the table has shown that it is quiet."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    for _ in range(2):
        text = " so it goes on" * drawn.choice((0, 2, 90)) + "\n" + _document(drawn, form).text
        found, _ = cast("tuple[Sequence[Found], int]", GUARDS[name].scan(TextWindow(text), cast("AnyContext", None)))
        assert read_in_pieces(GUARDS[name], _pieces(text, drawn)) == sorted((one.start, one.end) for one in found), text


def test_lines_of_code_are_no_table() -> None:
    """The parameters of a function are no header."""
    code = 'def test_bad(client, token):\n    assert client.get("/me", headers={"Authorization": f"Bearer {token}"})\n'
    assert PersonalData(DEFAULT).find(code) == []


ALIGNED = """\
NAME         PHONE        PASSWORD       AGE
Ann Lee      4045550171   Tr0ub4dor3x!   4d
Bob Stone                 <none>         41d
{}
4045550172 is an order, and so is 4045550173
Cy           4045550174   -              2d
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("An overlong name  4045550175   <none>   7d", ["4045550171", "Tr0ub4dor3x!", "4045550175"]),
        ("Done.", ["4045550171", "Tr0ub4dor3x!"]),
        ("", ["4045550171", "Tr0ub4dor3x!"]),
        ("NAME         ORDER_ID     SIZE           AGE", ["4045550171", "Tr0ub4dor3x!"]),
    ],
)
def test_columns_that_blanks_set_apart_hold_until_a_line_that_does_not_fit(line: str, found: list[str]) -> None:
    """A row with an overlong cell is one; prose, short lines and other headers end the table."""
    text = ALIGNED.format(line)
    assert [text[one.start : one.end] for one in PersonalData(DEFAULT).find(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "CALL  ME NOW\nAnn   4045550171\n",
        "PID        SIZE         %CPU\n4045550171 4045550172   1.2\n",
        "total 4294967\n-rw-r--r-- 1 ann staff 4045550199 Nov 28 10:12 dump.sql\n",
    ],
)
def test_words_in_capitals_or_between_blanks_alone_are_no_header(text: str) -> None:
    """Numbers below words that name no phone are none."""
    assert not PersonalData(DEFAULT).find(text)
