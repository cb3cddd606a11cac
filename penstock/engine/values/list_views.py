"""`ListViews`: the entries of a message list, with the views that each step of a request asks for.

A request of an agent derives a list of each change, and looks for messages by id in all of them. A list that only adds
messages, or puts others in their places, takes over the views of the list before it: nothing is searched twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.engine.values.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Message

Source = Literal["input", "memory", "response", "context", "system"]


class Entry(NamedTuple):
    """A message of a list.

    Attributes:
        message: the message.
        source: where it came from.
        tag: the owner of a system message; None for other messages, and for system messages without an owner.
    """

    message: Message
    source: Source
    tag: str | None = None


_CONVERSATION = "conversation"
_NONE_CHOSEN: dict[str, tuple[Message, ...]] = {}


class ListViews:
    """The entries of a message list, which never change, and views of them that are made when they are first read.

    Args:
        entries: the messages with their sources and tags, in order.
    """

    __slots__ = ("_call_ids", "_chosen", "_places", "_system", "entries")

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries
        self._places: dict[str, int] | None = None  # by id; shared by lists that grew from one another
        self._chosen: dict[str, tuple[Message, ...]] = _NONE_CHOSEN  # the messages of a source
        self._system: tuple[Entry, ...] | None = None
        self._call_ids: frozenset[str] | None = None

    @property
    def conversation(self) -> tuple[Message, ...]:
        """Every message except system messages."""
        return self.of(_CONVERSATION)

    @property
    def system(self) -> tuple[Entry, ...]:
        """The entries of system messages."""
        if self._system is None:
            self._system = tuple([entry for entry in self.entries if entry[1] == "system"])
        return self._system

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls to tools in the conversation."""
        if self._call_ids is None:
            self._call_ids = frozenset(call_ids_of(self.conversation))
        return self._call_ids

    def of(self, source: str) -> tuple[Message, ...]:
        """Return the messages of a source, or of the conversation."""
        chosen = self._chosen.get(source)
        if chosen is None:
            chosen = tuple([entry[0] for entry in self.entries if _belongs(entry, source)])
            self._chosen = {**self._chosen, source: chosen}
        return chosen

    def place(self, message_id: str) -> int | None:
        """Return the place of the first message with that id; None if there is none."""
        places, entries = self._places, self.entries
        if places is None:
            places = self._places = {}
            for place, entry in enumerate(entries):
                places.setdefault(entry[0].id, place)
        found = places.get(message_id)
        if found is None or (found < len(entries) and entries[found][0].id == message_id):
            return found
        return next((place for place, entry in enumerate(entries) if entry[0].id == message_id), None)

    def places(self, ids: Iterable[str]) -> list[int]:
        """Return the places of all messages with those ids."""
        first = [place for place in map(self.place, ids) if place is not None]
        if self._places is not None and len(self._places) >= len(self.entries):
            return first
        wanted = {self.entries[place][0].id for place in first}  # an id stands twice
        return [place for place, entry in enumerate(self.entries) if entry[0].id in wanted]

    def changed(self, entries: tuple[Entry, ...], places: Sequence[int]) -> ListViews:
        """Return the views of a list that has other messages of the same ids and sources at some places.

        Args:
            entries: the entries of that list; those behind the end of this one are new, and so are their ids.
            places: where the others stand.
        """
        made = ListViews(entries)
        before = self.entries
        added = entries[len(before) :]
        if not added:
            made._places = self._places
        elif before and self._places is not None and len(self._places) == len(before):
            # No other list has grown from this one: otherwise the table could grow with each list, forever.
            made._places = self._places
            made._places.update((entry[0].id, place) for place, entry in enumerate(added, len(before)))
        if self._chosen:
            made._chosen = {
                source: _carried(source, chosen, before, entries, places) for source, chosen in self._chosen.items()
            }
        if self._system is not None and all(
            entry[1] != "system" for entry in (*[entries[place] for place in places], *added)
        ):
            made._system = self._system
            made._call_ids = self._carried_call_ids(entries, places, added)
        return made

    def _carried_call_ids(
        self, entries: Sequence[Entry], places: Sequence[int], added: Sequence[Entry]
    ) -> frozenset[str] | None:
        known = self._call_ids
        if known is None:
            return None
        was = set(call_ids_of([self.entries[place][0] for place in places]))
        if was != set(call_ids_of([entries[place][0] for place in places])):
            return None  # another message may have one of these ids, too
        new = set(call_ids_of([entry[0] for entry in added]))
        return known | new if new else known

    def __reduce__(self) -> tuple[type[ListViews], tuple[tuple[Entry, ...]]]:
        """Pickle as the entries."""
        return (ListViews, (self.entries,))


def call_ids_of(messages: Iterable[Message]) -> Iterable[str]:
    """Return the ids of the tool calls in messages."""
    return [part.call_id for message in messages for part in message.parts if isinstance(part, ToolPart)]


def _belongs(entry: Entry, source: str) -> bool:
    return entry[1] != "system" if source is _CONVERSATION else entry[1] == source


def _carried(
    source: str, chosen: tuple[Message, ...], before: Sequence[Entry], entries: Sequence[Entry], places: Sequence[int]
) -> tuple[Message, ...]:
    """Return the messages of a source, with those at some places changed and those behind the end added."""
    made = list(chosen)
    behind, end = 0, len(before)
    for place in sorted(places, reverse=True):  # most changes are at the back; each entry is looked at once
        behind += sum(_belongs(entry, source) for entry in before[place:end])
        end = place
        if _belongs(entries[place], source):
            made[-behind] = entries[place][0]
    made += [entry[0] for entry in entries[len(before) :] if _belongs(entry, source)]
    return tuple(made)
