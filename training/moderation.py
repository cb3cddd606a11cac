"""Builds the weights of `penstock.detection.moderation`: ``python -m training.moderation --data DIR``.

Of each category two machines are made. One knows *content*: it learns from the OpenAI set, and at a small cost from
harmless prompts and from texts written for Penstock, with the margins of machines for neighbouring questions as
features more; since all of them are linear, they come to one vector of weights. The other knows *requests*: prompts
that ask for something harmful. One more machine knows content of any category.

Thresholds are fixed on margins of texts that were left out of training.
"""

from __future__ import annotations

from array import array
from collections import Counter
from math import fsum, sqrt
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.linear.counting import ONCE, TermReader, damped
from penstock.detection.linear.model import Head, Packed, Recipe
from penstock.detection.moderation import ANY, CATEGORIES, REQUEST, WEIGHTS
from training import moderation_rows as rows
from training.building import main
from training.clusters import folds
from training.moderation_curves import content_curve, joined_scores, limits, request_curve
from training.svm import Plane
from training.weighted import Valued, fit, margin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.detection.linear.counting import Terms
    from penstock.detection.linear.model import Note
    from training.rows import Row

RECIPE = Recipe(bits=17, words=2, least=3, most=6)
SIZE = 1 << RECIPE.bits
FOLDS, ROUNDS = 5, 7
LEVELS, WIDTH = 15, 10.0  # weights are rounded to so many steps on each side, which reach so many deviations
SHARE = 0.07  # what a neighbouring question's margin counts as a feature, in deviations
CONTENT, NEIGHBOURS, REQUESTS = 1.2, 0.3, 0.5  # what a slip costs
HARMLESS, SAFE, OWN, OPENAI = 0.03, 0.1, 0.05, 0.7  # and the share of that for rows of another kind


class Features(NamedTuple):
    """A text's places, and the value of each."""

    places: array[int]
    values: array[float]


Labelled = list[tuple[int, bool, float]]
"""Which texts, on which side they are, and the share of the cost of a slip."""


def build(data: Path) -> Packed:
    """Return the model."""
    trainer = Trainer(rows.texts(data))
    own = folds(list(range(len(trainer.texts))), [text.group for text in trainer.texts], FOLDS)
    left = trainer.left_out(own)
    planes = trainer.planes(range(len(trainer.texts)))
    curves = {name: content_curve(left[name], name, trainer.texts) for name in (*CATEGORIES, ANY)}
    scores = joined_scores(left, curves)
    heads = [_head(ANY, planes, curves[ANY], 1.0)]  # it decides nothing by itself
    for category in CATEGORIES:
        asked = f"{category}{REQUEST}"
        bounds = limits(scores[category], left.get(asked), category, trainer.texts)
        heads.append(_head(category, planes, curves[category], bounds.threshold))
        if asked in planes:
            heads.append(_head(asked, planes, request_curve(left[asked], bounds), bounds.threshold))
    notes: dict[str, Note] = {
        "name": "moderation",
        "version": 3,
        "licence": "Apache-2.0",
        "sources": rows.sources(data),
    }
    return Packed(RECIPE, tuple(heads), notes)


def _head(name: str, planes: Mapping[str, Plane], points: Sequence[tuple[float, float]], threshold: float) -> Head:
    weights, scale = coarse(planes[name].weights)
    return Head(name, weights, float(f"{scale:.9g}"), round(planes[name].bias, 9), points, threshold)


def coarse(weights: Sequence[float]) -> tuple[array[int], float]:
    """Return weights in a few steps, which compress well, and what one step is worth."""
    scale = WIDTH * sqrt(fsum(weight * weight for weight in weights) / len(weights)) / LEVELS
    return array("b", [max(-LEVELS, min(LEVELS, round(weight / scale))) for weight in weights]), scale


class Trainer:
    """Holds the texts and their features; lives for one build."""

    def __init__(self, texts: Sequence[rows.Text]) -> None:
        self.texts = texts
        self.rare = [0.0] * SIZE
        self.features = self._features()

    def _features(self) -> list[Features]:
        reader: TermReader[Sequence[int]] = TermReader(RECIPE, list)
        found = [_counted(reader.read(text.row.text)) for text in self.texts]
        spread = Counter(place for counted, _ in found for place in counted)
        self.rare = [sqrt(sqrt(len(self.texts) / (spread[place] + 1))) for place in range(SIZE)]
        mean = fsum(self.rare[place] * count for place, count in sorted(spread.items())) / sum(spread.values())
        self.rare = [value / mean for value in self.rare]
        return [self._valued(*one) for one in found]

    def _valued(self, counted: Mapping[int, int], root: float) -> Features:
        values = [self.rare[place] * (count / root) for place, count in counted.items()]
        return Features(array("l", counted), array("d", values))

    def left_out(self, own: Sequence[int]) -> dict[str, list[float]]:
        """Return the margins of all texts by planes that were made without them."""
        left: dict[str, list[float]] = {}
        for fold in range(FOLDS):
            planes = self.planes([at for at, one in enumerate(own) if one != fold])
            for name, plane in planes.items():
                shipped = _rounded(plane)
                margins = left.setdefault(name, [0.0] * len(own))
                for at, one in enumerate(own):
                    if one == fold:
                        margins[at] = self._plain_margin(shipped, at)
        return left

    def _plain_margin(self, plane: Plane, at: int) -> float:
        places, values = self.features[at]
        return plane.bias + fsum(
            plane.weights[place] * (value / self.rare[place]) for place, value in zip(places, values, strict=True)
        )

    def planes(self, chosen: Sequence[int]) -> dict[str, Plane]:
        """Return what is made from some of the texts, ready for features that are not weighed by rarity."""
        tasks = [self._task(chosen, *task) for task in rows.TASKS]
        tasks += [self._asked(chosen, category) for category in rows.HAZARDS]
        openai = [at for at in chosen if self.texts[at].row.set == rows.OPENAI]
        scaled = [_scaled(plane, [self._margin(plane, at) for at in openai]) for plane in tasks]
        planes = {name: self._content(chosen, name, scaled) for name in (*CATEGORIES, ANY)}
        planes |= {f"{category}{REQUEST}": self._request(chosen, category) for category in rows.HAZARDS}
        return {name: self._unweighed(plane) for name, plane in planes.items()}

    def _task(self, chosen: Sequence[int], name: str, label: str) -> Plane:
        examples = [at for at in chosen if self.texts[at].row.set == name]
        return self._fit([(at, self.texts[at].row.labels[label] == 1, 1.0) for at in examples], NEIGHBOURS)

    def _asked(self, chosen: Sequence[int], category: str) -> Plane:
        """Return a machine for requests that knows no text of the OpenAI set, whose margins are to be features."""
        others = [at for at in chosen if self.texts[at].row.set != rows.OPENAI]
        return self._fit(self._labelled(others, lambda row: rows.request(row, category), lambda _: 1.0), NEIGHBOURS)

    def _request(self, chosen: Sequence[int], category: str) -> Plane:
        return self._fit(self._labelled(chosen, lambda row: rows.request(row, category), _request_share), REQUESTS)

    def _content(self, chosen: Sequence[int], category: str, tasks: Sequence[Plane]) -> Plane:
        labelled = self._labelled(chosen, lambda row: rows.content(row, category), _content_share)
        plane = self._fit(labelled, CONTENT, tasks)
        says = plane.weights[SIZE:]
        columns = zip(plane.weights[:SIZE], *(task.weights for task in tasks), strict=True)
        weights = [own + fsum(a * b for a, b in zip(says, others, strict=True)) for own, *others in columns]
        return Plane(weights, plane.bias + fsum(a * task.bias for a, task in zip(says, tasks, strict=True)))

    def _labelled(
        self, chosen: Sequence[int], label: Callable[[Row], bool | None], share: Callable[[Row], float]
    ) -> Labelled:
        found = [(at, label(self.texts[at].row), share(self.texts[at].row)) for at in chosen]
        return [(at, positive, part) for at, positive, part in found if positive is not None]

    def _fit(self, labelled: Labelled, cost: float, tasks: Sequence[Plane] = ()) -> Plane:
        """Fit a plane; both sides cost the same altogether. Each task's margin is a feature more."""
        positive = fsum(share for _, side, share in labelled if side)
        negative = fsum(share for _, side, share in labelled if not side)
        half = (positive + negative) / 2
        examples: list[Valued] = []
        for at, side, share in labelled:
            places, values = self.features[at]
            more = [self._margin(task, at) for task in tasks]
            examples.append(
                Valued(
                    [*places, *range(SIZE, SIZE + len(tasks))],
                    [*values, *more],
                    side,
                    cost * share * half / (positive if side else negative),
                )
            )
        return fit(examples, SIZE + len(tasks), rounds=ROUNDS)

    def _margin(self, plane: Plane, at: int) -> float:
        return margin(plane, *self.features[at])

    def _unweighed(self, plane: Plane) -> Plane:
        weights = [weight * rare for weight, rare in zip(plane.weights, self.rare, strict=False)]
        return Plane(weights, plane.bias)


def _counted(terms: Terms[Sequence[int]]) -> tuple[Mapping[int, int], float]:
    """Return what each place counts in a text, and the root that a model divides sums of it by."""
    features = dict(zip(terms.hashes, (*terms.words, *((run,) for run in terms.runs)), strict=True))
    counted: Counter[int] = Counter()
    for term, count in Counter(terms.hashes).items():
        for place in features[term]:
            counted[place] += damped(count)
    return counted, ONCE * sqrt(terms.size)


def _scaled(plane: Plane, margins: Sequence[float]) -> Plane:
    """Return a plane whose margins on these texts have a mean of nought and the share that features are to have."""
    mean = fsum(margins) / len(margins)
    factor = SHARE / sqrt(fsum((one - mean) ** 2 for one in margins) / len(margins))
    return Plane([weight * factor for weight in plane.weights], (plane.bias - mean) * factor)


def _rounded(plane: Plane) -> Plane:
    weights, scale = coarse(plane.weights)
    return Plane([weight * scale for weight in weights], plane.bias)


def _content_share(row: Row) -> float:
    if row.set == rows.OPENAI:
        return 1.0
    if row.set == rows.OWN:
        return OWN
    return SAFE if rows.safe(row) else HARMLESS


def _request_share(row: Row) -> float:
    if row.set == rows.OPENAI:
        return OPENAI
    return 2.0 if row.set == rows.XSTEST else 1.0


if __name__ == "__main__":
    main(build, WEIGHTS, __doc__)
