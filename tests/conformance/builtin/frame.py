"""How a recorded row is compared with ours; it knows no processor, and no family of vectors by name.

A family's module holds ``FAMILY``. Of each row: the family's `run` drives our implementation on what was *given* (it
never sees the expectation); both results go through the one projection of the row's method; then the row is

- *same*: equal to what the reference did, where no rule covers it;
- *better*: equal to what the rule expects instead, where one does (equalling the reference there is *differs*);
- *neutral*: nothing is left to compare once the internals of the reference are taken out;
- *missing*: nothing of ours ran to its end: no such family, method or processor, or a crash;
- *differs*: everything else; also an expectation that rules and projections cannot read.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

ORACLE = Path(__file__).parents[1] / "oracle" / "builtin"

Fields: TypeAlias = dict[str, Any]
"""What a row expects, or what we did, by the names of the vectors: ``text``, ``messages``, ``tripwire`` …"""

Projection: TypeAlias = Callable[[Fields], Fields]
"""Takes what is only spelling out of the fields. It takes any of them being absent, and is applied to both sides."""

Rule: TypeAlias = Callable[[Fields, Fields, Fields], Fields | None]
"""``(options, input, expected)`` to the right expectation, in the reference's shape; None where it covers nothing.

The options are complete. It is pure, has at most 25 lines, imports no processor, and its reason stands under its name
in docs/differences.md.
"""

VERDICTS = ("tripwire", "error")  # compared even where the expectation does not name them: not to block is a result
Kind = Literal["same", "better", "neutral", "differs", "missing"]


@dataclass(frozen=True)
class Given:
    """What our side gets to see of a row. The options are complete: the reference's defaults are filled in.

    ``example`` is the name of a row that shows a processor from the documents: only its name tells which that is.
    """

    options: Fields
    input: Fields
    engine: str = ""
    example: str = ""

    @property
    def method(self) -> str:
        """The entry point that was driven."""
        return str(self.input.get("method", ""))


@dataclass(frozen=True)
class Row:
    """A recorded row. Name and file are for the report only."""

    file: str
    name: str
    given: Given
    expected: Fields = field(repr=False)


Run: TypeAlias = Callable[[Given], Fields]
Complete: TypeAlias = Callable[[Fields], Fields]
Spelling: TypeAlias = Callable[[Fields, Fields], tuple[Fields, Fields]]
"""Takes ``input`` and ``expected`` as they were recorded to the one spelling that a family has of both."""


@dataclass(frozen=True)
class Family:
    """Vectors that are driven in the same way.

    Attributes:
        files: the names of its files, without ``.json``.
        run: drives our implementation; returns the fields that the vectors have, and ``tripwire`` or ``error`` where
            it ended in one. What it raises counts as missing.
        projections: one a method.
        rules: all that cover a row are, one after the other.
        neutral: why a field of a method is an internal of the reference that no user can see, by (method, field).
        defaults: the reference's defaults; a function where options are nested.
        invented: rows as others may have been recorded, made by hand.
        spelling: what is done to rows that were recorded in another way than the family has them.
    """

    files: tuple[str, ...]
    run: Run
    projections: Mapping[str, Projection]
    rules: tuple[Rule, ...] = ()
    neutral: Mapping[tuple[str, str], str] = field(default_factory=dict)
    defaults: Mapping[str, Any] | Complete = field(default_factory=dict)
    invented: Callable[[], Sequence[Row]] = tuple
    spelling: Spelling = lambda given, expected: (given, expected)

    def complete(self, options: Fields) -> Fields:
        """Return the options with the reference's defaults."""
        return self.defaults(options) if callable(self.defaults) else {**self.defaults, **options}

    def projected(self, method: str, fields: Fields) -> Fields:
        """Return the fields without what is only spelling, and without the internals."""
        seen = {name: value for name, value in fields.items() if (method, name) not in self.neutral}
        return self.projections[method](copy.deepcopy(seen))

    def covering(self, row: Row) -> tuple[str, Fields] | None:
        """Return the names of the rules that cover a row, and what they expect; None if the reference's will do.

        Each rule is given what the rules before it expect: a text may be better for two reasons.
        """
        names, expected = list[str](), row.expected
        for rule in self.rules:
            seen = copy.deepcopy((row.given.options, row.given.input, expected))
            if (new := rule(*seen)) is not None and new != expected:
                names.append(rule.__name__)
                expected = new
        return (" + ".join(names), expected) if names else None


@dataclass(frozen=True)
class Finding:
    """What came of one row."""

    file: str
    name: str
    kind: Kind
    rule: str = ""
    detail: str = ""
    neutral: int = 0
    expected: Any = field(default=None, repr=False)
    ours: Any = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.kind not in ("differs", "missing")


Play: TypeAlias = Callable[[Family, Row], Fields]
"""How our side is run. Honestly it is shown what was given; a saboteur (sabotage.py) may look at everything."""


def honest(family: Family, row: Row) -> Fields:
    """Run our implementation on what was given."""
    return family.run(copy.deepcopy(row.given))


def load(path: Path, family: Family | None = None) -> list[Row]:
    """Return the rows of a file."""
    rows = json.loads(path.read_text("utf-8"))
    if not isinstance(rows, list):
        return []
    return [_row(path.stem, row, family) for row in rows]


def _row(file: str, row: Fields, family: Family | None) -> Row:
    """Return a row as it was recorded; one that says nothing, or nothing that can be read, is a row all the same."""
    fields: Fields = row if isinstance(row, dict) else {}
    name, engine = str(fields.get("name", "")), str(fields.get("engine", ""))
    options, given, expected = (_object(fields.get(key)) for key in ("options", "input", "expected"))
    if family is not None:
        try:
            (given, expected), options = family.spelling(given, expected), family.complete(options)
        except Exception as error:  # noqa: BLE001 - what is recorded elsewhere may be of any shape
            given = {"method": f"{given.get('method', '')}, which cannot be read ({type(error).__name__})"}
    return Row(file, name, Given(options, given, engine, name if "documented example" in engine else ""), expected)


def _object(value: Any) -> Fields:
    """Return an object; nothing, if it is none."""
    return value if isinstance(value, dict) else {}


def judge(family: Family | None, row: Row, play: Play = honest) -> Finding:
    """Return what comes of a row."""
    if family is None or row.given.method not in family.projections:
        what = f"no method {row.given.method!r}" if family is not None else "no module serves this file"
        return Finding(row.file, row.name, "missing", detail=what)
    kind: Kind = "missing"
    try:
        fields = play(family, row)
        kind = "differs"  # it ran: what cannot be compared with the expectation is not what is expected
        return compare(family, row, fields)
    except Exception as error:  # noqa: BLE001 - whatever a broken implementation does is a finding
        return Finding(row.file, row.name, kind, detail=f"{type(error).__name__}: {error}")


def compare(family: Family, row: Row, fields: Fields) -> Finding:
    """Compare what we did with what is right."""
    method = row.given.method
    theirs = family.projected(method, row.expected)
    covered = family.covering(row)
    right = theirs if covered is None else family.projected(method, covered[1])
    if right == theirs:
        covered = None  # a rule that expects what the reference did does not differ from it there
    neutral = sum((method, name) in family.neutral for name in row.expected)
    found = Finding(row.file, row.name, "neutral", rule=covered[0] if covered else "", neutral=neutral)
    if not right and neutral:
        return found
    mine = family.projected(
        method, {name: fields[name] for name in (*row.expected, *VERDICTS, *_new(covered, row)) if name in fields}
    )
    mine = {name: value for name, value in mine.items() if name in right or name in VERDICTS}
    equal = mine == right and bool(right)
    kind: Kind = "differs" if not equal else "better" if covered else "same"
    return replace(found, kind=kind, expected=right, ours=mine)


def _new(covered: tuple[str, Fields] | None, row: Row) -> list[str]:
    """Return the names of the fields that only a rule expects."""
    return [name for name in covered[1] if name not in row.expected] if covered else []


def planted(family: Family, rows: Sequence[Row], findings: Sequence[Finding]) -> Iterator[Row]:
    """Yield one row that is the same as the reference's, with an expectation that is false for it.

    Whoever meets it does not compute results but repeats expectations.
    """
    for row, finding in zip(rows, findings, strict=True):
        if finding.kind != "same":
            continue
        for other in rows:
            if other.given.method != row.given.method:
                continue
            false = replace(row, name=f"{row.name} (planted)", expected=other.expected)
            if _is_uncovered(family, false) and _reads_otherwise(family, false, finding.expected):
                yield false
                return
        false_verdict = {"error": "planted"} if "error" not in row.expected else {"tripwire": {"reason": "planted"}}
        yield replace(row, name=f"{row.name} (planted)", expected=false_verdict)
        return


def _is_uncovered(family: Family, row: Row) -> bool:
    """Tell whether no rule covers a row whose expectation is another row's; a rule may break on such a row."""
    try:
        return family.covering(row) is None
    except Exception:  # noqa: BLE001 - a rule may expect that what is given and what is expected belong together
        return False


def _reads_otherwise(family: Family, row: Row, expected: Any) -> bool:
    """Tell whether what a row expects, if it can be read, is something else."""
    try:
        return family.projected(row.given.method, row.expected) != expected
    except Exception:  # noqa: BLE001 - a projection may expect what another row does not have
        return False


def judge_rows(family: Family | None, rows: Sequence[Row], play: Play = honest) -> list[Finding]:
    """Return what comes of the rows of a file, and of one false row that must not be met."""
    findings = [judge(family, row, play) for row in rows]
    if family is None:
        return findings
    met = [row for row in planted(family, rows, findings) if judge(family, row, play).kind == "same"]
    return findings + [Finding(row.file, row.name, "differs", detail="a false expectation was met") for row in met]
