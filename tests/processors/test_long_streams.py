"""Long pieces of a stream, which the engine moves to a worker thread."""

from penstock import PIIDetector, Workflow
from penstock.engine.values.chunks import Chunk


async def test_long_pieces_of_a_stream_are_read_in_a_worker() -> None:
    """Within it, a guard does not look for an event loop: it failed there, and blocked the answer."""
    piece = "a b c d " * 700
    async with Workflow("guard").then(PIIDetector(strategy="redact")).start() as run:
        pieces = [Chunk("text-delta", text=piece, id="t") for _ in range(6)]
        async with run.process_output_stream(pieces) as chunks:
            out = "".join([chunk.text async for chunk in chunks])

    assert run.tripwire is None
    assert out == piece * 6
