"""An agent as a tool of another: its request waits for people in the store of the outer one, which waits with it."""

from __future__ import annotations

from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.engine.values.errors import PenstockError
from penstock.tools.context import ToolContext, ToolFailed
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.questions import PendingQuestion
    from penstock.tools.calling import ToolCallKeywords
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.review.reviews import Reviews

NOBODY = "it needs the decision of a person, and nobody can be asked here"
"""Why a call of an agent has no result if the outer request is not stored."""


class OuterCheckpoint(Protocol):
    """The stored form of a request whose tool is an agent: a `Checkpoint`."""

    @property
    def reviews(self) -> Reviews:
        """Where it is stored."""
        ...

    async def released(self, run_id: str) -> Values | None:
        """Return the result of a nested request that has ended; None if there is none."""
        ...

    async def waits(self, run_id: str) -> tuple[PendingQuestion, ...] | None:
        """Return the questions of a nested request that still waits for people; None if it does not."""
        ...


class NestedAgent(Protocol):
    """An agent that is a tool: an `Agent`."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Its tools, by name."""
        ...

    @property
    def may_ask(self) -> bool:
        """Whether its processors may ask a person."""
        ...

    async def generate_inner(
        self, prompt: str, context: dict[str, Value], *, run_id: str | None = None, outer: OuterRequest | None = None
    ) -> AgentResult:
        """Run a request, or go on with it; see `Agent.generate_inner`."""
        ...


class OuterRequest(NamedTuple):
    """The request that calls an agent as its tool.

    Attributes:
        checkpoint: its stored form.
        facts: the facts that both share: the values that its guards have hidden, by their tokens.
    """

    checkpoint: OuterCheckpoint
    facts: Facts


OUTER: ContextVar[OuterRequest | None] = ContextVar("penstock.outer_request", default=None)
"""The request whose tool the current task runs; None if it is not stored."""


class InnerWaitsError(PenstockError):
    """Carries the news that an agent waits for people out of its tool.

    Attributes:
        run_id: the id of its run.
        questions: the questions of its processors.
    """

    def __init__(self, run_id: str, questions: Sequence[PendingQuestion]) -> None:
        self.run_id = run_id
        self.questions = tuple(questions)
        super().__init__(f"the agent of the run {run_id!r} waits for people")


def inner_run_id(run_id: str, call_id: str) -> str:
    """Return the id of the run of an agent that a call runs: the same in each process that runs the call."""
    return f"{run_id}-{sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def inner_agent(tool: Tool | None) -> NestedAgent | None:
    """Return the agent that a tool is; None if it is none."""
    found: NestedAgent | None = getattr(None if tool is None else tool.function, "inner_agent", None)
    return found


def may_wait(tool: Tool | None, within: Sequence[NestedAgent] = ()) -> bool:
    """Return whether a tool is an agent that may wait for people, by what its processors and tools say.

    Args:
        tool: the tool.
        within: the agents that it is a tool of, which are not looked at again.
    """
    agent = inner_agent(tool)
    if agent is None or any(agent is one for one in within):
        return False
    return agent.may_ask or any(
        one.is_external or one.approval is not False or may_wait(one, (*within, agent)) for one in agent.tools.values()
    )


def agent_tool(
    agent: NestedAgent, name: str | None, description: str | None, **options: Unpack[ToolCallKeywords]
) -> Tool:
    """Return an agent as a tool; see `Agent.as_tool`."""

    async def ask(prompt: str, ctx: ToolContext) -> str:
        context = {key: value for key, value in ctx.request_context.items() if key != "thread_id"}
        outer = OUTER.get()
        if outer is None:
            result = await agent.generate_inner(prompt, context)
            if result.status == "suspended":
                raise ToolFailed(NOBODY)
            return _text_of(result.text, None if result.tripwire is None else result.tripwire.reason)
        run_id = inner_run_id(ctx.run_id, ctx.call_id)
        ended = await outer.checkpoint.released(run_id)
        if ended is not None:
            return _text_of(ended["text"], ended["blocked"])
        waiting = await outer.checkpoint.waits(run_id)
        if waiting is not None:
            raise InnerWaitsError(run_id, waiting)
        result = await agent.generate_inner(prompt, context, run_id=run_id, outer=outer)
        if result.status == "suspended":
            raise InnerWaitsError(run_id, result.questions)
        return _text_of(result.text, None if result.tripwire is None else result.tripwire.reason)

    ask.inner_agent = agent  # type: ignore[attr-defined]
    told = description or f"Ask the agent {agent.name!r}, and get its answer."
    return Tool(ask, name=name or agent.id, description=told, **options)


def _text_of(text: str, blocked: str | None) -> str:
    """Return the answer of an agent.

    Raises:
        ToolFailed: it was blocked.
    """
    if blocked is not None:
        raise ToolFailed(f"the agent's answer was blocked: {blocked}")
    return text
