"""`MemoryTokenLimiter`: the older limiter of remembered messages; it knows no stage and no tokenizer.

A message counts as its role and all that it says in one go, and 3.8 tokens more; a conversation as its messages and 24
more; an image counts 765 at most (the reference's figures, builtins.md §7.1.2 and §14).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Value, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, TextPart, ToolPart
from penstock.models.conversations.pairs import tool_parts, without_pairs
from penstock.models.tokens.counters import counting
from penstock.processors.memory.legacy import LegacyMemoryProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.values.messages import Part
    from penstock.engine.values.ports import TokenCounter

TOKENS_PER_MESSAGE = 3.8
TOKENS_PER_CONVERSATION = 24
TOKENS_PER_MEDIUM = 765
"""What an image, a sound or a file counts at most: no provider reads base64 as text."""

_MEDIA = (ImagePart, AudioPart, FilePart)
_MEDIA_CHARACTERS = 4 * TOKENS_PER_MEDIUM


class MemoryTokenLimiter(LegacyMemoryProcessor):
    """Keeps the newest of what was remembered, as much as fits into a budget beside system messages and new ones.

    It goes from the newest message back and stops at the first that does not fit. Results whose calls were cut off go
    with them. For `LegacyMemory`; put it last.
    """

    def __init__(
        self,
        limit: float,
        *,
        encoding: str = "o200k_base",
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
    ) -> None:
        """Check the options.

        Args:
            limit: the budget in tokens, 0 or more.
            encoding: what counts, if no ``token_counter`` is given.
            token_counter: an object with ``count(text)``, a function from text to tokens, an encoding's name, or
                ``"heuristic"``.

        Raises:
            OptionError: an option that is not allowed.
        """
        super().__init__()
        if not _is_budget(limit):
            raise OptionError(type(self).__name__, "limit", limit, "a number of tokens from 0 on")
        self.limit = limit
        self.token_counter = counting(type(self).__name__, token_counter, encoding)
        self.token_counter.prepare()

    def count(self, message: Message) -> float:
        """Return how many tokens a message counts; never less than the 3.8 that each message costs."""
        texts: list[str] = [message.role]
        media = 0
        for part in message.parts:
            text = _said(part)
            if isinstance(part, _MEDIA) and len(text) > _MEDIA_CHARACTERS:
                media += 1
            else:
                texts.append(text)
        return self.token_counter.count("".join(texts)) + media * TOKENS_PER_MEDIUM + TOKENS_PER_MESSAGE

    def process(
        self,
        messages: Sequence[Message],
        *,
        system_message: str | None = None,
        memory_system_message: str | None = None,
        new_messages: Sequence[Message] = (),
    ) -> Sequence[Message]:
        """Return the newest of the messages, as many as fit."""
        total: float = TOKENS_PER_CONVERSATION
        for text in (system_message, memory_system_message):
            total += self.count(Message.system(text)) if text else 0
        every = (*messages, *new_messages)
        first = len(every)
        while first and (total := total + self.count(every[first - 1])) <= self.limit:
            first -= 1
        kept = messages[first:]
        return without_pairs(kept, tool_parts(messages[:first])) if first and kept else kept


def _is_budget(given: object) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given >= 0


def _said(part: Part) -> str:
    """Return what a part says: text, a call's name and arguments, its result, anything else as JSON."""
    if isinstance(part, TextPart):
        return part.text
    if not isinstance(part, ToolPart):
        return _json(part)
    call = part.name + _text(part.arguments) if part.state in ("partial", "call") or part.arguments else ""
    return call + (_text(part.error if part.state == "error" else part.result))


def _text(value: Value) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"))


def _json(part: Part) -> str:
    from penstock.engine.formats import dump_messages  # loaded where a conversation has more than text and tools

    found = dump_messages([Message("user", (part,))], "ai-sdk-model")
    return "".join(_text(item) for message in found for item in message["content"])
