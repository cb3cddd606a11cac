"""Lowercase: what the user writes reaches the model in small letters."""

from penstock import Agent, InputContext, MessageList, Processor
from penstock.testing import ScriptedModel


class Lowercase(Processor):
    """Puts the user's texts into small letters; attachments, ids and order stay."""

    role = "transform"  # it improves,
    edits = "spans"  # changes stretches of text and nothing else,
    on_error = "allow"  # and protects nothing, so its failure need not stop anybody

    def process_input(self, ctx: InputContext) -> MessageList:
        mine = [message for message in ctx.messages if message.role == "user"]
        return ctx.message_list.map_text(str.lower, mine)


if __name__ == "__main__":
    model = ScriptedModel(["No need to shout."])
    result = Agent(model, processors=[Lowercase()]).generate_sync("WHERE IS MY PARCEL?")
    print("the model reads:", model.requests[0].messages[-1].text)
    print("it answers:     ", result.text)
