"""What one run has asked a cache, and what became of it. It knows flights and answers, no cache.

An answer may be kept once its run has ended without a verdict, and only then is it known what the guards made of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.processors.caching._entries import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest
    from penstock.processors.caching._answers import Given
    from penstock.processors.caching._entries import Entry
    from penstock.processors.caching._flights import Flight

Keep = Literal["unchanged", "raw"]


@dataclass(slots=True, eq=False)
class Asked:
    """One model call, from the request to the end of its run.

    Attributes:
        key: under which its answer is kept.
        tags: the versions of its tags when it was asked for.
        ttl: for how many seconds it is kept.
        request: what the model was to be sent, and which model.
        known: the ids of the messages that were there before the answer.
        place: under which key others wait for it.
        flight: those who wait for it, if this run leads.
        replayed: whether it came from the cache.
        writes: whether the cache could be read, so that it is written, too.
        text: the answer as it would be kept; None while there is none, or none to keep.
        given: the same, to be compared.
        answer_id: the id of the message that it became.
        settled: whether nothing is to come of it any more: it was rejected, or is not to be kept.
    """

    key: str
    tags: dict[str, str]
    ttl: float | None
    request: tuple[Value, ModelRequest]
    known: frozenset[str]
    place: str
    flight: Flight | None = None
    replayed: bool = False
    writes: bool = True
    text: str | None = None
    given: Given | None = None
    answer_id: str = ""
    settled: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the model has not answered yet."""
        return not self.replayed and self.text is None and not self.settled

    def stands(self, ended: RunEnd, keep: Keep) -> bool:
        """Tell whether the answer may be kept, now that the run has ended."""
        if self.settled or self.text is None or self.given is None or not ended.completed:
            return False
        message = ended.message_list.get(self.answer_id)
        if keep == "raw":
            return message is not None or self.given.is_silent
        return self.given.stands_in(message)

    def replay(self, entry: Entry) -> None:
        """Take it that the answer was kept; who waits for it has it, too."""
        self.replayed = True
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.land(entry)
            flight.close()

    def drop(self, *, hopeless: bool) -> None:
        """Keep nothing of it, and let go those who wait: each asks for itself (``hopeless``), or the next one leads."""
        self.settled, self.text, self.given = True, None, None
        flight, self.flight = self.flight, None
        if flight is not None:
            flight.give_up(hopeless=hopeless)


class Visit:
    """The calls of one run, in order. Lives as long as the run."""

    __slots__ = ("asked", "is_told")

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.is_told = False

    @property
    def leads(self) -> bool:
        """Whether others may be waiting for this run."""
        return any(asked.flight is not None for asked in self.asked)

    @property
    def open(self) -> Asked | None:
        """The call that the model has not answered yet."""
        last = self.asked[-1] if self.asked else None
        return last if last is not None and last.is_open else None

    def reject(self) -> None:
        """Take it that the last answer was not accepted, since the model is asked again because of it."""
        last = self.asked[-1] if self.asked else None
        if last is not None and not last.is_open and not last.settled:
            last.drop(hopeless=True)

    def forgo(self) -> None:
        """Take it that the last call has no answer: another is made."""
        before = self.open
        if before is not None:
            before.drop(hopeless=False)

    def add(self, asked: Asked) -> None:
        """Note a call. If it is the last one made again, because it failed, those who wait go on waiting."""
        before = self.open
        if before is not None and before.place == asked.place:
            asked.flight, before.flight = before.flight, None
        self.forgo()
        self.asked.append(asked)

    def end(self, ended: RunEnd, keep: Keep) -> Iterator[Asked]:
        """Let go all who wait, and yield the calls whose answers may be kept."""
        passed = ended.completed or ended.tripwire is not None
        for asked in self.asked:
            if asked.replayed:
                continue
            entry = read(asked.text) if asked.stands(ended, keep) else None
            if entry is None:
                asked.drop(hopeless=passed)
            else:
                if asked.flight is not None:
                    asked.flight.land(entry)
                yield asked

    def rejected(self, ended: RunEnd) -> list[str]:
        """Return the keys of kept answers with which this run came to no good end."""
        if ended.tripwire is None:
            return [asked.key for asked in self.asked if asked.replayed and asked.settled]
        return [asked.key for asked in self.asked if asked.replayed]
