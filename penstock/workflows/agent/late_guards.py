"""Guards of the last stage: they read what they have yet to judge before a request is stored in the middle.

`settled` lets them, and asks anew about what they have changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from penstock.engine.values.messages import ToolPart
from penstock.engine.values.usage import total_usage
from penstock.workflows.agent.questions import AskedStage, LateRead, details_of, judged_call, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.messages import Message
    from penstock.workflows.agent.progress import RequestProgress

_ROUNDS = 3
"""How often persons are asked anew because a guard of the last stage changes what they are asked about."""


async def read_unreleased(run: Run, progress: RequestProgress) -> Outcome | None:
    """Let the guards of the last stage read the answers before they are stored; return the outcome if one objects."""
    if not run.judges_late or _digest(run) == progress.read_late.answers:
        return None
    steps = progress.current(run.message_list)
    usage = total_usage(step.usage for step in steps)
    outcome, read = await run.judge_unreleased(finish_reason=progress.finish_reason, usage=usage, steps=steps)
    if outcome.blocked:
        return outcome
    progress.read_late = LateRead(_digest(run), tuple(sorted(read)))
    return None


async def settled(
    run: Run, progress: RequestProgress, asked: Sequence[AskedStage], answer: str = ""
) -> tuple[Sequence[AskedStage], Outcome | None]:
    """Let the guards of the last stage read what they have yet to judge, before it is stored.

    Args:
        run: the run.
        progress: how far the request has come.
        asked: the stages that wait.
        answer: the id of the message with the calls that they are about, if they are about calls.

    Returns:
        The stages, which may have passed meanwhile, and None. If a guard objects, its outcome.
    """
    if not run.judges_late:
        return asked, None
    for _ in range(_ROUNDS):
        before = _texts(run)
        with_results(run, answer, [one.call for one in asked if one.call is not None])
        if (objects := await read_unreleased(run, progress)) is not None:
            return asked, objects
        parts = {part.call_id: part for part in _calls(run, answer)}
        calls = [None if one.call is None else parts.get(one.call.call_id, one.call) for one in asked]
        with_results(run, answer, [_open(call) for call in calls if call is not None])
        if _texts(run) == before and calls == [one.call for one in asked]:
            return asked, None
        again: list[AskedStage] = []
        for one, call in zip(asked, calls, strict=True):
            found = await _ask_again(run, one, call)
            if found.outcome.blocked:
                return asked, found.outcome
            again.append(found)
        asked = again
        if not any(one.outcome.suspended for one in asked):
            return asked, None
    return asked, run.refuse_question(next(one.outcome for one in asked if one.outcome.suspended))


async def _ask_again(run: Run, one: AskedStage, call: ToolPart | None) -> AskedStage:
    """Ask anew about what guards of the last stage have changed."""
    if not one.outcome.suspended:
        return one
    outcome, given = one.outcome, one.prompt
    if one.prompt is not None:  # it is no part of the conversation, so they have not read it
        return one._replace(outcome=run.refuse_question(outcome))
    if outcome.stage == "process_llm_request":
        given = run.message_list
    details = {} if call is None else {**details_of(call), **value_of(call)}
    outcome = await run.resume_stage(outcome.stage, one.answers, outcome.finished, given, **details)
    if call is None or outcome.blocked:
        return one._replace(outcome=outcome)
    call = judged_call(call, outcome)
    fields = outcome.overrides if call.state == "call" else value_of(call)
    return one._replace(outcome=outcome, call=call, fields=fields)


def with_results(run: Run, answer: str, calls: Sequence[ToolPart]) -> None:
    """Put calls in place of those with the same ids in an answer."""
    message = run.message_list.get(answer)
    by_id: Mapping[str, ToolPart] = {call.call_id: call for call in calls}
    if message is None or not by_id:
        return
    parts = tuple(by_id.get(part.call_id, part) if isinstance(part, ToolPart) else part for part in message.parts)
    if parts != message.parts:
        run.message_list = run.message_list.replace(message.with_parts(parts))


def _open(call: ToolPart) -> ToolPart:
    return call if call.state == "call" else replace(call, state="call", result=None, error=None)


def _calls(run: Run, answer: str) -> list[ToolPart]:
    message = run.message_list.get(answer)
    return [] if message is None else [part for part in message.parts if isinstance(part, ToolPart)]


def read_before(run: Run, progress: RequestProgress) -> Sequence[str]:
    """Return the paths of the steps of the last stage that have read all answers before they were stored."""
    read = progress.read_late
    return read.steps if read.answers and read.answers == _digest(run) else ()


def _digest(run: Run) -> str:
    """Return a hash of the answers so far, with the results of their calls: 64 hexadecimal digits."""
    from penstock.formats import native  # loaded where a request is stored

    written = json.dumps(native.write(run.message_list.response), sort_keys=True, default=dict)
    return sha256(written.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(run: Run) -> list[Message]:
    return [entry.message for entry in run.message_list.entries]
