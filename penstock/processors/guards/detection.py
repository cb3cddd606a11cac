"""`Detection`: the argument of a guard's callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.detection.spans import Span


@dataclass(frozen=True, slots=True, repr=False)
class Detection:
    """The result for one text, or for one window of it. Callbacks get it.

    Attributes:
        processor_id: the id of the guard.
        stage: the stage in which the guard ran, such as ``process_input``.
        message_id: the id of the message; empty in a stream, and for a tool's arguments or result.
        part: the index of the part in the message, from 0.
        field: the field that holds the text: ``text``, ``arguments``, ``result``, ``name`` …
        flagged: whether a score reached its threshold.
        strategy: what the guard did; ``none`` if nothing was flagged.
        categories: the categories that reached their threshold.
        scores: all scores by category, from 0 to 1.
        spans: where something was found, in characters from the beginning of the text; empty if the text was judged as
            a whole.
        reason: the judge's reason; None without a judge, and if the reason would quote the text.
        judge: the name of the model that judged; empty for the embedded detector.
        text: the text; None unless ``include_text`` is set.
    """

    processor_id: str
    stage: str
    message_id: str
    part: int
    field: str
    flagged: bool
    strategy: str
    categories: tuple[str, ...] = ()
    scores: Mapping[str, float] = EMPTY
    spans: tuple[Span, ...] = ()
    reason: str | None = None
    judge: str = ""
    text: str | None = None

    def __repr__(self) -> str:
        """Show everything except the text."""
        return f"Detection({self.processor_id!r}, {self.stage!r}, {self.strategy!r}, {self.categories!r})"
