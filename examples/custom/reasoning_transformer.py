"""Reasoning transformer: show a model the reasoning of another model, as text."""

from penstock import (
    Agent,
    LLMRequestContext,
    Message,
    MessageList,
    Processor,
    TextPart,
)
from penstock.engine import Part, ReasoningPart
from penstock.testing import ScriptedModel


class ReasoningTransformer(Processor):
    """Converts the reasoning in earlier answers to text, in the prompt only.

    The conversation does not change. Most providers reject or ignore the reasoning
    of other providers, which is often signed.
    """

    role = "transform"
    on_error = "allow"

    def process_llm_request(self, ctx: LLMRequestContext) -> MessageList:
        return ctx.message_list.replace(
            *(
                message.with_parts(map(readable, message.parts))
                for message in ctx.message_list.conversation
            )
        )


def readable(part: Part) -> Part:
    """Return reasoning as text between tags, and any other part unchanged."""
    return (
        TextPart(f"<thinking>{part.text}</thinking>")
        if isinstance(part, ReasoningPart)
        else part
    )


if __name__ == "__main__":
    model = ScriptedModel(["It still is."])
    earlier = [
        Message.user("Is 91 a prime?"),
        Message.assistant(
            [ReasoningPart("91 = 7 x 13"), TextPart("No, it is composite.")]
        ),
    ]
    result = Agent(model, processors=[ReasoningTransformer()]).generate_sync(
        [*earlier, Message.user("Sure?")]
    )
    print(model.requests[0].messages[1].text)
    print([part.type for part in result.messages[1].parts])
