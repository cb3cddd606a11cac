"""`judge_results`: the results of tools in a request, each judged, and asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ToolPart
from penstock.workflows.gateway.claims import NotDecidedError
from penstock.workflows.gateway.sections import tool_calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Value
    from penstock.workflows.gateway.reviewing import RequestReviews


class _AskedResult(NamedTuple):
    """A result that a guard asks about: its message, its place among the parts, and the outcome, which is suspended."""

    message: str
    place: int
    call_id: str
    outcome: Outcome


async def judge_results(run: Run, reviews: RequestReviews | None) -> None:
    """Run `process_tool_result` on each result of a tool, as `process_input` left it.

    After that stage, so that values are numbered in the order of the conversation, the same in each turn. All results
    are judged before somebody is asked about one, so that a verdict spares the questions.

    Args:
        run: the run of the request; its `message_list` has the results afterwards, and its `tripwire` a verdict.
        reviews: answers what guards ask about results; None: a question blocks the request.

    Raises:
        NotDecidedError: a question has no answer yet, or it is a refusal.
        StorageError: the store of the reviews failed.
    """
    if not run.serves("process_tool_result"):
        return
    messages = run.message_list.all
    calls = tool_calls(messages)
    asked: list[_AskedResult] = []
    for message in messages:
        for place, part in enumerate(message.parts):
            if not isinstance(part, ToolPart) or part.state not in ("result", "error"):
                continue
            if any(one.call_id == part.call_id for one in asked):  # some providers number the calls of each turn
                await _ask(run, asked, reviews)
                asked = []
            if run.tripwire is not None:
                return
            outcome = await _judged(run, part, calls)
            if outcome.suspended:
                asked.append(_AskedResult(message.id, place, part.call_id, outcome))
            if not outcome.blocked:
                _put(run, message.id, place, outcome)
    if run.tripwire is None:
        await _ask(run, asked, reviews)


async def _judged(run: Run, part: ToolPart, calls: Mapping[str, ToolPart]) -> Outcome:
    is_error = part.state == "error"
    call = calls.get(part.call_id)
    return await run.process_tool_result(
        part.name,
        part.error if is_error else part.result,
        arguments=thaw(part.arguments if call is None else call.arguments),
        call_id=part.call_id,
        is_error=is_error,
    )


async def _ask(run: Run, asked: Sequence[_AskedResult], reviews: RequestReviews | None) -> None:
    """Put the results in place as operators have decided about them; all of them are asked about at once."""
    if reviews is None:  # then a question is a verdict, and none waits
        return
    waits: NotDecidedError | None = None
    for one in asked:
        try:
            outcome = await reviews.result(run, one.outcome, _before(run, one, asked))
        except NotDecidedError as error:
            if error.standing != "waiting":
                raise
            waits = waits or error
            continue
        if outcome.blocked:
            return
        _put(run, one.message, one.place, outcome)
    if waits is not None:
        raise waits


def _before(run: Run, one: _AskedResult, asked: Sequence[_AskedResult]) -> list[Message]:
    """Return the conversation before a result, without those that somebody is asked about: each has its own answer."""
    messages = run.message_list.all
    last = next(index for index, message in enumerate(messages) if message.id == one.message)
    open_places = {(each.message, each.place) for each in asked}
    return [
        message.with_parts(
            [
                part
                for place, part in enumerate(message.parts)
                if (message.id, place) not in open_places and (message.id != one.message or place < one.place)
            ]
        )
        for message in messages[: last + 1]
    ]


def _put(run: Run, id: str, place: int, outcome: Outcome) -> None:
    """Put a result in its place, as its guards left it."""
    message = run.message_list.get(id)
    if message is None:
        return
    parts = list(message.parts)
    made = _left(parts[place], outcome.result)
    if made is not parts[place]:
        parts[place] = made
        run.message_list = run.message_list.replace(message.with_parts(parts))


def _left(part: Value, said: Value) -> Value:
    assert isinstance(part, ToolPart)  # noqa: S101 - `judge_results` looks
    if part.state == "error":
        return part if said == part.error else replace(part, error=said if isinstance(said, str) else str(said))
    return part if said == part.result else replace(part, result=said)
