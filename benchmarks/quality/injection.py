"""Prompt injection: attacks against what people ordinarily ask, by set and pooled; benign texts that are flagged."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs, scorers as plugged
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate
from benchmarks.quality.rows import Data, DataSet, Row, pooled
from benchmarks.quality.scored import RANKED, Readings, figure, readings
from benchmarks.quality.tables import Line, Section, Table
from penstock.engine.values.frozen import EMPTY

CANDIDATES = (
    Candidate(OURS, "ours", maker="injection"),
    Candidate(FLOOR, "phrases"),
)
POOLED = "all attacks"
ENOUGH = 30
"""The texts of a language from which on its share says something."""


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of every contestant over the rows that say whether they are an attack."""
    section = Section("injection")
    if not data.where(lambda row: row.flag("injection") is not None):
        section.notes.append("No row says whether it is an injection: injections are not measured.")
        return section
    scored = readings(CANDIDATES, section.notes, plugged(plugs, ("injection", "any")), peers=peers)
    section.tables += [
        _ranked(data, scored),
        benign := _benign(data, scored),
        by_language := _by_language(data, scored),
        _apart(data, scored),
        scored.speeds([("attacks", pooled(pools.attacks(data))), ("benign pool", pooled(pools.harmless(data)))]),
    ]
    section.notes.append(
        "LLM Guard's scanner and its like download a model, so they are not measured. The pool: attacks of every set "
        f"but {', '.join(pools.NO_POSITIVES + pools.APART)}; benign texts of every set but "
        f"{', '.join(pools.NO_NEGATIVES + pools.APART)}."
    )
    for at, key in ((0, "auc"), (3, "recall"), (4, "flagged")):
        section.measured[f"injection.{key}"] = figure(section.tables, OURS, POOLED, "", at)
    for key, name in (("notinject", "NotInject"), ("multilingual", "multilingual"), ("act_as", "act-as personas")):
        section.measured[f"injection.{key}"] = figure([benign], OURS, name, "")
    untouched = [*(each.name for each in pools.multilingual(data)), "clean answers"]
    section.measured["injection.untouched"] = _most([line for line in benign.lines if line.data in untouched])
    section.measured["injection.language"] = _most(by_language.lines)
    if OURS in scored.scorers:
        sure = scored.intervals(OURS, pooled(pools.attacks(data)), pooled(pools.harmless(data)), "injection")
        section.intervals |= {f"injection.{key}": each for key, each in sure.items()}
    return section


def _most(lines: Iterable[Line]) -> float | None:
    shares = [line.figures[OURS][0] for line in lines if OURS in line.figures]
    return max((each for each in shares if each is not None), default=None)


def _by_language(data: Data, scored: Readings) -> Table:
    """Return how many harmless texts of each language are flagged; of languages with `ENOUGH` texts."""
    table = Table("Benign texts that are flagged, by language", ("share",))
    for dataset in pools.multilingual(data):
        spoken: dict[str, list[Row]] = {}
        for row in dataset.rows:
            spoken.setdefault(row.lang or "", []).append(row)
        table.lines += [
            scored.shares(dataset.name, lang, rows) for lang, rows in sorted(spoken.items()) if len(rows) >= ENOUGH
        ]
    return table


def _ranked(data: Data, scored: Readings) -> Table:
    """Return each set's attacks, and all of them, against the benign pool."""
    table = Table("Prompt injection, attacks against the benign pool", RANKED)
    attacks, harmless = pools.attacks(data), pooled(pools.harmless(data))
    table.lines.append(scored.ranked(POOLED, "", pooled(attacks), harmless))
    table.lines += [scored.ranked(each.name, "", each.rows, harmless) for each in attacks]
    return table


def _benign(data: Data, scored: Readings) -> Table:
    """Return how many benign texts are flagged at the default threshold."""
    table = Table("Benign texts that are flagged", ("share",))
    notinject = [row for each in pools.named(data, "notinject") for row in each.rows if row.flag("injection") is False]
    kinds = [
        ("act-as personas", pooled(pools.personas(data))),
        ("NotInject", notinject),
        ("ordinary prompts", pooled(pools.benign_prompts(data))),
        ("clean answers", pooled(pools.answers(data))),
        ("multilingual", pooled(pools.multilingual(data))),
        ("with personal data", pooled(data.where(lambda row: row.spans is not None))),
        ("with keys, or nearly", pooled(data.where(lambda row: row.flag("secret") is not None))),
        ("clean e-mails", [row for row in pooled(_set_apart(data)) if row.flag("injection") is False]),
    ]
    kinds += [(each.name, list(each.rows)) for each in pools.multilingual(data)]
    kinds += [(each.name, list(each.rows)) for each in pools.harmless(data) if each.name.startswith("inj_")]
    table.lines += [scored.shares(name, "", rows) for name, rows in kinds if rows]
    return table


def _set_apart(data: Data) -> list[DataSet]:
    return [each for name in pools.APART for each in pools.named(data, name)]


def _apart(data: Data, scored: Readings) -> Table:
    """Return the sets that are not pooled, each against itself."""
    table = Table("Orders hidden in e-mails, against the clean e-mails", RANKED)
    for name in pools.APART:
        rows = pooled(pools.named(data, name))
        positives, negatives = ([row for row in rows if row.flag("injection") is kind] for kind in (True, False))
        if rows:
            table.lines.append(scored.ranked(name, "", positives, negatives))
    return table
