"""`Agent`: a model with instructions, tools and processors, and the methods that send requests to it."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock.engine.graph.builder import is_name
from penstock.engine.processor.payload import NO_FACTS
from penstock.engine.run.run import Run
from penstock.engine.tasks import check_no_loop, run_in_own_loop
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.protocols import Model
from penstock.models.named import as_model
from penstock.pictures import render
from penstock.pictures.agent_parts import AgentParts
from penstock.processors.prompt.trailing_assistant_guard import TrailingAssistantGuard
from penstock.tools.tool import as_tools
from penstock.workflows.agent.approvals import ApprovalLog
from penstock.workflows.agent.options import AGENT_OPTIONS, LIST_OPTIONS, RequestOptions, check_names
from penstock.workflows.agent.processor_lists import AgentMemory, MemoryPlacement, ProcessorLists
from penstock.workflows.agent.questions import WAITING_STAGES
from penstock.workflows.agent.request import RequestTask, starting_messages
from penstock.workflows.agent.stream import AgentStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Unpack

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.tracing.trace import Trace
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import RunStore
    from penstock.engine.values.stored import StoredRun
    from penstock.engine.workflow import Item
    from penstock.tools.calling import ToolCallKeywords
    from penstock.tools.tool import Tool
    from penstock.workflows.agent.nested import OuterRequest
    from penstock.workflows.agent.options import (
        AgentOptions,
        CallOptions,
        RequestContext,
    )
    from penstock.workflows.agent.results import AgentResult
    from penstock.workflows.agent.suspended import Checkpoint
    from penstock.workflows.agent.sync_stream import SyncAgentStream
    from penstock.workflows.coverage.coverage import Coverage
    from penstock.workflows.review.reviews import Reviews


class Agent:
    """A model with instructions, tools, and processors at every stage of a request.

    An agent holds no data of a request: create it once and share it between requests, tasks and threads.

    Args:
        model: a `Model`, a name such as ``openai/gpt-5``, a model of pydantic-ai, or a function of the request context
            that returns one of these; the function may be async.
        id: the name of the agent in errors and diagrams; not empty, without ``/``. Default: ``name``, else ``agent``.
        name: the name for people. Default: the id.
        memory: a `Memory`, which adds its processors around yours. Default: None.
        reviews: where requests are stored that wait for people: `Reviews`, or a store such as `SQLiteStorage`. Any
            process with the same agent can then `resume` them. Default: None, only the caller has them.
        options: the defaults for all requests. `generate` and `stream` take the same options for one request:

            - ``instructions`` (str, messages, or a function of the request context; default: none): system messages.
            - ``tools`` (list, or mapping by name; default: none): functions, `Tool` objects, and specs of tools that
              the caller runs.
            - ``processors`` (default: none): processors and workflows; each runs at every stage that it implements.
              This and the next three options are lists. A list may contain functions of the request context, or be
              one; each function is called once per request, and may be async.
            - ``input_processors``, ``output_processors`` (default: none): run at the input or output stages only,
              after ``processors``.
            - ``error_processors`` (default: none): run when a model call fails, and may ask for a retry.
            - ``max_processor_retries`` (int from 0, or None; default None: 1): how often in a row an answer may be
              rejected and requested again.
            - ``max_error_retries`` (int from 0, or None; default None): how often a failed model call may be repeated
              within a step if an error processor asks for it. None means ``max_processor_retries`` if that is set,
              else 3, or the number that the error processors want if that is more.
            - ``max_steps`` (int from 1; default 5): how many accepted answers of the model a request may have.
            - ``max_depth`` (int from 1; default 32): how many agents may run within each other, this one included, each
              as a tool of the one before. One more is a `NestingError`, which ends all of their requests.
            - ``stop_when`` (a function of the steps so far, or a list of them; default: none): called after each step
              whose tools have run; a true value ends the request. May be async.
            - ``release`` (``auto``, ``live``, ``step`` or ``result``; default ``auto``): when chunks may leave a
              stream; see `Run.process_output_stream`.
            - ``settings`` (mapping; default: empty): temperature, max_tokens and other settings of the model call.
            - ``provider_options`` (mapping; default: empty): passed to the provider unchanged.
            - ``tool_choice`` (``auto``, ``none``, ``required``, or names of tools; default ``auto``): whether the model
              must call a tool, and which.
            - ``active_tools`` (names, or None; default None: all): the tools that are offered to the model.
            - ``output_type`` (default None): the type of the object to answer with: any type that pydantic validates.
            - ``prepare_step`` (function or None; default None): called before each model call, after the input
              processors; may return whatever `process_input_step` may return. May be async.
            - ``approve`` (function or None; default None): called with each call to a tool that needs approval.
              Returns True, False, a str (the reason for a refusal, shown to the model), or None, which ends the
              request with the status ``suspended``. Without it, every such call ends the request that way.
            - ``approvals`` (``any`` or ``asked``; default ``any``): which approvals in the messages of a request count,
              each once in a process. ``any``: of each call to a tool that needs approval, since a client may have been
              asked by another process. ``asked``: only of calls that this agent, or the thread in its memory, asked
              about. The rest count as calls that nobody has answered.
            - ``allow_empty`` (bool; default False): whether the model may be called without any message except system
              messages.
            - ``open_calls`` (``close`` or ``drop``; default ``close``): what a prompt holds of calls that nobody has
              answered, which providers refuse: the call with an error that says so, or nothing. Results without a call
              are always left out. The conversation itself keeps both.
            - ``ui_messages`` (bool; default False): whether the ``finish`` chunk of a stream has the answer as UI
              messages of the AI SDK, in its payload under ``ui_messages``: the answer as the client got it, and nothing
                  else.
            - ``observers`` (list; default: none): objects with ``on_record``, called with the record of each step, and
              ``on_event``, if they have it, called at the start and the end of each part of the request.
            - ``ids``, ``clock``: where ids and times come from. Default: random ids, and the system's clock.

    Raises:
        OptionError: an option is not allowed. For an entry of a processor list, the error names its position.
        UsageError: an option does not exist.
        WorkflowError: the processors cannot run together; the error lists all problems.
    """

    def __init__(
        self,
        model: Model | str | Callable[[RequestContext], Value] | Value,
        *,
        id: str | None = None,
        name: str | None = None,
        memory: AgentMemory | None = None,
        reviews: Reviews | RunStore | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        self.id = _checked_id(id or name or "agent")
        self.name = name or self.id
        self.model = model if callable(model) and not isinstance(model, Model) else as_model(model, "Agent")
        if memory is not None and not isinstance(cast("object", memory), AgentMemory):
            raise OptionError(
                "Agent", "memory", type(memory).__name__, "a Memory, or another object with a method around()"
            )
        self.memory = memory
        self.reviews: Reviews | None = None
        if reviews is not None:
            from penstock.workflows.review.reviews import as_reviews  # loaded where it is used

            self.reviews = as_reviews(reviews)
        check_names("an agent", options, AGENT_OPTIONS)
        self.tools = as_tools(options.get("tools", ()))
        self._approvals = ApprovalLog()
        self._options = replace(RequestOptions(model=self.model, **options), tools=self.tools)
        self._settings = _Settings(self._options)
        lists = self._lists(self._options)
        self._plans = lists.compiled(self.id) if lists.fixed else None
        if self._plans is None:
            lists.check_known(self.id)

    # Requests

    async def generate(self, messages: Value, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """Run a request to its end, and return the result.

        A blocked request is a result, not an exception: check ``result.tripwire``, or call ``result.unwrap()``.

        Args:
            messages: a str (a user message), messages, or dicts in a known chat format.
            options: the options of `Agent`, for this request only; a processor list replaces the agent's list of the
                same name, and an empty list removes it. These exist for a request only:

                - ``model``: another model.
                - ``system`` (str or messages): more system messages.
                - ``context`` (str or messages): older messages of the conversation.
                - ``request_context`` (dict): values that hooks and tools share.
                - ``thread_id``, ``resource_id`` (str): the thread and its owner, for a memory.
                - ``run_id`` (str): the id of the run. Default: a new id.
                - ``records`` (bool; default False): whether to record what each step does. ``result.trace`` is then
                  the whole request as data.
                - ``texts`` (bool; default False): whether the trace has the texts, also those that were hidden; needs
                  ``records=True``.
                - ``on_chunk``, ``on_step_finish``, ``on_finish``, ``on_error``: functions, also async ones, that are
                  called with each `Chunk`, each accepted `StepResult`, the `AgentResult`, or the error that ended the
                  request. An exception in one of them is logged, and the request goes on.

        Raises:
            ModelError: the model failed, and no error processor asked for a retry.
            StepFailedError: a processor with ``on_error="raise"`` failed.
            OptionError: an option is not allowed.
            UsageError: an option does not exist, or there is no message to answer.
            MessageError: a message cannot be parsed.
        """
        async with self.stream(messages, **options) as stream:
            async for _ in stream:
                pass
            return await stream.result

    def stream(self, messages: Value, **options: Unpack[CallOptions]) -> AgentStream[Any]:
        """Return a stream of the answer: ``async with agent.stream("Hi") as stream``.

        Args:
            messages: a str (a user message), messages, or dicts in a known chat format.
            options: the same options as for `generate`.

        Raises:
            OptionError: an option is not allowed.
            UsageError: an option does not exist.
        """
        merged = self._options.with_call(options)
        own_lists = not _LIST_CHANGING.intersection(options)
        reviews = self.reviews
        return AgentStream(lambda: self._prepared(messages, merged, own_lists=own_lists, reviews=reviews), merged)

    def generate_sync(self, messages: Value, **options: Unpack[CallOptions]) -> AgentResult[Any]:
        """Run a request in a new event loop, and return the result; takes the same arguments as `generate`.

        Raises:
            UsageError: an event loop is running already; a notebook runs one, too.
            PenstockError: the same errors as `generate`.
        """

        async def request() -> AgentResult[Any]:
            return await self.generate(messages, **options)

        return run_in_own_loop(request, "`await agent.generate(...)`")

    def stream_sync(self, messages: Value, **options: Unpack[CallOptions]) -> SyncAgentStream[Any]:
        """Return a stream of the answer without ``await``: ``with agent.stream_sync("Hi") as stream``.

        Takes the same arguments as `generate`. The request runs in a thread of its own.

        Raises:
            UsageError: an event loop is running already; a notebook runs one, too. Or an option does not exist.
            OptionError: an option is not allowed.
        """
        check_no_loop("`async with agent.stream(...)`")
        from penstock.workflows.agent.sync_stream import SyncAgentStream  # loaded where it is used

        return SyncAgentStream(self.stream(messages, **options))

    def as_tool(
        self, name: str | None = None, *, description: str | None = None, **options: Unpack[ToolCallKeywords]
    ) -> Tool:
        """Return the agent as a tool of another one: the model calls it with a ``prompt``, and gets its answer.

        If it has to wait for people, the request of the other agent waits with it, and both go on together:
        `Reviews` and `resume` take the decisions under the id of the other's run. Both are in the store of the other
        agent. If that one stores nothing, the call fails. It gets the other's request context, but no thread.

        Args:
            name: the name of the tool. None: the agent's id.
            description: what the model is told about it.
            options: as for `Tool`: ``approval``, ``concurrent``, ``timeout`` and others.

        Raises:
            OptionError: an option is not allowed.
        """
        from penstock.workflows.agent.nested import agent_tool  # loaded where it is used

        return agent_tool(self, name, description, **options)

    @property
    def may_ask(self) -> bool:
        """Whether its processors may ask a person; True if a function chooses them."""
        return self._plans is None or self._plans.asks

    async def generate_inner(
        self, prompt: str, context: RequestContext, *, run_id: str | None = None, outer: OuterRequest | None = None
    ) -> AgentResult[Any]:
        """Run a request for a tool of another agent, or go on with it; see `as_tool`.

        Args:
            prompt: the message.
            context: the request context.
            run_id: the id of the run. None: a new one.
            outer: the request of the other agent; None: it is not stored, so that this one is not, either.
        """
        options = self._options.with_call({"request_context": context, "run_id": run_id})

        async def prepare() -> tuple[Run, RequestTask]:
            if outer is None or run_id is None:
                return await self._prepared(prompt, options, own_lists=True, reviews=None)
            reviews = outer.checkpoint.reviews
            if await reviews.store.run(run_id) is None:
                return await self._prepared(prompt, options, own_lists=True, reviews=reviews, outer=outer)
            return await self._prepared_again(reviews, run_id, options, own_lists=True, outer=outer)

        async with AgentStream(prepare, options) as stream:
            async for _ in stream:
                pass
            return await stream.result

    # Requests that were suspended

    async def resume(
        self,
        run: str,
        /,
        *,
        decisions: Mapping[str, bool | str] = EMPTY,
        results: Mapping[str, Value] = EMPTY,
        by: str = "",
        **options: Unpack[CallOptions],
    ) -> AgentResult[Any]:
        """Go on with a request that was suspended, in any process that has this agent, and return the result.

        Of several that go on with it at once, one does. Its steps that were finished are not run again.

        Args:
            run: the id of the run, ``result.run_id``.
            decisions: decisions about calls that wait for approval, by their ids: True, False, or a str, the reason for
                a refusal, which the model gets. Those that were stored before, as by ``penstock review``, count too.
            results: the results of calls that the application ran, by their ids.
            by: who decides.
            options: as for `generate`; they are not stored. The messages, the thread and the run's id are.

        Raises:
            ReviewError: there is no such run, calls are undecided, a decision is not possible, another process goes on
                with it, it has ended, or the agent has changed since (see `Reviews`).
            UsageError: the agent has no ``reviews``.
            PenstockError: the same errors as `generate`. The run then stays suspended where it stood.
        """
        async with self.resume_stream(run, decisions=decisions, results=results, by=by, **options) as stream:
            async for _ in stream:
                pass
            return await stream.result

    def resume_stream(
        self,
        run: str,
        /,
        *,
        decisions: Mapping[str, bool | str] = EMPTY,
        results: Mapping[str, Value] = EMPTY,
        by: str = "",
        **options: Unpack[CallOptions],
    ) -> AgentStream[Any]:
        """Return a stream of the rest of a request that was suspended; takes the same arguments as `resume`.

        Raises:
            UsageError: the agent has no ``reviews``, or an option does not exist.
            OptionError: an option is not allowed.
        """
        reviews = self.reviews
        if reviews is None:
            raise UsageError("this agent stores no suspended requests; make it with reviews=SQLiteStorage(path)")
        options["run_id"] = run
        merged = self._options.with_call(options)
        own_lists = not _LIST_CHANGING.intersection(options)

        async def prepare() -> tuple[Run, RequestTask]:
            for call_id, said in decisions.items():
                if said is True:
                    await reviews.approve(run, call_id, by=by)
                else:
                    await reviews.reject(run, call_id, reason=said or "", by=by)
            for call_id, value in results.items():
                await reviews.answer(run, call_id, value, by=by)
            return await self._prepared_again(reviews, run, merged, own_lists=own_lists)

        return AgentStream(prepare, merged)

    async def _prepared_again(
        self,
        reviews: Reviews,
        run_id: str,
        options: RequestOptions,
        *,
        own_lists: bool,
        outer: OuterRequest | None = None,
    ) -> tuple[Run, RequestTask]:
        """Return the run and the task of a request that was suspended; this process has claimed it."""
        stored = await reviews.claim(run_id)
        try:
            known = replace(
                options,
                thread_id=options.thread_id or stored.thread_id,
                resource_id=options.resource_id or stored.resource_id,
            )
            return await self._prepared((), known, own_lists=own_lists, stored=stored, reviews=reviews, outer=outer)
        except BaseException:
            await reviews.unclaim(stored)
            raise

    def draw(
        self,
        format: Literal["mermaid", "dot", "text", "json", "svg", "html"] = "text",  # noqa: A002
        stage: str | None = None,
        *,
        detail: Literal["short", "full"] | None = None,
        trace: Trace | None = None,
    ) -> str:
        """Return the processor lists as a diagram: which list serves which stages, and the steps in it.

        A processor that serves several lists stands in each of them, with the stages at which it runs there.

        Args:
            format: ``mermaid``, ``dot``, ``text``, ``json``, ``svg`` or ``html``, as in `Workflow.draw`.
            stage: draw only the steps of this stage, in the order in which they run. None: all lists: input processors,
                the model with its tools, error processors, output processors.
            detail: ``short`` or ``full``, as in `Workflow.draw`.
            trace: a run to lay over the picture, as ``outcome.trace`` or ``result.trace``: which way it took, what each
                step did and cost, and what stopped it. Only for ``svg``.

        Raises:
            OptionError: there is no such format, stage or detail.
            UsageError: a processor list is, or contains, a function of the request context, so it is not known yet; or
                there is a trace, and the format does not show it.
        """
        if self._plans is None:
            raise UsageError("a processor list depends on the request context, so it is not known before a request")
        return render(
            self.id, self._plans, format, stage, detail, model=self._model_name, parts=self.parts, trace=trace
        )

    def coverage(self) -> Coverage:
        """Return which step reads which channel, as `Workflow.coverage` does.

        Raises:
            UsageError: a processor list is, or contains, a function of the request context, so it is not known yet.
        """
        if self._plans is None:
            raise UsageError("a processor list depends on the request context, so it is not known before a request")
        from penstock.workflows.coverage.coverage import Coverage  # loaded where it is used

        return Coverage(self._plans, self._options.release)

    @property
    def _model_name(self) -> str:
        return str(getattr(self.model, "name", "a function of the request context"))

    @property
    def plans(self) -> Plans | None:
        """The compiled processor lists; None if a list is, or contains, a function of the request context."""
        return self._plans

    @property
    def parts(self) -> AgentParts:
        """What pictures show of it beside its lists: its tools, and the processors of its memory."""
        placed = MemoryPlacement() if self.memory is None else self.memory.around(())
        return AgentParts(tuple(self.tools), (*placed.before, *placed.after))

    def __repr__(self) -> str:
        """Show the id and the model's name."""
        return f"<Agent {self.id!r}: {self._model_name}>"

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        """Return the forms for a notebook: the picture; the text where it shows none, or lists depend on a request."""
        if self._plans is None:
            return {"text/plain": repr(self)}
        return {"image/svg+xml": self.draw("svg"), "text/plain": self.draw("text")}

    # Preparing a request

    async def _prepared(
        self,
        messages: Value,
        options: RequestOptions,
        *,
        own_lists: bool,
        reviews: Reviews | None,
        stored: StoredRun | None = None,
        outer: OuterRequest | None = None,
    ) -> tuple[Run, RequestTask]:
        """Return the run and the task of a request.

        Args:
            messages: the messages to answer.
            options: the options of the request.
            own_lists: whether it changes no processor list.
            reviews: where it is stored if it waits for people; None: it is not.
            stored: the request as it was suspended; None: it is new.
            outer: the request whose tool it is; None: it is no tool.
        """
        context = _context(options)
        plans = self._plans if own_lists else None
        if plans is None:
            plans = await self._lists(options).resolved(self.id, context)
        task = RequestTask(
            await starting_messages(options, messages, context),
            await (self._settings if options is self._options else _Settings(options)).of(context),
            options.release,
            options.max_steps,
            options.stop_functions,
            options.approve,
            options.allow_empty,
            options.open_calls,
            approvals=self._approvals,
            asked_only=options.approvals == "asked",
            checkpoint=self._checkpoint(plans, options, reviews, stored, nested=outer is not None),
            judges_again=reviews is not None and reviews.on_change == "judge again",
        )
        run = Run(
            plans,
            request_context=context,
            run_id=options.run_id,
            records=options.records,
            texts=options.texts,
            observers=options.observers if task.checkpoint is None else (*options.observers, task.checkpoint.record),
            judge_log=None if task.checkpoint is None else task.checkpoint.record,
            agent=self.name,
            overlap=True,
            max_processor_retries=options.processor_retries,
            max_error_retries=options.error_retries(plans.wants_retries),
            ids=options.ids,
            clock=options.clock,
            facts=NO_FACTS if outer is None else outer.facts,
            may_suspend=() if task.checkpoint is None else WAITING_STAGES,
        )
        return run, task

    def _checkpoint(
        self,
        plans: Plans,
        options: RequestOptions,
        reviews: Reviews | None,
        stored: StoredRun | None,
        *,
        nested: bool = False,
    ) -> Checkpoint | None:
        """Return the form in which a request is stored when it is suspended; None if it is not.

        Raises:
            ReviewError: the request was suspended by an agent with other processors or tools, which `Reviews` refuses.
        """
        if reviews is None:
            return None
        from penstock.workflows.agent.suspended import Checkpoint, agent_fingerprint  # loaded where it is used

        def policy() -> str:  # made for each request that is stored: a processor may have been changed since the last
            return agent_fingerprint(render(self.id, plans, "json", None, "full"), as_tools(options.tools))

        return Checkpoint(reviews, self.name, policy, stored, nested=nested)

    def _lists(self, options: RequestOptions) -> ProcessorLists:
        """Return the processor lists of a request, with the processors that the agent adds itself."""
        objects: tuple[Item, ...] = ()
        if options.output_type is not None:
            from penstock.processors.structure import StructuredOutputProcessor  # loaded only if an object is requested

            objects = StructuredOutputProcessor(options.output_type).around()
        own_input = list(objects[:1])
        if options.prepare_step is not None:
            from penstock.processors.routing import PrepareStepProcessor  # loaded only if there is a callback

            own_input.append(PrepareStepProcessor(options.prepare_step))
        own_input.append(TrailingAssistantGuard())  # after everything that may choose the model
        return ProcessorLists(
            options.processors,
            options.input_processors,
            options.output_processors,
            options.error_processors,
            self.memory,
            tuple(own_input),
            objects[:1],
            objects[1:],
        )


class _Settings:
    """The settings that each step of a request starts from."""

    __slots__ = ("_choose", "_fixed")

    def __init__(self, options: RequestOptions) -> None:
        model, active = options.model, options.active_tools
        self._choose: Callable[[RequestContext], Value] | None = None
        if callable(model) and not isinstance(model, Model):
            self._choose = model
        self._fixed: dict[str, Value] = {
            "model": None if self._choose else as_model(model, "Agent"),
            "tools": as_tools(options.tools),
            "tool_choice": options.tool_choice,
            "active_tools": None if active is None else tuple(active),
            "model_settings": freeze(dict(options.settings)),
            "provider_options": freeze(dict(options.provider_options)),
            "response_format": None,
        }

    async def of(self, context: RequestContext) -> Values:
        """Return the settings of one request; its model may depend on the request context."""
        if self._choose is None:
            return self._fixed
        model = self._choose(context)
        if inspect.isawaitable(model):
            model = await model
        return {**self._fixed, "model": as_model(model, "Agent")}


_LIST_CHANGING = frozenset({*LIST_OPTIONS, "output_type", "prepare_step"})
"""The options that change the processor lists."""


def _checked_id(id: str) -> str:
    if not is_name(id):
        raise OptionError("Agent", "id", id, "a non-empty str without '/'")
    return id


def _context(options: RequestOptions) -> RequestContext:
    """Return the request context with the thread and its owner. The caller's own dict is not changed.

    A caller may use one dict for several requests; with the ids in it, the next request would read the wrong thread.

    Raises:
        OptionError: the dict names another thread or owner.
    """
    context = {} if options.request_context is None else options.request_context
    given = {"thread_id": options.thread_id, "resource_id": options.resource_id}
    added: RequestContext = {}
    for name, value in given.items():
        known = context.get(name)
        if value is not None and known is None:
            added[name] = value
        elif value is not None and known != value:
            raise OptionError(
                "Agent",
                name,
                "a value that differs from the one in request_context",
                "the same value in both, or a value in one of them only",
            )
    return {**context, **added} if added else context
