"""Ensure final response: make an agent answer in its last step without tools."""

from penstock import Agent, InputStepContext, Message, Processor
from penstock.engine import Overrides
from penstock.testing import ScriptedModel


class EnsureFinalResponse(Processor):
    """Disables the tools in the last step, and tells the model so.

    Pass the agent's ``max_steps``.
    """

    role = "transform"

    def __init__(self, max_steps: int) -> None:
        self.max_steps = max_steps

    def process_input_step(self, ctx: InputStepContext) -> Overrides | None:
        # as the agent counts them
        accepted = sum(step.finish_reason != "retry" for step in ctx.steps or ())
        if accepted < self.max_steps - 1:
            return None
        notice = Message.system(
            "No tools are left. Answer now with what you know, "
            "and say what is missing."
        )
        return Overrides(tool_choice="none", messages=ctx.message_list.add(notice))


def search(query: str) -> str:
    """Search for something."""
    return f"nothing about {query}"


if __name__ == "__main__":
    looks = {"tool_calls": [{"name": "search", "args": {"query": "Atlantis"}}]}
    model = ScriptedModel([looks, looks, "I found nothing about it."])
    agent = Agent(
        model, tools=[search], processors=[EnsureFinalResponse(3)], max_steps=3
    )
    result = agent.generate_sync("Where is Atlantis?")
    print(result.text)
    print([[tool.name for tool in request.tools] for request in model.requests])
    print(
        [
            message.text
            for message in model.requests[-1].messages
            if message.role == "system"
        ]
    )
