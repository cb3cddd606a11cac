"""Word counter: count the words of a streamed answer, and tell the client."""

from dataclasses import dataclass, field

import anyio

from penstock import (
    Agent,
    Chunk,
    OutputResultContext,
    OutputStreamContext,
    Processor,
)
from penstock.testing import ScriptedModel


@dataclass
class Count:
    """The state of one request. The processor itself is shared by all requests."""

    words: dict[int, int] = field(default_factory=dict[int, int])  # by step
    in_word: bool = False


class WordCounter(Processor[Count]):
    """Counts words; a word that is split over two chunks counts once."""

    role = "observer"

    def new_state(self) -> Count:
        return Count()

    def process_output_stream(
        self, chunk: Chunk, ctx: OutputStreamContext[Count]
    ) -> None:
        count, step = ctx.state, ctx.step_number
        if chunk.type == "step-start":  # a retry begins with one, too
            count.words[step] = 0
        if chunk.type == "text-delta":
            for letter in chunk.text:
                count.words[step] += not letter.isspace() and not count.in_word
                count.in_word = not letter.isspace()
        else:
            count.in_word = False

    def process_output_result(self, ctx: OutputResultContext[Count]) -> None:
        kept = [s.number for s in ctx.steps or () if s.finish_reason != "retry"]
        words = {"words": sum(ctx.state.words[number] for number in kept)}
        ctx.writer.write(Chunk("data-words", payload=words, transient=True))


async def main() -> None:
    """Show what a client sees."""
    model = ScriptedModel([{"deltas": ["Two wo", "rds and ", "three more."]}])
    agent = Agent(model, processors=[WordCounter()])
    async with agent.stream("Say something.") as stream:
        async for chunk in stream:
            if chunk.text:
                print(repr(chunk.text))
            elif chunk.is_data:
                print(dict(chunk.payload))


if __name__ == "__main__":
    anyio.run(main)
