"""`as_middleware`: a workflow as middleware of an agent. The agent's own middleware opens a request for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_framework import AgentMiddleware, ChatMiddlewareLayer, HistoryProvider, RawAgent

from penstock.engine.values.errors import UsageError
from penstock.workflows.adapters.agent_framework.chat import GuardChatMiddleware
from penstock.workflows.adapters.agent_framework.messages import Contents
from penstock.workflows.adapters.agent_framework.running import Bound, GuardBlockedError, Instructions
from penstock.workflows.adapters.agent_framework.tools import GuardFunctionMiddleware
from penstock.workflows.hosting import Host, HostSupport, raised_as

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_framework import AgentContext, ChatMiddleware, ContextProvider, FunctionMiddleware, Message
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.workflows.adapters.agent_framework.running import CallNext
    from penstock.workflows.hosting import HostOptions, HostRequest


# The agent's own instructions are trusted. Context providers put documents into theirs, so guards read those as input.
SUPPORT = HostSupport("agent_framework.as_middleware", trusted_instructions=False)


def as_middleware(
    *processors: Item, **options: Unpack[HostOptions]
) -> list[AgentMiddleware | ChatMiddleware | FunctionMiddleware]:
    """Return processors as middleware: ``Agent(client, middleware=as_middleware(guard))``.

    Put them last in the list: middleware that stands behind them reads text that the guards have not read.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    host = Host(SUPPORT, processors, **options)
    return [GuardAgentMiddleware(host), GuardChatMiddleware(host), GuardFunctionMiddleware(host)]


class GuardAgentMiddleware(AgentMiddleware):
    """Opens a request for each run of an agent, and checks its input before anything else reads it.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        self.host = host

    async def process(self, context: AgentContext, call_next: CallNext) -> None:
        """Run the agent as one request.

        Raises:
            GuardBlockedError: a guard stopped the run.
            UsageError: guards could not read all answers of the agent.
        """
        _check_agent(context.agent)
        request = self.host.open()
        defaults: Mapping[str, object] = getattr(context.agent, "default_options", None) or {}
        own = Instructions(defaults.get("instructions"), (context.options or {}).get("instructions"))
        middleware = [
            item.bound(request, own) if isinstance(item, Bound) and item.host is self.host else item
            for item in context.client_kwargs.get("middleware", ())
        ]
        if not any(isinstance(item, GuardChatMiddleware) and item.request is request for item in middleware):
            raise UsageError("nothing would read the answers; give the agent the whole list of as_middleware(…)")
        context.client_kwargs = {**context.client_kwargs, "middleware": middleware}
        context.stream_cleanup_hooks.append(request.close)
        try:
            await self._check_input(context, request)
            await call_next()
        except BaseException as failure:
            await request.close(failure)
            raise
        if not context.stream:
            await request.close()

    @staticmethod
    async def _check_input(context: AgentContext, request: HostRequest) -> None:
        contents = Contents(request)
        said = [(message, list(contents.read(message))) for message in context.messages]
        with raised_as(GuardBlockedError):
            earlier = [one for message in await _stored(context) for one in Contents(request).read(message)]
            await request.begin([one for _, group in said for one in group], whole=False, earlier=earlier)
            request.check()
        context.messages = contents.current(said)


async def _stored(context: AgentContext) -> list[Message]:
    """Return the messages that history providers are about to load."""
    session = context.session
    if session is None:
        return []
    given: list[ContextProvider] = getattr(context.agent, "context_providers", [])
    found: list[Message] = []
    for provider in given:
        if isinstance(provider, HistoryProvider) and provider.load_messages:
            state = session.state.setdefault(provider.source_id, {})
            found += await provider.get_messages(session.session_id, state=state)
    return found


def _check_agent(agent: object) -> None:
    """Refuse an agent of which no middleware can read all answers.

    Raises:
        UsageError: it stores answers before any middleware can read them, or its model takes no middleware.
    """
    if getattr(agent, "require_per_service_call_history_persistence", False):
        raise UsageError(
            "require_per_service_call_history_persistence stores each answer before any middleware can read it; "
            "create the agent without it"
        )
    client = getattr(agent, "client", None)
    if not issubclass(type(agent), RawAgent) or not isinstance(client, ChatMiddlewareLayer):
        raise UsageError(
            f"as_middleware(…) needs an Agent with a chat client that takes middleware (ChatMiddlewareLayer), since "
            f"nothing else would read the answers; this is {type(agent).__name__} with {type(client).__name__}"
        )
