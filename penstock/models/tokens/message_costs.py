"""What messages cost of a token budget: by the models' chat format, by the reference system, or by your own function.

The chat format: three tokens of frame and one of role for each message, and three for the start of the answer, as in
OpenAI's recipe for counting chat tokens. The frame of a tool call is not published; it is taken to be that of a
message.

The reference system: 3.8 for each message and each tool result, 24 for a conversation, and 12 less for each value that
it writes as JSON, so that small calls cost less than nothing; of a call with a result, only the result counts.
"""

from __future__ import annotations

import json
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import is_items, is_mapping, thaw
from penstock.engine.values.messages import (
    AudioPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import dump_messages
from penstock.models.tokens.counters import LiveMemo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message, Part
    from penstock.models.tokens.counters import Counting


IMAGE = 765
"""The tokens of an image of any size: what an image of 1,024 by 1,024 costs in GPT-4o (85 + 4 · 170)."""

UNKNOWN_MEDIA = 258
"""The tokens of a file behind a URL: what a page or an image costs in Gemini."""

_BYTES = 4  # bytes of a file for one token


def compact(value: Value) -> str:
    """Return a value as JSON without blanks, with non-ASCII characters unescaped."""
    return json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"), default=str)


def media(media_type: str | None, data: str | None) -> int:
    """Return the estimated tokens of an image, audio or file."""
    if (media_type or "").startswith("image/"):
        return IMAGE
    if data is None or "://" in data[:10]:
        return UNKNOWN_MEDIA
    body = data.partition(",")[2] if data.startswith("data:") else data
    return max(1, ceil(_decoded_size(body) / _BYTES))


def _decoded_size(base64: str) -> int:
    """Return how many bytes a base64 text holds."""
    return len(base64.rstrip("=")) * 3 // 4


FRAME = 4
"""The tokens of a message besides its content."""


class ChatCosts:
    """Counts messages by the chat format of models.

    Attributes:
        conversation: the cost of a prompt besides its messages.
        least: the lowest cost that a message can have.
    """

    conversation: float = 3
    least: float = FRAME

    def __init__(self, counting: Counting) -> None:
        self.counting = counting

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return the cost of a message as it is stored, or (``prompt``) as it is sent to the model: here, the same."""
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
            case _:  # data of an application, sources and step marks are not sent to the model
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


MESSAGE = 3.8
RESULT = 3.8
JSON_VALUE = -12.0

_MEDIA_TYPE = ("mediaType", "mimeType")


class CountedMessage:
    """The counts of one message: the text that is counted as one, and the tokens added to it."""

    def __init__(self, role: str) -> None:
        self.text = role
        self.more = MESSAGE

    def value(self, value: Value) -> None:
        """Add a value: a str unchanged, any other value as JSON, which costs 12 less."""
        if isinstance(value, str):
            self.text += value
        else:
            self.text += compact(value)
            self.more += JSON_VALUE


class ReferenceCosts:
    """Counts messages as the reference system does.

    Args:
        counting: counts the text.
        media: whether files are estimated (version 1.71) or their JSON is counted (1.0).
    """

    conversation: float = 24
    least: float = float("-inf")

    def __init__(self, counting: Counting, *, media: bool) -> None:
        self.counting = counting
        self.media = media

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return the cost of a message; it may be negative."""
        tally = CountedMessage(message.role)
        if prompt:
            for part in message.parts:
                self._prompt_part(tally, part)
        else:
            self._stored(tally, message)
        return self.counting.count(tally.text) + tally.more

    def system(self, message: Message) -> float:
        """Return the cost of a system message."""
        return self.counting.count(f"system{message.text}") + MESSAGE

    def _stored(self, tally: CountedMessage, message: Message) -> None:
        [stored] = dump_messages([message], format="stored")
        content: Any = stored["content"]
        for part in content.get("parts") or ():
            self._stored_part(tally, part)
        if not content.get("parts"):
            tally.text += content.get("content") or ""

    def _stored_part(self, tally: CountedMessage, part: dict[str, Any]) -> None:
        match part.get("type"):
            case "text":
                tally.text += part["text"]
            case "tool-invocation":
                self._invocation(tally, part["toolInvocation"])
            case "file" if self.media:
                tally.more += media(_media_type_of(part), part.get("data") or part.get("url"))
            case _:
                tally.text += compact(part)

    def _invocation(self, tally: CountedMessage, call: dict[str, Any]) -> None:
        if call.get("state") != "result":
            tally.text += call["toolName"]
            if "args" in call:
                tally.value(call["args"])
            return
        tally.more += RESULT
        if "result" in call and not (self.media and self._media_result(tally, call["result"])):
            tally.value(call["result"])

    def _media_result(self, tally: CountedMessage, result: Value) -> bool:
        """Add a result that consists of files, and tell whether it does."""
        items: Iterable[Value] = result if is_items(result) else [result]
        if not items or not all(is_mapping(item) and "data" in item and _media_type_of(item) for item in items):
            return False
        for item in items:
            tally.more += media(_media_type_of(item), item["data"])
            tally.text += compact({key: value for key, value in item.items() if key != "data"})
        tally.more += JSON_VALUE
        return True

    def _prompt_part(self, tally: CountedMessage, part: Part) -> None:
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

    def _prompt_tool(self, tally: CountedMessage, part: ToolPart) -> None:
        if part.state in ("partial", "call"):
            tally.text += part.name
            tally.value(part.arguments)
            return
        said = part.error if part.state == "error" else part.result
        if is_items(said) and said and all(is_mapping(item) and "type" in item for item in said):
            self._content(tally, said)
        else:
            tally.value(said)

    def _content(self, tally: CountedMessage, items: Iterable[Value]) -> None:
        """Add a result that is content: texts unchanged, files by their size; 12 less, once."""
        for item in items:
            if item["type"] == "text":
                tally.text += str(item.get("text", ""))
            elif "data" in item:
                tally.more += media(_media_type_of(item), item["data"])
                tally.text += compact({key: value for key, value in thaw(item).items() if key != "data"})
            else:
                tally.text += compact(item)
        tally.more += JSON_VALUE

    def __eq__(self, other: object) -> bool:
        """Tell whether both count alike."""
        return isinstance(other, ReferenceCosts) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _media_type_of(item: dict[str, Any]) -> str | None:
    found = next((item[key] for key in _MEDIA_TYPE if key in item), None)
    return found if isinstance(found, str) else None


Way = Literal["chat", "reference", "reference-1.0"]


class Prices:
    """The costs of messages, remembered as long as the messages live. It lives as long as its processor.

    It keeps no message alive. Of a message that is read again, only the texts' counts are remembered.
    """

    def __init__(self, costs: ChatCosts | ReferenceCosts | OwnCosts) -> None:
        self.costs = costs
        self._kept: LiveMemo[Message, float] = LiveMemo()
        self._sent: LiveMemo[Message, float] = LiveMemo()

    def kept(self, message: Message) -> float:
        """Return the cost of a message as it is stored."""
        found = self._kept.get(message)
        if found is None:
            found = self.costs.of(message)
            self._kept.put(message, found)
        return found

    def sent(self, message: Message) -> float:
        """Return the cost of a message as it is sent to the model."""
        found = self._sent.get(message)
        if found is None:
            found = self.costs.of(message, prompt=True)
            self._sent.put(message, found)
        return found

    def __eq__(self, other: object) -> bool:
        """Tell whether both count alike."""
        return isinstance(other, Prices) and self.costs == other.costs

    __hash__ = None  # type: ignore[assignment]


class OwnCosts:
    """Costs by a user's object, whose ``count_message`` takes a message and returns a number."""

    conversation: float = 3
    least: float = 0

    def __init__(self, counter: object) -> None:
        self.counter = counter

    def of(self, message: Message, *, prompt: bool = False) -> float:
        """Return the number.

        Raises:
            UsageError: it is not a number of 0 or more.
        """
        del prompt
        count = cast("Callable[[Message], object]", self.counter.count_message)  # type: ignore[attr-defined]
        found = count(message)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not isfinite(found) or found < 0:
            raise UsageError("count_message of the token counter must return a number of 0 or more")
        return found

    system = of

    def __eq__(self, other: object) -> bool:
        """Tell whether both ask the same object."""
        return isinstance(other, OwnCosts) and self.counter == other.counter

    __hash__ = None  # type: ignore[assignment]


def prices(counting: Counting, way: Way, counter: object = None) -> Prices:
    """Return the costs of messages: by the counter's own ``count_message``, if it has one, else in a way."""
    if callable(getattr(counter, "count_message", None)):
        return Prices(OwnCosts(counter))
    if way == "chat":
        return Prices(ChatCosts(counting))
    return Prices(ReferenceCosts(counting, media=way == "reference"))
