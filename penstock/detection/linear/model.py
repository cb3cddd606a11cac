"""`LinearModel`: several heads over the features of one text. Pure and deterministic; loaded at first use."""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import TYPE_CHECKING

from penstock.detection.linear.curves import Curve
from penstock.detection.linear.hashing import Hasher
from penstock.detection.linear.packing import unpack

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from penstock.detection.linear.packing import Head, Packed


class LinearModel:
    """A model ready for use; lives as long as the process, and may be shared between threads.

    Attributes:
        heads: the names of what it tells, in the order of the file.
        thresholds: per head, the score from which a text counts as positive.
        notes: what the file says about itself: name, version, licence, sources.
    """

    def __init__(self, packed: Packed) -> None:
        self.notes = packed.notes
        self.heads = tuple(head.name for head in packed.heads)
        self.thresholds: Mapping[str, float] = {head.name: head.threshold for head in packed.heads}
        self._heads = packed.heads
        self._curves = {head.name: Curve(head.points) for head in packed.heads}
        self._hasher = Hasher(packed.recipe)

    def margins(self, text: str) -> dict[str, float]:
        """Return per head how far, and on which side, a text lies from the border."""
        places = self._hasher.places(text)
        return {head.name: margin(head, places) for head in self._heads}

    def scores(self, text: str) -> dict[str, float]:
        """Return the calibrated score of each head, from 0 to 1."""
        return {name: self._curves[name](value) for name, value in self.margins(text).items()}


def margin(head: Head, places: Collection[int]) -> float:
    """Return the margin of a text with features at these places: exact, so the same on any machine."""
    if not places:
        return head.bias
    return head.bias + head.scale * sum(map(head.weights.__getitem__, places)) / sqrt(len(places))


@cache
def load(path: Path) -> LinearModel:
    """Return the model in a file, read once a process."""
    return LinearModel(unpack(path.read_bytes()))
