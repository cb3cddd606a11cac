"""A rough usage of a model call whose provider reported none: from its texts, and rather too high than too low."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.model import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.messages import Message

_BYTES = 2
"""Bytes of UTF-8 for one token. In o200k_base English has about 4.5, Chinese 4, JSON 3, base64 1.5."""


def rough_usage(messages: Iterable[Message], answer: str = "") -> Usage:
    """Return the usage of a call, by the length of its messages and of what arrived of its answer."""
    asked = sum(_tokens(message.text) for message in messages)
    return Usage(asked, _tokens(answer))


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="surrogatepass")) // _BYTES)
