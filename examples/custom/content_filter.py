"""Content filter: some words stop a request, wherever they stand: in messages, in answers, in what tools say."""

import re
from collections.abc import Iterable

from penstock import Agent, Context, Edit, TextGuard
from penstock.testing import ScriptedModel


class ContentFilter(TextGuard):
    """Stops a request that holds one of the words. A guard over text is bound at every stage at which there is any.

    In a stream, text is held until it can no longer become one of the words: none is ever half on the screen.
    """

    def __init__(self, words: Iterable[str]) -> None:
        words = tuple(words)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)
        self.reach = max(map(len, words)) + 1  # the longest word, and the character behind it

    def find(self, text: str, ctx: Context, *, final: bool) -> Iterable[Edit]:
        _ = final
        if self._pattern.search(text):
            ctx.abort("the text holds a word that is not allowed here", metadata={"kind": "word"})  # not which one
        return ()


if __name__ == "__main__":
    agent = Agent(
        ScriptedModel(["You are welcome.", {"deltas": ["Ask the cas", "ino next door."]}]),
        processors=[ContentFilter(["casino", "roulette"])],
    )
    for question in ("Thanks!", "Teach me ROULETTE.", "Where can I play?"):
        result = agent.generate_sync(question)
        print(f"{question} -> {result.status}: {result.text or (result.tripwire and result.tripwire.stage)}")
