"""What all trainers share: the command that builds a file of weights or checks it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.linear.model import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.detection.linear.model import Packed


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
