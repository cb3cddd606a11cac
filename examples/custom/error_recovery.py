"""Error recovery: if a prompt is too long, drop the oldest messages and retry."""

from penstock import Agent, APIErrorContext, Message, ModelError, Processor, Retry
from penstock.testing import ScriptedModel


class ShorterPrompt(Processor):
    """Drops the older half of the turns and retries if the prompt is too long.

    It drops whole turns, so no tool result loses its call. It keeps the last turn:
    if that alone is too long, the error is raised.
    """

    role = "transform"

    def process_api_error(self, ctx: APIErrorContext) -> Retry | None:
        error = ctx.error
        if (
            not isinstance(error, ModelError)
            or error.code != "context_length_exceeded"
        ):
            return None
        starts = [
            index
            for index, message in enumerate(ctx.messages)
            if message.role == "user"
        ]
        first = starts[len(starts) // 2] if starts else 0
        if first == 0:
            return None
        ctx.note(dropped=first)
        return Retry(
            messages=ctx.message_list.remove(
                *(message.id for message in ctx.messages[:first])
            )
        )


if __name__ == "__main__":
    too_long = {
        "error": {
            "status": 400,
            "code": "context_length_exceeded",
            "message": "too many tokens",
        }
    }
    model = ScriptedModel([too_long, too_long, "The third."])
    asked = [
        Message.user("First?"),
        Message.assistant("1"),
        Message.user("Second?"),
        Message.assistant("2"),
    ]
    result = Agent(model, processors=[ShorterPrompt()]).generate_sync(
        [*asked, Message.user("Third?")]
    )
    sizes = [len(request.messages) for request in model.requests]
    print(f"{result.text} after prompts of {sizes} messages")
