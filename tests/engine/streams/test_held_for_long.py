"""A guard that holds a stream for long: the log says so once, while it still holds it."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import Chunk, OutputStreamContext, TextGuard, Workflow, processor
from penstock.engine.streams import steps

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Hangs(TextGuard):
    """Waits for an event."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def find(self, text: str, ctx: Any, *, final: bool) -> list[Any]:
        """Find nothing, in the end."""
        await self.go.wait()
        return []


@pytest.mark.parametrize("kind", ["guard", "hook", "watcher", "whole"])
async def test_a_step_that_holds_a_stream_for_long_is_logged_once(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each stream, and not if it is quick."""
    monkeypatch.setattr(steps, "LONG", 0.0)
    guard = Hangs()

    @processor(edits="nothing" if kind == "watcher" else "spans")
    async def hook(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        await guard.go.wait()
        return chunk

    item = guard if kind in ("guard", "whole") else hook
    workflow = Workflow("w").then(item)
    source = [Chunk("tool-call", id="c", payload={"name": "f", "arguments": {"q": "x"}})] if kind == "whole" else ["a"]
    for _ in range(2):
        guard.go = anyio.Event()
        async with workflow.start() as run, run.process_output_stream(source) as chunks:
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:

                    async def release() -> None:
                        while not caplog.records:
                            await anyio.lowlevel.checkpoint()
                        guard.go.set()

                    group.start_soon(release)
                    assert len([chunk async for chunk in chunks]) == 1
    held = [record.getMessage() for record in caplog.records if "held a stream" in record.getMessage()]
    assert len(held) == 1
    assert "timeout=" in held[0]
