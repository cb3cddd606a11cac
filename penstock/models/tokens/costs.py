"""What a message costs of a prompt's budget, as the models' own chat format has it; it knows no conversation.

Figures: three tokens of frame and one of role for each message, three for the answer's beginning, as OpenAI's recipe
for counting chat tokens has them. What frames a tool call is not published; it is taken to be what frames a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.models.tokens.shapes import IMAGE, compact, media

if TYPE_CHECKING:
    from penstock.engine.values.messages import Message, Part
    from penstock.models.tokens.counters import Counting

FRAME = 4
"""Tokens of a message beside its content."""


class Costs(Protocol):
    """A way to count messages.

    Attributes:
        conversation: what a prompt costs beside its messages.
        least: what no message costs less than.
    """

    conversation: float
    least: float

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return what a message costs, as it is kept, or (``prompt``) as it goes to the model."""
        ...

    def system(self, message: Message) -> float:
        """Return what a system message costs."""
        ...


class ChatCosts:
    """Counts messages as chat models are given them."""

    conversation: float = 3
    least: float = FRAME

    def __init__(self, counting: Counting) -> None:
        self.counting = counting

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return what a message costs; as it is kept and as it is sent, it costs the same."""
        del prompt
        parts = message.parts
        if len(parts) == 1 and type(parts[0]) is TextPart:
            return FRAME + self.counting.count(parts[0].text)
        return FRAME + sum(map(self._part, parts))

    system = of

    def _part(self, part: Part) -> int:
        count = self.counting.count
        match part:
            case TextPart() | ReasoningPart():
                return count(part.text)
            case ToolPart():
                return self._tool(part)
            case ImagePart():
                return IMAGE
            case FilePart() | AudioPart():
                return media(part.media_type, part.data or part.url)
            case UnknownPart():
                return count(compact(part.raw))
            case _:  # an application's data, sources and marks do not go to the model
                return 0

    def _tool(self, part: ToolPart) -> int:
        arguments = part.arguments if isinstance(part.arguments, str) else compact(part.arguments)
        call = FRAME + self.counting.count(part.name) + self.counting.count(arguments)
        if part.state in ("partial", "call"):
            return call
        said = part.error if part.state == "error" else part.result
        return call + FRAME + self.counting.count(said if isinstance(said, str) else compact(said))

    def __eq__(self, other: object) -> bool:
        """Tell whether both count alike."""
        return isinstance(other, ChatCosts) and self.counting == other.counting

    __hash__ = None  # type: ignore[assignment]
