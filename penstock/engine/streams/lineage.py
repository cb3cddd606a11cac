"""What the stops of a dag add up to over a text: as `History` says of whole payloads, stretch by stretch.

It knows edits and which stop came after which, no track. What two stops both saw is a change of neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.merging.dag_state import History
from penstock.engine.processor.payload import Payload
from penstock.engine.streams.deltas import Composer, Delta, cut_apart, shifted, uncut
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.frozen import FrozenDict
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.merging.dag_state import Unite
    from penstock.engine.merging.rules import MergePolicy
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.message_list import MessageList

TEXT = "text"
"""The field that a stretch of text is, while it is merged."""

_PLACE = TextPlace("", 0, (TEXT,))


class Stop(NamedTuple):
    """A stop that ran: what merge policies call it, the path its changes go under, and all it came after, as bits."""

    name: str
    path: str
    above: int


class Family(NamedTuple):
    """All stops that ran, in order, and how they are merged."""

    stops: Sequence[Stop]
    policy: MergePolicy
    unite: Unite
    messages: MessageList

    def met(self, text: str, own: Mapping[int, Edits]) -> Edits:
        """Return what stops did to a text together, as edits of it.

        Args:
            text: the text before all of them.
            own: by stop what it did itself, to the text as those above it had left it; all those above are among them.

        Raises:
            StepFailedError: they cannot be merged; or whatever else ``unite`` raises then.
        """
        made = [index for index in sorted(own) if own[index]]
        if not made:
            return ()
        history = History(Payload(self.messages, fields=FrozenDict({TEXT: text})).tracked(), self.policy, self.unite)
        for index in sorted(own):
            stop = self.stops[index]
            seen = history.state(stop.above)
            after = edit_ops.apply(str(seen.fields[TEXT]), own[index])
            hints = {_PLACE: own[index]} if own[index] else {}
            end = Payload(self.messages, fields=FrozenDict({TEXT: after}), hints=hints) if own[index] else seen
            history.add(index, stop.name, stop.path, stop.above, end)
        change = history.change(0, history.live).get(("fields", TEXT), ())
        after = str(history.state(history.live).fields[TEXT])
        return change if isinstance(change, tuple) else edit_ops.difference(text, after)


class Meeting:
    """Where several stops meet: as far as all above have decided, with what all of them did."""

    __slots__ = ("_base", "_borders", "_family", "_strands", "_text")

    def __init__(self, family: Family, above: int) -> None:
        self._family = family
        self._strands = {index: _Strand() for index in range(len(family.stops)) if above >> index & 1}
        self._base = 0
        self._text = ""
        self._borders: list[int] = []

    def border(self, at: int) -> None:
        """Note that a neighbour begins at a place of the text: edits are merged text by text."""
        self._borders.append(at)

    def add(self, index: int, before: Delta, own: Sequence[Delta]) -> None:
        """Take in what a stop was fed, and what it decided about that, if it stands above."""
        strand = self._strands.get(index)
        if strand is not None:
            strand.first(before)
            for delta in own:
                strand.second(delta)

    def merged(self, text: str, *, final: bool) -> Delta:
        """Return what all have decided now; ``text`` is what was added to the text since the last call."""
        self._text += text
        until = self._base + len(self._text)
        if not final:
            until = self._reach(until)
        own = {index: strand.own(until, self._borders, final=final) for index, strand in self._strands.items()}
        edits = shifted(self._family.met(self._text[: until - self._base], own), self._base)
        self._text = self._text[until - self._base :]
        self._base = until
        return Delta(edits, until)

    def _reach(self, until: int) -> int:
        while True:
            reach = min(strand.reach(until) for strand in self._strands.values())
            if reach == until:
                return until
            until = reach


class _Strand(Composer):
    """What one stop was fed, and what it did itself."""

    __slots__ = ()

    def reach(self, until: int) -> int:
        """Return the last place up to ``until`` that it has decided and no edit straddles, before all stops."""
        until = self._first.safe(min(until, self._first.until))
        mid = until + _grown(self._first.waiting(), until) + self._mid - self._base
        return self._boundary(min(mid, self._second.until))[0]

    def own(self, until: int, borders: Sequence[int], *, final: bool) -> Edits:
        """Return what it did itself up to a place, counted from where the last call ended, and cut at borders."""
        first = self._first.take(until, final=final)
        moved = [at + self._mid - self._base + _grown(first, at) for at in borders if uncut(first, at) == at]
        mid = until + self._mid - self._base + _grown(first, until + final)
        own = shifted(cut_apart(self._second.take(mid, final=final), moved), -self._mid)
        self._base, self._mid = until, mid
        return own


def _grown(edits: Iterable[Edit], until: int) -> int:
    """Return how much longer a text becomes by the edits that begin before a place."""
    return sum(len(edit.text) - edit.end + edit.start for edit in edits if edit.start < until)
