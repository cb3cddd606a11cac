"""The memory of streams that are open, and what their readers get: pieces of a text are joined as they come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from penstock import Agent, Chunk, LLMResponseContext, Processor
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.growing_text import GrowingText
from penstock.workflows.agent.joined_chunks import JoinedChunks
from tests.workflows.agent.open_streams import PIECES, Waits

ROOT = Path(__file__).parents[3]
MOST = 40_000


@pytest.mark.rest
def test_an_open_stream_holds_its_text_and_not_its_pieces() -> None:
    """5,000 characters in 1,000 pieces, which alone would take 134 kB.

    A process of its own measures: other tests leave spans, tracers and caches in theirs, 4 kB a stream.
    """
    command = [sys.executable, "-m", "tests.workflows.agent.open_streams"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(ran.stdout)[1] <= MOST


@pytest.mark.anyio
async def test_a_processor_that_reads_the_chunks_of_an_answer_gets_each_piece() -> None:
    """As the model sent them."""
    seen: list[Chunk] = []

    class Reads(Processor):
        def process_llm_response(self, ctx: LLMResponseContext) -> None:
            seen.extend(ctx.chunks or ())

    model = Waits(1)
    model.may_end.set()
    await Agent(model, processors=[Reads()]).generate("Hi")
    assert [chunk.text for chunk in seen if chunk.text] == [f"{piece:04} " for piece in range(PIECES)]


kinds = st.sampled_from(["text-delta", "reasoning-delta", "text-end", "source", "tool-input-delta"])


@st.composite
def sent(draw: st.DrawFn) -> Chunk:
    """A chunk of an answer."""
    kind = draw(kinds)
    text = draw(st.text(max_size=3)) if kind.endswith("-delta") else ""
    payload = draw(st.sampled_from([{}, {"note": 1}]))
    return Chunk(kind, text, draw(st.sampled_from("ab")), payload)  # type: ignore[arg-type]


@given(st.lists(sent(), max_size=30))
def test_joined_chunks_make_the_same_answer(chunks: list[Chunk]) -> None:
    """The same message and the same other chunks; no two neighbours are pieces of one text."""
    joined, one, other = JoinedChunks(), Assembly(), Assembly()
    for chunk in chunks:
        joined.append(chunk)
        one.add(chunk)
        if chunk.type == "source":
            list(joined)  # to look does no harm
    left = [*joined]
    for chunk in left:
        other.add(chunk)
    assert one.message == other.message
    assert [*reversed(left)] == [*reversed(joined)]
    assert [chunk for chunk in left if not chunk.type.endswith("-delta")] == [
        chunk for chunk in chunks if not chunk.type.endswith("-delta")
    ]
    assert bool(joined) == bool(chunks)


@given(st.lists(st.text(max_size=5), max_size=400))
def test_a_growing_text_is_its_pieces_joined(pieces: list[str]) -> None:
    """However many there are, and whenever it is read."""
    text = GrowingText()
    for count, piece in enumerate(pieces, 1):
        text.write(piece)
        if count % 50 == 0:
            assert text.getvalue() == "".join(pieces[:count])
    assert text.getvalue() == "".join(pieces)
