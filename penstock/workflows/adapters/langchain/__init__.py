"""A workflow in LangChain's agents: ``create_agent(model, tools, middleware=[as_middleware(guard)])``.

Needs the extra ``langchain``. The middleware wraps the model of each call, so that the stream, the state and the
checkpoints agree; its hooks check input before the first call, and tools around their calls. `as_agent` checks input
before LangGraph stores it. `as_chat_model` wraps a model that a graph made by hand calls.
"""

from __future__ import annotations

from importlib import import_module

from penstock.engine.values.errors import MissingExtraError

try:
    import_module("langchain.agents")
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.langchain", "langchain") from error

from penstock.workflows.adapters.langchain.agent import GuardedAgent, as_agent
from penstock.workflows.adapters.langchain.middleware import GuardMiddleware, as_middleware
from penstock.workflows.adapters.langchain.model import GuardedChatModel, as_chat_model

__all__ = ["GuardMiddleware", "GuardedAgent", "GuardedChatModel", "as_agent", "as_chat_model", "as_middleware"]
