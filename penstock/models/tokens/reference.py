"""What the reference counts for a message, its oddities included, for who must keep to its figures.

3.8 a message, 3.8 a tool result, 24 a conversation, and 12 less for each value that it writes as JSON, so that small
calls cost less than nothing; of a call with its result only the result. It knows no conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.engine.formats import dump_messages
from penstock.engine.values.frozen import is_items, is_mapping, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, ReasoningPart, TextPart, ToolPart
from penstock.models.tokens.shapes import compact, media

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.models.tokens.counters import Counting

MESSAGE = 3.8
RESULT = 3.8
JSON = -12.0

_MEDIA_TYPE = ("mediaType", "mimeType")


class Tally:
    """What one message comes to: the text that is counted as one, and what is added to it."""

    def __init__(self, role: str) -> None:
        self.text = role
        self.more = MESSAGE

    def value(self, value: Value) -> None:
        """Add a value: a str as it is, anything else as JSON, which is held to be lighter than it looks."""
        if isinstance(value, str):
            self.text += value
        else:
            self.text += compact(value)
            self.more += JSON


class ReferenceCosts:
    """Counts messages as the reference does: ``media`` estimates files (1.71), else their JSON is counted (1.0)."""

    conversation: float = 24
    least: float = float("-inf")

    def __init__(self, counting: Counting, *, media: bool) -> None:
        self.counting = counting
        self.media = media

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return what a message costs; it may be less than nothing."""
        tally = Tally(message.role)
        if prompt:
            for part in message.parts:
                self._prompt_part(tally, part)
        else:
            self._stored(tally, message)
        return self.counting.count(tally.text) + tally.more

    def system(self, message: Message) -> float:
        """Return what a system message costs."""
        return self.counting.count(f"system{message.text}") + MESSAGE

    def _stored(self, tally: Tally, message: Message) -> None:
        [stored] = dump_messages([message], format="stored")
        content: Any = stored["content"]
        for part in content.get("parts") or ():
            self._stored_part(tally, part)
        if not content.get("parts"):
            tally.text += content.get("content") or ""

    def _stored_part(self, tally: Tally, part: dict[str, Any]) -> None:
        match part.get("type"):
            case "text":
                tally.text += part["text"]
            case "tool-invocation":
                self._invocation(tally, part["toolInvocation"])
            case "file" if self.media:
                tally.more += media(_type_of(part), part.get("data") or part.get("url"))
            case _:
                tally.text += compact(part)

    def _invocation(self, tally: Tally, call: dict[str, Any]) -> None:
        if call.get("state") != "result":
            tally.text += call["toolName"]
            if "args" in call:
                tally.value(call["args"])
            return
        tally.more += RESULT
        if "result" in call and not (self.media and self._media_result(tally, call["result"])):
            tally.value(call["result"])

    def _media_result(self, tally: Tally, result: Value) -> bool:
        """Add a result that is a file, or several, and tell whether it is."""
        items: Iterable[Value] = result if is_items(result) else [result]
        if not items or not all(is_mapping(item) and "data" in item and _type_of(item) for item in items):
            return False
        for item in items:
            tally.more += media(_type_of(item), item["data"])
            tally.text += compact({key: value for key, value in item.items() if key != "data"})
        tally.more += JSON
        return True

    def _prompt_part(self, tally: Tally, part: Part) -> None:
        match part:
            case TextPart() | ReasoningPart():
                tally.text += part.text
            case ToolPart():
                self._prompt_tool(tally, part)
            case ImagePart():
                tally.more += media(part.media_type or "image/*", part.data or part.url)
            case FilePart() | AudioPart():
                tally.more += media(part.media_type, part.data or part.url)
            case _:
                pass

    def _prompt_tool(self, tally: Tally, part: ToolPart) -> None:
        if part.state in ("partial", "call"):
            tally.text += part.name
            tally.value(part.arguments)
            return
        said = part.error if part.state == "error" else part.result
        if is_items(said) and said and all(is_mapping(item) and "type" in item for item in said):
            self._content(tally, said)
        else:
            tally.value(said)

    def _content(self, tally: Tally, items: Iterable[Value]) -> None:
        """Add a result that is content: texts as they are, files by their size; 12 less, once."""
        for item in items:
            if item["type"] == "text":
                tally.text += str(item.get("text", ""))
            elif "data" in item:
                tally.more += media(_type_of(item), item["data"])
                tally.text += compact({key: value for key, value in thaw(item).items() if key != "data"})
            else:
                tally.text += compact(item)
        tally.more += JSON

    def __eq__(self, other: object) -> bool:
        """Tell whether both count alike."""
        return isinstance(other, ReferenceCosts) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _type_of(item: dict[str, Any]) -> str | None:
    found = next((item[key] for key in _MEDIA_TYPE if key in item), None)
    return found if isinstance(found, str) else None
