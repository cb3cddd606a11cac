"""Stream filter: keep chunks of some types from the client, here reasoning."""

from collections.abc import Iterable

import anyio

from penstock import Agent, Chunk, OutputStreamContext, Processor
from penstock.testing import ScriptedModel


class StreamFilter(Processor):
    """Drops chunks whose type begins with one of the given strings.

    In a stream, returning None drops the chunk. Dropped content is not in the
    result or the history either. To hide reasoning from the client but keep it
    for the model, filter where you send the chunks to the client.
    """

    role = "transform"

    def __init__(self, types: Iterable[str]) -> None:
        self.types = tuple(types)

    def process_output_stream(
        self, chunk: Chunk, ctx: OutputStreamContext
    ) -> Chunk | None:
        _ = ctx
        return None if chunk.type.startswith(self.types) else chunk


async def main() -> None:
    """Show what leaves."""
    model = ScriptedModel([{"reasoning": "They want a number.", "text": "Seven."}])
    agent = Agent(
        model, processors=[StreamFilter(["reasoning-", "response-metadata"])]
    )
    async with agent.stream("How many?") as stream:
        print([chunk.type for chunk in [chunk async for chunk in stream]])
        print([part.type for part in (await stream.messages)[-1].parts])


if __name__ == "__main__":
    anyio.run(main)
