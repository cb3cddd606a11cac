"""The cache lookups of one run, and what became of them.

An answer may be stored only when its run has ended without a tripwire: until then, guards may still change or reject
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.processors.caching.entries import read_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import ModelRequest
    from penstock.models.single_flight import PendingCall
    from penstock.processors.caching.entries import CacheEntry, OriginalAnswer

Keep = Literal["unchanged", "raw"]


@dataclass(slots=True, eq=False)
class Lookup:
    """The cache lookup of one model call, from the request to the end of its run.

    Attributes:
        key: the key of the entry.
        tags: the versions that its tags had when it was looked up.
        ttl: for how many seconds the answer is stored; None: as long as the cache decides.
        request: the model, and the request that it was to be sent.
        known: the ids of the messages that the conversation held before the answer.
        shared_key: the key under which other runs wait for the answer.
        pending: the call that other runs may wait for, if this run leads. Delivering None tells them to ask themselves.
        replayed: whether the answer came from the cache.
        writes: whether the cache could be read; only then is it written.
        text: the answer as it would be stored; None while there is none, or none to store.
        original: the same answer, to be compared with what guards made of it.
        answer_id: the id of the message that it became.
        dropped: whether the answer was rejected, or may not be stored.
        lease: the holder of a lease over all processes, for which this run makes the answer; empty if there is none.
        useless: whether the others need not wait, since no answer of this run will be stored.
    """

    key: str
    tags: dict[str, str]
    ttl: float | None
    request: tuple[Value, ModelRequest]
    known: frozenset[str]
    shared_key: str
    pending: PendingCall[str, CacheEntry | None] | None = None
    replayed: bool = False
    writes: bool = True
    text: str | None = None
    original: OriginalAnswer | None = None
    answer_id: str = ""
    dropped: bool = False
    lease: str = ""
    useless: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the model has not answered yet."""
        return not self.replayed and self.text is None and not self.dropped

    def may_be_stored(self, end: RunEnd, keep: Keep) -> bool:
        """Tell whether the answer may be stored, now that the run has ended."""
        if self.dropped or self.text is None or self.original is None or not end.completed:
            return False
        message = end.message_list.get(self.answer_id)
        if keep == "raw":
            return message is not None or self.original.is_silent
        return self.original.is_unchanged_in(message)

    def replay(self, entry: CacheEntry) -> None:
        """Note that the answer came from the cache, and deliver it to the runs that wait for it."""
        self.replayed = True
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.deliver(entry)
            pending.remove()

    def drop(self, *, wait_is_over: bool) -> None:
        """Store nothing, and release the runs that wait: each asks itself (``wait_is_over``), or the next one leads."""
        self.dropped, self.text, self.original = True, None, None
        self.useless = self.useless or wait_is_over
        pending, self.pending = self.pending, None
        if pending is not None:
            if wait_is_over:
                pending.deliver(None)
            pending.release()


class RunLookups:
    """The lookups of one run, in order. Lives as long as the run."""

    __slots__ = ("has_end_callback", "lookups")

    def __init__(self) -> None:
        self.lookups: list[Lookup] = []
        self.has_end_callback = False

    @property
    def leads(self) -> bool:
        """Whether other runs may be waiting for this one."""
        return any(lookup.pending is not None for lookup in self.lookups)

    def leads_elsewhere(self, lookup: Lookup) -> bool:
        """Tell whether others may wait for another call of this run, so that it must not wait itself."""
        return any(each.lease or each.pending is not None for each in self.lookups if each is not lookup)

    @property
    def open(self) -> Lookup | None:
        """The lookup whose model call has no answer yet."""
        last = self.lookups[-1] if self.lookups else None
        return last if last is not None and last.is_open else None

    def reject(self) -> None:
        """Drop the last answer: the model is asked again, so it was not accepted."""
        last = self.lookups[-1] if self.lookups else None
        if last is not None and not last.is_open and not last.dropped:
            last.drop(wait_is_over=True)

    def give_up_open(self) -> None:
        """Drop the lookup that has no answer: another call is made."""
        before = self.open
        if before is not None:
            before.drop(wait_is_over=False)

    def add(self, lookup: Lookup) -> None:
        """Add a lookup. If it repeats the last one, because that call failed, the runs that wait go on waiting."""
        before = self.open
        if before is not None and before.shared_key == lookup.shared_key:
            lookup.pending, before.pending = before.pending, None
            lookup.lease, before.lease = before.lease, ""
        self.give_up_open()
        self.lookups.append(lookup)

    def end(self, end: RunEnd, keep: Keep) -> Iterator[Lookup]:
        """Release all runs that wait, and yield the lookups whose answers may be stored."""
        passed = end.completed or end.tripwire is not None
        for lookup in self.lookups:
            if lookup.replayed:
                continue
            entry = read_entry(lookup.text) if lookup.may_be_stored(end, keep) else None
            if entry is None:
                lookup.drop(wait_is_over=passed)
            else:
                if lookup.pending is not None:
                    lookup.pending.deliver(entry)
                yield lookup

    def leased(self) -> list[Lookup]:
        """Return the lookups with a lease, which ends with the run."""
        return [lookup for lookup in self.lookups if lookup.lease]

    def rejected(self, end: RunEnd) -> list[str]:
        """Return the keys of the replayed answers that this run rejected."""
        if end.tripwire is None:
            return [lookup.key for lookup in self.lookups if lookup.replayed and lookup.dropped]
        return [lookup.key for lookup in self.lookups if lookup.replayed]
