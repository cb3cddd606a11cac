"""The file a linear model is kept in: a line of JSON that says what it is, then its weights, compressed.

The header holds ``format``, ``name``, ``version``, ``licence``, ``sources`` (per data set: licence, rows, hash of the
file), ``recipe``, ``heads`` (per head: bias, scale, threshold, points of the curve) and ``sha256`` of the weights
before they are compressed, so that two builds compare equal whichever zlib made them. It knows no text.
"""

from __future__ import annotations

import json
import zlib
from array import array
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.detection.linear.hashing import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT = 1
Note: TypeAlias = "str | int | float | bool | Sequence[Note] | Mapping[str, Note] | None"


class Head(NamedTuple):
    """One question that a model answers.

    Attributes:
        name: what it is about.
        weights: one signed byte a place.
        scale: what a weight of 1 is worth.
        bias: the margin of a text without features.
        points: the curve from margins to scores, as (margin, score).
        threshold: the score from which a text counts as positive, fixed on development data.
    """

    name: str
    weights: array[int]
    scale: float
    bias: float
    points: Sequence[tuple[float, float]]
    threshold: float


class Packed(NamedTuple):
    """A model as it is stored: its recipe, its heads, and what else its header says."""

    recipe: Recipe
    heads: tuple[Head, ...]
    notes: Mapping[str, Note]


def pack(packed: Packed) -> bytes:
    """Return the bytes of a model file."""
    weights = b"".join(head.weights.tobytes() for head in packed.heads)
    header: dict[str, Note] = {
        "format": FORMAT,
        **packed.notes,
        "recipe": packed.recipe._asdict(),
        "heads": [_described(head) for head in packed.heads],
        "sha256": sha256(weights).hexdigest(),
    }
    line = json.dumps(header, ensure_ascii=True, separators=(",", ":"))
    return line.encode() + b"\n" + zlib.compress(weights, 9)


def unpack(data: bytes) -> Packed:
    """Return the model in the bytes of a file.

    Raises:
        ValueError: it is of another format, or damaged.
    """
    line, _, rest = data.partition(b"\n")
    header = json.loads(line)
    if header.pop("format", None) != FORMAT:
        message = f"not a linear model of format {FORMAT}"
        raise ValueError(message)
    weights = zlib.decompress(rest)
    if sha256(weights).hexdigest() != header.pop("sha256"):
        message = "the weights of a linear model are damaged"
        raise ValueError(message)
    recipe, described = Recipe(**header.pop("recipe")), header.pop("heads")
    size = 1 << recipe.bits
    heads = tuple(_head(row, weights[at * size : (at + 1) * size]) for at, row in enumerate(described))
    return Packed(recipe, heads, header)


def _described(head: Head) -> dict[str, Note]:
    described = head._asdict()
    del described["weights"]
    return described


def _head(row: dict[str, object], weights: bytes) -> Head:
    return Head(weights=array("b", weights), **row)  # type: ignore[arg-type] # as `_described` wrote it
