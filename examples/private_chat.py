"""A chat whose model never sees personal data.

The model gets tokens, and the client gets the original values back.

A `ScriptedModel` replaces a real one here, such as
`penstock.model("openai/gpt-5-mini")`.
"""

import anyio

from penstock import PIIDetector, Restore, Workflow
from penstock.engine import ModelRequest
from penstock.testing import ScriptedModel

ANSWER = "I have written to [EMAIL_1] and [EMAIL_2]. No card is needed."

chat = (
    Workflow("private-chat")
    .then(
        PIIDetector(
            redaction_method={"credit-card": "mask", "*": "token"}, phase="input"
        )
    )
    .then(Restore())
)
"""Addresses become tokens for the model, and are restored in its answers.

Card numbers are masked.
"""


async def main() -> None:
    """Send one message, and print what the model and the client read."""
    model = ScriptedModel([ANSWER])
    async with chat.start() as run:
        asked = await run.process_input(
            "Write to ann@example.com and bob@example.com "
            "that 4111 1111 1111 1111 is charged."
        )
        print("the model reads: ", asked.text)
        answer = model.stream(ModelRequest(asked.messages))
        async with run.process_output_stream(answer) as chunks:
            print(
                "the client reads:",
                "".join(
                    [
                        chunk.text
                        async for chunk in chunks
                        if chunk.type == "text-delta"
                    ]
                ),
            )


if __name__ == "__main__":
    anyio.run(main)
