"""Content filter: block messages, answers and tool data with certain words."""

import re
from collections.abc import Iterable

from penstock import Agent, Context, Edit, TextGuard
from penstock.testing import ScriptedModel


class ContentFilter(TextGuard):
    """Blocks requests that contain one of the words.

    A `TextGuard` runs at every stage that has text. In a stream, text is held while
    it could still become one of the words, so no part of a word is ever sent.
    """

    def __init__(self, words: Iterable[str]) -> None:
        words = tuple(words)
        self._pattern = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE
        )
        # the longest word, and the character after it
        self.reach = max(map(len, words)) + 1

    def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
        _ = final
        if self._pattern.search(text):
            # do not quote it
            ctx.abort(
                "the text contains a forbidden word", metadata={"kind": "word"}
            )
        return ()


if __name__ == "__main__":
    agent = Agent(
        ScriptedModel(
            ["You are welcome.", {"deltas": ["Ask the cas", "ino next door."]}]
        ),
        processors=[ContentFilter(["casino", "roulette"])],
    )
    for question in ("Thanks!", "Teach me ROULETTE.", "Where can I play?"):
        result = agent.generate_sync(question)
        said = result.text or (result.tripwire and result.tripwire.stage)
        print(f"{question} -> {result.status}: {said}")
