"""Run the current policy on texts, messages, answers and values of tools, for every contract of this package.

A check is a run of its own: nothing is stored between two of them. A `CheckResult` holds the verdict and the guard that
gave it. A guard that fails counts as a verdict, with ``failed`` set; its error is logged without any text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from anyio.lowlevel import checkpoint

from penstock.engine.execution.boundary import log
from penstock.engine.values.errors import MessageError, without_text
from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.message_list import MessageList
from penstock.engine.values.messages import Message, TextPart
from penstock.engine.values.texts import TextPlace, editable_texts
from penstock.engine.values.tripwire import BlockedError, Tripwire
from penstock.engine.workflow import Workflow
from penstock.workflows.gateway.checks.edits import places_of, whole_edits

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.tripwire import Record
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.served import Served

Guards: TypeAlias = Callable[[], Workflow]
"""Returns the workflow that the next check uses. It is called once for each request, so that a policy can change while
the server runs: ``lambda: policy_file.current``."""

Verdict = Literal["passed", "edited", "asked", "answered", "blocked"]
"""How a check ended. ``answered``: a processor has answered in the place of a tool, so that the tool must not run.
``asked``: a person has to be asked first; where nobody can be asked, the answer counts."""

FAILED = Tripwire("a guard failed, so nothing was let through", "", "")

BODY_LIMIT = 10_000_000
"""How many bytes of a body are read, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check.

    Attributes:
        verdict: how it ended.
        messages: the given messages as the guards left them, each at its place; None for one that they removed. Empty
            if the check was blocked.
        added: further messages that the guards left, each with the number of given messages before it.
        value: the arguments or the result of a tool as the guards left them; None if the check was blocked.
        answer: the answer of a processor in the place of a tool.
        edits: the edits of each text by its place, with positions in the given text. Only where they were asked for.
        tripwire: the verdict of the guard that blocked; None if none did.
        failed: whether the check was blocked because a guard failed.
        records: the record of each step that is enforced, not of those in shadow. Only where that was asked for.
        released: how many characters of the answer's text can no longer change, if more text follows. Only in the
            result of `check_answer`.
    """

    verdict: Verdict
    messages: Sequence[Message | None] = ()
    added: Sequence[tuple[int, Message]] = ()
    value: Value = None
    answer: Value = None
    edits: Mapping[TextPlace, Edits] = field(default_factory=dict["TextPlace", "Edits"])
    tripwire: Tripwire | None = None
    failed: bool = False
    records: Sequence[Record] = ()
    released: int = 0

    @property
    def blocked(self) -> bool:
        """Whether nothing may pass."""
        return self.verdict == "blocked"

    @property
    def guard(self) -> str | None:
        """The id of the guard that blocked; None if none did, or if it is not known which one failed."""
        return (self.tripwire.processor_id or None) if self.tripwire is not None else None

    @property
    def text(self) -> str:
        """The text of all messages that are left."""
        return "".join(message.text for message in self.messages if message is not None)

    def part(self, start: int, end: int, *, last: bool = False) -> CheckResult:
        """Return the part of it about some of the messages, with messages that were added between and behind them.

        Args:
            start: the index of the first of them.
            end: the index behind the last of them.
            last: whether messages that were added behind all others belong to them, too.
        """
        added = [
            (min(at, end) - start, message)
            for at, message in self.added
            if start <= at and (at < end or last or at == end != start)
        ]
        return CheckResult(verdict=self.verdict, messages=self.messages[start:end], added=added)


async def check_input(
    guards: Workflow, messages: Sequence[Message], *, context: Json | None = None, records: bool = False
) -> CheckResult:
    """Check messages on their way to a model: every stage that an agent runs before it calls the model.

    Args:
        guards: the policy.
        messages: the messages, at least one. System messages are read if they have ``from_client`` set.
        context: the request context of the run.
        records: whether the result has edits and records.

    Raises:
        MessageError: two messages have one id.
    """
    given = listed(messages)
    run = guards.start(request_context=context, records=records)
    return await guarded(run, _input(run, given, records=records), records=records)


async def _input(run: Run, given: MessageList, *, records: bool) -> CheckResult:
    async with run:
        outcome = await run.process_input(given)
        for stage in ("process_input_step", "process_llm_request"):
            if not outcome.blocked and run.serves(stage):
                outcome = await run.stage(stage)
        if outcome.blocked:
            return blocked(run, outcome, records=records)
        return _left(given, outcome.message_list, run, records=records)


async def check_call(
    guards: Workflow,
    name: str,
    arguments: Value,
    *,
    call_id: str = "",
    context: Json | None = None,
    records: bool = False,
) -> CheckResult:
    """Check the arguments of a call before the tool runs; see `Run.process_tool_call`."""
    run = guards.start(request_context=context, records=records)
    judging = run.process_tool_call(name, arguments, call_id=call_id)
    return await guarded(run, _value(run, judging, arguments, "arguments", records=records), records=records)


async def check_result(
    guards: Workflow,
    name: str,
    result: Value,
    *,
    arguments: Value = None,
    call_id: str = "",
    is_error: bool = False,
    context: Json | None = None,
    records: bool = False,
) -> CheckResult:
    """Check the result of a tool before a model reads it; see `Run.process_tool_result`."""
    run = guards.start(request_context=context, records=records)
    judging = run.process_tool_result(name, result, arguments=arguments, call_id=call_id, is_error=is_error)
    return await guarded(run, _value(run, judging, result, "result", records=records), records=records)


# Parts of a check

_HEARD: ContextVar[list[CheckResult] | None] = ContextVar("penstock_checks", default=None)


@contextmanager
def results_heard() -> Generator[list[CheckResult]]:
    """Yield a list that gets the result of each check within the block, whatever contract asks for it."""
    results: list[CheckResult] = []
    token = _HEARD.set(results)
    try:
        yield results
    finally:
        _HEARD.reset(token)


def listed(messages: Sequence[Message]) -> MessageList:
    """Return the messages as the caller's, each with an id.

    Raises:
        MessageError: two of them have one id.
    """
    made = MessageList(messages)
    if len(made.entries) != len(messages):
        raise MessageError("messages", "two messages have one id; give each an id of its own, or none")
    return made


async def guarded(run: Run, checking: Awaitable[CheckResult], *, records: bool) -> CheckResult:
    """Return the result of a check; the failure of a guard is a verdict. Errors of messages are the caller's.

    Other requests get a turn first: guards that wait for nothing give them none, and one request may hold many checks.

    Raises:
        MessageError: a message is malformed.
    """
    await checkpoint()
    result = await _judged(run, checking, records=records)
    heard = _HEARD.get()
    if heard is not None:
        heard.append(result)
    return result


async def _judged(run: Run, checking: Awaitable[CheckResult], *, records: bool) -> CheckResult:
    try:
        return await checking
    except MessageError:
        raise
    except BlockedError as error:
        kept = _enforced(run) if records else ()
        return CheckResult(verdict="blocked", tripwire=error.tripwire, failed=True, records=kept)
    except Exception as error:  # noqa: BLE001 - whatever a guard raises, nothing may pass
        log.error("%s: a check failed with %s", run.name, without_text(error))
        kept = _enforced(run) if records else ()
        tripwire = replace(FAILED, processor_id=str(getattr(error, "processor_id", "")))
        return CheckResult(verdict="blocked", tripwire=tripwire, failed=True, records=kept)


def _enforced(run: Run) -> Sequence[Record]:
    return [record for record in run.records if not record.shadow]


def blocked(run: Run, outcome: Outcome, *, records: bool) -> CheckResult:
    """Return the result of a check that a verdict has stopped."""
    return CheckResult(
        verdict="blocked",
        tripwire=outcome.tripwire,
        failed=outcome.failure is not None,
        records=_enforced(run) if records else (),
    )


def _left(given: MessageList, left: MessageList, run: Run, *, records: bool) -> CheckResult:
    """Return the given messages as they were left, and those that were added."""
    before = [entry.message for entry in given.entries]
    known = {message.id: place for place, message in enumerate(before)}
    now = {entry.message.id: entry.message for entry in left.entries}
    messages = [now.get(message.id) for message in before]
    added: list[tuple[int, Message]] = []
    seen = 0
    for entry in left.entries:
        if entry.message.id in known:
            seen = known[entry.message.id] + 1
        else:
            added.append((seen, entry.message))
    return changed(before, messages, added, run, records=records)


def changed(
    before: Sequence[Message],
    after: Sequence[Message | None],
    added: Sequence[tuple[int, Message]],
    run: Run,
    *,
    records: bool,
    released: int = 0,
    streamed: Sequence[TextPlace] = (),
) -> CheckResult:
    """Return the result of a check that nobody has stopped: unchanged, or edited.

    Args:
        before: the messages as they were given.
        after: the same as they were left.
        added: messages beside them; see `CheckResult`.
        run: the run.
        records: whether the result has edits and records.
        released: see `CheckResult`.
        streamed: the places of the texts that went through a stream, in order.
    """
    same = not added and all(now == was for was, now in zip(before, after, strict=True))
    kept = _enforced(run) if records else ()
    edits = whole_edits(places_of(before), places_of(after), kept, streamed) if records and not same else {}
    return CheckResult(
        verdict="passed" if same else "edited",
        messages=after,
        added=added,
        edits=edits,
        records=kept,
        released=released,
    )


async def _value(run: Run, judging: Awaitable[Outcome], given: Value, name: str, *, records: bool) -> CheckResult:
    async with run:
        outcome = await judging
    if outcome.blocked:
        return blocked(run, outcome, records=records)
    kept = _enforced(run) if records else ()
    if outcome.answered:
        verdict: Verdict = "asked" if outcome.asks else "answered"
        return CheckResult(verdict=verdict, answer=thaw(outcome.answer), records=kept)
    left = thaw(outcome.overrides.get(name))
    if left == given:
        return CheckResult(verdict="passed", value=given, records=kept)
    edits = whole_edits(places_of_value(given, name), places_of_value(left, name), kept) if records else {}
    return CheckResult(verdict="edited", value=left, edits=edits, records=kept)


_WORSE: tuple[Verdict, ...] = ("passed", "edited", "answered", "asked", "blocked")


def add_results(served: Served, results: Sequence[CheckResult]) -> None:
    """Add the results of the checks of one request to its record; the worst is its verdict."""
    if results:
        worst = max(results, key=lambda result: _WORSE.index(result.verdict))
        edited = any(result.verdict == "edited" for result in results)
        served.add_check(worst.verdict, worst.tripwire, edited=edited, failed=worst.failed)


def places_of_value(value: Value, name: str) -> Mapping[TextPlace, str]:
    """Return the texts of a tool's value by their places."""
    return {TextPlace("", 0, path): text for path, text in editable_texts(freeze(value), (name,))}


def user_message(*texts: str) -> Message:
    """Return a message of a client, which guards read in every role."""
    return Message("user", tuple(map(TextPart, texts)), from_client=True)
