"""Fits a linear support vector machine: dual coordinate descent for the squared hinge loss. It knows no text.

The method is that of Hsieh, Chang, Lin, Keerthi, Sundararajan: A Dual Coordinate Descent Method for Large-scale Linear
SVM (ICML 2008). Each example is a set of places, each worth one over the root of their number, so that all have length
1; to this comes a place for the bias, worth 1. Sums are exact (`fsum`) and the order is our own, so the result is the
same to the bit wherever floats are IEEE doubles.
"""

from __future__ import annotations

from math import fsum, sqrt
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from training.chance import Chance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_QUIET = 0.1


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


def fit(
    examples: Sequence[Example],
    size: int,
    *,
    upper: float = 1.0,
    rounds: int = 20,
    tolerance: float = 0.02,
    seed: int = 1,
) -> Plane:
    """Return the plane that parts the examples, after at most ``rounds`` passes over them.

    Args:
        examples: in an order that stays, since the result depends on it.
        size: how many places there are.
        upper: what a place in the upper half counts, where one in the lower half counts 1; that goes into the weights.
        rounds: the most passes.
        tolerance: it stops once no example pulls harder than this within a pass.
        seed: for the order within a pass.
    """
    weights = [0.0] * size
    bias = 0.0
    share = [1.0] * (size // 2) + [upper * upper] * (size - size // 2)
    inverse = [1 / sqrt(len(example.places)) if example.places else 0.0 for example in examples]
    length = [_length(example, size // 2, upper) for example in examples]
    take = [_taker(example.places) for example in examples]
    duals = [0.0] * len(examples)
    order, chance = list(range(len(examples))), Chance(seed)
    quiet = bytearray(len(examples))  # lies well on its own side, and is looked at in every fourth round only
    for turn in range(rounds):
        chance.shuffle(order)
        worst, looked = 0.0, turn % 4 == 0
        for at in order:
            if quiet[at] and not looked:
                continue
            places, positive, cost = examples[at]
            sign = 1.0 if positive else -1.0
            slack = 1 / (2 * cost)
            pull = sign * (bias + fsum(take[at](weights)) * inverse[at]) - 1 + duals[at] * slack
            worst = max(worst, abs(pull if duals[at] > 0 else min(pull, 0.0)))
            dual = max(duals[at] - pull / (length[at] + slack), 0.0)
            quiet[at] = dual == 0.0 and pull > _QUIET
            if dual != duals[at]:
                step = (dual - duals[at]) * sign
                duals[at] = dual
                bias += step
                step *= inverse[at]
                for place in places:
                    weights[place] += step * share[place]
        if looked and worst < tolerance:
            break
    return Plane(weights, bias)


def _taker(places: Sequence[int]) -> Callable[[list[float]], tuple[float, ...]]:
    """Return what takes an example's weights out of the table: all at once, which is fastest."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda weights: tuple(weights[place] for place in places)


def _length(example: Example, half: int, upper: float) -> float:
    """Return the square of an example's length, its bias included."""
    count = len(example.places)
    high = sum(place >= half for place in example.places)
    return 1.0 + ((count - high) + high * upper * upper) / count if count else 1.0
