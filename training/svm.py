"""Fits a linear support vector machine: dual coordinate descent for the squared hinge loss. It knows no text.

The method is that of Hsieh, Chang, Lin, Keerthi, Sundararajan: A Dual Coordinate Descent Method for Large-scale Linear
SVM (ICML 2008). Each example is a set of places, each worth one over the root of their number, so that all have length
1; to this comes a place for the bias, worth 1. Sums are exact (`fsum`) and the order is our own, so the result is the
same to the bit wherever floats are IEEE doubles.
"""

from __future__ import annotations

from math import fsum, sqrt
from typing import TYPE_CHECKING, NamedTuple

from training.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Sequence


class Example(NamedTuple):
    """What the machine learns from: features, the side it is on, and how much a slip on it costs."""

    places: Sequence[int]
    positive: bool
    cost: float = 1.0


class Plane(NamedTuple):
    """A border between the sides: a margin is ``bias`` plus the mean-like sum of the weights of a text's places."""

    weights: list[float]
    bias: float

    def margin(self, places: Sequence[int]) -> float:
        """Return the margin of an example."""
        if not places:
            return self.bias
        return self.bias + fsum(map(self.weights.__getitem__, places)) / sqrt(len(places))


def fit(examples: Sequence[Example], size: int, *, rounds: int = 20, tolerance: float = 0.02, seed: int = 1) -> Plane:
    """Return the plane that parts the examples, after at most ``rounds`` passes over them.

    Args:
        examples: in an order that stays, since the result depends on it.
        size: how many places there are.
        rounds: the most passes.
        tolerance: it stops once no example pulls harder than this within a pass.
        seed: for the order within a pass.
    """
    weights, bias = [0.0] * (size + 1), size
    inverse = [1 / sqrt(len(example.places)) if example.places else 0.0 for example in examples]
    duals = [0.0] * len(examples)
    order, chance = list(range(len(examples))), Chance(seed)
    for _ in range(rounds):
        chance.shuffle(order)
        worst = 0.0
        for at in order:
            example = examples[at]
            sign = 1.0 if example.positive else -1.0
            value = weights[bias] + fsum(map(weights.__getitem__, example.places)) * inverse[at]
            slack = 1 / (2 * example.cost)
            pull = sign * value - 1 + duals[at] * slack
            worst = max(worst, abs(pull if duals[at] > 0 else min(pull, 0.0)))
            dual = max(duals[at] - pull / ((2.0 if example.places else 1.0) + slack), 0.0)
            if dual != duals[at]:
                step = (dual - duals[at]) * sign
                duals[at] = dual
                weights[bias] += step
                share = step * inverse[at]
                for place in example.places:
                    weights[place] += share
        if worst < tolerance:
            break
    return Plane(weights[:size], weights[bias])
