"""Leaks of system prompts: excerpts of prompts hidden in clean answers in several forms, and clean answers flagged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean

from benchmarks.quality import pools
from benchmarks.quality.contestants.ours import Leaks
from benchmarks.quality.contestants.plugged import Plugs
from benchmarks.quality.contestants.ports import FLOOR, OURS
from benchmarks.quality.leaks import ENCODINGS, FORMATS, MORE, Planted, planted
from benchmarks.quality.rows import Data, Row, pooled
from benchmarks.quality.tables import Line, Section, Table
from penstock.detection.spans import Span
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.figures import interval, share

LENGTHS = (8, 12, 20, 40)
CHANGES = (0.1, 0.2, 0.3)
GOAL_WORDS = 12
_VERBATIM = 40  # characters that the floor wants to see again as they are

Find = Callable[[str, str], Sequence[Span]]


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of our guard, and of a search for long pieces of the prompt as they are written."""
    del peers, plugs  # no detector takes prompts
    section = Section("leaks")
    prompts = pooled(data.where(lambda row: row.flag("system_prompt") is True))
    answers = pooled(pools.answers(data))
    if not prompts or not answers:
        section.notes.append("There are no system prompts, or no clean answers: leaks are not measured.")
        return section
    finders: dict[str, Find] = {OURS: _ours, FLOOR: _verbatim}
    section.tables += [
        written := _by_form(prompts, answers, finders),
        swapped := _by_change(prompts, answers, finders),
        clean := _clean(prompts, answers, finders),
    ]
    wanted = [
        line for line in written.lines if line.data in {*FORMATS, *ENCODINGS} and line.of != f"{LENGTHS[0]} words"
    ]
    section.measured["leaks.recall"] = min((line.figures[OURS][0] or 0.0 for line in wanted), default=None)
    section.measured["leaks.changed"] = next(
        (line.figures[OURS][0] for line in swapped.lines if (line.data, line.of) == ("20 % changed", "20 words")), None
    )
    section.measured["leaks.false"] = clean.lines[0].figures[OURS][0]
    hits = [bool(_ours(each.prompt, each.text)) for each in planted(prompts, answers, 20, changed=0.2)]
    section.intervals["leaks.changed"] = interval(lambda heaps: share(sum(heaps[0]), len(heaps[0])), hits)
    return section


def _by_form(prompts: Sequence[Row], answers: Sequence[Row], finders: Mapping[str, Find]) -> Table:
    table = Table("Excerpts of system prompts in clean answers", ("R", "IoU"))
    for name, form in {**FORMATS, **ENCODINGS, **MORE}.items():
        for words in LENGTHS:
            table.lines.append(_line(name, f"{words} words", list(planted(prompts, answers, words, form)), finders))
    return table


def _by_change(prompts: Sequence[Row], answers: Sequence[Row], finders: Mapping[str, Find]) -> Table:
    table = Table("Excerpts with words changed", ("R", "IoU"))
    for changed in CHANGES:
        for words in LENGTHS:
            texts = list(planted(prompts, answers, words, changed=changed))
            table.lines.append(_line(f"{changed:.0%} changed".replace("%", " %"), f"{words} words", texts, finders))
    return table


def _line(data: str, of: str, texts: Sequence[Planted], finders: Mapping[str, Find]) -> Line:
    return Line(data, of, len(texts), {name: _recall(texts, find) for name, find in finders.items()})


def _recall(texts: Sequence[Planted], find: Find) -> tuple[float | None, float | None]:
    """Return which share of the excerpts is found, and how far what is found covers those, on average."""
    overlaps = [_overlap(each, find(each.prompt, each.text)) for each in texts]
    found = [overlap for overlap in overlaps if overlap]
    return share(len(found), len(texts)), fmean(found) if found else None


def _overlap(text: Planted, spans: Iterable[Span]) -> float:
    """Return what the spans and the excerpt share, by what they cover together."""
    covered = {at for span in spans for at in range(span.start, span.end)}
    excerpt = set(range(text.start, text.end))
    return len(covered & excerpt) / len(covered | excerpt)


def _clean(prompts: Sequence[Row], answers: Sequence[Row], finders: Mapping[str, Find]) -> Table:
    """Return how many clean answers are flagged, each asked of every prompt, and how many pairs of both."""
    table = Table("Clean answers in which a leak is found", ("share of answers", "share of pairs"))
    figures: dict[str, tuple[float | None, ...]] = {}
    for name, find in finders.items():
        hits = [sum(bool(find(prompt.text, answer.text)) for prompt in prompts) for answer in answers]
        figures[name] = share(sum(map(bool, hits)), len(answers)), share(sum(hits), len(answers) * len(prompts))
    table.lines.append(Line("clean answers", "", len(answers), figures))
    return table


_guard = cache(Leaks)


def _ours(prompt: str, text: str) -> Sequence[Span]:
    return _guard(prompt).find(text)


def _verbatim(prompt: str, text: str) -> Sequence[Span]:
    """Return the pieces of a prompt that stand in a text as they are, end to end."""
    places = ((text.find(prompt[at : at + _VERBATIM]), at) for at in range(len(prompt) - _VERBATIM + 1))
    return [Span(place, place + _VERBATIM, "system-prompt") for place, _ in places if place >= 0]
