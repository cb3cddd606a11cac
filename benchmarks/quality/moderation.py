"""Moderation: how well each category is ranked, set by set, and how many harmless texts are flagged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs, scorers as plugged
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate
from benchmarks.quality.rows import Data, DataSet, Row, pooled
from benchmarks.quality.scored import RANKED, Readings, figure, readings, split
from benchmarks.quality.tables import Section, Table
from penstock.engine.values.frozen import EMPTY

CANDIDATES = (
    Candidate(OURS, "ours", maker="moderation"),
    Candidate("word list", "profanity_words", "better-profanity"),
    Candidate("alt-profanity-check", "alt_profanity_check_", "alt-profanity-check"),
)
CATEGORIES = (
    "hate",
    "hate/threatening",
    "harassment",
    "harassment/threatening",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "violence",
    "violence/graphic",
)
"""Labels that are categories of ours by name."""
WHOLE = ("toxic", "offensive", "unsafe")
"""Labels that are of no one category: ranked by the highest score."""
HAZARDS: Mapping[str, str] = {
    "hate": "hate",
    "self-harm": "self-harm",
    "sexual": "sexual",
    "sex-crimes": "sexual",
    "violent-crimes": "violence",
    "weapons": "violence",
}
"""Hazards of sets that hold nothing else, and the category they are near; the others are near none."""
EVERY = 5
"""One of so many multilingual sentences is read: they are many, and some contestants slow."""
OPENAI = "openai"
GOALS = ("sexual", "self-harm", "hate", "harassment", "violence")


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of every contestant over the rows with labels of moderation."""
    section = Section("moderation")
    sets = tuple(each for each in data.sets if any(map(is_moderated, each.rows)))
    if not sets:
        section.notes.append("No row has a label of moderation: it is not measured.")
        return section
    scored = readings(CANDIDATES, section.notes, plugged(plugs, (*CATEGORIES, *WHOLE, "any")), peers=peers)
    ranked = Table("Moderation, by set and label", RANKED)
    recall = Table("Moderation, sets of nothing but hazards: what is flagged", ("R",))
    for dataset in sets:
        _by_label(dataset, scored, ranked)
        _by_hazard(dataset, scored, recall)
    section.tables += [ranked, recall, benign := _benign(data, sets, scored), scored.speeds([("all", pooled(sets))])]
    section.notes.append(f"There is no {FLOOR} of ours: a word list of clear licence is in the packages beside.")
    section.notes += _unknown(sets)
    openai = next((each.name for each in sets if OPENAI in each.name), "")
    section.measured["moderation.auc"] = figure([ranked], OURS, openai, "any")
    section.measured["moderation.ap"] = figure([ranked], OURS, openai, "any", 1)
    section.measured |= {f"moderation.{each}": figure([ranked], OURS, openai, each) for each in GOALS}
    section.measured["moderation.xstest"] = figure([benign], OURS, "XSTest, safe", "")
    if openai and OURS in scored.scorers:
        rows = next(each.rows for each in sets if each.name == openai)
        sure = scored.intervals(OURS, *split(rows, has_any))
        section.intervals |= {f"moderation.{key}": sure[key] for key in ("auc", "ap")}
    return section


def is_moderated(row: Row) -> bool:
    """Return whether a row has a label of moderation."""
    return "hazard" in row.labels or any(row.flag(label) is not None for label in (*CATEGORIES, *WHOLE))


def flag_of(label: str, row: Row) -> bool | None:
    """Return whether a label holds; None if that is unknown."""
    return row.flag(label)


def has_any(row: Row) -> bool:
    """Return whether a row is labelled with any category; a category without a label is taken for absent."""
    return any(row.flag(label) is True for label in CATEGORIES)


def _by_label(dataset: DataSet, scored: Readings, table: Table) -> None:
    """Rank the rows of a set by each label that some of them have and some have not; the unknown are left out."""
    for label in (*CATEGORIES, *WHOLE):
        positives, negatives = split(dataset.rows, partial(flag_of, label))
        if positives and negatives:
            category = label if label in CATEGORIES else "any"
            table.lines.append(scored.ranked(dataset.name, label, positives, negatives, category))
    labelled = {label for row in dataset.rows for label in row.labels if label in CATEGORIES}
    if len(labelled) > 1:
        table.lines.append(scored.ranked(dataset.name, "any", *split(dataset.rows, has_any)))


def _by_hazard(dataset: DataSet, scored: Readings, table: Table) -> None:
    """Return what is flagged of rows that are all hazards."""
    hazards: dict[str, list[Row]] = {}
    for row in dataset.rows:
        named = row.labels.get("hazard", row.labels.get("area") if row.flag("unsafe") else None)
        if isinstance(named, str):
            near = HAZARDS.get(named)
            hazards.setdefault(f"{named} ({near})" if near and near != named else named, []).append(row)
    table.lines += [scored.shares(dataset.name, name, rows) for name, rows in sorted(hazards.items())]


def _benign(data: Data, sets: tuple[DataSet, ...], scored: Readings) -> Table:
    table = Table("Harmless texts that are flagged", ("share",))
    safe = [row for each in sets if "xstest" in each.name for row in each.rows if row.flag("unsafe") is False]
    kinds = [
        ("XSTest, safe", safe),
        ("ordinary prompts", pooled(pools.benign_prompts(data))),
        ("act-as personas", pooled(pools.personas(data))),
        ("clean answers", pooled(pools.answers(data))),
        ("multilingual", pooled(pools.multilingual(data))[::EVERY]),
        (
            "OpenAI set, no category",
            [row for each in sets if OPENAI in each.name for row in each.rows if not has_any(row)],
        ),
    ]
    table.lines += [scored.shares(name, "", rows) for name, rows in kinds if rows]
    return table


def _unknown(sets: tuple[DataSet, ...]) -> list[str]:
    """Say which labels say nothing that is measured."""
    about = {*CATEGORIES, *WHOLE, "hazard", "area", "persona", "type", "functionality", "target", "kind"}
    unknown = Counter(label for row in pooled(sets) for label in row.labels if label not in about)
    if not unknown:
        return []
    return [f"Labels that are not measured: {', '.join(f'{label} ({count})' for label, count in unknown.items())}."]
