"""A workflow in Haystack: ``as_agent(Agent(…), guard)``; in pipelines, ``as_chat_generator(generator, guard)``.

Needs the extra ``haystack``. A guarded agent is Haystack's agent with the stages around its chat generator, so that the
stream, the replies and the state agree; its hooks check input, tool calls and results, before anything else sees them.
"""

from __future__ import annotations

from importlib import import_module

from penstock.engine.values.errors import MissingExtraError

try:
    import_module("haystack")
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.haystack", "haystack") from error

from penstock.workflows.adapters.haystack.agent import GuardedAgent, as_agent, tripwire_of
from penstock.workflows.adapters.haystack.generator import GuardedChatGenerator, as_chat_generator
from penstock.workflows.adapters.haystack.router import GuardRouter, as_router

__all__ = [
    "GuardRouter",
    "GuardedAgent",
    "GuardedChatGenerator",
    "as_agent",
    "as_chat_generator",
    "as_router",
    "tripwire_of",
]
