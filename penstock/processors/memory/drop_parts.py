"""`DropParts`: drops parts of some types, and messages that are left with nothing; it knows no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import UnknownPart
from penstock.models.conversations.names import names_of
from penstock.models.conversations.pairs import says_something
from penstock.processors.memory._scopes import Dropper

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Message, Part
    from penstock.processors.memory._scopes import Scope


class DropParts(Dropper):
    """Drops the parts of some types: thoughts, images, files, tool calls. Messages that say nothing then go too.

    A call and its result go together, wherever they stand.
    """

    id = "drop-parts"

    def __init__(self, *, types: Iterable[str], scope: Scope = "remembered", id: str | None = None) -> None:
        """Check the options.

        Args:
            types: what goes: kinds of parts (``reasoning``, ``image``, ``tool`` …), or the types of parts that Penstock
                does not know (``redacted-reasoning``).
            scope: ``remembered`` (what memory gave) or ``input`` (what the caller sends), for the whole run; or
                ``prompt``: each call's prompt up to the current turn, the conversation stays as it is.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        self.types = names_of(type(self).__name__, "types", types, "types of parts")
        if not self.types:
            raise OptionError(type(self).__name__, "types", types, "a list of types of parts, not empty")
        self.place(scope)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages without those parts, and without messages that say nothing."""
        made: list[Message] = []
        for message in messages:
            parts = [part for part in message.parts if _type_of(part) not in self.types]
            if says_something(parts):
                made.append(message if len(parts) == len(message.parts) else message.with_parts(parts))
        return made


def _type_of(part: Part) -> object:
    """Return the kind of a part, or what a part of unknown kind calls itself."""
    raw = part.raw if isinstance(part, UnknownPart) else None
    return raw.get("type") if is_mapping(raw) else part.type
