"""Moderation by a model: its task, its verdict, and an answer that is no verdict.

A `ScriptedModel` replaces a real one here, such as
`penstock.model("openrouter/openai/gpt-oss-safeguard-20b")`.
"""

import json

import anyio

from penstock import ModerationProcessor, Workflow
from penstock.testing import ScriptedModel

CLEAN = json.dumps({"category_scores": [], "reason": None})
HARASSING = json.dumps(
    {
        "category_scores": [{"category": "harassment", "score": 0.93}],
        "reason": "insults a colleague",
    }
)


async def main() -> None:
    """Check a harmless text, an insult, and a text that gets no verdict."""
    model = ScriptedModel(
        [CLEAN, HARASSING, "I would rather not say."], repeat_last=True
    )
    guard = Workflow("moderated").then(
        ModerationProcessor(model, threshold={"harassment": 0.8}, embedded=False)
    )
    for text in (
        "Thank you for the quick answer.",
        "You are too dim to fill a form.",
        "What is the capital of Peru?",
    ):
        outcome = await guard.check(text)
        print(f"{text!r}: {'blocked' if outcome.tripwire else 'passed'}")
        if outcome.tripwire:
            metadata = outcome.tripwire.metadata
            print(
                "   ",
                dict(metadata["categories"])
                if "categories" in metadata
                else metadata["why"],
                "-",
                outcome.tripwire.reason,
            )
    question = model.requests[1].messages
    print(
        f"The judge gets its task in {len(question)} messages, "
        "with the text between fences."
    )


if __name__ == "__main__":
    anyio.run(main)
