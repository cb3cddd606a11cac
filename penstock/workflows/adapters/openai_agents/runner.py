"""`GuardRunner`: the SDK's runner with a workflow around its agents, and sessions that keep the guarded version."""

from __future__ import annotations

import copy
import inspect
import json
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
from agents import (
    AgentsException,
    RunConfig,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    RunState,
    ToolCallItem,
    ToolCallOutputItem,
)

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import freeze, is_mapping, thaw
from penstock.formats.parts import read_arguments
from penstock.formats.wire import is_object
from penstock.workflows.adapters.openai_agents.guarding import RESULT, guard, guard_config
from penstock.workflows.adapters.openai_agents.items import plain
from penstock.workflows.adapters.openai_agents.running import Running, cleaned, guarding_now, raised_here, running_now
from penstock.workflows.hosting import Host, HostCall, HostSupport
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from agents import Agent, ModelProvider, RunContextWrapper, RunResult, StreamEvent, TResponseInputItem
    from agents.items import RunItem
    from agents.memory import Session
    from agents.run_config import RunOptions
    from agents.run_error_handlers import RunErrorHandlerInput
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.openai_agents.running import Guarding
    from penstock.workflows.hosting import HostOptions


SUPPORT = HostSupport("openai_agents.as_runner", waits=True)

_KEPT_BY_PROVIDER = ("conversation_id", "previous_response_id", "auto_previous_response_id")

_OTHER_ARGUMENTS = (
    "The call was not run: a person approved it with other arguments, which cannot be passed on. Ask which ones."
)

_CONFIG: Any = RunConfig

C = TypeVar("C")


def as_runner(*processors: Item, **options: Unpack[HostOptions]) -> GuardRunner:
    """Return processors as a runner: its ``run(agent, "Hi")`` is guarded.

    It takes the place of the SDK's ``Runner``, with the same methods. One serves any number of agents and runs.

    Args:
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together.
    """
    return GuardRunner(Host(SUPPORT, processors, **options))


class GuardRunner:
    """Runs agents of the SDK, with a workflow around them. Made by `as_runner`.

    Agents that are run are changed once, so that their models and tools can be guarded; with the SDK's ``Runner`` they
    behave as before. A verdict is raised as `InputBlockedError` or `OutputBlockedError`, which are also the SDK's
    errors for input and output guardrails.

    Attributes:
        host: the processors.
    """

    def __init__(self, host: Host) -> None:
        self.host = host

    async def decide(self, state: RunState[C]) -> bool:
        """Put the decisions that are stored in ``reviews`` into the state of a run that was interrupted.

        Returns False, and changes nothing, if one is missing. A call that nobody decided about in time is rejected with
        a message that says so; and so is one that was approved with other arguments, which the SDK cannot take.
        Interruptions that are not in the store, such as of tools with ``needs_approval``, stay as they are.

        Args:
            state: the state, ``result.to_state()`` or one that was stored.

        Raises:
            UsageError: the runner has no ``reviews``.
            StorageError: the store failed.
        """
        reviews = self.host.stored_reviews
        items = {item.call_id or "": item for item in state.get_interruptions()}
        asked = {
            id: HostCall(item.name or "", read_arguments(item.arguments or "")[0], id) for id, item in items.items()
        }
        made = await reviews.decisions({id: reviews.id_of(call) for id, call in asked.items()})
        for id, one in (made or {}).items():
            if one.approved and one.arguments in (None, freeze(asked[id].arguments)):
                state.approve(items[id])
            else:
                state.reject(items[id], rejection_message=_OTHER_ARGUMENTS if one.approved else one.reason or None)
        return made is not None

    async def run(
        self,
        starting_agent: Agent[C],
        input: str | list[TResponseInputItem] | RunState[C],  # noqa: A002 - the SDK's name
        **options: Unpack[RunOptions[C]],
    ) -> RunResult:
        """Run an agent, as ``Runner.run`` does.

        Args:
            starting_agent: the agent.
            input: the user's input, a list of items, or the state of a run that was interrupted.
            options: the options of ``Runner.run``.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: the provider is to keep the conversation, which cannot be guarded.
        """
        prepared = _Prepared.of(self.host, starting_agent, input, options)
        running = prepared.running
        try:
            with prepared.active():
                result = await Runner.run(starting_agent, input, **prepared.options)
            running.root.check()
            await read_results(running.root, result.new_items)
        except BaseException as error:
            await prepared.end(error)
            if getattr(error, "run_data", None) is not None:
                running.clean(error.run_data)  # type: ignore[attr-defined]
            told = running.told(error)
            if told is not error:
                raise told from None
            raise
        await prepared.end()
        running.clean(result)
        return result

    def run_sync(
        self,
        starting_agent: Agent[C],
        input: str | list[TResponseInputItem] | RunState[C],  # noqa: A002 - the SDK's name
        **options: Unpack[RunOptions[C]],
    ) -> RunResult:
        """Run an agent, and wait for it; see `run`.

        All such runs share an event loop in a thread of its own, so connections that a client of a model keeps open
        serve the next run, too. Where an event loop runs already, as in a notebook, it stands still meanwhile.

        Raises:
            BlockedError: a guard stopped the run.
            UsageError: the provider is to keep the conversation; or the caller is itself part of such a run.
        """
        return wait_for(self.run(starting_agent, input, **options))

    def run_streamed(
        self,
        starting_agent: Agent[C],
        input: str | list[TResponseInputItem] | RunState[C],  # noqa: A002 - the SDK's name
        **options: Unpack[RunOptions[C]],
    ) -> RunResultStreaming:
        """Run an agent and stream what happens, as ``Runner.run_streamed`` does. See `run`.

        A verdict is raised where the events are read.

        Raises:
            UsageError: the provider is to keep the conversation, which cannot be guarded.
        """
        prepared = _Prepared.of(self.host, starting_agent, input, options)
        with prepared.active():
            result = Runner.run_streamed(starting_agent, input, **prepared.options)
        prepared.ends_with(result)
        return result


class GuardedStreaming(RunResultStreaming):
    """The result of a streamed run, which raises the error with which a guard has ended the run.

    Attributes:
        running: the run.
    """

    running: Running

    async def stream_events(self) -> AsyncGenerator[StreamEvent]:
        """Yield the events of the run.

        Raises:
            BlockedError: a guard stopped the run.
        """
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent]", super().stream_events())) as events:
                async for event in events:
                    if isinstance(event, RunItemStreamEvent):
                        await read_results(self.running.root, [*self.new_items, event.item])
                    yield event
                await read_results(self.running.root, self.new_items)
        except AgentsException as error:
            told = self.running.told(error)
            if told is not error:
                raise told from None
            raise
        self.running.root.check()

    @property
    def run_loop_exception(self) -> BaseException | None:
        """The error with which the run has ended."""
        error = super().run_loop_exception
        return None if error is None else self.running.told(error)


@dataclass
class _Prepared:
    """A run that is about to begin."""

    running: Running
    options: Any
    owned: ModelProvider | None = None

    @classmethod
    def of(cls, host: Host, agent: Agent, given_input: object, options: RunOptions) -> _Prepared:
        refused = [name for name in _KEPT_BY_PROVIDER if options.get(name)]
        if refused:
            raise UsageError(
                f"openai_agents.as_runner cannot guard runs with {', '.join(refused)}: the provider would keep what "
                "guards have removed; use a session in their place"
            )
        given: Any = options.get("run_config")
        config: RunConfig = _CONFIG(**given) if is_mapping(given) else copy.copy(given) if given else RunConfig()
        guard_config(config)
        config.output_guardrails = [*(config.output_guardrails or ()), RESULT]
        guard(agent)
        current: Any = getattr(given_input, "_current_agent", None)
        if current is not None:  # a run that was interrupted goes on with that agent
            guard(current)
        state = cast("RunState[Any]", given_input) if isinstance(given_input, RunState) else None
        running = Running(host, hears=options.get("hooks") is not None, state=state)
        made = {**options, "run_config": config}
        session = options.get("session")
        if session is not None:
            made["session"] = GuardedSession(session, running.root)
        handlers: Any = options.get("error_handlers")
        if handlers:
            made["error_handlers"] = {kind: _Handler(handler, running) for kind, handler in handlers.items()}
        return cls(running, made, None if given else config.model_provider)

    @contextmanager
    def active(self) -> Generator[None]:
        """Let the models and tools that are called here pass the guards."""
        tokens = running_now.set(self.running), guarding_now.set(None)
        try:
            yield
        finally:
            running_now.reset(tokens[0])
            guarding_now.reset(tokens[1])

    async def end(self, error: BaseException | None = None) -> None:
        """Close the requests, and the provider that was made for the run."""
        with anyio.CancelScope(shield=True):
            await self.running.close(error)
            if self.owned is not None:
                await self.owned.aclose()

    def ends_with(self, result: RunResultStreaming) -> None:
        """Close the requests when a streamed run has ended."""
        task = result.run_loop_task
        if task is None:
            raise UsageError("openai_agents.as_runner does not know this version of the SDK: a run has no task")
        self.running.result = result
        result.__class__ = GuardedStreaming
        cast("GuardedStreaming", result).running = self.running
        loop = task.get_loop()

        def done(ended: Any) -> None:
            error = UsageError("the run was cancelled") if ended.cancelled() else ended.exception()
            _ending.add(closing := loop.create_task(self.end(error)))
            closing.add_done_callback(_ending.discard)

        task.add_done_callback(done)


class _Handler:
    """What handles an error of the SDK: it gets the input of the run as the guards left it."""

    def __init__(self, inner: Callable[[RunErrorHandlerInput], object], running: Running) -> None:
        self._inner = inner
        self._running = running

    async def __call__(self, given: RunErrorHandlerInput) -> object:
        self._running.clean(given.run_data)
        given.run_data.history = self._running.root.input_left(given.run_data.history)
        made = self._inner(given)
        return await made if inspect.isawaitable(made) else made


_ending: set[object] = set()
"""The tasks that close the requests of streamed runs, which nothing else holds."""


class GuardedSession:
    """A session in one run. All but `add_items` is the session's own.

    Attributes:
        session_id: the id of the session.
        session_settings: its settings.

    Raises:
        UsageError: the provider would shorten the session from its own copy of the answers.
    """

    def __init__(self, inner: Session, guarding: Guarding) -> None:
        if callable(getattr(inner, "run_compaction", None)) and getattr(inner, "compaction_mode", None) != "input":
            raise UsageError(
                f"openai_agents.as_runner cannot guard {type(inner).__name__} unless its compaction_mode is 'input': "
                "the provider would shorten its own copy of the answers, which holds what guards have removed"
            )
        self._inner = inner
        self._guarding = guarding
        self._takes_context = all(_takes_context(getattr(inner, name)) for name in _METHODS)
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the session beyond the protocol."""
        return getattr(self._inner, name)

    def _with(self, wrapper: RunContextWrapper | None) -> Json:
        """Return the context of the run as an argument, for sessions that take it; the SDK does the same."""
        return {"wrapper": wrapper} if wrapper is not None and self._takes_context else {}

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper | None = None
    ) -> list[TResponseInputItem]:
        """Return the items of the session."""
        limited: Json = {} if limit is None else {"limit": limit}
        items = await self._inner.get_items(**limited, **self._with(wrapper))
        self._guarding.session = items  # new values get other tokens than those in it
        return items

    async def add_items(self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper | None = None) -> None:
        """Keep items as the guards left them.

        Raises:
            BlockedError: a guard stopped the run; nothing is kept.
        """
        with raised_here(), cleaned():
            left = await self._guarding.left(items)
        await self._inner.add_items(left, **self._with(wrapper))

    async def pop_item(self, *, wrapper: RunContextWrapper | None = None) -> TResponseInputItem | None:
        """Remove and return the last item."""
        return await self._inner.pop_item(**self._with(wrapper))

    async def clear_session(self, *, wrapper: RunContextWrapper | None = None) -> None:
        """Remove all items."""
        await self._inner.clear_session(**self._with(wrapper))


_METHODS = ("get_items", "add_items", "pop_item", "clear_session")


def _takes_context(method: Callable[..., object]) -> bool:
    """Return whether a method of a session takes the context of the run."""
    return "wrapper" in inspect.signature(method).parameters


async def read_results(guarding: Guarding, items: Sequence[RunItem]) -> None:
    """Put results into the items of a run as the guards left them; those that were read stay.

    Raises:
        BlockedError: a guard stopped the run.
    """
    names = {_call_id(item): item.tool_name for item in items if isinstance(item, ToolCallItem)}
    for item in items:
        call_id = _call_id(item)
        if isinstance(item, ToolCallOutputItem) and call_id and call_id not in guarding.read:
            await _read(guarding, item, call_id, names.get(call_id))


def _call_id(item: RunItem) -> str | None:
    raw = getattr(item, "raw_item", None)
    found = raw.get("call_id") if is_object(raw) else getattr(raw, "call_id", None)
    return found if isinstance(found, str) else None


async def _read(guarding: Guarding, item: ToolCallOutputItem, call_id: str, name: str | None) -> None:
    raw = plain(item.raw_item)
    said = raw.get("output")
    if said is None or not _may_be_rejected(raw):
        return
    with guarding.noted():
        left = await guarding.request.tool_result(name or "", freeze(said), call_id)
    guarding.read.add(call_id)
    if left != freeze(said):
        now: Value = thaw(left)
        item.output = now
        item.raw_item = {**raw, "output": now if isinstance(now, type(said)) else json.dumps(now, ensure_ascii=False)}


def _may_be_rejected(raw: Json) -> bool:
    """Return whether a result may be one that nobody has read, though its call is none that was.

    What editors and computers do is read without the id of the call; a rejected patch has failed.
    """
    kind = raw.get("type")
    return kind != "computer_call_output" and (kind != "apply_patch_call_output" or raw.get("status") == "failed")
