"""What must hold of any request to an agent, however it went. It knows what a caller has seen, and the world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from penstock import Chunk
from penstock.workflows import AgentResult
from tests.workflows.agent.fuzz.acts import marks
from tests.workflows.agent.fuzz.play import Seen
from tests.workflows.agent.fuzz.world import PIECES

TERMINAL = {
    "success": ("finish",),
    "suspended": ("finish",),
    "blocked": ("tripwire",),
    "cancelled": ("abort",),
    "failed": ("finish", "error", "abort"),  # the last, if it was given up when it had failed
}


def broken(seen: Seen) -> Iterator[str]:
    """Yield the laws that a request has broken, in words."""
    yield from seen.world.problems
    yield from _left_over(seen)
    result = seen.result
    if result is not None:
        yield from _ended(seen, result)
        yield from _hidden(seen, result)
        if seen.chunks:
            yield from _streamed(seen, result)


def _left_over(seen: Seen) -> Iterator[str]:
    world = seen.world
    if world.streaming:
        yield "a model's stream is open"
    if world.running:
        yield "a tool runs still"


def _ended(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what is wrong with how it ended."""
    yield from _failure(seen, result)
    if (result.status == "blocked") != (result.tripwire is not None):
        yield "blocked without a verdict, or the other way"
    if result.status == "cancelled" and not seen.given_up:
        yield "cancelled by nobody"
    if result.finish_reason != {"blocked": "other", "cancelled": "aborted"}.get(result.status, result.finish_reason):
        yield "a finish reason that does not fit"
    accepted = "".join([step.text for step in result.steps if not _rejected(step)])
    begun = "".join([chunk.text for chunk in _begun(seen, result) if chunk.type == "text-delta"])
    if result.text != accepted + begun:
        yield "text that is not of the accepted steps, nor of the answer that was cancelled"
    if len(seen.told) > 1 or [told.status for told in seen.told if told.status != result.status]:
        yield "the caller's function was told something else"
    yield from _told_at_end(seen, result)


def _failure(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what is wrong with an error."""
    if (result.status == "failed") != (result.error is not None):
        yield "failed without an error, or the other way"
    if seen.chunks and result.error is not None and seen.error is not result.error and not seen.given_up:
        yield "what it failed with was not raised"
    if seen.error is not None and result.error is None:
        yield f"it raised {seen.error!r}, and is {result.status}"


def _told_at_end(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what is wrong with what processors were told at the end."""
    if len({id(end) for end in seen.world.ends}) > 1:
        yield "two ends were told"
    for end in seen.world.ends:
        if end.completed != (result.status in ("success", "suspended")):
            yield f"at the end of one that is {result.status} completed was {end.completed}"
        if end.message_list.conversation != result.messages:
            yield "at the end other messages were told"


def _hidden(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what was taken back or out, and is to be found nevertheless."""
    shown = {
        "text": result.text,
        "steps": [(step.text, step.reasoning, step.tool_calls, step.metadata) for step in result.steps],
        "messages": result.messages,
        "list": result.message_list.entries,
        "response": result.response,
        "pending": result.pending,
        "end": [end.message_list.entries for end in seen.world.ends],
        "told": [(told.text, told.messages, told.steps) for told in seen.told],
        "repr": repr(result),
        "verdict": result.tripwire,
    }
    yield from _told_unsent(seen, result, shown)
    judged_all = result.tripwire is not None and result.tripwire.stage == "process_output_result"
    taken = {
        turn
        for turn, step in seen.world.attempts.items()
        if judged_all or step >= len(result.steps) or _rejected(result.steps[step])
    }
    sent = marks(_begun(seen, result))
    for place, what in shown.items():
        for mark in marks(what):
            if _turn(mark) in taken and not (place == "text" and mark in sent):
                yield f"{mark} was taken back, and is in {place}"
            if mark in seen.world.gone and not (place == "text" and mark in sent):
                yield f"{mark} was taken out by {seen.world.gone[mark]}, and is in {place}"
    for number, request in seen.world.prompts.items():
        for mark in marks(request.messages):
            step = seen.world.attempts[_turn(mark)]
            if step < len(result.steps) and _rejected(result.steps[step]):
                yield f"{mark} was taken back, and was in the prompt of {number}"
            if seen.world.gone.get(mark, "process_output_result") != "process_output_result":
                yield f"{mark} was taken out by {seen.world.gone[mark]}, and was in the prompt of {number}"


def _told_unsent(seen: Seen, result: AgentResult[Any], shown: Mapping[str, object]) -> Iterator[str]:
    """Yield what a request that did not complete tells beyond what was sent: the stages behind may not have read it."""
    if result.status in ("success", "suspended") or not seen.chunks:
        return
    sent = marks(seen.chunks) | seen.world.dropped
    for place, what in shown.items():
        for mark in marks(what) - sent:
            yield f"{mark} was not sent, and is in {place}"


def _begun(seen: Seen, result: AgentResult[Any]) -> list[Chunk]:
    """Return the texts that were sent of the answer that was cancelled before it was accepted, or sent whole."""
    if result.status != "cancelled":
        return []
    ended = [chunk for chunk in seen.chunks if chunk.type == "step-finish" and chunk.payload["reason"] != "retry"]
    accepted = [step for step in result.steps if not _rejected(step)]
    if len(ended) < len(accepted):
        id = accepted[len(ended)].message_id
        if not id or id in result.message_list:
            return []
    elif max(seen.world.attempts.values(), default=-1) < len(result.steps):
        return []
    sent: list[Chunk] = []
    for chunk in seen.chunks:
        if chunk.type in PIECES:
            sent.append(chunk)
        elif chunk.type in ("step-finish", "retract"):
            sent.clear()
    return sent


def _rejected(step: Any) -> bool:
    return step.tripwire is not None or step.finish_reason in ("retry", "error")


def _turn(mark: str) -> int:
    return int(mark[2:].partition(".")[0])


def _streamed(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what is wrong with the chunks."""
    chunks = seen.chunks
    kinds = [chunk.type for chunk in chunks]
    last = ("finish", "tripwire", "abort")
    ends = [index for index, kind in enumerate(kinds) if kind in last or (kind == "error" and kind == kinds[-1])]
    left = seen.given_up and seen.mode in ("leave", "task")
    if ends and ends != [len(kinds) - 1]:
        yield f"ends at {ends} of {len(kinds)}"
    if not ends and not left:
        yield "no end"
    if ends and kinds[-1] not in TERMINAL[result.status] and not left:
        yield f"{result.status}, and the last chunk is {kinds[-1]}"
    if result.status == "failed" and kinds and not left and "error" not in kinds and seen.error is None:
        yield "failed, and nobody was told"
    yield from _texts(seen, result)
    yield from _steps(kinds)
    if {chunk.run_id for chunk in chunks} - {result.run_id, ""}:
        yield "a chunk of another run"


def _texts(seen: Seen, result: AgentResult[Any]) -> Iterator[str]:
    """Yield what is wrong with the texts, as a client puts them together."""
    texts: dict[tuple[str, str], str] = {}
    for chunk in seen.chunks:
        if chunk.type in PIECES:
            texts[chunk.id, chunk.type] = texts.get((chunk.id, chunk.type), "") + chunk.text
        for id in chunk.payload["blocks"] if chunk.type == "retract" else ():
            if not [texts.pop(key) for key in list(texts) if key[0] == id]:
                yield f"{id} was retracted, and was not out"
    for mark in marks(list(texts.values())):
        step = seen.world.attempts[_turn(mark)]
        if step < len(result.steps) and result.steps[step].finish_reason == "retry":
            yield f"{mark} was taken back, and not retracted"
        if seen.world.gone.get(mark) == "process_output_stream":
            yield f"{mark} was taken out, and left"
    if result.status == "success" and seen.release in ("step", "result"):
        said = "".join(text for (_, kind), text in texts.items() if kind == "text-delta")
        edited_late = "process_output_result" in seen.world.gone.values() and seen.release == "step"
        if said != result.text and not edited_late:
            yield f"the stream says {said!r}, the result {result.text!r}"


def _steps(kinds: list[str]) -> Iterator[str]:
    """Yield whether a step began before the last has ended."""
    open_steps = 0
    for kind in kinds:
        if kind == "step-finish":  # of one that was held and rejected nothing else leaves
            open_steps = 0
        open_steps += kind == "step-start"
        if open_steps > 1:
            yield f"steps do not follow each other: {dict(Counter(kinds))}"
            return


def differ(one: Seen, other: Seen) -> Iterator[str]:
    """Yield in what two requests differ that were the same, and went to their ends."""
    if type(one.error) is not type(other.error):
        yield f"one raised {one.error!r}, the other {other.error!r}"
    if one.result is None or other.result is None:
        return
    for name in ("text", "status", "finish_reason", "steps", "usage", "tripwire", "facts"):
        first, second = getattr(one.result, name), getattr(other.result, name)
        if first != second:
            yield f"{name}: {first!r} and {second!r}"
    if [_told(message) for message in one.result.messages] != [_told(message) for message in other.result.messages]:
        yield "messages differ"


def _told(message: Any) -> tuple[Any, ...]:
    return message.role, message.parts
