"""Other libraries' ways to trim a conversation to a number of tokens, of those that are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from penstock import Message
from penstock.models.tokens.bpe import load


def all_of(messages: list[Message], limit: int, frame: int, conversation: int) -> dict[str, Callable[[], list[str]]]:
    """Return by library what trims the messages to the limit, and gives the ids of what stays."""
    return {"langchain-core": langchain(messages, limit - conversation, frame)} if find_spec("langchain_core") else {}


def langchain(messages: list[Message], limit: int, frame: int) -> Callable[[], list[str]]:
    """Return `trim_messages`: from the newest back, the system's message kept, beginning with a question."""
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, trim_messages

    kinds: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    given = [kinds[message.role](content=message.text, id=message.id) for message in messages]
    encode = load("o200k_base").encode_ordinary

    def tokens(message: BaseMessage) -> int:
        return frame + len(encode(str(message.content)))

    tokens.__annotations__["message"] = BaseMessage  # so that it is called for one message, not for lists of them

    def trim() -> list[str]:
        kept = trim_messages(
            given,
            max_tokens=limit,
            strategy="last",
            token_counter=tokens,
            include_system=True,
            start_on="human",
        )
        return [str(message.id) for message in kept]

    return trim
