"""Personal data: what stands where, by type, against the labelled spans; false finds in ordinary texts; speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs, finders as plugged
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate, Finder, line_up, reader
from benchmarks.quality.rows import Data, DataSet, Row, pooled
from benchmarks.quality.speed import speed
from benchmarks.quality.tables import Figures, Line, Section, Table
from penstock.detection.spans import Span
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.figures import Counts, Interval, interval, matches, mean

CANDIDATES = (
    Candidate(OURS, "ours", maker="personal"),
    Candidate(FLOOR, "plain_patterns"),
    Candidate("presidio", "presidio", "presidio-analyzer"),
    Candidate("scrubadub", "scrubadub_", "scrubadub"),
)
GOAL_TYPES = ("email", "phone", "credit-card", "ssn", "iban", "ip-address", "url")
"""The types of the macro F1."""
RECALL_TYPES = ("email", "credit-card", "iban", "ip-address")
"""The types whose recall over all sets has a goal."""
FALSE_TYPES = ("phone", "credit-card", "ssn", "iban", "crypto-wallet")
"""The types whose finds in ordinary texts are counted as false."""
LONG, LONG_SIZE, LONG_TEXTS = "documents of 100,000 characters", 100_000, 5
PIECES = (20, 40, 80, 160, 320, 640, 1_280, 2_560)
"""The lengths at which the speed is measured, in characters: from a word or two to a page."""
TYPES: Mapping[str, str] = {
    **{kind: kind for kind in (*GOAL_TYPES, "crypto-wallet", "mac", "uuid", "api-key", "date-of-birth")},
    "card": "credit-card",
    "crypto": "crypto-wallet",
    "dob": "date-of-birth",
    "email-address": "email",
    "iban-code": "iban",
    "ip": "ip-address",
    "mac-address": "mac",
    "phone-number": "phone",
    "us-ssn": "ssn",
}
"""The types of the data, and what we call them; a type that is not here is not scored."""

ByType = dict[str, Counts]


@dataclass(frozen=True, slots=True)
class Read:
    """What one contestant found in one set.

    Attributes:
        partly: whether the set labels only some of what is there.
        texts: how often each type was right in each text.
        complete: the same, of the texts whose rows speak of every type.
    """

    partly: bool
    texts: Sequence[ByType]
    complete: Sequence[ByType]

    @property
    def by_type(self) -> ByType:
        """How often each type was right in all texts."""
        return _sum(self.texts)


def type_of(label: str) -> str | None:
    """Return our name for a type of the data; None if there is none."""
    return TYPES.get(label.lower().replace("_", "-"))


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of every contestant over the sets with spans."""
    section = Section("personal")
    sets = data.where(lambda row: row.spans is not None)
    if not sets:
        section.notes.append("No row has spans: personal data is not measured.")
        return section
    there = line_up(CANDIDATES, section.notes, peers=peers)
    finders: dict[str, Finder] = {name: cast("Finder", each) for name, each in there.items()}
    finders |= plugged(plugs, TYPES.values())
    read = {name: {each.name: read_set(finder, each) for each in sets} for name, finder in finders.items()}
    section.tables += [_by_set(sets, read), *_pooled(read), _false(data, finders), _speeds(data, sets, finders)]
    section.notes += _unscored(sets)
    if OURS in finders:
        section.measured.update(_measured(section.tables, read[OURS]))
        section.intervals.update(_intervals(read[OURS].values()))
    return section


def read_set(finder: Finder, dataset: DataSet) -> Read:
    """Compare what is found with what is labelled, type by type."""
    counted = [(row, matches(*_asked(finder, row))) for row in dataset.rows]
    complete = [each for row, each in counted if pools.speaks_of_all(row)]
    return Read(pools.is_partly_labelled(dataset), [each for _, each in counted], complete)


def _asked(finder: Finder, row: Row) -> tuple[list[Span], list[Span]]:
    """Return what is found and what is labelled, of the types that the row speaks of."""
    found = list(finder.find(row.text))
    labelled = [span._replace(type=kind) for span in row.spans or () if (kind := type_of(span.type))]
    if row.target is None:
        return found, labelled
    target = type_of(row.target)
    return [span for span in found if span.type == target], [span for span in labelled if span.type == target]


def _add(total: ByType, counted: Mapping[str, Counts]) -> None:
    for kind, counts in counted.items():
        total[kind] = total.get(kind, Counts()) + counts


def _by_set(sets: Iterable[DataSet], read: Mapping[str, Mapping[str, Read]]) -> Table:
    """Return the figures of each set and each type that it labels."""
    table = Table("Personal data, by set and type", ("P", "R", "F1"))
    for dataset in sets:
        results = {name: by_set[dataset.name] for name, by_set in read.items()}
        for kind in _labelled(result.by_type for result in results.values()):
            counts = {name: result.by_type.get(kind, Counts()) for name, result in results.items()}
            partly = {name: result.partly for name, result in results.items()}
            figures = {name: _figures(each, partly=partly[name]) for name, each in counts.items()}
            table.lines.append(Line(dataset.name, kind, _size(counts), figures))
    return table


def _labelled(by_types: Iterable[ByType]) -> list[str]:
    """Return the types of which something is labelled."""
    return sorted({kind for by_type in by_types for kind, counts in by_type.items() if counts.labelled})


def _size(counts: Mapping[str, Counts]) -> int:
    return max((each.labelled for each in counts.values()), default=0)


def _figures(counts: Counts, *, partly: bool = False) -> Figures:
    return (None, counts.recall, None) if partly else (counts.precision, counts.recall, counts.f1)


def _pooled(read: Mapping[str, Mapping[str, Read]]) -> list[Table]:
    """Return the sets that label everything as one, and the recall over all sets."""
    full = {
        name: _sum(text for each in sets.values() if not each.partly for text in each.complete)
        for name, sets in read.items()
    }
    every = {name: _sum(each.by_type for each in sets.values()) for name, sets in read.items()}
    table = Table("Personal data, sets that label every type, as one", ("P", "R", "F1"), _lines(full, "fully labelled"))
    macro = {name: (None, None, macro_f1(by_type)) for name, by_type in full.items()}
    micro = {name: _figures(_whole(by_type, GOAL_TYPES)) for name, by_type in full.items()}
    size = max((_whole(by_type, GOAL_TYPES).labelled for by_type in full.values()), default=0)
    table.lines.append(Line("fully labelled", "macro of 7", size, macro))
    table.lines.append(Line("fully labelled", "micro of 7", size, micro))
    recalls = Table("Personal data, all sets as one", ("R",))
    recalls.lines += [
        Line(line.data, line.of, line.size, {name: figures[1:2] for name, figures in line.figures.items()})
        for line in _lines(every, "all sets")
    ]
    four = {name: _whole(by_type, RECALL_TYPES) for name, by_type in every.items()}
    recalls.lines.append(
        Line("all sets", "the four", _size(four), {name: (each.recall,) for name, each in four.items()})
    )
    return [table, recalls]


def macro_f1(by_type: Mapping[str, Counts], types: Sequence[str] = GOAL_TYPES) -> float | None:
    """Return the mean F1 of the types of which something is labelled; a type that nobody finds counts nought."""
    return mean(counts.f1 for kind, counts in by_type.items() if kind in types and counts.labelled)


def _sum(by_types: Iterable[ByType]) -> ByType:
    total: ByType = {}
    for by_type in by_types:
        _add(total, by_type)
    return total


def _whole(by_type: Mapping[str, Counts], types: Iterable[str]) -> Counts:
    return sum((by_type.get(kind, Counts()) for kind in types), Counts())


def _lines(read: Mapping[str, ByType], data: str) -> list[Line]:
    lines: list[Line] = []
    for kind in _labelled(read.values()):
        counts = {name: by_type.get(kind, Counts()) for name, by_type in read.items()}
        lines.append(Line(data, kind, _size(counts), {name: _figures(each) for name, each in counts.items()}))
    return lines


def _false(data: Data, finders: Mapping[str, Finder]) -> Table:
    """Return how much is found in ordinary prompts and answers, where hardly anything is."""
    table = Table("Finds in ordinary prompts and answers, in 100,000 characters", ("finds",))
    texts = ordinary(data)
    if not texts:
        return table
    size = sum(map(len, texts))
    found = {name: Counter(span.type for text in texts for span in each.find(text)) for name, each in finders.items()}
    for kind in sorted({kind for counts in found.values() for kind in counts}):
        figures = {name: (counts[kind] * 1e5 / size,) for name, counts in found.items()}
        table.lines.append(Line("prompts, answers", kind, len(texts), figures))
    goal = {name: (sum(counts[kind] for kind in FALSE_TYPES) * 1e5 / size,) for name, counts in found.items()}
    table.lines.append(Line("prompts, answers", "numbers and wallets", len(texts), goal))
    return table


def ordinary(data: Data) -> list[str]:
    """Return benign prompts and clean answers."""
    return [row.text for row in pooled((*pools.benign_prompts(data), *pools.answers(data)))]


def _speeds(data: Data, sets: Iterable[DataSet], finders: Mapping[str, Finder]) -> Table:
    table = Table("Speed, all types", ("texts/s", "MB/s"))
    usual = ordinary(data)
    for name, texts in (
        ("labelled sentences", [row.text for row in pooled(sets)]),
        ("prompts, answers", usual),
        (LONG, pieces(usual, LONG_SIZE)[:LONG_TEXTS]),
        *((f"prompts, answers, in pieces of {size:,}", pieces(usual, size)) for size in PIECES),
    ):
        figures = {name: speed(reader(finder), texts) or (None, None) for name, finder in finders.items()}
        table.lines.append(Line(name, "", len(texts), figures))
    return table


def pieces(texts: Iterable[str], size: int) -> list[str]:
    """Return the texts, joined, in pieces of so many characters; what is left behind the last one is left out."""
    whole = "\n\n".join(texts)
    return [whole[end - size : end] for end in range(size, len(whole) + 1, size)]


def _unscored(sets: Iterable[DataSet]) -> list[str]:
    """Say which labelled types nobody is measured by."""
    unknown = Counter(span.type for row in pooled(sets) for span in row.spans or () if type_of(span.type) is None)
    if not unknown:
        return []
    listed = ", ".join(f"{kind} ({count})" for kind, count in unknown.most_common())
    return [f"Labelled, but of no type that is found without a model, so not scored: {listed}."]


def _measured(tables: Sequence[Table], read: Mapping[str, Read]) -> dict[str, float | None]:
    """Return our figures that there are goals for."""
    ours = {(line.data, line.of): line.figures.get(OURS, ()) for table in tables[1:] for line in table.lines}
    recalls = [each.recall for kind, each in _sum(one.by_type for one in read.values()).items() if kind in RECALL_TYPES]
    return {
        "personal.f1": _last(ours, "fully labelled", "macro of 7"),
        "personal.phone": _last(ours, "fully labelled", "phone"),
        "personal.recall": _last(ours, "all sets", "the four"),
        "personal.least": min((each for each in recalls if each is not None), default=None),
        "personal.false": _last(ours, "prompts, answers", "numbers and wallets"),
        "personal.speed": _last(ours, "labelled sentences", ""),
        "personal.prose": _last(ours, "prompts, answers", ""),
        "personal.long": _last(ours, LONG, ""),
    }


def _intervals(read: Iterable[Read]) -> dict[str, Interval | None]:
    """Return how certain our figures are."""
    every = [*read]
    full = [text for each in every if not each.partly for text in each.complete]
    texts = [text for each in every for text in each.texts]
    return {
        "personal.f1": interval(lambda heaps: macro_f1(_sum(heaps[0])), full),
        "personal.phone": interval(lambda heaps: _sum(heaps[0]).get("phone", Counts()).f1, full),
        "personal.recall": interval(lambda heaps: _whole(_sum(heaps[0]), RECALL_TYPES).recall, texts),
        "personal.least": interval(_least, texts),
    }


def _least(heaps: Sequence[Sequence[ByType]]) -> float | None:
    total = _sum(heaps[0])
    recalls = [total[kind].recall for kind in RECALL_TYPES if kind in total]
    return min((each for each in recalls if each is not None), default=None)


def _last(figures: Mapping[tuple[str, str], Figures], data: str, of: str) -> float | None:
    """Return the last measure of a line; None if there is no such line."""
    return figures.get((data, of), (None,))[-1]
