"""`replace_parts`: write an answer as a later stage left it into its events, of which none has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import DataPart, ReasoningPart, TextPart, ToolPart
from penstock.workflows.gateway.held_texts import aligned, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.messages import Part
    from penstock.workflows.gateway.answer_events import AnswerEvent
    from penstock.workflows.gateway.blocks import CallBlock, TextBlock
    from penstock.workflows.gateway.held_texts import HeldText, HeldTexts
    from penstock.workflows.gateway.tables import Path


def replace_parts(
    before: Sequence[Part],
    after: Sequence[Part],
    events: Mapping[int, AnswerEvent],
    blocks: Mapping[str, TextBlock],
    held: HeldTexts,
    calls: Sequence[CallBlock],
    values: Sequence[int],
) -> bool:
    """Write the parts of an answer as a later stage left them into its events.

    Args:
        before: the parts before the stage.
        after: the parts after it.
        events: the events of the answer, by number.
        blocks: its texts, by name.
        held: where these stand in the events.
        calls: its calls of tools, in the order of the parts.
        values: the events with values, in the order of the parts.

    Returns:
        Whether they can be written in place: a part can change or vanish, but no call can be removed or added.
    """
    kinds = [_kind(part) for part in after]
    known = [_kind(part) for part in before]
    if kinds != known and any(kinds.count(kind) != known.count(kind) for kind in ("call", "data")):
        return False
    for kind in ("text", "reasoning"):
        now = [part.text for part in after if isinstance(part, (TextPart, ReasoningPart)) and part.type == kind]
        _replace_texts(events, blocks, held, kind, now)
    arguments = [part.arguments for part in after if isinstance(part, ToolPart)]
    for call, now_said in zip(calls, arguments, strict=False):
        call.back = now_said
    data = [part.data for part in after if isinstance(part, DataPart)]
    for number, one in zip(values, data, strict=False):
        events[number].left = thaw(one)
    return True


def _replace_texts(
    events: Mapping[int, AnswerEvent],
    blocks: Mapping[str, TextBlock],
    held: HeldTexts,
    kind: str,
    texts: Sequence[str],
) -> None:
    """Write the texts of a kind into the events that hold them; a text that was removed becomes empty."""
    for block in blocks.values():
        _settle_late(events, held, block)
    spans = [(span, _pieces(events, span)) for span in held.all if span.block.kind == kind]
    before = ["".join(event.got.get(path, "") for event, path in pieces) for _, pieces in spans]
    for (span, pieces), now in zip(spans, aligned(before, texts), strict=True):
        if now is None:
            held.all.remove(span)
        made = spread([event.got.get(path, "") for event, path in pieces], now or "")
        for (event, path), text in zip(pieces, made, strict=True):
            event.got[path] = text


def _settle_late(events: Mapping[int, AnswerEvent], held: HeldTexts, block: TextBlock) -> None:
    """Put the late text of a block into its last piece; nothing has left yet."""
    span = next((span for span in reversed(held.all) if span.block is block), None)
    pieces = [] if span is None else _pieces(events, span)
    if block.late and pieces:
        event, path = pieces[-1]
        event.got[path] = event.got.get(path, "") + block.take_late()


def _pieces(events: Mapping[int, AnswerEvent], span: HeldText) -> list[tuple[AnswerEvent, Path]]:
    """Return the places of a text of the message."""
    found: list[tuple[AnswerEvent, Path]] = []
    for number, nth in span.places:
        event = events.get(number)
        paths = [] if event is None else [path for path, one, _ in event.texts if one is span.block]
        if event is not None and paths:
            found.append((event, paths[nth]))
    return found


def _kind(part: Part) -> str:
    return "call" if isinstance(part, ToolPart) else "data" if isinstance(part, DataPart) else part.type
