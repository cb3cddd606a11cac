"""Requests to a `ToolSearchProcessor`, step by step, for its tests; it knows no agent."""

from collections.abc import Sequence
from typing import Any

from penstock import Processor, Workflow
from penstock.engine.run.run import Run
from penstock.engine.values.frozen import thaw
from penstock.tools.tool import Tool


def get_weather(city: str) -> str:
    """Get current weather for a city."""
    return f"sun in {city}"


def send_email(to: str) -> str:
    """Send an email message to a recipient."""
    return f"sent to {to}"


TOOLS = [get_weather, send_email]
META = ["search_tools", "load_tool"]


class Session:
    """One request of a thread: its steps, and calls of what was offered in the last."""

    def __init__(self, run: Run, own: Sequence[Any] = ()) -> None:
        self.run = run
        self.own = {tool.name: tool for tool in map(as_tool, own)}
        self.settings: Any = {}

    async def offered(self) -> list[str]:
        """Take a step; what the model could call."""
        outcome = await self.run.process_input_step(tools=self.own, **self.settings)
        self.tools: Any = outcome.overrides.get("tools") or {}
        self.active = outcome.overrides.get("active_tools")
        self.system = [message.text for message in outcome.message_list.system]
        return list(self.tools)

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call what the last step offered."""
        return thaw(await self.tools[name].call(arguments))


def as_tool(item: Any) -> Tool:
    """A tool of a function."""
    return item if isinstance(item, Tool) else Tool(item)


async def session(processor: Processor[Any], *own: Any, **context: Any) -> Session:
    """Begin a request, and take its first step."""
    made = Session(Workflow("w").then(processor).start(request_context=context), own)
    await made.run.process_input("hello")
    await made.offered()
    return made


def call(name: str, **arguments: Any) -> Any:
    """A turn of a model that calls a tool."""
    return {"tool_calls": [{"name": name, "args": arguments}]}
