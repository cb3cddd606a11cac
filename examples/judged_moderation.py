"""Moderation by a model of one's choice: what it is asked, what it blocks, and what happens when it breaks.

A scripted model stands in for a real one: `penstock.model("openrouter/openai/gpt-oss-safeguard-20b")` would do.
"""

import json

import anyio

from penstock import ModerationProcessor, Workflow
from penstock.testing import ScriptedModel

CLEAN = json.dumps({"category_scores": [], "reason": None})
HARASSING = json.dumps(
    {"category_scores": [{"category": "harassment", "score": 0.93}], "reason": "insults a colleague"}
)


async def main() -> None:
    """Judge three texts: a clean one, one that harasses, and one at which the model gives no verdict."""
    model = ScriptedModel([CLEAN, HARASSING, "I would rather not say."], repeat_last=True)
    guard = Workflow("moderated").then(ModerationProcessor(model, threshold={"harassment": 0.8}, embedded=False))
    for text in ("Thank you for the quick answer.", "You are too dim to fill a form.", "What is the capital of Peru?"):
        outcome = await guard.check(text)
        print(f"{text!r}: {'blocked' if outcome.tripwire else 'passed'}")
        if outcome.tripwire:
            told = outcome.tripwire.metadata
            print(
                "   ", dict(told["categories"]) if "categories" in told else told["why"], "-", outcome.tripwire.reason
            )
    question = model.requests[1].messages
    print(f"The model is told what to judge in {len(question)} messages; the text itself stands between fences.")


if __name__ == "__main__":
    anyio.run(main)
