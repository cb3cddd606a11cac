"""What a hook did through its context beside what it returned, and the writer of data chunks; it knows no context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.facts import AnyKey
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import Watch
    from penstock.engine.values.tripwire import Tripwire


class Effects:
    """What a hook did through its context, beside what it returned."""

    __slots__ = ("data", "facts", "notes", "tripwire", "watch")

    def __init__(self) -> None:
        self.tripwire: Tripwire | None = None
        self.facts: dict[AnyKey, Value] | None = None
        self.notes: dict[str, Value] | None = None
        self.data: list[Chunk] | None = None
        self.watch: Watch | None = None


class Writer:
    """Collects the data chunks of one hook; they are sent when its step's result counts."""

    __slots__ = ("effects",)

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def write(self, chunk: Chunk) -> None:
        """Send a data chunk to the client.

        Raises:
            UsageError: the chunk is none of an application's own (``data-<name>``).
        """
        if not chunk.is_data:
            raise UsageError(f"the writer takes chunks of type 'data-<name>', not {chunk.type!r}")
        if self.effects.data is None:
            self.effects.data = []
        self.effects.data.append(chunk)
