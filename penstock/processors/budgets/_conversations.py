"""`Conversation`: the messages of a list with the system's apart, and what marks them; it knows no budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.message_list import Entry
    from penstock.engine.values.messages import Message

PINNED = "pinned"
PRIORITY = "priority"


class Conversation:
    """One look at the entries of a list. Never changed, so that it can be kept while the entries are the same.

    Attributes:
        entries: the entries.
        system: the places of the system's messages among them.
        first: where the others begin, if they follow one another.
        places: the places of the others, if they do not.
        messages: the others.
        said: which of the others were said in this run.
        marked: which of the others have metadata.
    """

    __slots__ = ("entries", "first", "marked", "messages", "places", "said", "system")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.system = [place for place, entry in enumerate(entries) if entry[1] == "system"]
        self.first = len(self.system)
        self.places: list[int] | None = None
        self.messages: list[Message]
        if self.system and self.system[-1] >= self.first:
            self.places = [place for place, entry in enumerate(entries) if entry[1] != "system"]
            self.messages = [entries[place][0] for place in self.places]
        else:
            self.messages = [entry[0] for entry in entries[self.first :]]
        self.said = self.of("response")
        self.marked = [place for place, message in enumerate(self.messages) if message.metadata]

    def of(self, source: str) -> list[int]:
        """Return which of the messages have a source."""
        if self.places is not None:
            return [at for at, place in enumerate(self.places) if self.entries[place][1] == source]
        return [at for at, entry in enumerate(self.entries[self.first :]) if entry[1] == source]

    def pinned(self) -> list[int]:
        """Return which messages are pinned by their metadata."""
        return [at for at in self.marked if self.messages[at].metadata.get(PINNED) is True]

    def priorities(self) -> dict[int, float]:
        """Return the priorities that messages have by their metadata."""
        given = {at: self.messages[at].metadata.get(PRIORITY) for at in self.marked}
        return {at: one for at, one in given.items() if isinstance(one, (int, float)) and not isinstance(one, bool)}
