"""A support chat: the guards of its messages, an agent with a tool, and a long workflow."""

from collections.abc import AsyncIterator

import anyio

from penstock import (
    Agent,
    InputContext,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    UnicodeNormalizer,
    Workflow,
)
from penstock.engine import Chunk, ModelRequest
from penstock.testing import ScriptedModel


def is_long(ctx: InputContext) -> bool:
    """Whether a text is too long to be answered at once."""
    return len(ctx.text) > 200


guard = (
    Workflow("support-guard")
    .then(UnicodeNormalizer())
    .parallel(PIIDetector(redaction_method="placeholder"), PromptInjectionDetector(), ModerationProcessor(), timeout=5)
    .branch((is_long, PIIDetector(id="long-texts")))
)
"""What each message of the chat must pass."""

long = Workflow("two-hundred-steps")
for number in range(1, 201):
    long = long.then(UnicodeNormalizer(id=f"step-{number}"))


class Slow:
    """A model that says what is written in its script, a word at a time."""

    name = "slow-model"

    def __init__(self, script: list[object]) -> None:
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the next answer of the script."""
        done = any(part.type == "tool" for part in request.messages[-1].parts)
        async for chunk in ScriptedModel([self._script[int(done)]]).stream(request):
            await anyio.sleep(0.05)
            yield chunk


def find_parcel(number: str) -> str:
    """Say where a parcel is.

    Args:
        number: the number of the parcel.
    """
    return f"Parcel {number} left the depot on Monday. Questions: depot@example.com"


ANSWER = (
    "Your parcel left the depot on Monday, so it should arrive tomorrow. You can write to depot@example.com any time."
)
agent = Agent(
    Slow(
        [
            {"tool_calls": [{"name": "find_parcel", "args": {"number": "A-1042"}}]},
            {"deltas": [f"{word} " for word in ANSWER.split()]},
        ]
    ),
    name="support",
    tools=[find_parcel],
    instructions="Answer in one sentence.",
    processors=[
        Workflow("support-guard")
        .then(UnicodeNormalizer())
        .parallel(PIIDetector(redaction_method="placeholder"), PromptInjectionDetector())
    ],
)
