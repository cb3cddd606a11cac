"""Language: how often each language is recognised, and what is not known, set by set; speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs, scorers as plugged
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate, Identifier, line_up
from benchmarks.quality.rows import Data, DataSet, Row, pooled
from benchmarks.quality.speed import speed
from benchmarks.quality.tables import Line, Section, Table
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.figures import Counts, Interval, interval, macro_accuracy, share

CANDIDATES = (
    Candidate(OURS, "ours", maker="language"),
    Candidate(FLOOR, "scripts"),
    Candidate("py3langid", "open_py3langid", "py3langid"),
    Candidate("langdetect", "langdetect_", "langdetect"),
    Candidate("lingua, fast", "lingua_", "lingua-language-detector"),
)
RESTRICTED = "penstock, told"
"""Ours, when it is told which languages occur: what the goals are about."""
MOST_SPOKEN = frozenset(
    "ar bn de el en es fa fr hi hu id it ja ko mr nl pl pt ro ru sw ta te th tl tr uk ur vi zh".split()  # noqa: SIM905 - thirty lines say no more
)
"""Thirty languages of many speakers. The goals do not say which thirty they mean; with these, py3langid restricted to
them gets .993, which is what the goals' source tells of it. With the thirty of which the Web has most, it gets .987."""
MACRO: Mapping[str, str] = {
    "nb": "no",
    "nn": "no",
    "ms": "id",
    "bs": "sh",
    "hr": "sh",
    "sr": "sh",
}
"""Languages that are compared as one: their written forms are mutually intelligible and short texts fit several."""
SHOWN_WORST = 8
SHORT, ENOUGH = 20, 30
"""Texts of fewer characters are short; the least number of texts that says something."""
FEW = 3
"""How many of the thirty a set may lack."""
GOALS = {"tatoeba": "tatoeba", "xquad": "xquad", "pud": "pud"}
"""The part of a set's name, and the goal about it."""


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of every contestant over the sets with languages."""
    section = Section("language")
    sets = pools.multilingual(data)
    if not sets:
        section.notes.append("No row tells its language: languages are not measured.")
        return section
    there = line_up(CANDIDATES, section.notes, peers=peers)
    there |= plugged(plugs, {row.lang or "" for row in pooled(sets)})
    identifiers = {name: Read(cast("Identifier", each)) for name, each in there.items()}
    accuracy = Table("Language, by set", ("macro accuracy", "macro-languages", "not known"))
    worst = Table(f"Language, the {SHOWN_WORST} that we recognise least", ("recall",))
    for dataset in sets:
        accuracy.lines += _accuracies(dataset, identifiers)
        worst.lines += _worst(dataset, identifiers)
    short = _short(sets, identifiers)
    section.tables += [accuracy, short, worst, _english(data, sets, identifiers), _speeds(sets, identifiers)]
    section.measured.update(_measured(accuracy))
    section.measured["language.short"] = next(
        (line.figures[RESTRICTED][2] for line in short.lines if "tatoeba" in line.data), None
    )
    section.intervals.update(_intervals(sets))
    return section


def _short(sets: Iterable[DataSet], identifiers: Mapping[str, Read]) -> Table:
    """Return how often short texts are recognised, and how often that, or that nothing is known, is right."""
    table = Table(f"Language, texts under {SHORT} characters", ("accuracy", "not known", "right or not known"))
    for dataset in sets:
        rows = [row for row in dataset.rows if len(row.text) < SHORT]
        if len(rows) >= ENOUGH and OURS in identifiers:
            guesses = _all_guesses(rows, {row.lang or "" for row in dataset.rows}, identifiers)
            table.lines.append(Line(dataset.name, "", len(rows), {who: _said(each) for who, each in guesses.items()}))
    return table


def _said(guesses: Guesses) -> tuple[float | None, ...]:
    right = sum(guess is not None and macro(guess) == macro(lang) for lang, guess in guesses)
    unknown = sum(guess is None for _, guess in guesses)
    return share(right, len(guesses)), share(unknown, len(guesses)), share(right + unknown, len(guesses))


def _intervals(sets: Iterable[DataSet]) -> dict[str, Interval | None]:
    """Return how certain our figures are."""
    found: dict[str, Interval | None] = {}
    for dataset in sets:
        guesses = _told(dataset.rows, {row.lang or "" for row in dataset.rows})
        for part, goal in GOALS.items():
            if part in dataset.name:
                found[f"language.{goal}"] = interval(lambda heaps: macro_accuracy(recalls(heaps[0])), guesses)
                if part == "tatoeba":
                    found["language.macro"] = interval(lambda heaps: macro_accuracy(recalls(heaps[0], macro)), guesses)
    return found


Guesses = list[tuple[str, "str | None"]]


class Read:
    """An identifier that reads each text once."""

    def __init__(self, identifier: Identifier) -> None:
        self.fresh = identifier.identify
        self._read: dict[str, str | None] = {}

    def identify(self, text: str) -> str | None:
        """Return its guess."""
        if text not in self._read:
            self._read[text] = self.fresh(text)
        return self._read[text]


def _guesses(identifier: Identifier | Read, rows: Iterable[Row]) -> Guesses:
    """Return each row's language and the guess."""
    return [(row.lang or "", identifier.identify(row.text)) for row in rows]


def _told(rows: Iterable[Row], languages: Iterable[str]) -> Guesses:
    """Return the guesses of ours when it knows which languages there are."""
    from benchmarks.quality.contestants.ours import language_among

    return _guesses(language_among(sorted(languages)), rows)


def recalls(guesses: Iterable[tuple[str, str | None]], same: Callable[[str], str] = str) -> dict[str, Counts]:
    """Return for each language how often it was recognised; what is not known counts as missed.

    Args:
        guesses: what it is, and the guess.
        same: brings languages that are compared as one under one name.
    """
    counted: defaultdict[str, Counts] = defaultdict(Counts)
    for lang, guess in guesses:
        right = guess is not None and same(guess) == same(lang)
        counted[lang] += Counts(right=right, missed=not right)
    return dict(counted)


def macro(code: str) -> str:
    """Return the macro-language of a code."""
    return MACRO.get(code, code)


def _accuracies(dataset: DataSet, identifiers: Mapping[str, Read]) -> list[Line]:
    present = frozenset(row.lang or "" for row in dataset.rows)
    most = present & MOST_SPOKEN
    kinds = [(f"{len(present)} languages", present)]
    if len(MOST_SPOKEN) - len(most) <= FEW and len(present) > len(MOST_SPOKEN):
        kinds.append((f"{len(most)} most spoken", most))
    lines: list[Line] = []
    for name, wanted in kinds:
        rows = [row for row in dataset.rows if row.lang in wanted]
        guesses = _all_guesses(rows, wanted, identifiers)
        lines.append(Line(dataset.name, name, len(rows), {who: _three(pairs) for who, pairs in guesses.items()}))
    return lines


def _all_guesses(rows: Sequence[Row], languages: Iterable[str], identifiers: Mapping[str, Read]) -> dict[str, Guesses]:
    guesses = {who: _guesses(each, rows) for who, each in identifiers.items()}
    if OURS in identifiers:
        guesses[RESTRICTED] = _told(rows, languages)
    return guesses


def _three(guesses: Guesses) -> tuple[float | None, ...]:
    unknown = share(sum(guess is None for _, guess in guesses), len(guesses))
    return (macro_accuracy(recalls(guesses)), macro_accuracy(recalls(guesses, macro)), unknown)


def _worst(dataset: DataSet, identifiers: Mapping[str, Read]) -> list[Line]:
    """Return the languages that ours recognises least, where any is missed."""
    if OURS not in identifiers:
        return []
    guesses = _all_guesses(dataset.rows, {row.lang or "" for row in dataset.rows}, identifiers)
    by_who = {who: recalls(pairs) for who, pairs in guesses.items()}
    ranked = sorted(by_who[RESTRICTED].items(), key=lambda each: (each[1].recall or 0.0, each[0]))
    return [
        Line(dataset.name, lang, counts.labelled, {who: (found[lang].recall,) for who, found in by_who.items()})
        for lang, counts in ranked[:SHOWN_WORST]
        if counts.missed
    ]


def _english(data: Data, sets: Iterable[DataSet], identifiers: Mapping[str, Read]) -> Table:
    """Return how often English is refused where only English is let in, and the reverse."""
    rows = pooled(sets)
    table = Table('The gate "English only"', ("wrong",))
    kinds: list[tuple[str, list[Row], Callable[[str | None], bool]]] = [
        ("English taken for another", [row for row in rows if row.lang == "en"], lambda code: code not in {"en", None}),
        ("others taken for English", [row for row in rows if row.lang != "en"], lambda code: code == "en"),
        ("prompts taken for another", pooled(pools.benign_prompts(data)), lambda code: code not in {"en", None}),
    ]
    for name, chosen, wrong in kinds:
        if chosen:
            figures = {
                who: (share(sum(wrong(each.identify(row.text)) for row in chosen), len(chosen)),)
                for who, each in identifiers.items()
            }
            table.lines.append(Line(name, "", len(chosen), figures))
    return table


def _speeds(sets: Iterable[DataSet], identifiers: Mapping[str, Read]) -> Table:
    table = Table("Speed", ("texts/s", "MB/s"))
    for dataset in sets:
        texts = [row.text for row in dataset.rows]
        figures = {who: speed(each.fresh, texts) or (None, None) for who, each in identifiers.items()}
        table.lines.append(Line(dataset.name, "", len(texts), figures))
    return table


def _measured(table: Table) -> dict[str, float | None]:
    """Return our figures that there are goals for: ours when told the languages."""
    measured: dict[str, float | None] = {}
    for line in table.lines:
        figure = line.figures.get(RESTRICTED, (None,))[0]
        for part, goal in GOALS.items():
            if part in line.data and "most spoken" not in line.of:
                measured[f"language.{goal}"] = figure
        if "tatoeba" in line.data:
            if "most spoken" in line.of:
                measured["language.top"] = figure
            else:
                measured["language.macro"] = line.figures.get(RESTRICTED, (None, None))[1]
    return measured
