"""`CallIds`: gives each tool call of a streamed answer an id of its own.

Some servers use the name of the function as the id, count from 0 in every answer, or send no id. Two calls with one id
would be taken for one: the name of the second with the arguments of the first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CALL_ID_KEYS = ("call_id", "tool_call_id", "toolCallId")
"""The keys of a chunk's payload that may hold the id of a call."""

NAME_KEYS = ("name", "tool_name", "toolName")
"""The keys of a chunk's payload that may hold the name of a tool."""

OF_CALLS = frozenset(
    {"tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-result", "tool-error"}
)
"""The chunks that belong to a call."""

_LONGEST = 40
"""How many characters of a given id a new one keeps: no provider takes ids of more than 64."""


def _none_taken() -> Iterable[str]:
    return ()


class CallIds:
    """The ids of the tool calls of one answer. Lives as long as its stream.

    The first call keeps its id, unless it is empty or taken. The later ones with that id get others, and so do their
    pieces and results: pieces belong to the call that began last, results to the first call that has none.

    Args:
        taken: returns the ids of the calls in the conversation so far. It is called with the first call of the answer.
    """

    __slots__ = ("_answered", "_begun", "_called", "_numbers", "_open", "_taken", "_used")

    def __init__(self, taken: Callable[[], Iterable[str]] = _none_taken) -> None:
        self._taken: Callable[[], Iterable[str]] | None = taken  # until the first call: most answers have none

    def _begin(self, taken: Callable[[], Iterable[str]]) -> None:
        self._taken = None
        self._used = set(taken())
        self._open: dict[str, deque[str]] = {}  # by given id of the pieces: the own ids whose pieces have not ended
        self._begun: dict[str, deque[str]] = {}  # by given id: the own ids of pieces whose whole call has not come
        self._called: dict[tuple[str, str], deque[str]] = {}  # by given id and name (and ""): the own ids of calls
        self._answered: set[str] = set()  # the own ids of calls that have a result
        self._numbers: dict[str, int] = {}  # by given id: the number in the last id that was made of it

    def own(self, chunk: Chunk) -> Chunk:
        """Return a chunk with the own id of its call; a chunk that belongs to no call is returned unchanged."""
        kind = chunk.type
        if kind not in OF_CALLS:
            return chunk
        if self._taken is not None:
            self._begin(self._taken)
        if kind == "tool-call":
            return self._whole(chunk)
        return self._result(chunk) if kind in ("tool-result", "tool-error") else self._piece(chunk)

    def _piece(self, chunk: Chunk) -> Chunk:
        unended = self._open.setdefault(chunk.id, deque())
        if chunk.type == "tool-input-start" or not unended:
            said = call_id_of(chunk)
            given = _given(said)
            own = self._new(given)
            self._begun.setdefault(given, deque()).append(own)
            unended.append(chunk.id if own == said else own)
        block = unended[0] if chunk.type == "tool-input-end" else unended[-1]
        if chunk.type == "tool-input-end":
            unended.popleft()
        return chunk if block == chunk.id else _with_id(chunk, block, always=False)

    def _whole(self, chunk: Chunk) -> Chunk:
        said = call_id_of(chunk)
        given = _given(said)
        begun = self._begun.get(given)
        own = begun.popleft() if begun else self._new(given)
        for name in dict.fromkeys(("", _name(chunk))):
            self._called.setdefault((given, name), deque()).append(own)
        return chunk if own == said else _with_id(chunk, own)

    def _result(self, chunk: Chunk) -> Chunk:
        said = call_id_of(chunk)
        given, name = _given(said), _name(chunk)
        calls = self._called.get((given, name))
        if calls is not None:
            while len(calls) > 1 and calls[0] in self._answered:
                calls.popleft()
            own = calls[0]
            self._answered.add(own)
        elif given and (given, "") not in self._called:  # of an earlier answer, or of a call that is not shown
            self._used.add(given)  # a call that follows must not get this result
            return chunk
        else:  # of no call, or of a call to another tool
            own = self._new(given)
        return chunk if own == said else _with_id(chunk, own)

    def _new(self, given: str) -> str:
        """Return the given id if it is free, else another one that is."""
        used = self._used
        own, number = given, self._numbers.get(given, 1 if given else 0)
        while not own or own in used:
            number += 1
            own = f"{given[:_LONGEST] or 'call'}-{number}"
        self._numbers[given] = number
        used.add(own)
        return own


def call_id_of(chunk: Chunk) -> object:
    """Return the id of a chunk's call as it was sent: a str, or whatever the payload holds."""
    return next((chunk.payload[key] for key in CALL_ID_KEYS if chunk.payload.get(key)), chunk.id)


def _given(said: object) -> str:
    return str(said).strip()


def _name(chunk: Chunk) -> str:
    return str(next((chunk.payload[key] for key in NAME_KEYS if chunk.payload.get(key)), ""))


def _with_id(chunk: Chunk, own: str, *, always: bool = True) -> Chunk:
    """Return a chunk with another id; ``always``: also in the payload if there is none."""
    keys = [key for key in CALL_ID_KEYS if key in chunk.payload] or (["call_id"] if always else [])
    payload = FrozenDict({**chunk.payload, **dict.fromkeys(keys, own)}) if keys else chunk.payload
    return Chunk(chunk.type, chunk.text, own, payload, chunk.run_id, chunk.transient)
