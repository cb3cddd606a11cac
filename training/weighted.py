"""Fits a linear support vector machine to features that differ in weight; it knows no text.

The method is that of `training.svm`, for examples whose features have values of their own: how often a feature comes,
how rare it is, and what other machines say. Sums are exact (`fsum`), so the result is the same to the bit.
"""

from __future__ import annotations

from math import fsum
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from training.chance import Chance
from training.svm import Plane

if TYPE_CHECKING:
    from collections.abc import Sequence


class Valued(NamedTuple):
    """What the machine learns from: features and their values, the side it is on, and what a slip on it costs."""

    places: Sequence[int]
    values: Sequence[float]
    positive: bool
    cost: float = 1.0


def margin(plane: Plane, places: Sequence[int], values: Sequence[float]) -> float:
    """Return the margin of an example."""
    return plane.bias + fsum(map(mul, map(plane.weights.__getitem__, places), values))


def fit(examples: Sequence[Valued], size: int, *, rounds: int, seed: int = 1) -> Plane:
    """Return the plane that parts the examples, after so many passes over them, in an order of chance.

    Args:
        examples: in an order that stays, since the result depends on it.
        size: how many places there are.
        rounds: the passes.
        seed: for the order within a pass.
    """
    weights, bias = [0.0] * size, 0.0
    duals = [0.0] * len(examples)
    lengths = [1.0 + fsum(value * value for value in example.values) for example in examples]
    order, chance = list(range(len(examples))), Chance(seed)
    for _ in range(rounds):
        chance.shuffle(order)
        for at in order:
            places, values, positive, cost = examples[at]
            sign = 1.0 if positive else -1.0
            value = bias + fsum(map(mul, map(weights.__getitem__, places), values))
            slack = 1 / (2 * cost)
            dual = max(duals[at] - (sign * value - 1 + duals[at] * slack) / (lengths[at] + slack), 0.0)
            if dual != duals[at]:
                step = (dual - duals[at]) * sign
                duals[at] = dual
                bias += step
                for place, share in zip(places, values, strict=True):
                    weights[place] += step * share
    return Plane(weights, bias)
