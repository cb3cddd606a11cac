"""System trimmer: limit the length of system prompts."""

from penstock import Agent, InputContext, MessageList, Processor, TextPart
from penstock.testing import ScriptedModel


class SystemTrimmer(Processor):
    """Cuts long system messages at the end of a line.

    It leaves messages alone that belong to another processor.
    """

    role = "transform"
    on_error = "allow"

    def __init__(self, most: int) -> None:
        self.most = most

    def process_input(self, ctx: InputContext) -> MessageList:
        return ctx.message_list.replace_system(
            [
                message.with_parts([TextPart(self._cut(message.text))])
                for message in ctx.system_messages
            ]
        )

    def _cut(self, text: str) -> str:
        if len(text) <= self.most:
            return text
        kept, _, _ = text[: self.most].rpartition("\n")
        return kept or text[: self.most]


if __name__ == "__main__":
    model = ScriptedModel(["Hello!"])
    rules = (
        "Be brief.\nBe kind.\nNever mention the weather, the traffic or the news."
    )
    Agent(model, instructions=rules, processors=[SystemTrimmer(30)]).generate_sync(
        "Hi"
    )
    for message in model.requests[0].messages:
        print(f"{message.role}: {message.text!r}")
