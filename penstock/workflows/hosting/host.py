"""`Host`: processors, checked against the features of a framework. It opens one `HostRequest` for each request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypedDict, cast, get_args

from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.payload import NO_FACTS
from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.run.conversation import MAX_ERROR_RETRIES
from penstock.engine.run.held_answers import Release
from penstock.engine.run.run import Run
from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.workflow import Workflow
from penstock.models.open_calls import OpenCalls
from penstock.workflows.agent.approvals import ApprovalLog
from penstock.workflows.agent.options import PROCESSOR_RETRIES, check_names
from penstock.workflows.agent.processor_lists import ProcessorLists
from penstock.workflows.hosting.request import HostRequest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Observer, RunStore
    from penstock.engine.workflow import Item
    from penstock.workflows.hosting.reviews import HostReviews
    from penstock.workflows.review.reviews import Reviews

History = Literal["input", "memory"]


class HostOptions(TypedDict, total=False):
    """The options that every adapter takes.

    - ``input_processors``, ``output_processors``, ``error_processors`` (lists; default: none): processors and workflows
      that run at the input stages, the output stages, or after a failed model call only. They run after those that
      serve all stages.
    - ``name`` (str; default: the workflow's name, else ``guard``): the name in errors and traces.
    - ``strict`` (bool; default True): whether a processor with a stage that the framework does not offer is an error.
      With False that stage never runs, and the log says so once.
    - ``max_processor_retries`` (int from 0; default 1, or 0 where the framework offers no retry): how often in a row an
      answer may be rejected and requested again.
    - ``max_error_retries`` (int from 0; default 3): how often a failed model call may be repeated if an error processor
      asks for it.
    - ``release`` (``auto``, ``live``, ``step`` or ``result``; default ``auto``): when chunks may leave a stream; see
      `Run.process_output_stream`.
    - ``history`` (``input`` or ``memory``; default ``input``): what earlier messages of a conversation are.
      ``input``: guards read them again in each request. ``memory``: they were checked when they were stored.
    - ``open_calls`` (``close`` or ``drop``; default ``close``): what a prompt holds of calls that nobody has answered,
      as for `Agent`.
    - ``records`` (bool; default False): whether to record each step.
    - ``observers`` (list; default: none): objects with ``on_record`` and ``on_event``, as for `Agent`.
    - ``reviews`` (a `RunStore`, or `Reviews`; default: none): where calls are stored that wait for a person, as for
      `Agent`. Only where the framework can wait for people.
    """

    input_processors: Sequence[Item]
    output_processors: Sequence[Item]
    error_processors: Sequence[Item]
    name: str
    strict: bool
    max_processor_retries: int
    max_error_retries: int
    release: Release
    history: History
    open_calls: OpenCalls
    records: bool
    observers: Sequence[Observer]
    reviews: Reviews | RunStore | None


HOST_OPTIONS = frozenset(HostOptions.__annotations__)


@dataclass(frozen=True, slots=True)
class HostSupport:
    """The stages and features that a framework offers.

    Attributes:
        adapter: the name of the adapter, for errors.
        stages: the stages that can run.
        retries: whether an answer can be requested again.
        trusted_instructions: whether system messages are the application's own. If not, guards treat them as the
            client's, as in a gateway.
        instead: for a component that is only a part of an agent, what guards the whole agent: there, a processor is
            refused only if none of its stages can run, since most guards also have stages that a part lacks.
        logs_partial: whether the log names the stages that never run of processors that have others that run. Not where
            nobody would expect them, as in a proxy for tools.
        waits: whether the framework can wait for people.
    """

    adapter: str
    stages: frozenset[str] = frozenset(STAGES)
    retries: bool = True
    trusted_instructions: bool = True
    instead: str | None = None
    logs_partial: bool = True
    waits: bool = False


class Host:
    """Processors for the agents of a framework. Holds no data of a request; create it once and share it.

    Args:
        support: the stages and features that the framework offers.
        processors: processors and workflows that run at every stage that they implement.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist, or the framework cannot wait for people, and there are ``reviews``; or,
            unless ``strict=False``, processors have stages that the framework does not offer, and would never run
            there. The error lists all of them.
        WorkflowError: the processors cannot run together; the error lists all problems.
    """

    def __init__(self, support: HostSupport, processors: Sequence[Item], **options: Unpack[HostOptions]) -> None:
        check_names(support.adapter, options, HOST_OPTIONS)
        self.support = support
        self.name = options.get("name") or _name_of(processors)
        self.history: History = options.get("history", "input")
        self.release: Release = options.get("release", "auto")
        one_of(support.adapter, "history", self.history, get_args(History))
        one_of(support.adapter, "release", self.release, get_args(Release))
        self.open_calls: OpenCalls = options.get("open_calls", "close")
        one_of(support.adapter, "open_calls", self.open_calls, get_args(OpenCalls))
        every = _items(support.adapter, "processors", processors)
        given, output, error = [_items(support.adapter, name, options.get(name, ())) for name in _LISTS]
        if not (every or given or output or error):
            raise OptionError(support.adapter, "processors", "none", "at least one processor or workflow")
        self.plans = ProcessorLists(every, given, output, error).compiled(self.name)
        self._retries = options.get("max_processor_retries")
        wanted = self.plans.wants_retries
        self._error_retries = options.get("max_error_retries", max(MAX_ERROR_RETRIES, wanted))
        self._records = options.get("records", False)
        self._approvals = ApprovalLog()
        self._observers = tuple(options.get("observers", ()))
        self.reviews = self._stored_calls(options.get("reviews"))
        readers = [step.processor for step in plan_steps(self.plans.stage("process_input"))]
        scopes = [getattr(processor, "scope", None) for processor in readers]
        self._reads_instructions = any(getattr(one, "system", None) == "all" for one in (*readers, *scopes))
        self._check_support(strict=options.get("strict", True))

    def open(
        self,
        *,
        request_context: dict[str, Value] | None = None,
        run_id: str | None = None,
        states: dict[str, Value] | None = None,
        facts: Facts = NO_FACTS,
    ) -> HostRequest:
        """Return a new request. Call its `HostRequest.close` when the framework has ended the request.

        Args:
            request_context: values that hooks share.
            run_id: the id of the run. Default: a new id.
            states: the states of the processors, for requests that share them, such as those of one session: begin
                with an empty mapping, and pass it to each. Default: new ones.
            facts: the facts to begin with, such as those of earlier requests of a session. Default: none.
        """
        retries = self._retries
        if retries is None:
            retries = PROCESSOR_RETRIES if self.support.retries else 0
        run = Run(
            self.plans,
            request_context=request_context,
            run_id=run_id,
            records=self._records,
            observers=self._observers,
            agent=self.name,
            overlap=True,
            max_processor_retries=retries,
            max_error_retries=self._error_retries,
            states=states,
            facts=facts,
        )
        return HostRequest(
            run,
            release=self.release,
            remembers=self.history == "memory",
            trusts_instructions=self.support.trusted_instructions,
            reads_instructions=self._reads_instructions,
            open_calls=self.open_calls,
            approvals=self._approvals,
            reviews=self.reviews,
        )

    def serves(self, stage: str) -> bool:
        """Return whether any processor has that stage."""
        return self.plans.stage(stage) is not None

    @property
    def asks(self) -> bool:
        """Whether a step may ask a person about calls of tools."""
        return self.plans.asks

    @property
    def policy(self) -> str:
        """The fingerprint of the processors with their options, as they are now: 64 hexadecimal digits."""
        from penstock.pictures import render  # loaded where a call is asked about

        return sha256(render(self.name, self.plans, "json", None, "full").encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def stored_reviews(self) -> HostReviews:
        """The calls that wait for a person, in a store.

        Raises:
            UsageError: there is no store.
        """
        if self.reviews is None:
            raise UsageError(f"{self.support.adapter} stores no calls; make it with reviews=SQLiteStorage(path)")
        return self.reviews

    def _stored_calls(self, given: Reviews | RunStore | None) -> HostReviews | None:
        if given is None:
            return None
        adapter = self.support.adapter
        if not self.support.waits:
            raise UsageError(f"{adapter} cannot wait for people, so there is nothing to store; leave reviews= out")
        from penstock.workflows.hosting.reviews import HostReviews  # loaded where calls are stored
        from penstock.workflows.review.reviews import as_reviews

        made = as_reviews(given, adapter)
        return None if made is None else HostReviews(made, self.name, adapter, lambda: self.policy)

    def _check_support(self, *, strict: bool) -> None:
        support, users = self.support, _users(self.plans)
        lacking = {stage: ids for stage, ids in users.items() if stage not in support.stages}
        useful = {id for stage in support.stages for id in users.get(stage, ())} if support.instead else set[str]()
        never = {stage: [id for id in ids if id not in useful] for stage, ids in lacking.items()}
        lost = self._retries and not support.retries
        retries = [f"the retries of max_processor_retries={self._retries}"] if lost else []
        refused = [*_listed(never), *retries]
        said = [*_listed(lacking), *retries] if support.logs_partial else refused
        if refused and strict:
            way = f"Use {support.instead}" if support.instead else "Remove these processors"
            raise UsageError(
                f"{support.adapter} cannot run {'; '.join(refused)}: the framework has no place for that. {way}, or "
                "use strict=False to go on without these stages"
            )
        if said:
            from penstock.engine.execution.boundary import log

            log.warning("%s: these stages never run: %s", support.adapter, "; ".join(said))


def _listed(users: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{stage} of {', '.join(ids)}" for stage, ids in users.items() if ids]


_LISTS: tuple[Literal["input_processors", "output_processors", "error_processors"], ...] = (
    "input_processors",
    "output_processors",
    "error_processors",
)


def _items(adapter: str, option: str, given: Sequence[Item]) -> tuple[Item, ...]:
    if isinstance(given, Workflow) or not isinstance(cast("object", given), Iterable):
        raise OptionError(adapter, option, type(given).__name__, "a list of processors and workflows")
    return tuple(given)


def _name_of(processors: Sequence[Item]) -> str:
    first = processors[0] if processors else None
    return first.name if isinstance(first, Workflow) else "guard"


def _users(plans: Plans) -> dict[str, list[str]]:
    """Return the ids of the processors of each stage that has some."""
    found = {
        name: list(dict.fromkeys(step.processor_id for step in plan_steps(plans.stage(name), fallbacks=True)))
        for name in STAGES
    }
    return {name: ids for name, ids in found.items() if ids}
