"""What holds of every picture: nothing overlaps, words stand in their boxes, and no arrow crosses a stranger."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from penstock.pictures.layout import NOTE, TITLE
from penstock.pictures.wrapping import text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.pictures.blocks import BlockWire, Point, Shape, Words
    from penstock.pictures.layout import Picture

NEAR = 0.01


def assert_sound_picture(picture: Picture) -> None:
    """Check that nothing of a picture is in the way of anything else."""
    shapes = {shape.id: shape for shape in picture.shapes}
    assert len(shapes) == len(picture.shapes)
    around = {shape.id: {shape.id, *_frames(shape, shapes)} for shape in picture.shapes}
    for shape in picture.shapes:
        assert 0 <= shape.x <= shape.x + shape.width <= picture.width + NEAR
        assert 0 <= shape.y <= shape.y + shape.height <= picture.height + NEAR
        _assert_words_fit(shape)
    for one, other in combinations(picture.shapes, 2):
        if one.id in around[other.id]:
            assert _below_head(one, other)
        elif other.id in around[one.id]:
            assert _below_head(other, one)
        else:
            assert not _meets(one, (other.x, other.y), (other.x + other.width, other.y + other.height)), (one, other)
    for wire in picture.wires:
        assert _touches(shapes[wire.source], wire.points[0])
        assert _touches(shapes[wire.target], wire.points[-1])
        own = around[wire.source] | around[wire.target]
        for begin, end in _line(wire):
            assert 0 <= min(begin[0], end[0]) <= max(begin[0], end[0]) <= picture.width + NEAR
            met = [one for one in picture.shapes if _meets(one, begin, end)]
            assert all(one.id in own for one in met), (wire, met)
            titles = [one for one in met for line in one.words if _crosses(one, line, begin, end)]
            assert not titles, (wire, titles)


def _frames(shape: Shape, shapes: dict[str, Shape]) -> Iterator[str]:
    while shape.parent:
        yield shape.parent
        shape = shapes[shape.parent]


def _width(line: Words) -> float:
    return text_width(line.text, TITLE, bold=True) if line.tone == "title" else text_width(line.text, NOTE)


def _assert_words_fit(shape: Shape) -> None:
    """Each line stands in its shape, in a frame above its rule, and below the line before it."""
    low = shape.head or shape.height
    for line in shape.words:
        left = line.x - _width(line) / 2 if line.middle else line.x
        assert -NEAR <= left <= left + _width(line) <= shape.width + NEAR, (shape, line)
        assert 8 < line.y < low, (shape, line)
    for one, other in pairwise(shape.words):
        assert other.y - one.y > 12 or other.x > one.x + _width(one), (shape, one, other)


def _line(wire: BlockWire) -> Iterator[tuple[Point, Point]]:
    """The pieces of a line; a curve as many small ones."""
    for begin, end in pairwise(wire.points):
        if not wire.curved or begin[0] == end[0]:
            yield begin, end
        else:
            half = (begin[1] + end[1]) / 2
            bends = (begin, (begin[0], half), (end[0], half), end)
            yield from pairwise(_on_curve(bends, step / 12) for step in range(13))


def _on_curve(bends: tuple[Point, Point, Point, Point], at: float) -> Point:
    rest = 1 - at
    shares = (rest**3, 3 * rest**2 * at, 3 * rest * at**2, at**3)
    return (
        sum(share * bend[0] for share, bend in zip(shares, bends, strict=True)),
        sum(share * bend[1] for share, bend in zip(shares, bends, strict=True)),
    )


def _crosses(shape: Shape, line: Words, begin: Point, end: Point) -> bool:
    """Whether a piece of an arrow runs through a line of words."""
    left = shape.x + line.x - (_width(line) / 2 if line.middle else 0.0)
    corners = (left, shape.y + line.y - 9), (left + _width(line), shape.y + line.y + 2)
    return _between(corners, begin, end)


def _below_head(frame: Shape, shape: Shape) -> bool:
    return (
        _touches(frame, (shape.x, shape.y))
        and _touches(frame, (shape.x + shape.width, shape.y + shape.height))
        and shape.y >= frame.y + frame.head
    )


def _touches(shape: Shape, point: Point) -> bool:
    x, y = point
    return shape.x - NEAR <= x <= shape.x + shape.width + NEAR and shape.y - NEAR <= y <= shape.y + shape.height + NEAR


def _meets(shape: Shape, begin: Point, end: Point) -> bool:
    if max(begin[1], end[1]) < shape.y or min(begin[1], end[1]) > shape.y + shape.height:
        return False  # most of them, and this is asked often
    return _between(((shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height)), begin, end)


def _between(corners: tuple[Point, Point], begin: Point, end: Point) -> bool:
    """Whether a slanted line, or a box that is given by two corners, shares more than its edge with a rectangle."""
    first, second = 0.0, 1.0
    for way in (0, 1):
        low, high = corners[0][way] + NEAR, corners[1][way] - NEAR
        start, stop = begin[way], end[way]
        if abs(stop - start) < 1e-9:
            if not low < start < high:
                return False
            continue
        at = sorted(((low - start) / (stop - start), (high - start) / (stop - start)))
        first, second = max(first, at[0]), min(second, at[1])
    return first < second
