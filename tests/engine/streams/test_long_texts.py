"""Texts longer than what a guard looks back at: nothing of them is lost, and no guard sees more than it must."""

from __future__ import annotations

import pytest

from penstock import Chunk, Workflow
from penstock.engine.streams import stream
from penstock.engine.tasks import Pace
from tests.engine.streams.toys import Rule, Toy

SENTENCE = "a word, another word, and a secret one. "


def redactor() -> Toy:
    """Hide the secret."""
    return Toy(Rule("secret", "redact", "***"), lookback=64)


@pytest.mark.parametrize("size", [1, 7, 600, 5_000])
def test_a_text_longer_than_what_is_looked_back_at_leaves_whole(size: int) -> None:
    """What a guard forgets is behind it; positions still count from the text's beginning."""
    text = SENTENCE * 200
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with Workflow("w").then(redactor()).start_sync().process_output_stream(pieces) as chunks:
        out = "".join(chunk.text for chunk in chunks)

    assert out == text.replace("secret", "***")


def test_a_neighbouring_text_is_looked_at_from_its_own_beginning() -> None:
    """A part behind another one counts from where it begins."""
    source = [Chunk("text-delta", SENTENCE, "1"), Chunk("text-end", id="1"), Chunk("text-delta", SENTENCE, "2")]
    with Workflow("w").then(redactor()).start_sync().process_output_stream(source) as chunks:
        out = "".join(chunk.text for chunk in chunks)

    assert out == (SENTENCE * 2).replace("secret", "***")


def test_a_guard_sees_little_more_of_a_long_text_than_it_holds() -> None:
    """The window stays small however long the text is."""
    toy = redactor()
    with Workflow("w").then(toy).start_sync().process_output_stream([SENTENCE] * 1_000) as chunks:
        for _ in chunks:
            pass

    assert toy.longest < 1_000


async def test_before_each_long_piece_the_loop_may_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short pieces are many between two looks at the clock; of pieces that take long to search, each has one."""
    looks = 0

    class Counted(Pace):
        async def rest(self) -> None:
            nonlocal looks
            looks += 1
            await super().rest()

    monkeypatch.setattr(stream, "Pace", Counted)
    async with Workflow("w").then(redactor()).start().process_output_stream(["an easy text " * 100] * 40) as chunks:
        out = "".join([chunk.text async for chunk in chunks])

    assert len(out) == 40 * 1_300
    assert looks >= 40
