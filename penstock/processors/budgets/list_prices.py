"""`GenaiPrices`: list prices of some thirty providers, from the library genai-prices; the one module that knows it.

The library brings its data along. It can also fetch newer ones over the network: that is never begun here. Whoever
begins it (``genai_prices.UpdatePrices``) has the newer prices here, too.
"""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.processors.budgets.price_tables import cache_written

if TYPE_CHECKING:
    from decimal import Decimal

    from penstock.engine.values.model import Usage

_NAMES = {"gemini": "google", "bedrock": "aws", "grok": "x-ai", "google-gla": "google", "google-vertex": "google"}
_NOBODY = frozenset({"openai-compatible"})  # any server: the library would take it for OpenAI's, by the name's sound


class GenaiPrices:
    """The list prices of the library genai-prices (extra ``prices``), in US dollars, as a `PriceTable`.

    A price is looked up by provider and model (``openai/gpt-5``, ``anthropic:claude-haiku-4-5``), or by the model
    alone. It knows no discount of yours, and none of a batch's.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self) -> None:
        if not installed():
            raise MissingExtraError("a table of list prices", "prices")

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return what so many tokens of a model cost; None if the library does not know its price."""
        from genai_prices import (
            Usage as Counts,  # it and its data take half a second to load, once a process
            calc_price,
        )

        asked = usage.input_tokens or 0
        cached = min(usage.cached_tokens or 0, asked)
        written = min(cache_written(usage), asked - cached)
        counts = Counts(
            input_tokens=asked,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=cached or None,
            cache_write_tokens=written or None,
        )
        provider, name = provider_and_model(model)
        if provider in _NOBODY:
            return None
        try:
            return calc_price(counts, name, provider_id=provider).total_price
        except (LookupError, ValueError):  # it knows no such model; it cannot price such tokens
            return None

    def prepare(self) -> None:
        """Begin to load the library in a thread, so that the first look-up need not wait so long."""
        if not _threads:
            _threads.append(Thread(target=_load, name="penstock-prices", daemon=True))
            _threads[0].start()

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is one as well: there is one list."""
        return isinstance(other, GenaiPrices)

    def __hash__(self) -> int:
        """Hash by the class."""
        return hash(GenaiPrices)

    def __repr__(self) -> str:
        """Show the class."""
        return "GenaiPrices()"


def installed() -> bool:
    """Tell whether the library is there, without loading it."""
    return importlib.util.find_spec("genai_prices") is not None


def provider_and_model(name: str) -> tuple[str | None, str]:
    """Return the provider, by the library's name for it, and the model; None for a name without a provider."""
    found = _PROVIDER.match(name)
    if found is None:
        return None, name
    provider = found[1].lower()
    return _NAMES.get(provider, provider), found[2]


_PROVIDER = re.compile(r"([^/:]+)[/:](.+)", re.DOTALL)
_threads: list[Thread] = []


def _load() -> None:
    with suppress(Exception):  # whoever asks for a price meets it again, and can be told
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()


def _finish() -> None:
    """Let the thread come to its end: a child process would wait forever for what it was importing."""
    for thread in _threads:
        thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish)
