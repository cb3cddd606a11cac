"""Prompt injection: attacks against what people ordinarily ask, by set and pooled; benign texts that are flagged."""

from __future__ import annotations

from benchmarks.quality import pools
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate
from benchmarks.quality.rows import Data, DataSet, pooled
from benchmarks.quality.scored import RANKED, Readings, figure, readings
from benchmarks.quality.tables import Section, Table

CANDIDATES = (
    Candidate(OURS, "ours", maker="injection"),
    Candidate(FLOOR, "phrases"),
)
POOLED = "all attacks"


def measure(data: Data, *, peers: bool) -> Section:
    """Return the figures of every contestant over the rows that say whether they are an attack."""
    section = Section("injection")
    if not data.where(lambda row: row.flag("injection") is not None):
        section.notes.append("No row says whether it is an injection: injections are not measured.")
        return section
    scored = readings(CANDIDATES, section.notes, peers=peers)
    section.tables += [
        _ranked(data, scored),
        benign := _benign(data, scored),
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
    return section


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
