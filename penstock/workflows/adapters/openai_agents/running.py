"""`Running`: one run of the runner, with the request of its guards, and those of agents that run as tools in it.

A verdict is raised as one of the errors that users of the SDK know.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from agents import (
    Agent,
    AgentsException,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailResult,
    InputGuardrailTripwireTriggered,
    ItemHelpers,
    OutputGuardrail,
    OutputGuardrailResult,
    OutputGuardrailTripwireTriggered,
    ToolApprovalItem,
)

from penstock.engine.values.messages import Message
from penstock.engine.values.tripwire import BlockedError, Tripwire
from penstock.workflows.adapters.openai_agents.items import Items
from penstock.workflows.hosting import raised_as

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from agents import RunContextWrapper, TResponseInputItem

    from penstock.engine.values.frozen import Values
    from penstock.formats.wire import Value
    from penstock.workflows.hosting import Host, HostRequest


INPUT_STAGES = ("process_input", "process_input_step", "process_llm_request")
"""The stages of which a verdict means that the model was not called."""


class InputBlockedError(BlockedError, InputGuardrailTripwireTriggered):
    """A guard stopped a run before the model was called. It is the SDK's error for input guardrails, too.

    Attributes:
        tripwire: the verdict; also the ``output_info`` of `guardrail_result`.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        AgentsException.__init__(self, str(BlockedError(tripwire)))  # the SDK's own say what was triggered only
        self.tripwire = tripwire
        guardrail = InputGuardrail(_never, name=tripwire.processor_id)
        self.guardrail_result = InputGuardrailResult(guardrail, GuardrailFunctionOutput(tripwire, True))  # noqa: FBT003


class OutputBlockedError(BlockedError, OutputGuardrailTripwireTriggered):
    """A guard stopped a run at an answer, a tool or the result. It is the SDK's error for output guardrails, too.

    Attributes:
        tripwire: the verdict; also the ``output_info`` of `guardrail_result`, which does not hold the blocked text.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        AgentsException.__init__(self, str(BlockedError(tripwire)))  # the SDK's own say what was triggered only
        self.tripwire = tripwire
        guardrail = OutputGuardrail(_never, name=tripwire.processor_id)
        output = GuardrailFunctionOutput(tripwire, True)  # noqa: FBT003
        agent = Agent(name=tripwire.processor_id)
        self.guardrail_result = OutputGuardrailResult(guardrail, agent_output=None, agent=agent, output=output)


def _never(*_: object) -> GuardrailFunctionOutput:
    """Stand for the processor; the verdict has been given."""
    raise NotImplementedError("a processor has given this verdict; it is no guardrail that can be run")


def blocked_error(tripwire: Tripwire) -> InputBlockedError | OutputBlockedError:
    """Return a verdict as one of the SDK's errors."""
    return (InputBlockedError if tripwire.stage in INPUT_STAGES else OutputBlockedError)(tripwire)


raised_here = partial(raised_as, InputBlockedError, OutputBlockedError, made=blocked_error)
"""Raises a verdict as one of the SDK's errors."""


class Guarding:
    """The request of one run of the SDK, and its items.

    Its methods raise a `BlockedError` if a guard stopped the run.

    Attributes:
        request: the request.
        items: its items, both ways.
        read: the ids of the calls whose results were checked.
        failure: the error with which a guard ended the run where the SDK would make a text of it; None so far.
        state: the state of the run that goes on; None: it is a new one.
        session: the items that the session has given, before the run checks its input.
    """

    def __init__(self, host: Host, state: Value = None) -> None:
        self.request: HostRequest = host.open()
        self.items = Items(self.request)
        self.read: set[str] = set()
        self.failure: Exception | None = None
        self.state = state
        self.session: Sequence[TResponseInputItem] = ()
        self._begun = False

    @contextmanager
    def noted(self) -> Generator[None]:
        """Raise a verdict as one of the SDK's errors, and note it."""
        try:
            with raised_here():
                yield
        except Exception as error:
            self.failure = self.failure or error
            raise

    def verdict(self) -> Exception | None:
        """Return the error with which a guard has ended the run; None if it may go on."""
        if self.failure is None and self.request.tripwire is not None:
            return blocked_error(self.request.tripwire)
        return self.failure

    def check(self) -> None:
        """Raise the error with which a guard ended the run, if the SDK has not: it calls no model after some tools."""
        verdict = self.verdict()
        if verdict is not None:
            raise verdict

    def earlier(self) -> list[Message]:
        """Return the conversation of the run that goes on."""
        if self.state is None:
            return []
        made = [one for one in self.state._generated_items if not isinstance(one, ToolApprovalItem)]
        first = ItemHelpers.input_to_new_input_list(self.state._original_input)
        return self.items.read([*first, *(one.to_input_item() for one in made)])

    def input_left(self, given: str | Sequence[TResponseInputItem]) -> Value:
        """Return the input of the run as the guards left it; nothing if it was blocked."""
        verdict = self.request.tripwire
        if verdict is not None and verdict.stage in INPUT_STAGES:
            return []
        said = self.items.read(given)
        now = self.request.current(said)
        if [one and one.parts for one in now] == [one.parts for one in said]:
            return given
        if isinstance(given, str) and len(now) == 1 and now[0] is not None:
            return now[0].text
        return self.items.items_left(given)

    async def asked(self, instructions: str | None, items: Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
        """Check the input of a model call that is about to be made, and return it as the guards left it."""
        said = self.items.read(items)
        own = [Message.system(instructions)] if instructions else []
        self._begun = True
        with raised_here():
            await self.request.begin([*own, *said])
            self.check()
        return self.items.items_left(items)

    async def left(self, items: Sequence[TResponseInputItem]) -> list[TResponseInputItem]:
        """Return items that a session is about to keep as the guards left them."""
        said = self.items.read(items)
        if not self._begun:
            self._begun = True
            await self.request.begin(said, whole=False, earlier=self.items.read(self.session))
            self.request.check()  # later, the SDK stores what stands in the place of a blocked result
        return self.items.items_left(items)


class Running:
    """One run of the runner.

    Attributes:
        host: the processors.
        root: the guarding of the run itself; agents that are its tools have their own.
        hears: whether the run has hooks.
        result: the streamed result; None if nothing is streamed.
        tools: the guarding of each call of a tool, by the identity of its context, which is kept with it.
        definitions: the descriptions and schemas of function tools, by their names, as agents have them now.
    """

    def __init__(self, host: Host, *, hears: bool = False, state: Value = None) -> None:
        self.host = host
        self.hears = hears
        self.root = Guarding(host, state)
        self.result: Any = None
        self.tools: dict[int, tuple[object, Guarding]] = {}
        self.definitions: dict[str, Values] = {}
        self._of: dict[int, tuple[RunContextWrapper, Guarding]] = {}  # with the context, which so keeps its id

    def of(self, context: RunContextWrapper) -> Guarding:
        """Return the guarding of a run, by its context. The first one asked for is the root's."""
        known = self._of.get(id(context))
        if known is None:
            known = self._of[id(context)] = (context, Guarding(self.host) if self._of else self.root)
        return known[1]

    def clean(self, result: Any = None) -> None:
        """Put the input into a result, or into the details of an error, as the guards left it.

        Default: the streamed result. The SDK copies its input into errors, so it is cleaned once it was checked.
        """
        told = self.result if result is None else result
        if told is not None:
            told.input = self.root.input_left(told.input)
            first = getattr(told, "_original_input", None)  # what a state of the run, and its JSON, holds
            if first is not None:
                told._original_input = self.root.input_left(first)
        for context, guarding in self._of.values():
            if context.turn_input:
                context.turn_input = guarding.input_left(context.turn_input)

    def told(self, error: BaseException) -> BaseException:
        """Return the error that a failed run is to raise.

        That is the verdict of a guard, if the SDK has made an error of its own of it, or failed after it.
        """
        verdict = self.root.verdict()
        if verdict is None or not isinstance(error, AgentsException) or isinstance(error, BlockedError):
            return error
        if isinstance(verdict, AgentsException):
            verdict.run_data = error.run_data
        return verdict

    async def close(self, error: BaseException | None = None) -> None:
        """Close all requests."""
        await self.root.request.close(error)
        for _, guarding in self._of.values():
            await guarding.request.close(error)


running_now: ContextVar[Running | None] = ContextVar("penstock_openai_agents_run", default=None)
guarding_now: ContextVar[Guarding | None] = ContextVar("penstock_openai_agents_request", default=None)


@contextmanager
def cleaned() -> Generator[None]:
    """Clean the streamed result behind the block, in which its input is checked."""
    try:
        yield
    finally:
        running = running_now.get()
        if running is not None:
            running.clean()
