"""A workflow as middleware of Microsoft's agent-framework: ``Agent(client, middleware=as_middleware(guard))``.

Needs the extra ``agent-framework``. The agent middleware opens a request for each run and checks the input; the chat
middleware stands around each model call, so that stream, response and history agree; the function middleware stands
around each tool.
"""

from penstock.engine.values.errors import MissingExtraError

try:
    from penstock.workflows.adapters.agent_framework.agent import GuardAgentMiddleware, as_middleware
    from penstock.workflows.adapters.agent_framework.chat import GuardChatMiddleware
    from penstock.workflows.adapters.agent_framework.running import GuardBlockedError
    from penstock.workflows.adapters.agent_framework.tools import GuardFunctionMiddleware
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.agent_framework", "agent-framework") from error

__all__ = [
    "GuardAgentMiddleware",
    "GuardBlockedError",
    "GuardChatMiddleware",
    "GuardFunctionMiddleware",
    "as_middleware",
]
