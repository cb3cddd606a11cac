"""`Agent`: a model with instructions, tools and processors, and the requests made to it. It knows no host framework."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio

from penstock.engine.graph.builder import is_name
from penstock.engine.render import render
from penstock.engine.run.run import Run
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import freeze
from penstock.engine.values.ports import Model
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard
from penstock.tools.tool import as_tools
from penstock.workflows.agent.arrays import AgentMemory, Arrays
from penstock.workflows.agent.options import AGENT_OPTIONS, ARRAY_OPTIONS, RequestOptions, check_names
from penstock.workflows.agent.progress import Task
from penstock.workflows.agent.prompting import as_model, conversation
from penstock.workflows.agent.stream import AgentStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.workflow import Item
    from penstock.workflows.agent.options import (
        AgentOptions,
        CallOptions,
        RequestContext,
    )
    from penstock.workflows.agent.results import AgentResult


class Agent:
    """A model with instructions, tools, and processors at every stage of a request. Share it among requests.

    Args:
        model: the model: a `Model`, a name such as ``openai/gpt-5``, a model of pydantic-ai's, or a function of the
            request context that gives one of those.
        id: what the agent is called in errors and diagrams.
        name: the same, for people; the id by default.
        memory: a memory, whose processors are placed around the others.
        options: what holds for all requests, and what a call may say otherwise:

            - ``instructions``: what the model is told first: a text, messages, or a function of the request context.
            - ``tools``: functions, `Tool`s, specs of tools that the caller's side runs; a list, or a mapping by name.
            - ``processors``: processors and workflows, bound at every stage that they have. This and the other arrays
              may hold functions of the request context, or be one; each is evaluated once a request.
            - ``input_processors``, ``output_processors``: bound at the stages of input or output only, behind those.
            - ``error_processors``: those that are asked when a model call failed.
            - ``max_processor_retries``: how often in a row an answer may be rejected and asked for anew; None: never.
            - ``max_error_retries``: how often a failed model call may be made again within a step, if a processor asks
              for it. None: as ``max_processor_retries`` says, else 3, or what the error processors want.
            - ``max_steps``: how many accepted answers of the model a request may have: 5.
            - ``stop_when``: functions of the steps so far that may end a request after a step whose tools have run.
            - ``release``: when an answer's chunks may leave a stream; see `Run.process_output_stream`.
            - ``settings``, ``provider_options``: temperature, max_tokens …; what goes to the provider as it stands.
            - ``tool_choice``: ``auto``, ``none``, ``required``, or the names of the tools of which one must be called.
            - ``active_tools``: the names of the tools on offer; None: all.
            - ``output_type``: the type of the object to answer with: whatever pydantic can validate.
            - ``prepare_step``: called before each model call, behind the input's processors; returns what
              `process_input_step` may.
            - ``approve``: decides about calls to tools that want approval: True, False or a reason, or None, which ends
              the request with the status ``suspended``. Without it all of them do.
            - ``allow_empty``: whether the model may be asked without any message but the system's.
            - ``observers``: who is told what steps do. ``ids``, ``clock``: where ids and times come from.

    Raises:
        OptionError: an option is not allowed; of an entry of an array it tells the place.
        WorkflowError: the processors together cannot be run; all problems at once.
    """

    def __init__(
        self,
        model: Model | str | Callable[[RequestContext], Value] | Value,
        *,
        id: str | None = None,
        name: str | None = None,
        memory: AgentMemory | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        self.id = _named(id or name or "agent")
        self.name = name or self.id
        self.model = model if callable(model) and not isinstance(model, Model) else as_model(model)
        if memory is not None and not isinstance(cast("object", memory), AgentMemory):
            raise OptionError(
                "Agent", "memory", type(memory).__name__, "a Memory: something that places processors around"
            )
        self.memory = memory
        check_names("an agent", options, AGENT_OPTIONS)
        self.tools = as_tools(options.get("tools", ()))
        self._options = replace(RequestOptions(model=self.model, **options), tools=self.tools)
        arrays = self._arrays(self._options)
        self._plans = arrays.compiled(self.id) if arrays.fixed else None
        if self._plans is None:
            arrays.check_known(self.id)

    # Asking

    async def generate(self, messages: Value, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """Return what comes of a request. A blocked one is a result: ask ``result.tripwire``, or ``result.unwrap()``.

        Args:
            messages: a str, messages, or dicts in a known chat format.
            options: what is said for this request: instead of the agent ``model``, ``instructions``, ``tools``, the
                arrays (each replaces the agent's of its kind; an empty list removes it) and the other options of
                `Agent`; and ``system`` (more system messages), ``context`` (older messages), ``request_context``,
                ``thread_id``, ``resource_id``, ``run_id``, ``records``, and the functions ``on_chunk``,
                ``on_step_finish``, ``on_finish``, ``on_error``.

        Raises:
            ModelError: the model failed, and nobody asked for another try.
            StepFailedError: a processor broke whose policy is to raise.
            OptionError, UsageError, MessageError: what was given cannot be meant.
        """
        async with self.stream(messages, **options) as stream:
            async for _ in stream:
                pass
            return await stream.result

    def stream(self, messages: Value, **options: Unpack[CallOptions]) -> AgentStream[Any]:
        """Return a request's answer as it comes: ``async with agent.stream("Hi") as stream``.

        Args:
            messages: as in `generate`.
            options: as in `generate`.

        Raises:
            OptionError, UsageError: an option is not allowed.
        """
        asked = self._options.with_call(options)
        kept = not _ARRANGING.intersection(options)
        return AgentStream(lambda: self._prepared(messages, asked, kept=kept), asked)

    def generate_sync(self, messages: Value, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """Return what comes of a request, in an event loop of its own; see `generate`.

        Raises:
            UsageError: an event loop is running here already.
        """
        if _in_event_loop():
            raise UsageError(
                "generate_sync does not work where an event loop runs (notebooks, too): await agent.generate(...)"
            )

        async def asked() -> AgentResult[Any]:
            return await self.generate(messages, **options)

        return anyio.run(asked)

    def draw(
        self,
        format: Literal["mermaid", "dot", "text", "json"] = "text",  # noqa: A002
        stage: str | None = None,
    ) -> str:
        """Return the processors as a diagram, in the order of ``processors``, input, output, and error.

        Args:
            format: as in `Workflow.draw`.
            stage: draw only what has this stage.

        Raises:
            UsageError: an array is a function of the request context, so that there is nothing to draw yet.
        """
        if self._plans is None:
            raise UsageError(
                "an array is a function of the request context; what it gives is not known before a request"
            )
        return render(self.id, self._plans.root, format, stage)

    def __repr__(self) -> str:
        """Show the id and the model's name."""
        return f"<Agent {self.id!r}: {getattr(self.model, 'name', 'a function of the request context')}>"

    # Making ready

    async def _prepared(self, messages: Value, options: RequestOptions, *, kept: bool) -> tuple[Run, Task]:
        """Return a request's run and task; ``kept``: the agent's own arrays serve it."""
        context = _context(options)
        plans = self._plans if kept else None
        if plans is None:
            plans = await self._arrays(options).resolved(self.id, context)
        task = Task(
            await conversation(options, messages, context),
            await _settings(options, context),
            options.release,
            options.max_steps,
            options.endings,
            options.approve,
            options.allow_empty,
        )
        run = Run(
            plans,
            request_context=context,
            run_id=options.run_id,
            records=options.records,
            observers=options.observers,
            overlap=True,
            max_processor_retries=options.max_processor_retries,
            max_error_retries=options.error_retries(plans.wants_retries),
            ids=options.ids,
            clock=options.clock,
        )
        return run, task

    def _arrays(self, options: RequestOptions) -> Arrays:
        """Return the arrays of a request, with what the agent itself adds."""
        objects: tuple[Item, ...] = ()
        if options.output_type is not None:
            from penstock.processors.structure import StructuredOutputProcessor  # loaded where an object is asked for

            objects = StructuredOutputProcessor(options.output_type).around()
        own_input = list(objects[:1])
        if options.prepare_step is not None:
            from penstock.processors.routing import PrepareStepProcessor  # loaded where a callback is given

            own_input.append(PrepareStepProcessor(options.prepare_step))
        own_input.append(TrailingAssistantGuard())  # behind whatever chooses the model
        return Arrays(
            options.processors,
            options.input_processors,
            options.output_processors,
            options.error_processors,
            self.memory,
            tuple(own_input),
            objects[:1],
            objects[1:],
        )


async def _settings(options: RequestOptions, context: RequestContext) -> Values:
    """Return what each step starts from."""
    model = options.model
    if callable(model) and not isinstance(model, Model):
        model = model(context)
        if inspect.isawaitable(model):
            model = await model
    active = options.active_tools
    return {
        "model": as_model(model),
        "tools": as_tools(options.tools),
        "tool_choice": options.tool_choice,
        "active_tools": None if active is None else tuple(active),
        "model_settings": freeze(dict(options.settings)),
        "provider_options": freeze(dict(options.provider_options)),
        "response_format": None,
    }


_ARRANGING = frozenset({*ARRAY_OPTIONS, "output_type", "prepare_step"})
"""What changes which processors stand where."""


def _named(id: str) -> str:
    if not is_name(id):
        raise OptionError("Agent", "id", id, "a non-empty str without '/'")
    return id


def _in_event_loop() -> bool:
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True


def _context(options: RequestOptions) -> RequestContext:
    """Return the request context, with the thread and its owner in it; those are never entered into the caller's own.

    What a caller uses for several requests would carry the thread of one of them, and its memories, into the next.

    Raises:
        OptionError: it names another thread or owner already.
    """
    context = {} if options.request_context is None else options.request_context
    given = {"thread_id": options.thread_id, "resource_id": options.resource_id}
    added: RequestContext = {}
    for name, value in given.items():
        known = context.get(name)
        if value is not None and known is None:
            added[name] = value
        elif value is not None and known != value:
            raise OptionError("Agent", name, "another than the request context's", "the same in both, or in one only")
    return {**context, **added} if added else context
