"""Keys of APIs and other secrets: whether a text that holds one is flagged, and how many ordinary prompts are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from benchmarks.quality import pools
from benchmarks.quality.contestants.plugged import Plugs, finders as plugged
from benchmarks.quality.contestants.ports import FLOOR, OURS, Candidate, Finder, line_up
from benchmarks.quality.rows import Data, DataSet, Row, pooled
from benchmarks.quality.tables import Line, Section, Table
from penstock.engine.values.frozen import EMPTY
from penstock.workflows.evaluation.figures import Counts, interval, share

CANDIDATES = (
    Candidate(OURS, "ours", maker="personal"),
    Candidate(FLOOR, "plain_patterns"),
    Candidate("detect-secrets", "detect_secrets_", "detect-secrets"),
)
Flag = Callable[[str], bool]


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the figures of every contestant over the rows that say whether they hold a secret."""
    section = Section("secrets")
    sets = data.where(lambda row: row.flag("secret") is not None)
    if not sets:
        section.notes.append("No row says whether it holds a secret: keys are not measured.")
        return section
    there: dict[str, object] = {**line_up(CANDIDATES, section.notes, peers=peers), **plugged(plugs, ("api-key",))}
    flags = {name: holds_key(cast("Finder", each)) for name, each in there.items()}
    section.tables += [_by_set(sets, flags), recalls := _recalls(sets, flags), benign := _benign(data, flags)]
    section.measured["secrets.recall"] = _ours(recalls, "API")
    section.measured["secrets.flagged"] = _ours(benign, "benign prompts")
    section.measured["secrets.answers"] = _ours(benign, "clean answers")
    if OURS in flags:
        texts = {"recall": _secret(sets, api=True), "flagged": _texts(pools.benign_prompts(data))}
        texts["answers"] = _texts(pools.answers(data))
        for key, each in texts.items():
            hits = [flags[OURS](text) for text in each]
            section.intervals[f"secrets.{key}"] = interval(lambda heaps: share(sum(heaps[0]), len(heaps[0])), hits)
    return section


def holds_key(finder: Finder) -> Flag:
    """Return whether a finder finds a key in a text."""
    return lambda text: any(span.type == "api-key" for span in finder.find(text))


def _by_set(sets: Iterable[DataSet], flags: Mapping[str, Flag]) -> Table:
    table = Table("Texts with secrets, by set", ("P", "R", "F1"))
    for dataset in sets:
        counts = {name: _counts(dataset.rows, flag) for name, flag in flags.items()}
        figures = {name: (each.precision, each.recall, each.f1) for name, each in counts.items()}
        table.lines.append(Line(dataset.name, "", len(dataset.rows), figures))
    return table


def _counts(rows: Iterable[Row], flag: Flag) -> Counts:
    total = Counts()
    for row in rows:
        found, labelled = flag(row.text), row.flag("secret") is True
        total += Counts(found and labelled, found and not labelled, labelled and not found)
    return total


def _recalls(sets: Iterable[DataSet], flags: Mapping[str, Flag]) -> Table:
    """Return the recall of keys of APIs, and of what else is secret, where the rows tell them apart."""
    table = Table("Secrets that are found", ("R",))
    for name, wanted in (("API", True), ("other", False)):
        texts = _secret(sets, api=wanted)
        if texts:
            table.lines.append(Line(name, "", len(texts), _shares(texts, flags)))
    return table


def _benign(data: Data, flags: Mapping[str, Flag]) -> Table:
    table = Table("Texts without secrets that are flagged", ("share",))
    for name, sets in (("benign prompts", pools.benign_prompts(data)), ("clean answers", pools.answers(data))):
        texts = _texts(sets)
        if texts:
            table.lines.append(Line(name, "", len(texts), _shares(texts, flags)))
    return table


def _secret(sets: Iterable[DataSet], *, api: bool) -> list[str]:
    """Return the texts with secrets of which it is known whether they are keys of an API, and which are, or are not."""
    return [row.text for row in pooled(sets) if row.flag("secret") and row.flag("api") is api]


def _texts(sets: Iterable[DataSet]) -> list[str]:
    return [row.text for row in pooled(sets)]


def _shares(texts: list[str], flags: Mapping[str, Flag]) -> dict[str, tuple[float | None]]:
    return {name: (share(sum(map(flag, texts)), len(texts)),) for name, flag in flags.items()}


def _ours(table: Table, data: str) -> float | None:
    return next((line.figures.get(OURS, (None,))[0] for line in table.lines if line.data == data), None)
