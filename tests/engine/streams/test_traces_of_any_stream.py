"""The traces of random streams: well-formed, in step with the records, and with a log that misses no character."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from tests.engine.streams.invariance import make
from tests.engine.streams.toys import recut, sizes_of
from tests.engine.traces import check_trace, span_of
from tests.laws import seeds

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True, scope="module")
def quiet_log() -> Iterator[None]:
    """Guards disagree here on purpose."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.parametrize("first", seeds(range(0, 400, 40)))
async def test_the_log_of_any_stream_has_all_that_came_and_all_that_left(first: int) -> None:
    """Any graph of guards, any answer, any chunks."""
    for seed in range(first, first + 40):
        case = make(seed)
        size = random.Random(seed).randrange(1, 6)  # noqa: S311 - no secret
        source = list(recut(case.answer, sizes_of((size,))))
        async with (
            case.workflow.start(records=True, texts=True) as run,
            run.process_output_stream(source) as chunks,
        ):
            left = [chunk async for chunk in chunks]
        trace = run.trace
        check_trace(trace, run.records)
        stage = span_of(trace, "process_output_stream")
        assert "".join(chunk.went_out for chunk in stage.chunks) == "".join(chunk.text for chunk in left), seed
        came = "".join(chunk.came_in for chunk in stage.chunks)
        assert "".join(chunk.text for chunk in source).startswith(came), seed
        assert all(chunk.held >= 0 for chunk in stage.chunks)
        if not run.tripwire:
            assert came == "".join(chunk.text for chunk in source), seed
            assert not stage.chunks or stage.chunks[-1].held == 0
