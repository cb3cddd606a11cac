"""Moderation collector: move ``data-moderation`` chunks out of the stream."""

from dataclasses import dataclass, field

from penstock import (
    Agent,
    Chunk,
    Key,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    Processor,
)
from penstock.testing import ScriptedModel

FLAGS = Key[tuple[str, ...]]("moderation-flags")


class Tone(Processor):
    """Reports answers in capitals.

    The chunk that it writes passes the stream stage of all processors.
    """

    edits = "nothing"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        if ctx.text.isupper():
            flag = {"flag": "shouting", "step": ctx.step_number}
            ctx.writer.write(Chunk("data-moderation", payload=flag))


@dataclass
class Flags:
    """What was flagged in one request."""

    found: list[str] = field(default_factory=list[str])


class ModerationCollector(Processor[Flags]):
    """Keeps ``data-moderation`` chunks from the client.

    It puts their content as a fact for the caller.
    """

    provides = (FLAGS,)

    def new_state(self) -> Flags:
        return Flags()

    def process_output_stream(
        self, chunk: Chunk, ctx: OutputStreamContext[Flags]
    ) -> Chunk | None:
        if chunk.type != "data-moderation":
            return chunk
        flag = chunk.payload
        ctx.state.found.append(f"{flag['flag']} in step {flag['step']}")
        return None

    def process_output_result(self, ctx: OutputResultContext[Flags]) -> None:
        ctx.put(FLAGS, tuple(ctx.state.found))


if __name__ == "__main__":
    model = ScriptedModel(["NO!", "No, thank you."])
    agent = Agent(model, processors=[Tone(), ModerationCollector()])
    for _ in range(2):
        result = agent.generate_sync("Shall we?")
        parts = [part.type for part in result.messages[-1].parts]
        print(result.text, result.facts[FLAGS], parts)
