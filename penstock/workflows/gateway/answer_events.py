"""`AnswerEvent` and `PieceEvent`: an event of a provider's answer that has not left yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.terms import is_word
from penstock.workflows.gateway.json_text import read_json

if TYPE_CHECKING:
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.blocks import CallBlock, TextBlock
    from penstock.workflows.gateway.skeletons import Skeleton
    from penstock.workflows.gateway.tables import Path, Place


class AnswerEvent:
    """An event that has not left yet.

    Attributes:
        number: its number in the answer, from 0.
        raw: the bytes that came.
        type: the type that its ``event:`` line names.
        data: its data.
        texts: its pieces of texts: where, of which block, and the piece.
        got: by path, the pieces as they came back from the guards.
        values: the values that guards read whole.
        left: these as the guards left them, by dotted path; None before that.
        repeats: the texts that went before: where, of which block, and the text.
        seals: the signatures of texts: where, and of which block.
        tokens: the tokens beside texts: where, of which block, and the tokens.
        calls: the calls that it holds a piece of.
        echoes: the fields of the request that it repeats.
        offsets: the places in texts that it names.
        ending: the blocks that end with it, or before it.
        is_last: whether it is the mark behind the last event of a stream.
        is_empty: whether it holds nothing that somebody reads.
    """

    __slots__ = (
        "calls",
        "data",
        "echoes",
        "ending",
        "got",
        "is_empty",
        "is_last",
        "left",
        "number",
        "offsets",
        "raw",
        "repeats",
        "seals",
        "texts",
        "tokens",
        "type",
        "values",
    )

    def __init__(self, number: int, raw: bytes, kind: str, data: Json) -> None:
        self.number = number
        self.raw = raw
        self.type = kind
        self.data = data
        self.texts: list[tuple[Path, TextBlock, str]] = []
        self.got: dict[Path, str] = {}
        self.values: list[Place] = []
        self.left: Value = None
        self.repeats: list[tuple[Path, TextBlock, Value]] = []
        self.seals: list[tuple[Path, TextBlock]] = []
        self.tokens: list[tuple[Path, str, Value]] = []
        self.calls: list[CallBlock] = []
        self.echoes: list[Place] = []
        self.offsets: list[Place] = []
        self.ending: list[TextBlock] = []
        self.is_last = False
        self.is_empty = False


class PieceEvent:
    """An event that was read by its skeleton: one piece of text, and nothing else that somebody reads."""

    __slots__ = ("data", "got", "number", "raw", "skeleton", "text", "type")

    def __init__(self, number: int, raw: bytes, kind: str, data: bytes, skeleton: Skeleton, text: str) -> None:
        self.number = number
        self.raw = raw
        self.type = kind
        self.data = data
        self.skeleton = skeleton
        self.text = text
        self.got = ""

    def expanded(self) -> AnswerEvent:
        """Return the event, parsed."""
        event = AnswerEvent(self.number, self.raw, self.type, read_json(self.data))
        event.texts.append((self.skeleton.path, self.skeleton.block, self.text))
        if self.got:
            event.got[self.skeleton.path] = self.got
        return event


def type_of(event: AnswerEvent) -> str:
    """Return the type of an event, if it is a word."""
    kind = event.type or event.data.get("type")
    return kind if isinstance(kind, str) and is_word(kind) else "event"
