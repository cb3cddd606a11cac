"""Both matrices find what a loop over all vectors finds, whatever was taken in and let go of before."""

import math
import struct

import pytest
from hypothesis import given, strategies as st

from penstock.stores.matrices import DIGITS, MatrixQuery, VectorRow
from penstock.stores.matrices.fast import FastMatrix
from penstock.stores.matrices.plain import PlainMatrix

LENGTH = 3
NAMES = ("a", "b")
KINDS = (FastMatrix, lambda length: PlainMatrix())

numbers = st.integers(-4, 4).map(float)
vectors = st.lists(numbers, min_size=LENGTH, max_size=LENGTH).map(tuple)
rows = st.lists(st.tuples(vectors, st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30)
changes = st.lists(st.one_of(rows, st.integers(1, 4)), max_size=6)
"""Rows to take in, or: let go of every so-manieth."""


def packed(vector) -> bytes:
    """Return the vector as it is kept."""
    return struct.pack(f"<{len(vector)}f", *vector)


def score(one, other) -> float:
    """Return the cosine of both; None if one has no direction."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return round(sum(x * y for x, y in zip(one, other, strict=True)) / lengths, DIGITS) if lengths else None


def by_hand(kept: dict, query, limit, thread, resource, threshold) -> dict:
    """Return numbers and scores of what is to be found: all that are as near as the last of the nearest."""
    asked = {
        seq: score(query, vector)
        for seq, (vector, of_thread, of_resource) in kept.items()
        if thread in {None, of_thread} and resource in {None, of_resource} and score(query, vector) is not None
    }
    least = min(sorted(asked.values(), reverse=True)[:limit], default=0)
    return {seq: found for seq, found in asked.items() if found >= max(least, -1 if threshold is None else threshold)}


@pytest.mark.parametrize("kind", KINDS, ids=["with numpy", "without"])
@given(
    changes=changes,
    query=vectors,
    limit=st.integers(1, 12),
    thread=st.sampled_from((None, *NAMES, "none")),
    resource=st.sampled_from((None, *NAMES)),
    threshold=st.sampled_from((None, -1.0, 0.0, 0.6)),
)
def test_a_matrix_finds_what_a_loop_finds(kind, changes, query, limit, thread, resource, threshold):
    """Equal ones included, and scores to six digits."""
    matrix, kept, seq = kind(LENGTH), {}, 0
    for change in changes:
        if isinstance(change, int):
            kept = {number: row for number, row in kept.items() if number % change}
            matrix.keep(sorted(kept))
            continue
        new = {seq + at: row for at, row in enumerate(change, 1)}
        seq += len(change)
        kept.update(new)
        matrix.append([VectorRow(number, row[1], row[2], packed(row[0])) for number, row in new.items()])
    found = dict(matrix.nearest(MatrixQuery(packed(query), limit, thread, resource, threshold)))
    expected = by_hand(kept, query, limit, thread, resource, threshold)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1.1e-6)
