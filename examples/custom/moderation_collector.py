"""Moderation collector: remove ``data-moderation`` chunks from the stream, and collect them in a fact."""

from dataclasses import dataclass, field

from penstock import Agent, Chunk, Key, OutputResultContext, OutputStepContext, OutputStreamContext, Processor
from penstock.testing import ScriptedModel

FLAGS = Key[tuple[str, ...]]("moderation-flags")


class Tone(Processor):
    """Reports answers in capitals. The chunk that it writes passes the stream stage of all processors."""

    edits = "nothing"

    def process_output_step(self, ctx: OutputStepContext) -> None:
        if ctx.text.isupper():
            ctx.writer.write(Chunk("data-moderation", payload={"flag": "shouting", "step": ctx.step_number}))


@dataclass
class Flags:
    """What was flagged in one request."""

    found: list[str] = field(default_factory=list[str])


class ModerationCollector(Processor[Flags]):
    """Keeps ``data-moderation`` chunks from the client, and puts their content as a fact for the caller."""

    provides = (FLAGS,)

    def new_state(self) -> Flags:
        return Flags()

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext[Flags]) -> Chunk | None:
        if chunk.type != "data-moderation":
            return chunk
        ctx.state.found.append(f"{chunk.payload['flag']} in step {chunk.payload['step']}")
        return None

    def process_output_result(self, ctx: OutputResultContext[Flags]) -> None:
        ctx.put(FLAGS, tuple(ctx.state.found))


if __name__ == "__main__":
    agent = Agent(ScriptedModel(["NO!", "No, thank you."]), processors=[Tone(), ModerationCollector()])
    for _ in range(2):
        result = agent.generate_sync("Shall we?")
        print(result.text, result.facts[FLAGS], [part.type for part in result.messages[-1].parts])
