"""`Detection`: what a guard tells its user about a text that it judged, as a value; it knows no guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.detection.spans import Span


@dataclass(frozen=True, slots=True, repr=False)
class Detection:
    """What a guard found out about one text, or one window of it.

    Attributes:
        processor_id: the guard's id.
        stage: the stage it happened in.
        message_id: the message's id; empty in a stream, and for a tool's arguments or result.
        part: the index of the part in the message.
        field: what the text is: ``text``, ``arguments``, ``result``, ``name`` …
        flagged: whether the guard's limits were reached.
        strategy: what was done about it: ``none`` where nothing was flagged.
        categories: what was found that reached the limit.
        scores: all scores, by category, from 0 to 1.
        spans: where it was found, in characters from the text's beginning; empty where the text was judged whole.
        reason: what the judge says about it; None without a judge, and where it would quote the text.
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
        """Show all but the text."""
        return f"Detection({self.processor_id!r}, {self.stage!r}, {self.strategy!r}, {self.categories!r})"
