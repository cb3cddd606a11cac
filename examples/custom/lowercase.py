"""Lowercase: convert user messages to lower case before the model sees them."""

from penstock import Agent, InputContext, MessageList, Processor
from penstock.testing import ScriptedModel


class Lowercase(Processor):
    """Converts the texts of user messages to lower case.

    Attachments, ids and order do not change.
    """

    role = "transform"  # it improves the text
    edits = "spans"  # it changes stretches of text, and nothing else
    # it protects nothing, so a failure need not stop the request
    on_error = "allow"

    def process_input(self, ctx: InputContext) -> MessageList:
        written = [message for message in ctx.messages if message.role == "user"]
        return ctx.message_list.map_text(str.lower, written)


if __name__ == "__main__":
    model = ScriptedModel(["No need to shout."])
    result = Agent(model, processors=[Lowercase()]).generate_sync(
        "WHERE IS MY PARCEL?"
    )
    print("the model reads:", model.requests[0].messages[-1].text)
    print("it answers:     ", result.text)
