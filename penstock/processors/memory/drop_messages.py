"""`DropMessages`: drops messages of which a function says so; it knows no memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError
from penstock.processors.memory._scopes import Dropper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.messages import Message
    from penstock.processors.memory._scopes import Scope


class DropMessages(Dropper):
    """Drops the messages that a function picks. Results whose calls are dropped go too, and calls whose results are."""

    id = "drop-messages"

    def __init__(
        self, predicate: Callable[[Message], bool], *, scope: Scope = "remembered", id: str | None = None
    ) -> None:
        """Check the options.

        Args:
            predicate: tells of a message whether it goes.
            scope: ``remembered`` (what memory gave) or ``input`` (what the caller sends), for the whole run; or
                ``prompt``: each call's prompt up to the current turn, the conversation stays as it is.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        given: object = predicate
        if not callable(given) or is_async(predicate):
            raise OptionError(type(self).__name__, "predicate", predicate, "a function from a message to a bool")
        self.predicate = predicate
        self.place(scope)

    def left(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages that the function does not pick."""
        return [message for message in messages if not self.predicate(message)]
