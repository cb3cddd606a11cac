"""Metadata: label incoming and outgoing messages, for storage or display."""

from penstock import Agent, InputContext, Message, OutputResultContext, Processor
from penstock.testing import ScriptedModel


class Metadata(Processor):
    """Adds the channel to incoming messages, and length and tokens to answers.

    The model does not see metadata.
    """

    role = "transform"
    edits = "spans"  # this includes metadata of messages
    on_error = "allow"

    def process_input(self, ctx: InputContext) -> list[Message]:
        channel = ctx.request_context.get("channel", "unknown")
        return [message.with_metadata(channel=channel) for message in ctx.messages]

    def process_output_result(self, ctx: OutputResultContext) -> list[Message]:
        tokens = ctx.usage and ctx.usage.total_tokens
        return [
            message.with_metadata(words=len(message.text.split()), tokens=tokens)
            for message in ctx.messages
        ]


if __name__ == "__main__":
    model = ScriptedModel(
        [{"text": "On Monday.", "usage": {"input_tokens": 20, "output_tokens": 3}}]
    )
    agent = Agent(model, processors=[Metadata()])
    result = agent.generate_sync(
        "When do you open?", request_context={"channel": "web"}
    )
    for message in result.messages:
        print(message.role, dict(message.metadata))
