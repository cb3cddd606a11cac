"""Requests to the processors of skills, step by step, for their tests; it knows no agent."""

from typing import Any

from penstock import Processor, Workflow
from penstock.engine.run.run import Run
from penstock.engine.values.frozen import thaw
from penstock.processors.discovery import Skill

TESTING = Skill("testing", "Write tests & run them", "Do <it>.", "/sk/test")
DESIGN = Skill("api-design", "Design <APIs>", "Do REST.", "/sk/api")


class Session:
    """One request: its steps, and calls of what was offered in the last."""

    def __init__(self, run: Run, own: dict[str, Any]) -> None:
        self.run = run
        self.own = own

    async def step(self, **settings: Any) -> list[str]:
        """Take a step; what the model is told by system messages."""
        outcome = await self.run.process_input_step(tools=self.own, **settings)
        self.tools: Any = outcome.overrides.get("tools") or {}
        self.active = outcome.overrides.get("active_tools")
        return [message.text for message in outcome.message_list.system]

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call what the last step offered."""
        return thaw(await self.tools[name].call(arguments))


async def begun(processor: Processor[Any], own: dict[str, Any] | None = None, **context: Any) -> Session:
    """Begin a request."""
    made = Session(Workflow("w").then(processor).start(request_context=context), own or {})
    await made.run.process_input("hello")
    return made


async def told(processor: Processor[Any], **context: Any) -> list[str]:
    """What the model is told in a whole request of one step."""
    async with Workflow("w").then(processor).start(request_context=context) as run:
        await run.process_input("hello")
        return await Session(run, {}).step()
