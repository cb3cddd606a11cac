"""Moves steps that read long texts into a worker thread, and steps under a time limit, which must be left when it ends.

A block of sync hooks runs there as it would without an event loop. It is given a copy of the call whose records are
kept apart: the work of a worker whose caller has left is dropped.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from penstock.engine.tasks import run_without_loop, runs_without_loop
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import TextPart
from penstock.engine.workers import LONG, TimeLimitError, run_in_worker, run_with_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.engine.graph.plan import Block
    from penstock.engine.processor.payload import Payload
    from penstock.engine.processor.state import StageCall
    from penstock.engine.values.frozen import Value

T = TypeVar("T")

_EACH = 20  # characters of text that reading one more part, key or item is worth


def must_move(block: Block, call: StageCall, payload: Payload) -> bool:
    """Return whether a block has to run in a worker: its texts are long, or a time limit applies."""
    if not block.sync or runs_without_loop():
        return False
    return call.limited or (block.movable > 0 and is_long(payload, block.movable))


def is_long(payload: Payload, readers: int = 1) -> bool:
    """Return whether the texts of a payload are too long to be read by so many steps on the event loop."""
    length = payload.length
    if length is None:
        length = payload.length = _length(payload)
    return length > LONG // readers


def _length(payload: Payload) -> int:
    """Return roughly how many characters there are to read; where it is more than `LONG`, any such number."""
    left = LONG
    for entry in payload.message_list.entries:
        message = entry[0]
        if message.metadata:
            left = _left(message.metadata, left)
        for part in message.parts:
            left -= _EACH
            if type(part) is TextPart and not part.metadata:
                left -= len(part.text)
            else:
                left = _left([getattr(part, name) for name in part.__match_args__], left)
            if left < 0:
                break
        if left < 0:
            return LONG - left
    return LONG - (_left(payload.fields, left) if payload.fields else left)


def is_long_value(value: Value) -> bool:
    """Return whether a value, such as a tool's result, is too long to be walked on the event loop."""
    return _left(value, LONG) < 0


def _left(value: object, left: int) -> int:
    """Return how much is left of a number of characters when a value has been read; below 0 if it is not enough."""
    waiting: list[object] = [value]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= _EACH
        if isinstance(item, (str, bytes)):
            left -= len(item)
        elif is_mapping(item) or is_items(item):
            if len(item) * _EACH > left:
                return -1
            waiting.extend(item)
            waiting.extend(item.values() if is_mapping(item) else ())
    return left


async def in_worker(
    work: Callable[[Block, StageCall, Payload], Coroutine[object, None, Payload]],
    block: Block,
    call: StageCall,
    payload: Payload,
) -> Payload:
    """Run a block in a worker thread; return its payload."""

    def run(beside: StageCall) -> Payload:
        after = run_without_loop(work(block, beside, payload), call.stage.name)
        _ = after.message_list.entries  # edited messages are made here, where that keeps nobody waiting
        return after

    return await move(run, call, in_turn=block.movable > 0)


async def move(work: Callable[[StageCall], T], call: StageCall, *, in_turn: bool = True) -> T:
    """Call a function in a worker thread, with the call that it is to use."""
    beside = call.for_worker()
    try:
        done = await run_in_worker(partial(work, beside), in_turn=in_turn)
    except Exception:
        _put_on_record(call, beside)
        raise
    _put_on_record(call, beside)
    return done


def within(seconds: float, work: Callable[[StageCall], T], call: StageCall) -> T:
    """Call a function in a thread, with the call that it is to use, and wait for it without an event loop.

    Raises:
        TimeLimitError: there is no result in time.
    """
    beside = call.for_worker()
    try:
        done = run_with_limit(partial(work, beside), seconds)
    except TimeLimitError:
        raise
    except Exception:
        _put_on_record(call, beside)
        raise
    _put_on_record(call, beside)
    return done


def _put_on_record(call: StageCall, beside: StageCall) -> None:
    if call.run.spans is not None and beside.run.spans is not None:
        call.run.spans.take_in(beside.run.spans)
