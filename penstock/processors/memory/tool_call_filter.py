"""`MemoryToolCallFilter`: the older filter of tool traffic in remembered messages; it knows no stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.messages import ToolPart
from penstock.models.conversations.names import names_of
from penstock.models.conversations.pairs import pair_key, without_pairs
from penstock.processors.memory.legacy import LegacyMemoryProcessor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.values.messages import Message


class MemoryToolCallFilter(LegacyMemoryProcessor):
    """Takes the calls and results of tools out of what was remembered; what is said beside them stays.

    For `LegacyMemory`. `penstock.ToolCallFilter` can do more, and leaves the conversation as it is.
    """

    def __init__(self, *, exclude: Iterable[str] | None = None) -> None:
        """Check the options.

        Args:
            exclude: the tools whose traffic goes; None for all, none of them for nothing.

        Raises:
            OptionError: it is no list of names.
        """
        super().__init__()
        self.exclude = None if exclude is None else names_of(type(self).__name__, "exclude", exclude)

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,  # noqa: ARG002  # the protocol's
        memory_system_message: str | None = None,  # noqa: ARG002  # likewise
        new_messages: Sequence[Message] = (),  # noqa: ARG002  # likewise
    ) -> Sequence[Message]:
        """Return the messages without the calls of those tools and their results, by the calls' ids."""
        keys = {
            pair_key(part)
            for message in messages
            for part in message.parts
            if isinstance(part, ToolPart) and (self.exclude is None or part.name in self.exclude)
        }
        return without_pairs(messages, keys) if keys else messages
