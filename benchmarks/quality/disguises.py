"""The same positives in disguise, through the presets: what full-width letters, look-alikes or base64 hide."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs
from benchmarks.quality.contestants.ports import FLOOR, Candidate, Finder, Scorer, flags, line_up
from benchmarks.quality.moderation import flag_of, has_any
from benchmarks.quality.personal import GOAL_TYPES, type_of
from benchmarks.quality.rows import Data, Row, pooled
from benchmarks.quality.tables import Line, Section, Table
from penstock.detection.spans import Span
from penstock.detection.unicode.disguises import read
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.figures import share

MOST = 300
"""How many texts of a kind are read at most; evenly taken from all."""
ALIKE = str.maketrans("aeopcxyisj", "аеорсхуіѕј")
FORMS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "full-width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "zero-width": "\u200b".join,
    "look-alikes": lambda text: text.translate(ALIKE),
    "spaced out": lambda text: "   ".join(" ".join(word) for word in text.split()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
}
"""What is done to a whole text."""
PRESET = "preset"
ALONE = "guard alone"
Stops = Callable[[str], bool]
Hides = Callable[[str], str]


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return what share of positives is stopped or hidden in each form, and of ordinary prompts."""
    del peers, plugs  # the presets
    section = Section("disguises")
    attacks = pooled(pools.attacks(data))
    harmful = [row for row in pooled(data.sets) if has_any(row) or flag_of("hate", row)]
    benign = pooled(pools.benign_prompts(data))
    if attacks:
        stops = _stopping("injection", "phrases", section.notes)
        section.tables += [_stopped("Attacks that are stopped", attacks, stops)]
        section.tables += [_stopped("Ordinary prompts that are stopped as attacks", benign, stops)]
    if harmful:
        stops = _stopping("moderation", "", section.notes)
        section.tables += [_stopped("Harmful texts that are flagged", harmful, stops)]
        section.tables += [_stopped("Ordinary prompts that are flagged as harmful", benign, stops)]
    labelled = [row for row in pooled(data.where(lambda row: bool(_values(row)))) if row.target is None]
    if labelled:
        section.tables += [_hidden(labelled, _hiding(section.notes))]
    if not section.tables:
        section.notes.append("There are no positives: disguises are not measured.")
    return section


def _sample(rows: Sequence[Row]) -> Sequence[Row]:
    return rows[:: -(-len(rows) // MOST)] if rows else rows


def _stopping(preset: str, floor: str, notes: list[str]) -> dict[str, Stops]:
    """Return who stops a text: the preset, our guard without it, and the floor, if there is one."""
    candidates = [Candidate(PRESET, "presets", maker=preset), Candidate(ALONE, "ours", maker=preset)]
    candidates += [Candidate(FLOOR, floor)] if floor else []
    there = line_up(candidates, notes, peers=False)
    return {name: _stop(cast("Scorer", each)) for name, each in there.items()}


def _stop(scorer: Scorer) -> Stops:
    return lambda text: any(flags(scorer, scorer.scores(text)).values())


def _stopped(title: str, rows: Sequence[Row], stops: Mapping[str, Stops]) -> Table:
    table = Table(title, ("share",))
    sample = _sample(rows)
    for name, form in FORMS.items():
        texts = [form(row.text) for row in sample]
        figures = {who: (share(sum(map(stop, texts)), len(texts)),) for who, stop in stops.items()}
        table.lines.append(Line(name, "", len(texts), figures))
    return table


def _hiding(notes: list[str]) -> dict[str, Hides]:
    """Return who hides what is found in a text."""
    candidates = [
        Candidate(PRESET, "presets", maker="privacy"),
        Candidate(ALONE, "ours", maker="personal"),
        Candidate(FLOOR, "plain_patterns"),
    ]
    there = line_up(candidates, notes, peers=False)
    hiders: dict[str, Hides] = {who: _hider(cast("Finder", each)) for who, each in there.items() if who != PRESET}
    preset = there.get(PRESET)
    return {PRESET: cast("Hides", preset), **hiders} if preset is not None else hiders


def _hider(finder: Finder) -> Hides:
    return lambda text: without(text, finder.find(text))


def without(text: str, spans: Sequence[Span]) -> str:
    """Return a text without what was found in it."""
    gone = {at for span in spans for at in range(span.start, span.end)}
    return "".join(char for at, char in enumerate(text) if at not in gone)


def _hidden(rows: Sequence[Row], hiders: Mapping[str, Hides]) -> Table:
    table = Table("Personal data that are hidden", ("share",))
    sample = _sample(rows)
    size = sum(len(_values(row)) for row in sample)
    for name, form in FORMS.items():
        figures = {
            who: (share(sum(kept_back(form, row, hide) for row in sample), size),) for who, hide in hiders.items()
        }
        table.lines.append(Line(name, "", size, figures))
    return table


def kept_back(form: Callable[[str], str], row: Row, hide: Hides) -> int:
    """Return how many of a row's values cannot be read any more in what is left of its text in that form."""
    given = form(row.text)
    left = hide(given)
    if left == given:
        return 0
    legible = _legible(left)
    return sum(_legible(value) not in legible for value in _values(row))


def _values(row: Row) -> list[str]:
    """Return the values of the types that have goals."""
    return [row.text[span.start : span.end] for span in row.spans or () if type_of(span.type) in GOAL_TYPES]


def _legible(text: str) -> str:
    """Return what one reads, whatever it is disguised as; spaces left out."""
    return "".join(read(text).text.split()).lower()
