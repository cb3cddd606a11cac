"""Calls of LiteLLM: as they are, with a processor that does nothing, and with `PIIDetector`."""

from __future__ import annotations

import os
from asyncio import Runner
from collections.abc import AsyncIterator, Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported

import litellm
from litellm.types.utils import ModelResponseStream

from penstock import OutputStepContext, PIIDetector, processor
from penstock.workflows.adapters.litellm import as_completion

PIECES = [f"word {number} of the text. " for number in range(100)]
ANSWER = "".join(PIECES)
MESSAGES = [{"role": "user", "content": "Hi"}]
MODEL = "fixed/one"


class Fixed(litellm.CustomLLM):
    """A provider with one answer."""

    async def acompletion(self, *_args: Any, **_given: Any) -> Any:
        """Return the answer."""
        return litellm.ModelResponse(choices=[{"message": {"role": "assistant", "content": ANSWER}}])

    async def astreaming(self, *_args: Any, **_given: Any) -> AsyncIterator[Any]:
        """Yield its pieces."""
        for piece in PIECES:
            yield ModelResponseStream(choices=[{"index": 0, "delta": {"content": piece}}])
        yield ModelResponseStream(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])


litellm.custom_provider_map = [{"provider": "fixed", "custom_handler": Fixed()}]


@processor("process_output_step", role="observer")
def look(_ctx: OutputStepContext) -> None:
    """Look at the answer, and find nothing."""


def measure() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return pairs of requests."""
    runner = Runner()
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for name, guard in (("no-op", look), ("PIIDetector", PIIDetector())):
        guarded = as_completion(guard)
        pairs[f"whole, {name}"] = (
            lambda: runner.run(litellm.acompletion(MODEL, MESSAGES)),
            lambda ours=guarded: runner.run(ours.acompletion(MODEL, MESSAGES)),
        )
        pairs[f"streamed, {name}"] = (
            lambda: runner.run(_read(litellm)),
            lambda ours=guarded: runner.run(_read(ours)),
        )
    return pairs


async def _read(target: Any) -> None:
    """Read a stream for nobody."""
    async for _ in await target.acompletion(MODEL, MESSAGES, stream=True):
        pass
