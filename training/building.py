"""What all trainers share: margins of what was left out, and the command that builds a file or checks it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.linear.model import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.detection.linear.model import Packed
    from training.svm import Example, Plane


def left_out(
    examples: Sequence[Example], folds: Sequence[int], train: Callable[[Sequence[Example]], Plane]
) -> list[float]:
    """Return the margin of each example by a plane that was trained on the other folds."""
    margins = [0.0] * len(examples)
    for fold in sorted(set(folds)):
        plane = train([example for example, own in zip(examples, folds, strict=True) if own != fold])
        for at, (example, own) in enumerate(zip(examples, folds, strict=True)):
            if own == fold:
                margins[at] = plane.margin(example.places)
    return margins


def same(one: bytes, other: bytes) -> bool:
    """Tell whether two files hold the same model; their compression may differ between versions of zlib."""
    left, right = unpack(one), unpack(other)
    return one.split(b"\n", 1)[0] == other.split(b"\n", 1)[0] and left.heads == right.heads


def main(build: Callable[[Path], Packed], weights: Path, about: str | None) -> None:
    """Build the weights and write them; with ``--check`` compare them with the file, and exit 1 if they differ."""
    parser = ArgumentParser(description=about)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    told = parser.parse_args()
    made = pack(build(told.data))
    if told.check:
        equal = same(made, weights.read_bytes())
        print(f"{weights.name}: {'the same' if equal else 'DIFFERS'}")
        sys.exit(not equal)
    weights.write_bytes(made)
    print(f"{weights.name}: {len(made)} bytes")
