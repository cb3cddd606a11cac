"""Parts that are read as one are appended at once, with what comes of it one by one."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings, strategies as st

from penstock import TextGuard
from penstock.engine.tasks import run_without_loop
from penstock.engine.text_guards.window import TextReader
from penstock.engine.values.texts import TextPlace
from penstock.engine.workers import PIECE

if TYPE_CHECKING:
    from penstock.engine.text_guards.window import Scanned, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value

Seen = list[tuple[str, int, bool, list[tuple[int, TextPlace]]]]


class Together(TextGuard):
    """Reads the parts of a message as one, and finds nothing."""

    read_parts_separately = False
    reach = 3

    def find(self, text: str, ctx: Value, *, final: bool) -> Edits:
        """Find nothing."""
        del text, ctx, final
        return ()


def _reader(seen: Seen) -> TextReader:
    def scan(window: TextWindow) -> Scanned:
        parts = [(part.start, part.place) for part in window.parts]
        seen.append((window.text, window.start, window.final, parts))
        return (), max(len(window.text) - 2, window.start)

    return TextReader(Together(), scan, "tool", place=TextPlace("m", 0, (0,)))


async def _one_by_one(reader: TextReader, texts: list[str]) -> None:
    for index, text in enumerate(texts):
        if index:
            await reader.begin_part(TextPlace("m", 0, (index,)))
        reader.add(text)


LONG = "a long text " * (PIECE // 10)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["", "a", "some words ", "x" * 700, LONG]), min_size=1, max_size=12))
def test_the_guard_sees_the_same_windows(texts: list[str]) -> None:
    """Empty parts and parts longer than a piece too."""
    alone: Seen = []
    together: Seen = []
    reader = _reader(alone)
    run_without_loop(_one_by_one(reader, texts), "one by one")
    ends = [run_without_loop(reader.read(final=True), "read")]
    reader = _reader(together)
    reader.add_parts([(TextPlace("m", 0, (index,)), text) for index, text in enumerate(texts)])
    ends.append(run_without_loop(reader.read(final=True), "read"))
    assert alone == together
    assert ends[0] == ends[1]
    starts = [0, *accumulate(map(len, texts))][:-1]
    assert [part.start for part in reader.parts] == starts


@pytest.mark.parametrize("texts", [["one"], ["", "two"], ["a", "", "b"]])
def test_each_part_stands_in_its_place(texts: list[str]) -> None:
    """Also behind an empty part."""
    reader = _reader([])
    reader.add_parts([(TextPlace("m", 0, (index,)), text) for index, text in enumerate(texts)])
    assert [part.place.path for part in reader.parts] == [(index,) for index in range(len(texts))]
