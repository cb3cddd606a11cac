"""Chunks: the pieces of a stream, as immutable values; and the chunks that report a verdict to a client.

The engine reads chunks of the kinds in ``CONTROL`` before processors see them, so dropping one changes only what is
shown. A content or data chunk that a processor drops is lost.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire


CONTENT: frozenset[str] = frozenset(
    {
        "text-start",
        "text-delta",
        "text-end",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "source",
        "file",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-end",
        "tool-call",
        "tool-result",
        "tool-error",
        "tool-approval-request",
        "object",
        "object-result",
        "raw",
    }
)
"""The content of an answer; a processor may change or drop it."""

CONTROL: frozenset[str] = frozenset(
    {"start", "step-start", "response-metadata", "step-finish", "finish", "error", "abort", "tripwire", "retract"}
)
"""Chunks that structure a stream. The engine reads them before processors do, so dropping one loses nothing."""

KNOWN: frozenset[str] = CONTENT | CONTROL

DELTAS: frozenset[str] = frozenset({"text-delta", "reasoning-delta", "tool-input-delta"})
"""The kinds that add a text."""


class _UnfrozenChunk:
    """A chunk while its attributes are set, at half the cost of the setters of a frozen one. It becomes a `Chunk`."""

    __slots__ = ("type", "text", "id", "payload", "run_id", "transient")  # noqa: RUF023 - the order of `Chunk`

    type: str
    text: str
    id: str
    payload: Values
    run_id: str
    transient: bool


@final
@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a stream.

    Attributes:
        type: the kind: one of `CONTENT`, one of `CONTROL`, or ``data-<name>``.
        text: the text that it adds (deltas of text, reasoning and tool input); otherwise empty.
        id: the id of the block it belongs to, if any.
        payload: everything else, read-only.
        run_id: the id of the run that sent it.
        transient: whether it is a data chunk that is shown but not stored.
    """

    type: str
    text: str = ""
    id: str = ""
    payload: Values = EMPTY
    run_id: str = ""
    transient: bool = False

    def __post_init__(self) -> None:
        """Freeze the payload; refuse an unknown type, which no guard would check, and text in a chunk that has none.

        Raises:
            MessageError: the type is unknown, or there is text in a chunk of a type that has none.
        """
        if self.type not in KNOWN and not self.type.startswith("data-"):
            raise MessageError("chunk", _unknown(self.type))
        if self.text and self.type not in DELTAS:
            raise MessageError(
                "chunk",
                f"only {', '.join(sorted(DELTAS))} chunks have text; put data of a {self.type!r} chunk in payload",
            )
        if type(self.payload) is not FrozenDict:
            object.__setattr__(self, "payload", freeze(self.payload))

    def with_text(self, text: str, run_id: str | None = None) -> Chunk:
        """Return the chunk with another text, without validating it again; with another ``run_id`` if one is given."""
        made = _UnfrozenChunk()
        made.type = self.type
        made.text = text
        made.id = self.id
        made.payload = self.payload
        made.run_id = self.run_id if run_id is None else run_id
        made.transient = self.transient
        made.__class__ = Chunk  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
        return made  # type: ignore[return-value]  # pyright: ignore[reportReturnType]

    def differs_in_text(self, other: Chunk) -> bool:
        """Tell whether both chunks are equal, or differ in nothing but the text."""
        return (
            self.type == other.type
            and self.id == other.id
            and (self.payload is other.payload or self.payload == other.payload)
            and self.run_id == other.run_id
            and self.transient == other.transient
        )

    def with_id(self, block: str) -> Chunk:
        """Return the chunk with the id of another block."""
        return Chunk(self.type, self.text, block, self.payload, self.run_id, self.transient)

    def with_payload(self, payload: Values) -> Chunk:
        """Return the chunk with another payload."""
        return Chunk(self.type, self.text, self.id, payload, self.run_id, self.transient)

    @property
    def is_control(self) -> bool:
        """Whether dropping it changes only the display."""
        return self.type in CONTROL

    @property
    def is_data(self) -> bool:
        """Whether it is a chunk of the application (``data-<name>``)."""
        return self.type.startswith("data-")


def _unknown(type: str) -> str:
    close = difflib.get_close_matches(type.replace("_", "-"), KNOWN, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return (
        f"unknown chunk type {type!r}; {meant}use 'raw' for other chunks of a provider, 'data-<name>' for your own, or "
        f"one of {', '.join(sorted(KNOWN))}"
    )


def tripwire_chunk(tripwire: Tripwire, run_id: str) -> Chunk:
    """Return the chunk that tells a client of a verdict."""
    payload = {
        "reason": tripwire.reason,
        "retry": tripwire.retry,
        "metadata": tripwire.metadata,
        "processor_id": tripwire.processor_id,
        "stage": tripwire.stage,
    }
    return Chunk("tripwire", payload=freeze(payload), run_id=run_id)


def retry_chunk(tripwire: Tripwire, run_id: str) -> Chunk:
    """Return the chunk that ends a rejected attempt, where the model is to try again."""
    payload = {
        "reason": "retry",
        "retry_reason": tripwire.reason,
        "metadata": tripwire.metadata,
        "processor_id": tripwire.processor_id,
    }
    return Chunk("step-finish", payload=freeze(payload), run_id=run_id)


def retract_chunk(blocks: Iterable[str], run_id: str) -> Chunk:
    """Return the chunk that takes back texts which a client has received."""
    return Chunk("retract", payload=freeze({"blocks": tuple(blocks)}), run_id=run_id)


def notices(tripwire: Tripwire, run_id: str, out: Iterable[str], *, retry: bool) -> tuple[Chunk, ...]:
    """Return the chunks that tell a client of a rejection; texts are taken back if the answer goes on without them."""
    blocks = tuple(out)
    back = (retract_chunk(blocks, run_id),) if blocks else ()
    return (*back, retry_chunk(tripwire, run_id) if retry else tripwire_chunk(tripwire, run_id))
